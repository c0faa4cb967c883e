"""The name server answers what real name servers answered, to the member."""

import gc
import json
import os
import re
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread, current_thread
from unittest.mock import patch

import pytest
import trio
import trio.lowlevel
from msgspec.structs import replace
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.proxy.nameserver import (
    NameServerConfig,
    Registration,
    RouteTable,
    open_nameserver,
    run_nameserver,
)
from lanemq.proxy.nameserver import _requests as requests
from lanemq.proxy.nameserver._handlers import NameServerHandlers
from lanemq.proxy.nameserver._known import KnownBrokers
from lanemq.proxy.nameserver._kv import KVConfig
from lanemq.proxy.nameserver.routes._broker_shares import BROKERS_OF_CONNECTION_MAX
from lanemq.proxy.nameserver.routes._rows import ROWS_LOOKED_AT, ROWS_OF_A_STEP, Row, Rows
from lanemq.proxy.nameserver.routes._table import BROKERS_OF_A_STEP, FILTER_SERVERS_MAX
from lanemq.proxy.net._dispatch import Handlers
from lanemq.proxy.net._server import Server
from lanemq.proxy.net.limits._budget import Account
from lanemq.testkit.calls import calls_of_this_thread
from lanemq.testkit.proxy.peers import Connect, Dial, Peer, Recorded
from lanemq.testkit.proxy.routes import check_invariants
from lanemq.wire import ProtocolError, Refused, RequestCode, ResponseCode, fastjson
from lanemq.wire.bodies import (
    DataVersion,
    KVTable,
    RegisterBrokerBody,
    RouteData,
    TopicConfig,
    TopicConfigWrapper,
    TopicList,
)
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import RegisterBroker
from lanemq.wire.logical import LogicalQueueReport
from lanemq.wire.requests import Port

Read = Callable[[str], Iterator[Recorded]]

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC
NEWER_MEMBERS = frozenset({"enableActingMaster", "zoneName", "topicSynFlag"})
UNQUOTED_ID = re.compile(rb'[{,]\d+:"')


class NameServer:
    """A name server over memory streams, with everything it knows at hand."""

    def __init__(
        self, kv_path: Path | None = None, known: KnownBrokers | None = None, **config: object
    ) -> None:
        self.config = NameServerConfig.from_properties({}, config)
        self.routes, self.kv = RouteTable(), KVConfig(kv_path)
        handlers = Handlers(Port.NAME_SERVER)
        NameServerHandlers(
            self.config, self.routes, self.kv, now_s=trio.current_time, known=known
        ).add_to(handlers)
        self.server = Server(handlers, name="name server")
        self.codes = handlers.codes()


def registration(
    *topics: TopicConfig, name: str = "broker-a", counter: int = 1, **header: object
) -> Frame:
    body = RegisterBrokerBody(
        TopicConfigWrapper({topic.topic_name: topic for topic in topics}, DataVersion(1, counter))
    ).encode()
    fields = RegisterBroker(
        broker_name=name,
        broker_addr="127.0.0.1:10911",
        cluster_name="c",
        ha_server_addr="127.0.0.1:10912",
        broker_id=0,
    ).to_fields() | {key: str(value) for key, value in header.items()}
    return request(RequestCode.REGISTER_BROKER, fields, body)


def without_newer_members(value: object) -> object:
    """The value as 4.9.8 would write it, without the order of its arrays."""
    if isinstance(value, dict):
        return {k: without_newer_members(v) for k, v in value.items() if k not in NEWER_MEMBERS}
    if isinstance(value, list):
        return sorted((without_newer_members(v) for v in value), key=lambda v: json.dumps(v))
    return value


def assert_same_answer(answer: Frame, expected: Frame) -> None:
    """The same but for members that only 5.x has, and the order inside arrays."""
    assert answer.code == expected.code
    assert set(answer.fields) == set(expected.fields)
    assert bool(answer.body) == bool(expected.body)
    if expected.body:
        ours, theirs = (fastjson.loads(one.body) for one in (answer, expected))
        assert without_newer_members(ours) == without_newer_members(theirs)
        assert bool(UNQUOTED_ID.search(answer.body)) == bool(UNQUOTED_ID.search(expected.body))


@pytest.mark.parametrize(
    "capture",
    [
        "broker497-register",
        "broker497-bin-register",
        "broker533-register",
        "broker533-bin-register",
    ],
)
async def test_a_recorded_broker_session_gets_the_recorded_answers(
    connect: Connect, recorded: Read, capture: str
) -> None:
    name_server = NameServer()
    peers, compared = dict[int, Peer](), 0
    entries = list(recorded(capture))
    theirs = {(e.connection, e.frame.opaque): e.frame for e in entries if not e.from_client}
    for entry in entries:
        if not entry.from_client:
            continue
        asked = entry.frame
        peer = peers.get(entry.connection) or connect(name_server.server)
        peers[entry.connection] = peer
        if asked.is_oneway:
            await peer.send(asked)
            continue
        # An answer may be missing: the broker stopped before it came.
        expected = theirs.pop((entry.connection, asked.opaque), None)
        if asked.code == RequestCode.REGISTER_BROKER and expected is not None and expected.body:
            # An admin tool, not in this capture, had declared a topic ordered.
            for topic, queues in KVTable.decode(expected.body).table.items():
                put_key(name_server.kv, "ORDER_TOPIC_CONFIG", topic, queues)
        answer = await peer.call(asked)
        if expected is not None:
            assert_same_answer(answer, expected)
            compared += 1
    assert compared >= 5
    assert not theirs


