"""A source that was gone past while it was alive: it hears of it, and what it took is not lost."""

from collections.abc import AsyncIterator, Sequence
from unittest.mock import patch

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import (
    ClientOptions,
    ConcurrentListener,
    ConsumeFrom,
    LanemqError,
    Outcome,
    PushOptions,
    ReceivedMessage,
    open_lite_pull_consumer,
    open_push_consumer,
)
from lanemq.sdk.admin import MigrationRefused
from lanemq.testkit.logical.cluster import (
    TOPIC,
    LogicalCluster,
    messages_of,
    redirect_of,
    until,
)
from lanemq.testkit.logical.mapped import mapped_cluster, tools
from lanemq.testkit.proxy.brokers import Client
from lanemq.testkit.proxy.peers import Peer
from lanemq.testkit.sdk.admin import carry_progress_from
from lanemq.testkit.simulation._network import Network
from lanemq.testkit.simulation._processes import LOGICAL_PORT
from lanemq.wire import PullSysFlag, RequestCode
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.headers import QueryConsumerOffset, UpdateConsumerOffset
from lanemq.wire.logical import (
    READ_FIELD,
    READER_FIELD,
    Reached,
    Segment,
    SegmentState,
    progress_topic,
)
from lanemq.wire.message import stage_group

GROUP = "readers"
TOOLS = "10.0.9.8"
COMMITTING = PullSysFlag.COMMIT_OFFSET | PullSysFlag.SUBSCRIPTION
TAKEN = 70
"""Messages that the source takes after its queue has gone on elsewhere."""


@pytest.fixture
async def cluster(autojump_clock: MockClock) -> AsyncIterator[LogicalCluster]:
    """Logical queue 0 has 10 messages at broker1, which broker2 cannot reach."""
    async with mapped_cluster("broker1", "broker2", "broker3", messages=10) as cluster:
        cluster.network.part(cluster.brokers["broker1"].host, cluster.brokers["broker2"].host)
        yield cluster


async def gone_past(cluster: LogicalCluster) -> Segment:
    """Have the queue continue at broker2, and broker1 take messages all the same."""
    source = await cluster.normal(0)
    async with tools(cluster) as admin:
        await admin.migrate_logical_queue(TOPIC, 0, "broker2", force_delta=10, source_is_gone=True)
    await cluster.fill(source, TAKEN, first=1000)
    return source


async def found_out(cluster: LogicalCluster) -> None:
    cluster.network.join()
    logical = cluster.brokers["broker1"].running.context.logical
    with trio.fail_after(10):
        await until(lambda: not logical.mappings[TOPIC].chain(0)[0].is_writable)


async def commit(cluster: LogicalCluster, segment: Segment, offset: int) -> None:
    """Commit as a client does that takes ``segment`` for the end of its queue."""
    name = progress_topic(TOPIC, segment.delta)
    queue = MessageQueue(name, segment.broker_name, segment.logical_index)
    async with tools(cluster) as admin:
        await admin.put_offset(cluster.brokers[segment.broker_name].address, GROUP, queue, offset)


def kept(cluster: LogicalCluster, segment: Segment) -> int | None:
    """The group's offset that the broker of a segment keeps for it."""
    tables = cluster.brokers[segment.broker_name].running.context.store.tables
    name = progress_topic(TOPIC, segment.delta)
    return tables.consumer_offsets.get(GROUP, name, segment.logical_index)


async def bodies(cluster: LogicalCluster, segment: Segment) -> list[int]:
    found: list[int] = []
    while messages := messages_of(await cluster.pull(segment, len(found))):
        found += [int(message.body) for message in messages]
    return found


async def test_a_source_that_a_name_server_lists_is_not_gone_past_without_a_second_word(
    cluster: LogicalCluster,
) -> None:
    source = await cluster.normal(0)
    async with tools(cluster) as admin:
        with pytest.raises(MigrationRefused, match="--sourceIsGone"):
            await admin.migrate_logical_queue(TOPIC, 0, "broker2", force_delta=10)
    # Nor by a tool that does not look.
    target = await cluster.destination(0, "broker2")
    refused = await cluster.commit(source, target.with_delta(10))
    assert refused.code == 1
    assert "a name server lists it" in (refused.remark or "")
    assert await cluster.normal(0) == source
    await cluster.brokers["broker1"].kill()
    assert (await cluster.commit(source, target.with_delta(10))).code == 0


