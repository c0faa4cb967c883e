"""Timers of 5.x brokers: the properties they read, and what cannot be asked for."""

import pytest
from trio.testing import MockClock

from lanemq.sdk import Message, MessageRejected, open_producer
from lanemq.testkit.sdk.clients import producer_of
from lanemq.testkit.sdk.cluster import FakeCluster
from lanemq.wire import Version


@pytest.mark.parametrize(
    ("message", "properties"),
    [
        (Message(topic="T", body=b"", delay_s=1.5), {"TIMER_DELAY_MS": "1500"}),
        (Message(topic="T", body=b"", delay_s=0), {"TIMER_DELAY_MS": "0"}),
        (
            Message(topic="T", body=b"", deliver_at_ms=1_700_000_000_123),
            {"TIMER_DELIVER_MS": "1700000000123"},
        ),
        (Message(topic="T", body=b"", delay_level=18), {"DELAY": "18"}),
    ],
)
async def test_a_delay_travels_as_a_property(
    cluster: FakeCluster,
    autojump_clock: MockClock,
    message: Message,
    properties: dict[str, str],
) -> None:
    assert message.is_delayed
    cluster.broker.version = Version.V5_0_0
    async with producer_of(cluster) as producer:
        await producer.send(message)
    (stored,) = cluster.broker.messages("T")
    assert {n: v for n, v in stored.properties.items() if n != "UNIQ_KEY"} == properties


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (Message(topic="T", body=b"", delay_s=-1), "delay_s"),
        (Message(topic="T", body=b"", delay_s=float("nan")), "delay_s"),
        (Message(topic="T", body=b"", delay_s=1e12), "delay_s"),
        (Message(topic="T", body=b"", deliver_at_ms=0), "deliver_at_ms"),
        (Message(topic="T", body=b"", delay_level=1, delay_s=1), "give one of"),
        (Message(topic="T", body=b"", delay_s=1, deliver_at_ms=1), "give one of"),
        (Message(topic="T", body=b"", delay_level=19), "delay_level"),
    ],
)
async def test_a_delay_that_makes_no_sense_is_refused(
    cluster: FakeCluster, autojump_clock: MockClock, message: Message, says: str
) -> None:
    async with producer_of(cluster) as producer:
        with pytest.raises(MessageRejected, match=says):
            await producer.send(message)


@pytest.mark.parametrize(
    "message",
    [Message(topic="T", body=b"", delay_s=60), Message(topic="T", body=b"", deliver_at_ms=1)],
)
async def test_a_broker_without_timers_is_not_sent_what_it_would_deliver_at_once(
    cluster: FakeCluster, autojump_clock: MockClock, message: Message
) -> None:
    cluster.create_topic("T")
    cluster.broker.version = Version.V4_9_8
    async with producer_of(cluster) as producer:
        with pytest.raises(MessageRejected, match=r"V4_9_8.*use delay_level"):
            await producer.send(message)
        with pytest.raises(MessageRejected, match="timers_at_any_broker=True"):
            await producer.send_oneway(message)
        await producer.send(Message(topic="T", body=b"level", delay_level=1))
    assert cluster.bodies("T") == [b"level"]
    async with open_producer(
        "pg", name_servers=cluster.name_servers, dial=cluster.dial, timers_at_any_broker=True
    ) as producer:
        await producer.send(message)
    assert cluster.bodies("T") == [b"", b"level"]


async def test_a_broker_of_lanemq_says_that_it_knows_timers(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T")
    cluster.broker.version = Version.V4_9_8
    cluster.broker.heartbeat_fields = {"timers": "true"}
    async with producer_of(cluster) as producer:
        await producer.send(Message(topic="T", body=b"later", delay_s=60))
    assert cluster.bodies("T") == [b"later"]
