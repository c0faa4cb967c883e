"""The requests of one client that a broker has not answered yet."""

from collections import OrderedDict, deque
from typing import Final, final

from lanemq.wire import LanguageCode, ResponseCode, Version
from lanemq.wire.frame import Frame, SerializeType

from ..net._session import Session
from ._answers import HELD
from .order import PULLS, SENDS

ASKED_MAX: Final = 65_536
"""Most requests of a client that are not answered yet; beyond it the oldest is forgotten."""
ASKED_BYTES: Final = 128
"""The bytes charged for the note of such a request."""
REFUSED_MAX: Final = 4096
"""Most requests refused one by one at the end of a link; the end of the client's connection is for
the others."""
CHARGED_TOGETHER: Final = 64
"""Notes that are charged together: a client that waits for few costs nothing more."""


def waits_for_answers(session: Session) -> bool:
    """Return whether a client does not see that its connection has ended, and waits for the
    time-out of what it has asked. Source: NettyRemotingAbstract.failFast, later than 4.2.0."""
    return session.language == LanguageCode.JAVA.name and session.version <= Version.V4_2_0


@final
class _Era:
    """The numbers of what was asked between two marks and has no answer yet."""

    __slots__ = ("number", "pulls", "sends")

    def __init__(self, number: int) -> None:
        self.number = number
        self.sends = self.pulls = 0


@final
class Asked:
    """Notes of requests by their numbers."""

    def __init__(self, *, is_marked: bool = True) -> None:
        """Without ``is_marked`` nothing is counted for marks, and none is made."""
        # Ordered by links: in a dict, the way to the oldest leads over all that have left before.
        self._codes = OrderedDict[int, int]()
        self._is_marked = is_marked
        self._era_of: dict[int, _Era] = {}
        self._era = era = _Era(1)
        # Those of which something may be left, the latest last: moves look at the first ones only,
        # however many requests have no answer.
        self._eras, self._eras_of_sends = deque([era]), deque([era])
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
            self.take(next(iter(codes)))
        if self._is_marked:
            if opaque in codes:
                self._uncount(opaque, codes[opaque])
            self._count(opaque, code)
        codes[opaque] = code
        if start or self._starts:
            self._starts[opaque] = start

    def code(self, opaque: int) -> int | None:
        """Return the code of a request; None for one that is not known."""
        return self._codes.get(opaque)

    def take(self, opaque: int) -> tuple[int | None, int]:
        """Return the code of a request and its ``start``, and forget it; None for one that is not
        known."""
        code = self._codes.pop(opaque, None)
        if self._is_marked and code is not None:
            self._uncount(opaque, code)
        return code, self._starts.pop(opaque, 0)

    def _count(self, opaque: int, code: int) -> None:
        era = self._era
        if code in SENDS:
            era.sends += 1
        elif code in PULLS:
            era.pulls += 1
        else:
            return
        self._era_of[opaque] = era

    def _uncount(self, opaque: int, code: int) -> None:
        if code in SENDS:
            self._era_of.pop(opaque).sends -= 1
        elif code in PULLS:
            self._era_of.pop(opaque).pulls -= 1

    def mark(self) -> int:
        """Return a mark of what is asked by now."""
        era = self._era
        if not era.sends and not era.pulls:
            return era.number - 1
        self._begin_era()
        return era.number

    def _begin_era(self) -> None:
        self._era = _Era(self._era.number + 1)
        self._eras.append(self._era)
        self._eras_of_sends.append(self._era)

    def waits_since(self, mark: int) -> bool:
        """Return whether a send or a pull from before a mark has no answer yet."""
        eras = self._eras
        while len(eras) > 1 and not eras[0].sends and not eras[0].pulls:
            eras.popleft()
        return eras[0].number <= mark

    def sends_since(self, mark: int) -> bool:
        """Return whether a send from before a mark has no answer yet."""
        eras = self._eras_of_sends
        while len(eras) > 1 and not eras[0].sends:
            eras.popleft()
        return eras[0].number <= mark

    def refused(self, serialize: SerializeType, remark: str, *, sends: bool = True) -> list[Frame]:
        """Return refusals of the latest ``REFUSED_MAX`` requests, and forget all. Without ``sends``
        these get none: Java's clients send a message again after the end of a connection, but after
        a refusal only where a caller waits for the answer, and has left the queue to the client.

        Source: RocketMQ 4.9.8, MQClientAPIImpl.sendMessageAsync, onExceptionImpl.
        """
        asked = self._codes.items()
        found = [(at, code) for at, code in asked if sends or code not in SENDS][-REFUSED_MAX:]
        self._codes.clear()
        self._starts.clear()
        self._era_of.clear()
        self._begin_era()
        for eras in (self._eras, self._eras_of_sends):
            eras.clear()
            eras.append(self._era)
        return [
            Frame(code, opaque=opaque, serialize=serialize).reply(
                ResponseCode.SERVICE_NOT_AVAILABLE, remark=remark
            )
            for opaque, code in found
        ]
