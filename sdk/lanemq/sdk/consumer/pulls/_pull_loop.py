"""Pulls one queue, again and again, while it is ours.

Source: RocketMQ 4.9.8, DefaultMQPushConsumerImpl.pullMessage.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import trio

from lanemq.wire import ResponseCode
from lanemq.wire.bodies import SubscriptionData
from lanemq.wire.message import get_property

from ..._codecs import as_codec
from ..._errors import LanemqError, RefusedByBroker
from ..._messages import ReceivedMessage
from ..._namespace import queue_out
from ..._options import ConsumerOptions
from ...net._client import Client
from ...observe._consume_stats import TopicStats
from ...observe._log import get_logger
from ..group._group_calls import GroupCalls
from ..group._offsets import Offsets
from ..requests._queue_calls import FOUND, NOT_FOUND, OFFSET_ILLEGAL, Pulled, PullTerms
from ._held_queue import HeldQueue
from ._pauses import Pauses

LOGGER = get_logger("lanemq.sdk.pull")

Deliver = Callable[[HeldQueue, list[ReceivedMessage]], None]
"""Takes messages that a pull found and that were not held before."""
OnNothingFound = Callable[[HeldQueue], None]
"""Called when a pull found nothing to deliver: the next offset may have moved."""
Correct = Callable[[HeldQueue, int], None]
"""Called with the offset to continue at, after an offset that the broker does not have."""

FLOW_CONTROL_DELAY_S = 0.02  # the broker asked for a pause
# A broker holds a pull that finds nothing. One that answers at once cannot, and must not be
# asked in a tight loop.
QUICK_S = 0.05
QUICK_DELAY_S = 0.1
# The broker does not know this client or its subscription: it was restarted, most likely.
UNKNOWN_CLIENT = frozenset(
    {
        ResponseCode.SUBSCRIPTION_NOT_EXIST,
        ResponseCode.SUBSCRIPTION_NOT_LATEST,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        ResponseCode.FILTER_DATA_NOT_EXIST,
        ResponseCode.FILTER_DATA_NOT_LATEST,
    }
)


@final
@dataclass(eq=False, repr=False, kw_only=True, slots=True)
class PullLoop:
    """The pulling of a consumer; ``run`` is one task for each queue."""

    client: Client
    calls: GroupCalls
    offsets: Offsets
    options: ConsumerOptions
    batch: int
    """Messages at most."""
    post_subscription: bool
    """Tell the broker the subscription in each pull, as its heartbeats may not name it."""
    commit_in_passing: bool
    """Tell the broker the group's progress in each pull."""
    deliver: Deliver
    progress: OnNothingFound
    correct: Correct
    stats: Callable[[str], TopicStats]
    pauses: Pauses
    queues_held: Callable[[str], int]
    """Counts the queues of a topic that the consumer has."""

    async def run(self, held: HeldQueue, subscription: SubscriptionData) -> None:
        """Pull until ``held`` is dropped. Failures are logged and tried again."""
        tags = {tag.encode() for tag in subscription.tags_set}
        limits = self.options.flow
        with held.scope:
            while not held.dropped:
                await self.pauses.wait(held.queue)
                queues = self.queues_held(held.queue.topic) if limits.by_topic else 1
                reason = limits.exceeded_by(held.messages, queues)
                if reason is None and held.is_full is not None and held.is_full():
                    reason = "too many messages lie above the first unsettled one"
                if reason is not None:
                    LOGGER.debug("%s: not pulling: %s", held.queue, reason)
                    await held.wait_released()
                    continue
                started_s = trio.current_time()
                try:
                    pulled = await self._pull(held, subscription)
                except LanemqError as error:
                    await self._after_failure(held, error)
                    continue
                await self.pauses.wait(held.queue)  # a pause may have begun meanwhile
                held.broker_id = pulled.suggested_broker_id
                held.failing = False
                if pulled.is_gap:  # no reason to drop what was pulled before
                    LOGGER.warning(
                        "%s: no messages are left from offset %d to %d",
                        held.queue,
                        held.messages.next_offset,
                        pulled.next_offset,
                    )
                elif pulled.code == OFFSET_ILLEGAL:
                    await self._after_illegal_offset(held, pulled)
                    return
                self._take(held, pulled, tags)
                now_s = trio.current_time()
                self.stats(held.queue.topic).pulled(now_s, len(pulled.messages), now_s - started_s)
                if pulled.code == NOT_FOUND and now_s - started_s < QUICK_S:
                    await trio.sleep(QUICK_DELAY_S)

    async def _pull(self, held: HeldQueue, subscription: SubscriptionData) -> Pulled:
        options, queue = self.options, held.queue
        held.last_pull_ms = self.client.clock_ms()
        committed = self.offsets.get(queue) if self.commit_in_passing else None
        return await self.calls.of(queue).pull(
            queue,
            held.messages.next_offset,
            PullTerms(
                subscription=subscription,
                commit_offset=committed or None,
                post_subscription=self.post_subscription,
                broker_id=held.broker_id,
                batch=self.batch,
                suspend_s=options.pull_suspend_s,
                timeout_s=options.pull_timeout_s,
            ),
        )

    def _take(self, held: HeldQueue, pulled: Pulled, tags: set[bytes]) -> None:
        queue, next_offset = held.queue, pulled.next_offset
        if pulled.code == FOUND:
            stored = pulled.messages
            if tags:  # the broker compares hashes only
                stored = [m for m in stored if get_property(m.properties_data, b"TAGS") in tags]
            limit = self.options.body_bytes_max
            namespace, origin = self.client.options.namespace, pulled.origin
            if namespace or origin is not None:
                shown, shift = queue_out(namespace, queue), pulled.shift
                if origin is not None:
                    origin = queue_out(namespace, origin)
                received = [
                    ReceivedMessage(m, shown, namespace, origin, shift, limit) for m in stored
                ]
            else:
                received = [ReceivedMessage(m, queue, "", None, 0, limit) for m in stored]
            codec = as_codec(self.options.codec)
            if codec is not None:
                for message in received:
                    message._codec = codec
            fresh = held.messages.put(received, next_offset)
            if fresh:
                self.deliver(held, fresh)
                return
        held.messages.next_offset = next_offset
        self.progress(held)

    async def _after_failure(self, held: HeldQueue, error: LanemqError) -> None:
        level = logging.DEBUG if held.failing else logging.WARNING
        LOGGER.log(level, "pull from %s failed, trying again: %s", held.queue, error)
        held.failing = True
        delay_s = self.options.pull_retry_delay_s
        if isinstance(error, RefusedByBroker):
            if error.code == ResponseCode.FLOW_CONTROL:
                delay_s = FLOW_CONTROL_DELAY_S
            elif error.code in UNKNOWN_CLIENT:
                await self.client.heartbeat([error.address])
        await trio.sleep(delay_s)

    async def _after_illegal_offset(self, held: HeldQueue, pulled: Pulled) -> None:
        LOGGER.warning(
            "%s: offset %d is outside the queue (%d to %d), going on from %d",
            held.queue,
            held.messages.next_offset,
            pulled.min_offset,
            pulled.max_offset,
            pulled.next_offset,
        )
        # No tight loop, in case the correction is wrong as well.
        await trio.sleep(self.options.pull_retry_delay_s)
        self.correct(held, pulled.next_offset)
