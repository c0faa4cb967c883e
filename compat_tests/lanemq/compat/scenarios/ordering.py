"""Orderly consumption: one message of a queue at a time, in its order, come what may."""

from collections import defaultdict

from .._cell import Cell
from .._messages import Outgoing
from .._scenario import expect_equal, scenario
from .groups import until_consumed


@scenario("orderly")
async def orderly(cell: Cell) -> None:
    """Each queue's messages come in their order, and a failing one holds up those behind it."""
    topic = await cell.topic(queues=2)
    async with (
        cell.consumer(topic, orderly=True, fail_first=1) as consumer,
        cell.producer() as producer,
    ):
        for number in range(5):
            for queue_id in range(2):
                message = Outgoing(topic, b"%d in %d" % (number, queue_id))
                await producer.send(message, queue_id=queue_id)
        await consumer.receive(10)
        calls = defaultdict(list)
        for delivery in consumer.deliveries:
            message_seen = delivery.message
            calls[message_seen.queue_id].append((message_seen.queue_offset, delivery.succeeded))
        expected = [(number, succeeded) for number in range(5) for succeeded in (False, True)]
        expect_equal("queue 0", calls[0], expected)
        expect_equal("queue 1", calls[1], expected)


@scenario("orderly-shared", long=True)
async def orderly_shared(cell: Cell) -> None:
    """Two orderly members share the queues by lock; each queue keeps its order."""
    topic, group = await cell.topic(queues=4), cell.name("group")
    async with (
        cell.producer() as producer,
        cell.consumer(topic, group=group, orderly=True) as one,
        cell.consumer(topic, group=group, orderly=True) as other,
    ):
        sent = []
        for number in range(10):
            for queue_id in range(4):
                sent.append(b"%d in %d" % (number, queue_id))
                await producer.send(Outgoing(topic, sent[-1]), queue_id=queue_id)
        pair = (one, other)
        await until_consumed(sent, one, other)
        for consumer in pair:
            offsets = defaultdict(list)
            for message in consumer.consumed:
                offsets[message.queue_id].append(message.queue_offset)
            for queue_id, found in offsets.items():
                expect_equal(f"order in queue {queue_id}", found, sorted(found))
