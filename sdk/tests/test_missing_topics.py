"""Consumers of topics that are not there yet, or shown a moment after they were made."""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import (
    ConsumeFrom,
    PushConsumer,
    ReceivedMessage,
)
from lanemq.testkit.sdk.clients import lite_pull_consumer_of, push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster, Peer
from lanemq.wire import RequestCode
from lanemq.wire.frame import Frame

NOT_THERE = "topic T does not exist"


class Arrivals:
    """A listener that remembers when it got the first message."""

    def __init__(self) -> None:
        self.first_s = -1.0
        self.there = trio.Event()

    async def handle(self, messages: Sequence[ReceivedMessage]) -> None:
        if not self.there.is_set():
            self.first_s = trio.current_time()
            self.there.set()


@asynccontextmanager
async def pushing(
    cluster: FakeCluster, listener: Arrivals, topic: str = "T"
) -> AsyncIterator[PushConsumer]:
    async with push_consumer_of(
        cluster, listener.handle, subscriptions={topic: "*"}, consume_from=ConsumeFrom.FIRST_OFFSET
    ) as consumer:
        yield consumer


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_topic_that_is_subscribed_to_late_is_found_soon(
    autojump_clock: MockClock, cluster: FakeCluster
) -> None:
    """The client is older than its early looks by then."""
    cluster.create_topic("Other")
    listener = Arrivals()
    async with pushing(cluster, listener, "Other") as consumer:
        await trio.sleep(50)
        await consumer.subscribe("T", "*")
        await trio.sleep(0.5)
        shown_s = trio.current_time()
        cluster.broker.put("T", 0, b"x")
        await listener.there.wait()
    assert listener.first_s - shown_s < 2


async def test_a_lite_pull_consumer_finds_a_late_topic_soon(
    autojump_clock: MockClock, cluster: FakeCluster
) -> None:
    async with lite_pull_consumer_of(cluster, consume_from=ConsumeFrom.FIRST_OFFSET) as consumer:
        await trio.sleep(50)
        await consumer.subscribe("T")
        cluster.broker.put("T", 0, b"x")
        assert await consumer.poll(5)


async def test_looks_become_rarer(autojump_clock: MockClock, cluster: FakeCluster) -> None:
    asked: list[float] = []
    node = cluster.name_server_nodes[0]
    answer = node.handlers[RequestCode.GET_ROUTEINFO_BY_TOPIC]

    def note(frame: Frame, peer: Peer) -> Frame | None:
        if frame.fields["topic"] == "T":
            asked.append(trio.current_time())
        return answer(frame, peer)

    node.handlers[RequestCode.GET_ROUTEINFO_BY_TOPIC] = note
    async with pushing(cluster, Arrivals()):
        first_s = trio.current_time()
        await trio.sleep(100)
    looks = [round(time_s - first_s) for time_s in asked]
    assert looks == [0, 1, 3, 7, 15, 30, 31, 60, 90]


async def test_a_topic_that_shows_within_seconds_is_no_reason_to_warn(
    autojump_clock: MockClock, cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    listener = Arrivals()
    async with pushing(cluster, listener):
        await trio.sleep(0.5)
        cluster.broker.put("T", 0, b"x")
        await listener.there.wait()
        await trio.sleep(60)
    assert not [text for text in warnings(caplog) if "topic T" in text]


async def test_a_topic_that_stays_away_is_warned_of_once_and_soon(
    autojump_clock: MockClock, cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with pushing(cluster, Arrivals()):
        await trio.sleep(6)
        (text,) = (text for text in warnings(caplog) if NOT_THERE in text)
        assert "check its name" in text
        await trio.sleep(100)
    assert sum(NOT_THERE in text for text in warnings(caplog)) == 1


async def test_a_topic_that_was_unsubscribed_from_is_not_warned_of(
    autojump_clock: MockClock, cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with pushing(cluster, Arrivals()) as consumer:
        await consumer.unsubscribe("T")
        await trio.sleep(100)
    assert not [text for text in warnings(caplog) if NOT_THERE in text]
