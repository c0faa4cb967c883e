"""The requests of one client that a broker has not answered yet."""

from typing import Final, final

from lanemq.wire import ResponseCode
from lanemq.wire.frame import Frame, SerializeType

from ._answers import HELD

ASKED_MAX: Final = 65_536
"""Most requests of a client that are not answered yet; beyond it the oldest is forgotten."""
ASKED_BYTES: Final = 128
"""The bytes charged for the note of such a request."""
REFUSED_MAX: Final = 4096
"""Most requests refused one by one at the end of a link; the end of the client's connection is for
the others."""
CHARGED_TOGETHER: Final = 64
"""Notes that are charged together: a client that waits for few costs nothing more."""


@final
class Asked:
    """Notes of requests by their numbers."""

    def __init__(self) -> None:
        self._codes: dict[int, int] = {}
        self._starts: dict[int, int] = {}
        """Of these, those whose answers have other numbers of queues (``Passed``)."""

    def __len__(self) -> int:
        return len(self._codes)

    @property
    def waiting(self) -> int:
        """The number of requests that the broker is to answer at once."""
        return sum(code not in HELD for code in self._codes.values())

    @property
    def charged_bytes(self) -> int:
        """The bytes that the client is charged for."""
        notes = len(self._codes) + len(self._starts)
        return notes // CHARGED_TOGETHER * CHARGED_TOGETHER * ASKED_BYTES

    def add(self, opaque: int, code: int, start: int) -> None:
        """Note a request; ``start`` is as in ``Passed``."""
        codes = self._codes
        if len(codes) >= ASKED_MAX:
            del codes[oldest := next(iter(codes))]
            self._starts.pop(oldest, None)
        codes[opaque] = code
        if start or self._starts:
            self._starts[opaque] = start

    def take(self, opaque: int) -> tuple[int | None, int]:
        """Return the code of a request and its ``start``, and forget it; None for one that is not
        known."""
        return self._codes.pop(opaque, None), self._starts.pop(opaque, 0)

    def refused(self, serialize: SerializeType, remark: str) -> list[Frame]:
        """Return refusals of the latest ``REFUSED_MAX`` requests, on which clients try another
        broker, and forget all."""
        found = list(self._codes.items())[-REFUSED_MAX:]
        self._codes.clear()
        self._starts.clear()
        return [
            Frame(code, opaque=opaque, serialize=serialize).reply(
                ResponseCode.SERVICE_NOT_AVAILABLE, remark=remark
            )
            for opaque, code in found
        ]
