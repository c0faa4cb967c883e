"""JSON about logical queues: strict when written, every form of Java's when read."""

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from lanemq.wire import RemoteProtocolError, fastjson
from lanemq.wire.bodies import MessageQueue, RegisterBrokerBody, RouteData
from lanemq.wire.logical import (
    LOGICAL_QUEUES_MEMBER,
    LOGICAL_QUEUES_UNORDERED_MEMBER,
    Chain,
    ClientView,
    CreateQueueForLogicalQueue,
    GapReport,
    LogicalListenerReport,
    LogicalQueueReport,
    LogicalQueues,
    MigrateLogicalQueue,
    Redirect,
    ReuseLogicalQueue,
    SealLogicalQueue,
    Segment,
    SegmentState,
    TopicReport,
    UpdateLogicalQueueMapping,
    check_chain,
    gaps_beside,
    logical_queues_by_topic,
    serves_java,
    with_logical_queues,
)

VECTORS = Path(__file__).parents[2] / "compat_tests" / "vectors" / "logical" / "preview.jsonl"


class Vector(NamedTuple):
    kind: str
    sent: bytes
    answer: bytes


def vectors(*kinds: str) -> list[Vector]:
    read = (json.loads(line) for line in VECTORS.read_text().splitlines())
    found = [Vector(v["kind"], v["sent"].encode(), v["answer"].encode()) for v in read]
    return [vector for vector in found if vector.kind in kinds]


FIRST = Segment(
    MessageQueue("T", "broker1", 0), 0, 0, SegmentState.READ_ONLY, 0, 101, 1000, 2000, "h:10911"
)
SECOND = Segment(MessageQueue("T", "broker2", 2), 0, 101)
QUEUES = LogicalQueues([Chain(0, [FIRST, SECOND]), Chain(1)])

FIRST_JSON = (
    '{"brokerAddr":"h:10911","firstMsgTimeMillis":1000,"lastMsgTimeMillis":2000,'
    '"logicalQueueDelta":0,"logicalQueueIndex":0,'
    '"messageQueue":{"brokerName":"broker1","queueId":0,"topic":"T"},'
    '"offsetDelta":0,"offsetMax":101,"state":"ReadOnly"}'
)
SECOND_JSON = (
    '{"firstMsgTimeMillis":-1,"lastMsgTimeMillis":-1,'
    '"logicalQueueDelta":101,"logicalQueueIndex":0,'
    '"messageQueue":{"brokerName":"broker2","queueId":2,"topic":"T"},'
    '"offsetDelta":0,"offsetMax":-1,"state":"Normal"}'
)


def test_a_segment_is_written_as_java_writes_it() -> None:
    assert FIRST.encode().decode() == FIRST_JSON
    assert SECOND.encode().decode() == SECOND_JSON
    assert Segment.decode(FIRST_JSON) == FIRST


def test_missing_members_take_their_defaults_and_unknown_ones_are_passed_over() -> None:
    text = '{"messageQueue":{"brokerName":"b","queueId":1,"topic":"T"},"new":1,"state":3}'
    read = Segment.decode(text)
    assert read == Segment(MessageQueue("T", "b", 1), state=SegmentState.WRITE_ONLY)
    assert (read.logical_index, read.delta, read.offset_max) == (-1, -1, -1)


