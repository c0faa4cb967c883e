"""Logical queues over the wire of a name server: requests as clients and brokers write them."""

import json
import re
import zlib
from collections.abc import Callable
from dataclasses import replace

import pytest
import trio
import trio.lowlevel
from trio.testing import wait_all_tasks_blocked

from lanemq.proxy.nameserver import NameServerConfig, RouteTable
from lanemq.proxy.nameserver._handlers import NameServerHandlers
from lanemq.proxy.nameserver._kv import KVConfig
from lanemq.proxy.nameserver._requests import ADDRESS_BYTES_MAX, TOPIC_BYTES_MAX, kept_bytes
from lanemq.proxy.nameserver.logical import _routes as logical_routes
from lanemq.proxy.nameserver.logical._registration import LogicalRegistration
from lanemq.proxy.nameserver.logical._topic import LogicalTopic
from lanemq.proxy.nameserver.logical._view import Facts, ShownTopic
from lanemq.proxy.net._dispatch import Handlers
from lanemq.proxy.net._server import Server
from lanemq.proxy.net._turns import LOOKS_OF_A_STEP, Steps
from lanemq.testkit.proxy.peers import Connect, Peer
from lanemq.wire import LISTED_MAX, VIRTUAL_BROKERS_MAX, RequestCode, ResponseCode, Version
from lanemq.wire.bodies import (
    DataVersion,
    MessageQueue,
    RegisterBrokerBody,
    RouteData,
    TopicConfig,
    TopicConfigWrapper,
)
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import (
    DeleteTopicFromNamesrv,
    GetRouteInfo,
    RegisterBroker,
    RegisterBrokerResponse,
    UnregisterBroker,
)
from lanemq.wire.logical import (
    LOGICAL_QUEUE_BROKER,
    LOGICAL_QUEUE_FLAG,
    LogicalListenerReport,
    LogicalQueueReport,
    LogicalQueues,
    Segment,
    SegmentState,
    TopicReport,
    logical_queues_by_topic,
    with_logical_queues,
)
from lanemq.wire.requests import Port

# As a broker of 5.0.0-PREVIEW writes it: bare indices, its own segments only.
PREVIEW_REGISTRATION = (
    '{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":7,'
    '"timestamp":1700000000000},"logicalQueuesInfoMap":{"T":{0:[{"brokerAddr":"10.0.0.1:10911",'
    '"firstMsgTimeMillis":-1,"lastMsgTimeMillis":-1,"logicalQueueDelta":0,"logicalQueueIndex":0,'
    '"messageQueue":{"brokerName":"broker1","queueId":0,"topic":"T"},"offsetDelta":0,'
    '"offsetMax":-1,"state":"Normal"}],1:[{"brokerAddr":"10.0.0.1:10911","firstMsgTimeMillis":-1,'
    '"lastMsgTimeMillis":-1,"logicalQueueDelta":0,"logicalQueueIndex":1,"messageQueue":'
    '{"brokerName":"broker1","queueId":1,"topic":"T"},"offsetDelta":0,"offsetMax":-1,'
    '"state":"Normal"}],2:[]}},"topicConfigTable":{"T":{"order":false,"perm":6,"readQueueNums":2,'
    '"topicFilterType":"SINGLE_TAG","topicName":"T","topicSysFlag":0,"writeQueueNums":2},'
    '"U":{"order":false,"perm":6,"readQueueNums":2,"topicFilterType":"SINGLE_TAG","topicName":"U",'
    '"topicSysFlag":0,"writeQueueNums":2}}}}'
)


class NameServer:
    """A name server over memory streams."""

    def __init__(self, **config: object) -> None:
        self.config = NameServerConfig.from_properties({}, {"logical_queue_wait_time": 0, **config})
        self.kv = KVConfig(None)
        handlers = Handlers(Port.NAME_SERVER)
        NameServerHandlers(self.config, RouteTable(), self.kv, now_s=trio.current_time).add_to(
            handlers
        )
        self.server = Server(handlers, name="name server")