async def test_a_source_hears_that_it_was_gone_past_as_soon_as_it_can_be_reached(
    cluster: LogicalCluster,
) -> None:
    source = await gone_past(cluster)
    await found_out(cluster)
    runtime = cluster.brokers["broker1"].running.context.logical.counters
    assert list(runtime.superseded.values()) == [TAKEN]
    (alarm,) = runtime.alarms.values()
    assert alarm.startswith(f"{TAKEN} messages from 10 on are in no logical queue")
    assert (await cluster.send(source)).code != 0
    said = cluster.info("broker1")
    assert said["logicalQueueSupersededMessages"] == str(TAKEN)


@pytest.mark.slow
@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_source_that_no_tool_reached_hears_of_it_by_the_destination(
    autojump_clock: MockClock, cluster: LogicalCluster, *, is_restarted: bool
) -> None:
    cluster.network.part(cluster.brokers["broker1"].host, TOOLS)
    cluster.network.part(cluster.brokers["broker1"].host, cluster.name_server.host)
    await gone_past(cluster)
    logical = cluster.brokers["broker1"].running.context.logical
    assert len(logical.mappings[TOPIC].chain(0)) == 1  # it has heard nothing
    if is_restarted:
        await cluster.brokers["broker2"].kill()
        await cluster.brokers["broker2"].restart("kill")
    cluster.network.join(cluster.brokers["broker1"].host, cluster.brokers["broker2"].host)
    with trio.fail_after(10):
        await until(lambda: not logical.mappings[TOPIC].chain(0)[0].is_writable)


async def test_what_a_superseded_source_took_is_appended_in_order_and_once(
    cluster: LogicalCluster,
) -> None:
    await gone_past(cluster)
    end = await cluster.chain("broker2", 0)
    assert end.normal is not None
    await cluster.fill(end.normal, 5, first=10)
    await found_out(cluster)
    async with tools(cluster) as admin:
        address = cluster.brokers["broker1"].address
        assert await admin.append_superseded(address, topic="another") == 0
        assert await admin.append_superseded(address) == TAKEN
        assert await admin.append_superseded(address) == 0
    said = cluster.info("broker1")
    expected = [*range(10, 15), *range(1000, 1000 + TAKEN)]
    assert await bodies(cluster, end.normal) == expected
    assert said["logicalQueueSupersededMessages"] == "0"
    assert not [key for key in said if key.startswith("logicalQueueAlarm_")]
    broker = cluster.brokers["broker1"]
    await broker.kill()
    await broker.restart("power")
    async with tools(cluster) as admin:
        assert await admin.append_superseded(address) == 0


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["broker1", "broker2"])
async def test_an_append_that_a_crash_interrupts_goes_on_where_it_was(
    cluster: LogicalCluster, victim: str
) -> None:
    await gone_past(cluster)
    await found_out(cluster)
    end = await cluster.normal(0)
    store = cluster.brokers["broker2"].running.context.store
    broker, address = cluster.brokers[victim], cluster.brokers["broker1"].address

    async def append() -> None:
        async with tools(cluster) as admin:
            with pytest.raises(LanemqError):
                await admin.append_superseded(address)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(append)
        await until(lambda: store.bounds(TOPIC, end.queue_id)[1] > 40)  # between two notes
        await broker.kill()
        await trio.sleep(1)
        await broker.restart("kill")
    cluster.forget()
    async with trio.open_nursery() as nursery:
        # The queue has moved on meanwhile: what was appended is found all the same.
        await cluster.fill(end, 1, first=5000)
        await cluster.migrate(0, "broker3")
        async with tools(cluster) as admin:
            await admin.append_superseded(address)
    last = await cluster.normal(0)
    found = await bodies(cluster, end) + await bodies(cluster, last)
    assert [number for number in found if number != 5000] == [*range(1000, 1000 + TAKEN)]


