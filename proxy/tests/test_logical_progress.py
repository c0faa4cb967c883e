"""Groups' progress goes with a logical queue, and outlives every broker that it was at."""

from functools import partial
from types import SimpleNamespace
from typing import Any, final

import pytest
import trio

from lanemq.proxy.broker.logical.state import _progress
from lanemq.proxy.logical.listener.offsets._progress import AT_ONCE, ListenerProgress
from lanemq.proxy.sessions.values._framed import GroupOffset
from lanemq.testkit.logical.cluster import CLIENT_HOST, TOPIC, LogicalCluster
from lanemq.testkit.logical.mapped import mapped_cluster, tools
from lanemq.testkit.proxy.brokers import Client
from lanemq.testkit.proxy.peers import Peer
from lanemq.testkit.simulation._processes import LOGICAL_PORT
from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.headers import QueryConsumerOffset, UpdateConsumerOffset
from lanemq.wire.logical import (
    Chain,
    CommitTo,
    MigrateLogicalQueue,
    Reached,
    Segment,
    parse_progress_topic,
    progress_topic,
)

pytestmark = pytest.mark.mapped_cluster("broker1", "broker2", "broker3", messages=10)

GROUP = "readers"


async def commit(
    cluster: LogicalCluster, segment: Segment, offset: int, *, group: str = GROUP, delta: int = -1
) -> None:
    """Commit as a client does that takes ``segment`` for the end of its queue."""
    async with tools(cluster) as admin:
        name = progress_topic(TOPIC, segment.delta if delta < 0 else delta)
        queue = MessageQueue(name, segment.broker_name, segment.logical_index)
        await admin.put_offset(cluster.brokers[segment.broker_name].address, group, queue, offset)


def kept(cluster: LogicalCluster, segment: Segment, group: str = GROUP) -> int | None:
    """The group's offset that the broker of a segment keeps for it."""
    tables = cluster.brokers[segment.broker_name].running.context.store.tables
    name = progress_topic(TOPIC, segment.delta)
    return tables.consumer_offsets.get(group, name, segment.logical_index)


async def test_a_migration_carries_the_progress_of_groups_that_are_offline(
    cluster: LogicalCluster,
) -> None:
    first = await cluster.normal(0)
    await commit(cluster, first, 10)
    await commit(cluster, first, 0, group="from the beginning")
    _, second = await cluster.migrate(0, "broker2")
    assert kept(cluster, second) == 10
    assert kept(cluster, second, "from the beginning") == 0
    await cluster.fill(second, 5, first=10)
    _, third = await cluster.migrate(0, "broker3", others=["broker1"])
    assert kept(cluster, third) == 10
    for name in ("broker1", "broker2"):
        await cluster.brokers[name].kill()
    broker = cluster.brokers["broker3"]
    await broker.kill()
    await broker.restart("power")  # it was durable before anybody could send there
    assert kept(cluster, third) == 10


async def test_progress_in_the_physical_queue_goes_along_when_it_has_become_a_logical_one(
    cluster: LogicalCluster,
) -> None:
    first = await cluster.normal(0)
    async with tools(cluster) as admin:
        address = cluster.brokers["broker1"].address
        await admin.put_offset(address, GROUP, first.message_queue, 7)
    _, second = await cluster.migrate(0, "broker2")
    assert kept(cluster, second) == 7


