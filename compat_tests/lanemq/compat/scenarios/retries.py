"""Messages that a listener fails: back after a delay, at last among the dead letters."""

from functools import partial

from msgspec.structs import replace

from .._errors import ScenarioFailed
from ..cells._cell import Cell
from ..cells._consumers import Consumer
from ..cells._facts import hides_places, shows_retry_topic
from ..cells._producers import Producer
from ..cells._scenario import expect, expect_equal, scenario
from ..clients._messages import Outgoing, Received, Sent

RETRIES = 2
SENDS_MAX = 3


def _attempts(consumer: Consumer) -> set[int]:
    return {delivery.message.reconsume_times for delivery in consumer.deliveries}


async def _expect_origin(
    cell: Cell, producer: Producer, sent: Sent, again: Received, topic: str | None = None
) -> None:
    """The message that came again names the first one.

    Where that can be reached in several ways, it may have another id than its sender was told.
    """
    origin = again.properties.get("ORIGIN_MESSAGE_ID")
    if hides_places(cell.client):
        expect(bool(origin), "the id of the first message")
    elif origin not in (sent.offset_id, sent.message_id):
        expect(origin is not None, "the id of the first message")
        first = await producer.view(topic or again.topic, str(origin))
        expect_equal(
            f"message {origin}", (first.body, first.message_id), (again.body, sent.message_id)
        )


@scenario("retry-then-success", long=True)
async def retry_then_success(cell: Cell) -> None:
    """A failed message comes again, counted and under its own topic, until it succeeds."""
    topic, group = await cell.topic(), cell.name("group")
    async with (
        cell.consumer(topic, group=group, fail_first=1) as consumer,
        cell.producer() as producer,
    ):
        outgoing = Outgoing(topic, b"again", tags="T", keys="k", properties={"user": "value"})
        sent, first, second = await _send_until_retried(consumer, producer, outgoing)
        expect_equal("attempts", [first.reconsume_times, second.reconsume_times], [0, 1])
        again = f"%RETRY%{group}" if shows_retry_topic(cell.client) else topic
        expect_equal("topics", [first.topic, second.topic], [topic, again])
        expect_equal("bodies", first.body, second.body)
        expect_equal("tags and keys", (second.tags, (second.keys or "").split()), ("T", ["k"]))
        expect_equal("user property", second.properties.get("user"), "value")
        await _expect_origin(cell, producer, sent, second)
        # By the brokers' clocks: on a busy machine we may hear of both deliveries at once.
        waited = (second.store_timestamp_ms - first.store_timestamp_ms) / 1000
        expect(waited >= 0.9, f"a delay of a second or more, not {waited:.2f} s")


def _has_consumed(consumer: Consumer, body: bytes) -> bool:
    return body in consumer.bodies


async def _send_until_retried(
    consumer: Consumer, producer: Producer, outgoing: Outgoing
) -> tuple[Sent, Received, Received]:
    """Return what was sent, its first delivery and the one after its delay.

    A message is delivered at least once, and a delivery that is repeated beside the retry, as where
    queues are shared again, uses up the one that fails: then it is done again with another message.
    """
    for number in range(SENDS_MAX):
        body = outgoing.body + b" %d" % number
        sent = await producer.send(replace(outgoing, body=body))
        await consumer.until("success", partial(_has_consumed, consumer, body), within_s=200)
        found = [one.message for one in consumer.deliveries if one.message.body == body]
        retried = [one for one in found if one.store_timestamp_ms != found[0].store_timestamp_ms]
        if retried:
            return sent, found[0], retried[0]
    raise ScenarioFailed(f"no retry of {SENDS_MAX} messages, each of which failed once")


@scenario("dead-letter", long=True)
async def dead_letter(cell: Cell) -> None:
    """A message that fails its last retry lies in the group's dead letters, readable."""
    topic, group = await cell.topic(), cell.name("group")
    control = cell.cluster.control
    await control.create_group(group, retry_max_times=RETRIES)
    # Known from the start, so that no client has to discover it first.
    await control.create_topic(f"%RETRY%{group}", 1)
    dead = f"%DLQ%{group}"
    async with cell.producer() as producer:
        async with cell.consumer(
            topic, group=group, fail_first=100, max_reconsume_times=RETRIES
        ) as consumer:
            sent = await producer.send(Outgoing(topic, b"hopeless", properties={"user": "value"}))
            # Each at least once: a delivery may be repeated, as where queues are shared again.
            await consumer.until(
                f"{RETRIES + 1} attempts",
                lambda: _attempts(consumer) >= set(range(RETRIES + 1)),
                within_s=200,
            )
            await control.until_routed(dead)  # created when the first message dies
            expect_equal("attempts", _attempts(consumer), set(range(RETRIES + 1)))
            expect_equal("first", consumer.deliveries[0].message.reconsume_times, 0)
        async with cell.consumer(dead) as reader:
            message, *twice = await reader.receive(1)
        # A client whose broker is slow to answer (it makes the topic) gives it back once more.
        expect_equal("ids", {again.message_id for again in twice} - {message.message_id}, set())
        expect_equal("body", message.body, b"hopeless")
        expect_equal("topic", message.topic, dead)
        expect_equal("user property", message.properties.get("user"), "value")
        expect_equal("origin topic", message.properties.get("RETRY_TOPIC"), topic)
        await _expect_origin(cell, producer, sent, message, topic)
