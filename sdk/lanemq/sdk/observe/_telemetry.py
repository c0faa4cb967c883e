"""Spans and metrics through OpenTelemetry, by its conventions for messaging.

Imported only where `ClientOptions.telemetry` asks for it: it needs the extra ``lanemq[otel]``.
The providers that the application sets up decide where the data goes.

A message takes the context of its send along, in the properties that the propagator writes
(``traceparent`` as a rule): its processing continues the trace of its sender.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec
import trio
from opentelemetry import metrics, propagate, trace
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode

from .._messages import Message, Outcome, ReceivedMessage, Retry, is_success
from ..listeners._listener import Handle
from ..listeners._listener_context import like

NAME: Final = "lanemq.sdk"
TRACER: Final = trace.get_tracer(NAME)
METER: Final = metrics.get_meter(NAME)

SENT: Final = METER.create_counter(
    "messaging.client.sent.messages", "{message}", "Messages that a producer tried to send"
)
CONSUMED: Final = METER.create_counter(
    "messaging.client.consumed.messages", "{message}", "Messages given to the application"
)
OPERATION: Final = METER.create_histogram(
    "messaging.client.operation.duration", "s", "Duration of a send, all its attempts together"
)
PROCESS: Final = METER.create_histogram(
    "messaging.process.duration", "s", "Duration of a call of a listener"
)

Attributes = dict[str, Any]


def _common(operation: str, topic: str) -> Attributes:
    return {
        "messaging.system": "rocketmq",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": topic,
    }


def _of_messages(messages: Sequence[Message] | Sequence[ReceivedMessage]) -> Attributes:
    """Return the attributes that only spans have room for."""
    if len(messages) != 1:
        return {"messaging.batch.message_count": len(messages)}
    (message,) = messages
    attributes: Attributes = {}
    if message.tags:
        attributes["messaging.rocketmq.message.tag"] = message.tags
    if message.keys:
        attributes["messaging.rocketmq.message.keys"] = message.keys
    if isinstance(message, ReceivedMessage):
        attributes["messaging.message.id"] = message.message_id
        attributes["messaging.message.body.size"] = len(message.stored.body)
        attributes["messaging.destination.partition.id"] = str(message.queue.queue_id)
    else:
        attributes["messaging.message.body.size"] = len(message.body)
    return attributes


def _failed(span: Span, error: BaseException) -> str:
    name = type(error).__name__
    span.set_status(Status(StatusCode.ERROR, str(error)))
    span.record_exception(error)
    span.set_attribute("error.type", name)
    return name


# Sending


def start_send(message: Message) -> tuple[Span, Message]:
    """Begin the span of a send; the message that comes back carries its context.

    A span that is not ended is never seen: if it cannot be sent after all, drop it.
    """
    attributes = _common("send", message.topic) | _of_messages((message,))
    span = TRACER.start_span(f"send {message.topic}", kind=SpanKind.PRODUCER, attributes=attributes)
    (message,) = _carrying(span, (message,))
    return span, message


def create(messages: Sequence[Message]) -> tuple[Span, list[Message]]:
    """Return the span in which messages of batches come to be; those that come back carry its
    context.

    Their sends, one or several, are its children: see ``start_batch``.
    """
    topic = messages[0].topic if messages else ""
    attributes = _common("create", topic) | _of_messages(messages)
    span = TRACER.start_span(f"create {topic}", kind=SpanKind.PRODUCER, attributes=attributes)
    span.end()
    return span, _carrying(span, messages)


def start_batch(created: Span, messages: Sequence[Message]) -> Span:
    """Begin the span of one send of some of the messages."""
    topic = messages[0].topic
    return TRACER.start_span(
        f"send {topic}",
        context=trace.set_span_in_context(created),
        kind=SpanKind.PRODUCER,
        attributes=_common("send", topic) | _of_messages(messages),
    )


def _carrying(span: Span, messages: Sequence[Message]) -> list[Message]:
    carrier: dict[str, str] = {}
    propagate.inject(carrier, trace.set_span_in_context(span))
    if not carrier:
        return list(messages)
    return [
        msgspec.structs.replace(message, properties={**message.properties, **carrier})
        for message in messages
    ]


@contextmanager
def sending(span: Span, topic: str, message_ids: str, group: str) -> Iterator[None]:
    """Measure the send in the block, and end its span with the outcome."""
    attributes, started_s = _common("send", topic), trio.current_time()
    ids = message_ids.split(",")
    span.set_attribute("messaging.rocketmq.client_group", group)
    if len(ids) == 1:
        span.set_attribute("messaging.message.id", message_ids)
    try:
        yield
    except BaseException as error:
        attributes["error.type"] = _failed(span, error)
        raise
    finally:
        span.end()
        SENT.add(len(ids), attributes)
        OPERATION.record(trio.current_time() - started_s, attributes)


# Consuming


def _context_of(message: ReceivedMessage) -> trace.SpanContext:
    context = propagate.extract(message.properties)
    return trace.get_current_span(context).get_span_context()


def _links(messages: Sequence[ReceivedMessage]) -> list[Link]:
    contexts = [_context_of(message) for message in messages]
    return [Link(context) for context in contexts if context.is_valid]


def traced(handle: Handle, group: str) -> Handle:
    """Wrap ``handle`` in a span of its own: a child of the send for a message that is alone."""

    async def handle_in_span(
        messages: Sequence[ReceivedMessage], *context: object
    ) -> Outcome | Retry | None:
        topic = messages[0].topic
        attributes = _common("process", topic)
        attributes["messaging.consumer.group.name"] = group
        parent = propagate.extract(messages[0].properties) if len(messages) == 1 else None
        span = TRACER.start_span(
            f"process {topic}",
            context=parent,
            kind=SpanKind.CONSUMER,
            attributes=attributes | _of_messages(messages),
            links=_links(messages),
        )
        started_s = trio.current_time()
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                outcome = await handle(messages, *context)
            if not is_success(outcome):
                kind = Outcome.RETRY if isinstance(outcome, Retry) else outcome
                attributes["error.type"] = kind.name if isinstance(kind, Outcome) else "other"
                span.set_status(Status(StatusCode.ERROR, f"the listener returned {outcome}"))
                span.set_attribute("error.type", attributes["error.type"])
        except BaseException as error:
            attributes["error.type"] = _failed(span, error)
            raise
        finally:
            span.end()
            CONSUMED.add(len(messages), attributes)
            PROCESS.record(trio.current_time() - started_s, attributes)
        return outcome

    return like(handle, handle_in_span)


def received(messages: Sequence[ReceivedMessage], group: str) -> None:
    """Record that a lite pull consumer returned ``messages``; their outcome is not known here."""
    topic = messages[0].topic
    attributes = _common("receive", topic)
    attributes["messaging.consumer.group.name"] = group
    span = TRACER.start_span(
        f"receive {topic}",
        kind=SpanKind.CLIENT,
        attributes=attributes | _of_messages(messages),
        links=_links(messages),
    )
    span.end()
    CONSUMED.add(len(messages), attributes)
