"""Reads of logical queues: offsets, holes, times; and the operators' view of it all."""

import pytest
import trio
from trio.testing import MockClock

from lanemq.testkit.logical.cluster import (
    TOPIC,
    LogicalCluster,
    messages_of,
    open_logical_cluster,
    redirect_of,
    without_number,
)
from lanemq.testkit.logical.mapped import mapped_cluster
from lanemq.testkit.proxy.brokers import pull_header
from lanemq.testkit.storage.units import blank_unit
from lanemq.wire import RequestCode
from lanemq.wire.logical import MigrateLogicalQueue, Segment, SegmentState

pytestmark = pytest.mark.mapped_cluster()

MIN, MAX = RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET
SEARCH = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP


async def offset(cluster: LogicalCluster, code: int, segment: Segment, **fields: str) -> int:
    answer = await cluster.offset(code, segment, **fields)
    assert answer.code == 0
    return int(answer.fields["offset"])


async def clean(cluster: LogicalCluster, name: str) -> None:
    """Let a broker's log lose all its full files, and the broker notice."""
    client, broker = await cluster.at(name), cluster.brokers[name]
    for _ in range(6):
        assert (await client.send("filler", bytes(64 << 10))).code == 0
    directory = broker.config.store_config().commit_log_path
    for entry in broker.files.entries(directory):
        broker.files.set_modified_s(directory / entry.name, 0)
    broker.running.context.store.delete_expired_files()
    await trio.sleep(80)
    cluster.forget()


async def test_offsets_of_a_used_queue_are_those_of_its_segments(cluster: LogicalCluster) -> None:
    await cluster.fill(await cluster.normal(0), 10)
    first, second = await cluster.migrate(0, "broker2")
    await cluster.fill(second, 5)
    await clean(cluster, "broker1")
    second, third = await cluster.migrate(0, "broker1", reuse=0)
    assert (third.offset_delta, third.delta) == (10, 15)
    # Empty, it begins and ends at its own begin; what was before is another segment's.
    for code in (MIN, MAX):
        assert await offset(cluster, code, third, logicalQueue="true") == 10
    for timestamp in ("0", "99999999999999"):
        assert await offset(cluster, SEARCH, third, timestamp=timestamp) == 10
    await cluster.fill(third, 4)
    assert await offset(cluster, MIN, third) == 10
    assert await offset(cluster, MAX, third, logicalQueue="true") == 14
    assert await offset(cluster, SEARCH, third, timestamp="0") == 10
    assert await offset(cluster, MIN, second) == 0
    # The logical queue ends elsewhere: who asks for its end here has to look again.
    answer = await cluster.offset(MAX, second, logicalQueue="true")
    assert (answer.fields["offset"], answer.fields["REDIRECT"]) == ("5", "1")
    answer = await cluster.offset(MAX, second)
    assert (answer.fields["offset"], "REDIRECT" in answer.fields) == ("5", False)
    # An offset that was never there leads to the end, and never before the segment.
    answer = await cluster.pull(third, 500)
    assert (answer.code, answer.fields["nextBeginOffset"]) == (21, "14")
    assert answer.fields["minOffset"] == "10"
    assert first.offset_max == 10


async def test_the_queue_before_its_first_segment_leads_to_it(cluster: LogicalCluster) -> None:
    await cluster.create_topic(queues=2)
    client = await cluster.at("broker1")
    for number in range(5):
        await client.send(TOPIC, str(number).encode(), queue_id=1)
    answer = await cluster.reuse("broker1", 1, 7, SegmentState.NORMAL)
    segment = Segment.decode(answer.body)
    assert (segment.offset_delta, segment.delta) == (5, 0)
    answer = await cluster.pull(segment, 2)
    assert (answer.code, answer.remark) == (19, "no suitable queue")
    assert answer.fields["nextBeginOffset"] == "5"
    assert "REDIRECT" not in answer.fields  # a reader would come back to the same offset
    # Who reads the message queue itself reads all of it.
    old = await cluster.at("broker1", version=407)
    assert len(await old.messages(TOPIC, 1, 0)) == 5