async def test_an_append_whose_answer_is_lost_is_not_tried_where_the_queue_is_by_then(
    cluster: LogicalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await gone_past(cluster)
    await found_out(cluster)
    end = await cluster.normal(0)
    broker, address = cluster.brokers["broker2"], cluster.brokers["broker1"].address
    store, sync = broker.running.context.store, broker.files.sync_content

    async def late(content: object) -> None:
        await trio.sleep(0.2)
        await sync(content)  # type: ignore[arg-type]

    async def append() -> None:
        async with tools(cluster) as admin:
            with pytest.raises(LanemqError, match="call it again"):
                await admin.append_superseded(address)

    monkeypatch.setattr(broker.files, "sync_content", late)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(append)
        await until(lambda: store.bounds(TOPIC, end.queue_id)[1] == 5)  # stored, and not answered
        cluster.network.part(broker.host, cluster.brokers["broker1"].host)
        await cluster.migrate(0, "broker3", others=["broker1"])
    cluster.network.join()
    async with tools(cluster) as admin:
        await admin.append_superseded(address)
    found = await bodies(cluster, end) + await bodies(cluster, await cluster.normal(0))
    assert found == [*range(1000, 1000 + TAKEN)]


async def found_by(cluster: LogicalCluster, port: int, broker: str) -> int | None:
    """The offset at which a member of the group that starts now goes on in logical queue 0."""
    stream = await cluster.network.dialer("10.0.9.7")(cluster.brokers[broker].host, port)
    query = QueryConsumerOffset(GROUP, TOPIC, 0, set_zero_if_not_found=False)
    client = Client(Peer(stream))
    answer = await client.call(RequestCode.QUERY_CONSUMER_OFFSET, query.to_fields())
    return int(answer.fields["offset"]) if answer.code == 0 else None


@pytest.mark.slow
@pytest.mark.parametrize("is_told", [False, True])
async def test_progress_behind_the_cut_is_progress_up_to_it(
    autojump_clock: MockClock, cluster: LogicalCluster, *, is_told: bool
) -> None:
    source = await gone_past(cluster)
    await commit(cluster, source, 10 + TAKEN)  # a reader of what was cut off, gone since
    await cluster.fill((await cluster.chain("broker2", 0))[-1], 200, first=10)
    if is_told:
        await found_out(cluster)
        assert kept(cluster, source) == 10
    assert await found_by(cluster, LOGICAL_PORT, "broker3") == 10


async def test_a_member_that_starts_goes_on_at_the_cut(cluster: LogicalCluster) -> None:
    source = await gone_past(cluster)
    await commit(cluster, source, 10 + TAKEN)
    await found_out(cluster)
    async with open_lite_pull_consumer(
        GROUP,
        name_servers=cluster.name_server.address,
        dial=cluster.network.dialer("10.0.9.7"),
    ) as consumer:
        queues = await consumer.queues_of(TOPIC)
        assert await consumer.committed(min(queues, key=lambda queue: queue.queue_id)) == 10


async def test_a_commit_behind_the_cut_is_passed_on_as_one_up_to_it(
    cluster: LogicalCluster,
) -> None:
    source = await gone_past(cluster)
    (opened,) = [s for s in await cluster.chain("broker2", 0) if s.broker_name == "broker2"]
    await found_out(cluster)
    await commit(cluster, source, 10 + TAKEN)
    await trio.sleep(10)
    assert kept(cluster, opened) == 10
    await commit(cluster, opened, 15)
    await commit(cluster, source, 10 + TAKEN)
    await trio.sleep(10)
    assert kept(cluster, opened) == 15


async def test_a_drain_takes_progress_along_up_to_the_cut(cluster: LogicalCluster) -> None:
    source = await gone_past(cluster)
    await commit(cluster, source, 10 + TAKEN)
    await found_out(cluster)
    await cluster.fill(await cluster.normal(0), 200, first=10)
    async with tools(cluster) as admin:
        await carry_progress_from(admin, "broker1")
    assert kept(cluster, await cluster.normal(0)) == 10


async def test_a_source_that_knows_of_a_later_segment_gives_out_nothing_behind_its_begin(
    cluster: LogicalCluster,
) -> None:
    source = await gone_past(cluster)  # the tool has told it; whether it is true it cannot ask
    (knows,) = [s for s in await cluster.chain("broker1", 0) if s.broker_name == "broker2"]
    assert knows.delta == 10
    answer = await cluster.pull(source, 0)
    assert [int(message.body) for message in messages_of(answer)] == [*range(10)]
    answer = await cluster.pull(source, 10)
    assert not messages_of(answer)
    assert redirect_of(answer).following.key == knows.key


async def test_a_later_segment_that_its_broker_knows_nothing_of_is_none(
    cluster: LogicalCluster,
) -> None:
    source = await cluster.normal(0)
    made_up = await cluster.destination(0, "broker3")
    await cluster.brokers["broker3"].running.context.logical.change(
        TOPIC, lambda mapping: mapping.without(made_up.key)
    )
    opened = made_up.with_delta(4).with_state(SegmentState.NORMAL)
    await cluster.notify("broker1", source, opened)
    await trio.sleep(10)
    assert len(messages_of(await cluster.pull(source, 0))) == 10
    assert await cluster.normal(0) == source


@pytest.mark.slow
@pytest.mark.parametrize("knows_logical_queues", [True, False])
async def test_a_reader_that_was_past_the_cut_goes_on_at_the_cut(
    autojump_clock: MockClock, cluster: LogicalCluster, *, knows_logical_queues: bool
) -> None:
    """Its position in memory lies behind messages that it has never seen."""
    seen: list[int] = []

    async def note(messages: Sequence[ReceivedMessage]) -> Outcome:
        seen.extend(int(message.body) for message in messages)
        return Outcome.SUCCESS

    async with open_push_consumer(
        GROUP,
        name_servers=cluster.name_server.address,
        subscriptions={TOPIC: "*"},
        listener=ConcurrentListener(note),
        options=PushOptions(
            consume_from=ConsumeFrom.FIRST_OFFSET,
            offset_persist_interval_s=1,
            client=ClientOptions(logical_queues=knows_logical_queues),
        ),
        dial=cluster.network.dialer("10.0.9.7"),
    ):
        with trio.fail_after(60):
            await until(lambda: len(seen) >= 10)
        for host in (TOOLS, cluster.name_server.host):  # nobody tells source and reader anything
            cluster.network.part(cluster.brokers["broker1"].host, host)
        for host in ("10.0.9.7", cluster.brokers["broker3"].host):  # nor to a listener
            cluster.network.part(host, cluster.name_server.host)
        await gone_past(cluster)
        with trio.fail_after(60):
            await until(lambda: len(seen) >= 10 + TAKEN)
        end = await cluster.chain("broker2", 0)
        assert end.normal is not None
        await cluster.fill(end.normal, 200, first=10)
        await found_out(cluster)
        with trio.fail_after(120):
            await until(lambda: set(range(210)) <= set(seen))
    assert [number for number in seen if number < 210] == [*range(210)]
    assert await found_by(cluster, LOGICAL_PORT, "broker2") == 210


async def test_a_client_of_old_that_read_past_the_cut_is_sent_back_to_it(
    cluster: LogicalCluster,
) -> None:
    """Its commits meanwhile, by a pull or by themselves, count up to the cut."""
    listener = cluster.brokers["broker3"].host
    client = Client(Peer(await cluster.network.dialer("10.0.9.7")(listener, LOGICAL_PORT)))
    read = len(messages_of(await client.pull(TOPIC, 0, 0, consumer_group=GROUP)))
    for host in (TOOLS, cluster.name_server.host):  # nobody tells the source or the listener
        cluster.network.part(cluster.brokers["broker1"].host, host)
    cluster.network.part(listener, cluster.name_server.host)
    await gone_past(cluster)
    while read < 10 + TAKEN:
        answer = await client.pull(TOPIC, 0, read, consumer_group=GROUP)
        assert answer.code == 0, answer.remark
        read = int(answer.fields["nextBeginOffset"])
    await cluster.fill((await cluster.chain("broker2", 0))[-1], 200, first=10)
    await found_out(cluster)
    for _ in range(2):  # however often it asks
        answer = await client.pull(
            TOPIC, 0, read, consumer_group=GROUP, sys_flag=COMMITTING, commit_offset=read
        )
        assert (answer.code, answer.fields["nextBeginOffset"]) == (21, "10")
    header = UpdateConsumerOffset(GROUP, TOPIC, 0, read)
    assert (await client.call(RequestCode.UPDATE_CONSUMER_OFFSET, header.to_fields())).code == 0
    assert await found_by(cluster, LOGICAL_PORT, "broker2") == 10
    answer = await client.pull(TOPIC, 0, 10, consumer_group=GROUP)
    assert [int(message.body) for message in messages_of(answer)][:2] == [10, 11]
    read = int(answer.fields["nextBeginOffset"])
    header = UpdateConsumerOffset(GROUP, TOPIC, 0, read)
    assert (await client.call(RequestCode.UPDATE_CONSUMER_OFFSET, header.to_fields())).code == 0
    assert await found_by(cluster, LOGICAL_PORT, "broker2") == read


async def test_an_answer_of_a_source_that_knows_no_cut_ends_at_the_cut(
    cluster: LogicalCluster,
) -> None:
    """Its records behind the cut would be taken for those that have their offsets, which a
    consumer then passed over (found by the simulation)."""
    listener = cluster.brokers["broker3"].host
    source, names = cluster.brokers["broker1"].host, cluster.name_server.host
    for host in (TOOLS, names, cluster.brokers["broker2"].host):  # none of them tells the source
        cluster.network.part(source, host)
    await gone_past(cluster)
    client = Client(Peer(await cluster.network.dialer("10.0.9.7")(listener, LOGICAL_PORT)))
    answer = await client.pull(TOPIC, 0, 8, consumer_group=GROUP)
    assert [int(message.body) for message in messages_of(answer)] == [8, 9]
    assert answer.fields["nextBeginOffset"] == "10"


async def old_client(cluster: LogicalCluster, broker: str) -> Client:
    """An older client at the listener of a broker."""
    dial = cluster.network.dialer("10.0.9.7")
    return Client(Peer(await dial(cluster.brokers[broker].host, LOGICAL_PORT)))


async def read_past_the_cut(cluster: LogicalCluster) -> int:
    """Have an older client read what the source took, whose listener dies then; returns its
    place."""
    reader = await old_client(cluster, "broker3")
    for offset in (0, 5):
        header = UpdateConsumerOffset(GROUP, TOPIC, 0, offset)
        await reader.call(RequestCode.UPDATE_CONSUMER_OFFSET, header.to_fields())
    for host in (TOOLS, cluster.name_server.host):  # nobody tells the source or the listener
        cluster.network.part(cluster.brokers["broker1"].host, host)
    cluster.network.part(cluster.brokers["broker3"].host, cluster.name_server.host)
    await gone_past(cluster)
    read = 0
    while read < 10 + TAKEN:
        answer = await reader.pull(TOPIC, 0, read, consumer_group=GROUP)
        assert answer.code == 0, answer.remark
        read = int(answer.fields["nextBeginOffset"])
    await cluster.fill((await cluster.chain("broker2", 0))[-1], 200, first=10)
    await found_out(cluster)
    await cluster.brokers["broker3"].kill()
    return read


async def test_a_commit_of_what_was_read_in_a_source_counts_up_to_the_cut(
    cluster: LogicalCluster,
) -> None:
    """The listener that keeps it knows the cut; the reader that knows segments does not yet."""
    source = await gone_past(cluster)
    end = (await cluster.chain("broker2", 0))[-1]
    await cluster.fill(end, 200, first=10)
    await found_out(cluster)
    reader = await old_client(cluster, "broker2")
    fields = UpdateConsumerOffset(GROUP, TOPIC, 0, 80).to_fields() | {READER_FIELD: "true"}
    for read, counted in ((source, 10), (end, 80)):
        said = fields | {READ_FIELD: Reached(read, 80).meant}
        answer = await reader.call(RequestCode.UPDATE_CONSUMER_OFFSET, said)
        assert answer.code == 0
        assert await found_by(cluster, LOGICAL_PORT, "broker2") == counted


async def test_a_reader_that_knows_segments_names_the_one_it_read_last_as_it_commits(
    autojump_clock: MockClock, cluster: LogicalCluster
) -> None:
    sent: list[bytes] = []

    async def note(messages: Sequence[ReceivedMessage]) -> Outcome:
        return Outcome.SUCCESS

    source = await cluster.normal(0)
    with patch.object(Network, "note", lambda network, end, data: sent.append(data)):
        async with open_push_consumer(
            GROUP,
            name_servers=cluster.name_server.address,
            subscriptions={TOPIC: "*"},
            listener=ConcurrentListener(note),
            options=PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET, offset_persist_interval_s=1),
            dial=cluster.network.dialer("10.0.9.7"),
        ):
            named = f'"{READ_FIELD}":"{Reached(source, 10).meant}"'.encode()
            with trio.fail_after(60):
                await until(lambda: any(named in data for data in sent))


