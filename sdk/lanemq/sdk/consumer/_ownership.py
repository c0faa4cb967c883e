"""Ownership of queues: steps before a queue is read and when it is given up."""

from collections.abc import Collection, Iterable
from typing import Protocol, final

from lanemq.wire.bodies import MessageQueue

from ..observe._log import get_logger
from ._queue_changes import QueueChanges
from .group._offsets import Offsets
from .pulls._held_queue import HeldQueue

LOGGER = get_logger("lanemq.sdk.consumer")


class Ownership(Protocol):
    """The rule by which a consumer makes queues its own before it reads them, and gives them up."""

    async def claim(self, queues: Iterable[MessageQueue]) -> Collection[MessageQueue]:
        """Return those of ``queues`` that may be read; the others may be later."""

    def owns(self, queue: MessageQueue) -> bool:
        """Return whether a queue that was claimed is ours still."""

    async def disclaim(self, queue: MessageQueue) -> None:
        """Give back a queue that was claimed and is not read after all."""

    async def release(self, held: HeldQueue, *, finish: bool) -> None:
        """Give up a queue, which is no longer among those held.

        With ``finish`` nobody waits for it: what listeners still do of it counts.
        """


class Departing(Protocol):
    """Gives queues up when the listeners that run for them have returned."""

    def begin(self, held: HeldQueue) -> None:
        """Hand out nothing more of ``held``, and give it up in a while."""

    def claimable(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Return those of ``queues`` that are not being given up."""


@final
class FreeQueues:
    """Ownership without locks: the consumer that is assigned a queue reads it."""

    def __init__(
        self, offsets: Offsets, changes: QueueChanges, departures: Departing | None = None
    ) -> None:
        self._offsets = offsets
        self._changes = changes
        self._departures = departures

    async def claim(self, queues: Iterable[MessageQueue]) -> Collection[MessageQueue]:
        """Return all but those that are still being given up."""
        return tuple(queues) if self._departures is None else self._departures.claimable(queues)

    def owns(self, queue: MessageQueue) -> bool:
        """Return True: a queue that is held stays held until it is released."""
        return True

    async def disclaim(self, queue: MessageQueue) -> None:
        """Do nothing: nothing was taken."""

    async def release(self, held: HeldQueue, *, finish: bool) -> None:
        """Report progress and leave the queue to the consumer that has it now.

        Listeners that still run do not count then: their progress could overwrite another's.
        """
        if finish and self._departures is not None:
            self._departures.begin(held)
            return
        queue = held.queue
        held.drop()
        self._changes.revoked(queue)
        await self._offsets.persist([queue], wait=False)
        self._offsets.forget(queue)
        LOGGER.info("gave up %s", queue)