@pytest.mark.parametrize(
    "capture", ["c326", "c420", "c497", "c497bin", "c533", "go", "js", "tools497", "tools533"]
)
async def test_recorded_clients_get_routes_of_the_recorded_form(
    connect: Connect, recorded: Read, capture: str
) -> None:
    """Each recorded route is put into the table, asked for as recorded, and compared."""
    name_server = NameServer()
    broker, client = connect(name_server.server), connect(name_server.server)
    asked: dict[tuple[int, int], Frame] = {}
    compared = 0
    for entry in recorded(capture):
        frame = entry.frame
        if entry.peer != "namesrv":
            continue
        if entry.from_client:
            asked[entry.connection, frame.opaque] = frame
            continue
        question = asked.pop((entry.connection, frame.opaque))
        if question.code != ROUTE:
            continue
        topic = question.fields["topic"]
        name_server.routes.delete_topic(topic)
        if frame.code == 0:
            route = RouteData.decode(frame.body)
            for counter, queue in enumerate(route.queue_datas):
                config = TopicConfig(
                    topic,
                    queue.read_queue_nums,
                    queue.write_queue_nums,
                    queue.perm,
                    topic_sys_flag=queue.topic_sys_flag,
                )
                (data,) = (b for b in route.broker_datas if b.broker_name == queue.broker_name)
                await broker.call(
                    registration(
                        config,
                        name=queue.broker_name,
                        counter=compared * 10 + counter,
                        clusterName=data.cluster,
                        brokerAddr=data.broker_addrs[0],
                    )
                )
        answer = await client.call(question)
        assert_same_answer(answer, frame)
        compared += 1
    assert compared >= 15


async def test_every_code_of_a_name_server_has_a_handler() -> None:
    codes = {100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 219, 224}
    assert NameServer().codes == codes | {304, 311, 312, 313, 318, 319, 322, 327}


async def test_broker_ids_are_quoted_for_those_who_read_strict_json_only(
    connect: Connect,
) -> None:
    peer = connect(NameServer().server)
    await peer.call(registration(TopicConfig("T")))
    for version, fields, quoted in [
        (400, {}, False),
        (401, {}, True),
        (317, {}, False),
        (317, {"acceptStandardJsonOnly": "true"}, True),
        (479, {"acceptStandardJsonOnly": "false"}, True),
    ]:
        answer = await peer.call(
            Frame(code=ROUTE, fields={"topic": "T", **fields}, version=version)
        )
        assert (b'"0":"127.0.0.1:10911"' in answer.body) is quoted
        assert (b'{0:"127.0.0.1:10911"' in answer.body) is not quoted
        assert b'"filterServerTable":{}' in answer.body


async def test_cluster_info_never_quotes_broker_ids(connect: Connect) -> None:
    peer = connect(NameServer().server)
    await peer.call(registration())
    answer = await peer.call(Frame(code=RequestCode.GET_BROKER_CLUSTER_INFO, version=479))
    assert answer.body == (
        b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"127.0.0.1:10911"},'
        b'"brokerName":"broker-a","cluster":"c"}},"clusterAddrTable":{"c":["broker-a"]}}'
    )


async def test_a_topic_nobody_has_is_code_17(connect: Connect) -> None:
    answer = await connect(NameServer().server).call(request(ROUTE, {"topic": "none"}))
    assert (answer.code, answer.body) == (17, b"")


async def test_a_damaged_registration_is_refused(connect: Connect) -> None:
    peer = connect(NameServer().server)
    answer = await peer.call(registration(TopicConfig("T"), bodyCrc32=12345))
    assert (answer.code, answer.remark) == (1, "crc32 not match")


async def test_a_registration_without_a_body_has_no_topics(connect: Connect) -> None:
    name_server = NameServer()
    peer = connect(name_server.server)
    frame = registration()
    assert (await peer.call(request(frame.code, frame.fields))).code == 0
    assert name_server.routes.data_version("127.0.0.1:10911") == DataVersion(0, 0)


@pytest.mark.parametrize("said", ["true", "false"])
async def test_a_compressed_registration_is_read_even_where_5_3_3_denies_it(
    connect: Connect, said: str
) -> None:
    name_server = NameServer()
    wrapper = TopicConfigWrapper({"T": TopicConfig("T", 3, 5, 6)}, DataVersion(7, 8))
    fields = {**registration().fields, "compressed": said}
    body = RegisterBrokerBody(wrapper, ("f:1",)).encode_compressed()
    peer = connect(name_server.server)
    assert (await peer.call(request(RequestCode.REGISTER_BROKER, fields, body))).code == 0
    route = name_server.routes.route("T")
    assert route is not None
    assert route.queue_datas[0].write_queue_nums == 5
    assert dict(route.filter_server_table) == {"127.0.0.1:10911": ("f:1",)}


