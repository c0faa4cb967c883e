"""The common core of push and lite pull consumers: membership, progress, life.

Source: RocketMQ 4.9.8, DefaultMQPushConsumerImpl, DefaultLitePullConsumerImpl.
"""

from functools import partial
from typing import final

import trio

from lanemq.wire import retry_topic
from lanemq.wire.bodies import (
    ConsumerData,
    ConsumeType,
    ExpressionType,
    MessageModel,
    MessageQueue,
    SubscriptionData,
)

from .._errors import BrokerUnreachable, RequestTimedOut
from .._options import ConsumerOptions
from .._tasks import gather
from ..net._client import Client
from ..net._look_ups import look_up_routes
from ..observe._consume_stats import TopicStats
from ..observe._log import get_logger
from ._expressions import Expression, check_together, subscription
from ._queue_changes import QueueChanges
from ._rebalance import Rebalance
from .group._group_calls import GroupCalls
from .group._offset_store import StoreCommits, peek_offset
from .group._offsets import GroupOffsets, LocalOffsets, Offsets
from .group._same_process import Membership, terms
from .pulls._held_queue import HeldQueue
from .pulls._pauses import Pauses
from .pulls._pull_loop import Deliver, OnNothingFound, PullLoop

LOGGER = get_logger("lanemq.sdk.consumer")

# Seconds for reporting progress when a consumer ends. It is shielded from cancellation.
PERSIST_TIMEOUT_S = 3.0


