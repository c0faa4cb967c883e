"""Groups as operators see them: settings, members, tables of offsets."""

import json
from pathlib import Path

from lanemq.proxy.broker._testing import open_test_broker
from lanemq.wire import (
    ConsumerConnection,
    ConsumerOffsetTable,
    DelayOffsetTable,
    ProducerConnection,
    ProducerTable,
    RequestCode,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicList,
)


async def test_a_group_can_be_made_looked_at_and_deleted(tmp_path: Path) -> None:
    async with open_test_broker(tmp_path) as broker:
        client = broker.connect()
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


async def test_a_group_with_an_illegal_name_is_refused(tmp_path: Path) -> None:
    async with open_test_broker(tmp_path) as broker:
        body = SubscriptionGroupConfig("a b").encode()
        answer = await broker.connect().call(
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body
        )
        assert answer.code == 1
        assert answer.remark


async def test_deleting_a_group_takes_its_offsets_only_on_demand(tmp_path: Path) -> None:
    async with open_test_broker(tmp_path) as broker:
        client, offsets = broker.connect(), broker.context.store.tables.consumer_offsets
        offsets.put("g", "T", 0, 5)
        code = RequestCode.DELETE_SUBSCRIPTIONGROUP
        await client.call(code, {"groupName": "g", "removeOffset": "false"})
        assert offsets.get("g", "T", 0) == 5
        await client.call(code, {"groupName": "g", "cleanOffset": "true"})  # the name of 5.x
        assert offsets.get("g", "T", 0) is None


async def test_members_of_a_group_are_listed_with_address_language_and_version(
    tmp_path: Path,
) -> None:
    async with open_test_broker(tmp_path) as broker:
        client = broker.connect()
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


async def test_a_group_without_members_has_the_codes_mqadmin_waits_for(tmp_path: Path) -> None:
    async with open_test_broker(tmp_path) as broker:
        client = broker.connect()
        consumers = await client.call(
            RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "g"}
        )
        assert (consumers.code, consumers.remark) == (206, "the consumer group[g] not online")
        producers = await client.call(
            RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "p"}
        )
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


async def test_topics_and_subscriptions_of_a_group(tmp_path: Path) -> None:
    async with open_test_broker(tmp_path) as broker:
        client = broker.connect()
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


async def test_offsets_are_cloned_in_one_topic_or_in_all(tmp_path: Path) -> None:
    async with open_test_broker(tmp_path) as broker:
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


async def test_cloning_online_passes_over_what_the_group_has_left(tmp_path: Path) -> None:
    async with open_test_broker(tmp_path) as broker:
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


async def test_the_tables_of_offsets_are_handed_out_whole(tmp_path: Path) -> None:
    async with open_test_broker(tmp_path) as broker:
        client, tables = broker.connect(), broker.context.store.tables
        tables.consumer_offsets.put("g", "T", 3, 9)
        tables.delay_offsets.put(2, 4)
        answer = await client.call(RequestCode.GET_ALL_CONSUMER_OFFSET)
        assert answer.body == b'{"offsetTable":{"T@g":{3:9}}}'
        assert ConsumerOffsetTable.decode(answer.body).offset_table == {"T@g": {3: 9}}
        answer = await client.call(RequestCode.GET_ALL_DELAY_OFFSET)
        assert DelayOffsetTable.decode(answer.body).offset_table[2] == 4
