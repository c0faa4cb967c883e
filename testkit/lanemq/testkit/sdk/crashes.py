"""The death of a client's process: at a moment that the test chooses, in the middle of its work."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import trio

from lanemq.wire import RequestCode
from lanemq.wire.frame import Frame

from .cluster import FakeCluster, Peer, Process

UPDATE: Final = RequestCode.UPDATE_CONSUMER_OFFSET


@asynccontextmanager
async def until_killed(process: Process, for_s: float) -> AsyncIterator[None]:
    """Run the block until the process is killed, or for so long."""
    with trio.move_on_after(for_s) as scope:
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                while not process.killed:  # noqa: ASYNC110 - simulated time
                    await trio.sleep(0.01)
                scope.cancel()

            nursery.start_soon(watch)
            yield
            nursery.cancel_scope.cancel()


def kill_after(cluster: FakeCluster, process: Process, commits: int) -> None:
    """Let the process die between its ``commits``-th commit of topic T and the one after."""
    original = cluster.broker.handlers[UPDATE]
    dead: list[Peer] = []
    left = commits

    def update(frame: Frame, peer: Peer) -> Frame | None:
        nonlocal left
        if frame.fields["topic"] != "T":
            return original(frame, peer)
        if left == 0 and not process.killed:
            process.killed = True
            cluster.nursery.start_soon(process.kill)
            dead.extend(cluster.broker.peers)
        if peer in dead:
            return None
        left -= 1
        return original(frame, peer)

    cluster.broker.handlers[UPDATE] = update
