"""Consumers tell how far behind they are: by callback, and as metrics."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import (
    ClientOptions,
    ConcurrentListener,
    ConsumeFrom,
    ConsumerStatistics,
    LitePullOptions,
    Message,
    MessageQueue,
    PushOptions,
    QueueStatistics,
    ReceivedMessage,
    aio,
    blocking,
)
from lanemq.sdk.observe import _lag_metrics
from lanemq.testing import open_test_server
from lanemq.testkit.sdk.clients import lite_pull_consumer_of, push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster
from lanemq.testkit.servers import PATIENT_PRODUCER

FIRST, OTHER = (MessageQueue("T", "broker-a", number) for number in (0, 1))
TELEMETRY = ClientOptions(telemetry=True)


def fill(cluster: FakeCluster) -> None:
    cluster.create_topic("T", 2)
    for number in range(5):
        cluster.broker.put("T", 0, b"%d" % number)


def of_topic(statistics: ConsumerStatistics) -> list[QueueStatistics]:
    return [one for one in statistics.queues if one.queue.topic == "T"]


def gauges(name: str) -> dict[tuple[str, str], float]:
    """Values of a gauge by group and queue."""
    read = {
        "lag": lambda one: one.lag,
        "age": lambda one: one.oldest_age_s,
    }[name]
    found: dict[tuple[str, str], float] = {}
    for observation in _lag_metrics._observe(read)(None):  # type: ignore[arg-type]
        own: Any = observation.attributes
        if own["messaging.destination.name"] == "T":
            key = own["messaging.consumer.group.name"], own["messaging.destination.partition.id"]
            found[key] = observation.value
    return found


async def test_a_push_consumer_reports_lag_age_and_rates(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster)
    seen: list[ConsumerStatistics] = []
    go_on = trio.Event()

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        if messages[0].body == b"2":
            await go_on.wait()

    options = PushOptions(
        consume_from=ConsumeFrom.FIRST_OFFSET,
        client=TELEMETRY,
        on_statistics=seen.append,
        statistics_interval_s=10,
    )
    async with push_consumer_of(
        cluster, ConcurrentListener(handle, concurrency=1), options
    ) as consumer:
        await trio.sleep(11)
        first, other = of_topic(seen[-1])
        assert (first.queue, first.position, first.lag) == (FIRST, 2, 3)
        assert first.oldest_age_s is not None
        assert 9 <= first.oldest_age_s <= 12
        assert other == QueueStatistics(OTHER, other.position, 0, 0.0)
        group = seen[-1].group
        assert gauges("lag") == {(group, "0"): 3, (group, "1"): 0}
        assert gauges("age")[group, "0"] == first.oldest_age_s
        await trio.sleep(10)
        later = of_topic(seen[-1])[0].oldest_age_s
        assert later is not None
        assert later - first.oldest_age_s == pytest.approx(10, abs=0.1)
        go_on.set()
        await trio.sleep(10)
        assert len(seen) == 3
        assert of_topic(seen[-1])[0] == QueueStatistics(FIRST, 5, 0, 0.0)
        assert consumer.position(FIRST) == 5
        (topic,) = (one for one in seen[-1].topics if one.topic == "T")
        assert topic.pulled_per_s > 0
        assert topic.consumed_per_s > 0
        assert topic.failed_total == 0
    assert gauges("lag") == {}


async def test_a_reader_reports_what_it_has_not_returned(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster)
    seen: list[ConsumerStatistics] = []

    async def note(statistics: ConsumerStatistics) -> None:
        await trio.lowlevel.checkpoint()
        seen.append(statistics)

    options = LitePullOptions(
        consume_from=ConsumeFrom.FIRST_OFFSET,
        poll_messages_max=2,
        client=TELEMETRY,
        on_statistics=note,
        statistics_interval_s=1,
    )
    async with lite_pull_consumer_of(cluster, options) as consumer:
        await consumer.assign([FIRST, OTHER])
        await consumer.poll()
        await trio.sleep(1.5)
        first, _ = seen[-1].queues
        assert (first.position, first.lag) == (2, 3)
        assert first.oldest_age_s is not None
        assert first.oldest_age_s > 0
        await consumer.assign([OTHER])
        await trio.sleep(1)
        assert [one.queue for one in seen[-1].queues] == [OTHER]
        assert list(gauges("lag").values()) == [0]


async def test_what_is_paused_has_a_lag_and_no_known_age(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    seen: list[ConsumerStatistics] = []
    options = LitePullOptions(on_statistics=seen.append, statistics_interval_s=1)
    async with lite_pull_consumer_of(cluster, options) as consumer:
        await consumer.assign([FIRST])
        consumer.pause()
        await trio.sleep(30)
        assert seen[-1].queues[0].oldest_age_s == 0
        cluster.broker.put("T", 0, b"late")  # for the pull that waits
        cluster.broker.put("T", 0, b"later")
        await trio.sleep(2)
        (one,) = seen[-1].queues
        assert (one.position, one.lag, one.oldest_age_s) == (0, 2, None)


async def test_a_broker_that_is_away_and_a_callback_that_fails_stop_nothing(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster)
    seen: list[ConsumerStatistics] = []

    def fail(statistics: ConsumerStatistics) -> None:
        seen.append(statistics)
        raise ValueError("no")

    options = LitePullOptions(
        consume_from=ConsumeFrom.FIRST_OFFSET, on_statistics=fail, statistics_interval_s=1
    )
    async with lite_pull_consumer_of(cluster, options) as consumer:
        await consumer.assign([FIRST])
        await trio.sleep(1.5)
        cluster.broker.reachable = False
        cluster.broker.cut()
        await trio.sleep(20)
        assert len(seen) > 2
        (one,) = seen[-1].queues
        assert (one.position, one.lag) == (0, None)
        assert one.oldest_age_s is not None


@pytest.mark.parametrize("face", ["blocking", "aio"])
def test_the_other_faces_have_it(face: str) -> None:
    came = threading.Event()
    seen: list[ConsumerStatistics] = []

    def note(statistics: ConsumerStatistics) -> None:
        if of_topic(statistics):
            seen.append(statistics)
            came.set()

    with open_test_server() as server:
        check = {"blocking": _read_blocking, "aio": _read_aio}[face]
        check(server.name_servers, note, came)
    assert sum(one.lag or 0 for one in of_topic(seen[-1])) <= 1  # there is one message


def _read_blocking(
    name_servers: str, note: Callable[[ConsumerStatistics], None], came: threading.Event
) -> None:
    with (
        blocking.open_producer(
            "p", name_servers=name_servers, options=PATIENT_PRODUCER
        ) as producer,
        blocking.open_lite_pull_consumer(
            "g", name_servers=name_servers, on_statistics=note, statistics_interval_s=0.05
        ) as consumer,
    ):
        producer.send(Message(topic="T", body=b"x"))
        consumer.assign(consumer.queues_of("T"))
        assert came.wait(60)


def _read_aio(
    name_servers: str, note: Callable[[ConsumerStatistics], None], came: threading.Event
) -> None:
    async def main() -> None:
        arrived = asyncio.Event()

        async def tell(statistics: ConsumerStatistics) -> None:
            note(statistics)
            if came.is_set():
                arrived.set()

        async with (
            aio.open_producer("p", name_servers=name_servers, options=PATIENT_PRODUCER) as producer,
            aio.open_push_consumer(
                "g",
                name_servers=name_servers,
                subscriptions={"T": "*"},
                listener=ConcurrentListener(_nothing),
                on_statistics=tell,
                statistics_interval_s=0.05,
            ),
        ):
            await producer.send(Message(topic="T", body=b"x"))
            await asyncio.wait_for(arrived.wait(), 30)

    asyncio.run(main())


async def _nothing(messages: Sequence[ReceivedMessage]) -> None:
    pass
