"""Logical queues from a client's side: the queues stay, whatever moves behind them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import (
    ClientOptions,
    ConcurrentListener,
    ConsumeFrom,
    LitePullConsumer,
    LitePullOptions,
    Message,
    MessageModel,
    OrderlyListener,
    Outcome,
    Producer,
    ProducerOptions,
    PushOptions,
    ReceivedMessage,
    RefusedByBroker,
    SendAttempt,
    SendHook,
    SendResult,
    StagedConcurrentListener,
)
from lanemq.sdk.admin import AdminClient, open_admin
from lanemq.sdk.admin.logical._migration import migrate
from lanemq.testkit.sdk.clients import lite_pull_consumer_of, producer_of, push_consumer_of
from lanemq.testkit.sdk.cluster import Peer, clock_ms
from lanemq.testkit.sdk.logical import LogicalBroker, LogicalCluster
from lanemq.wire import RequestCode
from lanemq.wire.bodies import BrokerData, MessageQueue, RouteData
from lanemq.wire.frame import Frame
from lanemq.wire.headers import PullMessage
from lanemq.wire.logical import (
    LOGICAL_QUEUE_BROKER,
    LOGICAL_QUEUES_MEMBER,
    Segment,
    SegmentState,
    check_chain,
)

T = "T"


def logical(index: int) -> MessageQueue:
    return MessageQueue(T, LOGICAL_QUEUE_BROKER, index)


@pytest.fixture
def logical_cluster(nursery: trio.Nursery) -> LogicalCluster:
    """Two brokers; topic T with two queues on each, mapped to logical queues 0 to 3."""
    cluster = LogicalCluster(nursery, brokers=2)
    cluster.enable(T, 2)
    return cluster


@asynccontextmanager
async def producing(
    cluster: LogicalCluster, options: ProducerOptions | None = None
) -> AsyncIterator[Producer]:
    async with producer_of(cluster, options, group="p") as producer:
        yield producer


@asynccontextmanager
async def administering(cluster: LogicalCluster) -> AsyncIterator[AdminClient]:
    async with open_admin(name_servers=cluster.name_servers, dial=cluster.dial) as admin:
        yield admin


async def move(cluster: LogicalCluster, index: int, destination: str) -> None:
    async with administering(cluster) as admin:
        await migrate(admin, T, index, destination)


async def fill(producer: Producer, index: int, count: int, *, start: int = 0) -> None:
    for number in range(start, start + count):
        message = Message(topic=T, body=b"%d" % number)
        sent = await producer.send(message, queue=logical(index))
        assert (sent.queue, sent.queue_offset) == (logical(index), number)


def expect_numbers(messages: Sequence[ReceivedMessage], index: int, count: int) -> None:
    """Each number once, in order, at its logical offset."""
    assert [m.queue_offset for m in messages] == list(range(count))
    assert [m.body for m in messages] == [b"%d" % number for number in range(count)]
    assert {m.queue for m in messages} <= {logical(index)}


async def test_a_client_sees_logical_queues_and_where_messages_really_are(
    autojump_clock: MockClock,
    logical_cluster: LogicalCluster,
) -> None:
    async with producing(logical_cluster) as producer:
        assert await producer.publish_queues(T) == tuple(map(logical, range(4)))
        sent = await producer.send(Message(topic=T, body=b"x"), queue=logical(3))
        assert (sent.queue, sent.queue_offset) == (logical(3), 0)
        assert (sent.origin, sent.origin_offset) == (MessageQueue(T, "broker-b", 1), 0)
    stored = logical_cluster.by_name["broker-b"].messages(T)
    assert [message.sys_flag for message in stored] == [0]  # the mark is not stored


async def test_without_logical_queues_a_client_sees_the_physical_ones(
    autojump_clock: MockClock,
    logical_cluster: LogicalCluster,
) -> None:
    options = ProducerOptions(client=ClientOptions(logical_queues=False))
    async with producing(logical_cluster, options) as producer:
        queues = await producer.publish_queues(T)
        assert {queue.broker_name for queue in queues} == {"broker-a", "broker-b"}
        sent = await producer.send(Message(topic=T, body=b"x"), queue=queues[0])
        assert sent.origin is None
        # A queue that was closed meanwhile: its broker passes the message on.
        await move(logical_cluster, 0, "broker-b")
        sent = await producer.send(Message(topic=T, body=b"y"), queue=queues[0])
        assert sent.queue == queues[0]
    assert logical_cluster.bodies_of(T, 0) == [b"x", b"y"]


async def test_an_empty_logical_queue_goes_on_at_offset_0(
    autojump_clock: MockClock,
    logical_cluster: LogicalCluster,
) -> None:
    await move(logical_cluster, 0, "broker-b")
    first, second = logical_cluster.chain(T, 0)
    assert (first.state, first.count, first.delta) == (SegmentState.EXPIRED, 0, 0)
    assert (second.state, second.delta, second.queue_id) == (SegmentState.NORMAL, 0, 2)
    async with producing(logical_cluster) as producer:
        sent = await producer.send(Message(topic=T, body=b"x"), queue=logical(0))
        assert sent.origin == MessageQueue(T, "broker-b", 2)
    async with reading(logical_cluster, 0) as consumer:
        await consumer.seek_to_begin(logical(0))
        (message,) = await consumer.poll()
        assert (message.queue_offset, message.origin) == (0, MessageQueue(T, "broker-b", 2))


@asynccontextmanager
async def reading(
    cluster: LogicalCluster, index: int, group: str = "lite"
) -> AsyncIterator[LitePullConsumer]:
    options = LitePullOptions(consume_from=ConsumeFrom.FIRST_OFFSET, auto_commit=False)
    async with lite_pull_consumer_of(cluster, options, group=group) as consumer:
        await consumer.assign([logical(index)])
        yield consumer


async def read_all(cluster: LogicalCluster, index: int, count: int) -> list[ReceivedMessage]:
    found: list[ReceivedMessage] = []
    async with reading(cluster, index) as consumer:
        while len(found) < count:
            messages = await consumer.poll(30)
            assert messages, f"{len(found)} of {count}"
            found += messages
        assert await consumer.poll(0.5) == []
    return found


async def test_a_producer_with_an_old_route_follows_one_redirect(
    autojump_clock: MockClock,
    logical_cluster: LogicalCluster,
) -> None:
    async with producing(logical_cluster) as producer:
        await fill(producer, 0, 101)
        await move(logical_cluster, 0, "broker-b")
        asked = logical_cluster.name_server_nodes[0].count(RequestCode.GET_ROUTEINFO_BY_TOPIC)
        await fill(producer, 0, 20, start=101)
        node = logical_cluster.name_server_nodes[0]
        assert node.count(RequestCode.GET_ROUTEINFO_BY_TOPIC) == asked
        assert logical_cluster.by_name["broker-a"].count(RequestCode.SEND_MESSAGE_V2) == 102
    chain = logical_cluster.chain(T, 0)
    assert [(s.delta, s.offset_max) for s in chain] == [(0, 101), (101, -1)]
    expect_numbers(await read_all(logical_cluster, 0, 121), 0, 121)


async def test_a_producer_whose_view_is_a_whole_reuse_behind_writes_to_its_own_queue(
    autojump_clock: MockClock,
    logical_cluster: LogicalCluster,
) -> None:
    async with producing(logical_cluster) as producer:
        await fill(producer, 0, 5)
        await move(logical_cluster, 0, "broker-b")
        logical_cluster.by_name["broker-a"].expire(T, 0)
        await move(logical_cluster, 2, "broker-a")
        (begun,) = [s for s in logical_cluster.chain(T, 2) if s.is_writable]
        (was,) = [s for s in logical_cluster.chain(T, 0) if s.is_sealed]
        assert begun.message_queue == was.message_queue  # the other queue has taken its place
        await fill(producer, 0, 3, start=5)
    late = [m.body for m in await read_all(logical_cluster, 0, 3)]
    assert late == [b"5", b"6", b"7"]


async def test_a_held_pull_goes_on_at_the_new_place_at_once(
    autojump_clock: MockClock,
    logical_cluster: LogicalCluster,
) -> None:
    async with producing(logical_cluster) as producer:
        await fill(producer, 0, 3)
        async with reading(logical_cluster, 0) as consumer:
            assert len(await consumer.poll()) == 3
            await trio.sleep(1)  # its next pull is held at the old place
            await move(logical_cluster, 0, "broker-b")
            await fill(producer, 0, 1, start=3)
            begun_s = trio.current_time()
            (message,) = await consumer.poll()
            assert message.queue_offset == 3
            assert trio.current_time() - begun_s < 1


async def test_what_retention_took_is_passed_over(
    autojump_clock: MockClock, logical_cluster: LogicalCluster
) -> None:
    async with producing(logical_cluster) as producer:
        await fill(producer, 0, 10)
        await move(logical_cluster, 0, "broker-b")
        await fill(producer, 0, 10, start=10)
        await move(logical_cluster, 0, "broker-a")
        await fill(producer, 0, 10, start=20)
        logical_cluster.by_name["broker-b"].expire(T, 0)  # the part in the middle
        async with reading(logical_cluster, 0) as consumer:
            found: list[ReceivedMessage] = []
            while len(found) < 20:
                found += await consumer.poll(30)
            assert [m.queue_offset for m in found] == [*range(10), *range(20, 30)]
        logical_cluster.by_name["broker-a"].expire(T, 0)
        async with reading(logical_cluster, 0) as consumer:
            await consumer.seek_to_begin(logical(0))
            assert (await consumer.poll())[0].queue_offset == 20


async def test_a_queue_that_comes_back_has_its_offsets_counted_on(
    autojump_clock: MockClock,
    logical_cluster: LogicalCluster,
) -> None:
    async with producing(logical_cluster) as producer:
        await fill(producer, 0, 101)
        await move(logical_cluster, 0, "broker-b")
        logical_cluster.by_name["broker-a"].expire(T, 0)
        await fill(producer, 0, 100, start=101)
        await move(logical_cluster, 0, "broker-a")
        await fill(producer, 0, 50, start=201)
    last = logical_cluster.chain(T, 0)[-1]
    assert (last.broker_name, last.queue_id, last.delta, last.offset_delta) == (
        *("broker-a", 0),
        201,
        101,
    )
    async with reading(logical_cluster, 0) as consumer:
        consumer.seek(logical(0), 250)
        (message,) = await consumer.poll()
        assert (message.queue_offset, message.stored.queue_offset) == (250, 150)


async def test_a_chain_of_three_is_read_as_one_queue(
    autojump_clock: MockClock, logical_cluster: LogicalCluster
) -> None:
    async with producing(logical_cluster) as producer:
        await fill(producer, 0, 101)
        await move(logical_cluster, 0, "broker-b")
        await fill(producer, 0, 100, start=101)
        await move(logical_cluster, 0, "broker-a")
        await fill(producer, 0, 9, start=201)
    assert [s.queue_id for s in logical_cluster.chain(T, 0)] == [0, 2, 2]
    assert not check_chain(logical_cluster.chain(T, 0))
    expect_numbers(await read_all(logical_cluster, 0, 210), 0, 210)


async def test_a_redirect_over_other_segments_is_no_proof_that_nothing_is_there(
    autojump_clock: MockClock, logical_cluster: LogicalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker may have missed where the queue was in between."""
    source = logical_cluster.by_name["broker-a"]
    early = source._early

    def missed(header: PullMessage) -> tuple[Segment, Segment] | None:
        found, chain = early(header), logical_cluster.chain(T, 0)
        if found is None or len(chain) < 3:
            return None
        return found[0], chain[-1]

    async with producing(logical_cluster) as producer:
        await fill(producer, 0, 3)
        async with reading(logical_cluster, 0) as consumer:
            assert len(await consumer.poll()) == 3
            monkeypatch.setattr(source, "_early", missed)
            await move(logical_cluster, 0, "broker-b")
            await fill(producer, 0, 4, start=3)
            await move(logical_cluster, 0, "broker-a")
            await fill(producer, 0, 2, start=7)
            found: list[ReceivedMessage] = []
            while not found or found[-1].queue_offset < 8:
                found += await consumer.poll(30)
            assert [message.queue_offset for message in found] == [*range(3, 9)]


