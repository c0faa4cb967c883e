"""JSON bodies: the forms old clients need, what is accepted, what comes back."""

import dataclasses
import re
import types
import typing
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lanemq.wire.bodies
from lanemq.wire import RemoteProtocolError, fastjson
from lanemq.wire._numbers import Int
from lanemq.wire.bodies import (
    Body,
    BrokerData,
    BrokerStatsData,
    CheckClientRequestBody,
    ClientConnection,
    ClusterInfo,
    ConsumeFromWhere,
    ConsumeMessageDirectlyResultBody,
    ConsumeQueueData,
    ConsumerConnection,
    ConsumerOffsetTable,
    ConsumerRunningInfo,
    ConsumeStats,
    ConsumeStatsList,
    ConsumeStatus,
    ConsumeType,
    DataVersion,
    GetConsumerStatusBody,
    HeartbeatData,
    KVTable,
    LockBatch,
    LockBatchResult,
    MessageModel,
    MessageQueue,
    MessageQueueOffset,
    OffsetWrapper,
    ProcessQueueInfo,
    ProducerInfo,
    ProducerTable,
    QueryConsumeQueueBody,
    QueryConsumeTimeSpanBody,
    QueryCorrectionOffsetBody,
    QueueData,
    QueueTimeSpan,
    RegisterBrokerBody,
    ResetOffsetBody,
    ResetOffsetListBody,
    RouteData,
    SubscriptionData,
    SubscriptionGroupConfig,
    TopicConfig,
    TopicConfigWrapper,
    TopicList,
    TopicOffset,
    TopicStatsTable,
)

BODIES = [
    value
    for name in lanemq.wire.bodies.__all__
    if isinstance(value := getattr(lanemq.wire.bodies, name), type)
    and issubclass(value, Body)
    and value is not Body
]
assert len(BODIES) > 40
ALL_BODIES = pytest.mark.parametrize("cls", BODIES, ids=lambda cls: cls.__name__)
QUEUE = MessageQueue("T", "b", 3)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
SCALARS: dict[object, st.SearchStrategy[Any]] = {
    int: st.integers(-(1 << 63), (1 << 63) - 1),
    Int: st.integers(-(1 << 31), (1 << 31) - 1),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    str: TEXT,
    object: st.recursive(
        st.one_of(st.booleans(), st.integers(-9, 9), TEXT),
        lambda inner: st.one_of(
            st.lists(inner, max_size=2), st.dictionaries(TEXT, inner, max_size=2)
        ),
        max_leaves=3,
    ),
}


def values(hint: object) -> st.SearchStrategy[Any]:
    """Any value of a field with this annotation."""
    if hint in SCALARS:
        return SCALARS[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:
        return st.one_of(st.none(), values(arguments[0]))
    if origin is tuple:
        return st.lists(values(arguments[0]), max_size=2).map(tuple)
    if origin is frozenset:
        return st.frozensets(values(arguments[0]), max_size=2)
    if origin is Mapping:
        return st.dictionaries(values(arguments[0]), values(arguments[1]), max_size=2)
    assert isinstance(hint, type)
    assert issubclass(hint, Body)
    return bodies(hint)


def bodies(cls: type[Body]) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(cls, include_extras=True)
    fields = {
        field.name: values(hints[field.name])
        for field in dataclasses.fields(cls)  # type: ignore[arg-type]
        if field.name != "extra"
    }
    if "extra" in hints:
        unknown = TEXT.map(lambda name: f"x-{name}")
        fields["extra"] = st.dictionaries(unknown, SCALARS[object], max_size=2)
    return st.builds(cls, **fields)


@ALL_BODIES
@settings(max_examples=30)
@given(data=st.data())
def test_bodies_come_back(cls: type[Body], data: st.DataObject) -> None:
    body = data.draw(bodies(cls))
    assert cls.decode(body.encode()) == body
    assert cls.decode(body.encode(standard=True)) == body
    assert cls.decode(body.encode(pretty=True)) == body
    assert cls.from_json(fastjson.loads(body.encode())) == body


# JSON with the names of members, but anything as their values.
NAMES = sorted({name for cls in BODIES for name in typing.get_type_hints(cls)})
MEMBERS = [re.sub("_(.)", lambda match: match[1].upper(), name) for name in NAMES]
ANY_JSON: st.SearchStrategy[object] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXT),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from(MEMBERS), TEXT), inner, max_size=5),
    ),
    max_leaves=15,
)