async def test_compressed_registrations_count_for_their_peer_at_their_whole_length(
    connect: Connect,
) -> None:
    name_server = NameServer()
    server = name_server.server
    fields = {**registration().fields, "compressed": "true"}
    body = zlib.compress(bytes(15 << 20), 9)
    assert len(body) < 20_000
    most, peer, other = 0, connect(server), connect(server)
    await other.call(registration(TopicConfig("T")))
    admitted = server.budget.admits

    def admits(one: Account, size_bytes: int) -> bool:
        nonlocal most
        most = max(most, size_bytes)
        return admitted(one, size_bytes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server.budget, "admits", admits)
        answer = await peer.call(request(RequestCode.REGISTER_BROKER, fields, body))
        assert answer.code == 1
        assert most == 4 * (15 << 20)
        patch.setattr(server.budget, "limit_bytes", 32 << 20)
        answer = await peer.call(request(RequestCode.REGISTER_BROKER, fields, body))
        assert answer.code == 2
    assert (await peer.call(request(ROUTE, {"topic": "T"}))).code == 0


async def test_a_broker_of_3_0_registers_with_a_bare_table(connect: Connect) -> None:
    name_server = NameServer()
    body = TopicConfigWrapper({"T": TopicConfig("T")}, DataVersion(1, 1)).encode()
    old = Frame(
        code=RequestCode.REGISTER_BROKER, fields=registration().fields, body=body, version=36
    )
    assert (await connect(name_server.server).call(old)).code == 0
    assert name_server.routes.topics() == ["T"]


@pytest.mark.parametrize("body", [b"{", b"[]", b"\x00" * 40, b'{"topicConfigSerializeWrapper":7}'])
async def test_a_registration_that_cannot_be_read_is_code_1(connect: Connect, body: bytes) -> None:
    name_server = NameServer()
    peer = connect(name_server.server)
    for compressed in ("true", "false"):
        fields = {**registration().fields, "compressed": compressed}
        answer = await peer.call(request(RequestCode.REGISTER_BROKER, fields, body))
        assert answer.code == 1
        assert answer.remark
    assert not name_server.routes.is_registered("127.0.0.1:10911")
    assert not name_server.routes.cluster_info().broker_addr_table


async def test_a_broker_is_gone_as_soon_as_its_connection_is(connect: Connect) -> None:
    name_server = NameServer()
    broker, client = connect(name_server.server), connect(name_server.server)
    for counter in range(3):
        await broker.call(registration(TopicConfig("T"), counter=counter))
    assert (await client.call(request(ROUTE, {"topic": "T"}))).code == 0
    await broker.stream.aclose()
    await trio.testing.wait_all_tasks_blocked()
    assert (await client.call(request(ROUTE, {"topic": "T"}))).code == 17


async def test_a_silent_broker_expires_while_its_connection_stands(
    connect: Connect, autojump_clock: MockClock
) -> None:
    config = NameServerConfig(scan_not_active_broker_interval=1000)
    async with run_nameserver(config) as (server, routes):
        peer = connect(server)
        await peer.call(registration(TopicConfig("T")))
        for _ in range(4):
            await trio.sleep(29)
            await peer.call(request(ROUTE, {"topic": "T"}))
        assert routes.cluster_info().broker_addr_table
        await trio.sleep(6)
        assert not routes.cluster_info().broker_addr_table
        check_invariants(routes)
        assert server.connections


async def test_an_unchanged_data_version_is_a_sign_of_life(
    connect: Connect, autojump_clock: MockClock
) -> None:
    name_server = NameServer()
    peer = connect(name_server.server)
    fields = registration().fields
    ask = RequestCode.QUERY_DATA_VERSION
    unknown = await peer.call(request(ask, fields, DataVersion(1, 1).encode()))
    assert (unknown.fields["changed"], unknown.body) == ("true", b"")
    await peer.call(registration())
    await trio.sleep(100)
    same = await peer.call(request(ask, fields, DataVersion(1, 1).encode()))
    assert same.fields == {"changed": "false"}
    assert DataVersion.decode(same.body) == DataVersion(1, 1)
    other = await peer.call(request(ask, fields, DataVersion(1, 2).encode()))
    assert other.fields == {"changed": "true"}
    steps = name_server.routes.expire(now_s=trio.current_time() + 100, timeout_s=120)
    assert list(steps) == [[]]


async def test_key_value_configuration_survives_a_restart(connect: Connect, tmp_path: Path) -> None:
    path = tmp_path / "made" / "kvConfig.json"
    peer = connect(NameServer(path).server)
    entry = {"namespace": "N", "key": "k", "value": "a=b;ü"}
    assert (await peer.call(request(RequestCode.PUT_KV_CONFIG, entry))).code == 0
    again = connect(NameServer(path).server)
    got = await again.call(request(RequestCode.GET_KV_CONFIG, entry))
    assert got.fields == {"value": "a=b;ü"}
    listed = await again.call(request(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "N"}))
    assert json.loads(listed.body) == {"table": {"k": "a=b;ü"}}
    for _ in range(2):
        assert (await again.call(request(RequestCode.DELETE_KV_CONFIG, entry))).code == 0
    assert (await again.call(request(RequestCode.GET_KV_CONFIG, entry))).code == 22
    missing = request(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "none"})
    assert (await again.call(missing)).code == 22