async def test_a_migration_looks_at_a_bounded_number_of_ends_that_the_queue_does_not_have(
    cluster: LogicalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever commits chooses the delta, and a migration looks at all in one turn."""
    monkeypatch.setattr(_progress, "OLD_ENDS_MAX", 2)
    _, second = await cluster.migrate(0, "broker2")
    offsets = cluster.brokers["broker2"].running.context.store.tables.consumer_offsets
    for delta in (1, 2, 3, 4, 5, 10, 99):
        offsets.put(f"g{delta}", progress_topic(TOPIC, delta), 0, delta)
    await cluster.fill(second, 5, first=10)
    _, third = await cluster.migrate(0, "broker3", others=["broker1"])
    carried = {delta: kept(cluster, third, f"g{delta}") for delta in (1, 2, 3, 4, 5, 10, 99)}
    assert carried == {1: None, 2: None, 3: None, 4: 4, 5: 5, 10: 10, 99: None}


async def test_a_tool_that_carries_no_progress_is_made_up_for(cluster: LogicalCluster) -> None:
    source = await cluster.normal(0)
    await commit(cluster, source, 10)
    target = await cluster.destination(0, "broker2")
    move = MigrateLogicalQueue.decode((await cluster.prepare(source, target)).body)
    assert move.progress == {GROUP: 10}
    assert move.source is not None
    assert move.destination is not None
    # As the tool of 5.0.0-PREVIEW does: it knows neither progress nor numbers.
    opened = move.destination.with_migration(None)
    assert (await cluster.commit(move.source, opened)).code == 0
    assert kept(cluster, opened) == 10


async def test_what_is_committed_at_the_old_end_is_passed_on_and_never_takes_progress_back(
    cluster: LogicalCluster,
) -> None:
    source = await cluster.normal(0)
    await commit(cluster, source, 3)
    target = await cluster.destination(0, "broker2")
    move = MigrateLogicalQueue.decode((await cluster.prepare(source, target)).body)
    assert move.source is not None
    assert move.destination is not None
    await commit(cluster, source, 6)  # behind the answer that has the progress
    await cluster.commit(move.source, move.destination)
    await cluster.notify("broker1", move.source, move.destination)
    await trio.sleep(10)
    opened = await cluster.normal(0)
    assert kept(cluster, opened) == 6
    await commit(cluster, opened, 9)
    await commit(cluster, source, 8)
    await trio.sleep(10)
    assert kept(cluster, opened) == 9
    await commit(cluster, opened, 2)  # who resets a group does it at the end
    assert kept(cluster, opened) == 2


async def test_a_commit_by_an_older_view_counts_behind_the_end_of_the_old_segment(
    cluster: LogicalCluster,
) -> None:
    source, opened = await cluster.migrate(0, "broker2")
    await cluster.fill(opened, 5, first=10)
    await commit(cluster, source, 13)
    await trio.sleep(5)
    assert kept(cluster, opened) == 13
    # Whoever asks by that view goes on there, too.
    progress = cluster.brokers["broker1"].running.context.logical_progress
    assert progress.kept(GROUP, progress_topic(TOPIC, source.delta), 0) == 13
    _, third = await cluster.migrate(0, "broker3", others=["broker1"])
    await cluster.fill(third, 2, first=15)
    await commit(cluster, source, 16)  # by way of two brokers
    await trio.sleep(5)
    assert kept(cluster, third) == 16
    await commit(cluster, source, 40, group="of messages that are lost")
    await trio.sleep(5)
    assert kept(cluster, third, "of messages that are lost") == 17


async def test_progress_in_segments_that_are_not_there_counts_as_unknown(
    cluster: LogicalCluster,
) -> None:
    first = await cluster.normal(0)
    known = cluster.brokers["broker1"].running.context.unknown_progress
    assert known._has_queue(progress_topic(TOPIC, first.delta), 0)
    assert not known._has_queue(progress_topic(TOPIC, 7), 0)
    assert not known._has_queue(f"%LQ%00%{TOPIC}", 0)  # another name for the first


async def test_more_commits_at_the_old_end_than_are_kept_to_be_passed_on_fail_no_task(
    cluster: LogicalCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_progress, "QUEUED_MAX", 3)
    source, opened = await cluster.migrate(0, "broker2")
    first, second = (cluster.brokers[name].host for name in ("broker1", "broker2"))
    cluster.network.part(first, second)
    for number in range(9):  # each of these takes as long as one that is passed on to nobody
        await commit(cluster, source, 5, group=f"group{number}")
        await trio.sleep(_progress.TELL_S / 3)
    cluster.network.join()
    await trio.sleep(10)
    assert not [record for record in caplog.records if record.exc_info]
    await commit(cluster, source, 6, group="group9")
    await trio.sleep(10)
    assert kept(cluster, opened, "group9") == 6


async def test_what_is_committed_at_a_destination_before_it_opens_is_not_taken_back(
    cluster: LogicalCluster,
) -> None:
    source = await cluster.normal(0)
    await commit(cluster, source, 3)
    target = await cluster.destination(0, "broker2")
    move = MigrateLogicalQueue.decode((await cluster.prepare(source, target)).body)
    assert move.source is not None
    assert move.destination is not None
    await commit(cluster, move.destination, 8)
    assert kept(cluster, move.destination) is None  # who looks for it asks the source then
    await cluster.commit(move.source, move.destination)
    assert kept(cluster, move.destination) == 8


async def test_brokers_that_complete_a_migration_carry_progress_too(
    cluster: LogicalCluster,
) -> None:
    source = await cluster.normal(0)
    await commit(cluster, source, 10)
    target = await cluster.destination(0, "broker2")
    assert (await cluster.prepare(source, target)).code == 0
    await trio.sleep(10)
    opened = await cluster.normal(0)
    assert opened.broker_name == "broker2"
    assert kept(cluster, opened) == 10


@pytest.mark.parametrize("name", ["", "T", "%LQ%", "%LQ%1", "%LQ%x%T", "%LQ%1%", "%LQ%-1%T"])
def test_other_names_are_no_progress_topics(name: str) -> None:
    assert parse_progress_topic(name) is None


def test_a_progress_topic_can_be_taken_apart() -> None:
    assert parse_progress_topic(progress_topic("a%b", 70)) == ("a%b", 70)


async def test_a_commit_for_a_queue_that_is_unknown_is_kept_as_it_is(
    cluster: LogicalCluster,
) -> None:
    client = await cluster.at("broker1")
    for name in ("%LQ%", "%LQ%5%nothing"):
        fields = {"consumerGroup": GROUP, "topic": name, "queueId": "0", "commitOffset": "4"}
        assert (await client.call(RequestCode.UPDATE_CONSUMER_OFFSET, fields)).code == 0
        tables = cluster.brokers["broker1"].running.context.store.tables
        assert tables.consumer_offsets.get(GROUP, name, 0) == 4


@final
class OneBroker:
    """The part of a cluster that a listener asks for progress: one queue's view, and its broker.

    The broker knows ``offsets`` by topic. As Apache's, it answers 0 for another topic whose queue
    still has its first message, if it is ``young``.
    """

    def __init__(self, offsets: dict[str, int], *, young: bool) -> None:
        self._chain = Chain(0, [Segment(MessageQueue(TOPIC, "broker1", 3), 0, 0)])
        self._offsets = offsets
        self._young = young

    async def chain(self, topic: str, index: int) -> tuple["OneBroker", Chain]:
        return self, self._chain

    def address(self, broker_name: str) -> str:
        return "10.0.0.1:10911"

    async def call(self, *call: object) -> GroupOffset:
        asked = call[-1]
        assert isinstance(asked, QueryConsumerOffset)
        if asked.topic in self._offsets:
            return GroupOffset(self._offsets[asked.topic])
        if self._young:
            return GroupOffset(0)
        raise Refused(ResponseCode.QUERY_NOT_FOUND, "not found")


@pytest.mark.parametrize(
    ("offsets", "young", "expected"),
    [
        ({TOPIC: 500}, True, 500),
        ({TOPIC: 500}, False, 500),
        ({TOPIC: 500, progress_topic(TOPIC, 0): 700}, True, 700),
        ({TOPIC: 0}, False, 0),
        ({}, True, 0),
        ({}, False, None),
    ],
)
async def test_a_listener_does_not_take_the_0_of_a_broker_without_progress_for_progress(
    offsets: dict[str, int], young: bool, expected: int | None
) -> None:
    broker: Any = OneBroker(offsets, young=young)
    progress = ListenerProgress(brokers=broker, queues=broker)
    assert await progress.find(GROUP, TOPIC, 0) == expected


def committing(offset: int, group: str = GROUP) -> dict[str, Any]:
    """The fields of a pull that commits an offset."""
    return {"consumer_group": group, "sys_flag": 5, "commit_offset": offset}


@pytest.mark.slow
async def test_a_commit_with_a_pull_that_has_to_wait_takes_nothing_back(
    cluster: LogicalCluster,
) -> None:
    """A pull carries the progress of its time, and the client commits the next by itself."""
    listener, dial = cluster.brokers["broker3"].host, cluster.network.dialer(CLIENT_HOST)
    first, other = await cluster.normal(0), await cluster.normal(1)
    assert (first.broker_name, other.broker_name) == ("broker1", "broker2")

    async def pull(queue_id: int, group: str, committed: int) -> None:
        client = Client(Peer(await dial(listener, LOGICAL_PORT)))
        await client.pull("T", queue_id, committed, **committing(committed, group))

    await pull(0, "another", 3)
    assert kept(cluster, first, "another") == 3
    cluster.network.part(listener, cluster.brokers["broker2"].host)
    client = Client(Peer(await dial(listener, LOGICAL_PORT)))
    async with trio.open_nursery() as nursery:
        for number in range(AT_ONCE):  # commits for a broker that is away are under way
            nursery.start_soon(pull, 1, f"group{number}", 1)
            await trio.sleep(0.01)
        await trio.sleep(0.5)  # until the last one, too, has arrived
        await pull(0, GROUP, 9)
        assert kept(cluster, first) is None
        asked = UpdateConsumerOffset(GROUP, "T", 0, 10).to_fields()
        assert (await client.call(RequestCode.UPDATE_CONSUMER_OFFSET, asked)).code == 0
        assert kept(cluster, first) == 10
    await trio.sleep(60)
    assert kept(cluster, first) == 10
    # Commits under way are written before those that came later, of whichever kind.
    cluster.network.part(listener, cluster.brokers["broker1"].host)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pull, 0, GROUP, 5)
        await trio.sleep(0.01)
        nursery.start_soon(client.call, RequestCode.UPDATE_CONSUMER_OFFSET, asked)
        await trio.sleep(0.01)
        nursery.start_soon(pull, 0, GROUP, 7)
        await trio.sleep(0.01)
        nursery.start_soon(pull, 0, GROUP, 8)
        await trio.sleep(0.01)
        cluster.network.join()
    await trio.sleep(60)
    assert kept(cluster, first) == 8


async def test_a_consumer_that_leaves_at_once_has_its_last_commits_kept(
    cluster: LogicalCluster,
) -> None:
    """Java commits without an answer, and ends its connection."""
    host, dial = cluster.brokers["broker3"].host, cluster.network.dialer(CLIENT_HOST)
    first = await cluster.normal(0)
    connections = [await dial(host, LOGICAL_PORT) for _ in range(2)]
    leaving, other = map(Client, map(Peer, connections))
    cluster.network.part(host, cluster.brokers["broker1"].host)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(other.pull, "T", 0, 4, **committing(4)))  # it is under way
        await trio.sleep(0.01)
        commits = [
            leaving.frame(
                RequestCode.UPDATE_CONSUMER_OFFSET,
                UpdateConsumerOffset(GROUP, "T", 0, offset).to_fields(),
                oneway=True,
            )
            for offset in (9, 11, 10)
        ]
        await leaving.peer.send(*commits)
        await connections[0].aclose()
        await trio.sleep(0.01)
        cluster.network.join()
    assert await committed(other) == 10
    assert kept(cluster, first) == 10


async def committed(client: Client) -> int:
    """The offset that the next member of the group begins at."""
    asked = QueryConsumerOffset(GROUP, "T", 0).to_fields()
    found = await client.call(RequestCode.QUERY_CONSUMER_OFFSET, asked)
    return int(found.fields.get("offset", -1))


async def test_commits_of_one_consumer_through_several_ports_keep_their_order() -> None:
    async with mapped_cluster("broker1", "broker2", logical_queue_brokers=2) as cluster:
        host, dial = cluster.brokers["broker2"].host, cluster.network.dialer(CLIENT_HOST)
        ports = LOGICAL_PORT, cluster.brokers["broker2"].config.numbered_ports[0]
        one, other = [Client(Peer(await dial(host, port))) for port in ports]
        for client in (one, other):
            await client.pull("T", 0, 0)
        cluster.network.part(host, cluster.brokers["broker1"].host)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(one.pull, "T", 0, 4, **committing(4)))
            await trio.sleep(0.01)
            asked = UpdateConsumerOffset(GROUP, "T", 0, 5).to_fields()
            nursery.start_soon(other.call, RequestCode.UPDATE_CONSUMER_OFFSET, asked)
            await trio.sleep(0.01)
            cluster.network.join()
        assert await committed(one) == 5


async def test_a_listener_whose_view_is_old_keeps_a_commit_where_the_queue_ends(
    cluster: LogicalCluster,
) -> None:
    """The queue has been elsewhere, and is back at the broker of the same process."""
    host, dial = cluster.brokers["broker1"].host, cluster.network.dialer(CLIENT_HOST)
    client = Client(Peer(await dial(host, LOGICAL_PORT)))
    await client.pull("T", 0, 0, **committing(3))
    for name in ("broker2", "broker1"):
        _, opened = await cluster.migrate(0, name)
        await cluster.fill(opened, 5)
    assert kept(cluster, opened) == 3
    await commit(cluster, opened, 9, delta=0)  # as one who knows the first end alone
    assert kept(cluster, opened) == 9
    await trio.sleep(60)
    asked = UpdateConsumerOffset(GROUP, "T", 0, 17).to_fields()
    assert (await client.call(RequestCode.UPDATE_CONSUMER_OFFSET, asked)).code == 0
    assert kept(cluster, opened) == 17
    await commit(cluster, opened, 10, delta=0)
    assert kept(cluster, opened) == 17


OLD_END = Segment(MessageQueue(TOPIC, "broker1", 0), 0, 0)
FORCED_END = Segment(MessageQueue(TOPIC, "broker2", 0), 0, 10, is_forced=True)


@final
class WhileTheRouteIsAsked:
    """A listener's view of a queue that goes on past broker1, at 10, while its route is asked for;
    ``kept`` has what broker2 is told then."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, int]] = []
        self.routes = SimpleNamespace(chain=lambda _, index: Chain(index, [OLD_END]))

    async def chain(self, topic: str, index: int) -> tuple["WhileTheRouteIsAsked", Chain]:
        return self, Chain(index, [OLD_END, FORCED_END])

    def quick(self, broker_name: str) -> None:
        return None

    def address(self, broker_name: str) -> str:
        return "10.0.0.1:10911"

    async def call(self, broker: str, *call: object) -> None:
        asked = call[-1]
        assert isinstance(asked, UpdateConsumerOffset)
        self.kept.append((broker, asked.commit_offset))


@pytest.mark.parametrize(
    ("commit", "kept"),
    [
        (CommitTo(80, Reached(OLD_END, 80)), [("broker2", 10)]),
        (CommitTo(7, Reached(OLD_END, 80)), [("broker2", 7)]),
        (CommitTo(80, is_certain=False), []),
        (CommitTo(80), [("broker2", 80)]),
    ],
    ids=["of a reader past the cut", "before the cut", "of a reader in doubt", "of a tool"],
)
async def test_a_commit_counts_for_the_queue_as_it_is_when_the_commit_is_written(
    commit: CommitTo, kept: list[tuple[str, int]]
) -> None:
    """An operator's reset goes by what is kept, and took a group over messages that it had not
    read (found by the simulation)."""
    queue: Any = WhileTheRouteIsAsked()
    progress = ListenerProgress(brokers=queue, queues=queue)
    await progress.commit(GROUP, TOPIC, 0, commit)
    assert queue.kept == kept
