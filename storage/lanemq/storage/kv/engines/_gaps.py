"""The distance to look ahead where many rows are gone.

RocksDB passes over deleted rows one by one, however many there are, and an iterator that gives up
after so many does not say where. So what is looked at is a range that is made smaller until it
is read to its end. Keys are taken as binary fractions: the end of a range of level n is its begin,
cut behind bit n, plus 2^-n.
"""

from typing import final

_FIRST_LEVEL = 8  # the first byte of a key is the kind of its row


def range_end(begin: bytes, level: int) -> bytes | None:
    """Return the end of the range of ``level`` at ``begin``; None where no key is behind it."""
    size = (level + 7) // 8
    below = size * 8 - level
    number = int.from_bytes(begin[:size].ljust(size, b"\0"), "big")
    number = ((number >> below) + 1) << below
    if number >> (size * 8):
        return None
    return number.to_bytes(size, "big").rstrip(b"\0")


def range_begin(end: bytes, level: int) -> bytes:
    """Return the begin of the range of ``level`` that ends at ``end``, which is not empty."""
    size = (level + 7) // 8
    below = size * 8 - level
    number = int.from_bytes(end[:size].ljust(size, b"\0"), "big")
    begin = (number >> below) << below
    if begin == number and len(end.rstrip(b"\0")) <= size:
        begin = max(0, begin - (1 << below))
    return begin.to_bytes(size, "big").rstrip(b"\0")


@final
class ReversedRanges:
    """The ranges to look at, one before another, from ``end`` down to ``begin``."""

    def __init__(self, begin: bytes, end: bytes) -> None:
        self.end = end
        self._begin = begin
        self._level: int | None = None  # all there is
        self._step = 0  # as that of ``Ranges``

    @property
    def begin(self) -> bytes:
        """The begin of the range to look at next."""
        if self._level is None:
            return self._begin
        return max(self._begin, range_begin(self.end, self._level))

    @property
    def is_done(self) -> bool:
        return self.end <= self._begin

    def read(self, begin: bytes) -> None:
        """Go on before a range that was read to its ``begin``, with larger ones."""
        self.end = begin
        if self._level is not None:
            self._step = self._step * 2 if self._step < 0 else -1
            self._level = max(_FIRST_LEVEL, self._level + self._step)

    def gave_up(self, end: bytes) -> None:
        """Try a smaller range up to ``end``."""
        if self._level is None or end != self.end:
            self._level, self._step = max(_FIRST_LEVEL, 8 * len(end)), 0
        else:
            self._step = self._step * 2 if self._step > 0 else 1
            self._level += self._step
        self.end = end


@final
class Ranges:
    """The ranges to look at, one after another, from ``begin`` up to ``end``."""

    def __init__(self, begin: bytes, end: bytes) -> None:
        self.begin = begin
        self._end = end
        self._level: int | None = None  # all there is
        self._step = 0  # the last change of the level; the next one of this sign is twice that

    @property
    def end(self) -> bytes:
        """The end of the range to look at next."""
        if self._level is None:
            return self._end
        end = range_end(self.begin, self._level)
        return self._end if end is None or end > self._end else end

    @property
    def is_done(self) -> bool:
        return self.begin >= self._end

    def read(self, end: bytes) -> None:
        """Go on behind a range that was read to its ``end``, with larger ones."""
        self.begin = end
        if self._level is not None:
            self._step = self._step * 2 if self._step < 0 else -1
            self._level = max(_FIRST_LEVEL, self._level + self._step)

    def gave_up(self, begin: bytes) -> None:
        """Try a smaller range from ``begin`` on, which is behind the last row that was found."""
        if self._level is None or begin != self.begin:
            # Where a range ended before, its key is about as long as its level.
            self._level, self._step = max(_FIRST_LEVEL, 8 * len(begin)), 0
        else:
            self._step = self._step * 2 if self._step > 0 else 1
            self._level += self._step
        self.begin = begin