async def test_a_value_that_cannot_be_written_is_not_kept(connect: Connect, tmp_path: Path) -> None:
    (tmp_path / "kvConfig.json.tmp").mkdir()  # in the way of the file that is written first
    name_server = NameServer(tmp_path / "kvConfig.json")
    entry = {"namespace": "N", "key": "k", "value": "v"}
    answer = await connect(name_server.server).call(request(RequestCode.PUT_KV_CONFIG, entry))
    assert answer.code == 1
    assert name_server.kv.get("N", "k") is None


def test_an_unreadable_file_is_kept_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_bytes(b"{broken")
    kv = KVConfig(path)
    put_key(kv, "N", "k", "v")
    assert (tmp_path / "kvConfig.json.unreadable").read_bytes() == b"{broken"
    assert KVConfig(path).get("N", "k") == "v"
    assert "cannot be read" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        b'{"topicConfigSerializeWrapper":{"x":{'
        + b'0:["22222222222222222222222222"],' * 20_000
        + b"0:1}}}",
        b'{"a":[' + b'["22222222222222222222222222"],' * 20_000 + b"x",
        RegisterBrokerBody(
            TopicConfigWrapper({f"T{n}": TopicConfig(f"T{n}") for n in range(4000)})
        ).encode(),
        RegisterBrokerBody(
            TopicConfigWrapper({f"T{n}": TopicConfig(f"T{n}") for n in range(4000)})
        ).encode_compressed(),
    ],
    ids=["bare keys", "no JSON", "4000 topics", "4000 topics compressed"],
)
async def test_long_registrations_are_read_beside_the_loop(connect: Connect, body: bytes) -> None:
    name_server = NameServer()
    peer = connect(name_server.server)
    frame = request(RequestCode.REGISTER_BROKER, registration().fields, body)
    header = RegisterBroker.from_fields(frame.fields)
    with calls_of_this_thread() as reading, suppress(ProtocolError):
        requests.registration(header, frame)
    with calls_of_this_thread() as on_the_loop:
        answer = await peer.call(frame)
    # The rows are taken over there, at ten calls each; to read one takes nearly fifty.
    assert on_the_loop.count < reading.count / 4
    assert (answer.code == 1) == body.endswith(b"x")
    assert len(name_server.routes.topics()) in (0, 4000)


async def test_a_broker_that_leaves_while_its_registration_is_read_is_not_kept(
    connect: Connect,
) -> None:
    name_server = NameServer()
    peer = connect(name_server.server)
    topics = [TopicConfig(f"T{n}") for n in range(2000)]
    await peer.send(registration(*topics))
    await peer.stream.aclose()
    await wait_all_tasks_blocked()
    while name_server.server.connections:  # noqa: ASYNC110 - a thread reads the registration
        await trio.sleep(0.01)
    assert name_server.routes.topics() == []
    assert not name_server.routes.is_registered("127.0.0.1:10911")


# Brokers with many topics, and many brokers


