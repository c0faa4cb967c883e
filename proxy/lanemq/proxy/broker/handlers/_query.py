"""Finding single messages: by key (QUERY_MESSAGE, 12) and by offset id (VIEW_MESSAGE_BY_ID, 33).

Source: RocketMQ 4.9.8, QueryMessageProcessor.
"""

from lanemq.storage import Store
from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.headers import QueryMessage, ViewMessage

from ...net._dispatch import Handlers, typed
from ...net._session import Session
from .._context import BrokerContext
from .._results import Viewed
from ._old_readers import for_reader, for_reader_all


def register(handlers: Handlers, broker: BrokerContext) -> None:
    """Register both requests."""
    store, config = broker.store, broker.config

    def query(header: QueryMessage, frame: Frame, session: Session) -> Frame:
        """Answer the records of a topic that have the key, newest first.

        ``key`` is one of the message's KEYS, or its unique key; then the broker decides how
        many are looked for.
        """
        found = store.query(
            header.topic,
            header.key,
            max_count=config.default_query_max_num if header.unique_key_query else header.max_num,
            begin_ms=header.begin_timestamp,
            end_ms=header.end_timestamp,
        )
        fields = {
            "indexLastUpdateTimestamp": str(found.last_update_timestamp_ms),
            "indexLastUpdatePhyoffset": str(found.last_update_position),
        }
        if not found.records:
            remark = "can not find message, maybe time range not correct"
            if found.damaged:
                remark = _damaged(store, found.damaged[0])
            return frame.reply(ResponseCode.QUERY_NOT_FOUND, fields, remark=remark)
        return frame.reply(
            fields=fields, body=b"".join(for_reader_all(found.records, frame.version))
        )

    def view(header: ViewMessage, frame: Frame, session: Session) -> Viewed:
        """Answer the record at a place in the commit log."""
        record = store.record_at(header.offset)
        if record is None:
            remark = f"can not find message by the offset, {header.offset}"
            if store.why_damaged(header.offset):
                remark = _damaged(store, header.offset)
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        return Viewed(for_reader(record, frame.version), record)

    handlers.add(RequestCode.QUERY_MESSAGE, typed(QueryMessage, query))
    handlers.add(RequestCode.VIEW_MESSAGE_BY_ID, typed(ViewMessage, view))


def _damaged(store: Store, log_position: int) -> str:
    why = store.why_damaged(log_position)
    return f"the message at {log_position} of the commit log is damaged: {why}"
