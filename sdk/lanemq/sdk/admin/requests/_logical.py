"""Requests to brokers and name servers about logical queues.

As ``_broker``: the broker's address first, the same errors.
Source: RocketMQ 5.0.0-PREVIEW, MQClientAPIImpl, AdminBrokerProcessor.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from lanemq.wire import RemoteProtocolError, RequestCode
from lanemq.wire.bodies import RouteData
from lanemq.wire.headers import (
    DeleteLogicalQueueMapping,
    GetRouteInfo,
    QueryLogicalQueueMapping,
)
from lanemq.wire.logical import (
    LOGICAL_QUEUE_FLAG,
    AppendSuperseded,
    AppendSupersededResult,
    ClaimedLogicalIndices,
    ClaimLogicalIndices,
    CreateQueueForLogicalQueue,
    LogicalQueues,
    MigrateLogicalQueue,
    ReuseLogicalQueue,
    SealLogicalQueue,
    Segment,
    SegmentState,
    UpdateLogicalQueueMapping,
)

from ..._errors import BadAnswer
from ..._tasks import read_body
from ._caller import Caller

SEAL_TIMEOUT_S: Final = 15.0
"""A broker waits up to ten seconds for writes that are under way."""
APPEND_TIMEOUT_S: Final = 600.0
"""Messages are appended one after the other."""


class LogicalQueueRequests:
    """Requests, one method each."""

    _caller: Caller

    async def logical_queues(self, address: str, topic: str) -> LogicalQueues | None:
        """Return what a broker knows of the logical queues of a topic, its own segments and
        copies of others (413); None if the topic has no logical queues there."""
        header = QueryLogicalQueueMapping(topic=topic)
        code = RequestCode.QUERY_TOPIC_LOGICAL_QUEUE_MAPPING
        frame = await self._caller.ask(address, code, header)
        return await read_body(frame.body, LogicalQueues.decode) if frame.body else None

    async def routed_logical_queues(self, topic: str) -> LogicalQueues | None:
        """Return the logical queues that a name server shows to clients (105), None for a topic
        without. Raises ``RefusedByBroker`` for a topic that does not exist."""
        header = GetRouteInfo(topic, sys_flag=LOGICAL_QUEUE_FLAG)
        frame = await self._caller.ask_name_server(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
        return await read_body(
            frame.body, lambda body: LogicalQueues.of_route(RouteData.decode(body).extra)
        )

    async def map_queue(
        self, address: str, topic: str, queue_id: int, index: int, *, force: bool = False
    ) -> str:
        """Make a physical queue the logical queue ``index`` (411); a negative index takes it
        out. Returns what the broker says: ``set up``, ``already set up`` or ``deleted``.

        An open queue with messages is taken out only by ``force``: readers of the logical queue
        lose them, and readers of the physical one have them.
        """
        body = UpdateLogicalQueueMapping(topic, queue_id, index, force or None).encode
        code = RequestCode.UPDATE_TOPIC_LOGICAL_QUEUE_MAPPING
        return (await self._caller.ask(address, code, body=body)).remark or ""

    async def delete_mapping(self, address: str, topic: str) -> str:
        """End the logical queues of a topic at a broker, where none has a segment left (422)."""
        header = DeleteLogicalQueueMapping(topic=topic)
        code = RequestCode.DELETE_TOPIC_LOGICAL_QUEUE_MAPPING
        return (await self._caller.ask(address, code, header)).remark or ""

    async def seal(self, address: str, segment: Segment) -> Segment:
        """End a segment; what it holds can be read (414). Returns it with its end."""
        body = SealLogicalQueue(segment.topic, segment.queue_id, segment.logical_index)
        code = RequestCode.SEAL_TOPIC_LOGICAL_QUEUE
        return await self._segment(address, code, body.encode)

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
        body = ReuseLogicalQueue(topic, queue_id, index, state, delta).encode
        return await self._segment(address, RequestCode.REUSE_TOPIC_LOGICAL_QUEUE, body)

    async def create_queue(
        self,
        address: str,
        topic: str,
        index: int,
        state: SegmentState,
        *,
        delta: int | None = None,
    ) -> Segment:
        """Begin a segment on a new physical queue, and make the topic if need be (416)."""
        body = CreateQueueForLogicalQueue(topic, index, state, delta).encode
        code = RequestCode.CREATE_MESSAGE_QUEUE_FOR_LOGICAL_QUEUE
        return await self._segment(address, code, body)

    async def prepare_migration(
        self, address: str, source: Segment, destination: Segment
    ) -> MigrateLogicalQueue:
        """Let the broker of ``source`` seal it (417): both segments come back with their
        offsets."""
        code = RequestCode.MIGRATE_TOPIC_LOGICAL_QUEUE_PREPARE
        return await self._migrate(address, code, MigrateLogicalQueue(source, destination))

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
        code = RequestCode.MIGRATE_TOPIC_LOGICAL_QUEUE_COMMIT
        body = MigrateLogicalQueue(source, destination, progress, source_is_gone or None)
        return await self._migrate(address, code, body)

    async def notify_migration(
        self, address: str, source: Segment | None, destination: Segment
    ) -> None:
        """Tell a broker how the migration ended (419)."""
        body = MigrateLogicalQueue(source, destination).encode
        code = RequestCode.MIGRATE_TOPIC_LOGICAL_QUEUE_NOTIFY
        await self._caller.ask(address, code, body=body)

    async def append_superseded(self, address: str, *, topic: str | None = None) -> int:
        """Let a broker append messages it took after their queues had gone on elsewhere (lanemq's
        own).

        At the open ends of the logical queues, in order and once. Returns how many messages that
        were. After any error the same call goes on where it stopped.
        """
        body = AppendSuperseded(topic).encode
        code = RequestCode.APPEND_SUPERSEDED_MESSAGES
        frame = await self._caller.ask(address, code, body=body, timeout_s=APPEND_TIMEOUT_S)
        return (await read_body(frame.body, AppendSupersededResult.decode)).messages

    async def claim_indices(
        self, address: str, asked: ClaimLogicalIndices
    ) -> ClaimedLogicalIndices:
        """Claim indices of logical queues at one broker, or list all claims (lanemq's own).

        Raises ``RefusedByBroker`` where one has another owner; then none of them is claimed there.
        """
        code = RequestCode.CLAIM_LOGICAL_INDICES
        frame = await self._caller.ask(address, code, body=partial(asked.encode, standard=True))
        return await read_body(frame.body, ClaimedLogicalIndices.decode)

    async def _migrate(
        self, address: str, code: RequestCode, body: MigrateLogicalQueue
    ) -> MigrateLogicalQueue:
        timeout_s = max(SEAL_TIMEOUT_S, self._caller.timeout_s)
        frame = await self._caller.ask(address, code, body=body.encode, timeout_s=timeout_s)
        return await read_body(frame.body, MigrateLogicalQueue.decode) if frame.body else body

    async def _segment(self, address: str, code: RequestCode, body: Callable[[], bytes]) -> Segment:
        timeout_s = max(SEAL_TIMEOUT_S, self._caller.timeout_s)
        frame = await self._caller.ask(address, code, body=body, timeout_s=timeout_s)
        if not frame.body:
            # The answer of PREVIEW's brokers when there was nothing to do.
            raise BadAnswer(address, f"request {code}", frame.remark or "no segment in it")
        try:
            return await read_body(frame.body, Segment.decode)
        except RemoteProtocolError as error:
            raise BadAnswer(address, f"request {code}", str(error)) from error