@final
class ConsumerCore:
    """The parts of one consumer, put together."""

    def __init__(
        self,
        client: Client,
        group: str,
        options: ConsumerOptions,
        nursery: trio.Nursery,
        *,
        consume_type: ConsumeType,
        batch: int,
        deliver: Deliver,
        progress: OnNothingFound | None = None,
        offsets: Offsets | None = None,
        commit_in_passing: bool = True,
    ) -> None:
        self.client = client
        self.group = group
        self.options = options
        self.nursery = nursery
        self.consume_type = consume_type
        self.subscriptions: dict[str, SubscriptionData] = {}
        cluster = client.routes.name_servers.addresses, client.remoting.dial
        self.membership = Membership(group, cluster, self.subscriptions)
        self.stats: dict[str, TopicStats] = {}
        self.started_ms = client.clock_ms()
        self.calls = GroupCalls(client, group)
        self.pauses = Pauses()
        self.changing = trio.Lock()  # subscriptions change one after the other
        self._persist_soon = trio.Event()
        self.broadcasting = options.message_model is MessageModel.BROADCASTING
        self.offsets: Offsets = offsets or (
            LocalOffsets(options.offsets_dir / options.client.instance / f"{group}.json")
            if self.broadcasting
            else GroupOffsets(
                self.calls if options.offset_store is None else StoreCommits(options.offset_store)
            )
        )
        self.changes = QueueChanges(options.on_queues_changed, options.client.namespace)
        self.rebalance = Rebalance(
            client, self.calls, self.offsets, options, self.subscriptions, self.changes, nursery
        )
        active = consume_type is ConsumeType.ACTIVELY
        self.rebalance.pull_with(
            PullLoop(
                client=client,
                calls=self.calls,
                offsets=self.offsets,
                options=options,
                batch=batch,
                # A lite pull consumer may read queues that its heartbeat does not name.
                post_subscription=active,
                commit_in_passing=commit_in_passing and not active and not self.broadcasting,
                deliver=deliver,
                progress=progress or self.progress,
                correct=self._correct,
                stats=self.topic_stats,
                pauses=self.pauses,
                queues_held=self.rebalance.count,
            )
        )
        client.add_consumer(group, self.describe)
        client.routes.on_change(self.rebalance.wake)

    def describe(self) -> ConsumerData:
        """Describe the consumer for heartbeats."""
        return ConsumerData(
            group_name=self.group,
            consume_type=self.consume_type.value,
            message_model=self.options.message_model.value,
            consume_from_where=self.options.consume_from.value,
            subscription_data_set=tuple(self.subscriptions.values()),
        )

    def subscribe(self, topic: str, expression: Expression) -> None:
        """Read ``topic`` from the next division on. Raises ``InvalidName``; ``WrongUse`` if a
        consumer of the group in this process has another expression for it."""
        wanted = self._subscription(topic, expression)
        self.membership.check(wanted)
        self.put_subscription(wanted)

    def _subscription(self, topic: str, expression: Expression) -> SubscriptionData:
        known = self.subscriptions.get(topic)
        # Brokers take what has a higher version, and the clock counts milliseconds only.
        version_ms = max(self.client.clock_ms(), known.sub_version + 1 if known else 0)
        wanted = subscription(topic, expression, version_ms)
        check_together([*(one for one in self.subscriptions.values() if one is not known), wanted])
        return wanted

    def put_subscription(self, wanted: SubscriptionData) -> None:
        """Read the topic of ``wanted`` from the next division on."""
        self.subscriptions[wanted.topic] = wanted
        self.client.routes.watch(wanted.topic)

    async def checked_subscription(self, topic: str, expression: Expression) -> SubscriptionData:
        """Return a subscription that can be put: the brokers of its topic filter so.

        Raises as ``subscribe`` and ``join``.
        """
        wanted = self._subscription(topic, expression)
        self.membership.check(wanted)
        required = self.client.options.require_route
        await look_up_routes(self.client.routes, [topic], required=required)
        await self._check_expression(wanted)
        return wanted

    def subscribe_retries(self) -> None:
        """Read the group's retry topic, which a broadcasting group does not have."""
        if not self.broadcasting:
            self.subscribe(retry_topic(self.group), "*")

    async def change_subscription(self, topic: str, expression: Expression) -> None:
        """Read ``topic`` from now on, or by another expression than before.

        On return its queues are held, but for those whose listeners run with messages of the
        expression before: what these do counts. Raises ``InvalidName`` and what ``join`` does;
        then nothing has changed.
        """
        async with self.changing:
            wanted, known = self._subscription(topic, expression), self.subscriptions.get(topic)
            await self.client.routes.refresh(topic)
            await self._check_expression(wanted)
            if known is None or terms(known) != terms(wanted):
                if self.membership.differs_at(wanted) is not None:
                    LOGGER.warning(
                        "%s: another consumer of group %s in this process has another expression:"
                        " change it alike",
                        topic,
                        self.group,
                    )
                self.put_subscription(wanted)
                await self.rebalance.give_up(topic)
            await self.divide()

    async def divide(self) -> None:
        """Tell the brokers of the subscriptions and take the queues.

        What is not complete, or cut short, the task of ``rebalance`` completes.
        """
        complete = False
        try:
            await self.client.heartbeat()
            complete = await self.rebalance.divide()
        finally:
            if not complete:
                self.rebalance.wake()

    async def unsubscribe(self, topic: str) -> None:
        """Read ``topic`` no longer; what listeners still do of it counts."""
        async with self.changing:
            if self.subscriptions.pop(topic, None) is not None:
                self.client.routes.unwatch(topic)
                await self.rebalance.give_up(topic)
                await self.client.heartbeat()

    async def join(self) -> None:
        """Learn the routes and make the group known at the brokers.

        Raises as ``look_up_routes``, and ``RefusedByBroker`` if a broker does not filter by the
        expression of a subscription.
        """
        wanted = tuple(self.subscriptions.values())
        retries = retry_topic(self.group)  # the brokers make it, when they hear of the group
        topics = [one.topic for one in wanted if one.topic != retries]
        required = self.client.options.require_route
        await look_up_routes(self.client.routes, topics, required=required)
        await gather([partial(self._check_expression, one) for one in wanted])
        await self.client.heartbeat()
        if retries in self.subscriptions and self.client.routes.get(retries) is None:
            # A first heartbeat makes the topic; often the name server knows it at once.
            await self.client.refresh_quietly(retries)

    async def _check_expression(self, wanted: SubscriptionData) -> None:
        route = self.client.routes.get(wanted.topic)
        if wanted.expression_type == ExpressionType.TAG or route is None:
            return
        for broker_name in sorted(route.brokers):
            try:
                await self.calls.check_subscription(broker_name, wanted)
            except (BrokerUnreachable, RequestTimedOut) as error:
                LOGGER.warning("%s: the subscription could not be checked: %s", wanted.topic, error)

    def progress(self, held: HeldQueue) -> None:
        """Note how far ``held`` is settled."""
        if not held.dropped:
            self.offsets.update(held.queue, held.messages.commit_offset)

    def _correct(self, held: HeldQueue, offset: int) -> None:
        correct = partial(self.rebalance.correct, held.queue, offset, of=held)
        self.nursery.start_soon(correct)

    async def reset(self, offsets: dict[MessageQueue, int], topic: str) -> None:
        """Go on from given offsets, as an operator asked for; queues of others are left out."""
        for queue, offset in offsets.items():
            if queue.topic != topic:
                continue
            if queue in self.rebalance.held:
                LOGGER.info("%s: reset to offset %d", queue, offset)
                await self.rebalance.correct(queue, offset, reset=True)
            else:
                self.offsets.discard(queue)

    async def persist_loop(self) -> None:
        """Report progress every ``offset_persist_interval_s``, and whenever ``persist_soon`` asks
        for it."""
        while True:
            with trio.move_on_after(self.options.offset_persist_interval_s):
                await self._persist_soon.wait()
            self._persist_soon = trio.Event()
            await self.offsets.persist(wait=False)

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the offset that is kept for the group; unlike ``offsets.load``, which begins to
        read, this changes nothing."""
        if self.options.offset_store is not None:
            return await peek_offset(self.options.offset_store, queue)
        if self.broadcasting:
            return await self.offsets.load(queue)
        return await self.calls.committed_offset(queue)

    async def persist(self, *, wait: bool) -> None:
        """Report progress. With ``wait``, wait until it is kept, and raise a failure."""
        if wait:
            if failures := await self.offsets.persist(wait=True):
                raise failures[0]
        else:
            self.persist_soon()
            await trio.lowlevel.checkpoint()

    def persist_soon(self) -> None:
        """Have progress reported without waiting for it, however long a store takes."""
        self._persist_soon.set()

    async def leave(self) -> None:
        """Report progress for the last time; not to be cancelled, but bounded."""
        self.membership.end()
        with trio.move_on_after(PERSIST_TIMEOUT_S, shield=True) as scope:
            await self.offsets.persist(wait=True, again=True)
        if scope.cancelled_caught:
            LOGGER.warning("%s: progress could not be reported in time", self.group)

    def topic_stats(self, topic: str) -> TopicStats:
        """Return the counters of a topic, new ones for a topic without."""
        stats = self.stats.get(topic)
        if stats is None:
            stats = self.stats[topic] = TopicStats(trio.current_time())
        return stats