@ALL_BODIES
@settings(max_examples=30)
@given(value=ANY_JSON, data=st.binary())
def test_garbage_is_only_ever_a_remote_protocol_error(
    cls: type[Body], value: object, data: bytes
) -> None:
    with suppress(RemoteProtocolError):
        cls.decode(data)
    with suppress(RemoteProtocolError):
        cls.from_json(value)


@ALL_BODIES
@settings(max_examples=5)
@given(data=st.data())
def test_each_member_of_the_wrong_type_is_named(cls: type[Body], data: st.DataObject) -> None:
    whole = fastjson.loads(data.draw(bodies(cls)).encode())
    assert isinstance(whole, dict)
    for name in whole:
        if not name.startswith("x-"):
            name = cls.OTHER_SPELLINGS.get(name, name)
            with pytest.raises(RemoteProtocolError, match=rf"{cls.__name__}\.{name}: "):
                cls.from_json(whole | {name: [[None]]})


def test_a_wrong_member_is_named_with_its_path() -> None:
    with pytest.raises(
        RemoteProtocolError, match=r"RouteData\.queueDatas: QueueData\.perm: .*'six'"
    ):
        RouteData.decode(
            '{"queueDatas":[{"brokerName":"b","readQueueNums":1,"writeQueueNums":1,"perm":"six"}]}'
        )
    with pytest.raises(RemoteProtocolError, match="MessageQueue lacks the member queueId"):
        MessageQueue.decode('{"topic":"T","brokerName":"b"}')
    with pytest.raises(RemoteProtocolError, match="TopicList is not a JSON object"):
        TopicList.decode("[]")


@pytest.mark.parametrize(
    ("text", "queue_id"), [("3", 3), ('"3"', 3), ("3.0", 3), ("-1", -1), ('"-1"', -1)]
)
def test_numbers_may_come_as_texts(text: str, queue_id: int) -> None:
    queue = MessageQueue.decode(f'{{"topic":"T","brokerName":"b","queueId":{text}}}')
    assert queue.queue_id == queue_id


@pytest.mark.parametrize(
    "text", ["true", "3.5", '"x"', '""', '"1_0"', "9223372036854775808", '"' + "9" * 30 + '"', "[]"]
)
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        MessageQueue.decode(f'{{"topic":"T","brokerName":"b","queueId":{text}}}')


@pytest.mark.parametrize(
    ("text", "order"),
    [("true", True), ('"true"', True), ("1", True), ("false", False), ("0", False)],
)
def test_booleans_may_come_as_texts(text: str, order: bool) -> None:
    assert TopicConfig.decode(f'{{"topicName":"T","order":{text}}}').order is order


def test_absent_and_null_members_take_the_defaults() -> None:
    assert TopicConfig.decode('{"topicName":"T","perm":null}') == TopicConfig("T")
    assert HeartbeatData.decode('{"clientID":"c"}') == HeartbeatData("c")
    assert SubscriptionGroupConfig.decode('{"groupName":"g"}').retry_max_times == 16


@given(
    st.lists(st.builds(MessageQueue, st.text(max_size=3), st.text(max_size=3), st.integers(-9, 9)))
)
def test_many_queues_are_written_as_one_is_and_read_again(queues: list[MessageQueue]) -> None:
    one_by_one = [fastjson.dumps(queue.to_json()) for queue in queues]
    body = LockBatchResult(tuple(queues))
    assert body.encode() == b'{"lockOKMQSet":[' + b",".join(one_by_one) + b"]}"
    assert LockBatchResult.decode(body.encode()) == body