class _Work:
    """Counts what the route table does for single topics, in each turn of a task."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.turns = [0]
        for name in ("put", "remove", "_drop"):
            self._count(monkeypatch, name)

    def _count(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        called = getattr(Rows, name)

        def counted(rows: Rows, *arguments: object) -> None:
            self.turns[-1] += 1
            called(rows, *arguments)

        monkeypatch.setattr(Rows, name, counted)

    def before_task_step(self, task: object) -> None:
        self.turns.append(0)


class _Watch(_Work, trio.abc.Instrument):
    pass


async def test_brokers_with_many_topics_come_change_and_go_in_short_turns(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    name_server = NameServer()
    routes = name_server.routes
    many, other = connect(name_server.server), connect(name_server.server)
    topics = [TopicConfig(f"T{number}", 4, 4) for number in range(3000)]
    work = _Watch(monkeypatch)
    trio.lowlevel.add_instrument(work)

    async def count(code: int) -> int:
        answer = await other.call(request(code, {"brokerName": "broker-a"}))
        (number,) = answer.fields.values()
        return int(number)

    def perms() -> set[int]:
        found = [routes.route(topic.topic_name) for topic in topics]
        return {data.perm for route in found if route for data in route.queue_datas}

    async with trio.open_nursery() as both:  # the short one comes behind the long one
        both.start_soon(many.call, registration(*topics))
        await trio.lowlevel.checkpoint()
        while not routes.is_registered("127.0.0.1:10911"):  # noqa: ASYNC110 - a thread reads it
            await trio.sleep(0.001)
        assert routes.data_version("127.0.0.1:10911") is None
        await other.call(registration(TopicConfig("T2999", 1, 1), counter=2))
    assert len(routes.topics()) == 3000
    route = routes.route("T2999")
    assert route is not None
    assert route.queue_datas[0].read_queue_nums == 1
    assert routes.data_version("127.0.0.1:10911") == DataVersion(1, 2)
    assert max(work.turns) <= ROWS_OF_A_STEP

    work.turns = [0]
    assert await count(RequestCode.WIPE_WRITE_PERM_OF_BROKER) == 3000
    assert perms() == {4}
    assert await count(RequestCode.ADD_WRITE_PERM_OF_BROKER) == 3000
    assert perms() == {6}
    assert await count(RequestCode.WIPE_WRITE_PERM_OF_BROKER) == 3000
    await other.call(registration(TopicConfig("T0", 4, 4), counter=3))
    assert perms() == {4, 6}
    assert sum(work.turns) < 10
    gone = {"brokerName": "broker-a", "brokerAddr": "127.0.0.1:10911", "brokerId": "0"}
    gone["clusterName"] = "c"
    assert (await other.call(request(RequestCode.UNREGISTER_BROKER, gone))).code == 0
    assert sum(work.turns) < 10
    assert routes.topics() == []
    assert (await other.call(request(ROUTE, {"topic": "T1"}))).code == 17
    check_invariants(routes)
    await other.call(registration(TopicConfig("T1"), name="b", brokerAddr="127.0.0.1:2"))
    assert routes.topics() == ["T1"]
    for number in range(3000):  # later calls remove what is left
        routes.route(f"T{number}")
    assert len(routes._rows) == 1
    trio.lowlevel.remove_instrument(work)


ADDRESS = "127.0.0.1:10911"
"""The address of the broker in ``registration``."""
CHANGES: dict[RequestCode, dict[str, str]] = {
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: {"brokerName": "broker-a"},
    RequestCode.ADD_WRITE_PERM_OF_BROKER: {"brokerName": "broker-a"},
    RequestCode.DELETE_TOPIC_IN_NAMESRV: {"topic": "T2999"},
}


@pytest.mark.parametrize("code", CHANGES)
async def test_what_operators_change_comes_behind_a_registration_that_is_taken_over(
    connect: Connect, code: RequestCode
) -> None:
    name_server = NameServer()
    routes = name_server.routes
    many, operator = connect(name_server.server), connect(name_server.server)
    opened = code == RequestCode.ADD_WRITE_PERM_OF_BROKER
    topics = [TopicConfig(f"T{number}", 4, 4, perm=4 if opened else 6) for number in range(3000)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(many.call, registration(*topics))
        while not routes.is_registered(ADDRESS):
            await trio.lowlevel.checkpoint()
        answer = await operator.call(request(code, CHANGES[code]))
    assert answer.code == 0
    left = routes.topics()
    if code == RequestCode.DELETE_TOPIC_IN_NAMESRV:
        assert len(left) == 2999
        assert "T2999" not in left
        return
    assert list(answer.fields.values()) == ["3000"]
    found = [routes.route(topic) for topic in left]
    perms = {data.perm for route in found if route for data in route.queue_datas}
    assert perms == ({6} if opened else {4})


async def test_logs_of_keys_that_a_broker_has_no_more_are_removed_in_short_turns(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    name_server = NameServer()
    peer = connect(name_server.server)
    logs = [TopicConfig(f"%KV%n{number}") for number in range(3 * ROWS_OF_A_STEP)]
    assert (await peer.call(registration(*logs))).code == 0
    version = DataVersion(1, 2)
    wrapper = TopicConfigWrapper({}, version, LogicalQueueReport().added_to({}))
    whole = replace(registration(), body=RegisterBrokerBody(wrapper).encode())
    work = _Watch(monkeypatch)
    trio.lowlevel.add_instrument(work)
    assert (await peer.call(whole)).code == 0
    trio.lowlevel.remove_instrument(work)
    assert sum(work.turns) == 2 * len(logs)
    assert max(work.turns) <= 2 * ROWS_OF_A_STEP
    assert name_server.routes.data_version(ADDRESS) == version
    assert name_server.routes.logs_at("broker-a") == []
    check_invariants(name_server.routes)


class _Looks(trio.abc.Instrument):
    """Counts the rows that each turn of a task looks at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.turns = [0]

        def counted(row: Row) -> bool:
            self.turns[-1] += 1
            return row.owner.is_here

        monkeypatch.setattr(Row, "is_here", property(counted))

    def before_task_step(self, task: object) -> None:
        self.turns.append(0)


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        RequestCode.GET_TOPICS_BY_CLUSTER,
        RequestCode.GET_UNIT_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    ],
)
async def test_topics_of_many_brokers_are_looked_at_in_short_turns(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, code: RequestCode
) -> None:
    name_server = NameServer()
    topics = tuple(TopicConfig(f"T{number}", topic_sys_flag=number % 4) for number in range(120))
    for number in range(100):
        name_server.routes.register(
            Registration(
                cluster="c",
                broker_name=f"b{number}",
                broker_id=0,
                address=f"h:{number}",
                data_version=DataVersion(1, 1),
                topics=topics,
            ),
            now_s=0.0,
            connection=number,
        )
    looks = _Looks(monkeypatch)
    trio.lowlevel.add_instrument(looks)
    answer = await connect(name_server.server).call(request(code, {"cluster": "c"}))
    trio.lowlevel.remove_instrument(looks)
    assert TopicList.decode(answer.body).topic_list
    assert sum(looks.turns) == 120 * 100
    assert max(looks.turns) <= ROWS_LOOKED_AT