def registration(
    body: bytes, *, name: str = "broker1", broker_id: int = 0, compressed: bool = False
) -> Frame:
    header = RegisterBroker(
        broker_name=name,
        broker_addr=f"10.0.0.{name[-1]}:10911",
        cluster_name="c",
        ha_server_addr="",
        broker_id=broker_id,
        compressed=compressed,
        body_crc32=zlib.crc32(body) & 0x7FFF_FFFF,
    )
    return request(RequestCode.REGISTER_BROKER, header.to_fields(), body)


def of_lanemq(text: str, **report: object) -> bytes:
    """The same registration with lanemq's own member."""
    wrapper = RegisterBrokerBody.decode(text).topic_config_wrapper
    listener = LogicalListenerReport("10.0.0.1:10921", 5)
    member = LogicalQueueReport(listener=listener, topics={"T": TopicReport(**report)})  # type: ignore[arg-type]
    version = DataVersion(1_700_000_000_000, 8)
    table = wrapper.topic_config_table
    return RegisterBrokerBody(
        TopicConfigWrapper(table, version, member.added_to(wrapper.extra))
    ).encode()


def ask(
    topic: str = "T",
    *,
    flagged: bool = True,
    language: str = "JAVA",
    only: str | None = None,
    means_it: bool | None = None,
) -> Frame:
    fields = GetRouteInfo(
        topic,
        sys_flag=LOGICAL_QUEUE_FLAG if flagged else None,
        logical_queue_ids_filter=only,
        apply_logical_queue_ids_filter=means_it,
    )
    return Frame(
        code=RequestCode.GET_ROUTEINFO_BY_TOPIC,
        fields=fields.to_fields(),
        language=language,
        version=Version.V4_9_4 if flagged else Version.V4_2_0,
    )


async def indices(peer: Peer, frame: Frame) -> list[int] | None:
    """The logical queues that a client is told of."""
    answer = await peer.call(frame)
    assert answer.code == ResponseCode.SUCCESS
    queues = LogicalQueues.of_route(RouteData.decode(answer.body).extra)
    return None if queues is None else list(queues)


@pytest.fixture
async def peer(connect: Connect) -> Peer:
    """A peer of a name server where a broker of 5.0.0-PREVIEW has registered."""
    peer = connect(NameServer().server)
    await peer.call(registration(PREVIEW_REGISTRATION.encode()))
    return peer


async def test_a_route_is_strict_json_of_the_ordered_form_alone(peer: Peer) -> None:
    answer = await peer.call(ask())
    route = json.loads(answer.body)
    assert set(route) == {"brokerDatas", "filterServerTable", "logicalQueuesInfo", "queueDatas"}
    assert list(route["logicalQueuesInfo"]) == ["0", "1"], "empty indices are left out"
    assert route["logicalQueuesInfo"]["0"][0]["messageQueue"] == {
        "brokerName": "broker1",
        "queueId": 0,
        "topic": "T",
    }
    assert b"null" not in answer.body


async def test_a_topic_without_logical_queues_has_no_such_member_and_no_null(
    peer: Peer,
) -> None:
    answer = await peer.call(ask("U"))
    assert set(json.loads(answer.body)) == {"brokerDatas", "filterServerTable", "queueDatas"}
    assert (await peer.call(ask("V"))).code == ResponseCode.TOPIC_NOT_EXIST


async def test_a_client_without_the_flag_is_told_nothing_new(peer: Peer) -> None:
    assert await indices(peer, ask(flagged=False)) is None
    answer = await peer.call(ask(flagged=False))
    assert b'"brokerAddrs":{0:' in answer.body, "an older client reads no other form"


async def test_the_filter_of_java_clients_is_ignored(peer: Peer) -> None:
    assert await indices(peer, ask(only="[1]")) == [0, 1]


async def test_a_filter_that_is_meant_is_heeded(peer: Peer) -> None:
    assert await indices(peer, ask(only="[1, 7]", means_it=True)) == [1]
    answer = await peer.call(ask(only="1..7", means_it=True))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "logicalQueueIdsFilter" in (answer.remark or "")
    longest = ",".join(["1"] * LISTED_MAX)
    assert await indices(peer, ask(only=f"[{longest}]", means_it=True)) == [1]
    answer = await peer.call(ask(only=f"[{longest},1]", means_it=True))
    assert answer.code == ResponseCode.INVALID_PARAMETER