async def test_with_the_source_down_messages_go_to_the_begun_segment(
    autojump_clock: MockClock,
    logical_cluster: LogicalCluster,
) -> None:
    source, target = logical_cluster.by_name["broker-a"], logical_cluster.by_name["broker-b"]
    async with producing(logical_cluster) as producer, administering(logical_cluster) as admin:
        await fill(producer, 0, 5)
        await admin.create_queue(target.address, T, 0, SegmentState.WRITE_ONLY)
        await fill(producer, 0, 5, start=5)  # the source takes them as long as it is there
        source.reachable = False
        source.cut()
        sent = await producer.send(Message(topic=T, body=b"10"), queue=logical(0))
        assert (sent.queue_offset, sent.origin) == (-1, MessageQueue(T, "broker-b", 2))
        await migrate(admin, T, 0, "broker-b", force_delta=200)
        await trio.sleep(1)
        # The segment has its place now; the client looks for it when it matters.
        for number in (201, 202):
            sent = await producer.send(Message(topic=T, body=b"%d" % number), queue=logical(0))
            assert sent.queue_offset == number


async def test_a_closed_queue_refuses_messages_and_can_be_read(
    autojump_clock: MockClock,
    logical_cluster: LogicalCluster,
) -> None:
    broker = logical_cluster.by_name["broker-b"]
    async with producing(logical_cluster) as producer, administering(logical_cluster) as admin:
        await fill(producer, 3, 5)
        await admin.seal(broker.address, logical_cluster.chain(T, 3)[0])
        with pytest.raises(RefusedByBroker, match="16"):
            await producer.send(Message(topic=T, body=b"late"), queue=logical(3))
        assert await producer.publish_queues(T) == tuple(map(logical, range(4)))
        await trio.sleep(31)
        assert await producer.publish_queues(T) == tuple(map(logical, range(3)))
    expect_numbers(await read_all(logical_cluster, 3, 5), 3, 5)


