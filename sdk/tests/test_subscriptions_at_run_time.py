"""Push consumers at work take up topics and leave them, and say which queues they have."""

import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Unpack

import pytest
import trio
import trio.lowlevel
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from lanemq.sdk import (
    BrokerUnreachable,
    ConcurrentListener,
    ConsumeFrom,
    FlowLimits,
    InvalidName,
    LanemqError,
    LitePullOptions,
    MessageQueue,
    OrderlyListener,
    Outcome,
    PushConsumer,
    PushOptions,
    QueueChange,
    ReceivedMessage,
    RefusedByBroker,
    Sql,
    StagedConcurrentListener,
    WrongUse,
)
from lanemq.sdk.opening._settings import PushSettings
from lanemq.testkit.sdk.clients import lite_pull_consumer_of, push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster
from lanemq.wire import RequestCode
from lanemq.wire.bodies import ResetOffsetBody
from lanemq.wire.frame import request

Handle = Callable[[Sequence[ReceivedMessage]], Awaitable[Outcome | None]]
Listener = ConcurrentListener | OrderlyListener | StagedConcurrentListener
PULL = RequestCode.PULL_MESSAGE


def concurrent(handle: Handle) -> Listener:
    return ConcurrentListener(handle)


def orderly(handle: Handle) -> Listener:
    return OrderlyListener(handle)


def staged(handle: Handle) -> Listener:
    return StagedConcurrentListener(handle, [3, 5])


KINDS = pytest.mark.parametrize("make", [concurrent, orderly, staged])


class Work:
    """A listener that takes its time and keeps what it has finished."""

    def __init__(self, spent_s: float = 0.0) -> None:
        self.spent_s = spent_s
        self.begun: list[bytes] = []
        self.bodies: list[bytes] = []

    async def __call__(self, messages: Sequence[ReceivedMessage]) -> Outcome | None:
        self.begun += [message.body for message in messages]
        await trio.sleep(self.spent_s)
        self.bodies += [message.body for message in messages]
        return None


def consumer_of(
    cluster: FakeCluster,
    listener: Listener,
    *topics: str,
    group: str = "cg",
    **settings: Unpack[PushSettings],
) -> AbstractAsyncContextManager[PushConsumer]:
    return push_consumer_of(
        cluster,
        listener,
        PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET),
        group=group,
        subscriptions=dict.fromkeys(topics or ("T",), "*"),
        **settings,
    )


def fill(cluster: FakeCluster, topic: str, count: int, queues: int = 1, tags: str = "A") -> None:
    cluster.create_topic(topic, queues)
    for number in range(count):
        tag = tags[number % len(tags)]
        cluster.broker.put(topic, number % queues, b"%s%02d" % (topic.encode(), number), TAGS=tag)


def names(topic: str, *numbers: int) -> list[bytes]:
    return [b"%s%02d" % (topic.encode(), number) for number in numbers]


