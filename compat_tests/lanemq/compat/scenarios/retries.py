"""Messages that a listener fails: back after a delay, at last among the dead letters."""

from ..cells._cell import Cell
from ..cells._facts import hides_places, shows_retry_topic
from ..cells._producers import Producer
from ..cells._scenario import expect, expect_equal, scenario
from ..clients._messages import Outgoing, Received, Sent

RETRIES = 2


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
        sent = await producer.send(
            Outgoing(topic, b"again", tags="T", keys="k", properties={"user": "value"})
        )
        await consumer.receive(1, within_s=200)
        first, second = (delivery.message for delivery in consumer.deliveries)
        expect_equal("attempts", [first.reconsume_times, second.reconsume_times], [0, 1])
        again = f"%RETRY%{group}" if shows_retry_topic(cell.client) else topic
        expect_equal("topics", [first.topic, second.topic], [topic, again])
        expect_equal("bodies", [first.body, second.body], [b"again", b"again"])
        expect_equal("tags and keys", (second.tags, (second.keys or "").split()), ("T", ["k"]))
        expect_equal("user property", second.properties.get("user"), "value")
        await _expect_origin(cell, producer, sent, second)
        # By the brokers' clocks: on a busy machine we may hear of both deliveries at once.
        waited = (second.store_timestamp_ms - first.store_timestamp_ms) / 1000
        expect(waited >= 0.9, f"a delay of a second or more, not {waited:.2f} s")


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
            await consumer.until(
                f"{RETRIES + 1} attempts",
                lambda: len(consumer.deliveries) > RETRIES,
                within_s=200,
            )
            await control.until_routed(dead)  # created when the first message dies
            times = [delivery.message.reconsume_times for delivery in consumer.deliveries]
            expect_equal("attempts", times, list(range(RETRIES + 1)))
        async with cell.consumer(dead) as reader:
            message, *twice = await reader.receive(1)
        # A client whose broker is slow to answer (it makes the topic) gives it back once more.
        expect_equal("ids", {again.message_id for again in twice} - {message.message_id}, set())
        expect(len(twice) <= 1, "the message once, or twice")
        expect_equal("body", message.body, b"hopeless")
        expect_equal("topic", message.topic, dead)
        expect_equal("user property", message.properties.get("user"), "value")
        expect_equal("origin topic", message.properties.get("RETRY_TOPIC"), topic)
        await _expect_origin(cell, producer, sent, message, topic)