def test_a_queue_is_a_sortable_key() -> None:
    queues = [MessageQueue("b", "a", 1), MessageQueue("a", "b", 9), MessageQueue("a", "a", 10)]
    assert sorted(queues) == [queues[2], queues[1], queues[0]]
    assert len({QUEUE, MessageQueue("T", "b", 3)}) == 1


# The forms below are those of the reference, member for member; clients depend on them.
GOLDEN: list[tuple[Body, str]] = [
    (QUEUE, '{"brokerName":"b","queueId":3,"topic":"T"}'),
    (
        RouteData((QueueData("b", 4, 8, 6),), (BrokerData("c", "b", {0: "h:1", 1: "h:2"}),)),
        (
            '{"brokerDatas":[{"brokerAddrs":{0:"h:1",1:"h:2"},"brokerName":"b","cluster":"c"}],'
            '"filterServerTable":{},"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":4,'
            '"topicSynFlag":0,"topicSysFlag":0,"writeQueueNums":8}]}'
        ),
    ),
    (
        ClusterInfo({"b": BrokerData("c", "b", {0: "h:1"})}, {"c": ("b",)}),
        (
            '{"brokerAddrTable":{"b":{"brokerAddrs":{0:"h:1"},"brokerName":"b","cluster":"c"}},'
            '"clusterAddrTable":{"c":["b"]}}'
        ),
    ),
    (
        ResetOffsetBody({QUEUE: 5}),
        '{"offsetTable":{{"brokerName":"b","queueId":3,"topic":"T"}:5}}',
    ),
    (
        ResetOffsetListBody((MessageQueueOffset("T", "b", 3, 5),)),
        '{"offsetTable":[{"brokerName":"b","offset":5,"queueId":3,"topic":"T"}]}',
    ),
    (
        GetConsumerStatusBody(consumer_table={"c": {QUEUE: 1}}),
        (
            '{"consumerTable":{"c":{{"brokerName":"b","queueId":3,"topic":"T"}:1}},'
            '"messageQueueTable":{}}'
        ),
    ),
    (
        TopicStatsTable({QUEUE: TopicOffset(1, 2, 3)}),
        (
            '{"offsetTable":{{"brokerName":"b","queueId":3,"topic":"T"}:'
            '{"lastUpdateTimestamp":3,"maxOffset":2,"minOffset":1}}}'
        ),
    ),
    (
        ConsumeStats({QUEUE: OffsetWrapper(9, 8, 7)}, 1.5),
        (
            '{"consumeTps":1.5,"offsetTable":{{"brokerName":"b","queueId":3,"topic":"T"}:'
            '{"brokerOffset":9,"consumerOffset":8,"lastTimestamp":7}}}'
        ),
    ),
    (
        ConsumeStatsList(({"g": (ConsumeStats(),)},), "h:1", 4),
        (
            '{"brokerAddr":"h:1","consumeStatsList":[{"g":[{"consumeTps":0.0,"offsetTable":{}}]}],'
            '"totalDiff":4}'
        ),
    ),
    (LockBatchResult((QUEUE,)), '{"lockOKMQSet":[{"brokerName":"b","queueId":3,"topic":"T"}]}'),
    (
        LockBatch("g", "c", (QUEUE,)),
        '{"clientId":"c","consumerGroup":"g","mqSet":[{"brokerName":"b","queueId":3,"topic":"T"}]}',
    ),
    (ConsumerOffsetTable({"T@g": {0: 1, 2: 3}}), '{"offsetTable":{"T@g":{0:1,2:3}}}'),
    (QueryCorrectionOffsetBody({0: 1}), '{"correctionOffsets":{0:1}}'),
    (KVTable({"a": "b"}), '{"table":{"a":"b"}}'),
    (DataVersion(5, 6), '{"counter":6,"timestamp":5}'),
    (DataVersion(5, 6, 0), '{"counter":6,"stateVersion":0,"timestamp":5}'),
    (
        TopicConfig("T", 1, 2),
        (
            '{"order":false,"perm":6,"readQueueNums":1,"topicFilterType":"SINGLE_TAG",'
            '"topicName":"T","topicSysFlag":0,"writeQueueNums":2}'
        ),
    ),
    (
        SubscriptionGroupConfig("g"),
        (
            '{"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,'
            '"consumeFromMinEnable":true,"groupName":"g","notifyConsumerIdsChangedEnable":true,'
            '"retryMaxTimes":16,"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1}'
        ),
    ),
    (
        RegisterBrokerBody(TopicConfigWrapper({}, DataVersion(1, 2))),
        (
            '{"filterServerList":[],"topicConfigSerializeWrapper":'
            '{"dataVersion":{"counter":2,"timestamp":1},"topicConfigTable":{}}}'
        ),
    ),
    (
        SubscriptionData.of_tags("T", "TagA||TagB", sub_version=9),
        (
            '{"classFilterMode":false,"codeSet":[2598919,2598920],"expressionType":"TAG",'
            '"subString":"TagA||TagB","subVersion":9,"tagsSet":["TagA","TagB"],"topic":"T"}'
        ),
    ),
    (
        ConsumerConnection(
            (ClientConnection("c", "h:1", "JAVA", 407),),
            {},
            ConsumeType.PASSIVELY,
            MessageModel.CLUSTERING,
            ConsumeFromWhere.LAST_OFFSET,
        ),
        (
            '{"connectionSet":[{"clientAddr":"h:1","clientId":"c","language":"JAVA","version":407}],'
            '"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":"CONSUME_PASSIVELY",'
            '"messageModel":"CLUSTERING","subscriptionTable":{}}'
        ),
    ),
    (
        ProducerTable({"g": (ProducerInfo("c", "10.0.0.1", "JAVA", 407, 5),)}),
        (
            '{"data":{"g":[{"clientId":"c","language":"JAVA","lastUpdateTimestamp":5,'
            '"remoteIP":"10.0.0.1","version":407}]}}'
        ),
    ),
    (
        ConsumeStatus(),
        (
            '{"consumeFailedMsgs":0,"consumeFailedTPS":0.0,"consumeOKTPS":0.0,"consumeRT":0.0,'
            '"pullRT":0.0,"pullTPS":0.0}'
        ),
    ),
    (
        ProcessQueueInfo(),
        (
            '{"cachedMsgCount":0,"cachedMsgMaxOffset":0,"cachedMsgMinOffset":0,'
            '"cachedMsgSizeInMiB":0,"commitOffset":0,"droped":false,"lastConsumeTimestamp":0,'
            '"lastLockTimestamp":0,"lastPullTimestamp":0,"locked":false,"transactionMsgCount":0,'
            '"transactionMsgMaxOffset":0,"transactionMsgMinOffset":0,"tryUnlockTimes":0}'
        ),
    ),
    (
        ConsumerRunningInfo({"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY"}, jstack="main"),
        (
            '{"jstack":"main","mqTable":{},"properties":{"PROP_CONSUME_TYPE":"CONSUME_PASSIVELY"},'
            '"statusTable":{},"subscriptionSet":[]}'
        ),
    ),
    (
        ConsumeMessageDirectlyResultBody(consume_result="CR_SUCCESS", spent_time_mills=3),
        '{"autoCommit":true,"consumeResult":"CR_SUCCESS","order":false,"spentTimeMills":3}',
    ),
    (
        QueryConsumeTimeSpanBody((QueueTimeSpan(QUEUE, 1, 2, 3, 4),)),
        (
            '{"consumeTimeSpanSet":[{"consumeTimeStamp":3,"delayTime":4,"maxTimeStamp":2,'
            '"messageQueue":{"brokerName":"b","queueId":3,"topic":"T"},"minTimeStamp":1}]}'
        ),
    ),
    (
        QueryConsumeQueueBody(queue_data=(ConsumeQueueData(1, 2, 3, eval=True),)),
        (
            '{"maxQueueIndex":0,"minQueueIndex":0,'
            '"queueData":[{"eval":true,"physicOffset":1,"physicSize":2,"tagsCode":3}]}'
        ),
    ),
    (
        BrokerStatsData(),
        (
            '{"statsDay":{"avgpt":0.0,"sum":0,"tps":0.0},"statsHour":{"avgpt":0.0,"sum":0,"tps":0.0},'
            '"statsMinute":{"avgpt":0.0,"sum":0,"tps":0.0}}'
        ),
    ),
    (CheckClientRequestBody("c", "g"), '{"clientId":"c","group":"g"}'),
]


