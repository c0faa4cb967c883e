"""Groups as operators see them: settings, members, tables of offsets."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from lanemq.proxy.broker.state import _groups
from lanemq.testkit.proxy.brokers import Client, TestBroker, open_test_broker
from lanemq.wire import SYSTEM_GROUPS, RequestCode
from lanemq.wire.bodies import (
    ConsumerConnection,
    ConsumerOffsetTable,
    DelayOffsetTable,
    ProducerConnection,
    ProducerTable,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicList,
)
from lanemq.wire.frame import Frame


@pytest.mark.parametrize("name", [*sorted(SYSTEM_GROUPS), "CID_RMQ_SYS_ANY"])
async def test_groups_of_the_brokers_own_are_not_deleted(
    client: Client, broker: TestBroker, name: str
) -> None:
    """Without the offsets of CID_RMQ_SYS_TRANS every transaction would be checked again."""
    offsets = broker.context.store.tables.consumer_offsets
    offsets.put(name, "RMQ_SYS_TRANS_HALF_TOPIC", 0, 7)
    fields = {"groupName": name, "removeOffset": "true", "cleanOffset": "true"}
    answer = await client.call(RequestCode.DELETE_SUBSCRIPTIONGROUP, fields)
    assert answer.code == 1
    assert name in (answer.remark or "")
    assert offsets.get(name, "RMQ_SYS_TRANS_HALF_TOPIC", 0) == 7


async def test_a_group_can_be_made_looked_at_and_deleted(client: Client) -> None:
    config = SubscriptionGroupConfig("g", retry_max_times=5, extra={"consumeTimeoutMinute": 9})
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    assert (await client.call(code, body=config.encode())).code == 0
    one = await client.call(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "g"})
    assert SubscriptionGroupConfig.decode(one.body) == config
    table = await client.call(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    wrapper = SubscriptionGroupWrapper.decode(table.body)
    assert wrapper.subscription_group_table["g"] == config
    assert "TOOLS_CONSUMER" in wrapper.subscription_group_table
    await client.call(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "g"})
    one = await client.call(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "g"})
    assert one.code == 26


async def test_a_group_with_an_illegal_name_is_refused(broker: TestBroker) -> None:
    body = SubscriptionGroupConfig("a b").encode()
    answer = await broker.connect().call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
    assert answer.code == 1
    assert answer.remark


@pytest.mark.parametrize(
    "member",
    [
        b'"ring":{"$ref":"$"}',
        b'"a":[[[]]],"ring":{"$ref":"$.a[0]"},"deep":' + b"[" * 200 + b"]" * 200,
        b'"retryQueueNums":2147483648',
        b'"retryMaxTimes":-2147483649',
        b'"brokerId":1e30',
    ],
)
async def test_what_could_not_be_kept_is_refused_and_the_broker_goes_on(
    tmp_path: Path, member: bytes
) -> None:
    async with open_test_broker(tmp_path) as broker:
        client = broker.connect()
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        answer = await client.call(code, body=b'{"groupName":"g",' + member + b"}")
        assert answer.code == 1
        assert broker.context.groups.get("g") is None
        broker.context.store.tables.groups.put(SubscriptionGroupConfig("h"))
    async with open_test_broker(tmp_path) as broker:
        assert broker.context.groups.get("h") is not None


async def put_group(client: Client, name: str, extra: Mapping[str, object]) -> Frame:
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    return await client.call(code, body=SubscriptionGroupConfig(name, extra=extra).encode())


@pytest.mark.parametrize(
    "extra",
    [
        {"note": "x" * 33_000},
        {"note": [0] * 5000},
        {"note": [[]] * 5000},
        {"note": {str(number): [] for number in range(2500)}},
    ],
)
async def test_settings_longer_than_any_group_needs_are_not_kept(
    broker: TestBroker, client: Client, extra: Mapping[str, object]
) -> None:
    """All groups' settings are written together, at each change of one."""
    assert (await put_group(client, "g", {"note": "kept"})).code == 0
    answer = await put_group(client, "g", extra)
    assert answer.code == 1
    assert "at most 32768" in (answer.remark or "")
    kept = broker.context.groups.get("g")
    assert kept is not None
    assert kept.extra == {"note": "kept"}
    short = b'{"groupName":"h","a":[' + b"[]," * 500 + b"[]]"
    shared = short + b',"b":[' + b'{"$ref":"$.a"},' * 60 + b"0]}"
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    assert (await client.call(code, body=shared)).code == 1, "it is long once it is written out"
    assert broker.context.groups.get("h") is None


async def test_large_settings_of_all_groups_have_a_bound_over_restarts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_groups, "LARGE_SETTINGS_BYTES_MAX", 50_000)
    async with open_test_broker(tmp_path) as broker:
        client = broker.connect()
        for name in ("a", "b", "a"):
            assert (await put_group(client, name, {"note": "x" * 20_000})).code == 0
    async with open_test_broker(tmp_path) as broker:
        client = broker.connect()
        answer = await put_group(client, "c", {"note": "x" * 20_000})
        assert (answer.code, broker.context.groups.get("c")) == (1, None)
        assert "delete groups" in (answer.remark or "")
        for number in range(100):
            assert (await put_group(client, f"usual-{number}", {"note": "x" * 500})).code == 0
        await client.call(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "a"})
        assert (await put_group(client, "b", {"note": "short"})).code == 0
        for name in ("c", "d"):
            assert (await put_group(client, name, {"note": "x" * 20_000})).code == 0


