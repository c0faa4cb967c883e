"""Completion of messages without an order: acknowledged, or sent back to come again later.

Source: RocketMQ 4.9.8, ConsumeMessageConcurrentlyService.processConsumeResult.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeAlias, final

import trio

from ..._messages import Outcome, ReceivedMessage, Retry
from ..._options import PushOptions
from ...listeners._ordered_listeners import AbandonMessage
from ...observe._log import get_logger
from .._consumer_core import ConsumerCore
from ..group._send_back import SendBack
from ..pulls._held_queue import HeldQueue
from ._concurrent_scheduler import ConcurrentScheduler
from ._queue_consumer import Messages, QueueConsumer

LOGGER = get_logger("lanemq.sdk.listener")

# Neither a send-back nor a copy worked: the listener gets the messages again after this.
LOCAL_RETRY_S: Final = 5.0

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
        send: Callable[[ReceivedMessage], Awaitable[bool]] = partial(
            self._send_back.send, delay_level=level
        )
        if isinstance(outcome, AbandonMessage):
            LOGGER.warning("the listener abandoned %s: %s", messages, outcome)
            send = self._send_back.dead_letter
        elif not isinstance(outcome, Retry | Outcome):
            LOGGER.error("%r is not an Outcome; treated as RETRY", outcome)
        if self._core.broadcasting:
            LOGGER.warning("a broadcasting group delivers nothing again; dropped: %s", messages)
            self._acknowledge(held, messages)
            return
        kept = [message for message in messages if not await send(message)]
        if held.dropped:
            return
        self._acknowledge(held, [message for message in messages if message not in kept])
        if kept:
            self._core.nursery.start_soon(self._submit_later, held, kept)

    async def _submit_later(self, held: HeldQueue, messages: list[ReceivedMessage]) -> None:
        await trio.sleep(LOCAL_RETRY_S)
        if not held.dropped:
            self._submit(held, messages)
