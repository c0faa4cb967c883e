"""A group's progress in logical queues: kept as logical offsets, so that it stays valid
wherever the queue moves.

A coordinator keeps it as any broker keeps that of its own queues: a server that the route names
as the broker of the logical queues. Without one, each offset is kept at the broker that the
queue ends at, and looked for from there back (``lanemq.wire.logical.ProgressSearch``).
"""

from operator import attrgetter
from typing import NamedTuple, final

from lanemq.wire.bodies import MASTER_ID, MessageQueue
from lanemq.wire.logical import (
    LOGICAL_QUEUE_BROKER,
    READ_FIELD,
    READER_FIELD,
    Chain,
    ProgressSearch,
    Reached,
    Segment,
    progress_keepers,
)

from .._errors import BrokerUnreachable
from ..consumer.requests._queue_calls import QueueCalls
from ..net._client import Client
from ..net._route_table import TopicRoute


@final
class Keeping(NamedTuple):
    """The place where one offset is kept."""

    broker_name: str
    address: str
    queue: MessageQueue
    """Topic and queue id are the key there."""


@final
class ProgressCalls:
    """Reads and writes the progress of one group. Every call may raise any ``LanemqError``."""

    def __init__(self, client: Client, queues: QueueCalls) -> None:
        self._client = client
        self._queues = queues

    def _route(self, queue: MessageQueue) -> TopicRoute:
        route = self._client.routes.get(queue.topic)
        if route is None or route.chains is None:
            raise BrokerUnreachable(str(queue), "it is no longer a logical queue")
        return route

    def keeping(self, queue: MessageQueue) -> Keeping:
        """Return the place where progress in ``queue`` goes now. Raises ``BrokerUnreachable``."""
        route = self._route(queue)
        if (address := coordinator(route)) is not None:
            return Keeping(LOGICAL_QUEUE_BROKER, address, queue)
        for place in progress_keepers(route.chain(queue) or Chain(queue.queue_id)):
            address = _master(route, place.segment)
            if address is not None:
                return Keeping(place.segment.broker_name, address, place.queue)
        raise BrokerUnreachable(str(queue), "no broker that could keep offsets is running")

    async def committed_offset(self, queue: MessageQueue) -> int | None:
        """Return the offset where the group resumes, or None if it never committed.

        A group that has read the physical queue before it became this logical one goes on where
        it was: at that moment the offsets are the same.
        """
        route = self._route(queue)
        if (address := coordinator(route)) is not None:
            return await self._queues.committed_offset(queue, address=address)
        search = ProgressSearch(self._queues.group, route.chain(queue) or Chain(queue.queue_id))
        for place in search:
            master = _master(route, place.segment)
            if master is not None:
                offset, is_certain = await self._queues.kept_offset(place.queue, master)
                search.told(place, offset, is_certain=is_certain)
            elif place.is_needed:
                raise BrokerUnreachable(place.segment.broker_name, "it is not in any known route")
        return search.offset

    async def commit_offset(
        self, queue: MessageQueue, offset: int, *, wait: bool, reached: Reached | None = None
    ) -> None:
        """Store the group's progress; unless ``wait``, without an answer.

        ``reached`` is the position it was read at: a coordinator may know already that the queue
        went past that.
        """
        keeping = self.keeping(queue)
        fields = {READER_FIELD: "true"}
        if reached is not None:
            fields[READ_FIELD] = reached.meant
        await self._queues.commit_offset(
            keeping.queue, offset, wait=wait, address=keeping.address, more=fields
        )


def coordinator(route: TopicRoute) -> str | None:
    """Return the address of the server, if any, that keeps logical queues' offsets and locks."""
    return route.brokers.get(LOGICAL_QUEUE_BROKER, {}).get(MASTER_ID)


def lock_keeper(route: TopicRoute, queue: MessageQueue) -> str | None:
    """Return the address of the broker that lends the lock of a logical queue; None if none is
    running.

    Without a coordinator that is the one the queue begins at: migrations append to the end, so
    consumers with an older and with a newer view of the queue ask the same one.
    """
    if (address := coordinator(route)) is not None:
        return address
    segments = route.chain(queue) or ()
    # What never had a message may come before or behind what is there: it tells nothing.
    for segment in sorted(segments, key=attrgetter("is_empty")):
        address = _master(route, segment)
        if address is not None:
            return address
    return None


def _master(route: TopicRoute, segment: Segment) -> str | None:
    return route.brokers.get(segment.broker_name, {}).get(MASTER_ID)
