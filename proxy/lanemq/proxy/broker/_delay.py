"""Delayed delivery: messages wait in SCHEDULE_TOPIC_XXXX, a queue per level, until they are due.

All messages of a level wait equally long, so each queue is in the order of due times, and
only its first message has to be watched. One task sleeps until the earliest of these.

Source: RocketMQ 4.9.8, ScheduleMessageService, which looks ten times a second instead.
"""

import logging
from typing import Final, final

import trio

from lanemq.storage import FlushMode, NewMessage, Unit
from lanemq.wire import (
    Property,
    Refused,
    StoredMessage,
    SystemTopic,
)

from ..logical import SegmentClosed
from ._context import BrokerContext
from ._logical_delivery import Deliveries

LOGGER = logging.getLogger("lanemq.proxy.broker.delay")

BATCH: Final = 64
"""Messages delivered in one write of the log, so that senders wait no longer than for that."""

RETRY_S: Final = 1.0
"""Pause after the store would not take a due message."""


@final
class DelayService:
    """Delivers due messages of one broker; ``run`` is its task."""

    def __init__(self, broker: BrokerContext) -> None:
        self._broker = broker
        self._delays_ms = broker.writer.delays_ms
        self._offsets = broker.store.tables.delay_offsets
        self._deliveries = Deliveries(broker)
        self._wake = trio.Event()
        self._sleeps_until_ms: int | None = None
        broker.store.on_arrival.append(self._arrived)

    async def run(self) -> None:
        """Deliver every message when it is due, for as long as the broker runs."""
        broker = self._broker
        while True:
            try:
                due_ms = await self._deliver_due()
            except Refused as error:
                LOGGER.warning("due messages have to wait: %s", error.remark)
                await trio.sleep(RETRY_S)
                continue
            self._wake = trio.Event()
            self._sleeps_until_ms = due_ms
            if due_ms is None:
                await self._wake.wait()
            else:
                with trio.move_on_after(max(0, due_ms - broker.now_ms()) / 1000):
                    await self._wake.wait()

    def _arrived(self, topic: str, queue_id: int, max_offset: int, tags_code: int) -> None:
        """A message came into a queue; in this topic, the tags code is its due time."""
        if topic != SystemTopic.SCHEDULE:
            return
        if self._sleeps_until_ms is None or tags_code < self._sleeps_until_ms:
            self._wake.set()

    async def _deliver_due(self) -> int | None:
        """Deliver all that is due; returns when the next message will be, if there is one."""
        earliest_ms: int | None = None
        for level in range(1, len(self._delays_ms) + 1):
            due_ms = await self._deliver_level(level)
            if due_ms is not None and (earliest_ms is None or due_ms < earliest_ms):
                earliest_ms = due_ms
        return earliest_ms

    async def _deliver_level(self, level: int) -> int | None:
        store, queue_id = self._broker.store, level - 1
        while True:
            begin, end = store.bounds(SystemTopic.SCHEDULE, queue_id)
            offset = min(max(self._offsets.get(level) or 0, begin), end)
            units = store.units(SystemTopic.SCHEDULE, queue_id, offset, BATCH)
            now_ms = self._broker.now_ms()
            due = 0
            while due < len(units) and self._due_ms(level, units[due], now_ms) <= now_ms:
                due += 1
            if due:
                delivered = await self._deliver(units[:due])
                self._offsets.put(level, offset + delivered)
            if due < len(units):
                return self._due_ms(level, units[due], now_ms)
            if not units:
                return None
            await trio.lowlevel.checkpoint()

    def _due_ms(self, level: int, unit: Unit, now_ms: int) -> int:
        """When a message is due; one that would wait longer than its level is due now.

        That is what it looks like when the clock was set back, or the level made shorter.
        """
        due_ms = unit.tags_code
        return due_ms if due_ms <= now_ms + self._delays_ms[level - 1] else now_ms

    async def _deliver(self, units: list[Unit]) -> int:
        """Append the messages to their queues; returns how many of them, from the first on.

        When it returns they are as safe as any send, and only then the level moves on: after a
        crash some may come twice, none is missing. Raises ``Refused`` where not even the first
        could be appended.
        """
        broker, position = self._broker, 0
        delivered = 0
        elsewhere: list[NewMessage] = []
        for unit in units:
            message = broker.store.message_at(unit.log_position)
            target = _target(message) if message is not None else None
            if message is None or target is None:
                LOGGER.error("delayed message at %d has no target, dropped", unit.log_position)
            else:
                again = _due_again(message, *target)
                try:
                    put = broker.writer.append(again)
                except Refused:
                    if not delivered:
                        raise
                    break
                except SegmentClosed:
                    elsewhere.append(again)
                else:
                    position = put.end
                    broker.statistics.put(target[0], 1, put.size_bytes)
            delivered += 1
        broker.commit()
        if elsewhere:
            await self._deliveries.deliver(elsewhere)
            position = broker.store.max_position
        if position and broker.store.config.flush is FlushMode.SYNC:
            await broker.store.flushed(position)
        return delivered


def _target(message: StoredMessage) -> tuple[str, int] | None:
    """The topic and queue the message was sent to."""
    properties = message.properties
    topic = properties.get(Property.REAL_TOPIC)
    queue_id = properties.get(Property.REAL_QID, "")
    if not topic or topic == SystemTopic.TRANSACTION_HALF or not queue_id.isdecimal():
        return None
    return topic, int(queue_id)


def _due_again(message: StoredMessage, topic: str, queue_id: int) -> NewMessage:
    # The properties stay as they are: consumers see DELAY, REAL_TOPIC and REAL_QID, as the
    # reference lets them.
    return NewMessage(
        topic=topic,
        queue_id=queue_id,
        body=message.body,
        properties=message.properties_data,
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_timestamp_ms=message.born_timestamp_ms,
        born_host=message.born_host.packed,
        store_host=message.store_host.packed,
        reconsume_times=message.reconsume_times,
    )