@pytest.mark.parametrize(
    "text",
    [
        '{"state":"Normal"}',
        '{"messageQueue":{"brokerName":"b","queueId":1,"topic":"T"},"state":"Sealing"}',
        '{"messageQueue":{"brokerName":"b","queueId":1,"topic":"T"},"offsetMax":"x"}',
    ],
)
def test_a_segment_without_a_queue_or_with_an_unknown_state_is_refused(text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        Segment.decode(text)


def test_queues_are_written_as_strict_json() -> None:
    text = QUEUES.encode().decode()
    assert text == f'{{"0":[{FIRST_JSON},{SECOND_JSON}],"1":[]}}'
    assert json.loads(text).keys() == {"0", "1"}


@pytest.mark.parametrize(
    "text",
    [
        f'{{"0":[{FIRST_JSON},{SECOND_JSON}],"1":[]}}',
        f"{{0:[{SECOND_JSON},{FIRST_JSON}],1:[]}}",
        (
            f'{{0:{{{{"brokerName":"broker2","offsetDelta":0,"queueId":2}}:{SECOND_JSON},'
            f'{{"brokerName":"broker1","offsetDelta":0,"queueId":0}}:{FIRST_JSON}}},1:{{}}}}'
        ),
        (
            f'{{"0":{{"{{\\"brokerName\\":\\"broker2\\",\\"offsetDelta\\":0,\\"queueId\\":2}}":'
            f'{SECOND_JSON},"{{\\"brokerName\\":\\"broker1\\"}}":{FIRST_JSON}}},"1":{{}}}}'
        ),
    ],
    ids=["strict", "bare-indices", "objects-as-keys", "texts-of-objects-as-keys"],
)
def test_queues_are_read_in_every_form(text: str) -> None:
    assert LogicalQueues.decode(text) == QUEUES


def test_no_queues_are_read_as_none_and_no_queue_as_an_empty_object() -> None:
    assert LogicalQueues.decode(b"null") is None
    assert LogicalQueues.decode(b"{}") == LogicalQueues()


@pytest.mark.parametrize("text", ["[]", '{"a":[]}', '{"-1":[]}', '{"0":1}', '{"4294967296":[]}'])
def test_what_is_no_map_of_queues_is_refused(text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        LogicalQueues.decode(text)


def test_the_index_that_a_chain_stands_under_counts() -> None:
    read = LogicalQueues.decode(f'{{"5":[{FIRST_JSON}]}}')
    assert read is not None
    assert check_chain(read[5]) == []


def test_a_route_is_read_as_the_java_client_does_the_unordered_form_first() -> None:
    other = LogicalQueues([Chain(0, [SECOND])])
    assert LogicalQueues.of_route({}) is None
    ordered = {LOGICAL_QUEUES_MEMBER: QUEUES.to_json()}
    read = RouteData.decode(RouteData(extra=ordered).encode(standard=True))
    assert LogicalQueues.of_route(read.extra) == QUEUES
    both = {**read.extra, LOGICAL_QUEUES_UNORDERED_MEMBER: json.loads(other.encode())}
    assert LogicalQueues.of_route(both) == other


def test_a_table_of_topics_carries_the_map_in_its_further_members() -> None:
    members = with_logical_queues({"later": 1}, {"T": QUEUES, "U": LogicalQueues()})
    assert list(members) == ["later", "logicalQueuesInfoMap"]
    read = fastjson.loads(fastjson.dumps(members))
    assert isinstance(read, dict)
    assert logical_queues_by_topic(read) == {"T": QUEUES, "U": LogicalQueues()}
    assert logical_queues_by_topic({}) is None
    with pytest.raises(RemoteProtocolError):
        logical_queues_by_topic({"logicalQueuesInfoMap": []})


def test_bodies_have_the_members_of_5_0_0_preview() -> None:
    written = [
        UpdateLogicalQueueMapping("T", 0, 0),
        SealLogicalQueue("T", 0, 2),
        ReuseLogicalQueue("T", 0, 2, SegmentState.WRITE_ONLY),
        CreateQueueForLogicalQueue("T", 2, SegmentState.WRITE_ONLY),
        MigrateLogicalQueue(FIRST, SECOND),
        MigrateLogicalQueue(None, SECOND),
    ]
    assert [body.encode().decode() for body in written] == [
        '{"logicalQueueIdx":0,"queueId":0,"topic":"T"}',
        '{"logicalQueueIndex":2,"queueId":0,"topic":"T"}',
        '{"logicalQueueIndex":2,"messageQueueRouteState":"WriteOnly","queueId":0,"topic":"T"}',
        '{"logicalQueueIndex":2,"messageQueueStatus":"WriteOnly","topic":"T"}',
        f'{{"fromQueueRouteData":{FIRST_JSON},"toQueueRouteData":{SECOND_JSON}}}',
        f'{{"toQueueRouteData":{SECOND_JSON}}}',
    ]
    for body in written:
        assert type(body).decode(body.encode()) == body


def test_a_redirect_is_an_array_of_exactly_two_segments() -> None:
    redirect = Redirect(FIRST, SECOND)
    assert redirect.encode().decode() == f"[{FIRST_JSON},{SECOND_JSON}]"
    assert Redirect.decode(redirect.encode()) == redirect
    assert Redirect.decode(b"") is None
    assert Redirect.decode(b"null") is None
    for wrong in (f"[{FIRST_JSON}]", "{}", "[1,2]"):
        with pytest.raises(RemoteProtocolError):
            Redirect.decode(wrong.encode())


@pytest.mark.parametrize("vector", vectors("queues"))
def test_java_reads_our_queues_and_we_read_its(vector: Vector) -> None:
    ours = LogicalQueues.decode(vector.sent)
    assert ours is not None
    assert ours.encode() == vector.sent
    assert LogicalQueues.decode(vector.answer) == ours


@pytest.mark.parametrize("vector", vectors("route", "unordered"))
def test_java_reads_our_routes_and_we_read_its_in_both_forms(vector: Vector) -> None:
    ours, theirs = RouteData.decode(vector.sent), RouteData.decode(vector.answer)
    assert ours.encode(standard=True) == vector.sent
    assert LogicalQueues.of_route(theirs.extra) == LogicalQueues.of_route(ours.extra)
    assert theirs.broker_datas == ours.broker_datas


@pytest.mark.parametrize("vector", vectors("register"))
def test_java_reads_our_registrations_and_we_read_its(vector: Vector) -> None:
    ours = RegisterBrokerBody.decode(vector.sent).topic_config_wrapper
    theirs = RegisterBrokerBody.decode(vector.answer).topic_config_wrapper
    assert logical_queues_by_topic(theirs.extra) == logical_queues_by_topic(ours.extra)


@pytest.mark.parametrize("vector", vectors("sorted"))
def test_we_sort_as_java_does(vector: Vector) -> None:
    sent, answer = fastjson.loads(vector.sent), fastjson.loads(vector.answer)
    assert isinstance(sent, list)
    assert isinstance(answer, list)
    segments = [Segment.from_json(item) for item in sent]
    by_index = {segment.logical_index for segment in segments}
    if len(by_index) == 1:
        expected = [Segment.from_json(item) for item in answer]
        assert list(Chain(by_index.pop(), segments)) == expected


@pytest.mark.parametrize("vector", vectors("segment", "migrate", "update", "seal", "create"))
def test_java_gives_our_bodies_back_byte_for_byte(vector: Vector) -> None:
    assert vector.answer == vector.sent


@pytest.mark.parametrize("vector", vectors("reuse"))
def test_java_passes_over_our_own_member(vector: Vector) -> None:
    ours = ReuseLogicalQueue.decode(vector.sent)
    theirs = ReuseLogicalQueue.decode(vector.answer)
    assert (theirs.state, theirs.delta, ours.delta) == (ours.state, None, 5)


def test_a_brokers_report_comes_back_and_java_never_sees_a_null() -> None:
    report = LogicalQueueReport(
        is_whole=False,
        listener=LogicalListenerReport("10.0.0.1:10921", 5),
        topics={
            "T": TopicReport(
                ClientView.PHYSICAL, serve_to_java=False, gaps=(GapReport(0, 150, 200),)
            ),
            "U": TopicReport(),
        },
    )
    members = report.added_to({"logicalQueuesInfoMap": {}})
    data = fastjson.dumps(members)
    assert b"null" not in data
    read = fastjson.loads(data)
    assert isinstance(read, dict)
    assert LogicalQueueReport.of(read) == report
    assert LogicalQueueReport.of({}) is None
    with pytest.raises(RemoteProtocolError, match="logical or physical"):
        TopicReport.decode('{"clientView":"both"}')


def test_the_topics_that_java_clients_may_see_are_all_none_or_a_list() -> None:
    assert serves_java("all", "T")
    assert not serves_java("none", "T")
    assert serves_java("S, T", "T")
    assert not serves_java("S,TT", "T")


def test_a_broker_knows_the_gaps_beside_its_own_segments() -> None:
    def at(broker: str, delta: int, end: int = -1) -> Segment:
        state = SegmentState.NORMAL if end < 0 else SegmentState.READ_ONLY
        return Segment(MessageQueue("T", broker, delta), 0, delta, state, 0, end)

    chain = [at("a", 0, 5), at("b", 7, 3), at("c", 20, 1), at("d", 30)]
    queues = LogicalQueues([Chain(0, chain), Chain(1)])
    assert gaps_beside("a", queues) == (GapReport(0, 5, 7),)
    assert gaps_beside("b", queues) == (GapReport(0, 5, 7), GapReport(0, 10, 20))
    assert gaps_beside("d", queues) == (GapReport(0, 21, 30),)
    assert gaps_beside("e", queues) == ()
