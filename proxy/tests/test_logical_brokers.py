"""Older clients see logical queues at several brokers; a live listener stands for each."""

from dataclasses import replace

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from lanemq.proxy.nameserver.logical._listeners import Listeners
from lanemq.testkit.logical.cluster import CLIENT_HOST, LogicalCluster
from lanemq.testkit.logical.mapped import mapped_cluster
from lanemq.testkit.proxy.brokers import Client
from lanemq.testkit.proxy.peers import Peer
from lanemq.wire import RequestCode
from lanemq.wire.bodies import (
    ConsumeStats,
    LockBatch,
    LockBatchResult,
    MessageQueue,
    OffsetWrapper,
    RouteData,
    TopicStatsTable,
)
from lanemq.wire.headers import (
    GetConsumeStats,
    GetTopicStatsInfo,
    QueryConsumerOffset,
    QueryMessage,
    UpdateConsumerOffset,
)
from lanemq.wire.logical import (
    LOGICAL_QUEUE_BROKER,
    LogicalListenerReport,
    index_of,
    logical_broker,
    logical_broker_number,
    place_of,
)
from lanemq.wire.message import decode_messages

BROKERS = 4
"""The brokers that older clients see instead of the two that there are."""
QUEUES = 6
pytestmark = pytest.mark.mapped_cluster(logical_queue_brokers=BROKERS, queues=QUEUES // 2)


@given(st.integers(0, 10_000), st.integers(1, 64))
def test_every_logical_queue_is_one_queue_of_one_broker(index: int, brokers: int) -> None:
    number, queue_id = place_of(index, brokers)
    assert 0 <= number < brokers
    assert index_of(number, queue_id, brokers) == index


@given(st.integers(0, 1000))
def test_the_brokers_have_names_of_their_own(number: int) -> None:
    assert logical_broker_number(logical_broker(number)) == number
    for name in ("broker-a", f"{LOGICAL_QUEUE_BROKER}0", f"{LOGICAL_QUEUE_BROKER}x"):
        assert logical_broker_number(name) is None


def test_listeners_divide_the_brokers_among_them_and_one_with_too_few_ports_gets_none() -> None:
    live = {"a:1", "b:1", "c:1"}
    listeners = Listeners(live.__contains__)

    def listen(name: str, since_ms: int, count: int) -> None:
        report = LogicalListenerReport(
            f"{name}:10", since_ms, tuple(f"{name}:{20 + number}" for number in range(count))
        )
        assert listeners.report(name, 0, "c", f"{name}:1", report, "10.0.0.1")

    def places() -> list[str | None]:
        found = (listeners.numbered(n, 4, {"c"}, live.__contains__) for n in range(4))
        return [None if place is None else place.address for place in found]

    listen("a", 3, 4)
    assert places() == ["a:20", "a:21", "a:22", "a:23"]
    listen("b", 2, 4)
    assert places() == ["a:20", "b:21", "a:22", "b:23"]
    listen("c", 1, 0)  # as one that knows of one broker only
    assert places() == ["a:20", "b:21", "a:22", "b:23"]
    live.discard("b:1")
    assert places() == ["a:20", "a:21", "a:22", "a:23"]
    live.discard("a:1")
    assert places() == ["a:20", "b:21", "a:22", "b:23"]  # rather than other queues for a while
    live.add("a:1")
    listeners.forget("b")
    listeners.forget("a")
    assert places() == [None] * 4
    one = listeners.numbered(0, 1, {"c"}, live.__contains__)
    assert one is not None
    assert one.address == "c:10"


async def asker(cluster: LogicalCluster) -> Client:
    dial = cluster.network.dialer(CLIENT_HOST)
    return Client(Peer(await dial(cluster.name_server.host, 9876)))


async def route_of(cluster: LogicalCluster) -> RouteData:
    answer = await (await asker(cluster)).call(105, {"topic": "T"})
    assert answer.code == 0
    return RouteData.decode(answer.body)


async def connect(cluster: LogicalCluster) -> list[Client]:
    """A connection to each of the brokers that an older client sees."""
    clients = []
    for data in (await route_of(cluster)).broker_datas:
        host, port = data.broker_addrs[0].split(":")
        clients.append(Client(Peer(await cluster.network.dialer(CLIENT_HOST)(host, int(port)))))
    return clients


@pytest.mark.slow
async def test_a_send_is_answered_with_the_queue_that_it_named_whatever_is_known_by_then(
    cluster: LogicalCluster,
) -> None:
    """A name server that has just started may not know yet among how many brokers queues are
    divided."""
    client = (await connect(cluster))[1]
    assert (await client.send("T", queue_id=1)).fields["queueId"] == "1"
    routes = cluster.brokers["broker2"].logical_listener.routes
    assert len(routes._known) == 1
    known = routes._known["T"]
    assert known.view is not None
    assert known.view.queues[index_of(1, 0, BROKERS)].segments[0].broker_name == "broker1"
    answers = []

    async def send() -> None:
        answers.append(await client.send("T", queue_id=0))

    cluster.network.part(cluster.brokers["broker1"].host, cluster.brokers["broker2"].host)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        await trio.sleep(0.5)  # it is being passed on
        known.view = replace(known.view, brokers=1)
        cluster.network.join()
    assert [(a.code, a.fields["queueId"], a.fields["queueOffset"]) for a in answers] == [
        (0, "0", "0")
    ]


@pytest.mark.slow
async def test_the_queues_of_a_topic_are_divided_among_the_brokers_and_these_among_listeners(
    cluster: LogicalCluster,
) -> None:
    route = await route_of(cluster)
    assert [(q.broker_name, q.read_queue_nums, q.write_queue_nums) for q in route.queue_datas] == [
        (LOGICAL_QUEUE_BROKER, 2, 2),
        (f"{LOGICAL_QUEUE_BROKER}1", 2, 2),
        (f"{LOGICAL_QUEUE_BROKER}2", 1, 1),
        (f"{LOGICAL_QUEUE_BROKER}3", 1, 1),
    ]
    hosts = [data.broker_addrs[0].split(":")[0] for data in route.broker_datas]
    assert hosts == ["10.0.1.1", "10.0.1.2"] * 2
    assert len({data.broker_addrs[0] for data in route.broker_datas}) == BROKERS


@pytest.mark.slow
async def test_each_broker_has_its_queues_and_all_clients_see_the_same_messages(
    cluster: LogicalCluster,
) -> None:
    clients = await connect(cluster)
    for index in range(QUEUES):
        number, queue_id = place_of(index, BROKERS)
        keys = {"KEYS": "k", "UNIQ_KEY": f"u{index}"}
        sent = await clients[number].send("T", b"%d" % index, keys, queue_id=queue_id)
        assert (sent.code, sent.fields["queueId"]) == (0, str(queue_id)), sent.remark
        await clients[number].call(15, UpdateConsumerOffset("g", "T", queue_id, 1).to_fields())
    await trio.sleep(1)
    seen: list[int] = []
    for number, client in enumerate(clients):
        queues = {MessageQueue("T", logical_broker(number), q) for q in range(2 - number // 2)}
        for queue in queues:
            (message,) = decode_messages((await client.pull("T", queue.queue_id, 0)).body)
            assert int(message.body) == index_of(number, queue.queue_id, BROKERS)
            assert message.queue_id == queue.queue_id
            seen.append(int(message.body))
            found = await client.call(14, QueryConsumerOffset("g", "T", queue.queue_id).to_fields())
            assert found.fields["offset"] == "1"
        header = GetTopicStatsInfo(topic="T").to_fields()
        stats = TopicStatsTable.decode((await client.call(202, header)).body)
        assert stats.offset_table.keys() == queues
        header = GetConsumeStats(consumer_group="g", topic="T").to_fields()
        progress = ConsumeStats.decode((await client.call(208, header)).body)
        assert {q: o.consumer_offset for q, o in progress.offset_table.items()} == dict.fromkeys(
            queues, 1
        )
        query = QueryMessage("T", "k", 32, 0, 1 << 62).to_fields()
        by_key = decode_messages((await client.call(12, query)).body)
        assert {int(m.body) for m in by_key} == {
            index_of(number, queue.queue_id, BROKERS) for queue in queues
        }
        assert (await client.pull("T", 2, 0)).code == 1
    assert sorted(seen) == list(range(QUEUES))


@pytest.mark.slow
async def test_a_dead_listener_leaves_its_brokers_to_the_others_and_the_queues_stay(
    cluster: LogicalCluster,
) -> None:
    before = await route_of(cluster)
    clients = await connect(cluster)
    await clients[1].send("T", b"kept", queue_id=1)  # logical queue 5, on the second broker
    await clients[1].call(15, UpdateConsumerOffset("g", "T", 1, 1).to_fields())
    await cluster.brokers["broker1"].kill()
    after = await route_of(cluster)
    assert after.queue_datas == before.queue_datas
    assert {data.broker_addrs[0].split(":")[0] for data in after.broker_datas} == {"10.0.1.2"}
    clients = await connect(cluster)
    sent = await clients[1].send("T", b"more", queue_id=1)
    assert (sent.code, sent.fields["queueOffset"]) == (0, "1")
    found = await clients[1].call(14, QueryConsumerOffset("g", "T", 1).to_fields())
    assert found.fields["offset"] == "1"


@pytest.mark.slow
async def test_what_a_topic_got_it_keeps_whatever_brokers_are_set_to_later(
    cluster: LogicalCluster,
) -> None:
    before = (await route_of(cluster)).queue_datas
    for broker in cluster.brokers.values():
        await broker.stop()
        broker.config.logical_queue_brokers = 8
        await broker.restart("kill")
    await trio.sleep(40)
    assert (await route_of(cluster)).queue_datas == before
    await cluster.name_server.stop()
    await cluster.name_server.start()
    await trio.sleep(40)
    assert (await route_of(cluster)).queue_datas == before


@pytest.mark.slow
async def test_a_broker_that_only_gets_a_queue_says_what_the_others_do(
    autojump_clock: object,
) -> None:
    async with mapped_cluster("broker1", logical_queue_brokers=2, queues=2) as cluster:
        before = (await route_of(cluster)).queue_datas
        await cluster.add("broker2", logical_queue_brokers=8)
        await cluster.migrate(0, "broker2")
        assert (await route_of(cluster)).queue_datas == before
        await trio.sleep(60)
        assert cluster.brokers["broker2"].running.context.logical.brokers == {"T": 2}
        await cluster.migrate(1, "broker2")
        await cluster.brokers["broker1"].stop()
        await cluster.name_server.stop()
        await cluster.name_server.start()
        await trio.sleep(40)
        assert (await route_of(cluster)).queue_datas == before


@pytest.mark.slow
async def test_the_number_of_brokers_stays_where_a_name_server_that_starts_does_not_know_it(
    autojump_clock: object,
) -> None:
    """Only a broker that has not heard of it itself has come back to the name server so far."""
    async with mapped_cluster("broker1", logical_queue_brokers=2, queues=2) as cluster:
        before = (await route_of(cluster)).queue_datas
        await cluster.add("broker2", logical_queue_brokers=8)
        name_server, first = cluster.name_server, cluster.brokers["broker1"]
        routes = cluster.brokers["broker2"].logical_listener.routes
        assert await routes.find("T") is not None
        await cluster.migrate(0, "broker2")
        contexts = [broker.running.context for broker in cluster.brokers.values()]
        assert [context.logical.brokers for context in contexts] == [{"T": 2}, {"T": 0}]
        cluster.network.part(first.host, name_server.host)
        await name_server.stop()
        await name_server.start()
        seen = set[int]()
        for _ in range(20):
            await trio.sleep(5)
            view = await routes.find("T")
            if view is not None:
                seen.add(view.brokers)
        cluster.network.join()
        await trio.sleep(60)
        assert seen == {2}
        assert [context.logical.brokers for context in contexts] == [{"T": 2}, {"T": 2}]
        assert (await route_of(cluster)).queue_datas == before


@pytest.mark.slow
async def test_a_wiped_broker_closes_what_ends_on_it_alone(cluster: LogicalCluster) -> None:
    """No queue is moved by it; of brokers that share their queues with others, sends go on."""
    name_server = await asker(cluster)
    allowed = []
    for code in (RequestCode.WIPE_WRITE_PERM_OF_BROKER, RequestCode.ADD_WRITE_PERM_OF_BROKER):
        answer = await name_server.call(code, {"brokerName": "broker1"})
        assert answer.code == 0
        allowed.append([data.perm for data in (await route_of(cluster)).queue_datas])
    assert allowed == [[6, 6, 4, 6], [6, 6, 6, 6]]


async def lock(client: Client, number: int, queue_id: int, who: str, code: int = 41) -> bool:
    queue = MessageQueue("T", logical_broker(number), queue_id)
    answer = await client.call(code, body=LockBatch("g", who, (queue,)).encode())
    assert answer.code == 0
    return code == 41 and queue in LockBatchResult.decode(answer.body).lock_ok_mq_set


@pytest.mark.slow
async def test_a_lock_is_lent_once_whichever_listener_is_asked(cluster: LogicalCluster) -> None:
    """While both are there, after one has died, and across migrations."""
    dial = cluster.network.dialer(CLIENT_HOST)

    async def at(broker: int, number: int) -> Client:
        host = cluster.brokers[f"broker{broker}"].host
        port = cluster.brokers[f"broker{broker}"].config.numbered_ports[number]
        return Client(Peer(await dial(host, port)))

    one, other = await at(1, 1), await at(2, 1)
    assert await lock(one, 1, 1, "A")  # logical queue 5, on broker 2
    assert not await lock(other, 1, 1, "B")
    await cluster.migrate(5, "broker1")
    assert not await lock(other, 1, 1, "B")
    assert await lock(other, 1, 1, "A")
    await lock(one, 1, 1, "A", code=42)
    assert await lock(other, 1, 1, "B")
    await cluster.migrate(5, "broker2")
    await cluster.brokers["broker1"].kill()
    # Nobody can say who had it: B may go on for as long as it trusts its lock.
    assert not await lock(other, 1, 1, "A")
    await trio.sleep(31)
    assert await lock(other, 1, 1, "A")
    assert not await lock(other, 1, 1, "B")


@pytest.mark.slow
async def test_the_progress_of_a_group_that_is_offline_is_told_by_the_brokers(
    cluster: LogicalCluster,
) -> None:
    """As tools ask that know nothing of logical queues: all brokers, for all topics."""
    clients = await connect(cluster)
    wanted = {}
    for index in range(QUEUES):
        number, queue_id = place_of(index, BROKERS)
        for _ in range(index + 1):
            await clients[number].send("T", queue_id=queue_id)
        await clients[number].call(15, UpdateConsumerOffset("g", "T", queue_id, index).to_fields())
        wanted[MessageQueue("T", logical_broker(number), queue_id)] = (index + 1, index)
    await cluster.migrate(4, "broker1")
    for topic in (None, "T"):
        found: dict[MessageQueue, OffsetWrapper] = {}
        for name in cluster.brokers:
            header = GetConsumeStats(consumer_group="g", topic=topic or "")
            answer = await (await cluster.at(name)).call(208, header.to_fields())
            table = ConsumeStats.decode(answer.body).offset_table
            found |= {q: o for q, o in table.items() if q.broker_name not in cluster.brokers}
        places = {q: (o.broker_offset, o.consumer_offset) for q, o in found.items()}
        assert places == wanted
