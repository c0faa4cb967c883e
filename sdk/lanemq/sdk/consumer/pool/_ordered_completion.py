"""Completion of messages with an order: finished, handed over again in place, or dead letters.

Source for orderly listeners: RocketMQ 4.9.8, ConsumeMessageOrderlyService.processConsumeResult.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, final

import trio

from lanemq.wire.bodies import MessageQueue

from ..._errors import LanemqError
from ..._messages import Outcome, ReceivedMessage, Retry
from ...listeners._ordered_listeners import (
    AbandonMessage,
    KeyOrderedListener,
    OrderlyListener,
    StagedConcurrentListener,
)
from ...observe._log import get_logger
from ..group._send_back import is_final
from ..pulls._held_queue import HeldQueue
from ._queue_consumer import Messages, OrderedScheduler, QueueConsumer

LOGGER = get_logger("lanemq.sdk.listener")

# A record that has to last before anything goes on could not be saved: again after this.
SAVE_RETRY_S: Final = 1.0

OrderedQueueConsumer: TypeAlias = QueueConsumer[OrderedScheduler]


@final
@dataclass(eq=False, repr=False, kw_only=True, slots=True)
class OrderedCompletion:
    """Completes the batches of an orderly, key-ordered or staged listener.

    ``commit`` takes what offset is reached, ``save`` makes the record of a queue last at once,
    and says whether it could; ``dead_letter`` puts a message with the dead letters, and returns
    what kept it from there.
    ``finished_late`` is told of messages whose queue was dropped before they were finished.
    """

    nursery: trio.Nursery
    listener: OrderlyListener | KeyOrderedListener | StagedConcurrentListener
    commit: Callable[[MessageQueue, int], None] | None
    save: Callable[[MessageQueue], Awaitable[bool]]
    dead_letter: Callable[[ReceivedMessage], Awaitable[LanemqError | None]]
    finished_late: Callable[[HeldQueue, Sequence[ReceivedMessage]], None]

    def complete(
        self, consumer: OrderedQueueConsumer, batch: Messages, outcome: object, *, timed_out: bool
    ) -> Awaitable[None] | None:
        """Finish ``batch``, or have it handed over again; the worker waits for neither."""
        if consumer.held.messages.dropped:
            LOGGER.info(
                "%s is no longer this consumer's; %s may come again", consumer.held.queue, batch
            )
            if outcome is None:
                self.finished_late(consumer.held, batch.messages)
        elif outcome is None:
            self._finish(consumer, batch)
        elif isinstance(outcome, AbandonMessage):
            abandoned = outcome.of(batch.messages)
            LOGGER.warning("the listener abandoned %s: %s", abandoned, outcome)
            self.nursery.start_soon(self._give_up, consumer, batch, abandoned)
        elif isinstance(outcome, Retry):
            self._retry(consumer, batch, outcome)
        else:
            if not isinstance(outcome, Outcome):
                LOGGER.error(
                    "the listener returned %r, which is not an Outcome; the batch comes again",
                    outcome,
                )
            self._fail(consumer, batch, self.listener.suspend_s)
        return None

    def _retry(self, consumer: OrderedQueueConsumer, batch: Messages, retry: Retry) -> None:
        """Finish what is settled; the rest comes again after the listener's own pause."""
        if retry.delay_level:
            LOGGER.error("Retry.delay_level is for a ConcurrentListener: %r", retry)
        rest = len(batch.messages) - retry.settled
        if retry.settled:
            self._finish(consumer, batch, batch.messages[: retry.settled])
        if rest > 0:
            pause_s = self.listener.suspend_s if retry.suspend_s is None else retry.suspend_s
            self._fail(consumer, batch, pause_s)

    def nothing_found(self, held: HeldQueue) -> None:
        """Note that the queue went on past messages of other subscriptions."""
        if self.commit is not None:
            self.commit(held.queue, held.messages.commit_offset)

    def nothing_to_take(self, consumer: OrderedQueueConsumer) -> None:
        """Save the record of a counter that was reset, which the next message waits for."""
        if consumer.scheduler.must_save and not consumer.saving:
            consumer.saving = True
            self.nursery.start_soon(self._save_reset, consumer)

    async def _save_reset(self, consumer: OrderedQueueConsumer) -> None:
        while not consumer.held.dropped and not consumer.retired:
            waiting = consumer.scheduler.unsaved()
            if await self.save(consumer.held.queue):
                for scheduler in waiting:
                    scheduler.saved()
                consumer.saving = False
                consumer.wake()
                return
            await trio.sleep(SAVE_RETRY_S)

    def _finish(
        self,
        consumer: OrderedQueueConsumer,
        batch: Messages,
        messages: Sequence[ReceivedMessage] | None = None,
    ) -> None:
        """Finish ``messages`` of ``batch`` (all of them if None), and commit."""
        consumer.scheduler.finish(batch, messages)
        held = consumer.held
        held.release(batch.messages if messages is None else messages)
        if self.commit is not None:
            self.commit(held.queue, held.messages.commit_offset)

    def _fail(self, consumer: OrderedQueueConsumer, batch: Messages, pause_s: float) -> None:
        limit = self.listener.max_reconsume_times
        over = [
            message
            for message in batch.messages
            if limit is not None and message.reconsume_times >= limit
        ]
        for message in batch.messages:
            if message not in over:
                message.retries_in_place += 1
        if over:
            self.nursery.start_soon(self._give_up, consumer, batch, over)
        else:
            self._suspend(consumer, batch, pause_s)

    def _suspend(self, consumer: OrderedQueueConsumer, batch: Messages, pause_s: float) -> None:
        consumer.scheduler.suspend(batch)
        self.nursery.start_soon(self._resume_later, consumer, batch, pause_s)

    async def _resume_later(
        self, consumer: OrderedQueueConsumer, batch: Messages, pause_s: float
    ) -> None:
        await trio.sleep(pause_s)
        consumer.scheduler.resume(batch)
        consumer.wake()

    async def _give_up(
        self, consumer: OrderedQueueConsumer, batch: Messages, messages: Sequence[ReceivedMessage]
    ) -> None:
        """Put ``messages`` with the dead letters, however long that takes; go on with the rest."""
        for message in messages:
            while not consumer.held.dropped:
                error = await self.dead_letter(message)
                if error is None:
                    break
                if is_final(error):
                    LOGGER.error(
                        "%s is given up after %d deliveries: no broker takes it into the dead"
                        " letters: %s",
                        message,
                        message.reconsume_times + 1,
                        error,
                    )
                    break
                await trio.sleep(self.listener.suspend_s)
        if consumer.held.dropped:
            return
        rest = len(messages) < len(batch.messages)
        self._finish(consumer, batch, messages)
        if rest:
            self._suspend(consumer, batch, self.listener.suspend_s)
        else:
            consumer.wake()