@pytest.mark.parametrize(("body", "text"), GOLDEN, ids=lambda value: type(value).__name__)
def test_bodies_are_written_as_the_reference_writes_them(body: Body, text: str) -> None:
    assert body.encode().decode() == text
    assert type(body).decode(text) == body


def test_a_route_in_standard_json_has_its_numbers_in_quotes() -> None:
    route = RouteData((), (BrokerData("c", "b", {0: "h:1"}),))
    assert b'{"0":"h:1"}' in route.encode(standard=True)
    assert RouteData.decode(route.encode(standard=True)) == route


@pytest.mark.parametrize("spelling", ["topicSynFlag", "topicSysFlag"])
def test_either_spelling_of_the_topic_flag_is_read(spelling: str) -> None:
    text = f'{{"brokerName":"b","perm":6,"readQueueNums":4,"writeQueueNums":4,"{spelling}":3}}'
    queue = QueueData.decode(text)
    assert queue.topic_sys_flag == 3
    assert b'"topicSynFlag":3,"topicSysFlag":3' in queue.encode()


def test_references_between_subscriptions_are_followed_and_never_written() -> None:
    heartbeat = HeartbeatData.decode(
        '{"clientID":"c","consumerDataSet":['
        '{"groupName":"g1","subscriptionDataSet":[{"topic":"T","subString":"A","tagsSet":["A"]}]},'
        '{"groupName":"g2","subscriptionDataSet":'
        '[{"$ref":"$.consumerDataSet[0].subscriptionDataSet[0]"}]}]}'
    )
    first, second = heartbeat.consumer_data_set
    assert first.subscription_data_set == second.subscription_data_set
    assert second.subscription_data_set[0].tags_set == {"A"}
    assert b"$ref" not in heartbeat.encode()


def test_members_of_later_versions_survive_where_a_store_must_keep_them() -> None:
    topic = TopicConfig.decode('{"topicName":"T","attributes":{"+a":"b"},"later":[1]}')
    assert topic.attributes == {"+a": "b"}
    assert topic.extra == {"later": [1]}
    plain = fastjson.loads(TopicConfig("T").encode())
    assert isinstance(plain, dict)
    assert fastjson.loads(topic.encode()) == plain | {
        "attributes": {"+a": "b"},
        "later": [1],
    }


def test_a_table_keyed_by_texts_of_queues_is_read_too() -> None:
    text = r'{"offsetTable":{"{\"brokerName\":\"b\",\"queueId\":3,\"topic\":\"T\"}":5}}'
    assert ResetOffsetBody.decode(text) == ResetOffsetBody({QUEUE: 5})


def test_a_data_version_counts_on() -> None:
    assert DataVersion(1, 5, 0).next(9) == DataVersion(9, 6, 0)


def test_the_master_is_the_broker_with_id_0() -> None:
    assert BrokerData("c", "b", {1: "h:2", 0: "h:1"}).master_addr == "h:1"
    assert BrokerData("c", "b", {1: "h:2"}).master_addr is None
