"""Offsets: what a group has consumed, and where the queues begin and end.

Source: RocketMQ 4.9.8, ConsumerManageProcessor (14, 15), AdminBrokerProcessor (29 to 32).
"""

from typing import Final

from lanemq.storage import Boundary
from lanemq.wire import Frame, Refused, RequestCode, ResponseCode
from lanemq.wire.headers import (
    GetEarliestMsgStoretime,
    GetMaxOffset,
    GetMinOffset,
    QueryConsumerOffset,
    SearchOffset,
    UpdateConsumerOffset,
)
from lanemq.wire.logical import REDIRECT_FIELD, REDIRECT_VALUE

from .._dispatch import Handlers, typed
from .._reply_template import ReplyTemplate
from .._session import Session
from ..logical import is_continued, queue_max, queue_min
from ._context import BrokerContext

NOT_FOUND: Final = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"


def register(handlers: Handlers, broker: BrokerContext) -> None:
    """Offsets of groups (14, 15) and of queues (29, 30, 31, 32)."""
    store, offsets = broker.store, broker.store.tables.consumer_offsets
    mappings = broker.logical.mappings
    updated = ReplyTemplate().encode

    def query(header: QueryConsumerOffset, frame: Frame, session: Session) -> Frame:
        """Answer the queue offset at which the group goes on.

        Where it never committed, it begins at 0, but only in a queue so young that its first
        message is still in memory (no further behind the log's end than 40 % of what the
        machine has), or in one that was never written. In any other, and for a client that
        asks for it by ``setZeroIfNotFound=false``, the client follows its own rule.
        """
        topic, queue_id = header.topic, header.queue_id
        offset = offsets.get(header.consumer_group, topic, queue_id)
        if offset is None:
            if header.set_zero_if_not_found is False or not _is_young(topic, queue_id):
                raise Refused(ResponseCode.QUERY_NOT_FOUND, NOT_FOUND)
            offset = 0
        return frame.reply(fields={"offset": str(offset)})

    def _is_young(topic: str, queue_id: int) -> bool:
        if store.bounds(topic, queue_id)[0] > 0:
            return False
        first = store.units(topic, queue_id, 0, 1)
        return not first or not store.is_cold(first[0].log_position)

    def update(header: UpdateConsumerOffset, frame: Frame, session: Session) -> bytes:
        """Keep the offset as it is given, backwards too.

        A group of which nobody is connected was moved by an operator; if that was backwards,
        its stages are counted anew from there.
        """
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        offset = header.commit_offset
        is_behind = broker.stages.is_behind(group, topic, queue_id, offset)
        if is_behind and broker.clients.consumer_group(group) is None:
            broker.stages.restart(group, topic, queue_id, offset)
        broker.commit_offset(group, topic, queue_id, offset)
        return updated(frame)

    def search(header: SearchOffset, frame: Frame, session: Session) -> Frame:
        """Answer the offset at a time; clients since 5.0 say which side of it they want."""
        boundary = _BOUNDARIES.get((header.boundary_type or "").upper(), Boundary.NEAREST)
        topic, queue_id = header.topic, header.queue_id
        offset = store.offset_by_time(topic, queue_id, header.timestamp, boundary=boundary)
        mapping = mappings.get(topic)
        if mapping is not None:
            begin, end = store.bounds(topic, queue_id)
            offset = max(offset, queue_min(mapping, queue_id, begin))
            offset = min(offset, queue_max(mapping, queue_id, end))
        return frame.reply(fields={"offset": str(offset)})

    def get_max(header: GetMaxOffset, frame: Frame, session: Session) -> Frame:
        """Answer the end of a queue; one who reads a logical queue hears if that is elsewhere."""
        topic, queue_id = header.topic, header.queue_id
        end, mapping = store.bounds(topic, queue_id)[1], mappings.get(topic)
        if mapping is None or not header.logical_queue:
            return frame.reply(fields={"offset": str(end)})
        fields = {"offset": str(queue_max(mapping, queue_id, end))}
        if is_continued(mapping, queue_id):
            fields[REDIRECT_FIELD] = REDIRECT_VALUE
        return frame.reply(fields=fields)

    def get_min(header: GetMinOffset, frame: Frame, session: Session) -> Frame:
        topic, queue_id = header.topic, header.queue_id
        begin, mapping = store.bounds(topic, queue_id)[0], mappings.get(topic)
        if mapping is not None:
            begin = queue_min(mapping, queue_id, begin)
        return frame.reply(fields={"offset": str(begin)})

    def earliest(header: GetEarliestMsgStoretime, frame: Frame, session: Session) -> Frame:
        time_ms = store.earliest_time_ms(header.topic, header.queue_id)
        return frame.reply(fields={"timestamp": str(time_ms)})

    handlers.add(RequestCode.QUERY_CONSUMER_OFFSET, typed(QueryConsumerOffset, query))
    handlers.add(RequestCode.UPDATE_CONSUMER_OFFSET, typed(UpdateConsumerOffset, update))
    handlers.add(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, typed(SearchOffset, search))
    handlers.add(RequestCode.GET_MAX_OFFSET, typed(GetMaxOffset, get_max))
    handlers.add(RequestCode.GET_MIN_OFFSET, typed(GetMinOffset, get_min))
    handlers.add(RequestCode.GET_EARLIEST_MSG_STORETIME, typed(GetEarliestMsgStoretime, earliest))


_BOUNDARIES: Final = {"LOWER": Boundary.LOWER, "UPPER": Boundary.UPPER}
