"""Migrations between brokers, step by step as tools take them, and what clients see meanwhile."""

from dataclasses import replace

import pytest
import trio
from trio.testing import MockClock

from lanemq.proxy.broker.context._context import BrokerContext
from lanemq.storage import NewMessage
from lanemq.testkit.logical.cluster import (
    TOPIC,
    LogicalCluster,
    messages_of,
    open_logical_cluster,
    redirect_of,
    without_number,
)
from lanemq.testkit.logical.mapped import mapped_cluster
from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.logical import (
    Chain,
    MigrateLogicalQueue,
    Segment,
    SegmentState,
    check_chain,
)

pytestmark = pytest.mark.mapped_cluster(queues=2)  # table A: two brokers with two queues each

NORMAL, READ_ONLY = SegmentState.NORMAL, SegmentState.READ_ONLY
WRITE_ONLY, EXPIRED = SegmentState.WRITE_ONLY, SegmentState.EXPIRED


def row(segment: Segment) -> tuple[str, int, int, int, int, str]:
    """A row of the proposal's tables: queue, delta, offset delta, end, state."""
    return (
        segment.broker_name,
        segment.queue_id,
        segment.delta,
        segment.offset_delta,
        segment.offset_max,
        segment.state.value,
    )


async def test_an_empty_queue_migrates_and_its_old_segment_is_expired(
    cluster: LogicalCluster,
) -> None:
    source, target = await cluster.migrate(0, "broker2")
    assert row(source) == ("broker1", 0, 0, 0, 0, "Expired")
    assert row(target) == ("broker2", 2, 0, 0, -1, "Normal")
    answer = await cluster.send(target)
    assert (answer.code, answer.fields["queueOffset"]) == (0, "0")
    answer = await cluster.offset(RequestCode.GET_MIN_OFFSET, target)
    assert target.to_logical(int(answer.fields["offset"])) == 0


@pytest.mark.parametrize("end", ["source", "destination"])
async def test_a_logical_queue_goes_on_in_no_other_topic(cluster: LogicalCluster, end: str) -> None:
    """Readers and senders of the queue would be led to where another right is needed."""
    source, target = await cluster.normal(0), await cluster.destination(0, "broker2")
    before = {name: await cluster.query(name) for name in cluster.brokers}
    which = ("source", "destination").index(end)
    queue = (source, target)[which].message_queue
    for change, why in (
        ({"message_queue": replace(queue, topic="other")}, "another topic"),
        ({"message_queue": replace(queue, broker_name="b" * 256)}, "256 bytes"),
        ({"broker_address": "a" * 256}, "256 bytes"),
    ):
        ends = [source, target]
        ends[which] = replace(ends[which], **change)
        prepared = await cluster.step(
            RequestCode.MIGRATE_TOPIC_LOGICAL_QUEUE_PREPARE, "broker1", *ends
        )
        committed = await cluster.step(
            RequestCode.MIGRATE_TOPIC_LOGICAL_QUEUE_COMMIT, "broker2", *ends
        )
        notified = [await cluster.notify(name, *ends) for name in cluster.brokers]
        for answer in (prepared, committed, *notified):
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert why in (answer.remark or "")
    assert {name: await cluster.query(name) for name in cluster.brokers} == before