async def test_the_switch_is_for_java_clients_and_can_be_turned_while_running(
    connect: Connect,
) -> None:
    name_server = NameServer(serve_logical_queue_to_java="none")
    peer = connect(name_server.server)
    await peer.call(registration(PREVIEW_REGISTRATION.encode()))
    assert await indices(peer, ask()) is None
    assert await indices(peer, ask(language="PYTHON")) == [0, 1]
    update = request(RequestCode.UPDATE_NAMESRV_CONFIG, {}, b"serveLogicalQueueToJava=T")
    assert (await peer.call(update)).code == ResponseCode.SUCCESS
    assert await indices(peer, ask()) == [0, 1]


async def test_a_broker_of_lanemq_hears_of_the_switch_and_no_other_does(
    connect: Connect,
) -> None:
    peer = connect(NameServer(serve_logical_queue_to_java="S,T").server)
    answer = await peer.call(registration(PREVIEW_REGISTRATION.encode()))
    assert answer.fields == {}
    answer = await peer.call(registration(of_lanemq(PREVIEW_REGISTRATION)))
    heard = RegisterBrokerResponse.from_fields(answer.fields)
    assert heard.serve_logical_queue_to_java == "S,T"


async def test_a_broker_can_withhold_a_topic_from_java_clients(connect: Connect) -> None:
    peer = connect(NameServer().server)
    await peer.call(registration(of_lanemq(PREVIEW_REGISTRATION, serve_to_java=False)))
    assert await indices(peer, ask()) is None
    assert await indices(peer, ask(language="PYTHON")) == [0, 1]


async def test_clients_of_old_are_sent_to_the_listener(connect: Connect) -> None:
    name_server = NameServer(order_message_enable=True)
    draft = name_server.kv.draft()
    draft.put("ORDER_TOPIC_CONFIG", "T", "broker1:2")
    name_server.kv.write(draft)
    peer = connect(name_server.server)
    await peer.call(registration(of_lanemq(PREVIEW_REGISTRATION)))
    answer = await peer.call(ask(flagged=False))
    route = RouteData.decode(answer.body)
    assert [data.broker_name for data in route.queue_datas] == [LOGICAL_QUEUE_BROKER]
    assert route.queue_datas[0].read_queue_nums == 2
    assert b'"brokerAddrs":{0:"10.0.0.1:10921"}' in answer.body
    assert route.order_topic_conf is None, "it names brokers that the client does not see"
    flagged = RouteData.decode((await peer.call(ask())).body)
    assert flagged.order_topic_conf is None, "it would make the client use physical queues"
    cluster = await peer.call(request(RequestCode.GET_BROKER_CLUSTER_INFO))
    assert LOGICAL_QUEUE_BROKER.encode() not in cluster.body


async def test_a_name_server_that_has_started_says_not_yet(
    connect: Connect, autojump_clock: trio.testing.MockClock
) -> None:
    peer = connect(NameServer(logical_queue_wait_time=35_000).server)
    await peer.call(registration(PREVIEW_REGISTRATION.encode()))
    assert (await peer.call(ask())).code == ResponseCode.TOPIC_NOT_EXIST
    assert await indices(peer, ask("U")) is None
    assert await indices(peer, ask(flagged=False)) is None, "nobody translates here"
    await trio.sleep(35)
    assert await indices(peer, ask()) == [0, 1]


async def test_a_topic_deleted_and_made_again_is_a_plain_one(peer: Peer) -> None:
    deletion = request(RequestCode.DELETE_TOPIC_IN_NAMESRV, DeleteTopicFromNamesrv("T").to_fields())
    await peer.call(deletion)
    assert (await peer.call(ask())).code == ResponseCode.TOPIC_NOT_EXIST
    plain = RegisterBrokerBody(
        TopicConfigWrapper({"T": TopicConfig("T", 2, 2)}, DataVersion(1_700_000_000_001, 9))
    )
    await peer.call(registration(plain.encode()))
    assert await indices(peer, ask()) is None