async def test_a_client_of_old_that_no_listener_remembers_goes_on_at_its_group_s_progress(
    cluster: LogicalCluster,
) -> None:
    read = await read_past_the_cut(cluster)
    reader = await old_client(cluster, "broker2")
    header = UpdateConsumerOffset(GROUP, TOPIC, 0, read)
    update = RequestCode.UPDATE_CONSUMER_OFFSET
    await reader.peer.send(reader.frame(update, header.to_fields(), oneway=True))
    answer = await reader.pull(
        TOPIC, 0, read, consumer_group=GROUP, sys_flag=COMMITTING, commit_offset=read
    )
    assert (answer.code, answer.fields["nextBeginOffset"]) == (21, "10")
    assert await found_by(cluster, LOGICAL_PORT, "broker2") == 5
    seen, offset = list[int](), 10
    while offset < 210:
        answer = await reader.pull(TOPIC, 0, offset, consumer_group=GROUP)
        seen += [int(message.body) for message in messages_of(answer)]
        offset = int(answer.fields["nextBeginOffset"])
    assert seen == [*range(10, 210)]
    # Once its place is known, what it commits counts, and another connection of the group begins
    # there.
    header = UpdateConsumerOffset(GROUP, TOPIC, 0, 150)
    await reader.call(RequestCode.UPDATE_CONSUMER_OFFSET, header.to_fields())
    again = await old_client(cluster, "broker2")
    for offset, code, following in ((190, 21, "150"), (150, 0, "182")):
        answer = await again.pull(TOPIC, 0, offset, consumer_group=GROUP)
        assert (answer.code, answer.fields["nextBeginOffset"]) == (code, following)