async def test_a_client_learns_of_logical_queues_that_are_added(
    autojump_clock: MockClock,
    logical_cluster: LogicalCluster,
) -> None:
    broker = logical_cluster.by_name["broker-b"]
    async with producing(logical_cluster) as producer, administering(logical_cluster) as admin:
        assert len(await producer.publish_queues(T)) == 4
        await admin.create_queue(broker.address, T, 4, SegmentState.NORMAL)
        await trio.sleep(31)
        assert len(await producer.publish_queues(T)) == 5


async def test_a_broker_that_fails_is_left_aside_with_all_its_logical_queues(
    autojump_clock: MockClock,
    logical_cluster: LogicalCluster,
) -> None:
    options = ProducerOptions(avoid_slow_brokers=True)
    async with producing(logical_cluster, options) as producer:
        await producer.publish_queues(T)
        logical_cluster.by_name["broker-a"].refuse(RequestCode.SEND_MESSAGE_V2, *[1] * 50)
        origins = [(await producer.send(Message(topic=T, body=b"x"))).origin for _ in range(20)]
        assert {origin.broker_name for origin in origins if origin} == {"broker-b"}
        assert logical_cluster.by_name["broker-a"].count(RequestCode.SEND_MESSAGE_V2) <= 1


async def test_bounds_and_times_are_those_of_the_chain(
    autojump_clock: MockClock,
    logical_cluster: LogicalCluster,
) -> None:
    times: list[int] = []
    async with producing(logical_cluster) as producer:
        for number in range(30):
            if number in (10, 20):
                await move(logical_cluster, 0, "broker-b" if number == 10 else "broker-a")
            await trio.sleep(1)
            times.append(clock_ms())
            await fill(producer, 0, 1, start=number)
    async with reading(logical_cluster, 0) as consumer:
        calls = consumer._open.calls

        async def check(first: int) -> None:
            assert await calls.of(logical(0)).min_offset(logical(0)) == first
            assert await calls.of(logical(0)).max_offset(logical(0)) == 30
            for time_ms in (0, *times, times[-1] + 9, *(t + 1 for t in times[:-1])):
                later = [n for n, t in enumerate(times) if t >= time_ms and n >= first]
                expected = min(later, default=30)
                assert await calls.of(logical(0)).offset_at(logical(0), time_ms) == expected, (
                    time_ms
                )

        await check(0)
        logical_cluster.by_name["broker-a"].expire(T, 0)
        await trio.sleep(31)
        await check(10)


