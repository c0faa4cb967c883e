"""Orderly and staged consumption: messages of a queue that may not run at once do not."""

from collections import defaultdict

from .._errors import NotApplicable
from ..cells._cell import Cell
from ..cells._consumers import Consumer
from ..cells._facts import breaks_suspended_order, has_no_stages
from ..cells._scenario import expect_equal, scenario
from ..clients._messages import Outgoing
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


@scenario("staged")
async def staged(cell: Cell) -> None:
    """Messages of a stage run at once, and none of them before the stage before has succeeded."""
    if reason := has_no_stages(cell.client):
        raise NotApplicable(reason)
    topic, sizes = await cell.topic(queues=1), (2, 3, 4)
    async with cell.producer() as producer:
        for number in range(sum(sizes)):
            await producer.send(Outgoing(topic, b"%d" % number), queue_id=0)
    # Each message fails once, so that a stage is only over after what was retried.
    async with cell.consumer(topic, stages=list(sizes), fail_first=1) as consumer:
        found = [int(message.body) for message in await consumer.receive(sum(sizes))]
    begin = 0
    for size in sizes:
        stage = range(begin, begin + size)
        expect_equal(f"messages {stage}", sorted(found[begin : begin + size]), list(stage))
        begin += size
    firsts = [delivery for delivery in consumer.deliveries if not delivery.succeeded]
    expect_equal("failed deliveries", len(firsts), sum(sizes))