async def test_a_compressed_registration_takes_no_logical_queues_away(peer: Peer) -> None:
    body = RegisterBrokerBody(
        TopicConfigWrapper({"T": TopicConfig("T", 2, 2)}, DataVersion(1_700_000_000_001, 9))
    )
    await peer.call(registration(body.encode_compressed(), compressed=True))
    assert await indices(peer, ask()) == [0, 1]


async def test_an_operator_has_a_broker_forgotten_with_its_farewell(connect: Connect) -> None:
    name_server = NameServer()
    peer = connect(name_server.server)
    other = RegisterBroker(
        broker_name="broker2",
        broker_addr="10.0.0.2:10911",
        cluster_name="c",
        ha_server_addr="",
        broker_id=0,
    )
    await peer.call(registration(PREVIEW_REGISTRATION.encode()))
    body = RegisterBrokerBody(
        TopicConfigWrapper({"T": TopicConfig("T", 0, 0)}, DataVersion(1, 1))
    ).encode()
    await peer.call(request(RequestCode.REGISTER_BROKER, other.to_fields(), body))
    farewell = UnregisterBroker("broker1", "10.0.0.1:10911", "c", 0)
    await peer.call(request(RequestCode.UNREGISTER_BROKER, farewell.to_fields()))
    assert await indices(peer, ask()) == [0, 1], "it may come back"
    other_name = UnregisterBroker("broker11", "", "", 0, forget_logical_queues=True)
    mistyped = await peer.call(request(RequestCode.UNREGISTER_BROKER, other_name.to_fields()))
    assert mistyped.code == ResponseCode.QUERY_NOT_FOUND
    assert mistyped.remark == "no broker of the name 'broker11' has ever registered here"
    assert await indices(peer, ask()) == [0, 1], "another name changes nothing"
    # As `lanemq admin forgetBroker` says it, which knows no more than the name.
    final = UnregisterBroker("broker1", "", "", 0, forget_logical_queues=True)
    assert (await peer.call(request(RequestCode.UNREGISTER_BROKER, final.to_fields()))).code == 0
    assert await indices(peer, ask()) is None


async def test_where_something_is_missing_a_broker_of_any_name_may_be_forgotten(
    connect: Connect,
) -> None:
    """It may have been there before the name server, which was started without its files."""
    name_server = NameServer()
    peer = connect(name_server.server)
    await peer.call(registration(PREVIEW_REGISTRATION.encode()))
    plain = RegisterBroker("broker2", "10.0.0.2:10911", "c", "", 0)
    body = RegisterBrokerBody(TopicConfigWrapper({"T": TopicConfig("T", 2, 2)}, DataVersion(1, 1)))
    await peer.call(request(RequestCode.REGISTER_BROKER, plain.to_fields(), body.encode()))
    final = UnregisterBroker("broker0", "", "", 0, forget_logical_queues=True)
    assert (await peer.call(request(RequestCode.UNREGISTER_BROKER, final.to_fields()))).code == 0


async def test_a_registration_that_cannot_be_understood_changes_nothing(peer: Peer) -> None:
    broken = PREVIEW_REGISTRATION.replace('"state":"Normal"', '"state":"Odd"').replace(
        '"counter":7', '"counter":8'
    )
    answer = await peer.call(registration(broken.encode()))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "state of a segment" in (answer.remark or "")
    assert await indices(peer, ask()) == [0, 1]


def preview_bytes() -> int:
    """The memory that the logical queues in ``PREVIEW_REGISTRATION`` take."""
    wrapper = RegisterBrokerBody.decode(PREVIEW_REGISTRATION).topic_config_wrapper
    return kept_bytes((logical_queues_by_topic(wrapper.extra) or {})["T"], None)