class TestSubscribing:
    @KINDS
    async def test_a_topic_more_is_read_on_return(
        self, cluster: FakeCluster, autojump_clock: MockClock, make: Callable[[Handle], Listener]
    ) -> None:
        fill(cluster, "T", 2)
        fill(cluster, "U", 8, queues=2)
        work = Work()
        async with consumer_of(cluster, make(work)) as consumer:
            await trio.sleep(1)
            await consumer.subscribe("U")
            assert [q for q in consumer.queues if q.topic == "U"] == [
                MessageQueue("U", "broker-a", 0),
                MessageQueue("U", "broker-a", 1),
            ]
            await trio.sleep(0.5)
            assert sorted(work.bodies) == names("T", 0, 1) + names("U", *range(8))
        assert cluster.broker.offsets["cg", "U", 1] == 4

    async def test_by_tags_and_by_conditions(
        self, cluster: FakeCluster, autojump_clock: MockClock
    ) -> None:
        fill(cluster, "T", 2)
        fill(cluster, "U", 6, tags="AB")
        fill(cluster, "V", 6, tags="AB")
        work = Work()
        async with consumer_of(cluster, ConcurrentListener(work)) as consumer:
            await consumer.subscribe("U", "B")
            await consumer.subscribe("V", Sql("TAGS = 'A'"))
            await trio.sleep(1)
        assert sorted(work.bodies) == names("T", 0, 1) + names("U", 1, 3, 5) + names("V", 0, 2, 4)

    async def test_the_group_knows_of_it(
        self, cluster: FakeCluster, autojump_clock: MockClock
    ) -> None:
        fill(cluster, "T", 1)
        fill(cluster, "U", 1)
        async with consumer_of(cluster, ConcurrentListener(Work())) as consumer:

            def known() -> set[str]:
                ((_, data),) = cluster.broker.members["cg"].values()
                return {subscription.topic for subscription in data.subscription_data_set}

            assert known() == {"T", "%RETRY%cg"}
            await consumer.subscribe("U")
            assert known() == {"T", "U", "%RETRY%cg"}
            await consumer.unsubscribe("T")
            assert known() == {"U", "%RETRY%cg"}

    async def test_a_topic_that_does_not_exist_yet_is_read_when_it_does(
        self, cluster: FakeCluster, autojump_clock: MockClock
    ) -> None:
        fill(cluster, "T", 1)
        work = Work()
        async with consumer_of(cluster, ConcurrentListener(work)) as consumer:
            await consumer.subscribe("New")
            await trio.sleep(5)
            fill(cluster, "New", 1)
            await trio.sleep(31)  # the next look at the routes
            assert work.bodies == names("T", 0) + names("New", 0)

    async def test_what_fails_changes_nothing(
        self, cluster: FakeCluster, autojump_clock: MockClock
    ) -> None:
        fill(cluster, "T", 4, tags="AB")
        cluster.broker.property_filter = False
        work = Work()
        async with consumer_of(cluster, ConcurrentListener(work)) as consumer:
            with pytest.raises(RefusedByBroker):
                await consumer.subscribe("T", Sql("TAGS = 'A'"))
            with pytest.raises(InvalidName):
                await consumer.subscribe("no such?name")
            with pytest.raises(WrongUse):
                await consumer.subscribe("U", 7)  # type: ignore[arg-type]
            cluster.name_server_nodes[0].reachable = False
            cluster.name_server_nodes[0].cut()
            with pytest.raises(BrokerUnreachable):
                await consumer.subscribe("U")
            cluster.name_server_nodes[0].reachable = True
            fill(cluster, "U", 1)
            await trio.sleep(60)
            assert {queue.topic for queue in consumer.queues} == {"T", "%RETRY%cg"}
            assert sorted(work.bodies) == names("T", 0, 1, 2, 3)

    @KINDS
    async def test_another_expression_judges_what_is_not_settled(
        self, cluster: FakeCluster, autojump_clock: MockClock, make: Callable[[Handle], Listener]
    ) -> None:
        fill(cluster, "T", 3, tags="A")
        work = Work(2)
        async with consumer_of(cluster, make(work)) as consumer:
            await trio.sleep(1)  # some are with the listener
            begun = sorted(work.begun)
            assert begun
            await consumer.subscribe("T", "B")
            cluster.broker.put("T", 0, b"B", TAGS="B")
            cluster.broker.put("T", 0, b"A", TAGS="A")
            await trio.sleep(20)
            assert sorted(work.bodies) == sorted([*begun, b"B"])
        assert cluster.broker.offsets["cg", "T", 0] == 5

    async def test_the_same_expression_disturbs_nothing(
        self, cluster: FakeCluster, autojump_clock: MockClock
    ) -> None:
        fill(cluster, "T", 5)
        work = Work(3)
        async with consumer_of(cluster, ConcurrentListener(work)) as consumer:
            await trio.sleep(1)
            pulls = cluster.broker.count(PULL)
            await consumer.subscribe("T", "*")
            await trio.sleep(1)
            assert cluster.broker.count(PULL) == pulls
            await trio.sleep(5)
        assert sorted(work.begun) == names("T", *range(5))