async def test_offsets_go_on_where_they_were(cluster: LogicalCluster) -> None:
    await cluster.fill(await cluster.normal(0), 101)
    source, target = await cluster.migrate(0, "broker2")
    assert row(source) == ("broker1", 0, 0, 0, 101, "ReadOnly")
    assert row(target) == ("broker2", 2, 101, 0, -1, "Normal")
    for name in cluster.brokers:
        chain = await cluster.chain(name, 0)
        assert [row(segment) for segment in chain] == [row(source), row(target)]
        assert not check_chain(chain)
    config = cluster.brokers["broker2"].running.context.topics.get(TOPIC)
    assert config is not None
    assert (config.read_queue_nums, config.write_queue_nums) == (3, 3)
    sent = await cluster.send(target, b"101")
    assert target.to_logical(int(sent.fields["queueOffset"])) == 101
    # Reading: 101 messages of the old segment, then it ends, and the rest is in the new one.
    offset, bodies = 0, []
    while offset < 101:
        answer = await cluster.pull(source, offset)
        bodies += [message.body for message in messages_of(answer)]
        offset = int(answer.fields["nextBeginOffset"])
        assert int(answer.fields["maxOffset"]) == 101
    assert (offset, bodies) == (101, [str(number).encode() for number in range(101)])
    answer = await cluster.pull(source, 101)
    assert (answer.code, answer.remark) == (20, "queue offset exceed offsetMax")
    assert answer.fields["nextBeginOffset"] == "101"
    redirect = redirect_of(answer)
    assert (redirect.current, redirect.following) == (
        without_number(source),
        without_number(target),
    )
    assert [message.body for message in messages_of(await cluster.pull(target, 0))] == [b"101"]


async def test_the_intermediate_forms_of_both_segments(cluster: LogicalCluster) -> None:
    source = await cluster.normal(0)
    await cluster.fill(source, 101)
    target = await cluster.destination(0, "broker2")
    assert row(target) == ("broker2", 2, -1, 0, -1, "WriteOnly")
    move = MigrateLogicalQueue.decode((await cluster.prepare(source, target)).body)
    assert move.source is not None
    assert move.destination is not None
    assert [row(s) for s in await cluster.chain("broker1", 0)] == [
        ("broker1", 0, 0, 0, 101, "ReadOnly"),
        ("broker2", 2, 101, 0, -1, "WriteOnly"),
    ]
    assert [row(s) for s in await cluster.chain("broker2", 0)] == [row(target)]
    await cluster.commit(move.source, move.destination)
    assert row((await cluster.chain("broker2", 0))[-1])[2:] == (101, 0, -1, "Normal")
    assert row((await cluster.chain("broker1", 0))[-1])[2:] == (101, 0, -1, "WriteOnly")
    await cluster.notify("broker1", move.source, move.destination.with_state(NORMAL))
    assert row((await cluster.chain("broker1", 0))[-1])[2:] == (101, 0, -1, "Normal")


async def test_an_old_route_costs_one_redirect(cluster: LogicalCluster) -> None:
    old = await cluster.normal(0)
    await cluster.fill(old, 101)
    await cluster.migrate(0, "broker2")
    answer = await cluster.send(old, b"late")
    assert answer.code == 16
    redirect = redirect_of(answer)
    assert redirect.current.state is READ_ONLY
    answer = await cluster.send(redirect.following, b"late")
    assert answer.code == 0
    assert redirect.following.to_logical(int(answer.fields["queueOffset"])) == 101


