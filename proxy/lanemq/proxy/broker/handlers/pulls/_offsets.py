"""Requests about offsets: of groups, and of the begin and end of queues.

Source: RocketMQ 4.9.8, ConsumerManageProcessor (14, 15), AdminBrokerProcessor (29 to 32).
"""

from collections.abc import Awaitable, Mapping
from typing import Final, final

import trio
from attrs import define

from lanemq.storage import Boundary, OffsetTable, Store
from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.headers import (
    GetEarliestMsgStoretime,
    GetMaxOffset,
    GetMinOffset,
    QueryConsumerOffset,
    SearchOffset,
    UpdateConsumerOffset,
)
from lanemq.wire.logical import PROGRESS_PREFIX

from ....logical.rules._forwarding import hops_of
from ....logical.rules._mapping import TopicMapping
from ....logical.rules._reading import is_continued, queue_max, queue_min
from ....net._dispatch import Handlers, by_header, typed
from ....net._session import Session
from ....net._turns import Steps, step_by_step
from ....sessions.state._clients import ClientRegistry
from ....sessions.state._stages import GroupStages
from ....sessions.values._framed import EarliestTime, GroupOffset, QueueOffset
from ....sessions.values._results import DONE, Done
from ....sessions.values._shared import NO_OFFSET, CommitOffset, as_of_client
from ...context._context import BrokerContext
from ...logical.state._progress import LogicalProgress
from ...logical.traffic._stages import StageCounts
from ...state._unknown_progress import UnknownProgress


@final
@define(eq=False, kw_only=True, repr=False)
class GroupOffsets:
    """The offsets of groups, in queues and in logical queues."""

    _clients: ClientRegistry[Session]
    _commit_offset: CommitOffset
    _counts: StageCounts
    _logical_progress: LogicalProgress
    _offsets: OffsetTable
    _stages: GroupStages
    _store: Store
    _unknown: UnknownProgress

    def query(self, header: QueryConsumerOffset) -> GroupOffset | Awaitable[GroupOffset]:
        """Return the queue offset at which the group goes on; later where its stages have to be
        counted first, and that takes more than a turn.

        Where it never committed, it begins at 0, but only in a queue so young that its first
        message is still in memory (no further behind the log's end than 40 % of what the
        machine has), or in one that was never written. In any other, and for a client that
        asks for it by ``setZeroIfNotFound=false``, the client follows its own rule: raises
        ``Refused`` (QUERY_NOT_FOUND).
        """
        topic = header.topic
        if topic.startswith(PROGRESS_PREFIX):
            counts = self._counts.count_out(header.consumer_group, topic, header.queue_id)
            for _ in counts:
                return self._counted(header, counts)
        return self._kept(header)

    async def _counted(self, header: QueryConsumerOffset, counts: Steps[None]) -> GroupOffset:
        await trio.lowlevel.checkpoint()
        await step_by_step(counts)
        return self._kept(header)

    def _kept(self, header: QueryConsumerOffset) -> GroupOffset:
        topic, queue_id = header.topic, header.queue_id
        if topic.startswith(PROGRESS_PREFIX):
            offset = self._logical_progress.kept(header.consumer_group, topic, queue_id)
        else:
            offset = self._offsets.get(header.consumer_group, topic, queue_id)
        if offset is None:
            if header.set_zero_if_not_found is False or not self._is_young(topic, queue_id):
                raise Refused(ResponseCode.QUERY_NOT_FOUND, NO_OFFSET)
            return GroupOffset(0)
        return GroupOffset(offset, is_kept=topic.startswith(PROGRESS_PREFIX))

    def answer_query(
        self, header: QueryConsumerOffset, frame: Frame, session: Session
    ) -> GroupOffset | Awaitable[GroupOffset]:
        return self.query(as_of_client(header, frame))

    def _is_young(self, topic: str, queue_id: int) -> bool:
        if self._store.bounds(topic, queue_id)[0] > 0:
            return False
        first = self._store.units(topic, queue_id, 0, 1)
        return not first or not self._store.is_cold(first[0].log_position)

    def update(self, header: UpdateConsumerOffset, *, hops: int = 0) -> Done:
        """Keep the offset as given, backwards too.

        A group of which nobody is connected was moved by an operator; if that was backwards,
        its stages are counted again from there. ``hops`` is how often another broker passed
        it on. Raises ``Refused`` as ``UnknownProgress.check``.
        """
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        offset = header.commit_offset
        self._unknown.check(group, topic, queue_id)
        is_behind = self._stages.is_behind(group, topic, queue_id, offset)
        if is_behind and self._clients.consumer_group(group) is None:
            self._stages.restart(group, topic, queue_id, offset)
        self._commit_offset(group, topic, queue_id, offset, hops=hops)
        return DONE

    def answer_update(self, header: UpdateConsumerOffset, frame: Frame, session: Session) -> Done:
        return self.update(header, hops=hops_of(frame))


