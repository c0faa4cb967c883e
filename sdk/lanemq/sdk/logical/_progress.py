"""A group's progress in logical queues: kept as logical offsets, so that it stays valid
wherever the queue moves.

A coordinator keeps it as any broker keeps that of its own queues: a server that the route names
as the broker of the logical queues. Without one, each offset is kept at the broker that the
queue ends at, under a name made of the topic and of the first offset of that last segment
(``lanemq.wire.logical.progress_topic``). So a search from the last segment back finds the
latest first, and nothing has to be carried along when the queue moves: what was committed at the
old place stays there and is found, until something is committed at the new one.
"""

from collections.abc import Iterator
from operator import attrgetter
from typing import NamedTuple, final

from lanemq.wire.bodies import MASTER_ID, MessageQueue
from lanemq.wire.logical import LOGICAL_QUEUE_BROKER, Segment, progress_topic
from lanemq.wire.message import is_stage_group

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
class LogicalProgress:
    """Reads and writes the progress of one group. Every call may raise any ``LanemqError``."""

    def __init__(self, client: Client, queues: QueueCalls) -> None:
        self._client = client
        self._queues = queues

    def _route(self, queue: MessageQueue) -> TopicRoute:
        route = self._client.routes.get(queue.topic)
        if route is None or route.chains is None:
            raise BrokerUnreachable(str(queue), "it is no logical queue any more")
        return route

    def keeping(self, queue: MessageQueue) -> Keeping:
        """Return the place where progress in ``queue`` goes now. Raises ``BrokerUnreachable``."""
        route = self._route(queue)
        if (address := coordinator(route)) is not None:
            return Keeping(LOGICAL_QUEUE_BROKER, address, queue)
        for segment, key in reversed(list(_places(route, queue))):
            address = route.brokers.get(segment.broker_name, {}).get(MASTER_ID)
            if address is not None:
                return Keeping(segment.broker_name, address, key)
        raise BrokerUnreachable(str(queue), "no broker that could keep offsets is running")

    async def committed_offset(self, queue: MessageQueue) -> int | None:
        """Return the offset where the group resumes, or None if it never committed.

        A group that has read the physical queue before it became this logical one goes on where
        it was: at that moment the offsets are the same.
        """
        route = self._route(queue)
        if (address := coordinator(route)) is not None:
            return await self._queues.committed_offset(queue, address=address)
        zero: int | None = None
        for segment, key in reversed(list(_places(route, queue))):
            master = route.brokers.get(segment.broker_name, {}).get(MASTER_ID)
            if master is None:
                if segment.is_readable or segment.is_writable:
                    # What it keeps may be the latest: anything else could lose messages.
                    raise BrokerUnreachable(segment.broker_name, "it is not in any known route")
                continue
            offset, is_certain = await self._queues.kept_offset(key, master)
            if offset or is_certain:
                return None if offset is None else self._worth(segment, offset)
            # A broker that does not know how to say "none" says 0.
            zero = offset if zero is None else zero
        before = await self._before_mapping(route, queue)
        return zero if before is None else before

    def _worth(self, segment: Segment, offset: int) -> int:
        """Bound the offset of a broker that may not know yet that its segment has an end."""
        is_stage = is_stage_group(self._queues.group)
        return offset if is_stage else segment.clamp_progress(offset)

    async def _before_mapping(self, route: TopicRoute, queue: MessageQueue) -> int | None:
        chain = route.chain(queue)
        first = None if chain is None else chain.origin
        if first is None:
            return None
        master = route.brokers.get(first.broker_name, {}).get(MASTER_ID)
        if master is None:
            return None
        offset = await self._queues.committed_offset(
            first.message_queue, address=master, zero_if_young=False
        )
        return None if offset is None else first.clamp_max(offset)

    async def commit_offset(self, queue: MessageQueue, offset: int, *, wait: bool) -> None:
        """Store the group's progress; unless ``wait``, without an answer."""
        keeping = self.keeping(queue)
        await self._queues.commit_offset(
            keeping.queue, offset, wait=wait, address=keeping.address, of_logical_queue=True
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
        address = route.brokers.get(segment.broker_name, {}).get(MASTER_ID)
        if address is not None:
            return address
    return None


def _places(route: TopicRoute, queue: MessageQueue) -> Iterator[tuple[Segment, MessageQueue]]:
    """Iterate over the segments that have a place in the queue, in order, and the key at each."""
    chain = route.chain(queue)
    for segment in chain.placed if chain is not None else ():
        topic = progress_topic(queue.topic, segment.delta)
        yield segment, MessageQueue(topic, segment.broker_name, queue.queue_id)