async def test_no_collection_of_garbage_walks_over_the_topics_of_brokers(connect: Connect) -> None:
    """It holds the whole process: with a container or two for each of the topics, as long as a
    registration of them took."""
    name_server = NameServer()
    peer = connect(name_server.server)
    gc.collect()
    before = len(gc.get_objects())
    most = 5000
    longest = registration(*(TopicConfig(f"T{number}", 4, 4) for number in range(most)))
    assert (await peer.call(longest)).code == 0
    assert len(name_server.routes.topics()) == most
    del longest
    gc.collect()  # untracks tuples and dicts in which there is nothing to walk over
    assert len(gc.get_objects()) - before < most / 10


def test_brokers_that_are_silent_together_go_in_short_turns() -> None:
    table, count = RouteTable(), 5 * BROKERS_OF_A_STEP
    for number in range(count):
        said = Registration(
            cluster="c",
            broker_name=f"b{number}",
            broker_id=0,
            address=f"h:{number}",
            data_version=DataVersion(1, 1),
        )
        table.register(said, now_s=0.0, connection=number)
    steps = [len(gone) for gone in table.expire(now_s=121.0, timeout_s=120.0)]
    assert sum(steps) == count
    assert max(steps) <= BROKERS_OF_A_STEP
    assert table.cluster_info().broker_addr_table == {}


async def test_the_brokers_of_a_connection_and_of_a_host_have_bounds(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    name_server = NameServer()
    greedy, again = connect(name_server.server), connect(name_server.server)
    other = connect(name_server.server, host="10.1.2.4")

    def numbered(number: int) -> Frame:
        return registration(name=f"b{number}", brokerAddr=f"127.0.0.1:{number + 1}")

    for number in range(BROKERS_OF_CONNECTION_MAX):
        assert (await greedy.call(numbered(number))).code == 0
    refused = await greedy.call(numbered(BROKERS_OF_CONNECTION_MAX))
    assert refused.code == ResponseCode.SYSTEM_BUSY
    assert "over this connection" in (refused.remark or "")
    assert (await greedy.call(numbered(0))).code == 0, "one that it has"
    assert (await again.call(numbered(0))).code == 0, "it has moved"
    assert (await greedy.call(numbered(BROKERS_OF_CONNECTION_MAX))).code == 0
    check_invariants(name_server.routes)
    monkeypatch.setattr(name_server.routes._shares.of_host, "most", 68)
    codes = [(await again.call(numbered(1000 + number))).code for number in range(3)]
    assert codes == [ResponseCode.SYSTEM_BUSY] * 3
    assert (await other.call(numbered(2000))).code == 0
    await greedy.stream.aclose()
    await wait_all_tasks_blocked()
    assert (await again.call(numbered(1000))).code == 0
    check_invariants(name_server.routes)


async def test_a_route_over_many_brokers_is_written_beside_the_loop(connect: Connect) -> None:
    name_server = NameServer()
    for number in range(300):
        name_server.routes.register(
            Registration(
                cluster="c",
                broker_name=f"b{number}",
                broker_id=0,
                address=f"h:{number}",
                data_version=DataVersion(1, 1),
                topics=(TopicConfig("T"),),
                filter_servers=[f"f{each}" for each in range(1000)],
            ),
            now_s=0.0,
            connection=number,
        )
    written: list[Thread] = []
    encode = RouteData.encode

    def noted(self: RouteData, *, standard: bool = False, pretty: bool = False) -> bytes:
        written.append(current_thread())
        return encode(self, standard=standard, pretty=pretty)

    with patch.object(RouteData, "encode", noted):
        answer = await connect(name_server.server).call(request(ROUTE, {"topic": "T"}))
    route = RouteData.decode(answer.body)
    assert len(route.broker_datas) == 300
    assert {len(filters) for filters in route.filter_server_table.values()} == {FILTER_SERVERS_MAX}
    assert current_thread() not in written


async def test_many_keys_of_a_namespace_are_written_beside_the_loop_or_once(
    connect: Connect,
) -> None:
    name_server = NameServer(return_order_topic_config_to_broker=True)
    peer = connect(name_server.server)
    many = {f"T{number}": "b:4" for number in range(600)}
    name_server.kv._table = {"ORDER_TOPIC_CONFIG": many}
    written: list[Thread] = []
    encode = KVTable.encode

    def noted(self: KVTable, *, standard: bool = False, pretty: bool = False) -> bytes:
        written.append(current_thread())
        return encode(self, standard=standard, pretty=pretty)

    asked = request(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "ORDER_TOPIC_CONFIG"})
    with patch.object(KVTable, "encode", noted):
        assert KVTable.decode((await peer.call(asked)).body).table == many
        assert len(written) == 1
        assert current_thread() not in written
        for number in range(3):
            told = await peer.call(registration(name=f"b{number}", brokerAddr=f"h:{number}"))
            assert KVTable.decode(told.body).table == many
        assert len(written) == 2
        put_key(name_server.kv, "ORDER_TOPIC_CONFIG", "new", "b:1")
        told = await peer.call(registration(counter=2))
        assert KVTable.decode(told.body).table == many | {"new": "b:1"}
        assert len(written) == 3


