"""Delayed delivery: messages wait in SCHEDULE_TOPIC_XXXX, a queue per level, until they are due.

All messages of a level wait equally long, so each queue is in the order of due times, and
only its first message has to be watched. One task sleeps until the earliest of these.

Source: RocketMQ 4.9.8, ScheduleMessageService, which looks ten times a second instead.
"""

from collections.abc import Callable, Sequence
from typing import final

import trio
from attrs import define, field

from lanemq.local import get_logger
from lanemq.storage import NewMessage, Store, Unit
from lanemq.wire import SystemTopic
from lanemq.wire.message import StoredMessage

from ...sessions.values._waiting import no_target, target_of
from ..state._stored_again import stored_again
from ._due import BATCH, BATCH_BYTES, DueMessages, Impossible
from ._due_task import DueTask

LOGGER = get_logger("lanemq.proxy.broker.delay", by_peers=True)


@final
@define(eq=False, kw_only=True, repr=False)
class DelayService:
    """The delivery of one broker's due messages; ``task`` does it."""

    _delays_ms: Sequence[int]
    """The delays of the levels, from 1 on."""
    _due: DueMessages
    _now_ms: Callable[[], int]
    _store: Store
    task: DueTask = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.task = DueTask(work=self._deliver_due, logger=LOGGER, now_ms=self._now_ms)
        self._store.on_arrival.append(self._arrived)
        self._put_right()

    def _put_right(self) -> None:
        """Set progress behind the end of a level's queue, as that of a log that lost its last
        records, to the end: the next messages would not be delivered."""
        offsets = self._store.tables.delay_offsets
        for level in range(1, len(self._delays_ms) + 1):
            kept = offsets.get(level) or 0
            _, end = self._store.bounds(SystemTopic.SCHEDULE, level - 1)
            if kept > end:
                LOGGER.warning("delay level %d: offset %d is behind the end, %d", level, kept, end)
                offsets.put(level, end)

    def _arrived(self, topic: str, queue_id: int, end: int, tags_codes: Sequence[int]) -> None:
        """Note messages that came into a queue; in this topic, tags codes are their due times."""
        if topic == SystemTopic.SCHEDULE:
            self.task.wake_before(min(tags_codes))

    async def _deliver_due(self) -> int | None:
        """Deliver all due messages; returns the next due time, if there is one."""
        earliest_ms: int | None = None
        for level in range(1, len(self._delays_ms) + 1):
            due_ms = await self._deliver_level(level)
            if due_ms is not None and (earliest_ms is None or due_ms < earliest_ms):
                earliest_ms = due_ms
        return earliest_ms

    async def _deliver_level(self, level: int) -> int | None:
        store, queue_id = self._store, level - 1
        offsets = store.tables.delay_offsets
        while True:
            begin, end = store.bounds(SystemTopic.SCHEDULE, queue_id)
            offset = min(max(offsets.get(level) or 0, begin), end)
            units = store.units(SystemTopic.SCHEDULE, queue_id, offset, BATCH)
            now_ms = self._now_ms()
            due = due_bytes = 0
            while due < len(units) and self._due_ms(level, units[due], now_ms) <= now_ms:
                if due_bytes >= BATCH_BYTES:
                    break
                due_bytes += units[due].size_bytes
                due += 1
            if due:
                due_units = [(unit.log_position, unit.size_bytes, _again) for unit in units[:due]]
                delivered = await self._due.deliver(due_units)
                offsets.put(level, offset + delivered)
            if due < len(units) and due_bytes < BATCH_BYTES:
                return self._due_ms(level, units[due], now_ms)
            if not units:
                return None
            await trio.lowlevel.checkpoint()

    def _due_ms(self, level: int, unit: Unit, now_ms: int) -> int:
        """Return the due time of a message: now, if it would wait longer than its level says.

        That is what it looks like when the clock was set back, or the level made shorter.
        """
        due_ms = unit.tags_code
        return due_ms if due_ms <= now_ms + self._delays_ms[level - 1] else now_ms


def _again(message: StoredMessage) -> NewMessage | Impossible:
    # The properties stay as they are: consumers see DELAY, REAL_TOPIC and REAL_QID, as the
    # reference lets them.
    target = target_of(message)
    if target is None:
        return Impossible(no_target(message))
    return stored_again(message, *target)