async def test_batches_and_one_way_messages_go_where_the_queue_ends(
    autojump_clock: MockClock,
    logical_cluster: LogicalCluster,
) -> None:
    async with producing(logical_cluster) as producer:
        batch = [Message(topic=T, body=b"%d" % n) for n in range(3)]
        assert (await producer.send_batch(batch, queue=logical(0))).queue_offset == 0
        await move(logical_cluster, 0, "broker-b")
        await producer.send_oneway(Message(topic=T, body=b"3"), queue=logical(0))
        batch = [Message(topic=T, body=b"%d" % n) for n in range(4, 7)]
        assert (await producer.send_batch(batch, queue=logical(0))).queue_offset == 4
        await producer.send_oneway(Message(topic=T, body=b"7"), queue=logical(0))
        await trio.sleep(1)
    expect_numbers(await read_all(logical_cluster, 0, 8), 0, 8)


Listening = ConcurrentListener | OrderlyListener | StagedConcurrentListener


def listeners(seen: list[ReceivedMessage]) -> dict[str, Listening]:
    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        await trio.sleep(0.01)
        seen.extend(messages)

    return {
        "concurrent": ConcurrentListener(handle),
        "orderly": OrderlyListener(handle),
        "staged": StagedConcurrentListener(handle, [2, 3]),
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["concurrent", "orderly", "staged"])
async def test_consumers_keep_their_queues_while_brokers_are_drained_and_added(
    autojump_clock: MockClock, logical_cluster: LogicalCluster, kind: str
) -> None:
    seen: list[ReceivedMessage] = []
    options = PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET)
    async with (
        producing(logical_cluster) as producer,
        push_consumer_of(
            logical_cluster, listeners(seen)[kind], options, group="g", subscriptions={T: "*"}
        ) as consumer,
    ):
        held = dict(consumer._core.rebalance.held)
        queues = [logical(index) for index in range(4)]
        assert [queue for queue in consumer.queues if queue.topic == T] == queues
        logical_cluster.add_logical_broker()
        count = 0
        for destinations in ("cc", "ba", "cb", "ac"):
            for index, letter in enumerate(destinations):
                await fill(producer, index, 7, start=count)
                await move(logical_cluster, index, f"broker-{letter}")
            count += 7
            await trio.sleep(31)
        for index in (0, 1):
            await fill(producer, index, 7, start=count)
        await trio.sleep(20)
        now = consumer._core.rebalance.held
        assert all(now[queue] is held[queue] for queue in queues)
    for index in (0, 1):
        mine = [m for m in seen if m.queue == logical(index)]
        if kind != "orderly":
            mine.sort(key=lambda message: message.queue_offset)
        expect_numbers(mine, index, count + 7)