async def test_logical_queues_of_brokers_that_never_stay_are_bounded(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(
        logical_routes, "KEPT_MAX_BYTES", 4 * preview_bytes() + 100
    )  # one's share is three
    name_server = NameServer()
    for number in range(1, 6):
        peer = connect(name_server.server)
        text = PREVIEW_REGISTRATION.replace("broker1", f"broker{number}").encode()
        answer = await peer.call(registration(text, name=f"broker{number}"))
        assert answer.code == ResponseCode.SUCCESS
        await peer.stream.aclose()
        await wait_all_tasks_blocked()
    left_out = [line for line in caplog.messages if "are left out" in line]
    assert [re.search(r"broker\d", line)[0] for line in left_out] == ["broker4", "broker5"]  # type: ignore[index]
    assert "forgetBroker" in left_out[0]
    peer = connect(name_server.server)
    known = PREVIEW_REGISTRATION.replace('"counter":7', '"counter":8').encode()
    await peer.call(registration(known))
    assert len([line for line in caplog.messages if "are left out" in line]) == 2


@pytest.mark.parametrize("name", ["T{0}", "T"])
@pytest.mark.parametrize("of_lanemq", [True, False])
async def test_logical_queues_that_a_broker_registers_bit_by_bit_are_bounded(
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    of_lanemq: bool,
    name: str,
) -> None:
    """A registration in part leaves what was there before: the broker's share is of both."""
    peer, registered = connect(NameServer().server), 20

    def registration_of(topic: str, counter: int, *, maps: bool) -> Frame:
        queue = MessageQueue(topic, "broker1", 0)
        mapped = {topic: LogicalQueues.of([Segment(queue, 0, 0)])} if maps else {}
        extra = with_logical_queues({}, mapped)
        if of_lanemq:
            extra = LogicalQueueReport(is_whole=False).added_to(extra)
        table = {topic: TopicConfig(topic, 1, 1)}
        wrapper = TopicConfigWrapper(table, DataVersion(1, counter), extra)
        return registration(RegisterBrokerBody(wrapper).encode())

    topics = [name.format(number) for number in range(registered)]
    one_bytes = kept_bytes(
        LogicalQueues.of([Segment(MessageQueue(topics[-1], "broker1", 0), 0, 0)]), None
    )
    monkeypatch.setattr(logical_routes, "KEPT_MAX_BYTES", 4 * one_bytes)
    for counter, topic in enumerate(topics):
        await peer.call(registration_of(topic, counter + 1, maps=True))
    known = [topic for topic in dict.fromkeys(topics) if await indices(peer, ask(topic)) == [0]]
    assert known == list(dict.fromkeys(topics))[:3], "three quarters of the room"
    left_out = sum("are left out" in line for line in caplog.messages)
    assert left_out == (registered - 3 if len(known) == 3 else 0)
    await peer.call(registration_of(topics[0], registered + 1, maps=False))
    await peer.call(registration_of("Z", registered + 2, maps=True))
    assert await indices(peer, ask("Z")) == [0], "what was taken back makes room"


async def test_a_broker_that_had_none_before_gets_no_more_room(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logical_routes, "KEPT_MAX_BYTES", 4 * preview_bytes() + 100)
    name_server = NameServer()
    for number in range(1, 6):
        peer = connect(name_server.server)
        text = PREVIEW_REGISTRATION.replace("broker1", f"broker{number}")
        later = text.replace('"counter":7', '"counter":8')
        topics = TopicConfigWrapper({"T": TopicConfig("T", 2, 2)}, DataVersion(1, 1))
        for body in (RegisterBrokerBody(topics).encode(), text.encode(), later.encode()):
            answer = await peer.call(registration(body, name=f"broker{number}"))
            assert answer.code == ResponseCode.SUCCESS
    left_out = [line for line in caplog.messages if "are left out" in line]
    assert {re.search(r"broker\d", line)[0] for line in left_out} == {"broker4", "broker5"}  # type: ignore[index]


async def test_names_in_registrations_are_short(connect: Connect) -> None:
    peer, longest = connect(NameServer().server), "t" * TOPIC_BYTES_MAX
    queues = PREVIEW_REGISTRATION.replace('{"T":{0', '{"%s":{0')

    def body(topic: str, *servers: str) -> bytes:
        topics = TopicConfigWrapper({topic: TopicConfig(topic, 2, 2)}, DataVersion(1, 1))
        return RegisterBrokerBody(topics, servers).encode()

    for taken in (body(longest), body("T", "s" * 512), (queues % longest).encode()):
        assert (await peer.call(registration(taken))).code == ResponseCode.SUCCESS
    for refused in (body(longest + "t"), body("T", "s" * 513), (queues % f"{longest}t").encode()):
        answer = await peer.call(registration(refused))
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "are kept" in (answer.remark or "")


@pytest.mark.parametrize("broker_id", [0, 1])
async def test_a_listener_has_few_and_short_addresses_that_clients_can_connect_to(
    connect: Connect, broker_id: int
) -> None:
    peer = connect(NameServer().server)
    most, longest = VIRTUAL_BROKERS_MAX, f"{'h' * (ADDRESS_BYTES_MAX - 2)}:1"

    async def answer_to(address: str, *addresses: str) -> tuple[int, str]:
        report = LogicalQueueReport(listener=LogicalListenerReport(address, 1, addresses))
        wrapper = TopicConfigWrapper({}, DataVersion(1, 1), report.added_to({}))
        body = RegisterBrokerBody(wrapper).encode()
        answer = await peer.call(registration(body, broker_id=broker_id))
        return answer.code, answer.remark or ""

    for taken in (["h:1"], ["[::1]:1", "::1:2"], [longest] * (most + 1)):
        assert (await answer_to(*taken))[0] == ResponseCode.SUCCESS
    for refused, problem in (
        (["h:1"] * (most + 2), f"{most + 1} addresses, at most {most} are kept"),
        ([f"h{longest}"], f"of {ADDRESS_BYTES_MAX + 1} bytes, at most"),
        (["h:1", f"h{longest}"], f"of {ADDRESS_BYTES_MAX + 1} bytes, at most"),
        (["h"], "not an address of the form host:port"),
        (["h:1", "h:2", "h:x"], "not an address of the form host:port"),
        (["h:1", "h:65536"], "port out of range"),
    ):
        code, remark = await answer_to(*refused)
        assert (code, problem in remark) == (ResponseCode.SYSTEM_ERROR, True), remark


class _Reviews(trio.abc.Instrument):
    """Counts the topics whose logical queues each turn of a task looks at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.turns = [0]
        change = logical_routes.LogicalTopics._change

        def counted(
            topics: logical_routes.LogicalTopics,
            name: str,
            what: Callable[[LogicalTopic], None],
            now_s: float,
            more: int = 0,
        ) -> Steps[None]:
            self.turns[-1] += 1
            return change(topics, name, what, now_s, more)

        monkeypatch.setattr(logical_routes.LogicalTopics, "_change", counted)

    def before_task_step(self, task: object) -> None:
        self.turns.append(0)


@pytest.mark.parametrize("of_lanemq", [True, False])
async def test_a_registration_concerns_the_topics_that_the_broker_has_or_had_in_short_turns(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, of_lanemq: bool
) -> None:
    """A short one, too: the broker may have had logical queues of any of them."""
    peer = connect(NameServer().server)
    names = [f"T{number}" for number in range(4 * logical_routes.TOPICS_OF_A_STEP)]
    mapped = {
        name: LogicalQueues.of(
            [Segment(MessageQueue(name, "broker1", 0), 0, 0, SegmentState.NORMAL, 0, -1)]
        )
        for name in names
    }
    table = {name: TopicConfig(name, 1, 1) for name in names}
    wrapper = TopicConfigWrapper(table, DataVersion(1, 1), with_logical_queues({}, mapped))
    many = registration(RegisterBrokerBody(wrapper).encode())
    two = {name: TopicConfig(name, 1, 1) for name in ("X", "Y")}
    extra = LogicalQueueReport().added_to({}) if of_lanemq else {}
    wrapper = TopicConfigWrapper(two, DataVersion(1, 1), extra)
    stranger = registration(RegisterBrokerBody(wrapper).encode(), name="broker2")
    wrapper = TopicConfigWrapper(two, DataVersion(1, 2), extra)
    few = registration(RegisterBrokerBody(wrapper).encode())
    reviews = _Reviews(monkeypatch)
    trio.lowlevel.add_instrument(reviews)
    for asked, concerned in ((many, len(names)), (stranger, 0), (few, len(names))):
        reviews.turns = [0]
        assert (await peer.call(asked)).code == ResponseCode.SUCCESS
        assert sum(reviews.turns) == concerned
        assert max(reviews.turns) <= logical_routes.TOPICS_OF_A_STEP
        if asked is stranger:
            assert await indices(peer, ask("T0")) == [0]
    trio.lowlevel.remove_instrument(reviews)


def mapped_registration(broker: str, *topics: str, counter: int = 1) -> Frame:
    """Register a broker with one logical queue of each of these topics."""
    mapped = {
        name: LogicalQueues.of(
            [Segment(MessageQueue(name, broker, 0), 0, 0, SegmentState.NORMAL, 0, -1)]
        )
        for name in topics
    }
    table = {name: TopicConfig(name, 1, 1) for name in (*topics, f"plain of {broker}")}
    wrapper = TopicConfigWrapper(table, DataVersion(1, counter), with_logical_queues({}, mapped))
    return registration(RegisterBrokerBody(wrapper).encode(), name=broker)


async def test_a_view_is_made_anew_only_where_what_it_shows_has_changed(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever registers again and again would have all views of all topics made for it."""
    name_server = NameServer()
    broker, other, client = (connect(name_server.server) for _ in range(3))
    views, view = list[str](), LogicalTopic.view

    def counted(topic: LogicalTopic, facts: Facts, now_s: float) -> ShownTopic:
        views.append(topic.topic)
        return view(topic, facts, now_s)

    monkeypatch.setattr(LogicalTopic, "view", counted)
    assert (await broker.call(mapped_registration("broker1", "L0", "L1"))).code == 0

    async def made_by(asked: Frame) -> list[str]:
        assert (await other.call(asked)).code == 0
        views.clear()
        for name in ("L0", "L1"):
            assert await indices(client, ask(name)) == [0]
        return list(views)

    for counter in range(1, 4):
        assert await made_by(mapped_registration("broker2", "other", counter=counter)) == []
    assert (await made_by(mapped_registration("broker2", counter=9))) == []
    # The broker's own, and another's of one of these topics.
    plain = TopicConfigWrapper({"L1": TopicConfig("L1", 2, 2)}, DataVersion(1, 10))
    frame = registration(RegisterBrokerBody(plain).encode(), name="broker2")
    assert (await other.call(frame)).code == 0
    views.clear()
    await client.call(ask("L0"))
    await client.call(ask("L1"))
    assert set(views) <= {"L1"}
    gone = {"brokerName": "broker1", "brokerId": "0", "clusterName": "c"}
    gone["brokerAddr"] = registration(b"", name="broker1").fields["brokerAddr"]
    assert (await other.call(request(RequestCode.UNREGISTER_BROKER, gone))).code == 0
    views.clear()
    await client.call(ask("L1"))
    assert views == ["L1"]


@pytest.mark.parametrize("compressed", [False, True])
def test_topics_of_others_are_passed_over_in_short_steps(compressed: bool) -> None:
    """A whole registration is compared with all topics that are known, whosever they are."""
    topics = logical_routes.LogicalTopics(RouteTable(), wait_s=0)
    names = [f"T{number}" for number in range(5 * LOOKS_OF_A_STEP)]
    said = LogicalRegistration(
        cluster="c",
        broker_name="broker1",
        broker_id=0,
        address="h:1",
        data_version=DataVersion(1, 1),
        topics=names,
        queues={
            name: LogicalQueues.of(
                [Segment(MessageQueue(name, "broker1", 0), 0, 0, SegmentState.NORMAL, 0, -1)]
            )
            for name in names
        },
        report=LogicalQueueReport(),
    )
    topics.register(said, now_s=0, connection=1, was_known=False)
    other = replace(
        said, broker_name="broker2", address="h:2", topics=(), queues=None, is_compressed=compressed
    )
    steps = topics.register_in_steps(other, now_s=0, connection=2, was_known=False)
    assert sum(1 for _ in steps) >= 4
