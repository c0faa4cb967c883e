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
from lanemq.wire.message import decode_message

from ....broker.handlers.pulls._query import NOT_FOUND
from ....broker.values._framed import Queried
from ....broker.values._results import Viewed
from ....net._answers import Answer, passed_on
from ....net._dispatch import Handlers, by_header, typed
from ....net._session import Session
from ...rules._forwarding import ORIGIN_ID_FIELD
from ...rules._positions import BrokerTags, untagged
from ..brokers._brokers import Brokers, Unreachable
from ..brokers._questions import Questions, Search
from ..port._context import ListenerContext
from ..port._queues import SeenQueues
from ..port._records import SeenRecords


@final
@define(eq=False, kw_only=True, repr=False)
class Messages:
    """The requests for single messages at one port; ``record`` is for others as well."""

    _brokers: Brokers
    _own_name: str
    _queues: SeenQueues
    _questions: Questions
    _records: SeenRecords

    async def _brokers_of(self, position: int) -> tuple[list[tuple[str, str | None]], int]:
        """Return the brokers, by name and address, that may have a position, and the place in their
        log."""
        tag, log_position = untagged(position)
        own = self._own_name
        addresses = await self._queues.routes.brokers()
        if tag == 0:  # of a client that has it from a broker itself, which it does not name
            names: Iterable[str] = (own, *sorted(addresses.keys() - {own}))
        else:
            names = BrokerTags({own, *addresses}).names(tag)
        return [(name, addresses.get(name)) for name in names], log_position

    async def record(self, position: int) -> bytes | None:
        """Find the record of a client's position, as clients see it; None if it is gone."""
        candidates, log_position = await self._brokers_of(position)
        question, asked = self._questions.view, ViewMessage(log_position)
        for name, address in candidates:
            try:
                body = (await self._brokers.call(name, address, question, asked)).body
            except Unreachable:
                raise
            except Refused:
                continue
            if body:
                view = await self._queues.routes.find(decode_message(body).topic)
                return self._records.records_from(body, name, view and view.queues)
        return None

    async def view(self, header: ViewMessage) -> Viewed:
        """Return the record at a position. Raises ``Refused``."""
        record = await self.record(header.offset)
        if record is None:
            remark = f"can not find message by the offset, {header.offset}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        return Viewed(record)

    async def send_back(
        self, header: ConsumerSendMsgBack, frame: Frame, session: Session
    ) -> Answer:
        """Ask the broker of the message to deliver it again later, to the group's retry topic.

        The request is the client's own, with the broker's place in it; so is another broker's
        answer, whatever it says.
        """
        candidates, log_position = await self._brokers_of(header.offset)
        refusal = Refused(
            ResponseCode.SYSTEM_ERROR, f"no broker has the message at {header.offset}"
        )
        for name, address in candidates:
            if len(candidates) > 1 and not await self._is_meant(
                header, name, address, log_position
            ):
                continue
            fields = {
                **frame.fields,
                "offset": str(log_position),
                ORIGIN_ID_FIELD: self._records.offset_id(name, log_position),
            }
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

    async def _is_meant(
        self, header: ConsumerSendMsgBack, name: str, address: str | None, log_position: int
    ) -> bool:
        """Return whether a broker has the message that is sent back at the stated place."""
        question, asked = self._questions.view, ViewMessage(log_position)
        try:
            body = (await self._brokers.call(name, address, question, asked)).body
        except Refused:
            return False
        if not body:
            return False
        message = decode_message(body)
        if header.origin_topic and message.topic != header.origin_topic:
            return False
        ids = (message.unique_key, message.offset_id, self._records.offset_id(name, log_position))
        return not header.origin_msg_id or header.origin_msg_id in ids

    async def by_key(self, header: QueryMessage, frame: Frame, session: Session) -> Queried:
        """Answer the records with a key from all brokers that have a part of the topic."""
        view = await self._queues.view(header.topic)
        question, asked = self._questions.by_key, Search(header, frame)
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
            records.records_from(records.seen_records(told.body, name, view), name, view.queues)
            for name, told in sorted(answers.items())
            if told.body
        ]
        last_time_ms = max((0, *(told.last_time_ms for told in answers.values())))
        last_position = max((0, *(told.last_position for told in answers.values())))
        not_found = None if any(found) else NOT_FOUND
        return Queried(b"".join(found), last_time_ms, last_position, not_found)


def register(handlers: Handlers, listener: ListenerContext) -> Messages:
    """Register requests 12, 33 and 36."""
    messages = Messages(
        brokers=listener.brokers,
        own_name=listener.broker.config.broker_name,
        queues=listener.queues,
        questions=listener.questions,
        records=listener.records,
    )
    handlers.add(RequestCode.QUERY_MESSAGE, typed(QueryMessage, messages.by_key))
    handlers.add(RequestCode.VIEW_MESSAGE_BY_ID, by_header(ViewMessage, messages.view))
    handlers.add(RequestCode.CONSUMER_SEND_MSG_BACK, typed(ConsumerSendMsgBack, messages.send_back))
    return messages
