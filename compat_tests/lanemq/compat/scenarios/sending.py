"""Every way to send a message."""

from collections import defaultdict

import trio

from .._errors import CommandRefused, NotApplicable
from ..cells._cell import Cell
from ..cells._facts import (
    creates_no_topics,
    hides_places,
    insists_on_route,
    sends_unreadable_batches,
)
from ..cells._producers import Producer
from ..cells._scenario import expect, expect_equal, scenario
from ..clients._messages import Outgoing, Sent


def _check_sent(cell: Cell, results: list[Sent], *, queues: int) -> None:
    """Check the results of sends: status, distinct ids, offsets without gaps in each queue."""
    expect_equal("status", {sent.status for sent in results}, {"SEND_OK"})
    expect_equal("distinct ids", len({sent.message_id for sent in results}), len(results))
    expect_equal("distinct offset ids", len({sent.offset_id for sent in results}), len(results))
    if hides_places(cell.client):
        return
    offsets = defaultdict(list)
    for sent in results:
        expect(0 <= sent.queue_id < queues, f"queue id {sent.queue_id} below {queues}")
        offsets[sent.queue_id].append(sent.queue_offset)
    for queue_id, found in offsets.items():
        expect_equal(f"offsets in queue {queue_id}", sorted(found), list(range(len(found))))


@scenario("send-sync")
async def send_sync(cell: Cell) -> None:
    """Synchronous sends are answered with ids and gapless offsets, and arrive."""
    topic = await cell.topic()
    async with cell.consumer(topic) as consumer, cell.producer() as producer:
        bodies = [b"sync %d" % number for number in range(12)]
        _check_sent(cell, [await producer.send(Outgoing(topic, body)) for body in bodies], queues=4)
        received = await consumer.receive(len(bodies))
        expect_equal("bodies", sorted(message.body for message in received), sorted(bodies))


@scenario("send-oneway")
async def send_oneway(cell: Cell) -> None:
    """One-way sends arrive, although they are not answered."""
    topic = await cell.topic()
    async with cell.consumer(topic) as consumer, cell.producer() as producer:
        bodies = [b"oneway %d" % number for number in range(12)]
        for body in bodies:
            await producer.send_oneway(Outgoing(topic, body))
        received = await consumer.receive(len(bodies))
        expect_equal("bodies", sorted(message.body for message in received), sorted(bodies))


@scenario("send-async")
async def send_async(cell: Cell) -> None:
    """Many asynchronous sends under way at once are each answered, and arrive."""
    topic = await cell.topic()
    results: list[Sent] = []

    async with cell.consumer(topic) as consumer, cell.producer() as producer:

        async def send(body: bytes) -> None:
            results.append(await producer.send(Outgoing(topic, body), mode="async"))

        bodies = [b"async %d" % number for number in range(24)]
        # The first alone: 4.2.0 closes a connection that two threads open at once, and what
        # was under way on it is sent again after its time-out (NettyRemotingClient.createChannel).
        await send(bodies[0])
        async with trio.open_nursery() as nursery:
            for body in bodies[1:]:
                nursery.start_soon(send, body)
        _check_sent(cell, results, queues=4)
        received = await consumer.receive(len(bodies))
        expect_equal("bodies", sorted(message.body for message in received), sorted(bodies))


@scenario("send-batch")
async def send_batch(cell: Cell) -> None:
    """A batch lands in one queue at consecutive offsets, each message with its own parts."""
    topic = await cell.topic()
    batch = [
        Outgoing(topic, b"batch %d" % n, tags=f"T{n % 2}", properties={"number": str(n)})
        for n in range(32)
    ]
    async with cell.consumer(topic) as consumer, cell.producer() as producer:
        try:
            sent = await producer.send_batch(batch)
        except CommandRefused as refusal:
            if reason := sends_unreadable_batches(cell.client):
                raise NotApplicable(f"{reason}: {refusal.message}") from None
            raise
        expect_equal("status", sent.status, "SEND_OK")
        if cell.client == "cpp" and (reason := sends_unreadable_batches(cell.client)):
            (whole,) = await consumer.receive(1)
            expect_equal("body of the one message", whole.body, b"")
            raise NotApplicable(reason)
        expect_equal("first offset", sent.queue_offset, 0)
        received = sorted(await consumer.receive(len(batch)), key=lambda m: m.queue_offset)
        expect_equal("offsets", [m.queue_offset for m in received], list(range(32)))
        expect_equal("queues", len({m.queue_id for m in received}), 1)
        if not hides_places(cell.client):
            expect_equal("queue", received[0].queue_id, sent.queue_id)
        expect_equal("bodies", [m.body for m in received], [m.body for m in batch])
        expect_equal("tags", [m.tags for m in received], [m.tags for m in batch])
        numbers = [m.properties.get("number") for m in received]
        expect_equal("properties", numbers, [str(n) for n in range(32)])
        # Not their unique keys: 5.x gives the whole batch one, and brokers let it win.
        expect_equal("distinct ids", len({m.offset_id for m in received}), len(batch))


@scenario("send-to-queue")
async def send_to_queue(cell: Cell) -> None:
    """A message sent to a chosen queue lands there, in the order of the sends."""
    topic = await cell.topic()
    async with cell.consumer(topic) as consumer, cell.producer() as producer:
        for number in range(8):
            queue_id = number % 2 * 3
            message = Outgoing(topic, b"%d" % number)
            sent = await producer.send(message, queue_id=queue_id)
            expect_equal("place", (sent.queue_id, sent.queue_offset), (queue_id, number // 2))
        places = {
            message.body: (message.queue_id, message.queue_offset)
            for message in await consumer.receive(8)
        }
        expect_equal("places", places, {b"%d" % n: (n % 2 * 3, n // 2) for n in range(8)})


@scenario("send-delayed")
async def send_delayed(cell: Cell) -> None:
    """A message with a delay level comes no earlier than that, under its own topic."""
    topic = await cell.topic()
    async with cell.consumer(topic) as consumer, cell.producer() as producer:
        sent_at = trio.current_time()
        sent = await producer.send(Outgoing(topic, b"later", delay_level=1))
        expect_equal("status", sent.status, "SEND_OK")
        (message,) = await consumer.receive(1)
        waited = consumer.deliveries[0].at_s - sent_at
        expect(waited >= 0.9, f"level 1 takes a second, not {waited:.2f} s")
        expect_equal("topic", message.topic, topic)
        expect_equal("body", message.body, b"later")


@scenario("unknown-topic", long=True)
async def unknown_topic(cell: Cell) -> None:
    """A send to a topic that does not exist creates it, and who waits for it finds it."""
    if reason := creates_no_topics(cell.client):
        raise NotApplicable(reason)
    topic = cell.name("topic")
    bodies = [b"first %d" % number for number in range(8)]

    async def send_all(producer: Producer) -> None:
        results = [await producer.send(Outgoing(topic, body)) for body in bodies]
        _check_sent(cell, results, queues=4)
        await cell.cluster.control.until_routed(topic)

    async with cell.producer() as producer:
        if insists_on_route(cell.client):
            await send_all(producer)
        async with cell.consumer(topic) as consumer:
            if not insists_on_route(cell.client):
                await send_all(producer)
            received = await consumer.receive(len(bodies))
            expect_equal("bodies", sorted({m.body for m in received}), sorted(bodies))
