"""The slots of an index file: the newest entry of each chain, in memory as far as it is needed."""

import sys
from array import array
from collections.abc import Iterator, Sequence
from itertools import islice
from mmap import mmap
from typing import Final, final

from ..disk._files import File

SLOT_BYTES: Final = 4
PAGE_SLOTS: Final = 1024
PAGE_BYTES: Final = PAGE_SLOTS * SLOT_BYTES
RUN_PAGES: Final = 64
"""Number of pages at most that are written by one call."""
IS_LITTLE_ENDIAN: Final = sys.byteorder == "little"
UNREAD, CLEAN, DIRTY = range(3)


@final
class SlotTable:
    """The numbers of ``slots`` slots, which stand in ``file`` from byte ``begin`` on.

    Pages are read when they are first asked for, and written by ``write_out``. Hashes spread over
    all slots, so the numbers lie in one piece of memory, of which the system provides what is
    touched.
    """

    __slots__ = ("_begin", "_file", "_numbers", "_slots", "_states")

    def __init__(self, file: File, *, slots: int, begin: int, is_new: bool) -> None:
        self._file = file
        self._slots = slots
        self._begin = begin
        self._states = bytearray(-(-slots // PAGE_SLOTS))
        self._numbers = memoryview(b"").cast("i")
        if is_new:  # there is nothing to read in a file of zeros
            self._make_room()
            self._states = bytearray((CLEAN,)) * len(self._states)

    def newest(self, hash_: int) -> int:
        """Return the number in the slot of a hash, as it stands there."""
        slot = hash_ % self._slots
        page = slot // PAGE_SLOTS
        if self._states[page] == UNREAD:
            self._read(page)
        return self._numbers[slot]

    def link(self, hashes: Sequence[int], number: int) -> list[int]:
        """Make entries ``number``, ``number`` + 1, ... the newest of the slots of ``hashes``.

        Returns for each the entry that was the newest before; 0 for none.
        """
        slots, states, numbers = self._slots, self._states, self._numbers
        previous = []
        for hash_ in hashes:
            slot = hash_ % slots
            page = slot // PAGE_SLOTS
            if states[page] != DIRTY:
                if states[page] == UNREAD:
                    self._read(page)
                    numbers = self._numbers
                states[page] = DIRTY
            before = numbers[slot]
            numbers[slot] = number
            previous.append(before if 0 < before < number else 0)
            number += 1
        return previous

    def clear(self) -> None:
        """Empty all slots, also those in the file, once they are written out."""
        self.drop()
        at, end = self._file.next_data(self._begin), self._begin + self._slots * SLOT_BYTES
        while 0 <= at < end:
            page = (at - self._begin) // PAGE_BYTES
            self._make_room()
            self._states[page] = DIRTY
            at = self._file.next_data(self._begin + (page + 1) * PAGE_BYTES)

    @property
    def is_dirty(self) -> bool:
        """True if pages have changed that are not written."""
        return self._states.find(DIRTY) >= 0

    def write_out(self, runs: int | None = None) -> None:
        """Write the pages that changed, or the first ``runs`` of them that lie together.

        Raises ``OSError``; they are written again then.
        """
        for first, behind in islice(self._dirty_runs(), runs):
            numbers = array("i")
            numbers.frombytes(self._numbers[first * PAGE_SLOTS : behind * PAGE_SLOTS].cast("B"))
            if IS_LITTLE_ENDIAN:
                numbers.byteswap()
            self._file.write(self._begin + first * PAGE_BYTES, numbers.tobytes())
            for page in range(first, behind):
                self._states[page] = CLEAN

    def drop(self) -> None:
        """Release the memory; what was not written out is lost."""
        self._states = bytearray(len(self._states))
        self._numbers = memoryview(b"").cast("i")

    def _dirty_runs(self) -> Iterator[tuple[int, int]]:
        states = self._states
        first = states.find(DIRTY)
        while first >= 0:
            behind = first + 1
            while behind < min(first + RUN_PAGES, len(states)) and states[behind] == DIRTY:
                behind += 1
            yield first, behind
            first = states.find(DIRTY, behind)

    def _make_room(self) -> None:
        if not self._numbers:
            self._numbers = memoryview(mmap(-1, self._slots * SLOT_BYTES)).cast("i")

    def _read(self, page: int) -> None:
        self._make_room()
        begin = page * PAGE_SLOTS
        count = min(PAGE_SLOTS, self._slots - begin)
        numbers = array("i", self._file.read(self._begin + page * PAGE_BYTES, count * SLOT_BYTES))
        if IS_LITTLE_ENDIAN:
            numbers.byteswap()
        self._numbers[begin : begin + count] = memoryview(numbers)
        self._states[page] = CLEAN
