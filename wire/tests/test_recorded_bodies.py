"""Bodies that real clients, brokers and tools sent are read, and written with the same content."""

import zlib
from typing import Any

from lanemq.wire import (
    RequestCode,
    decode_properties_text,
    encode_properties_text,
    fastjson,
)
from lanemq.wire.bodies import (
    Body,
    CheckClientRequestBody,
    ClusterInfo,
    ConsumerIdList,
    ConsumerOffsetTable,
    ConsumeStats,
    ConsumeStatsList,
    DataVersion,
    DelayOffsetTable,
    GroupList,
    HeartbeatData,
    KVTable,
    LockBatch,
    LockBatchResult,
    QueryAssignmentBody,
    QueryAssignmentResult,
    RegisterBrokerBody,
    ResetOffsetBody,
    RouteData,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicList,
    TopicStatsTable,
)

REQUESTS: dict[int, type[Body]] = {
    RequestCode.REGISTER_BROKER: RegisterBrokerBody,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: SubscriptionGroupConfig,
    RequestCode.HEART_BEAT: HeartbeatData,
    RequestCode.LOCK_BATCH_MQ: LockBatch,
    RequestCode.UNLOCK_BATCH_MQ: LockBatch,
    RequestCode.CHECK_CLIENT_CONFIG: CheckClientRequestBody,
    RequestCode.QUERY_ASSIGNMENT: QueryAssignmentBody,
}
ANSWERS: dict[int, type[Body]] = {
    RequestCode.REGISTER_BROKER: KVTable,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: RouteData,
    RequestCode.GET_BROKER_CLUSTER_INFO: ClusterInfo,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: SubscriptionGroupWrapper,
    RequestCode.GET_TOPIC_STATS_INFO: TopicStatsTable,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: TopicList,
    RequestCode.GET_CONSUME_STATS: ConsumeStats,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: ResetOffsetBody,
    RequestCode.GET_BROKER_RUNTIME_INFO: KVTable,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: GroupList,
    RequestCode.GET_BROKER_CONSUME_STATS: ConsumeStatsList,
    RequestCode.GET_TOPIC_CONFIG: TopicConfig,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: ConsumerIdList,
    RequestCode.QUERY_ASSIGNMENT: QueryAssignmentResult,
    RequestCode.LOCK_BATCH_MQ: LockBatchResult,
    RequestCode.GET_ALL_CONSUMER_OFFSET: ConsumerOffsetTable,
    RequestCode.GET_ALL_DELAY_OFFSET: DelayOffsetTable,
}
# Members that we write although the sender had left them out, with what stands for "absent".
DEFAULTS = {
    "expressionType": "TAG",
    "unitMode": False,
    "topicSynFlag": 0,
    "filterServerTable": {},
    "subVersion": 0,
}


def assert_keeps(before: object, after: object) -> None:
    """``after`` has all that ``before`` has, and beyond it only known defaults."""
    if isinstance(before, dict):
        assert isinstance(after, dict)
        for name, value in before.items():
            if value is not None:
                assert_keeps(value, after[name])
        for name in after.keys() - before.keys():
            assert after[name] == DEFAULTS[name]
    elif isinstance(before, list):
        assert isinstance(after, list)
        assert len(before) == len(after)
        if before and isinstance(before[0], str | int):
            before, after = sorted(before), sorted(after)  # sets have no order
        for one, other in zip(before, after, strict=True):
            assert_keeps(one, other)
    else:
        assert before == after


def test_every_body_is_read_and_written_with_the_same_content(recorded: list[Any]) -> None:
    seen: dict[type[Body], int] = {}
    for one in recorded:
        frame = one.frame
        if not frame.body or (frame.code and frame.is_response):
            continue
        cls = (ANSWERS if frame.is_response else REQUESTS).get(one.request_code)
        if cls is None:
            continue
        body = cls.decode(frame.body)
        seen[cls] = seen.get(cls, 0) + 1
        assert cls.decode(body.encode()) == body
        assert cls.decode(body.encode(standard=True)) == body
        assert_keeps(fastjson.loads(frame.body), fastjson.loads(body.encode()))
    assert seen.keys() == {*REQUESTS.values(), *ANSWERS.values()}
    assert seen[HeartbeatData] > 500


def test_our_unquoted_form_is_what_name_servers_send_to_old_clients(recorded: list[Any]) -> None:
    routes = [
        one.frame.body
        for one in recorded
        if one.frame.is_response
        and one.request_code in (105, 106)
        and b"{0:" in one.frame.body
        and one.capture in ("c326", "c420", "go", "js")
    ]
    assert routes
    for data in routes:
        ours = RouteData.decode(data).encode()
        assert ours.replace(b'"topicSynFlag":0,', b"") == data


def test_every_registration_survives_compression(recorded: list[Any]) -> None:
    for one in recorded:
        if one.frame.is_response or one.frame.code != RequestCode.REGISTER_BROKER:
            continue
        body = RegisterBrokerBody.decode(one.frame.body)
        again = RegisterBrokerBody.decode_compressed(body.encode_compressed())
        assert again.filter_server_list == body.filter_server_list
        wrapper, wrapper_again = body.topic_config_wrapper, again.topic_config_wrapper
        assert wrapper_again.data_version == wrapper.data_version
        assert wrapper_again.topic_config_table.keys() == wrapper.topic_config_table.keys()
        for name, topic in wrapper.topic_config_table.items():
            assert wrapper_again.topic_config_table[name].encode_text() == topic.encode_text()
        crc = int(one.frame.fields["bodyCrc32"])
        assert crc in (0, zlib.crc32(one.frame.body) & 0x7FFFFFFF)


def test_broker_configuration_is_read_and_written_with_the_same_lines(recorded: list[Any]) -> None:
    texts = [
        one.frame.body
        for one in recorded
        if (one.frame.is_response and one.request_code == RequestCode.GET_BROKER_CONFIG)
        or (not one.frame.is_response and one.frame.code == RequestCode.UPDATE_BROKER_CONFIG)
    ]
    assert len(texts) == 8
    for text in texts:
        properties = decode_properties_text(text)
        assert sorted(encode_properties_text(properties).split(b"\n")) == sorted(text.split(b"\n"))


def test_data_versions_in_answers_are_read(recorded: list[Any]) -> None:
    texts = [
        one.frame.fields["version"]
        for one in recorded
        if one.frame.is_response and one.request_code == RequestCode.GET_BROKER_CONFIG
    ]
    assert texts
    for text in texts:
        assert fastjson.loads(DataVersion.decode(text).encode()) == fastjson.loads(text)
