"""Completion of messages without an order: acknowledged, or sent back to come again later.

Source: RocketMQ 4.9.8, ConsumeMessageConcurrentlyService.processConsumeResult.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeAlias, final

import trio

from ..._errors import LanemqError
from ..._messages import Outcome, ReceivedMessage, Retry
from ..._options import PushOptions
from ...listeners._ordered_listeners import AbandonMessage
from ...observe._log import get_logger
from .._consumer_core import ConsumerCore
from ..group._send_back import SendBack, is_final
from ..pulls._held_queue import HeldQueue
from ._concurrent_scheduler import ConcurrentScheduler
from ._queue_consumer import Messages, QueueConsumer

LOGGER = get_logger("lanemq.sdk.listener")

# Neither a send-back nor a copy worked: the listener gets the messages again after this.
LOCAL_RETRY_S: Final = 5.0

Send: TypeAlias = Callable[[ReceivedMessage], Awaitable[LanemqError | None]]
ConcurrentConsumer: TypeAlias = QueueConsumer[ConcurrentScheduler[ReceivedMessage]]


@final
class ConcurrentCompletion:
    """Completes the batches of a concurrent listener, and of a staged one without stages.

    ``submit`` has messages consumed once more here, where nobody else could take them.
    """

    def __init__(
        self,
        core: ConsumerCore,
        options: PushOptions,
        *,
        max_reconsume_times: int,
        submit: Callable[[HeldQueue, list[ReceivedMessage]], None],
    ) -> None:
        self._core = core
        self._update = core.offsets.update
        self._options = options
        self._send_back = SendBack(
            core.client, core.calls, core.group, max_reconsume_times=max_reconsume_times
        )
        self._submit = submit
        self._times_max = max_reconsume_times

    def complete(
        self, consumer: ConcurrentConsumer, batch: Messages, outcome: object, *, timed_out: bool
    ) -> Awaitable[None] | None:
        """Acknowledge ``batch``, or have the broker deliver it again."""
        held = consumer.held
        process_queue = held.messages
        if process_queue.dropped:
            LOGGER.info("%s is no longer this consumer's; %s may come again", held.queue, batch)
            return None
        if outcome is None:
            held.release(batch.messages)
            self._update(held.queue, process_queue.commit_offset)
            return None
        if isinstance(outcome, Retry) and outcome.settled:
            self._acknowledge(held, batch.messages[: outcome.settled])
            rest = batch.messages[outcome.settled :]
            return self._retry(held, rest, outcome, timed_out=timed_out) if rest else None
        return self._retry(held, batch.messages, outcome, timed_out=timed_out)

    def nothing_to_take(self, consumer: ConcurrentConsumer) -> None:
        """Do nothing: all messages that arrived were handed out."""

    def nothing_found(self, held: HeldQueue) -> None:
        """Note that the queue went on past messages of other subscriptions."""
        self._core.progress(held)

    def _acknowledge(self, held: HeldQueue, messages: Sequence[ReceivedMessage]) -> None:
        held.release(messages)
        self._update(held.queue, held.messages.commit_offset)

    async def _retry(
        self,
        held: HeldQueue,
        messages: Sequence[ReceivedMessage],
        outcome: object,
        *,
        timed_out: bool,
    ) -> None:
        level = self._options.consume_timeout_delay_level if timed_out else 0
        if isinstance(outcome, Retry):
            level = outcome.delay_level or level
            if outcome.suspend_s is not None:
                LOGGER.error("Retry.suspend_s is for listeners with an order: %r", outcome)
        send: Send = partial(self._send_back.send, delay_level=level)
        if isinstance(outcome, AbandonMessage):
            abandoned = outcome.of(messages)
            rest = [message for message in messages if message not in abandoned]
            messages = abandoned
            LOGGER.warning("the listener abandoned %s: %s", messages, outcome)
            if rest:
                self._submit(held, rest)
            send = self._send_back.dead_letter
        elif not isinstance(outcome, Retry | Outcome):
            LOGGER.error("%r is not an Outcome; treated as RETRY", outcome)
        if self._core.broadcasting:
            LOGGER.warning("a broadcasting group delivers nothing again; dropped: %s", messages)
            self._acknowledge(held, messages)
            return
        await self._send_all(held, messages, send)

    async def _send_all(
        self, held: HeldQueue, messages: Sequence[ReceivedMessage], send: Send
    ) -> None:
        """Send messages back; what no broker takes comes again here, and is counted here."""
        again: list[ReceivedMessage] = []
        over: list[ReceivedMessage] = []
        for message in messages:
            error = await send(message)
            if error is None:
                continue
            if message.reconsume_times < self._times_max:
                message.retries_in_place += 1
                again.append(message)
            elif not is_final(error):
                over.append(message)
            else:
                LOGGER.error(
                    "%s is given up after %d deliveries: no broker takes it back or into the dead"
                    " letters: %s",
                    message,
                    message.reconsume_times + 1,
                    error,
                )
        if held.dropped:
            return
        kept = {id(message) for message in (*again, *over)}
        self._acknowledge(held, [message for message in messages if id(message) not in kept])
        if kept:
            self._core.nursery.start_soon(self._again_later, held, again, over)

    async def _again_later(
        self, held: HeldQueue, again: list[ReceivedMessage], over: list[ReceivedMessage]
    ) -> None:
        """Hand messages to the listener once more; those whose times are ``over`` are only sent
        to the dead letters again."""
        await trio.sleep(LOCAL_RETRY_S)
        if held.dropped:
            return
        if again:
            self._submit(held, again)
        if over:
            await self._send_all(held, over, self._send_back.dead_letter)