async def test_progress_is_logical_and_found_again_wherever_the_queue_is(
    autojump_clock: MockClock,
    logical_cluster: LogicalCluster,
) -> None:
    async with producing(logical_cluster) as producer:
        await fill(producer, 0, 150)
        async with reading(logical_cluster, 0) as consumer:
            consumer.seek(logical(0), 120)
            await consumer.commit({logical(0): 120})
        await move(logical_cluster, 0, "broker-b")
        await fill(producer, 0, 10, start=150)
        await move(logical_cluster, 0, "broker-a")
        async with reading(logical_cluster, 0) as consumer:
            assert await consumer.committed(logical(0)) == 120
            assert (await consumer.poll())[0].queue_offset == 120
            await consumer.commit({logical(0): 155})
        # Back where an older one is kept: the latest counts.
        await move(logical_cluster, 0, "broker-b")
        async with reading(logical_cluster, 0) as consumer:
            assert await consumer.committed(logical(0)) == 155
            end = await consumer._open.calls.of(logical(0)).max_offset(logical(0))
            assert end - 155 == 5
    for broker in logical_cluster.brokers:
        assert not [key for key in broker.offsets if key[1] == T]  # none of physical queues


@pytest.mark.parametrize("source_is_heard", [False, True])
async def test_a_name_server_that_has_not_heard_of_a_migration_takes_no_progress_back(
    autojump_clock: MockClock,
    logical_cluster: LogicalCluster,
    monkeypatch: pytest.MonkeyPatch,
    *,
    source_is_heard: bool,
) -> None:
    """The consumer was redirected, has read on, and looks at its route before it commits."""
    name_server = logical_cluster.name_server_nodes[0]
    async with producing(logical_cluster) as producer:
        await fill(producer, 0, 3)
        before = name_server._logical(T)
        async with reading(logical_cluster, 0) as consumer:
            assert len(await consumer.poll()) == 3
            await move(logical_cluster, 0, "broker-b")
            await fill(producer, 0, 4, start=3)
            found: list[ReceivedMessage] = []
            while len(found) < 4:
                found += await consumer.poll(30)
            if source_is_heard:
                queues = cast(
                    dict[str, list[Segment]], name_server._logical(T)[LOGICAL_QUEUES_MEMBER]
                )
                before = {LOGICAL_QUEUES_MEMBER: {**queues, "0": queues["0"][:1]}}
            monkeypatch.setattr(name_server, "_logical", lambda topic: before)
            routes = consumer._open.client.routes
            assert not await routes.confirm(T, 0)
            assert await routes.confirm(T, 1), "the redirect was of the other queue"
            await fill(producer, 0, 1, start=7)
            found += await consumer.poll(30)
            assert [message.queue_offset for message in found] == [3, 4, 5, 6, 7]
            await consumer.commit()
            monkeypatch.undo()
            assert await routes.confirm(T, 0)
    async with reading(logical_cluster, 0) as consumer:
        assert await consumer.committed(logical(0)) == 8