async def test_a_hole_in_the_middle_is_passed_over(
    autojump_clock: MockClock,
) -> None:
    async with mapped_cluster("broker1", "broker2", "broker3", messages=10) as cluster:
        _, second = await cluster.migrate(0, "broker2")
        await cluster.fill(second, 10, first=10)
        second, third = await cluster.migrate(0, "broker3", others=["broker1"])
        await cluster.fill(third, 10, first=20)
        await clean(cluster, "broker2")
        chain = await cluster.chain("broker2", 0)
        assert [s.state for s in chain][1] is SegmentState.EXPIRED
        answer = await cluster.pull(second, 4)
        assert (answer.code, answer.fields["nextBeginOffset"]) == (20, "10")
        assert redirect_of(answer).following == without_number(third)
        # The others learn of it, and send nobody there any more.
        await trio.sleep(40)
        cluster.forget()
        chain = await cluster.chain("broker1", 0)
        answer = await cluster.pull(chain[0], 10)
        assert redirect_of(answer).following.broker_name == "broker3"
        bodies = []
        for segment in chain.readable:
            bodies += [m.body for m in messages_of(await cluster.pull(segment, 0))]
        assert bodies == [str(n).encode() for n in (*range(10), *range(20, 30))]


async def test_the_first_message_of_a_log_is_not_taken_for_a_cleaned_one(
    autojump_clock: MockClock,
) -> None:
    async with mapped_cluster() as cluster:
        segment = await cluster.normal(0)
        await cluster.fill(segment, 1)
        context = cluster.brokers["broker1"].running.context
        assert context.store.units(TOPIC, 0, 0, 1)[0].log_position == 0
        source, _ = await cluster.migrate(0, "broker2")
        assert source.state is SegmentState.READ_ONLY
        await trio.sleep(80)
        cluster.forget()
        assert (await cluster.chain("broker1", 0))[0].state is SegmentState.READ_ONLY


async def test_a_damaged_last_message_takes_no_other_message_of_its_segment_with_it(
    cluster: LogicalCluster,
) -> None:
    """The index has a blank unit of it, which looks as old as what the log has lost."""
    source = await cluster.normal(0)
    await clean(cluster, "broker1")
    await cluster.fill(source, 3)
    store = cluster.brokers["broker1"].running.context.store
    assert store.min_position > 0
    blank_unit(store, TOPIC, 0, 2)
    sealed, _ = await cluster.migrate(0, "broker2")
    assert sealed.state is SegmentState.READ_ONLY
    await trio.sleep(80)
    cluster.forget()
    assert (await cluster.chain("broker1", 0))[0].state is SegmentState.READ_ONLY
    answer = await cluster.pull(sealed, 0)
    assert [message.body for message in messages_of(answer)] == [b"0", b"1"]
    answer = await cluster.pull(sealed, 2)
    assert (answer.code, answer.fields["nextBeginOffset"]) == (19, "3")


async def test_who_reads_message_queues_themselves_notices_nothing(
    autojump_clock: MockClock,
) -> None:
    async with mapped_cluster(logical_queue_reuse_readable=True, messages=5) as cluster:
        _, second = await cluster.migrate(0, "broker2")
        old = await cluster.connect("broker1", version=407)
        began_s = trio.current_time()
        answer = await old.pull(TOPIC, 0, 5, sys_flag=6, suspend_timeout_millis=15_000)
        assert (answer.code, "REDIRECT" in answer.fields) == (19, False)
        assert trio.current_time() - began_s > 14  # it waits: no answer comes round and round
        await cluster.fill(second, 5)
        await cluster.migrate(0, "broker1", reuse=0)
        await cluster.fill(await cluster.normal(0), 5, first=5)
        assert [m.body for m in await old.messages(TOPIC, 0, 0)] == [
            str(n).encode() for n in range(10)
        ]


async def test_a_logical_offset_is_never_kept_as_that_of_a_message_queue(
    cluster: LogicalCluster,
) -> None:
    await cluster.fill(await cluster.normal(0), 3)
    offsets = cluster.brokers["broker1"].running.context.store.tables.consumer_offsets
    for version, expected in ((413, None), (407, 2)):
        client = await cluster.at("broker1", version=version)
        await client.pull(TOPIC, 0, 0, sys_flag=5, commit_offset=2)
        assert offsets.get("g", TOPIC, 0) == expected


