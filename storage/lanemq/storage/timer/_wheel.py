"""The timer wheel: for each second, the newest unit of the timer log.

A wheel of fixed size; the slot of a time is used again by the time one turn later, and holds its
time so that the two are told apart. Source: RocketMQ 5.3.3, TimerWheel.
"""

import mmap
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, final

from ._layouts import NONE, SLOT_BYTES, SLOT_FIELDS

PAGE_BYTES: Final = 4096
MAX_COUNT: Final = (1 << 31) - 1
_NO_PAGE: Final = bytes(PAGE_BYTES)
_pack_into, _unpack_from = SLOT_FIELDS.pack_into, SLOT_FIELDS.unpack_from


class Slot(NamedTuple):
    """The timers of one time; ``last`` is ``NONE`` where there is none."""

    time_ms: int
    first: int
    last: int
    timers: int
    magic: int


@final
class Wheel:
    """A wheel of ``slots`` times that are ``precision_ms`` apart.

    Memory is used for the pages that were written, up to ``size_bytes``.
    """

    def __init__(self, slots: int, precision_ms: int) -> None:
        self.slots = slots
        self.precision_ms = precision_ms
        self.size_bytes = slots * SLOT_BYTES
        self._data = mmap.mmap(-1, self.size_bytes)  # zeros that take no memory yet
        self._dirty: set[int] = set()

    def load(self, data: bytes, begin: int) -> None:
        """Take over bytes of the file, from ``begin`` on, a multiple of ``PAGE_BYTES``."""
        for at in range(0, len(data), PAGE_BYTES):
            page = data[at : at + PAGE_BYTES]
            if page != _NO_PAGE[: len(page)]:
                self._data[begin + at : begin + at + len(page)] = page

    def raw(self, time_ms: int) -> Slot:
        """Return the slot that a time uses, whatever time is in it."""
        at = time_ms // self.precision_ms % self.slots * SLOT_BYTES
        ticks, first, last, count, magic = _unpack_from(self._data, at)
        return Slot(ticks * self.precision_ms, first, last, count, magic)

    def get(self, time_ms: int) -> Slot:
        """Return the slot of a time, empty where another time is in it."""
        time_ms = self.floor(time_ms)
        slot = self.raw(time_ms)
        return slot if slot.time_ms == time_ms else Slot(time_ms, NONE, NONE, 0, 0)

    def put(self, slot: Slot) -> None:
        """Put a slot in its place, whatever was there."""
        time_ms, *rest = slot
        at = time_ms // self.precision_ms % self.slots * SLOT_BYTES
        _pack_into(self._data, at, time_ms // self.precision_ms, *rest)
        self._dirty.add(at // PAGE_BYTES)

    def link(self, time_ms: int, position: int, worth: int) -> bool:
        """Put the unit at a position before those of its slot; returns whether it is the first.

        ``worth`` is added to the number of timers. A unit that is there already changes nothing.
        """
        slot = self.get(time_ms)
        if slot.last >= position:
            return False
        first = position if slot.first == NONE else slot.first
        timers = max(-MAX_COUNT, min(slot.timers + worth, MAX_COUNT))
        self.put(Slot(slot.time_ms, first, position, timers, slot.magic))
        return slot.last == NONE

    def empty(self, time_ms: int) -> None:
        """Make the slot of a time empty."""
        self.put(Slot(self.floor(time_ms), NONE, NONE, 0, 0))

    def clear(self) -> None:
        """Make all slots empty."""
        self._data = mmap.mmap(-1, self.size_bytes)
        self._dirty.clear()

    def floor(self, time_ms: int) -> int:
        """Return the time of the slot that a time belongs to."""
        return time_ms - time_ms % self.precision_ms

    def used(self, begin_ms: int) -> Iterator[Slot]:
        """Iterate over the slots with a time from ``begin_ms`` on, unsorted.

        A clock that was set forward may have left some that are more than a turn ahead.
        """
        for at in range(0, self.size_bytes, PAGE_BYTES):
            page = self._page(at)
            if page == _NO_PAGE[: len(page)]:
                continue
            for ticks, first, last, count, magic in SLOT_FIELDS.iter_unpack(page):
                time_ms = ticks * self.precision_ms
                # Never written slots are all zeros: time 0 is before any begin.
                if begin_ms <= time_ms and last != NONE:
                    yield Slot(time_ms, first, last, count, magic)

    def _page(self, position: int) -> bytes:
        return self._data[position : position + PAGE_BYTES]

    def take_dirty(self) -> dict[int, bytes]:
        """Return the pages that changed since the last call, by their position in the file."""
        dirty, self._dirty = self._dirty, set()
        return {page * PAGE_BYTES: self._page(page * PAGE_BYTES) for page in sorted(dirty)}

    def put_back(self, positions: Iterable[int]) -> None:
        """Count pages as dirty that could not be written."""
        self._dirty.update(position // PAGE_BYTES for position in positions)
