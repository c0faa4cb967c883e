"""Generated from lanemq.sdk.admin.requests._logical by sdk/tools/generate_faces.py."""

from collections.abc import Mapping

from lanemq.wire.logical import (
    ClaimedLogicalIndices,
    ClaimLogicalIndices,
    LogicalQueues,
    MigrateLogicalQueue,
    Segment,
    SegmentState,
)

from ...admin._client import AdminClient
from .._bridge import Bridge


class LogicalQueueRequests:
    """Requests, one method each."""

    _core: AdminClient
    _bridge: Bridge

    async def logical_queues(self, address: str, topic: str) -> LogicalQueues | None:
        """Return what a broker knows of the logical queues of a topic, its own segments and
        copies of others (413); None if the topic has no logical queues there."""
        return await self._bridge.call(self._core.logical_queues, address, topic)

    async def routed_logical_queues(self, topic: str) -> LogicalQueues | None:
        """Return the logical queues that a name server shows to clients (105), None for a topic
        without. Raises ``RefusedByBroker`` for a topic that does not exist."""
        return await self._bridge.call(self._core.routed_logical_queues, topic)

    async def map_queue(
        self, address: str, topic: str, queue_id: int, index: int, *, force: bool = False
    ) -> str:
        """Make a physical queue the logical queue ``index`` (411); a negative index takes it
        out. Returns what the broker says: ``set up``, ``already set up`` or ``deleted``.

        An open queue with messages is taken out only by ``force``: readers of the logical queue
        lose them, and readers of the physical one have them.
        """
        return await self._bridge.call(
            self._core.map_queue, address, topic, queue_id, index, force=force
        )

    async def delete_mapping(self, address: str, topic: str) -> str:
        """End the logical queues of a topic at a broker, where none has a segment left (422)."""
        return await self._bridge.call(self._core.delete_mapping, address, topic)

    async def seal(self, address: str, segment: Segment) -> Segment:
        """End a segment; what it holds can be read (414). Returns it with its end."""
        return await self._bridge.call(self._core.seal, address, segment)

    async def reuse_queue(
        self,
        address: str,
        topic: str,
        queue_id: int,
        index: int,
        state: SegmentState,
        *,
        delta: int | None = None,
    ) -> Segment:
        """Begin a segment on a physical queue that is free (415).

        ``delta`` is its first logical offset where ``state`` is Normal; 5.0.0-PREVIEW takes 0
        all the same.
        """
        return await self._bridge.call(
            self._core.reuse_queue, address, topic, queue_id, index, state, delta=delta
        )

    async def create_queue(
        self, address: str, topic: str, index: int, state: SegmentState, *, delta: int | None = None
    ) -> Segment:
        """Begin a segment on a new physical queue, and make the topic if need be (416)."""
        return await self._bridge.call(
            self._core.create_queue, address, topic, index, state, delta=delta
        )

    async def prepare_migration(
        self, address: str, source: Segment, destination: Segment
    ) -> MigrateLogicalQueue:
        """Let the broker of ``source`` seal it (417): both segments come back with their
        offsets."""
        return await self._bridge.call(self._core.prepare_migration, address, source, destination)

    async def commit_migration(
        self,
        address: str,
        source: Segment | None,
        destination: Segment,
        progress: Mapping[str, int] | None = None,
        *,
        source_is_gone: bool = False,
    ) -> MigrateLogicalQueue:
        """Let the broker of ``destination`` take its place in the queue (418).

        ``progress`` (group -> logical offset) is what the source said when it prepared; where it
        is None, a broker of lanemq asks the source for it. ``source_is_gone`` is an operator's
        word that a source that is not sealed, and that a name server lists, is lost.
        """
        return await self._bridge.call(
            self._core.commit_migration,
            address,
            source,
            destination,
            progress,
            source_is_gone=source_is_gone,
        )

    async def notify_migration(
        self, address: str, source: Segment | None, destination: Segment
    ) -> None:
        """Tell a broker how the migration ended (419)."""
        await self._bridge.call(self._core.notify_migration, address, source, destination)

    async def append_superseded(self, address: str, *, topic: str | None = None) -> int:
        """Let a broker append messages it took after their queues had gone on elsewhere (lanemq's
        own).

        At the open ends of the logical queues, in order and once. Returns how many messages that
        were. After any error the same call goes on where it stopped.
        """
        return await self._bridge.call(self._core.append_superseded, address, topic=topic)

    async def claim_indices(
        self, address: str, asked: ClaimLogicalIndices
    ) -> ClaimedLogicalIndices:
        """Claim indices of logical queues at one broker, or list all claims (lanemq's own).

        Raises ``RefusedByBroker`` where one has another owner; then none of them is claimed there.
        """
        return await self._bridge.call(self._core.claim_indices, address, asked)
