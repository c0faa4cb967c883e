"""Public reports about Apache's brokers are tried at lanemq's.

Each test names the report that it tries; docs/interop.md lists them.
"""

import re
from pathlib import Path

import pytest

from lanemq.testkit.clocks import StandingClock
from lanemq.testkit.proxy.brokers import Client, TestBroker, open_test_broker
from lanemq.wire import RequestCode, ResponseCode, SystemTopic
from lanemq.wire.headers import QueryMessage

HALF = {"TRAN_MSG": "true", "PGROUP": "pg", "UNIQ_KEY": "U1"}


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


async def step(broker: TestBroker, clock: StandingClock, ms: int) -> None:
    clock.ms += ms
    await broker.broker.clock_moved()


async def bodies(client: Client, topic: str = "T") -> list[bytes]:
    return [message.body for message in await client.all_messages(topic)]


@pytest.mark.parametrize(("topic", "key"), [("AaTopic", "BB"), ("BBTopic", "Aa")])
async def test_a_key_with_the_hash_of_another_finds_nothing(
    client: Client, topic: str, key: str
) -> None:
    """apache/rocketmq 3613: a message with another key, or of another topic, was found."""
    await client.send("AaTopic", b"1", {"KEYS": "Aa"})
    await client.send("BBTopic", b"2", {"KEYS": "BB"})
    query = QueryMessage(topic=topic, key=key, max_num=32, begin_timestamp=0, end_timestamp=1 << 62)
    answer = await client.call(RequestCode.QUERY_MESSAGE, query.to_fields())
    assert answer.code == ResponseCode.QUERY_NOT_FOUND


async def test_a_restart_delivers_nothing_delayed_twice_and_nothing_never(
    tmp_path: Path, clock: StandingClock
) -> None:
    """apache/rocketmq 3473: what had been delivered before a restart was delivered again."""
    sent = [b"%d" % number for number in range(30)]
    for number in range(0, 30, 10):
        async with open_test_broker(tmp_path, now_ms=lambda: clock.ms) as broker:
            client = broker.connect()
            for body in sent[number : number + 10]:
                await client.send("T", body, {"DELAY": "1"})
            await step(broker, clock, 1000)  # due, and the broker stops at once
    async with open_test_broker(tmp_path, now_ms=lambda: clock.ms) as broker:
        await step(broker, clock, 5000)
        assert await bodies(broker.connect()) == sent


async def test_progress_of_delays_behind_the_end_of_their_queue_is_put_right(
    tmp_path: Path, clock: StandingClock
) -> None:
    """apache/rocketmq 7077: the wrong offset came back from the file again and again."""
    async with open_test_broker(tmp_path, now_ms=lambda: clock.ms) as broker:
        await broker.connect().send("T", b"before", {"DELAY": "1"})
        await step(broker, clock, 1000)
    path = tmp_path / "config" / "delayOffset.json"
    path.write_text(re.sub(r"\b1:1\b", "1:77", path.read_text()))
    assert "1:77" in path.read_text()
    for number in range(2):
        async with open_test_broker(tmp_path, now_ms=lambda: clock.ms) as broker:
            client = broker.connect()
            await client.send("T", b"%d" % number, {"DELAY": "1"})
            await step(broker, clock, 1000)
            assert (await bodies(client))[-1] == b"%d" % number
    assert "1:3" in path.read_text()


async def test_reads_of_a_deleted_topic_do_not_bring_it_back(
    tmp_path: Path, broker: TestBroker, client: Client
) -> None:
    """apache/rocketmq 8660 and 9792: a pull that waited, or a look at its offsets, did."""
    await client.send("T", b"1")
    waiting = broker.connect()
    fields = {"topic": "T", "queueId": "0"}
    deleted = await client.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})
    assert deleted.code == 0
    for code, more in (
        (RequestCode.GET_MAX_OFFSET, {}),
        (RequestCode.GET_MIN_OFFSET, {}),
        (RequestCode.GET_EARLIEST_MSG_STORETIME, {}),
        (RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {"timestamp": "0"}),
    ):
        await waiting.call(code, fields | more)
    assert (await waiting.pull("T")).code == ResponseCode.TOPIC_NOT_EXIST
    topics = await client.call(RequestCode.GET_ALL_TOPIC_CONFIG)
    assert b'"T"' not in topics.body
    assert "T" not in {topic for topic, _ in broker.context.store.queues()}


async def test_an_offset_behind_the_end_goes_to_the_end_and_not_to_the_beginning(
    client: Client,
) -> None:
    """apache/rocketmq 4215: where the first offset was 0, consumption began there again."""
    for number in range(3):
        await client.send("T", b"%d" % number)
    answer = await client.pull("T", offset=100)
    assert answer.code == ResponseCode.PULL_OFFSET_MOVED
    assert answer.fields["nextBeginOffset"] == "3"


async def test_time_that_a_producer_asks_for_is_not_counted_as_checks(
    tmp_path: Path, clock: StandingClock
) -> None:
    """apache/rocketmq 8311: with ten minutes of immunity a transaction was put aside after fifteen
    looks, though nobody had been asked about it."""
    async with open_test_broker(
        tmp_path, now_ms=lambda: clock.ms, transaction_check_max=3
    ) as broker:
        client = broker.connect()
        await client.heartbeat("producer", producers=("pg",))
        properties = HALF | {"CHECK_IMMUNITY_TIME_IN_SECONDS": "600"}
        assert (await client.send("T", b"1", properties, sys_flag=4)).code == 0
        for _ in range(19):
            await step(broker, clock, 30_000)
        await client.call(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"})
        assert client.pushed == []
        assert await bodies(client, SystemTopic.TRANSACTION_CHECK_MAX_TIME) == []
        await step(broker, clock, 60_000)
        await client.call(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"})
        (asked,) = client.pushed
        assert asked.code == RequestCode.CHECK_TRANSACTION_STATE