async def test_a_reader_that_waits_at_the_end_is_sent_on_at_once(cluster: LogicalCluster) -> None:
    source = await cluster.normal(0)
    await cluster.fill(source, 101)
    got: list[tuple[int, float]] = []

    async def read() -> None:
        client = await cluster.connect("broker1")
        while True:
            answer = await client.pull(TOPIC, 0, 101, sys_flag=6, suspend_timeout_millis=15_000)
            if "REDIRECT" in answer.fields:
                break
            assert answer.code == 19  # it may look again, at once
        target = redirect_of(answer).following
        client = await cluster.connect(target.broker_name)
        answer = await client.pull(
            TOPIC, target.queue_id, 0, sys_flag=6, suspend_timeout_millis=15_000
        )
        (message,) = messages_of(answer)
        got.append((target.to_logical(message.queue_offset), trio.current_time()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.sleep(1)
        began_s = trio.current_time()
        _, target = await cluster.migrate(0, "broker2")
        await cluster.send(target)
    ((offset, at_s),) = got
    assert offset == 101
    assert at_s - began_s < 1


@pytest.mark.slow
async def test_cleaned_segments_expire_and_their_queue_is_used_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object) -> None:
        raise Refused(ResponseCode.SYSTEM_ERROR, "the disk is full")

    async with mapped_cluster(logical_queue_expired_keep_millis=100_000, queues=2) as cluster:
        source = await cluster.normal(0)
        await cluster.fill(source, 101)
        source, target = await cluster.migrate(0, "broker2")
        await clean(cluster, "broker1")
        (expired, _) = await cluster.chain("broker1", 0)
        assert row(expired) == ("broker1", 0, 0, 0, 101, "Expired")
        answer = await cluster.pull(source, 50)
        assert (answer.code, answer.remark) == (20, "logical queue expired")
        assert redirect_of(answer).following == without_number(target)
        assert answer.fields["nextBeginOffset"] == "101"
        # Back to broker1, on the message queue that has nothing for readers any more.
        await cluster.fill(target, 100)
        source, target = await cluster.migrate(0, "broker1", reuse=0)
        assert row(source) == ("broker2", 2, 101, 0, 100, "ReadOnly")
        assert row(target) == ("broker1", 0, 201, 101, -1, "Normal")
        for number in (201, 202):
            sent = await cluster.send(target, str(number).encode())
            assert target.to_logical(int(sent.fields["queueOffset"])) == number
        answer = await cluster.pull(target, 101)
        assert [message.body for message in messages_of(answer)] == [b"201", b"202"]
        # Nothing is ever read from before the segment, though the queue is older.
        answer = await cluster.pull(target, 300)
        assert int(answer.fields["nextBeginOffset"]) == 103
        assert int(answer.fields["minOffset"]) == 101
        # What nobody needs any more is forgotten, at last, once that can be written.
        logical = cluster.brokers["broker1"].running.context.logical
        with monkeypatch.context() as patched:
            patched.setattr(type(logical._kept), "write", fails)
            await trio.sleep(115)
        assert len(logical.mappings[TOPIC].chain(0)) == 3
        await trio.sleep(15)
        cluster.forget()
        assert [row(s) for s in await cluster.chain("broker1", 0)] == [row(source), row(target)]


async def clean(cluster: LogicalCluster, name: str) -> None:
    """Let a broker's log lose all its full files, and the broker notice."""
    client, broker = await cluster.at(name), cluster.brokers[name]
    for _ in range(6):
        assert (await client.send("filler", bytes(64 << 10))).code == 0
    for entry in broker.files.entries(broker.config.store_config().commit_log_path):
        broker.files.set_modified_s(broker.config.store_config().commit_log_path / entry.name, 0)
    store = broker.running.context.store
    store.delete_expired_files()
    await trio.sleep(80)
    assert store.min_position > 0
    cluster.forget()


async def test_a_queue_with_messages_gets_a_new_message_queue(cluster: LogicalCluster) -> None:
    await cluster.fill(await cluster.normal(0), 101)
    _, second = await cluster.migrate(0, "broker2")
    await cluster.fill(second, 100, first=101)
    assert (await cluster.reuse("broker1", 0, 0)).code == 1  # it still has messages
    second, third = await cluster.migrate(0, "broker1")
    assert [row(s) for s in await cluster.chain("broker1", 0)] == [
        ("broker1", 0, 0, 0, 101, "ReadOnly"),
        ("broker2", 2, 101, 0, 100, "ReadOnly"),
        ("broker1", 2, 201, 0, -1, "Normal"),
    ]
    await cluster.fill(third, 5, first=201)
    chain = await cluster.chain("broker1", 0)
    assert await read_all(cluster, chain) == [str(number).encode() for number in range(206)]


async def read_all(cluster: LogicalCluster, chain: Chain, **changes: object) -> list[bytes]:
    """Read all bodies through a chain, as clients of 5.0.0-PREVIEW do."""
    bodies: list[bytes] = []
    for segment in chain.readable:
        offset = segment.offset_delta
        while segment.keeps(offset):
            answer = await cluster.pull(segment, offset, **changes)
            for message in messages_of(answer):
                assert segment.contains_physical(message.queue_offset)
                bodies.append(message.body)
            assert segment.clamp_min(0) <= int(answer.fields["nextBeginOffset"])
            offset = int(answer.fields["nextBeginOffset"])
            if answer.code == 19:
                break
    return bodies


async def test_a_queue_that_a_tool_of_preview_used_again_gives_each_message_once(
    autojump_clock: MockClock,
) -> None:
    async with mapped_cluster(logical_queue_reuse_readable=True, messages=40) as cluster:
        _, second = await cluster.migrate(0, "broker2")
        await cluster.fill(second, 40, first=40)
        _, third = await cluster.migrate(0, "broker1", reuse=0)
        assert row(third) == ("broker1", 0, 80, 40, -1, "Normal")
        await cluster.fill(third, 40, first=80)
        chain = await cluster.chain("broker1", 0)
        assert await read_all(cluster, chain) == [str(number).encode() for number in range(120)]
        # Across two logical queues, this would give readers of one the messages of the other.
        assert (await cluster.reuse("broker2", 1, 1)).code == 1


async def test_a_filter_never_looks_past_the_end_of_a_segment(
    autojump_clock: MockClock,
) -> None:
    async with mapped_cluster(logical_queue_reuse_readable=True) as cluster:
        tags = {True: {"TAGS": "wanted"}, False: {"TAGS": "other"}}
        source, number = await cluster.normal(0), 0
        for reuse, to in ((None, "broker2"), (0, "broker1"), (None, "")):
            for _ in range(60):
                wanted = number % 25 == 24
                await cluster.send(source, str(number).encode(), properties=tags[wanted])
                number += 1
            if to:
                _, source = await cluster.migrate(0, to, reuse=reuse)
        found = await read_all(cluster, await cluster.chain("broker1", 0), subscription="wanted")
        assert found == [str(n).encode() for n in range(180) if n % 25 == 24]


async def test_a_filter_that_finds_nothing_in_an_old_segment_goes_through_it_in_one_answer(
    cluster: LogicalCluster,
) -> None:
    source = await cluster.normal(0)
    await cluster.fill(source, 30)
    context = cluster.brokers["broker1"].running.context
    many = 900  # the store looks at 800 for one read
    for _ in range(many):
        context.writer.append(message_for(context))
    context.commit()
    source, target = await cluster.migrate(0, "broker2")
    answer = await cluster.pull(source, 0, subscription="wanted")
    assert (answer.code, answer.fields["nextBeginOffset"]) == (19, str(30 + many))
    assert "REDIRECT" not in answer.fields  # a reader would come back to the same offset
    answer = await cluster.pull(source, 30 + many, subscription="wanted")
    assert redirect_of(answer).following == without_number(target)


def message_for(context: BrokerContext) -> NewMessage:
    return NewMessage(
        topic=TOPIC,
        queue_id=0,
        body=b"x",
        properties=b"",
        born_timestamp_ms=1,
        born_host=context.store_host,
        store_host=context.store_host,
    )


async def test_a_queue_with_one_message_is_not_empty(cluster: LogicalCluster) -> None:
    await cluster.fill(await cluster.normal(0), 1)
    source, target = await cluster.migrate(0, "broker2")
    assert row(source) == ("broker1", 0, 0, 0, 1, "ReadOnly")
    assert source.first_time_ms == source.last_time_ms > 0
    assert target.delta == 1
    assert [message.body for message in messages_of(await cluster.pull(source, 0))] == [b"0"]


async def test_an_empty_segment_on_a_used_queue_is_expired_with_its_own_begin(
    autojump_clock: MockClock,
) -> None:
    async with mapped_cluster(logical_queue_reuse_readable=True, messages=5) as cluster:
        _, second = await cluster.migrate(0, "broker2")
        await cluster.fill(second, 5)
        await cluster.migrate(0, "broker1", reuse=0)
        source, target = await cluster.migrate(0, "broker2")
        assert row(source) == ("broker1", 0, 10, 5, 5, "Expired")
        assert target.delta == 10


async def test_a_broker_without_the_topic_gets_it_with_the_queues_it_needs(
    autojump_clock: MockClock,
) -> None:
    async with open_logical_cluster("broker1", "broker2", "broker3") as cluster:
        await cluster.create_topic(queues=2)
        client = await cluster.at("broker3")
        await client.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": TOPIC})
        for index, (name, queue_id) in enumerate(
            (name, queue_id) for name in ("broker1", "broker2") for queue_id in (0, 1)
        ):
            await cluster.map(name, queue_id, index)
        for index in (2, 3):
            await cluster.fill(await cluster.normal(index), 7)
            _, target = await cluster.migrate(index, "broker3")
            assert row(target) == ("broker3", index - 2, 7, 0, -1, "Normal")
        # The topic with its new queues is registered, so that old clients see them.
        config = cluster.brokers["broker3"].running.context.topics.get(TOPIC)
        assert config is not None
        assert (config.read_queue_nums, config.write_queue_nums) == (2, 2)


async def test_a_third_host_hears_of_the_move_by_itself(
    autojump_clock: MockClock,
) -> None:
    async with mapped_cluster("broker1", "broker2", "broker3", messages=3) as cluster:
        first, second = await cluster.migrate(0, "broker3")
        await cluster.fill(second, 3)
        # broker1 is not told that the queue goes on from broker3 to broker2.
        await cluster.migrate(0, "broker2")
        assert (await cluster.chain("broker1", 0))[-1].broker_name == "broker3"
        await trio.sleep(40)
        chain = await cluster.chain("broker1", 0)
        assert [(s.broker_name, s.state) for s in chain] == [
            ("broker1", READ_ONLY),
            ("broker3", READ_ONLY),
            ("broker2", NORMAL),
        ]
        redirect = redirect_of(await cluster.send(first))
        assert redirect.following.broker_name == "broker2"


async def test_a_queue_may_go_on_at_another_queue_of_its_own_broker(
    cluster: LogicalCluster,
) -> None:
    await cluster.fill(await cluster.normal(0), 5)
    source, target = await cluster.migrate(0, "broker1")
    assert row(source) == ("broker1", 0, 0, 0, 5, "ReadOnly")
    assert row(target) == ("broker1", 2, 5, 0, -1, "Normal")
    assert [row(s) for s in await cluster.chain("broker1", 0)] == [row(source), row(target)]
    # An old client that sends to the sealed queue is served in the same process.
    old = await cluster.connect("broker1", version=407)
    answer = await old.send(TOPIC, b"5", queue_id=0)
    assert (answer.code, answer.fields["queueId"], answer.fields["queueOffset"]) == (0, "0", "5")
    assert answer.fields["PROPERTY_FORWARD_QUEUE_ID"] == "2"
    assert [m.body for m in messages_of(await cluster.pull(target, 0))] == [b"5"]
    journal = cluster.brokers["broker1"].running.context.logical.journal
    await trio.sleep(5)
    assert not journal.all()


async def test_a_source_opens_the_destination_if_its_tool_does_not(cluster: LogicalCluster) -> None:
    for to in ("broker2", "broker1"):
        source = await cluster.normal(0)
        await cluster.fill(source, 3)
        target = await cluster.destination(0, to)
        assert (await cluster.prepare(source, target)).code == 0
        await trio.sleep(4)
        opened = await cluster.normal(0)
        assert opened.key == target.key
        assert opened.delta == source.delta + 3
