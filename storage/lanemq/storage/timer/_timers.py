"""The timers of a store: an index of the queue ``rmq_sys_wheel_timer`` by due time.

The log has the messages; this says which are due when. Every message of the queue has one unit in
the timer log, in their order, so that the last unit says what is indexed; the wheel leads from a
time to its units. Both can be made again from the queue.

Source: RocketMQ 5.3.3, TimerMessageStore, whose files these are.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, final

import trio

from lanemq.local import get_logger
from lanemq.wire.message import StoredMessage

from ..disk._files import Files
from ..log._segments import Segments
from ._layouts import MAGIC_DEFAULT, MAGIC_DELETE, MAGIC_ROLL, NONE
from ._open_slot import Delivery
from ._shape import TimerShape, place
from ._start import TimerStart
from ._step_back import StepBack
from ._timer_files import Check, TimerFiles
from ._timer_log import TimerLog, TimerUnit
from ._wheel import Wheel

LOGGER = get_logger("lanemq.storage.timer")

READ_SLICE: Final = 1000
"""Units of a slot, or slots, that are read in one turn, at some microseconds each."""
NEAR_SLOTS: Final = 1
"""Slots that a clock may be set back, as it is when it is corrected, without a step back here."""
LOOK_AHEAD: Final = 60
"""Slots that are looked at to find the next timer."""


@final
class Timers:
    """The index in the directory ``root``. No method waits but ``flush``.

    ``message_at`` reads the log.
    """

    def __init__(
        self,
        files: Files,
        root: Path,
        shape: TimerShape,
        *,
        message_at: Callable[[int], StoredMessage | None],
        clock_ms: Callable[[], int],
    ) -> None:
        self.shape = shape
        self.next_offset = 0
        """Offset of the first message of the queue that is not in the index."""
        self.read_ms = 0
        """Time of the first slot that is not delivered."""
        self._message_at = message_at
        self._clock_ms = clock_ms
        self._directory = root / "timerlog"
        self._files = TimerFiles(files, root)
        self._wheel = Wheel(shape.slots, shape.precision_ms)
        segments = Segments(
            files, self._directory, shape.log_file_bytes, setting="mappedFileSizeTimerLog"
        )
        self._log = TimerLog(segments)
        self._busy = 0  # slots with units that are not delivered
        self._pending = 0
        self._one_at_a_time = trio.Lock()
        self._is_new = True
        self.delivery = Delivery(self._log, shape.precision_ms)
        self._latest_ms = 0  # the time of the last slot that has units
        self._step_back = StepBack(self._wheel)

    # The start

    def load(self, bounds: tuple[int, int], *, clean: bool = False) -> None:
        """Read the files and make them agree with the queue.

        ``bounds`` are the offsets of its first message, and behind its last; ``clean`` is whether
        the last process ended in order. Raises ``OSError``, ``StoreCorrupted``.
        """
        begin, end = bounds
        self.read_ms = self._wheel.floor(self._clock_ms())
        check = self._files.load_check()
        if check is None or check.queue_offset > end:
            if check is not None:
                LOGGER.warning(
                    "the timers in %s belong to another log, and are made again", self._directory
                )
            self.next_offset = begin
            return
        self._is_new = False
        self.delivery.resume(check.progress)
        start = TimerStart(self._wheel, self._log, self._files, message_at=self._message_at)
        self.next_offset = min(max(start.run(check, clean=clean), begin), end)
        self.read_ms = self._wheel.floor(min(check.read_ms, start.earliest_ms))
        used = list(self._wheel.used(self.read_ms))
        self._busy, self._pending = len(used), sum(slot.timers for slot in used)
        self._latest_ms = max((slot.time_ms for slot in used), default=0)

    # Messages come

    def add(
        self,
        *,
        log_position: int,
        message_bytes: int,
        topic_hash: int,
        out_ms: int,
        due_ms: int,
        recalls: bool,
        now_ms: int,
    ) -> bool:
        """Index the message at ``next_offset``; returns False where a slot is not free yet.

        ``out_ms`` is the time of its slot, ``due_ms`` in the ``precision_ms`` behind it. One that
        is late is put into the slot that is delivered next; one beyond the wheel's reach into one
        that comes before, to be stored again then. Raises ``OSError``, and nothing is indexed.
        """
        shape = self.shape
        self._rest_until(now_ms)
        base_ms = max(self._wheel.floor(now_ms), self.read_ms)
        slot_ms, rolls = place(max(self._wheel.floor(out_ms), self.read_ms), base_ms, shape)
        there = self._wheel.raw(slot_ms)
        if there.time_ms != slot_ms and there.last != NONE and there.time_ms >= self.read_ms > 0:
            return False
        done = self.delivery.progress_of(slot_ms)
        due_ms = min(due_ms, slot_ms + shape.precision_ms)
        if done is not None:
            due_ms = max(due_ms, done.due_ms)  # behind what is delivered of the slot
        written_ms = min(base_ms, slot_ms)
        unit = TimerUnit(
            self._wheel.get(slot_ms).last,
            MAGIC_DEFAULT | MAGIC_ROLL * rolls | MAGIC_DELETE * recalls,
            written_ms,
            slot_ms - written_ms,
            log_position,
            message_bytes,
            topic_hash,
            due_ms,
        )
        self._make_files()
        position = self._log.append(unit)
        self._link(position, unit)
        self.next_offset += 1
        if self.delivery.slot is not None and self.delivery.slot.slot_ms == slot_ms:
            self.delivery.slot.add(position, unit)
        return True

    def skip(self) -> None:
        """Pass over the message at ``next_offset``, which is not a timer."""
        self.next_offset += 1

    def _make_files(self) -> None:
        if self._is_new:
            self._files.remove_all(self._directory)
            self._files.make_wheel(self._wheel)
            self._is_new = False

    def _link(self, position: int, unit: TimerUnit) -> None:
        self._busy += self._wheel.link(unit.slot_ms, position, unit.worth)
        self._pending += unit.worth
        self._latest_ms = max(self._latest_ms, unit.slot_ms)

    def count_at(self, out_ms: int) -> int:
        """Return the number of timers in a slot."""
        return self._wheel.get(out_ms).timers

    @property
    def pending(self) -> int:
        """Number of timers that are not delivered, those of the slot under way included; every
        recall that was asked for takes one away."""
        return max(0, self._pending)

    def go_back(self, now_ms: int) -> bool:
        """Take a step back to a clock that was set back; returns whether another can be taken now.

        Without it, timers of the near future would wait until the clock shows the time again that
        it showed before. The slots on the way are delivered; they are emptied to be used again.
        Nothing is to be taken and not ``delivered``.
        """
        precision_ms = self.shape.precision_ms
        target_ms, turn_ms = self._wheel.floor(now_ms), self.shape.slots * precision_ms
        if (
            self.read_ms - target_ms <= NEAR_SLOTS * precision_ms
            # A turn of the wheel cannot hold both what waits and what is new.
            or (self._busy and self._latest_ms - target_ms >= turn_ms)
        ):
            self._step_back.end()
            return False
        if not self._step_back.is_under_way:
            self.delivery.leave(self.read_ms)
        self.read_ms = self._step_back.step(self.read_ms, target_ms, READ_SLICE)
        return True

    # Messages go

    def advance(self, now_ms: int) -> bool:
        """Take a step towards the timers that are due; returns whether another step can be taken
        now.

        Everything that can be recalled must be indexed before: nothing is delivered before the
        time of its slot is over by a millisecond, up to which it may be.
        """
        precision_ms = self.shape.precision_ms
        slot = self.delivery.slot
        if slot is not None:
            if slot.read(READ_SLICE):
                return True
            if slot.next_due_ms is not None or now_ms < slot.slot_ms + precision_ms:
                return False
            self.delivery.slot = None
            self._busy -= 1
            self._pending -= self._wheel.get(slot.slot_ms).timers
            self.read_ms += precision_ms
            return True  # messages that waited for this slot to be free can be indexed now
        if self._rest_until(now_ms):
            return False
        for _ in range(READ_SLICE):
            if now_ms <= self.read_ms:
                return False
            there = self._wheel.get(self.read_ms)
            if there.last != NONE:
                self.delivery.open(self.read_ms, there.last)
                return True
            if now_ms < self.read_ms + precision_ms:
                return False  # it may still get some
            self.read_ms += precision_ms
        return True

    def _rest_until(self, now_ms: int) -> bool:
        """Move to a time, if there is nothing before it; returns whether there is nothing."""
        if self._busy or self.delivery.slot is not None:
            return False
        self.read_ms = max(self.read_ms, self._wheel.floor(now_ms))
        return True

    def wake_ms(self) -> int | None:
        """Return the time of the next step; None where there is nothing to wait for."""
        if self.delivery.slot is not None:
            due_ms = self.delivery.slot.next_due_ms
            return (
                self.delivery.slot.slot_ms + self.shape.precision_ms if due_ms is None else due_ms
            )
        if not self._busy:
            return None
        for ahead in range(LOOK_AHEAD):
            time_ms = self.read_ms + ahead * self.shape.precision_ms
            if self._wheel.get(time_ms).last != NONE:
                return time_ms + 1
        return self.read_ms + LOOK_AHEAD * self.shape.precision_ms

    # Files

    @property
    def has_changed(self) -> bool:
        """True if there is something for ``flush`` to keep."""
        return not self._is_new and self._check() != self._files.written

    def _check(self) -> Check:
        progress = self.delivery.progress_to_keep(self.read_ms)
        return Check(self.read_ms, self._log.end, self.next_offset, progress)

    async def flush(self, messages_durable: Callable[[], Awaitable[None]]) -> None:
        """Make durable what is indexed and delivered at the time of the call.

        ``messages_durable`` does the same for messages, which come first. Raises ``OSError``, and
        whatever that raises.
        """
        if self._is_new:
            return
        async with self._one_at_a_time:
            check, pages = self._check(), self._wheel.take_dirty()
            try:
                await messages_durable()
                await self._log.segments.sync()
                await self._files.write_wheel(pages)
            except BaseException:
                self._wheel.put_back(pages)
                raise
            await self._files.write_check(check)

    def remove_unneeded(self, min_log_position: int) -> int:
        """Remove files of the timer log whose messages are gone. Raises ``OSError``."""
        return self._log.remove_unneeded(min_log_position)

    def close(self) -> None:
        """Close the files, without making anything durable."""
        self._log.segments.close()
        self._files.close()
