"""Orderly consumption: one message of a queue at a time, in its order, come what may."""

from collections import defaultdict

from .._cell import Cell, Consumer
from .._errors import NotApplicable
from .._facts import breaks_suspended_order
from .._messages import Outgoing
from .._scenario import expect_equal, scenario
from .groups import until_consumed


async def _send_to_two_queues(cell: Cell, topic: str) -> None:
    async with cell.producer() as producer:
        for number in range(5):
            for queue_id in range(2):
                message = Outgoing(topic, b"%d in %d" % (number, queue_id))
                await producer.send(message, queue_id=queue_id)


def _calls(consumer: Consumer, queue_id: int) -> list[tuple[int, bool]]:
    """The calls of the listener for one queue: the message's offset, and whether it succeeded."""
    return [
        (delivery.message.queue_offset, delivery.succeeded)
        for delivery in consumer.deliveries
        if delivery.message.queue_id == queue_id
    ]


@scenario("orderly")
async def orderly(cell: Cell) -> None:
    """Each queue's messages come in their order."""
    topic = await cell.topic(queues=2)
    async with cell.consumer(topic, orderly=True) as consumer:
        await _send_to_two_queues(cell, topic)
        await consumer.receive(10)
        for queue_id in range(2):
            expected = [(number, True) for number in range(5)]
            expect_equal(f"queue {queue_id}", _calls(consumer, queue_id), expected)


@scenario("orderly-suspend")
async def orderly_suspend(cell: Cell) -> None:
    """An orderly listener that fails gets the same message again before any behind it."""
    if reason := breaks_suspended_order(cell.client):
        raise NotApplicable(reason)
    topic = await cell.topic(queues=2)
    async with cell.consumer(topic, orderly=True, fail_first=1) as consumer:
        await _send_to_two_queues(cell, topic)
        await consumer.receive(10)
        for queue_id in range(2):
            expected = [(number, succeeded) for number in range(5) for succeeded in (False, True)]
            expect_equal(f"queue {queue_id}", _calls(consumer, queue_id), expected)


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
