"""Pull consumers: offsets, one pull at a time, search by time, polling."""

import trio

from .._errors import NotApplicable
from ..cells._cell import COMMITTED_S, Cell
from ..cells._consumers import Puller
from ..cells._facts import asks_what_server_lacks, moves_queues, searches_by_an_old_route
from ..cells._scenario import expect, expect_equal, scenario
from ..clients._messages import Outgoing, Pulled

MOVED_S = 60.0
"""A queue that is being moved is open again within this."""


async def _pull(
    cell: Cell,
    puller: Puller,
    queue_id: int,
    *,
    count: int,
    offset: int = 0,
    max_count: int = 32,
    tags: str = "*",
) -> Pulled:
    """Pull ``count`` messages: at once, or in parts where a queue was moved between them.

    A pull ends where a part of a queue ends, and the next one continues at another broker.
    """
    pulled = await puller.pull(queue_id, offset, max_count=max_count, tags=tags)
    with trio.move_on_after(MOVED_S):
        while len(pulled.messages) < count and moves_queues(cell.cluster.maker):
            rest = max_count - len(pulled.messages)
            more = await puller.pull(queue_id, pulled.next_offset, max_count=rest, tags=tags)
            messages = [*pulled.messages, *more.messages]
            pulled = Pulled("FOUND", more.next_offset, more.min_offset, more.max_offset, messages)
    return pulled


@scenario("pull")
async def pull(cell: Cell) -> None:
    """Pulls return what lies at an offset, filter by tag, and correct wrong offsets."""
    topic, group = await cell.topic(queues=2), cell.name("group")
    async with cell.puller(topic, group=group) as puller, cell.producer() as producer:
        expect_equal("queues", await puller.queues(), [0, 1])
        for number in range(10):
            message = Outgoing(topic, b"%d" % number, tags="AB"[number % 2])
            await producer.send(message, queue_id=1)
        await puller.until_readable(1, 10)
        expect_equal("empty queue", await puller.offset("max", 0), 0)
        bounds = (await puller.offset("min", 1), await puller.offset("max", 1))
        expect_equal("bounds", bounds, (0, 10))

        pulled = await _pull(cell, puller, 1, count=4, max_count=4)
        expect_equal("status", pulled.status, "FOUND")
        expect_equal("bodies", [m.body for m in pulled.messages], [b"0", b"1", b"2", b"3"])
        expect_equal("next offset", pulled.next_offset, 4)
        expect_equal("least offset", pulled.min_offset, 0)
        end = pulled.max_offset  # where the queue has moved on, as far as the one asked knows
        is_end = 4 <= end <= 10 if moves_queues(cell.cluster.maker) else end == 10
        expect(is_end, f"an end of 10, not {end}")

        pulled = await _pull(cell, puller, 1, offset=4, count=3, tags="B")
        expect_equal("tag B", [m.body for m in pulled.messages], [b"5", b"7", b"9"])
        expect_equal("next offset", pulled.next_offset, 10)

        pulled = await puller.pull(1, 10)
        expect_equal("at the end", (pulled.status, pulled.next_offset), ("NO_NEW_MSG", 10))
        pulled = await puller.pull(1, 11)
        with trio.move_on_after(MOVED_S):
            while pulled.status == "NO_NEW_MSG" and moves_queues(cell.cluster.maker):
                pulled = await puller.pull(1, 11)
        expect_equal("beyond", (pulled.status, pulled.next_offset), ("OFFSET_ILLEGAL", 10))
        pulled = await puller.pull(1, 0, tags="Z")
        with trio.move_on_after(MOVED_S):
            while pulled.next_offset < 10 and moves_queues(cell.cluster.maker):
                pulled = await puller.pull(1, pulled.next_offset, tags="Z")
        expect_equal("no match", (pulled.status, pulled.next_offset), ("NO_MATCHED_MSG", 10))
        pulled = await puller.pull(0, 0)
        expect_equal("empty queue", (pulled.status, pulled.messages), ("NO_NEW_MSG", []))


@scenario("commit-offsets")
async def commit_offsets(cell: Cell) -> None:
    """A committed offset is what the group finds later, also a smaller one."""
    topic, group = await cell.topic(queues=1), cell.name("group")
    # 5.x takes no offsets of unknown groups, and a puller need not have sent a heartbeat.
    await cell.cluster.control.create_group(group, retry_max_times=16)
    async with cell.producer() as producer, cell.puller(topic, group=group) as puller:
        await puller.queues()
        for number in range(5):
            await producer.send(Outgoing(topic, b"%d" % number), queue_id=0)
        for offset in (3, 5, 2):
            await puller.commit(0, offset)
            with trio.move_on_after(COMMITTED_S):
                # Some clients keep it for a moment before they tell the server.
                while await puller.offset("committed", 0) != offset:  # noqa: ASYNC110
                    await trio.sleep(0.1)
            expect_equal("committed", await puller.offset("committed", 0), offset)
    async with cell.puller(topic, group=group) as again:
        expect_equal("after reopening", await again.offset("committed", 0), 2)


@scenario("offset-by-time")
async def offset_by_time(cell: Cell) -> None:
    """Search by time gives the message stored then, and the ends beyond the ends."""
    if reason := searches_by_an_old_route(cell.client, cell.cluster.maker):
        raise NotApplicable(reason)
    topic = await cell.topic(queues=1)
    async with cell.puller(topic) as puller, cell.producer() as producer:
        await puller.queues()
        for number in range(5):
            await producer.send(Outgoing(topic, b"%d" % number), queue_id=0)
            await trio.sleep(0.03)  # so that no two messages share a millisecond
        await puller.until_readable(0, 5)
        pulled = await _pull(cell, puller, 0, count=5)
        stored = [m.store_timestamp_ms for m in pulled.messages]
        expect_equal("messages", len(stored), 5)
        for number, timestamp_ms in enumerate(stored):
            found = await puller.offset("search", 0, timestamp_ms=timestamp_ms)
            expect_equal(f"time of message {number}", found, number)
        before = await puller.offset("search", 0, timestamp_ms=stored[0] - 60_000)
        expect_equal("before the first", before, 0)
        after = await puller.offset("search", 0, timestamp_ms=stored[-1] + 60_000)
        # 4.x: the last message. 5.x, if the client asks for the lower boundary: the end.
        expect(after in (4, 5), f"after the last: 4 or 5, not {after}")


@scenario("lite-pull")
async def lite_pull(cell: Cell) -> None:
    """A lite pull consumer polls everything once and resumes where it committed."""
    if reason := asks_what_server_lacks(cell.client, cell.cluster.maker):
        raise NotApplicable(reason)
    topic = await cell.topic()
    group = await cell.group(topic)
    async with cell.producer() as producer:
        async with cell.lite_puller(topic, group=group) as puller:
            first = [b"first %d" % number for number in range(20)]
            for body in first:
                await producer.send(Outgoing(topic, body))
            received = await puller.receive(len(first))
            expect_equal("bodies", sorted(m.body for m in received), sorted(first))
            await puller.commit()
        second = [b"second %d" % number for number in range(20)]
        for body in second:
            await producer.send(Outgoing(topic, body))
        async with cell.lite_puller(topic, group=group) as puller:
            received = await puller.receive(len(second))
            expect_equal("bodies", sorted(m.body for m in received), sorted(second))