async def test_a_group_that_reads_both_ways_is_warned_of(
    cluster: LogicalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    for version in (413, 413, 407, 407, 413):
        await (await cluster.at("broker1", version=version)).pull(TOPIC, 0, 0)
    warnings = [r for r in caplog.records if "each kind of its members" in r.getMessage()]
    assert len(warnings) == 1


async def test_clients_of_later_versions_are_not_taken_for_those_of_preview(
    cluster: LogicalCluster,
) -> None:
    source = await cluster.normal(0)
    await cluster.fill(source, 3)
    await cluster.migrate(0, "broker2")
    client = await cluster.connect("broker1")
    fields = pull_header(TOPIC, 0, 3).to_fields()
    later = await client.call(RequestCode.PULL_MESSAGE, fields | {"bname": "broker1"})
    assert (later.code, "REDIRECT" in later.fields) == (19, False)
    sdk = await (await cluster.connect("broker1", version=409)).call(
        RequestCode.PULL_MESSAGE, fields | {"logicalQueue": "true"}
    )
    assert redirect_of(sdk).following.broker_name == "broker2"


async def test_the_runtime_information_tells_of_segments_and_migrations(
    cluster: LogicalCluster,
) -> None:
    def info(name: str) -> dict[str, str]:
        found = cluster.info(name)
        return {key.removeprefix("logicalQueue"): value for key, value in found.items()}

    source = await cluster.normal(0)
    await cluster.fill(source, 3)
    target = await cluster.destination(0, "broker2")
    await trio.sleep(7)
    waiting = info("broker2")
    assert (waiting["Segments_WriteOnly"], waiting["Segments_Normal"]) == ("1", "1")
    assert 7000 <= int(waiting["WriteOnlyAgeMax"]) < 8000
    await cluster.prepare(source, target)
    prepared = info("broker1")
    assert (prepared["Segments_ReadOnly"], prepared["Migrations_prepared"]) == ("1", "1")
    assert (prepared["Seals"], prepared["SealsFailed"]) == ("1", "0")
    await trio.sleep(5)
    await cluster.send(source)
    await cluster.send(source, flagged=False)
    done = info("broker1")
    assert (done["Migrations_prepared"], done["MigrationAgeMax"]) == ("0", "0")
    assert (done["Redirects"], done["Forwards"], done["ForwardsFailed"]) == ("1", "1", "0")
    assert info("broker2")["WriteOnlyAgeMax"] == "0"


async def test_a_broker_without_logical_queues_has_no_word_of_them(
    autojump_clock: MockClock,
) -> None:
    async with open_logical_cluster("broker1") as cluster:
        assert not cluster.info("broker1")


async def test_a_broker_is_emptied_and_leaves(
    autojump_clock: MockClock,
) -> None:
    async with mapped_cluster(queues=2) as cluster:
        for index in (2, 3):
            await cluster.fill(await cluster.normal(index), 101)
            await cluster.migrate(index, "broker1")
        rows = [
            (s.queue_id, s.logical_index, s.delta, s.offset_max, s.state.value)
            for s in await segments(cluster, "broker1", "broker1")
        ]
        assert rows == [
            (0, 0, 0, -1, "Normal"),
            (1, 1, 0, -1, "Normal"),
            (2, 2, 101, -1, "Normal"),
            (3, 3, 101, -1, "Normal"),
        ]
        await clean(cluster, "broker2")
        gone = await segments(cluster, "broker2", "broker2")
        assert [(s.queue_id, s.offset_max, s.state.value) for s in gone] == [
            (0, 101, "Expired"),
            (1, 101, "Expired"),
        ]
        await cluster.brokers["broker2"].stop()
        answer = await cluster.send(await cluster.normal(2))
        assert answer.fields["queueOffset"] == "0"


async def segments(cluster: LogicalCluster, teller: str, broker: str) -> list[Segment]:
    """The segments of a broker as another one knows them."""
    queues = await cluster.query(teller)
    assert queues is not None
    return [segment for segment in queues.segments if segment.broker_name == broker]


async def test_a_source_that_missed_the_outcome_of_its_migration_sends_no_reader_over_it(
    autojump_clock: MockClock,
) -> None:
    """It hears of the last migration first, and of the messages in between from nobody."""
    names = "broker1", "broker2", "broker3"
    async with mapped_cluster(*names, logical_queue_reconcile_interval=30_000) as cluster:
        source = await cluster.normal(0)
        await cluster.fill(source, 3)
        target = await cluster.destination(0, "broker2")
        move = MigrateLogicalQueue.decode((await cluster.prepare(source, target)).body)
        assert move.source is not None
        assert move.destination is not None
        answer = await cluster.commit(move.source, move.destination)
        opened = MigrateLogicalQueue.decode(answer.body).destination
        assert opened is not None
        await cluster.fill(opened, 6)
        _, opened_next = await cluster.migrate(0, "broker3")
        await cluster.fill(opened_next, 2)
        await cluster.migrate(0, "broker2", others=["broker1"])
        states = [segment.state for segment in await cluster.chain("broker1", 0)]
        assert states == [SegmentState.READ_ONLY, SegmentState.WRITE_ONLY, SegmentState.NORMAL]
        answer = await cluster.pull(source, 3)
        assert "REDIRECT" not in answer.fields
        assert answer.fields["nextBeginOffset"] == "3"
        await trio.sleep(40)  # it asks what became of its migration
        assert redirect_of(await cluster.pull(source, 3)).following.key == opened.key