async def test_a_topic_that_is_made_anew_has_nothing_of_earlier_redirects(
    autojump_clock: MockClock, logical_cluster: LogicalCluster
) -> None:
    async with producing(logical_cluster) as producer:
        await fill(producer, 0, 3)
        await move(logical_cluster, 0, "broker-b")
        await fill(producer, 0, 1, start=3)  # it was redirected
        for broker in logical_cluster.by_name.values():
            broker.chains.clear()
            broker.queues.clear()
        logical_cluster.enable(T, 2)
        await producer._client.routes.refresh(T)
        sent = await producer.send(Message(topic=T, body=b"0"), queue=logical(0))
        assert sent.queue_offset == 0
        assert logical_cluster.bodies_of(T, 0) == [b"0"]


async def test_a_group_that_was_reset_to_the_beginning_begins_there(
    autojump_clock: MockClock,
    logical_cluster: LogicalCluster,
) -> None:
    """Offset 0 is an offset, also where an earlier segment's broker keeps a greater one."""
    async with producing(logical_cluster) as producer:
        await fill(producer, 0, 10)
        async with reading(logical_cluster, 0) as consumer:
            await consumer.commit({logical(0): 7})
        await move(logical_cluster, 0, "broker-b")
        async with reading(logical_cluster, 0) as consumer:
            assert await consumer.committed(logical(0)) == 7
            await consumer.commit({logical(0): 0})
        async with reading(logical_cluster, 0) as consumer:
            assert await consumer.committed(logical(0)) == 0


async def test_a_group_of_the_physical_queue_goes_on_where_it_was(
    autojump_clock: MockClock,
    logical_cluster: LogicalCluster,
) -> None:
    logical_cluster.by_name["broker-a"].offsets["lite", T, 0] = 42
    async with producing(logical_cluster) as producer:
        await fill(producer, 0, 50)
        await move(logical_cluster, 0, "broker-b")
    async with reading(logical_cluster, 0) as consumer:
        assert await consumer.committed(logical(0)) == 42