class TestUnsubscribing:
    @KINDS
    async def test_nothing_more_is_handed_over_on_return(
        self, cluster: FakeCluster, autojump_clock: MockClock, make: Callable[[Handle], Listener]
    ) -> None:
        fill(cluster, "T", 50)
        fill(cluster, "U", 1)
        work = Work(1)
        async with consumer_of(cluster, make(work), "T", "U") as consumer:
            await trio.sleep(2.5)
            await consumer.unsubscribe("T")
            begun = len(work.begun)
            assert not [queue for queue in consumer.queues if queue.topic == "T"]
            await trio.sleep(1)
            pulls = cluster.broker.count(PULL)
            cluster.broker.put("T", 0, b"late")
            cluster.broker.put("U", 0, b"still read")
            await trio.sleep(10)
            assert len(work.begun) == begun + 1
            assert b"still read" in work.bodies
            assert cluster.broker.count(PULL) <= pulls + 4  # of the other topics

    @KINDS
    async def test_what_the_listener_has_counts(
        self, cluster: FakeCluster, autojump_clock: MockClock, make: Callable[[Handle], Listener]
    ) -> None:
        fill(cluster, "T", 12)
        work = Work(5)
        async with consumer_of(cluster, make(work)) as consumer:
            await trio.sleep(1)
            begun = sorted(work.begun)
            await consumer.unsubscribe("T")
            await consumer.unsubscribe("T")
            assert ("cg", "T", 0) not in cluster.broker.offsets
            await trio.sleep(5)
            assert sorted(work.bodies) == begun
            assert cluster.broker.offsets["cg", "T", 0] == len(begun)
            await consumer.subscribe("T")
            await trio.sleep(60)
        assert sorted(work.begun) == names("T", *range(12))  # nothing twice

    @KINDS
    async def test_a_listener_may_do_it(
        self, cluster: FakeCluster, autojump_clock: MockClock, make: Callable[[Handle], Listener]
    ) -> None:
        fill(cluster, "T", 1)
        consumers: list[PushConsumer] = []
        handled: list[bytes] = []

        async def handle(messages: Sequence[ReceivedMessage]) -> None:
            handled.extend(message.body for message in messages)
            await trio.sleep(1)
            await consumers[0].unsubscribe("T")
            await consumers[0].subscribe("T", "A || B")
            await trio.sleep(1)

        async with consumer_of(cluster, make(handle)) as consumer:
            consumers.append(consumer)
            await trio.sleep(10)
            cluster.broker.put("T", 0, b"next", TAGS="B")
            await trio.sleep(10)
        assert handled == [*names("T", 0), b"next"]

    async def test_a_message_that_is_sent_back_in_the_end_is_not_lost(
        self, cluster: FakeCluster, autojump_clock: MockClock
    ) -> None:
        fill(cluster, "T", 1)
        attempts: list[int] = []

        async def handle(messages: Sequence[ReceivedMessage]) -> Outcome:
            await trio.sleep(2)
            attempts.append(messages[0].reconsume_times)
            return Outcome.RETRY if not messages[0].reconsume_times else Outcome.SUCCESS

        async with consumer_of(cluster, ConcurrentListener(handle)) as consumer:
            await trio.sleep(1)
            await consumer.unsubscribe("T")
            await trio.sleep(30)
        assert attempts == [0, 1]
        assert cluster.broker.offsets["cg", "T", 0] == 1

    async def test_a_correction_under_way_does_not_take_the_queue_up_again(
        self, cluster: FakeCluster, autojump_clock: MockClock, nursery: trio.Nursery
    ) -> None:
        fill(cluster, "T", 5)
        queue = MessageQueue("T", "broker-a", 0)
        work = Work()
        async with consumer_of(cluster, ConcurrentListener(work)) as consumer:
            await trio.sleep(1)
            work.begun.clear()
            cluster.broker.mute(RequestCode.UPDATE_CONSUMER_OFFSET)  # takes its time: 3 s
            fields = {"group": "cg", "topic": "T", "timestamp": "0", "isForce": "true"}
            body = ResetOffsetBody(offset_table={queue: 0}).encode()
            reset = request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields, body)
            cluster.broker.tell(consumer.client_id, reset)
            await trio.sleep(1)
            await consumer.unsubscribe("T")
            work.begun.clear()
            await trio.sleep(30)
            assert queue not in consumer.queues
            assert not work.begun


