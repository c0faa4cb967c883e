"""The sink without Spark: attempts, order, and what a row becomes."""

from dataclasses import dataclass, field
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import (
    BrokerUnreachable,
    LanemqError,
    Message,
    MessageQueue,
    MessageRejected,
    QueueSelector,
)
from lanemq.testkit.spark import require_packages
from lanemq.wire import LocalProtocolError

require_packages()

from pyspark.sql.types import IntegerType, StringType, StructType  # noqa: E402

from lanemq.spark import OptionInvalid  # noqa: E402
from lanemq.spark._options import Options  # noqa: E402
from lanemq.spark.topics._plan import OPTIONS  # noqa: E402
from lanemq.spark.topics._sink import SINK_OPTIONS, SinkPlan, _Row, _Senders  # noqa: E402

pytestmark = pytest.mark.slow
QUEUES = [MessageQueue(topic="T", broker_name="a", queue_id=number) for number in range(4)]


@dataclass
class Broker:
    """A producer whose broker is away until a time, in seconds."""

    back_at: float = 0
    error: LanemqError = field(default_factory=lambda: BrokerUnreachable("b:1", "refused"))
    stored: list[tuple[bytes, MessageQueue | None]] = field(default_factory=list)

    async def send(
        self, message: Message, *, queue: QueueSelector | None, queue_key: str | None
    ) -> None:
        await trio.sleep(0.01)
        if trio.current_time() < self.back_at:
            raise self.error
        self.stored.append((message.body, queue(QUEUES, message) if queue else None))


async def send(broker: Broker, rows: list[_Row], delivery_s: float) -> list[Any]:
    failed: list[LanemqError | LocalProtocolError] = []
    senders = _Senders(broker, delivery_s, failed)  # type: ignore[arg-type] # a producer's one method
    async with trio.open_nursery() as nursery:
        await senders.open(nursery)
        for number, row in enumerate(rows):
            await senders.put(row, number)
        await senders.close()
    return failed


def rows(count: int, queue: int | None = None) -> list[_Row]:
    return [_Row(Message(topic="T", body=b"%d" % number), None, queue) for number in range(count)]


async def test_rows_wait_for_a_broker_that_comes_back(autojump_clock: MockClock) -> None:
    broker = Broker(back_at=trio.current_time() + 60)
    assert await send(broker, rows(200), delivery_s=120) == []
    assert sorted(int(body) for body, _ in broker.stored) == list(range(200))


async def test_a_broker_that_stays_away_ends_the_task(autojump_clock: MockClock) -> None:
    start = trio.current_time()
    (first, *_) = await send(Broker(back_at=float("inf")), rows(200), delivery_s=120)
    assert isinstance(first, BrokerUnreachable)
    assert 118 <= trio.current_time() - start <= 125


async def test_a_message_that_cannot_be_sent_is_tried_once(autojump_clock: MockClock) -> None:
    broker = Broker(back_at=float("inf"), error=MessageRejected("too large"))
    start = trio.current_time()
    assert await send(broker, rows(1), delivery_s=120) == [MessageRejected("too large")]
    assert trio.current_time() - start < 1


async def test_rows_of_a_queue_go_there_in_order(autojump_clock: MockClock) -> None:
    broker = Broker(back_at=trio.current_time() + 3)
    assert await send(broker, rows(100, queue=2), delivery_s=10) == []
    assert broker.stored == [(b"%d" % number, QUEUES[2]) for number in range(100)]


@pytest.mark.parametrize("number", [-1, 4])
async def test_a_queue_that_is_not_there_is_named(autojump_clock: MockClock, number: int) -> None:
    (error,) = await send(Broker(), rows(1, queue=number), delivery_s=10)
    assert f"queue {number}, and topic T has 4 queues" in str(error)


def plan(schema: StructType, **options: str) -> SinkPlan:
    given = {"nameserver": "h:1", **options}
    return SinkPlan.of(Options("rocketmq", SINK_OPTIONS, given, others=OPTIONS), schema)


def test_properties_of_a_row_that_was_read_are_those_of_its_sender() -> None:
    sink = plan(StructType().add("body", StringType()), topic="T")
    own = {"colour": "red"}
    read = {**own, "UNIQ_KEY": "k", "MSG_REGION": "r", "TIMER_DELAY_MS": "5", "WAIT": "true"}
    message, key, queue = sink._message({"body": "x", "properties": read}, None, 0)
    assert (message.properties, key, queue) == (own, None, None)
    timer = {**own, "TIMER_DELAY_MS": "5"}
    message, _, _ = sink._message({"body": "x", "properties": timer}, None, 0)
    assert message.properties == timer


def test_columns_that_are_not_sent_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    schema = StructType().add("body", StringType()).add("storeSize", IntegerType())
    plan(schema, topic="T")
    assert not caplog.messages  # a column of the source
    plan(schema.add("extra", IntegerType()), topic="T")
    (told,) = caplog.messages
    assert "not sent: extra; those that are sent are topic, body" in told


def test_a_table_that_is_read_and_written_names_its_topic_once() -> None:
    schema = StructType().add("body", StringType())
    assert plan(schema, subscribe="T", startingOffsets="earliest").default_topic == "T"
    with pytest.raises(OptionInvalid, match="give the option topic, or a column topic"):
        plan(schema, subscribe="T,U")


def test_the_option_topic_is_for_all_rows_and_a_table_s_own_for_those_without() -> None:
    schema = StructType().add("body", StringType()).add("topic", StringType())
    row, bare = {"body": "x", "topic": "Read"}, {"body": "x", "topic": None}
    for options, topics in (
        ({"topic": "Copy"}, ["Copy", "Copy"]),
        ({"subscribe": "Own"}, ["Read", "Own"]),
        ({"topic": "Copy", "subscribe": "Own"}, ["Copy", "Copy"]),
    ):
        sink = plan(schema, **options)
        assert [sink._message(one, None, 0).message.topic for one in (row, bare)] == topics
