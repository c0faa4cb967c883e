"""The slot whose messages are being delivered, in the order of their due times.

Its units are read in slices, from the newest back to the oldest; delivery begins when all are
known. How far it is is one pair of numbers, due time and unit, which a checkpoint can hold.
"""

import heapq
from array import array
from typing import Final, NamedTuple, final

from ._digests import Digests
from ._layouts import NONE
from ._shape import Taken
from ._timer_log import TimerLog, TimerUnit

UNIT_BITS: Final = 52
_UNIT_MASK: Final = (1 << UNIT_BITS) - 1


class SlotProgress(NamedTuple):
    """The last delivered unit of a slot, in the order of ``due_ms`` and position."""

    slot_ms: int
    due_ms: int
    unit: int


def due_in_slot(unit: TimerUnit, slot_ms: int, precision_ms: int) -> int:
    """Return when a unit of a slot is due: within the ``precision_ms`` from the slot's time on.

    Apache's brokers deliver the whole slot at the end of that time.
    """
    end_ms = slot_ms + precision_ms
    if unit.rolls:
        return slot_ms
    return end_ms if unit.due_ms is None else max(0, min(unit.due_ms, end_ms))


@final
class OpenSlot:
    """One slot while it is delivered; ``done`` is what an earlier process delivered of it."""

    def __init__(
        self, log: TimerLog, slot_ms: int, last: int, precision_ms: int, done: SlotProgress | None
    ) -> None:
        self.slot_ms = slot_ms
        self.recalled = Digests()
        """Digests of the keys of the messages that are not delivered."""
        self.progress = done if done is not None and done.slot_ms == slot_ms else None
        self._log = log
        self._precision_ms = precision_ms
        self._unread = last
        # Due time and position in one number: a heap of these takes the least memory.
        self._heap: list[int] = []
        self._recalls = array("q")

    def read(self, count: int) -> bool:
        """Read up to ``count`` units; returns whether there are more."""
        while self._unread != NONE and count:
            position = self._unread
            unit = self._log.get(position)
            if unit is None or unit.slot_ms // self._precision_ms * self._precision_ms != (
                self.slot_ms
            ):
                self._unread = NONE  # what comes before is gone from the log of timers
                break
            self._unread = unit.previous
            self._take(position, unit)
            count -= 1
        return self._unread != NONE

    def _take(self, position: int, unit: TimerUnit) -> None:
        if unit.recalls:
            self._recalls.append(position)
            return
        due_ms = due_in_slot(unit, self.slot_ms, self._precision_ms)
        done = self.progress
        if done is None or (due_ms, position) > (done.due_ms, done.unit):
            heapq.heappush(self._heap, self._key(due_ms, position))

    def _key(self, due_ms: int, position: int) -> int:
        return due_ms << UNIT_BITS | position

    def add(self, position: int, unit: TimerUnit) -> None:
        """Take a unit that came while the slot is open, and after the ones that are delivered."""
        self._take(position, unit)

    def take_recalls(self, count: int) -> list[int]:
        """Return units of recalls, for the digests of their keys to be put into ``recalled``."""
        taken = self._recalls[-count:].tolist()
        del self._recalls[-count:]
        return taken

    @property
    def next_due_ms(self) -> int | None:
        return self._heap[0] >> UNIT_BITS if self._heap else None

    def take(self, now_ms: int, count: int) -> list[tuple[int, int]]:
        """Return due time and position of the next units that are due."""
        taken: list[tuple[int, int]] = []
        heap = self._heap
        while heap and len(taken) < count and heap[0] >> UNIT_BITS <= now_ms:
            key = heapq.heappop(heap)
            taken.append((key >> UNIT_BITS, key & _UNIT_MASK))
        return taken

    def delivered(self, due_ms: int, position: int) -> None:
        """Note the last timer that was delivered."""
        self.progress = SlotProgress(self.slot_ms, due_ms, position)

    def put_back(self, units: list[tuple[int, int]]) -> None:
        """Take back timers that could not be delivered."""
        for due_ms, position in units:
            heapq.heappush(self._heap, self._key(due_ms, position))


@final
class Delivery:
    """The slot that is delivered, and what is known of those that were left before their end."""

    def __init__(self, log: TimerLog, precision_ms: int) -> None:
        self.slot: OpenSlot | None = None
        self._log = log
        self._precision_ms = precision_ms
        self._left: dict[int, SlotProgress] = {}  # by the times of slots that are not open

    def resume(self, progress: SlotProgress | None) -> None:
        """Continue the delivery of a slot where an earlier process ended."""
        if progress is not None:
            self._left[progress.slot_ms] = progress

    def open(self, slot_ms: int, last: int) -> None:
        """Begin with a slot, whose newest unit is ``last``."""
        done = self._left.pop(slot_ms, None)
        self.slot = OpenSlot(self._log, slot_ms, last, self._precision_ms, done)

    def leave(self, read_ms: int) -> None:
        """Leave the slot of ``read_ms`` for later; those before it are used again."""
        if self.slot is not None:
            self.resume(self.slot.progress)
        self.slot = None
        for slot_ms in [slot_ms for slot_ms in self._left if slot_ms < read_ms]:
            del self._left[slot_ms]

    def progress_of(self, slot_ms: int) -> SlotProgress | None:
        """Return the delivered part of a slot."""
        if self.slot is not None and self.slot.slot_ms == slot_ms:
            return self.slot.progress
        return self._left.get(slot_ms)

    def progress_to_keep(self, read_ms: int) -> SlotProgress | None:
        """Return what a checkpoint keeps, which has room for one slot."""
        progress = self.progress_of(read_ms)
        if progress is None and self._left:  # the clock was set back: these slots come again
            progress = self._left[max(self._left)]
        return progress

    def take(self, now_ms: int, count: int) -> list[Taken]:
        """Return up to ``count`` messages that are due, to be given to ``delivered``.

        Recalls that belong to them are taken first: see ``recalls``.
        """
        if self.slot is None:
            return []
        taken: list[Taken] = []
        for due_ms, position in self.slot.take(now_ms, count):
            unit = self._log.get(position)
            if unit is None:  # its file was removed together with its messages
                continue
            taken.append(Taken.of(due_ms, position, unit))
        return taken

    def recalls(self, count: int) -> list[tuple[int, int]]:
        """Return log positions and sizes in bytes of recalls, for ``recalled``."""
        if self.slot is None:
            return []
        units = map(self._log.get, self.slot.take_recalls(count))
        return [(unit.log_position, unit.message_bytes) for unit in units if unit is not None]

    @property
    def recalled(self) -> Digests:
        """Digests of the keys of messages of this time that are recalled."""
        assert self.slot is not None
        return self.slot.recalled

    def delivered(self, taken: list[Taken], count: int) -> None:
        """Note that the first ``count`` of ``taken`` are delivered; the others come again."""
        assert self.slot is not None
        if count:
            last = taken[count - 1]
            self.slot.delivered(last.due_ms, last.unit)
        self.slot.put_back([(one.due_ms, one.unit) for one in taken[count:]])
