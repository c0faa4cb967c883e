"""The youngest half messages, kept in memory until their transactions end.

Most transactions end at once. What their ends need of the half message is still here then, and
the log need not be read for it.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple, final

from lanemq.storage import NewMessage, Put, Store

BYTES_MAX: Final = 4 << 20
OVERHEAD_BYTES: Final = 512
"""The memory that one takes beside its record."""


class Half(NamedTuple):
    """A half message that is in the log, and the topic and queue that it is for."""

    put: Put
    message: NewMessage
    topic: str
    queue_id: int

    @property
    def size_bytes(self) -> int:
        """The memory that it takes, approximately."""
        return self.put.size_bytes + OVERHEAD_BYTES


@final
class RecentHalves:
    """The youngest half messages of one broker, by their log positions.

    They are found from when they are in the log until they are taken. ``when_finished`` calls back
    once all that was appended is in the log, or failed.
    """

    def __init__(self, store: Store, when_finished: Callable[[Callable[[], None]], None]) -> None:
        self._store = store
        self._when_finished = when_finished
        self._appended: list[Half] = []
        self._stored: OrderedDict[int, Half] = OrderedDict()
        self._bytes = 0

    def keep(self, half: Half) -> None:
        """Keep a half message that was appended."""
        if not self._appended:
            self._when_finished(self._finished)
        self._appended.append(half)

    def _finished(self) -> None:
        appended, self._appended = self._appended, []
        end, stored = self._store.max_position, self._stored
        for half in appended:
            if half.put.end <= end:  # else it could not be written
                stored[half.put.log_position] = half
                self._bytes += half.size_bytes
        while self._bytes > BYTES_MAX:
            self.take(next(iter(stored)))

    def find(self, log_position: int) -> Half | None:
        """Return the half message at a position; None where it is not here (any longer)."""
        return self._stored.get(log_position)

    def take(self, log_position: int) -> Half | None:
        """Return the half message at a position as ``find``, and keep it no longer."""
        half = self._stored.pop(log_position, None)
        if half is not None:
            self._bytes -= half.size_bytes
        return half