async def test_a_message_that_fails_is_sent_back_to_the_broker_that_has_it(
    autojump_clock: MockClock,
    logical_cluster: LogicalCluster,
) -> None:
    seen: list[tuple[bytes, int]] = []

    async def handle(messages: Sequence[ReceivedMessage]) -> Outcome:
        (message,) = messages
        seen.append((message.body, message.reconsume_times))
        return Outcome.SUCCESS if message.reconsume_times else Outcome.RETRY

    async with producing(logical_cluster) as producer:
        await fill(producer, 0, 3)
        await move(logical_cluster, 0, "broker-b")
        await fill(producer, 0, 2, start=3)
        async with push_consumer_of(
            logical_cluster,
            ConcurrentListener(handle),
            PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET),
            group="g",
            subscriptions={T: "*"},
        ):
            await trio.sleep(60)
    expected = [(b"%d" % number, times) for number in range(5) for times in (0, 1)]
    assert sorted(seen) == expected
    code = RequestCode.CONSUMER_SEND_MSG_BACK
    assert [logical_cluster.by_name[f"broker-{x}"].count(code) for x in "ab"] == [3, 2]


async def test_a_broadcasting_group_keeps_logical_offsets_in_its_file(
    autojump_clock: MockClock, logical_cluster: LogicalCluster, tmp_path: Path
) -> None:
    seen: list[ReceivedMessage] = []
    options = PushOptions(
        message_model=MessageModel.BROADCASTING,
        consume_from=ConsumeFrom.FIRST_OFFSET,
        offsets_dir=tmp_path,
    )
    async with producing(logical_cluster) as producer:
        await fill(producer, 0, 5)
        for round_number in range(2):
            async with push_consumer_of(
                logical_cluster,
                listeners(seen)["concurrent"],
                options,
                group="g",
                subscriptions={T: "*"},
            ):
                await trio.sleep(5)
            if not round_number:
                await move(logical_cluster, 0, "broker-b")
                await fill(producer, 0, 5, start=5)
    expect_numbers(sorted(seen, key=lambda m: m.queue_offset), 0, 10)


async def test_a_coordinator_in_the_route_keeps_offsets_and_lends_locks(
    autojump_clock: MockClock, logical_cluster: LogicalCluster, nursery: trio.Nursery
) -> None:
    keeper = LogicalBroker(nursery, "10.0.2.1:10921", LOGICAL_QUEUE_BROKER)
    logical_cluster.nodes[keeper.address] = keeper
    node = logical_cluster.name_server_nodes[0]
    route = node.handlers[RequestCode.GET_ROUTEINFO_BY_TOPIC]

    def with_coordinator(frame: Frame, peer: Peer) -> Frame | None:
        answer = route(frame, peer)
        assert answer is not None
        data = RouteData.decode(answer.body)
        brokers = (*data.broker_datas, BrokerData("c", keeper.name, {0: keeper.address}))
        return frame.reply(body=replace(data, broker_datas=brokers).encode())

    node.handlers[RequestCode.GET_ROUTEINFO_BY_TOPIC] = with_coordinator
    seen: list[ReceivedMessage] = []
    async with producing(logical_cluster) as producer:
        await fill(producer, 0, 5)
        async with push_consumer_of(
            logical_cluster,
            listeners(seen)["orderly"],
            PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET),
            group="g",
            subscriptions={T: "*"},
        ):
            await trio.sleep(5)
            locked = {queue for _, queue in keeper.locks if queue.topic == T}
            assert locked == set(map(logical, range(4)))
    expect_numbers(seen, 0, 5)
    assert keeper.offsets["g", T, 0] == 5
    assert not any(key[1] != "%RETRY%g" for b in logical_cluster.brokers for key in b.offsets)


async def test_hooks_are_told_once_of_a_message_that_is_redirected(
    autojump_clock: MockClock, logical_cluster: LogicalCluster
) -> None:
    seen: list[tuple[MessageQueue, str, SendResult | None]] = []

    async def after(attempt: SendAttempt) -> None:
        seen.append((attempt.queue, attempt.address, attempt.result))

    options = ProducerOptions(hooks=(SendHook(after=after),))
    async with producing(logical_cluster, options) as producer:
        await fill(producer, 0, 1)
        await move(logical_cluster, 0, "broker-b")
        sent = await producer.send(Message(topic=T, body=b"1"), queue=logical(0))
    source = logical_cluster.by_name["broker-a"].address
    assert [(queue, address) for queue, address, _ in seen] == [(logical(0), source)] * 2
    assert seen[1][2] == sent
