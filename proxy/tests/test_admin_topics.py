"""Topics as operators see them."""

from pathlib import Path

import pytest

from lanemq.testkit.proxy.brokers import Client, TestBroker, open_test_broker
from lanemq.wire import RequestCode
from lanemq.wire.bodies import (
    GroupList,
    MessageQueue,
    TopicConfig,
    TopicConfigWrapper,
    TopicList,
    TopicOffset,
    TopicStatsTable,
)
from lanemq.wire.frame import Frame
from lanemq.wire.headers import CreateTopic


async def create(client: Client, topic: str = "T", **changes: object) -> Frame:
    values: dict[str, object] = {
        "topic": topic,
        "default_topic": "TBW102",
        "read_queue_nums": 4,
        "write_queue_nums": 4,
        "perm": 6,
        "topic_filter_type": "SINGLE_TAG",
        "topic_sys_flag": 0,
        "order": False,
    }
    header = CreateTopic(**(values | changes))  # type: ignore[arg-type]
    return await client.call(RequestCode.UPDATE_AND_CREATE_TOPIC, header.to_fields())


async def config_of(client: Client, topic: str) -> TopicConfig:
    answer = await client.call(RequestCode.GET_TOPIC_CONFIG, {"topic": topic, "lo": "true"})
    assert answer.code == 0
    return TopicConfig.decode(answer.body)


async def test_a_created_topic_is_announced_and_keeps_its_order_flag(
    broker: TestBroker, client: Client
) -> None:
    assert (await create(client, order=True, read_queue_nums=2)).code == 0
    config = await config_of(client, "T")
    assert (config.read_queue_nums, config.write_queue_nums, config.order) == (2, 4, True)
    assert broker.announced[-1] == config


async def test_a_changed_topic_keeps_what_the_request_does_not_name(
    broker: TestBroker, client: Client
) -> None:
    broker.context.topics.put(TopicConfig("T", attributes={"message.type": "NORMAL"}))
    await create(client, perm=4)
    config = await config_of(client, "T")
    assert (config.perm, config.attributes) == (4, {"message.type": "NORMAL"})


@pytest.mark.parametrize("topic", ["", " ", "a.b", "x" * 128, "TBW102", "SCHEDULE_TOPIC_XXXX"])
async def test_neither_illegal_names_nor_system_topics_can_be_created_or_deleted(
    client: Client, topic: str
) -> None:
    created = await create(client, topic)
    deleted = await client.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
    assert (created.code, deleted.code) == (1, 1)
    assert created.remark


@pytest.mark.parametrize("filter_type", ["", "single_tag", "TAG", "x" * 70_000])
async def test_a_filter_type_that_apaches_brokers_do_not_know_is_refused(
    broker: TestBroker, filter_type: str
) -> None:
    """One that is kept is in every registration, and no broker of Apache reads the store."""
    answer = await create(broker.connect(), topic_filter_type=filter_type)
    assert answer.code == 1
    assert "SINGLE_TAG or MULTI_TAG" in (answer.remark or "")
    assert len(answer.remark or "") < 200
    assert broker.context.topics.get("T") is None


async def test_a_deleted_topic_is_gone_with_its_messages(
    broker: TestBroker, client: Client
) -> None:
    await create(client)
    await client.send()
    assert (await client.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})).code == 0
    assert (await client.call(RequestCode.GET_TOPIC_CONFIG, {"topic": "T"})).code == 17
    assert (await client.call(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "T"})).code == 17
    await create(client)
    assert await client.messages() == []
    assert broker.context.statistics.topic("T") is None


async def test_deleting_an_absent_topic_succeeds_as_mqadmin_expects(broker: TestBroker) -> None:
    answer = await broker.connect().call(
        RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "%RETRY%nobody"}
    )
    assert answer.code == 0


async def test_all_topics_come_with_their_data_version(client: Client) -> None:
    before = TopicConfigWrapper.decode((await client.call(RequestCode.GET_ALL_TOPIC_CONFIG)).body)
    await create(client)
    after = TopicConfigWrapper.decode((await client.call(RequestCode.GET_ALL_TOPIC_CONFIG)).body)
    assert set(after.topic_config_table) == {*before.topic_config_table, "T"}
    assert after.data_version.counter == before.data_version.counter + 1


async def test_system_topics_are_those_the_broker_made_for_itself(broker: TestBroker) -> None:
    answer = await broker.connect().call(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
    names = TopicList.decode(answer.body).topic_list
    assert {"TBW102", "broker-a", "DefaultCluster", "SELF_TEST_TOPIC"} <= set(names)


async def test_the_status_of_a_topic_has_every_queue(tmp_path: Path) -> None:
    async with open_test_broker(tmp_path, now_ms=lambda: 1_700_000_000_000) as broker:
        client = broker.connect()
        await create(client, write_queue_nums=2)
        await client.send(queue_id=1)
        await client.send(queue_id=1)
        answer = await client.call(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "T"})
        table = TopicStatsTable.decode(answer.body).offset_table
        assert table == {
            MessageQueue("T", "broker-a", 0): TopicOffset(0, 0, 0),
            MessageQueue("T", "broker-a", 1): TopicOffset(0, 2, 1_700_000_000_000),
        }


async def test_groups_of_a_topic_are_the_connected_and_those_with_offsets(
    broker: TestBroker, client: Client
) -> None:
    await create(client)
    await broker.connect().heartbeat(consumers={"live": {"T": "*"}, "elsewhere": {"U": "*"}})
    broker.context.store.tables.consumer_offsets.put("gone", "T", 0, 5)
    answer = await client.call(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "T"})
    assert GroupList.decode(answer.body).group_list == ("gone", "live")


@pytest.mark.parametrize("code", [306, 316, 329])
async def test_a_demand_to_clean_up_is_granted(broker: TestBroker, code: int) -> None:
    answer = await broker.connect().call(code)
    assert (answer.code, answer.body) == (0, b"")


@pytest.mark.parametrize("number", ["2049", "2147483647", "-1"])
async def test_a_topic_has_no_more_queues_than_requests_can_look_at(
    client: Client, number: str
) -> None:
    for name in ("readQueueNums", "writeQueueNums"):
        header = CreateTopic("T", "TBW102", 4, 4, 6, "SINGLE_TAG", order=False)
        answer = await client.call(
            RequestCode.UPDATE_AND_CREATE_TOPIC, header.to_fields() | {name: number}
        )
        assert answer.code == 1
        assert "0 to 2048 queues" in (answer.remark or "")
    group = b'{"groupName":"g","retryQueueNums":' + number.encode() + b"}"
    answer = await client.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group)
    assert answer.code == (0 if number == "-1" else 1)


async def test_what_another_broker_took_is_looked_at_as_far_as_that(
    broker: TestBroker, client: Client
) -> None:
    broker.context.store.tables.topics.put(TopicConfig("T", 2**31 - 1, 2**31 - 1))
    broker.context.store.tables.consumer_offsets.put("g", "T", 0, 0)
    for code, fields in (
        (RequestCode.GET_TOPIC_STATS_INFO, {"topic": "T"}),
        (RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g"}),
        (RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}),
        (RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "T", "group": "g"}),
    ):
        answer = await client.call(code, fields)
        assert answer.code == 0
        assert 0 < len(answer.body) < 1_000_000
