"""Spans and metrics of what clients do; messages go on with the trace of their sender."""

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, Unpack

import pytest
import trio
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    HistogramDataPoint,
    InMemoryMetricReader,
    NumberDataPoint,
)
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from trio.testing import MockClock

from lanemq.sdk import (
    ClientOptions,
    ConcurrentListener,
    ConsumeFrom,
    LitePullOptions,
    Message,
    Outcome,
    ProducerOptions,
    PushOptions,
    ReceivedMessage,
    RefusedByBroker,
    WrongUse,
)
from lanemq.sdk.opening._settings import ProducerSettings
from lanemq.testkit.sdk.clients import lite_pull_consumer_of, producer_of, push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster
from lanemq.wire import RequestCode

CLIENT = ClientOptions(telemetry=True)
EXPORTER = InMemorySpanExporter()
READER = InMemoryMetricReader()


@pytest.fixture(scope="session", autouse=True)
def _providers() -> None:
    """Once for a process: a worker may come back to this file after others."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([READER]))


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    READER.get_metrics_data()
    EXPORTER.clear()
    yield
    EXPORTER.clear()


def spans() -> dict[str, ReadableSpan]:
    found = EXPORTER.get_finished_spans()
    assert len({span.name for span in found}) == len(found)
    return {span.name: span for span in found}


def id_of(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.span_id


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def counted() -> dict[tuple[str, str, str], float]:
    """(metric, topic, error) -> sum or count, since the process began."""
    data, found = READER.get_metrics_data(), dict[tuple[str, str, str], float]()
    assert data is not None
    for resource in data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in metric.data.data_points:
                    own = dict(point.attributes or {})
                    key = (
                        metric.name,
                        str(own["messaging.destination.name"]),
                        str(own.get("error.type", "")),
                    )
                    if isinstance(point, HistogramDataPoint):
                        found[key] = point.count
                    elif isinstance(point, NumberDataPoint):
                        found[key] = point.value
    return found


def producer(cluster: FakeCluster, **settings: Unpack[ProducerSettings]) -> Any:  # noqa: ANN401
    return producer_of(cluster, ProducerOptions(client=CLIENT), **settings)


async def consume(
    cluster: FakeCluster, topic: str, outcome: Outcome | Exception | None = None, batch: int = 1
) -> list[trace.SpanContext]:
    """Consume ``topic`` for a second; returns the contexts that the listener ran in."""
    contexts = []

    async def handle(messages: Sequence[ReceivedMessage]) -> Outcome | None:
        contexts.append(trace.get_current_span().get_span_context())
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async with push_consumer_of(
        cluster,
        ConcurrentListener(handle, batch_messages=batch),
        PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET, client=CLIENT),
        subscriptions={topic: "*"},
    ):
        await trio.sleep(1)
    return contexts


async def test_a_message_is_processed_in_the_trace_of_its_send(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("One", 1)
    with trace.get_tracer("test").start_as_current_span("order") as order:
        async with producer(cluster) as sender:
            result = await sender.send(
                Message(topic="One", body=b"hello", tags="A", keys=("k",), properties={"own": "1"})
            )
    (context,) = await consume(cluster, "One")
    found = spans()
    send, process = found["send One"], found["process One"]
    assert send.parent == order.get_span_context()
    assert send.kind is SpanKind.PRODUCER
    assert process.kind is SpanKind.CONSUMER
    assert process.parent is not None
    assert process.parent.span_id == id_of(send)
    assert context == process.get_span_context()
    assert context.trace_id == order.get_span_context().trace_id
    (link,) = process.links
    assert link.context.span_id == id_of(send)
    (stored,) = cluster.broker.messages("One")
    assert stored.properties["own"] == "1"
    assert "traceparent" in stored.properties
    common = {
        "messaging.system": "rocketmq",
        "messaging.destination.name": "One",
        "messaging.message.id": result.message_id,
        "messaging.message.body.size": 5,
        "messaging.rocketmq.message.tag": "A",
        "messaging.rocketmq.message.keys": ("k",),
    }
    assert (
        attributes(send).items()
        >= {
            **common,
            "messaging.operation.name": "send",
            "messaging.rocketmq.client_group": "pg",
        }.items()
    )
    assert (
        attributes(process).items()
        >= {
            **common,
            "messaging.operation.name": "process",
            "messaging.consumer.group.name": "cg",
            "messaging.destination.partition.id": "0",
        }.items()
    )
    seen = counted()
    for metric in (
        "messaging.client.sent.messages",
        "messaging.client.operation.duration",
        "messaging.client.consumed.messages",
        "messaging.process.duration",
    ):
        assert seen[metric, "One", ""] == 1


async def test_a_batch_is_created_once_and_its_messages_are_linked(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("Many", 1)
    async with producer(cluster) as sender:
        await sender.send_batch([Message(topic="Many", body=b"%d" % n) for n in range(3)])
    await consume(cluster, "Many", batch=3)
    found = spans()
    create, send, process = found["create Many"], found["send Many"], found["process Many"]
    assert send.parent is not None
    assert send.parent.span_id == id_of(create)
    assert {link.context.span_id for link in process.links} == {id_of(create)}
    assert process.parent is None
    for span in (create, send, process):
        assert attributes(span)["messaging.batch.message_count"] == 3
    seen = counted()
    assert seen["messaging.client.sent.messages", "Many", ""] == 3
    assert seen["messaging.client.consumed.messages", "Many", ""] == 3


async def test_batches_that_split_are_a_send_each(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("Split", 1)
    async with producer(cluster) as sender:
        messages = [Message(topic="Split", body=b"x" * 400) for _ in range(6)]
        results = await sender.send_batches(messages, batch_bytes=2000)
    assert len(results) > 1
    names = [span.name for span in EXPORTER.get_finished_spans()]
    assert names == ["create Split"] + ["send Split"] * len(results)


async def test_a_send_that_fails_says_why(cluster: FakeCluster, autojump_clock: MockClock) -> None:
    cluster.create_topic("Bad", 1)
    cluster.broker.auto_create = False
    cluster.broker.refuse(RequestCode.SEND_MESSAGE_V2, 13)
    async with producer(cluster) as sender:
        with pytest.raises(RefusedByBroker):
            await sender.send(Message(topic="Bad", body=b"x"))
        send = spans()["send Bad"]
        assert send.status.status_code is StatusCode.ERROR
        assert attributes(send)["error.type"] == "RefusedByBroker"
        assert [event.name for event in send.events] == ["exception"]
        EXPORTER.clear()
        await sender.send_oneway(Message(topic="Bad", body=b"x"))
        assert spans()["send Bad"].status.status_code is StatusCode.UNSET
    assert counted()["messaging.client.sent.messages", "Bad", "RefusedByBroker"] == 1


@pytest.mark.parametrize(
    ("outcome", "error"), [(Outcome.RETRY, "RETRY"), (ValueError("no"), "ValueError")]
)
async def test_a_listener_that_fails_says_why(
    cluster: FakeCluster,
    autojump_clock: MockClock,
    outcome: Outcome | Exception,
    error: str,
) -> None:
    topic = f"Failing{error}"
    cluster.create_topic(topic, 1)
    cluster.broker.put(topic, 0, b"sent without telemetry")
    await consume(cluster, topic, outcome)
    process = spans()[f"process {topic}"]
    assert process.status.status_code is StatusCode.ERROR
    assert attributes(process)["error.type"] == error
    assert process.parent is None
    assert process.links == ()
    assert counted()["messaging.process.duration", topic, error] == 1


async def test_a_poll_is_a_span_linked_to_the_sends(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("Polled", 1)
    async with producer(cluster) as sender:
        await sender.send(Message(topic="Polled", body=b"x"))
    async with lite_pull_consumer_of(
        cluster, LitePullOptions(consume_from=ConsumeFrom.FIRST_OFFSET, client=CLIENT)
    ) as consumer:
        await consumer.subscribe("Polled")
        assert len(await consumer.poll()) == 1
        assert await consumer.poll(1) == []
    found = spans()
    receive = found["receive Polled"]
    assert receive.kind is SpanKind.CLIENT
    (link,) = receive.links
    assert link.context.span_id == id_of(found["send Polled"])
    assert attributes(receive)["messaging.consumer.group.name"] == "lg"


async def test_without_telemetry_nothing_is_added_to_a_message(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("Plain", 1)
    async with producer_of(cluster) as sender:
        await sender.send(Message(topic="Plain", body=b"x"))
    assert EXPORTER.get_finished_spans() == ()
    assert set(cluster.broker.messages("Plain")[0].properties) == {"UNIQ_KEY"}


async def test_where_opentelemetry_is_missing_the_error_says_what_to_install(
    cluster: FakeCluster, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> ModuleType:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("importlib.import_module", missing)
    with pytest.raises(WrongUse, match=r"pip install 'lanemq\[otel\]'"):
        async with producer(cluster):
            pass


async def test_what_is_sent_for_message_traces_is_not_watched(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("Traced", 1)
    async with producer_of(
        cluster, ProducerOptions(client=ClientOptions(telemetry=True, trace=True))
    ) as sender:
        await sender.send(Message(topic="Traced", body=b"x"))
        await trio.sleep(2)
    assert cluster.bodies("RMQ_SYS_TRACE_TOPIC")
    assert set(spans()) == {"send Traced"}