@final
@define(eq=False, kw_only=True, repr=False)
class QueueOffsets:
    """The bounds of message queues, and their offsets by time."""

    _mappings: Mapping[str, TopicMapping]
    _store: Store

    def search(self, header: SearchOffset) -> QueueOffset:
        """Return the offset at a time; clients since 5.0 say which side of it they want."""
        boundary = _BOUNDARIES.get((header.boundary_type or "").upper(), Boundary.NEAREST)
        topic, queue_id = header.topic, header.queue_id
        offset = self._store.offset_by_time(topic, queue_id, header.timestamp, boundary=boundary)
        mapping = self._mappings.get(topic)
        if mapping is not None:
            begin, end = self._store.bounds(topic, queue_id)
            offset = max(offset, queue_min(mapping, queue_id, begin))
            offset = min(offset, queue_max(mapping, queue_id, end))
        return QueueOffset(offset)

    def get_max(self, header: GetMaxOffset) -> QueueOffset:
        """Return the end of a queue; a reader of a logical queue is told if that is elsewhere."""
        topic, queue_id = header.topic, header.queue_id
        end, mapping = self._store.bounds(topic, queue_id)[1], self._mappings.get(topic)
        if mapping is None or not header.logical_queue:
            return QueueOffset(end)
        end = queue_max(mapping, queue_id, end)
        return QueueOffset(end, is_continued=is_continued(mapping, queue_id))

    def get_min(self, header: GetMinOffset) -> QueueOffset:
        """Return the begin of a queue."""
        topic, queue_id = header.topic, header.queue_id
        begin, mapping = self._store.bounds(topic, queue_id)[0], self._mappings.get(topic)
        if mapping is not None:
            begin = queue_min(mapping, queue_id, begin)
        return QueueOffset(begin)

    def earliest(self, header: GetEarliestMsgStoretime) -> EarliestTime:
        """Return the store time of a queue's first message."""
        return EarliestTime(self._store.earliest_time_ms(header.topic, header.queue_id))


def register(handlers: Handlers, broker: BrokerContext) -> tuple[GroupOffsets, QueueOffsets]:
    """Register the requests about offsets of groups (14, 15) and of queues (29, 30, 31, 32)."""
    group_offsets = GroupOffsets(
        clients=broker.clients,
        commit_offset=broker.commit_offset,
        counts=StageCounts.of(broker),
        logical_progress=broker.logical_progress,
        offsets=broker.store.tables.consumer_offsets,
        stages=broker.stages,
        store=broker.store,
        unknown=broker.unknown_progress,
    )
    queue_offsets = QueueOffsets(
        mappings=broker.logical.mappings,
        store=broker.store,
    )
    handlers.add(
        RequestCode.QUERY_CONSUMER_OFFSET, typed(QueryConsumerOffset, group_offsets.answer_query)
    )
    handlers.add(
        RequestCode.UPDATE_CONSUMER_OFFSET, typed(UpdateConsumerOffset, group_offsets.answer_update)
    )
    handlers.add(
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, by_header(SearchOffset, queue_offsets.search)
    )
    handlers.add(RequestCode.GET_MAX_OFFSET, by_header(GetMaxOffset, queue_offsets.get_max))
    handlers.add(RequestCode.GET_MIN_OFFSET, by_header(GetMinOffset, queue_offsets.get_min))
    handlers.add(
        RequestCode.GET_EARLIEST_MSG_STORETIME,
        by_header(GetEarliestMsgStoretime, queue_offsets.earliest),
    )
    return group_offsets, queue_offsets


_BOUNDARIES: Final = {"LOWER": Boundary.LOWER, "UPPER": Boundary.UPPER}