async def test_a_group_that_never_committed_begins_where_it_likes_and_a_tool_commits_what_it_likes(
    cluster: LogicalCluster,
) -> None:
    await gone_past(cluster)
    await cluster.fill((await cluster.chain("broker2", 0))[-1], 200, first=10)
    await found_out(cluster)
    answer = await (await old_client(cluster, "broker2")).pull(TOPIC, 0, 200, consumer_group="new")
    assert [int(message.body) for message in messages_of(answer)] == [*range(200, 210)]
    header = UpdateConsumerOffset(GROUP, TOPIC, 0, 120)
    tool = await old_client(cluster, "broker3")
    assert (await tool.call(RequestCode.UPDATE_CONSUMER_OFFSET, header.to_fields())).code == 0
    assert await found_by(cluster, LOGICAL_PORT, "broker2") == 120


async def test_what_a_staged_consumer_notes_of_its_stages_counts_wherever_its_reader_was(
    cluster: LogicalCluster,
) -> None:
    await gone_past(cluster)
    await found_out(cluster)
    client, stages = await old_client(cluster, "broker2"), stage_group(GROUP)
    header = UpdateConsumerOffset(stages, TOPIC, 0, 777)
    update = RequestCode.UPDATE_CONSUMER_OFFSET
    await client.peer.send(client.frame(update, header.to_fields(), oneway=True))
    query = QueryConsumerOffset(stages, TOPIC, 0, set_zero_if_not_found=False)
    answer, code = None, RequestCode.QUERY_CONSUMER_OFFSET
    with trio.move_on_after(10):
        while answer is None or answer.code:  # it was not answered, and is stored a moment later
            answer = await client.call(code, query.to_fields())
    assert answer is not None
    assert answer.fields["offset"] == "777"