async def test_the_rows_of_brokers_are_charged_to_the_connection_that_brings_them(
    connect: Connect,
) -> None:
    name_server = NameServer()
    honest, hostile = connect(name_server.server), connect(name_server.server)
    await honest.call(registration(TopicConfig("T"), name="honest", brokerAddr="127.0.0.1:1"))
    budget = name_server.server.budget
    before_bytes = budget.used_bytes
    topics = [TopicConfig(f"{'x' * 100}{n}") for n in range(100)]
    for number in range(3):
        for counter in range(3):
            frame = registration(
                *topics,
                name=f"b{number}",
                brokerAddr=f"127.0.0.1:{number + 2}",
                counter=counter + 1,
            )
            await hostile.call(frame)
    rows_bytes = budget.used_bytes - before_bytes
    assert 3 * 100 * 600 < rows_bytes < 3 * 100 * 800
    check_invariants(name_server.routes)
    name_server.routes.delete_topic(topics[0].topic_name)
    check_invariants(name_server.routes)
    budget.limit_bytes = budget.used_bytes
    await hostile.send(registration(*topics, name="b9", brokerAddr="127.0.0.1:99"))
    assert await hostile.is_closed()
    await wait_all_tasks_blocked()
    assert list(name_server.routes.cluster_info().broker_addr_table) == ["honest"]
    assert name_server.routes.is_registered("127.0.0.1:1")
    check_invariants(name_server.routes)
    assert budget.used_bytes <= before_bytes


async def test_a_broker_is_known_on_the_disk_before_it_is_registered(
    connect: Connect, tmp_path: Path
) -> None:
    path = tmp_path / "knownBrokers.json"
    name_server = NameServer(known=KnownBrokers(path))
    peer = connect(name_server.server)
    for number in range(3):
        said = registration(name=f"b{number}", brokerAddr=f"10.0.0.{number}:10911")
        assert (await peer.call(said)).code == ResponseCode.SUCCESS
        assert json.loads(path.read_bytes()) == [f"b{n}" for n in range(number + 1)]


async def test_names_of_brokers_have_bounds_and_are_charged(
    connect: Connect, tmp_path: Path
) -> None:
    known = KnownBrokers(tmp_path / "knownBrokers.json")
    name_server = NameServer(known=known)
    peer, budget = connect(name_server.server), name_server.server.budget
    for said, name in (
        (registration(brokerName="n" * 256), "brokerName"),
        (registration(clusterName="é" * 128), "clusterName"),
        (registration(brokerAddr="a" * 513), "brokerAddr"),
        (registration(haServerAddr="a" * 513), "haServerAddr"),
    ):
        answer = await peer.call(said)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert f"a {name} of " in (answer.remark or "")
    assert (known.names, name_server.routes.registered) == (frozenset(), 0)
    before_bytes = budget.used_bytes
    longest = registration(
        name="n" * 255, clusterName="c" * 255, brokerAddr="a" * 512, haServerAddr="h" * 512
    )
    assert (await peer.call(longest)).code == ResponseCode.SUCCESS
    assert budget.used_bytes - before_bytes >= 2048 + 2 * 255 + 2 * 512


def put_key(kv: KVConfig, namespace: str, key: str, value: str) -> None:
    draft = kv.draft()
    draft.put(namespace, key, value)
    kv.write(draft)


def delete_key(kv: KVConfig, namespace: str, key: str) -> None:
    draft = kv.draft()
    draft.delete(namespace, key)
    kv.write(draft)


def refused(kv: KVConfig, namespace: str, key: str, value: str) -> str:
    with pytest.raises(Refused) as refusal:
        put_key(kv, namespace, key, value)
    assert kv.get(namespace, key) != value
    assert refusal.value.remark is not None
    return refusal.value.remark


def test_key_value_configuration_has_bounds_and_says_which(tmp_path: Path) -> None:
    kv = KVConfig(tmp_path / "kvConfig.json")
    put_key(kv, "n" * 1024, "k" * 1024, "v" * 65536)
    assert "a namespace of 1025 bytes, at most 1024" in refused(kv, "n" * 1025, "k", "v")
    assert "a key of 1026 bytes, at most 1024" in refused(kv, "N", "ü" * 513, "v")
    assert "a value of 65537 bytes, at most 65536" in refused(kv, "N", "k", "v" * 65537)
    for number in range(31):
        put_key(kv, "N", f"k{number}", "v" * 65000)
    assert "at most 2097152 are kept" in refused(kv, "N", "k31", "v" * 65000)
    delete_key(kv, "N", "k0")
    put_key(kv, "N", "k31", "v" * 65000)
    assert KVConfig(tmp_path / "kvConfig.json").namespace("N") == kv.namespace("N")
    small = KVConfig(None)
    for number in range(128):
        put_key(small, f"n{number}", "k", "v")
    assert "there are 128 namespaces" in refused(small, "one more", "k", "v")
    delete_key(small, "n0", "k")
    put_key(small, "one more", "k", "v")


