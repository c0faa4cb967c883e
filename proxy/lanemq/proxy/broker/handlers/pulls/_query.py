"""Finding single messages: by key (QUERY_MESSAGE, 12) and by offset id (VIEW_MESSAGE_BY_ID, 33).

Source: RocketMQ 4.9.8, QueryMessageProcessor.
"""

from typing import final

from attrs import define, field

from lanemq.storage import Store
from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.headers import QueryMessage, ViewMessage
from lanemq.wire.message import MAX_PROPERTIES_BYTES

from ....net._dispatch import Handlers, typed
from ....net._page_turns import Turns, in_turns
from ....net._session import Session
from ....sessions.values._framed import Queried
from ....sessions.values._results import Viewed
from ....sessions.values._rights import RightsOf
from ....sessions.values._shared import NO_MESSAGE
from ....sessions.values._touched import require_reading_record
from ...context._context import BrokerContext
from ...settings._config import BrokerConfig
from ._old_readers import for_reader, for_reader_all


@final
@define(eq=False, kw_only=True, repr=False)
class SingleMessages:
    """The searches for single messages of one broker."""

    _config: BrokerConfig
    _rights: RightsOf
    _store: Store
    turns: Turns = field(init=False, factory=Turns)
    """The turns of searches by key; its ``run`` is a task."""

    async def by_key(self, asked: QueryMessage, *, session: Session, version: int) -> Queried:
        """Return the records of a topic that have the key, newest first; others have their turn
        meanwhile.

        ``key`` is one of the message's KEYS, or its unique key; then the broker decides how
        many are looked for. ``version`` is the reader's. Raises ``Refused`` for what no message
        can have: to hash it would take as long as it is.
        """
        for kind, text in ("topic", asked.topic), ("key", asked.key):
            if len(text) > MAX_PROPERTIES_BYTES:
                remark = f"a {kind} of {len(text)} characters, at most {MAX_PROPERTIES_BYTES} fit"
                raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        count = self._config.default_query_max_num if asked.unique_key_query else asked.max_num
        found = await in_turns(
            self.turns,
            session,
            self._store.search.steps(
                asked.topic, asked.key, count, asked.begin_timestamp, asked.end_timestamp
            ),
        )
        last = found.last_update_timestamp_ms, found.last_update_position
        if not found.records:
            remark = self._damaged(found.damaged[0]) if found.damaged else NO_MESSAGE
            return Queried(b"", *last, remark)
        return Queried(b"".join(for_reader_all(found.records, version)), *last)

    def view(self, asked: ViewMessage, *, version: int) -> Viewed:
        """Return the record at a place in the commit log. Raises ``Refused``."""
        record = self._store.record_at(asked.offset, queued=True)
        if record is None:
            remark = f"can not find message by the offset, {asked.offset}"
            if self._store.why_damaged(asked.offset):
                remark = self._damaged(asked.offset)
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        return Viewed(for_reader(record, version), record)

    def _damaged(self, log_position: int) -> str:
        why = self._store.why_damaged(log_position)
        return f"the message at {log_position} of the commit log is damaged: {why}"

    # At the broker's port

    async def answer_query(self, header: QueryMessage, frame: Frame, session: Session) -> Queried:
        return await self.by_key(header, session=session, version=frame.version)

    def answer_view(self, header: ViewMessage, frame: Frame, session: Session) -> Viewed:
        found = self.view(header, version=frame.version)
        require_reading_record(self._rights(frame, session), found.kept or found.body)
        return found


def register(handlers: Handlers, broker: BrokerContext) -> SingleMessages:
    """Register both requests."""
    messages = SingleMessages(config=broker.config, rights=broker.rights, store=broker.store)
    handlers.add(RequestCode.QUERY_MESSAGE, typed(QueryMessage, messages.answer_query))
    handlers.add(RequestCode.VIEW_MESSAGE_BY_ID, typed(ViewMessage, messages.answer_view))
    return messages
