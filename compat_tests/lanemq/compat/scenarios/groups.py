"""Groups of several consumers: sharing, leaving."""

from itertools import count

import trio

from .._errors import ScenarioFailed
from ..cells._cell import Cell
from ..cells._consumers import Consumer
from ..cells._facts import ignores_group_changes
from ..cells._producers import Producer
from ..cells._scenario import expect_equal, scenario
from ..clients._messages import Outgoing

TOLD_S = 19.0
"""Seconds for the server's notice, below the 20 s after which clients look by themselves."""
SHARE_S = 60.0
ALL_S = 240.0
"""A queue whose lock nobody released is free after 60 s, and found at the next look."""
ROUND = 8


@scenario("share-and-leave", long=True)
async def share_and_leave(cell: Cell) -> None:
    """Two members share the queues; when one leaves the other gets everything."""
    topic, group = await cell.topic(), cell.name("group")
    numbers = count()
    sent: list[bytes] = []

    async def send_round(producer: Producer) -> None:
        for _ in range(ROUND):
            sent.append(b"shared %d" % next(numbers))
            await producer.send(Outgoing(topic, sent[-1]))

    async with cell.producer() as producer, cell.consumer(topic, group=group) as stays:
        await send_round(producer)
        await stays.receive(ROUND)
        async with cell.consumer(topic, group=group) as leaves:
            by_timer = ignores_group_changes(cell.client)
            with trio.move_on_after(SHARE_S if by_timer else TOLD_S):
                while not leaves.deliveries:
                    await send_round(producer)
                    await trio.sleep(0.2)
            if not leaves.deliveries:
                raise ScenarioFailed("the second member of the group got no messages in time")
            with trio.move_on_after(SHARE_S):
                while not _share(stays, leaves):
                    await send_round(producer)
                    await trio.sleep(0.2)
            if not _share(stays, leaves):
                raise ScenarioFailed("the members of the group did not share its messages")
            await until_consumed(sent, stays, leaves)
        await cell.until_left(group, members=1)
        alone_from = len(sent)
        for _ in range(5):
            await send_round(producer)
        missing = set(sent[alone_from:])
        await stays.until("messages of all queues", lambda: missing <= set(stays.bodies))
        expect_equal("messages lost", set(sent) - set(stays.bodies) - set(leaves.bodies), set())


def _share(one: Consumer, other: Consumer) -> bool:
    """Return whether both got some of the latest messages."""
    latest = sorted(
        [(d.at_s, consumer.name) for consumer in (one, other) for d in consumer.deliveries]
    )[-2 * ROUND :]
    return {name for _, name in latest} == {one.name, other.name}


async def until_consumed(sent: list[bytes], one: Consumer, other: Consumer) -> None:
    """Wait until two consumers together have had everything."""
    with trio.move_on_after(ALL_S):
        # Two consumers report independently; asking both in turn is simplest.
        while not set(sent) <= {*one.bodies, *other.bodies}:  # noqa: ASYNC110
            await trio.sleep(0.05)
        return
    raise ScenarioFailed(f"lost while sharing: {set(sent) - {*one.bodies, *other.bodies}}")
