"""Progress, time spans and counters as operators see them."""

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from lanemq.testkit.proxy.brokers import Client, TestBroker, open_test_broker
from lanemq.wire import RequestCode, tags_code
from lanemq.wire.bodies import (
    BrokerStatsData,
    ConsumeStats,
    ConsumeStatsList,
    MessageQueue,
    OffsetWrapper,
    QueryConsumeQueueBody,
    QueryConsumeTimeSpanBody,
    QueryCorrectionOffsetBody,
    TopicConfig,
    TopicStatsTable,
)

NOW_MS = 1_700_000_000_000
LONG_MAX = (1 << 63) - 1


def put_topic(broker: TestBroker, name: str = "T", *, queues: int = 1, order: bool = False) -> None:
    broker.context.topics.put(TopicConfig(name, queues, queues, order=order))


def put_offset(broker: TestBroker, group: str, topic: str, queue_id: int, offset: int) -> None:
    broker.context.store.tables.consumer_offsets.put(group, topic, queue_id, offset)


async def test_progress_covers_every_queue_of_every_topic_the_group_ever_read(
    tmp_path: Path,
) -> None:
    async with open_test_broker(tmp_path, now_ms=lambda: NOW_MS) as broker:
        client = broker.connect()
        put_topic(broker, queues=2)
        put_topic(broker, "never")
        for _ in range(3):
            await client.send(queue_id=1)
        put_offset(broker, "g", "T", 1, 2)
        put_offset(broker, "g", "deleted", 0, 9)
        answer = await client.call(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g"})
        assert ConsumeStats.decode(answer.body).offset_table == {
            MessageQueue("T", "broker-a", 0): OffsetWrapper(0, 0, 0, 0),
            MessageQueue("T", "broker-a", 1): OffsetWrapper(3, 2, NOW_MS, 2),
        }


async def test_progress_in_topics_a_connected_group_has_left_is_not_shown(
    broker: TestBroker, client: Client
) -> None:
    for topic in ("T", "U", "V"):
        put_topic(broker, topic)
        put_offset(broker, "g", topic, 0, 0)
    await broker.connect().heartbeat(consumers={"g": {"T": "*", "U": "*"}})

    async def shown(**fields: str) -> set[str]:
        answer = await client.call(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g", **fields})
        return {queue.topic for queue in ConsumeStats.decode(answer.body).offset_table}

    assert await shown() == {"T", "U"}
    assert await shown(topic="T") == {"T"}
    assert await shown(topicList="U;V;") == {"U"}


async def test_the_progress_of_all_groups_sums_what_is_left(
    broker: TestBroker, client: Client
) -> None:
    put_topic(broker)
    put_topic(broker, "ordered", order=True)
    for _ in range(5):
        await client.send()
    broker.context.groups.find("g")
    put_offset(broker, "g", "T", 0, 2)
    put_offset(broker, "g", "ordered", 0, 0)
    code = RequestCode.GET_BROKER_CONSUME_STATS
    stats = ConsumeStatsList.decode((await client.call(code, {"isOrder": "false"})).body)
    assert (stats.broker_addr, stats.total_diff) == ("127.0.0.1:10911", 3)
    [of_group] = [item["g"] for item in stats.consume_stats_list if "g" in item]
    assert len(of_group) == 2
    stats = ConsumeStatsList.decode((await client.call(code, {"isOrder": "true"})).body)
    [of_group] = [item["g"] for item in stats.consume_stats_list if "g" in item]
    assert [queue.topic for found in of_group for queue in found.offset_table] == ["ordered"]


async def test_time_spans_tell_how_late_a_group_is(tmp_path: Path) -> None:
    now_ms = NOW_MS

    def clock_ms() -> int:
        return now_ms

    async with open_test_broker(tmp_path, now_ms=clock_ms) as broker:
        client = broker.connect()
        put_topic(broker)
        for _ in range(3):
            await client.send()
            now_ms += 1000
        put_offset(broker, "g", "T", 0, 1)
        fields = {"topic": "T", "group": "g"}
        answer = await client.call(RequestCode.QUERY_CONSUME_TIME_SPAN, fields)
        [span] = QueryConsumeTimeSpanBody.decode(answer.body).consume_time_span_set
        assert span.message_queue == MessageQueue("T", "broker-a", 0)
        assert (span.min_time_stamp, span.max_time_stamp) == (NOW_MS, NOW_MS + 2000)
        assert (span.consume_time_stamp, span.delay_time) == (NOW_MS, 2000)
        fields["topic"] = "absent"
        assert (await client.call(RequestCode.QUERY_CONSUME_TIME_SPAN, fields)).code == 17


async def test_corrections_are_the_lowest_offsets_of_other_groups(
    broker: TestBroker, client: Client
) -> None:
    for group, offset in (("a", 5), ("b", 3), ("left-out", 1)):
        put_offset(broker, group, "T", 0, offset)
    put_offset(broker, "compared", "T", 1, 0)
    put_offset(broker, "a", "T", 1, 4)
    answer = await client.call(
        RequestCode.QUERY_CORRECTION_OFFSET,
        {"topic": "T", "compareGroup": "compared", "filterGroups": "left-out,compared"},
    )
    body = QueryCorrectionOffsetBody.decode(answer.body)
    assert body.correction_offsets == {0: 3, 1: LONG_MAX}


async def test_messages_that_a_group_has_pulled_and_not_committed_are_in_flight(
    broker: TestBroker, client: Client
) -> None:
    put_topic(broker)
    for _ in range(5):
        await client.send()
    put_offset(broker, "g", "T", 0, 1)

    async def progress() -> OffsetWrapper:
        fields = {"consumerGroup": "g", "topic": "T"}
        answer = await client.call(RequestCode.GET_CONSUME_STATS, fields)
        (found,) = (
            one
            for queue, one in ConsumeStats.decode(answer.body).offset_table.items()
            if queue.queue_id == 0
        )
        return found

    assert (await progress()).pull_offset == 1  # nothing was pulled since the start
    await client.pull(offset=1, consumer_group="g", max_msg_nums=2)
    await client.pull(offset=3, consumer_group="g", max_msg_nums=1)
    found = await progress()
    assert (found.broker_offset, found.consumer_offset, found.pull_offset) == (5, 1, 3)
    put_offset(broker, "g", "T", 0, 4)
    assert (await progress()).pull_offset == 4  # never behind what was committed
    await client.call(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "g"})
    assert broker.context.statistics.pull_offset("T", "g", 0) == -1


async def test_entries_of_a_queue_are_shown_with_the_subscription(
    broker: TestBroker, client: Client
) -> None:
    put_topic(broker)
    for tag in ("A", "B", "C"):
        await client.send(properties={"TAGS": tag})
    await broker.connect().heartbeat(consumers={"g": {"T": "A"}})
    fields = {"topic": "T", "queueId": "0", "index": "1", "count": "9", "consumerGroup": "g"}
    answer = await client.call(RequestCode.QUERY_CONSUME_QUEUE, fields)
    body = QueryConsumeQueueBody.decode(answer.body)
    assert (body.min_queue_index, body.max_queue_index) == (0, 3)
    assert [unit.tags_code for unit in body.queue_data] == [tags_code("B"), tags_code("C")]
    assert body.subscription_data is not None
    assert body.subscription_data.sub_string == "A"
    assert body.filter_data == "null"  # Apache's text for "no filter by properties"
    fields["consumerGroup"] = "nobody"
    answer = await client.call(RequestCode.QUERY_CONSUME_QUEUE, fields)
    assert QueryConsumeQueueBody.decode(answer.body).filter_data == "nobody@T is not online!"
    fields["queueId"] = "7"
    answer = await client.call(RequestCode.QUERY_CONSUME_QUEUE, fields)
    assert (answer.code, answer.remark) == (1, "7@T is not exist!")


async def test_sends_and_pulls_are_counted_by_topic_and_group(
    broker: TestBroker, client: Client
) -> None:
    put_topic(broker)
    for _ in range(4):
        await client.send()
    await client.pull(offset=0, consumer_group="g")

    async def counted(name: str, key: str) -> int:
        fields = {"statsName": name, "statsKey": key}
        answer = await client.call(RequestCode.VIEW_BROKER_STATS_DATA, fields)
        return BrokerStatsData.decode(answer.body).stats_minute.sum if not answer.code else -1

    assert await counted("TOPIC_PUT_NUMS", "T") == 4
    assert await counted("TOPIC_PUT_SIZE", "T") > 4 * 91
    assert await counted("GROUP_GET_NUMS", "T@g") == 4
    assert await counted("GROUP_GET_SIZE", "T@g") == await counted("TOPIC_PUT_SIZE", "T")
    assert await counted("BROKER_PUT_NUMS", "DefaultCluster") == 4
    assert await counted("BROKER_GET_NUMS", "DefaultCluster") == 4
    assert await counted("TOPIC_PUT_NUMS", "absent") == -1
    assert await counted("NONSENSE", "T") == -1


async def test_the_rate_of_a_group_is_that_of_its_last_minute(
    broker: TestBroker, client: Client, autojump_clock: MockClock
) -> None:
    put_topic(broker)
    put_offset(broker, "g", "T", 0, 0)
    for _ in range(6):
        await client.send()
    await client.pull(offset=0, consumer_group="g")
    autojump_clock.jump(60)
    answer = await client.call(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g"})
    assert ConsumeStats.decode(answer.body).consume_tps == pytest.approx(0.1, abs=0.01)
    answer = await client.call(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "T"})
    assert TopicStatsTable.decode(answer.body).topic_put_tps == pytest.approx(0.1, abs=0.01)
    await trio.sleep(90)  # the broker samples on
    answer = await client.call(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g"})
    assert ConsumeStats.decode(answer.body).consume_tps == 0