async def test_a_lock_that_is_lost_during_a_correction_is_asked_for_again(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, "T", 5)
    queue = MessageQueue("T", "broker-a", 0)
    work = Work()
    async with consumer_of(cluster, OrderlyListener(work)) as consumer:
        await trio.sleep(18)
        work.begun.clear()
        cluster.broker.locks["cg", queue] = ("somebody else", trio.current_time())
        cluster.broker.mute(RequestCode.UPDATE_CONSUMER_OFFSET)
        fields = {"group": "cg", "topic": "T", "timestamp": "0", "isForce": "true"}
        body = ResetOffsetBody(offset_table={queue: 2}).encode()
        reset = request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields, body)
        cluster.broker.tell(consumer.client_id, reset)
        await trio.sleep(40)  # the renewal after 20 s finds out
        del cluster.broker.locks["cg", queue]
        await trio.sleep(25)
        assert work.begun == names("T", 2, 3, 4)


def told(changes: list[tuple[str, list[int], list[int]]]) -> tuple[list[int], list[int]]:
    """The queues that were told as assigned, and as revoked, in some number of calls."""
    assigned = sorted(queue_id for change in changes for queue_id in change[1])
    return assigned, sorted(queue_id for change in changes for queue_id in change[2])


class TestNotice:
    """The application is told which queues it has."""

    @KINDS
    async def test_assigned_and_revoked(
        self, cluster: FakeCluster, autojump_clock: MockClock, make: Callable[[Handle], Listener]
    ) -> None:
        fill(cluster, "T", 8, queues=4)
        changes: list[tuple[str, list[int], list[int]]] = []

        def note(change: QueueChange) -> None:
            if change.topic == "T":
                assigned, revoked = (
                    [q.queue_id for q in queues] for queues in (change.assigned, change.revoked)
                )
                changes.append((change.topic, assigned, revoked))

        async with consumer_of(cluster, make(Work()), on_queues_changed=note) as consumer:
            await trio.sleep(1)
            assert changes == [("T", [0, 1, 2, 3], [])]
            async with consumer_of(cluster, make(Work())) as other:
                await trio.sleep(3)
                mine = [q.queue_id for q in consumer.queues if q.topic == "T"]
                theirs = sorted(q.queue_id for q in other.queues if q.topic == "T")
                assert sorted(mine + theirs) == [0, 1, 2, 3]
                # Each when its handlers have returned, so perhaps one by one.
                assert told(changes[1:]) == ([], theirs)
            so_far = len(changes)
            await trio.sleep(3)
            assert told(changes[so_far:]) == (theirs, [])
            so_far = len(changes)
            await consumer.unsubscribe("T")
            await trio.lowlevel.checkpoint()
            await trio.sleep(0.1)
            assert told(changes[so_far:]) == ([], [0, 1, 2, 3])

    @KINDS
    async def test_no_message_comes_before_it_has_returned(
        self, cluster: FakeCluster, autojump_clock: MockClock, make: Callable[[Handle], Listener]
    ) -> None:
        fill(cluster, "T", 2, queues=2)
        fill(cluster, "U", 2, queues=2)
        known: set[MessageQueue] = set()
        seen: list[bytes] = []

        async def note(change: QueueChange) -> None:
            await trio.sleep(2)
            known.update(change.assigned)
            known.difference_update(change.revoked)
            if change.topic == "U":
                raise RuntimeError("it is logged")

        async def handle(messages: Sequence[ReceivedMessage]) -> None:
            assert messages[0].queue in known
            seen.append(messages[0].body)

        async with consumer_of(cluster, make(handle), on_queues_changed=note) as consumer:
            await trio.sleep(9)
            await consumer.subscribe("U")
            await trio.sleep(9)
            assert known == set(consumer.queues)
        assert sorted(seen) == [*names("T", 0, 1), *names("U", 0, 1)]

    async def test_a_queue_is_revoked_when_the_last_of_its_listeners_has_returned(
        self, cluster: FakeCluster, autojump_clock: MockClock
    ) -> None:
        fill(cluster, "T", 1)
        work, at_revocation = Work(5), list[list[bytes]]()

        def note(change: QueueChange) -> None:
            if change.revoked:
                at_revocation.append(list(work.bodies))

        async with consumer_of(
            cluster, ConcurrentListener(work), on_queues_changed=note
        ) as consumer:
            await trio.sleep(1)
            await consumer.unsubscribe("T")
            await trio.sleep(10)
        assert at_revocation == [names("T", 0)]

    async def test_a_lock_that_was_lost(
        self, cluster: FakeCluster, autojump_clock: MockClock
    ) -> None:
        fill(cluster, "T", 1)
        queue = MessageQueue("T", "broker-a", 0)
        changes: list[QueueChange] = []

        async with consumer_of(cluster, OrderlyListener(Work()), on_queues_changed=changes.append):
            await trio.sleep(1)
            cluster.broker.locks["cg", queue] = ("somebody else", trio.current_time())
            await trio.sleep(30)
            changes = [change for change in changes if change.topic == "T"]
            assert changes == [QueueChange("T", (queue,), ()), QueueChange("T", (), (queue,))]

    async def test_a_lite_pull_consumer_tells_as_well(
        self, cluster: FakeCluster, autojump_clock: MockClock
    ) -> None:
        fill(cluster, "T", 2, queues=2)
        q0, q1 = (MessageQueue("T", "broker-a", number) for number in (0, 1))
        changes: list[QueueChange] = []
        async with lite_pull_consumer_of(
            cluster,
            LitePullOptions(consume_from=ConsumeFrom.FIRST_OFFSET),
            on_queues_changed=changes.append,
        ) as consumer:
            await consumer.assign([q0])
            await consumer.poll()
            await consumer.assign([q1])
            await consumer.poll()
        assert changes == [QueueChange("T", (q0,), ()), QueueChange("T", (q1,), (q0,))]

    async def test_names_are_those_within_the_namespace(
        self, cluster: FakeCluster, autojump_clock: MockClock
    ) -> None:
        cluster.create_topic("shop%T", 1)
        changes: list[QueueChange] = []
        async with push_consumer_of(
            cluster, ConcurrentListener(Work()), namespace="shop", on_queues_changed=changes.append
        ):
            await trio.sleep(1)
        assert changes[0] == QueueChange("T", (MessageQueue("T", "broker-a", 0),), ())


