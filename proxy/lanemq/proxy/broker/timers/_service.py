"""The task that indexes messages with a timer, and delivers them when they are due.

Source: RocketMQ 5.3.3, TimerMessageStore, which has eleven threads for it.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, Self, final

import trio
from attrs import define, field

from lanemq.local import get_logger
from lanemq.storage import NewMessage, Store, Taken, Timers, disk_problem
from lanemq.wire import Refused, ResponseCode, SystemTopic, java_hash
from lanemq.wire.message import Property, StoredMessage

from ...sessions.values._waiting import no_target, target_of
from ..context._context import BrokerContext
from ..delays._due import BATCH, BATCH_BYTES, DueMessages, Impossible
from ..delays._due_task import RETRY_S, DueTask
from ._rules import (
    QUEUE_ID,
    delivered_message,
    due_ms,
    key_digest,
    key_of,
    out_ms_of,
    recalled_key,
    rolled_message,
)

LOGGER = get_logger("lanemq.proxy.broker.timers", by_peers=True)

TURN: Final = 256
"""Messages that are indexed in one turn of the loop, unless ``BATCH_BYTES`` of them end it."""


@final
@define(eq=False, kw_only=True, repr=False)
class TimerService:
    """The timers of one broker; ``task`` does it."""

    _commit_all: Callable[[], Awaitable[None]]
    _due: DueMessages
    _now_ms: Callable[[], int]
    _store: Store
    _timers: Timers
    _turn_bytes: int = field(default=0, init=False)
    task: DueTask = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.task = DueTask(work=self._work, logger=LOGGER, now_ms=self._now_ms)
        self._store.on_arrival.append(self._arrived)

    @classmethod
    def of(cls, broker: BrokerContext, due: DueMessages) -> Self | None:
        """Return the timers of ``broker``; None where it is set to have none."""
        timers = broker.store.timers
        if timers is None:
            return None
        return cls(
            commit_all=broker.commit_all,
            due=due,
            now_ms=broker.now_ms,
            store=broker.store,
            timers=timers,
        )

    def _arrived(self, topic: str, queue_id: int, end: int, tags_codes: Sequence[int]) -> None:
        if topic == SystemTopic.TIMER:
            self.task.wake()

    async def _work(self) -> int | None:
        """Index new messages, and deliver those that are due; returns the time of the next look.

        Raises ``Refused``.
        """
        timers = self._timers
        while True:
            while timers.go_back(self._now_ms()):
                await trio.lowlevel.checkpoint()
            # A message that is not indexed yet may be a recall of one that is due.
            is_free = await self._index()
            now_ms = self._now_ms()
            if timers.advance(now_ms):
                await trio.lowlevel.checkpoint()
                continue
            if await self._take_recalls():
                await trio.lowlevel.checkpoint()
                continue
            taken = timers.delivery.take(now_ms, BATCH)
            if not taken:
                if is_free:
                    return timers.wake_ms()
                await trio.sleep(RETRY_S)  # a slot's last turn has to be delivered first
                continue
            await self._deliver(taken)
            await trio.lowlevel.checkpoint()

    async def _index(self) -> bool:
        """Index the messages that came; returns False where they have to wait for a slot."""
        store = self._store
        while units := store.units(SystemTopic.TIMER, QUEUE_ID, self._next(), TURN):
            for unit in units:
                await self._spend(unit.size_bytes)
                try:
                    if not self._index_one(unit.log_position, unit.size_bytes):
                        return False
                except OSError as error:
                    raise Refused(
                        ResponseCode.SERVICE_NOT_AVAILABLE, disk_problem(error)
                    ) from error
            await self._commit_all()  # what was put aside
            if len(units) < TURN and self._next() >= store.bounds(SystemTopic.TIMER, QUEUE_ID)[1]:
                break
            await trio.lowlevel.checkpoint()
        return True

    def _next(self) -> int:
        """Return the offset of the next message; those that are gone from the log are left out."""
        begin = self._store.bounds(SystemTopic.TIMER, QUEUE_ID)[0]
        self._timers.next_offset = max(self._timers.next_offset, begin)
        return self._timers.next_offset

    def _index_one(self, log_position: int, size_bytes: int) -> bool:
        message = self._due.read(log_position, size_bytes)
        out_ms = None if message is None else out_ms_of(message)
        if message is None or out_ms is None:
            if message is not None:
                self._due.keep(message, "it does not say when")
            self._timers.skip()
            return True
        return self._timers.add(
            log_position=log_position,
            message_bytes=size_bytes,
            topic_hash=java_hash(message.properties.get(Property.REAL_TOPIC, "")),
            out_ms=out_ms,
            due_ms=due_ms(message, out_ms),
            recalls=recalled_key(message) is not None,
            now_ms=self._now_ms(),
        )

    async def _take_recalls(self) -> bool:
        """Read recalls of messages of this time; returns whether there were any."""
        recalls = self._timers.delivery.recalls(BATCH)
        for log_position, size_bytes in recalls:
            await self._spend(size_bytes)
            message = self._due.read(log_position, size_bytes)
            key = None if message is None else recalled_key(message)
            if key is not None:
                self._timers.delivery.recalled.add(key_digest(key))
        return bool(recalls)

    async def _spend(self, size_bytes: int) -> None:
        """Count a message to be read; ``BATCH_BYTES`` of them end the turn."""
        self._turn_bytes += size_bytes
        if self._turn_bytes >= BATCH_BYTES:
            self._turn_bytes = 0
            await trio.lowlevel.checkpoint()

    async def _deliver(self, taken: list[Taken]) -> None:
        """Deliver messages; those that could not be come again. Raises ``Refused``."""
        size_bytes = count = 0
        while count < len(taken) and size_bytes < BATCH_BYTES:
            size_bytes += taken[count].message_bytes
            count += 1
        delivered = 0
        try:
            delivered = await self._due.deliver(
                [
                    (one.log_position, one.message_bytes, partial(self._again, one))
                    for one in taken[:count]
                ]
            )
        finally:
            self._timers.delivery.delivered(taken, delivered)

    def _again(self, one: Taken, message: StoredMessage) -> NewMessage | Impossible | None:
        now_ms = self._now_ms()
        if message.topic != SystemTopic.TIMER:
            return Impossible("the log has another message at its place")
        if one.rolls:
            return rolled_message(message, enqueued_ms=one.enqueued_ms, now_ms=now_ms)
        recalled = self._timers.delivery.recalled
        key = key_of(message) if recalled else None
        if key is not None and key_digest(key) in recalled:
            return None
        target = target_of(message)
        if target is None:
            return Impossible(no_target(message))
        return delivered_message(message, target, enqueued_ms=one.enqueued_ms, now_ms=now_ms)
