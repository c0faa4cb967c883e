"""Push consumers: concurrent, broadcasting, resuming."""

from ..cells._cell import Cell
from ..cells._scenario import expect_equal, scenario
from ..clients._messages import Outgoing


@scenario("consume-concurrently")
async def consume_concurrently(cell: Cell) -> None:
    """A hundred messages over four queues each arrive once."""
    topic = await cell.topic()
    async with cell.consumer(topic) as consumer, cell.producer() as producer:
        bodies = [b"message %d" % number for number in range(100)]
        for body in bodies:
            await producer.send(Outgoing(topic, body))
        await consumer.receive(len(bodies))
        expect_equal("bodies", sorted(consumer.bodies), sorted(bodies))
        places = {(m.queue_id, m.queue_offset) for m in consumer.consumed}
        expect_equal("places", len(places), len(bodies))


@scenario("consume-backlog")
async def consume_backlog(cell: Cell) -> None:
    """A new group finds what was sent before it existed."""
    topic = await cell.topic()
    async with cell.producer() as producer:
        bodies = [b"before %d" % number for number in range(50)]
        for body in bodies:
            await producer.send(Outgoing(topic, body))
        async with cell.consumer(topic) as consumer:
            await consumer.receive(len(bodies))
            expect_equal("bodies", sorted(consumer.bodies), sorted(bodies))


@scenario("broadcast")
async def broadcast(cell: Cell) -> None:
    """Both members of a broadcasting group get every message."""
    topic, group = await cell.topic(), cell.name("group")
    async with (
        cell.consumer(topic, group=group, broadcasting=True) as one,
        cell.consumer(topic, group=group, broadcasting=True) as other,
        cell.producer() as producer,
    ):
        bodies = [b"to all %d" % number for number in range(20)]
        for body in bodies:
            await producer.send(Outgoing(topic, body))
        for consumer in (one, other):
            await consumer.receive(len(bodies))
            expect_equal("bodies", sorted(consumer.bodies), sorted(bodies))


@scenario("resume", long=True)
async def resume(cell: Cell) -> None:
    """A group that stopped goes on where it was, also with what came meanwhile."""
    topic = await cell.topic()
    group = await cell.group(topic)
    async with cell.producer() as producer:
        async with cell.consumer(topic, group=group) as consumer:
            for number in range(20):
                await producer.send(Outgoing(topic, b"before %d" % number))
            await consumer.receive(20)
            # We hear of a delivery before the client has its listener's answer.
            await cell.until_committed(group, topic, 20)
        await cell.until_left(group)
        meanwhile = [b"meanwhile %d" % number for number in range(20)]
        for body in meanwhile:
            await producer.send(Outgoing(topic, body))
        async with cell.consumer(topic, group=group) as consumer:
            await consumer.receive(len(meanwhile))
            expect_equal("bodies", sorted(consumer.bodies), sorted(meanwhile))