class TestLimitsOfATopic:
    async def most_held(self, cluster: FakeCluster, flow: FlowLimits, topics: Sequence[str]) -> int:
        """The number of messages of the first topic taken before any was settled."""

        async def handle(messages: Sequence[ReceivedMessage]) -> None:
            await trio.sleep_forever()

        async with consumer_of(
            cluster, ConcurrentListener(handle), *topics, flow=flow, pull_batch=1
        ) as consumer:
            await trio.sleep(5)
            held = consumer._core.rebalance.held
            return sum(h.messages.count for queue, h in held.items() if queue.topic == topics[0])

    async def test_queues_share_it(self, cluster: FakeCluster, autojump_clock: MockClock) -> None:
        fill(cluster, "T", 400, queues=4)
        fill(cluster, "U", 400, queues=4)
        held = await self.most_held(cluster, FlowLimits(topic_messages=40), ("T", "U"))
        assert held == 4 * (10 + 1)  # a limit may be passed by what one pull brings

    async def test_the_limit_of_a_queue_holds_besides(
        self, cluster: FakeCluster, autojump_clock: MockClock
    ) -> None:
        fill(cluster, "T", 400, queues=4)
        flow = FlowLimits(messages=5, topic_messages=40)
        assert await self.most_held(cluster, flow, ("T",)) == 4 * (5 + 1)

    async def test_bytes(self, cluster: FakeCluster, autojump_clock: MockClock) -> None:
        fill(cluster, "T", 400, queues=4)
        size_bytes = len(cluster.broker.queue("T", 0).records[0])
        flow = FlowLimits(topic_size_bytes=40 * size_bytes)
        assert await self.most_held(cluster, flow, ("T",)) == 4 * (10 + 1)

    async def test_a_queue_has_more_when_it_is_alone(
        self, cluster: FakeCluster, autojump_clock: MockClock
    ) -> None:
        fill(cluster, "T", 400, queues=1)
        assert await self.most_held(cluster, FlowLimits(topic_messages=40), ("T",)) == 41

    def test_it_is_at_least_one(self) -> None:
        with pytest.raises(ValueError, match="topic_messages must be at least 1"):
            FlowLimits(topic_messages=0)


