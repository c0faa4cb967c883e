"""The start of an index of timers: its files are made to agree with each other."""

from collections.abc import Callable
from typing import final

from lanemq.local import get_logger
from lanemq.wire import ProtocolError, SystemTopic
from lanemq.wire.message import StoredMessage

from ._timer_files import Check, TimerFiles
from ._timer_log import TimerLog, TimerUnit
from ._wheel import Wheel

LOGGER = get_logger("lanemq.storage.timer")


@final
class TimerStart:
    """One start, with an empty ``wheel`` and a ``log`` that is not loaded."""

    def __init__(
        self,
        wheel: Wheel,
        log: TimerLog,
        files: TimerFiles,
        *,
        message_at: Callable[[int], StoredMessage | None],
    ) -> None:
        self._wheel = wheel
        self._log = log
        self._files = files
        self._message_at = message_at
        self.earliest_ms = 0
        """Time of the earliest slot that is not delivered: before the checkpoint's if the clock was
        set back after it."""

    def run(self, check: Check, *, clean: bool) -> int:
        """Load the files; returns the offset of the first message that is not in them.

        Raises ``OSError``, ``StoreCorrupted``.
        """
        self.earliest_ms = check.read_ms
        has_wheel = self._files.load_wheel(self._wheel)
        self._log.segments.load()
        next_offset = self._find_end(check)
        self._empty_delivered(check)
        if not has_wheel or (not clean and not self._is_whole(check.read_ms)):
            LOGGER.warning("timerwheel is missing or damaged: it is made again from timerlog")
            self._wheel.clear()
            self._files.make_wheel(self._wheel)
            for position, unit in self._log.units():
                if unit.slot_ms >= check.read_ms or position >= check.timer_log_end:
                    self._wheel.link(unit.slot_ms, position, unit.worth)
        return next_offset

    def _is_whole(self, read_ms: int) -> bool:
        """Return whether every slot that is not delivered leads to a unit that belongs to it."""
        for slot in self._wheel.used(read_ms):
            unit = self._log.get(slot.last)
            if unit is None or self._wheel.floor(unit.slot_ms) != slot.time_ms:
                return False
        return True

    def _find_end(self, check: Check) -> int:
        """Find the end of the timer log; returns the offset behind the message of its last unit.

        What a crash left behind the checkpoint is kept as far as each unit is for a message that
        follows that of the unit before.
        """
        next_offset = check.queue_offset
        if not check.is_own:
            # Apache's brokers note less of the timer log than there is, and count messages as
            # done that came late and are in no slot.
            last = self._log.last_before(check.timer_log_end) if check.timer_log_end else None
            known = self._offset_of(last) if last is not None else None
            if known is not None:
                next_offset = known + 1
        least = next_offset if check.is_own else 0

        def found(position: int, unit: TimerUnit) -> bool:
            nonlocal least, next_offset
            offset = self._offset_of(unit)
            if offset is None or offset < least:
                return False
            if check.is_own and unit.slot_ms < check.read_ms:
                self.earliest_ms = min(self.earliest_ms, unit.slot_ms)
                if self._wheel.get(unit.slot_ms).last < check.timer_log_end:
                    self._wheel.empty(unit.slot_ms)  # it was delivered, and is used again
            self._wheel.link(unit.slot_ms, position, unit.worth)
            next_offset = least = offset + 1
            return True

        self._log.recover(check.timer_log_end, found)
        return next_offset

    def _empty_delivered(self, check: Check) -> None:
        """Empty the slots that were delivered before the clock was set back."""
        begin_ms = self._wheel.floor(self.earliest_ms)
        if begin_ms >= check.read_ms:
            return
        for slot in list(self._wheel.used(begin_ms)):
            if slot.time_ms < check.read_ms and slot.last < check.timer_log_end:
                self._wheel.empty(slot.time_ms)

    def _offset_of(self, unit: TimerUnit) -> int | None:
        """Return the offset of a unit's message in the queue; None where that is not there."""
        try:
            message = self._message_at(unit.log_position)
        except ProtocolError:
            return None
        if message is None or message.topic != SystemTopic.TIMER:
            return None
        return message.queue_offset if message.size_bytes == unit.message_bytes else None