async def test_deleting_a_group_takes_its_offsets_only_on_demand(broker: TestBroker) -> None:
    client, offsets = broker.connect(), broker.context.store.tables.consumer_offsets
    offsets.put("g", "T", 0, 5)
    code = RequestCode.DELETE_SUBSCRIPTIONGROUP
    await client.call(code, {"groupName": "g", "removeOffset": "false"})
    assert offsets.get("g", "T", 0) == 5
    await client.call(code, {"groupName": "g", "cleanOffset": "true"})  # the name of 5.x
    assert offsets.get("g", "T", 0) is None


async def test_members_of_a_group_are_listed_with_address_language_and_version(
    broker: TestBroker,
    client: Client,
) -> None:
    consumer = broker.connect(version=401, language="CPP")
    await consumer.heartbeat("me@1", consumers={"g": {"T": "A || B"}}, producers=("p",))
    answer = await client.call(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "g"})
    group = ConsumerConnection.decode(answer.body)
    [member] = group.connection_set
    assert (member.client_id, member.language, member.version) == ("me@1", "CPP", 401)
    assert member.client_addr == "127.0.0.1:40002"
    assert group.subscription_table["T"].tags_set == {"A", "B"}
    answer = await client.call(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "p"})
    assert ProducerConnection.decode(answer.body).connection_set == (member,)


async def test_a_group_without_members_has_the_codes_mqadmin_waits_for(client: Client) -> None:
    consumers = await client.call(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "g"})
    assert (consumers.code, consumers.remark) == (206, "the consumer group[g] not online")
    producers = await client.call(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "p"})
    assert (producers.code, producers.remark) == (1, "the producer group[p] not exist")


async def test_all_producers_are_listed_by_group(tmp_path: Path) -> None:
    now_ms = 1_700_000_000_000
    async with open_test_broker(tmp_path, now_ms=lambda: now_ms) as broker:
        client = broker.connect()
        await broker.connect().heartbeat("me", producers=("p", "q"))
        answer = await client.call(RequestCode.GET_ALL_PRODUCER_INFO)
        table = ProducerTable.decode(answer.body).data
        assert set(table) == {"p", "q"}
        [producer] = table["p"]
        assert producer.client_id == "me"
        assert now_ms - 5000 <= producer.last_update_timestamp <= now_ms


async def test_topics_and_subscriptions_of_a_group(broker: TestBroker, client: Client) -> None:
    broker.context.store.tables.consumer_offsets.put("g", "old", 0, 1)
    await broker.connect().heartbeat(consumers={"g": {"new": "*"}})
    answer = await client.call(RequestCode.QUERY_TOPICS_BY_CONSUMER, {"group": "g"})
    assert TopicList.decode(answer.body).topic_list == ("new", "old")
    answer = await client.call(
        RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, {"group": "g", "topic": "new"}
    )
    assert json.loads(answer.body)["subscriptionData"]["subString"] == "*"
    answer = await client.call(
        RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, {"group": "g", "topic": "old"}
    )
    assert json.loads(answer.body) == {"group": "g", "topic": "old"}


async def test_offsets_are_cloned_in_one_topic_or_in_all(broker: TestBroker) -> None:
    client, offsets = broker.connect(), broker.context.store.tables.consumer_offsets
    for topic in ("T", "U", "deleted"):
        offsets.put("from", topic, 1, 7)
    for topic in ("T", "U"):
        broker.context.topics.put(TopicConfig(topic))
    code = RequestCode.CLONE_GROUP_OFFSET
    fields = {"srcGroup": "from", "destGroup": "one", "topic": "T", "offline": "true"}
    assert (await client.call(code, fields)).code == 0
    assert offsets.topics_of("one") == ("T",)
    assert offsets.get("one", "T", 1) == 7
    await client.call(code, {"srcGroup": "from", "destGroup": "all", "offline": "true"})
    assert set(offsets.topics_of("all")) == {"T", "U"}


async def test_cloning_online_passes_over_what_the_group_has_left(broker: TestBroker) -> None:
    client, offsets = broker.connect(), broker.context.store.tables.consumer_offsets
    for topic in ("T", "U"):
        broker.context.topics.put(TopicConfig(topic))
        offsets.put("from", topic, 0, 7)
    await broker.connect().heartbeat(consumers={"from": {"T": "*"}})
    await client.call(
        RequestCode.CLONE_GROUP_OFFSET,
        {"srcGroup": "from", "destGroup": "to", "offline": "false"},
    )
    assert offsets.topics_of("to") == ("T",)


async def test_the_tables_of_offsets_are_handed_out_whole(broker: TestBroker) -> None:
    client, tables = broker.connect(), broker.context.store.tables
    tables.consumer_offsets.put("g", "T", 3, 9)
    tables.delay_offsets.put(2, 4)
    answer = await client.call(RequestCode.GET_ALL_CONSUMER_OFFSET)
    assert answer.body == b'{"offsetTable":{"T@g":{3:9}}}'
    assert ConsumerOffsetTable.decode(answer.body).offset_table == {"T@g": {3: 9}}
    answer = await client.call(RequestCode.GET_ALL_DELAY_OFFSET)
    assert DelayOffsetTable.decode(answer.body).offset_table[2] == 4