# Histories


class History:
    """Consumers of one group that take topics up and leave them, at a cluster with faults."""

    TOPICS = ("T", "U")

    def __init__(
        self, nursery: trio.Nursery, seed: int, make: Callable[[Handle], Listener]
    ) -> None:
        self.random = random.Random(seed)
        self.make = make
        self.cluster = FakeCluster(nursery)
        self.cluster.add_name_server()
        for _ in range(2):
            self.cluster.add_broker()
        for topic in self.TOPICS:
            self.cluster.create_topic(topic, 2)
        self.put = 0
        self.consumed: Counter[bytes] = Counter()
        self.order: dict[MessageQueue, list[int]] = defaultdict(list)
        self.violations: list[str] = []

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.produce)
            for _ in range(2):
                nursery.start_soon(self.consume)
            nursery.start_soon(self.make_trouble)
            with trio.move_on_after(1200):
                while self.put < 80 or len(self.consumed) < self.put:  # noqa: ASYNC110
                    await trio.sleep(1)
            nursery.cancel_scope.cancel()

    async def produce(self) -> None:
        for number in range(80):
            await trio.sleep(self.random.expovariate(2))
            broker = self.random.choice(self.cluster.brokers)
            topic, queue_id = self.random.choice(self.TOPICS), self.random.randrange(2)
            broker.put(topic, queue_id, b"%d" % number, TAGS="A")
            self.put += 1

    async def make_trouble(self) -> None:
        for _ in range(6):
            await trio.sleep(self.random.uniform(1, 12))
            broker = self.random.choice(self.cluster.brokers)
            match self.random.randrange(3):
                case 0:
                    broker.cut()
                case 1:
                    broker.mute(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
                case 2:
                    broker.mute(RequestCode.QUERY_CONSUMER_OFFSET)

    async def consume(self) -> None:
        wanted = set(self.TOPICS)

        async def handle(messages: Sequence[ReceivedMessage]) -> None:
            for message in messages:
                if message.topic not in wanted and not message.topic.startswith("%"):
                    self.violations.append(f"{message} after unsubscribe returned")
            await trio.sleep(self.random.expovariate(2))
            for message in messages:
                self.consumed[message.body] += 1
                self.order[message.queue].append(message.queue_offset)

        changing = 0
        async with consumer_of(
            self.cluster, self.make(handle), *self.TOPICS, rebalance_interval_s=5.0
        ) as consumer:
            for _ in range(12):
                await trio.sleep(self.random.expovariate(0.4))
                topic = self.random.choice(self.TOPICS)
                changing += 1
                try:
                    if topic in wanted:
                        await consumer.unsubscribe(topic)
                        wanted.discard(topic)
                    else:
                        wanted.add(topic)
                        await consumer.subscribe(topic, self.random.choice(("*", "A", "A || B")))
                except LanemqError:
                    wanted.discard(topic)
            for topic in self.TOPICS:
                while topic not in wanted:
                    wanted.add(topic)
                    try:
                        await consumer.subscribe(topic)
                    except LanemqError:
                        wanted.discard(topic)
                        await trio.sleep(1)
            await trio.sleep_forever()


async def live(seed: int, make: Callable[[Handle], Listener]) -> History:
    async with trio.open_nursery() as nursery:
        history = History(nursery, seed, make)
        await history.run()
        nursery.cancel_scope.cancel()
    return history


def check(seed: int, make: Callable[[Handle], Listener]) -> History:
    history = trio.run(live, seed, make, clock=MockClock(autojump_threshold=0))
    assert not history.violations
    assert set(history.consumed) == {b"%d" % number for number in range(history.put)}
    return history


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**64 - 1), schedule=st.random_module())
def test_nothing_is_lost_and_nothing_comes_after_unsubscribing(seed: int, schedule: object) -> None:
    check(seed, concurrent)


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**64 - 1), schedule=st.random_module())
def test_and_the_order_is_kept(seed: int, schedule: object) -> None:
    history = check(seed, orderly)
    for offsets in history.order.values():
        newest = -1
        for offset in offsets:
            # It may go back to what was not reported before a lock was lost, and then on.
            assert offset <= newest + 1
            newest = max(newest, offset)