@pytest.mark.slow
def test_the_next_start_reads_whatever_key_value_configuration_was_taken(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    kv = KVConfig(path)
    put_key(kv, "kept", "k", "v")
    assert "could not be read back" in refused(kv, "N", "$ref", "$.nothing")
    assert "no JSON form" in refused(kv, "N", "\ud800", "v")
    for control in ("\x01", "\x00", "\x1f"):  # six bytes in the file for each
        for number in range(10):
            put_key(kv, "N", f"{control}{number}", control * 65536)
    put_key(kv, "N", "a $ref", '{"$ref":"$"}')
    assert KVConfig(path).namespace("N") == kv.namespace("N")
    assert KVConfig(path).namespace("kept") == {"k": "v"}


async def test_key_value_configuration_is_written_beside_the_loop(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = connect(NameServer(tmp_path / "kvConfig.json").server)
    threads, sync = list[int](), os.fsync

    def noted(file: int) -> None:
        threads.append(threading.get_ident())
        sync(file)

    monkeypatch.setattr("os.fsync", noted)
    entry = {"namespace": "N", "key": "k", "value": "v"}
    assert (await peer.call(request(RequestCode.PUT_KV_CONFIG, entry))).code == 0
    assert (await peer.call(request(RequestCode.DELETE_KV_CONFIG, entry))).code == 0
    assert len(threads) == 4  # of each write the file and its name
    assert threading.get_ident() not in threads


async def test_the_order_of_topics_is_told_to_brokers_and_on_request_to_clients(
    connect: Connect,
) -> None:
    name_server = NameServer()
    peer = connect(name_server.server)
    assert (await peer.call(registration(TopicConfig("T")))).body == b""
    put_key(name_server.kv, "ORDER_TOPIC_CONFIG", "T", "broker-a:4")
    answer = await peer.call(registration(TopicConfig("T")))
    assert json.loads(answer.body) == {"table": {"T": "broker-a:4"}}
    ask = request(ROUTE, {"topic": "T"})
    assert b"orderTopicConf" not in (await peer.call(ask)).body
    update = request(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true\n")
    assert (await peer.call(update)).code == 0
    assert b'"orderTopicConf":"broker-a:4"' in (await peer.call(ask)).body


async def test_settings_are_shown_changed_checked_and_kept(
    connect: Connect, tmp_path: Path
) -> None:
    path = tmp_path / "namesrv.properties"
    peer = connect(NameServer(config_store_path=path).server)
    update = RequestCode.UPDATE_NAMESRV_CONFIG
    for body, code in [
        (b"orderMessageEnable=true", 0),
        (b"kvConfigPath=/elsewhere", 16),
        (b"listenPort=1", 1),
        (b"orderMesageEnable=true", 1),
        (b"orderMessageEnable=maybe", 1),
        (b"scanNotActiveBrokerInterval=1", 1),
        (b"scanNotActiveBrokerInterval=1" + b"0" * 400, 1),
        (b"scanNotActiveBrokerInterval=2147483648", 1),
        (b"", 0),
    ]:
        assert (await peer.call(request(update, body=body))).code == code, body
    shown = await peer.call(request(RequestCode.GET_NAMESRV_CONFIG))
    lines = shown.body.decode().splitlines()
    assert "orderMessageEnable=true" in lines
    assert "scanNotActiveBrokerInterval=5000" in lines
    assert NameServerConfig.load(path).order_message_enable


async def test_lists_of_topics(connect: Connect) -> None:
    peer = connect(NameServer().server)
    await peer.call(registration(TopicConfig("T"), TopicConfig("U", topic_sys_flag=3)))

    async def ask(code: int, **fields: str) -> object:
        return json.loads((await peer.call(request(code, fields))).body)

    assert await ask(206) == {"topicList": ["T", "U"]}
    assert await ask(224, cluster="c") == {"topicList": ["T", "U"]}
    assert await ask(224, cluster="none") == {"topicList": []}
    system = {"topicList": ["c", "broker-a"], "brokerAddr": "127.0.0.1:10911"}
    assert await ask(304) == system
    assert [await ask(code) for code in (311, 312, 313)] == [
        {"topicList": ["U"]},
        {"topicList": ["U"]},
        {"topicList": []},
    ]
    wiped = await peer.call(request(205, {"brokerName": "broker-a"}))
    assert wiped.fields == {"wipeTopicCount": "2"}
    added = await peer.call(request(327, {"brokerName": "broker-a"}))
    assert added.fields == {"addTopicCount": "2"}
    assert (await peer.call(request(216, {"topic": "T"}))).code == 0
    assert await ask(206) == {"topicList": ["U"]}
    leaving = {**registration().fields}
    assert (await peer.call(request(RequestCode.UNREGISTER_BROKER, leaving))).code == 0
    assert await ask(206) == {"topicList": []}


async def test_a_running_name_server_says_where_it_is(dial: Dial) -> None:
    async with open_nameserver(
        NameServerConfig(bind_address="127.0.0.1", listen_port=0)
    ) as running:
        assert running.address == f"127.0.0.1:{running.port}"
        answer = await (await dial(running.port)).call(request(206))
        assert answer.body == b'{"topicList":[]}'
