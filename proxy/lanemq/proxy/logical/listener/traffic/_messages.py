"""Single messages at any broker: by offset id (33), by key (12), sent back (36).

A position that a client gives carries the tag of its broker; see ``lanemq.proxy.logical.rules``.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import final

import trio
from attrs import define
from msgspec.structs import replace

from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.headers import ConsumerSendMsgBack, QueryMessage, ViewMessage
from lanemq.wire.logical import ORIGIN_ID_FIELD
from lanemq.wire.message import StoredMessage, decode_message

from ....net._answers import Answer, passed_on
from ....net._dispatch import Handlers, typed
from ....net._session import Session
from ....net._turns import step_by_step
from ....sessions.values._framed import Queried
from ....sessions.values._results import Viewed
from ....sessions.values._rights import RightsOf
from ....sessions.values._shared import NO_MESSAGE
from ....sessions.values._touched import require_reading, require_reading_record
from ...rules._positions import BrokerTags, untagged
from ..brokers._broker import Unreachable
from ..brokers._brokers import CALL_S, Brokers
from ..brokers._questions import BY_KEY, VIEW, Search
from ..port._context import ListenerContext
from ..port._queues import SeenQueues
from ..port._records import SeenRecords


@final
@define(eq=False, kw_only=True, repr=False)
class Messages:
    """The requests for single messages at one port; ``record`` is for others as well."""

    _brokers: Brokers
    _queues: SeenQueues
    _records: SeenRecords
    _rights: RightsOf

    async def _own_record(self, position: int) -> tuple[str, bytes] | None:
        """Return the name of this process's broker and its record at a position of its own.

        It is asked before the name servers are for all brokers: these may be silent. Two brokers
        may share a tag, so None is no proof that there is none.
        """
        own = self._brokers.own
        tag, log_position = untagged(position)
        if own is None or (tag != 0 and not BrokerTags({own.name}).names(tag)):
            return None
        try:
            body = (await own.call(VIEW, ViewMessage(log_position), CALL_S)).body
        except Refused:
            return None
        return (own.name, body) if body else None

    async def _seen(self, body: bytes, name: str) -> bytes:
        """Return a broker's record as clients see it."""
        view = await self._queues.routes.find(decode_message(body).topic)
        return await step_by_step(self._records.records_from(body, name, view and view.queues))

    async def _brokers_of(self, position: int) -> tuple[list[tuple[str, str | None]], int]:
        """Return the brokers, by name and address, that may have a position, and the place in their
        log."""
        tag, log_position = untagged(position)
        own = self._brokers.own
        addresses = await self._queues.routes.brokers()
        near = {own.name} if own is not None else set[str]()
        if tag == 0:  # of a client that has it from a broker itself, which it does not name
            names: Iterable[str] = (*near, *sorted(addresses.keys() - near))
        else:
            names = BrokerTags({*near, *addresses}).names(tag)
        return [(name, addresses.get(name)) for name in names], log_position

    async def record(self, position: int) -> bytes | None:
        """Find the record of a client's position, as clients see it; None if it is gone.

        Raises ``Refused`` if none of the brokers that answer has it, and others do not answer.
        """
        if (own := await self._own_record(position)) is not None:
            name, body = own
            return await self._seen(body, name)
        candidates, log_position = await self._brokers_of(position)
        question, asked = VIEW, ViewMessage(log_position)
        unreachable: Unreachable | None = None
        for name, address in candidates:
            try:
                body = (await self._brokers.call(name, address, question, asked)).body
            except Unreachable as error:
                unreachable = error
                continue
            except Refused:
                continue
            if body:
                return await self._seen(body, name)
        if unreachable is not None:
            raise unreachable
        return None

    async def view(self, header: ViewMessage, frame: Frame, session: Session) -> Viewed:
        """Return the record at a position. Raises ``Refused``."""
        record = await self.record(header.offset)
        if record is None:
            remark = f"can not find message by the offset, {header.offset}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        require_reading_record(self._rights(frame, session), record)
        return Viewed(record)

    async def send_back(
        self, header: ConsumerSendMsgBack, frame: Frame, session: Session
    ) -> Answer:
        """Ask the broker of the message to deliver it again later, to the group's retry topic.

        The request is the client's own, with the broker's place in it; so is another broker's
        answer, whatever it says.
        """
        own = await self._own_record(header.offset)
        if own is not None and self._is_meant(header, own[0], decode_message(own[1])):
            candidates: list[tuple[str, str | None]] = [(own[0], None)]
            log_position = untagged(header.offset)[1]
        else:
            candidates, log_position = await self._brokers_of(header.offset)
        refusal = Refused(
            ResponseCode.SYSTEM_ERROR, f"no broker has the message at {header.offset}"
        )
        rights = self._rights(frame, session)
        for name, address in candidates:
            if len(candidates) > 1 or rights.are_limited:
                message = await self._message_at(name, address, log_position)
                if message is None:
                    continue
                if len(candidates) > 1 and not self._is_meant(header, name, message):
                    continue
                # Another broker is asked in this one's name: it cannot check the client's rights.
                require_reading(rights, message)
            fields = ConsumerSendMsgBack.rewritten(frame.fields, offset=log_position)
            fields[ORIGIN_ID_FIELD] = self._records.offset_id(name, log_position)
            asked = replace(frame, fields=fields)
            try:
                answer = await self._brokers.ask(name, address, asked, session)
            except Refused as refused:
                refusal = refused
                continue
            if not isinstance(answer, Frame):
                return answer
            return passed_on(frame, answer)
        raise refusal

    async def _message_at(
        self, name: str, address: str | None, log_position: int
    ) -> StoredMessage | None:
        """Return the message that a broker has at a place; None where it has none."""
        question, asked = VIEW, ViewMessage(log_position)
        try:
            body = (await self._brokers.call(name, address, question, asked)).body
        except Refused:
            return None
        return decode_message(body) if body else None

    def _is_meant(self, header: ConsumerSendMsgBack, name: str, message: StoredMessage) -> bool:
        """Return whether a broker's message is the one that is sent back."""
        if header.origin_topic and message.topic != header.origin_topic:
            return False
        seen_id = self._records.offset_id(name, message.log_position)
        ids = (message.unique_key, message.offset_id, seen_id)
        return not header.origin_msg_id or header.origin_msg_id in ids

    async def by_key(self, header: QueryMessage, frame: Frame, session: Session) -> Queried:
        """Answer the records with a key from all brokers that have a part of the topic."""
        view = await self._queues.view(header.topic)
        question, asked = BY_KEY, Search(header, frame, session)
        answers: dict[str, Queried] = {}

        async def ask(name: str) -> None:
            with suppress(Refused):  # the others' messages are better than none
                address = view.address(name)
                answers[name] = await self._brokers.call(name, address, question, asked)

        async with trio.open_nursery() as nursery:
            for name in {segment.broker_name for segment in view.queues.segments}:
                nursery.start_soon(ask, name)
        records = self._records
        found = [
            await step_by_step(records.seen_records(told.body, name, view))
            for name, told in sorted(answers.items())
            if told.body
        ]
        last_time_ms = max((0, *(told.last_time_ms for told in answers.values())))
        last_position = max((0, *(told.last_position for told in answers.values())))
        not_found = None if any(found) else NO_MESSAGE
        return Queried(b"".join(found), last_time_ms, last_position, not_found)


def register(handlers: Handlers, listener: ListenerContext) -> Messages:
    """Register requests 12, 33 and 36."""
    messages = Messages(
        brokers=listener.brokers,
        queues=listener.queues,
        records=listener.records,
        rights=listener.host.rights,
    )
    handlers.add(RequestCode.QUERY_MESSAGE, typed(QueryMessage, messages.by_key))
    handlers.add(RequestCode.VIEW_MESSAGE_BY_ID, typed(ViewMessage, messages.view))
    handlers.add(RequestCode.CONSUMER_SEND_MSG_BACK, typed(ConsumerSendMsgBack, messages.send_back))
    return messages
