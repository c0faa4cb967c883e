"""The fate of each half message: a pure table over offsets of the half queue.

A half message is open until its transaction ends, or until a check has renewed it: then a copy
further back in the queue stands for it, and its origin names both. Offsets count messages.
"""

import enum
from array import array
from collections.abc import Collection
from typing import Final, final

from ...net._turns import LOOKS_OF_A_STEP

PAST_MAX: Final = 1 << 20
"""Half messages that are remembered though all before them have ended: an end that comes twice
is recognised among these."""
LINKS_MAX: Final = 1 << 18
"""Renewed half messages whose earlier places are known."""


class Fate(enum.IntEnum):
    """The fate of a half message."""

    OPEN = 0
    ENDED = 1
    """Committed or rolled back."""
    RENEWED = 2
    """A later copy stands for it."""
    DISCARDED = 3
    """Checked too often, or too old."""


@final
class HalfMessages:
    """The half messages from ``begin`` on, of which a byte each is kept, and some before.

    ``op_begin`` is the offset of the first op message that is still needed: those before it
    name only half messages before ``begin``. ``first`` and ``op_first``, at or before these, are
    those from which on the queues are going to be read.
    """

    def __init__(
        self,
        begin: int,
        op_begin: int,
        *,
        first: int | None = None,
        op_first: int | None = None,
        past_max: int = PAST_MAX,
        links_max: int = LINKS_MAX,
    ) -> None:
        self.begin = begin
        self.op_begin = op_begin
        self._past_max = past_max
        self._links_max = links_max
        self._first = begin if first is None else first
        self._fates = bytearray(begin - self._first)
        self._op_first = op_begin if op_first is None else op_first
        self._ops = array("q")  # of each op message from _op_first on: the last offset it names
        self._current: dict[int, int] = {}  # origin -> offset of the open copy

    @property
    def op_next(self) -> int:
        """Offset behind the last op message that was noted."""
        return self._op_first + len(self._ops)

    def fate(self, offset: int) -> Fate | None:
        """Return the outcome of a half message; None if that is too long ago to be known."""
        index = offset - self._first
        if index < 0:
            return None
        return Fate(self._fates[index]) if index < len(self._fates) else Fate.OPEN

    def resolve(self, offset: int, origin: int) -> int | None:
        """Return the half message that an end for ``offset`` ends; None where that was done.

        ``origin`` is the place that the message had first, its own where it was never renewed.
        An end that comes too late to be compared, or for a discarded message, is taken for the
        first one, as the reference takes all.
        """
        current = self._current.get(origin)
        while current is not None and self.fate(current) is Fate.RENEWED:
            current = self._current.get(current)
        if current is not None and self.fate(current) is Fate.OPEN:
            return current
        return None if self.fate(offset) in (Fate.ENDED, Fate.RENEWED) else offset

    def ended(self, op_offset: int, offsets: Collection[int], *, origin: int | None = None) -> None:
        """Note an op message, which says that the transactions of ``offsets`` have ended."""
        for offset in offsets:
            self._set(offset, Fate.ENDED)
        if origin is not None:
            self._current.pop(origin, None)
        while self.op_next < op_offset:
            self._ops.append(-1)  # not there, or not readable
        if op_offset == self.op_next:
            self._ops.append(max(offsets, default=-1))
        self._advance()

    def renewed(self, origin: int, offset: int, copy: int) -> None:
        """Note that a later ``copy`` stands for the half message at ``offset``."""
        if origin not in self._current and len(self._current) >= self._links_max:
            # An end for an earlier place could not be led to the copy: it ends that place alone.
            self._set(offset, Fate.DISCARDED)
        else:
            self._current[origin] = copy
            self._set(offset, Fate.RENEWED)
        self._advance()

    def found_copy(self, origin: int, copy: int, over: set[int]) -> None:
        """Note a copy that was read from the queue, all ends and earlier copies having been noted.

        ``over`` are the origins that have ended at any of their places: a broker that was killed
        may have made several copies of one message.
        """
        before = self._current.pop(origin, origin)
        if Fate.ENDED in (self.fate(origin), self.fate(copy)):
            over.add(origin)
        if self.fate(before) is Fate.OPEN:
            self._set(before, Fate.RENEWED)
        if origin in over:
            self._set(copy, Fate.ENDED)
        elif self.fate(copy) is Fate.OPEN and len(self._current) < self._links_max:
            self._current[origin] = copy
        self._advance()

    def discarded(self, offset: int, origin: int | None = None) -> None:
        """Note a half message that is discarded: it is no longer checked."""
        if origin is not None:
            self._current.pop(origin, None)
        self._set(offset, Fate.DISCARDED)
        self._advance()

    def skip(self, offset: int) -> None:
        """Note that the half messages before ``offset`` are no longer in the log."""
        if offset > self.begin:
            del self._fates[: offset - self._first]
            self._first = self.begin = offset
            self._advance()

    def next_open(self, offset: int) -> int:
        """Return the first open half message from ``offset`` on, there or still to come."""
        index = max(offset, self.begin) - self._first
        found = self._fates.find(Fate.OPEN, index)
        return self._first + (max(index, len(self._fates)) if found < 0 else found)

    def _set(self, offset: int, fate: Fate) -> None:
        index = offset - self._first
        if index < 0:
            return
        missing = index + 1 - len(self._fates)
        if missing > 0:
            self._fates.extend(bytes(missing))
        self._fates[index] = fate

    def advance(self) -> bool:
        """Pass over op messages that are no longer needed, a number of them at most; returns
        whether there may be more.

        The end of an old transaction, which millions may have come behind, frees all of theirs.
        """
        ops, index = self._ops, max(0, self.op_begin - self._op_first)
        until = min(len(ops), index + LOOKS_OF_A_STEP)
        begin = self.begin
        while index < until and ops[index] < begin:
            index += 1
        self.op_begin = max(self.op_begin, self._op_first + index)
        goes_on = index == until < len(ops)
        if index > len(ops) // 2 and index <= len(ops):
            del ops[:index]
            self._op_first = self.op_begin
        return goes_on

    def _advance(self) -> None:
        self.begin = self.next_open(self.begin)
        past = self.begin - self._first
        if past > 2 * self._past_max:
            del self._fates[: past - self._past_max]
            self._first = self.begin - self._past_max
        self.advance()
