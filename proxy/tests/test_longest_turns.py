"""No single request holds the loop for long, however much a server has.

Work is counted in calls of functions between two turns of the loop, which are the same on every
machine; 10,000 of them take about a millisecond.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import trio
from msgspec.structs import replace

from lanemq.proxy.nameserver import (
    NameServerConfig,
    NameServerFamilies,
    Registration,
    RouteTable,
)
from lanemq.proxy.nameserver._handlers import NameServerHandlers
from lanemq.proxy.nameserver._kv import KVConfig
from lanemq.proxy.net._dispatch import BODY_BYTES_MAX, BODY_VALUES_MAX, Handlers
from lanemq.proxy.net._server import Server
from lanemq.proxy.net.http._exposition import render
from lanemq.proxy.net.limits._budget import Budget
from lanemq.testkit.calls import calls_of_steps
from lanemq.testkit.logical.cluster import CLIENT_HOST, open_logical_cluster
from lanemq.testkit.proxy.brokers import Client, TestBroker, connected, open_test_broker
from lanemq.testkit.proxy.gateways import clustered, until, until_seen
from lanemq.testkit.proxy.peers import Connect, Peer
from lanemq.testkit.simulation._processes import LOGICAL_PORT
from lanemq.wire import RequestCode, fastjson
from lanemq.wire.bodies import (
    DataVersion,
    LockBatch,
    MessageQueue,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigList,
    TopicConfigWrapper,
)
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import (
    DeleteTopicFromNamesrv,
    GetRouteInfo,
    RegisterBroker,
    UnregisterBroker,
)
from lanemq.wire.logical import (
    LOGICAL_QUEUE_FLAG,
    LogicalQueueReport,
    LogicalQueues,
    Segment,
    TopicReport,
    with_logical_queues,
)
from lanemq.wire.requests import REQUESTS, BodyKind, Port

CALLS_MAX: Final = 200_000
"""Calls between two turns, some 20 ms."""
TOPICS, GROUPS, WIDE, QUEUES = 1000, 300, 8, 2048

ASKED: Final[dict[str, str]] = {
    "a": "p",
    "b": "W0",
    "c": "TBW102",
    "d": "4",
    "e": "0",
    "f": "0",
    "g": "0",
    "h": "0",
    "i": "",
    "j": "0",
    "k": "false",
    "beginTimestamp": "0",
    "bornTimestamp": "0",
    "brokerName": "broker-a",
    "brokerAddr": "10.0.0.1:10911",
    "clientID": "c0",
    "cluster": "c",
    "clusterName": "c",
    "brokerId": "0",
    "commitLogOffset": "0",
    "commitOffset": "0",
    "commitOrRollback": "8",
    "compareGroup": "g0",
    "consumerGroup": "g0",
    "count": "4096",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4",
    "destGroup": "g1",
    "endTimestamp": str(1 << 62),
    "filterGroups": "",
    "flag": "0",
    "group": "g0",
    "groupName": "g0",
    "haServerAddr": "h:1",
    "index": "0",
    "isForce": "true",
    "isOrder": "false",
    "key": "k",
    "maxMsgNums": "32",
    "maxNum": "64",
    "msgId": "7F00000100002A9F0000000000000000",
    "namespace": "default",
    "offline": "true",
    "order": "false",
    "perm": "6",
    "producerGroup": "p",
    "properties": "",
    "queueOffset": "0",
    "readQueueNums": "4",
    "srcGroup": "g0",
    "statsKey": "W0",
    "statsName": "TOPIC_PUT_NUMS",
    "subVersion": "0",
    "subscription": "*",
    "suspendTimeoutMillis": "0",
    "sysFlag": "0",
    "timestamp": "-1",
    "topic": "W0",
    "topicFilterType": "SINGLE_TAG",
    "tranStateTableOffset": "0",
    "transactionId": "",
    "value": "v",
    "writeQueueNums": "4",
}
"""Fields of all requests; each code takes its own. ``queueId`` is there only for those that need
one."""

ONE_QUEUE: Final = {"queueId": "0", "offset": "0"}

OTHERS: Final[dict[int, dict[str, str]]] = {
    RequestCode.UPDATE_AND_CREATE_TOPIC: {"topic": "N"},
    RequestCode.DELETE_TOPIC_IN_BROKER: {"topic": "W7"},
    RequestCode.DELETE_SUBSCRIPTIONGROUP: {"groupName": "g9"},
    RequestCode.DELETE_TOPIC_IN_NAMESRV: {"topic": "T1"},
}
"""Fields of requests that would take away what others ask for."""


def consumers(count: int) -> list[dict[str, object]]:
    subscription = {"topic": "W0", "subString": "*", "subVersion": 1}
    return [
        {
            "groupName": f"h{number}",
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "subscriptionDataSet": [subscription],
        }
        for number in range(count)
    ]


def locks() -> bytes:
    queues = tuple(MessageQueue("W0", "broker-a", number) for number in range(4096))
    return LockBatch(consumer_group="g0", client_id="c0", mq_set=queues).encode()


BODIES: Final[dict[int, Callable[[], bytes]]] = {
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: lambda: TopicConfigList(
        tuple(TopicConfig(f"L{number}", 4, 4) for number in range(1000))
    ).encode(),
    RequestCode.HEART_BEAT: lambda: fastjson.dumps(
        {"clientID": "c1", "consumerDataSet": consumers(1000), "producerDataSet": []}
    ),
    RequestCode.LOCK_BATCH_MQ: locks,
    RequestCode.UNLOCK_BATCH_MQ: locks,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: lambda: b'{"groupName":"new"}',
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: lambda: fastjson.dumps(
        {"groupConfigList": [{"groupName": f"l{number}"} for number in range(1000)]}
    ),
    RequestCode.REGISTER_BROKER: lambda: registered(40_000),
}


def registered(topics: int) -> bytes:
    """The body of a registration of so many topics; a frame holds little more than 100,000."""
    names = [f"R{number}" for number in range(topics)]
    table = {name: TopicConfig(name, 4, 4) for name in names}
    return RegisterBrokerBody(TopicConfigWrapper(table, DataVersion(9, 9))).encode()


GREATEST: Final[dict[BodyKind, Callable[[], bytes]]] = {
    BodyKind.JSON: lambda: fastjson.dumps({"topic": "W0", "others": [0] * (BODY_VALUES_MAX - 9)}),
    BodyKind.TEXT: lambda: b"\n".join(b"k%d=v" % number for number in range(3500)),
    BodyKind.LONG: lambda: bytes(4 << 20),
}
"""Bodies as long as they may be, for codes without a greater one of their own above."""


def body_of(code: int) -> bytes:
    kind = REQUESTS[RequestCode(code)].body
    return BODIES.get(code, GREATEST.get(kind, bytes))()


def fields_of(code: int) -> dict[str, str]:
    """The fields of a request, with something in each that it has to have."""
    header, found = REQUESTS[RequestCode(code)].header, ASKED | OTHERS.get(code, {})
    for field in msgspec.structs.fields(header) if header is not None else ():
        if field.required and field.encode_name not in {*found, *ONE_QUEUE}:
            found[field.encode_name] = {bool: "true", str: "W0"}.get(field.type, "1")
    return found


@pytest.mark.parametrize("port", Port)
def test_each_request_is_asked_as_its_declaration_has_it(port: Port) -> None:
    """One that is refused for a missing field would cost nothing."""
    for code, spec in REQUESTS.items():
        if port in spec.ports:
            assert len(body_of(code)) <= BODY_BYTES_MAX or spec.body is BodyKind.LONG, code
            if spec.header is not None:
                spec.header.from_fields(fields_of(code) | ONE_QUEUE)


async def fill(broker: TestBroker) -> None:
    tables = broker.context.store.tables
    for number in range(TOPICS):
        tables.topics.put(TopicConfig(f"T{number}", 4, 4), at_once=False)
    for number in range(WIDE):
        tables.topics.put(TopicConfig(f"W{number}", QUEUES, QUEUES), at_once=False)
        for queue_id in range(QUEUES):
            tables.consumer_offsets.put("g0", f"W{number}", queue_id, 0)
    for number in range(GROUPS):
        broker.context.groups.find(f"g{number}")
        for topic in ("W0", "W1", f"T{number}"):
            tables.consumer_offsets.put(f"g{number}", topic, 1, 0)
    client = broker.connect()
    topics = {f"{kind}{n}": "*" for kind, count in (("W", WIDE), ("T", 500)) for n in range(count)}
    await client.heartbeat("c0", consumers={"g0": topics}, producers=("p",))
    for number in range(40):
        await client.send("W0", queue_id=number, properties={"KEYS": "k"})


async def longest(peer: Peer, frame: Frame) -> int:
    """Return the most calls of one turn while a request is answered."""
    with calls_of_steps() as steps, trio.move_on_after(2):  # some wait for a client's answer
        await peer.call(frame)
    return steps.most


async def asked_with_and_without_a_queue(
    codes: frozenset[int], call: Callable[[int, dict[str, str], bytes], Any]
) -> dict[int, int]:
    most = {}
    for code in sorted(codes, key=lambda code: (code == RequestCode.UNREGISTER_BROKER, code)):
        body, fields = body_of(code), fields_of(code)
        found = [await call(code, fields | more, body) for more in ({}, ONE_QUEUE)]
        most[int(code)] = max(found)
    return {code: calls for code, calls in most.items() if calls > CALLS_MAX}


@pytest.mark.slow  # asks for everything at each port
@pytest.mark.parametrize("is_ordering", [False, True])
async def test_no_request_of_a_proxy_holds_the_loop(tmp_path: Path, *, is_ordering: bool) -> None:
    """The broker behind it is in the same process; its work counts in turns of its own."""
    async with clustered(tmp_path) as cluster:
        context = (await cluster.broker()).broker.context
        context.topics.put(TopicConfig("W0", QUEUES, QUEUES))
        for number in range(200):
            context.topics.put(TopicConfig(f"T{number}", 4, 4))
            context.groups.find(f"g{number}")
        for queue_id in range(QUEUES):
            context.store.tables.consumer_offsets.put("g0", "W0", queue_id, 0)
        ordering = {"logical": True, "moves": True, "settle_seconds": 0} if is_ordering else {}
        proxy = await cluster.proxy(keys=True, **ordering)
        await until(lambda: not proxy.routes.why_not_ready)
        await until_seen(proxy, "broker-a")
        routes = frozenset({*proxy.server.handlers.codes()})
        asked = [("broker-a", proxy.address.port, routes)]
        brokers = frozenset(code for code, spec in REQUESTS.items() if Port.BROKER in spec.ports)
        for key, port in proxy.brokers.ports.items():
            asked.append((key.name, port.address.port, brokers))
        for name, number, codes in asked:

            async def call(
                code: int, fields: dict[str, str], body: bytes, name: str = name, at: int = number
            ) -> int:
                fields |= {"brokerName": name}
                body = body.replace(b"broker-a", name.encode())
                async with connected(at) as client:
                    await client.heartbeat("c0", consumers={"g0": {"W0": "*"}})
                    return await longest(client.peer, client.frame(code, fields, body))

            assert await asked_with_and_without_a_queue(codes, call) == {}, name


@pytest.mark.slow  # asks for everything
async def test_no_request_of_a_logical_listener_holds_the_loop(
    autojump_clock: object,
) -> None:
    """Of as many logical queues as a topic may have."""
    async with open_logical_cluster("broker1") as cluster:
        await cluster.map_at_once(queues=QUEUES, topic="W0")
        dial, broker = cluster.network.dialer(CLIENT_HOST), cluster.brokers["broker1"]
        store = broker.running.context.store
        for number in range(QUEUES):
            store.tables.consumer_offsets.put("g0", "W0", number, 0)
        listener = broker.logical_listener
        assert listener is not None
        codes = listener.servers[0].handlers.codes()

        async def connected() -> Client:
            return Client(Peer(await dial(broker.host, LOGICAL_PORT)))

        member = await connected()
        await member.heartbeat("c0", consumers={"g0": {"W0": "*"}}, producers=("p",))
        for number in range(40):
            sent = await member.send("W0", queue_id=number, properties={"KEYS": "k"})
            assert sent.code == 0, sent.remark

        async def call(code: int, fields: dict[str, str], body: bytes) -> int:
            client = await connected()
            return await longest(client.peer, client.frame(code, fields, body))

        assert await asked_with_and_without_a_queue(codes, call) == {}


@pytest.mark.slow  # asks for everything that a large broker has
async def test_no_request_of_a_broker_holds_the_loop(tmp_path: Path) -> None:
    async with open_test_broker(tmp_path) as broker:
        await fill(broker)

        async def call(code: int, fields: dict[str, str], body: bytes) -> int:
            client = broker.connect()
            return await longest(client.peer, client.frame(code, fields, body))

        assert await asked_with_and_without_a_queue(broker.broker.handlers.codes(), call) == {}


class FullNameServer:
    """A name server whose tables are as full as its bounds let peers fill them, or nearly."""

    def __init__(self, topics: int, brokers: int, wide: int) -> None:
        self.routes, self.handlers = RouteTable(), Handlers(Port.NAME_SERVER)
        config = NameServerConfig(logical_queue_wait_time=0)
        self._requests = NameServerHandlers(
            config, self.routes, KVConfig(None), now_s=trio.current_time
        )
        self._requests.add_to(self.handlers)
        self.server = Server(self.handlers, name="test")
        for number in range(brokers):
            topics_here = [TopicConfig("W0", 4, 4)]
            if number == 0:
                topics_here += [TopicConfig(f"T{each}", 4, 4) for each in range(topics)]
            self.routes.register(
                Registration(
                    cluster="c",
                    broker_name="broker-a" if number == 0 else f"b{number}",
                    broker_id=0,
                    address="10.0.0.1:10911" if number == 0 else f"10.0.0.2:{number}",
                    data_version=DataVersion(1, 1),
                    topics=topics_here,
                ),
                now_s=trio.current_time(),
                connection=number,
            )
        self._wide = wide

    async def longest(self, connect: Connect) -> dict[int, int]:
        """Ask for everything; return the calls of those that hold the loop."""
        if self._wide:
            frame = wide_registration("broker-w", 1, self._wide)
            assert (await connect(self.server).call(frame)).code == 0

        async def call(code: int, fields: dict[str, str], body: bytes) -> int:
            return await longest(connect(self.server), request(code, fields, body))

        return await asked_with_and_without_a_queue(self.handlers.codes(), call)


async def test_no_request_of_a_name_server_with_many_topics_holds_the_loop(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of fewer of them, as this is asked all the time, and with shorter bodies."""
    monkeypatch.setitem(BODIES, RequestCode.REGISTER_BROKER, lambda: registered(4000))
    monkeypatch.setitem(ASKED, "topic", "L0")
    full = FullNameServer(8000, 64, 1)
    monkeypatch.setattr(f"{__name__}.CALLS_MAX", CALLS_MAX // 2)
    assert await full.longest(connect) == {}
    metrics = NameServerFamilies(budget=Budget(1 << 20), routes=full.routes)
    await render(())  # imports what it needs
    with calls_of_steps() as steps:
        await render(metrics.all())
    assert steps.most <= CALLS_MAX // 4


@pytest.mark.slow  # as above
@pytest.mark.parametrize("topic", ["W0", "L0", "T1"])
async def test_no_request_of_a_name_server_holds_the_loop(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, topic: str
) -> None:
    monkeypatch.setitem(BODIES, RequestCode.REGISTER_BROKER, lambda: registered(100_000))
    monkeypatch.setitem(ASKED, "topic", topic)
    assert await FullNameServer(130_000, 4000, 4).longest(connect) == {}


def wide_registration(broker: str, counter: int, topics: int) -> Frame:
    """Register a broker whose topics have a logical queue on each of their many queues."""
    names = [f"L{number}" for number in range(topics)]
    address = f"{broker}:10911"
    queues = {
        name: LogicalQueues.of(
            Segment(MessageQueue(name, broker, number), number, 0, broker_address=address)
            for number in range(QUEUES)
        )
        for name in names
    }
    reports = {name: TopicReport(brokers=4) for name in names}
    extra = LogicalQueueReport(topics=reports).added_to(with_logical_queues({}, queues))
    wrapper = TopicConfigWrapper(
        {name: TopicConfig(name, QUEUES, QUEUES) for name in names},
        DataVersion(counter, counter),
        extra,
    )
    header = RegisterBroker(broker, address, "c", "", 0)
    return request(
        RequestCode.REGISTER_BROKER, header.to_fields(), body=RegisterBrokerBody(wrapper).encode()
    )


@pytest.mark.slow  # 16,384 logical queues
async def test_topics_of_many_logical_queues_do_not_hold_the_loop(connect: Connect) -> None:
    routes, handlers = RouteTable(), Handlers(Port.NAME_SERVER)
    config = NameServerConfig(logical_queue_wait_time=0)
    NameServerHandlers(config, routes, KVConfig(None), now_s=trio.current_time).add_to(handlers)
    server = Server(handlers, name="test")
    broker, other, client = (connect(server) for _ in range(3))
    most: dict[str, int] = {}

    async def ask(what: str, peer: Peer, frame: Frame) -> Frame:
        with calls_of_steps() as steps:
            answer = await peer.call(frame)
        assert answer.code == 0, answer.remark
        most[what] = steps.most
        return answer

    flagged = GetRouteInfo("L0", sys_flag=LOGICAL_QUEUE_FLAG).to_fields()
    for counter in (1, 2):  # as new topics, and as known ones
        frame = wide_registration("broker-a", counter, 8)
        await ask(f"registration {counter}", broker, frame)
        # Another broker's registration changes what each view may show.
        bare = RegisterBroker("broker-b", "broker-b:10911", "c", "", 0).to_fields()
        for language in ("PYTHON", "JAVA"):
            await ask("a whole one without", other, request(RequestCode.REGISTER_BROKER, bare))
            asked = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, flagged)
            asked = replace(asked, language=language)
            answer = await ask(f"a route for {language}", client, asked)
            assert len(answer.body) > 200 * QUEUES, "it has the logical queues"
            old = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "L0"})
            await ask("a route of old", client, old)
    for cluster in ("elsewhere", "c"):
        deleted = DeleteTopicFromNamesrv(topic="L7", cluster_name=cluster)
        frame = request(RequestCode.DELETE_TOPIC_IN_NAMESRV, deleted.to_fields())
        await ask(f"a deletion in cluster {cluster}", client, frame)
    gone = UnregisterBroker("broker-a", "broker-a:10911", "c", 0, forget_logical_queues=True)
    frame = request(RequestCode.UNREGISTER_BROKER, gone.to_fields())
    await ask("an end", broker, frame)
    assert {what: calls for what, calls in most.items() if calls > CALLS_MAX} == {}
