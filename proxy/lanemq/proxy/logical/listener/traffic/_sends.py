"""Sends to a logical queue: to its last segment, and to the next one when the queue moves.

The client addresses a queue by its index and is answered in its numbers, wherever the message
went. What this process's broker stores without further ado, as almost all that is sent to it, is
stored here at once and answered in the queue's numbers; all other requests are passed on.

Source: the translation is lanemq's own; what brokers answer is 5.0.0-PREVIEW's.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, final

from attrs import define, field
from msgspec.structs import replace

from lanemq.wire import HostAddress, Refused, RequestCode, ResponseCode
from lanemq.wire.frame import FLAG_ONEWAY, Frame
from lanemq.wire.logical import (
    LOGICAL_QUEUE_FLAG,
    ROUNDS_MAX,
    SEGMENT_FIELD,
    Segment,
    translate,
)

from ....broker.handlers.sends._send import Sends as BrokerSends
from ....broker.values._results import Stored, is_redirect, redirect_in
from ....net._answers import Answer, Later
from ....net._dispatch import Handlers
from ....net._session import Session
from ...rules._forwarding import (
    BORN_HOST_FIELD,
    born_host_of,
    flags_field,
    half_forbidden,
    is_half,
    queue_field,
    stored_offset,
)
from ...rules._gate import SegmentClosed
from ...rules._mapping import TopicMapping
from ...rules._positions import broker_tag, tagged
from ..brokers._brokers import Brokers, Unreachable
from ..brokers._routes import TOPICS_MAX, LogicalRoutes, TopicView
from ..port._context import ListenerContext
from ..port._queues import SeenQueues
from ..port._records import SeenRecords
from ._tails import own_open_end, reachable_tail, tail

POSITION_DIGITS: Final = 16

Seen = Stored | Frame
"""The answer as clients of the listener see it; a frame comes from another broker."""


@final
@dataclass(frozen=True, slots=True)
class _OpenEnds:
    """The results of ``own_open_end`` for a topic's queues, valid as long as view and mapping
    stay."""

    view: TopicView
    mapping: TopicMapping
    segments: dict[int, Segment | None]


@final
@define(eq=False, kw_only=True, repr=False)
class Sends:
    """The send handlers of one port."""

    _address: HostAddress
    _brokers: Brokers
    _count_failed: Callable[[], None]
    _mappings: Mapping[str, TopicMapping]
    _own_name: str
    _queues: SeenQueues
    _records: SeenRecords
    _routes: LogicalRoutes
    _sends: BrokerSends
    _open_ends: dict[str, _OpenEnds] = field(factory=dict, init=False)

    def handler(self, code: RequestCode) -> Callable[[Frame, Session], Seen | Awaitable[Seen]]:
        """Make the handler of one request code."""
        pass_on, open_end, count_failed = self._pass_on, self._open_end, self._count_failed
        append, flushed = self._sends.quick[code], self._sends.flushed
        id_field = queue_field(code)
        topic_field = "b" if id_field == "e" else "topic"
        tag = broker_tag(self._own_name)

        def send(frame: Frame, session: Session) -> Seen | Awaitable[Seen]:
            try:
                topic, queue_id = frame.fields[topic_field], int(frame.fields[id_field])
                segment, stored = open_end(topic, queue_id), None
                if segment is not None:
                    stored = append(frame, session, segment.queue_id)
            except SegmentClosed:
                segment = None
            except Refused:
                count_failed()
                raise
            if segment is None or stored is None:
                return pass_on(topic, queue_id, frame, session)
            (position,) = stored.log_positions
            seen = Stored(
                (tagged(tag, position),),
                queue_id,
                segment.to_logical(stored.queue_offset),
                stored.end,
                stored.waits,
            )
            return flushed(seen) if seen.waits and not frame.flag & FLAG_ONEWAY else seen

        return send

    def _open_end(self, topic: str, queue_id: int) -> Segment | None:
        """Return the open end of a queue, if it is at this process's broker, and that agrees."""
        view, mapping = self._routes.get(topic), self._mappings.get(topic)
        if view is None or mapping is None:
            return None
        known = self._open_ends.get(topic)
        if known is None or known.view is not view or known.mapping is not mapping:
            if len(self._open_ends) >= TOPICS_MAX:
                self._open_ends.clear()
            known = self._open_ends[topic] = _OpenEnds(view, mapping, {})
        try:
            return known.segments[queue_id]
        except KeyError:
            index = self._queues.index_in(view, queue_id)
            found = own_open_end(view, mapping, index)
            if view.chain(index) is not None:
                known.segments[queue_id] = found
            return found

    def _pass_on(
        self, topic: str, queue_id: int, frame: Frame, session: Session
    ) -> Seen | Awaitable[Seen]:
        """Forward a send to its broker; this process's own may answer at once."""
        if is_half(frame):
            raise half_forbidden(self._address.host)
        index = self._queues.known_index(topic, queue_id)
        if index is None:
            return self._find(topic, queue_id, frame, session)
        chain = self._routes.chain(topic, index)
        segment = tail(chain) if chain is not None else None
        if segment is None or segment.delta < 0 or not self._brokers.is_own(segment.broker_name):
            return self._search(topic, index, frame, session)
        answer = self._brokers.ask_own(_addressed(frame, segment, session), session)
        if isinstance(answer, Awaitable):
            return Later(answer, self._finish(answer, segment, topic, index, frame, session))
        if is_redirect(answer):
            return self._redirected(answer, topic, index, frame, session)
        return self._seen(frame, answer, segment)

    async def _find(self, topic: str, queue_id: int, frame: Frame, session: Session) -> Seen:
        index = await self._queues.index(topic, queue_id)
        return await self._search(topic, index, frame, session)

    async def _finish(
        self,
        under_way: Awaitable[Answer],
        segment: Segment,
        topic: str,
        index: int,
        frame: Frame,
        session: Session,
    ) -> Seen:
        answer = await under_way
        if is_redirect(answer):
            return await self._redirected(answer, topic, index, frame, session)
        return self._seen(frame, answer, segment)

    async def _redirected(
        self, answer: Answer, topic: str, index: int, frame: Frame, session: Session
    ) -> Seen:
        await self._routes.redirected(topic, redirect_in(answer))
        return await self._search(topic, index, frame, session)

    async def _search(self, topic: str, index: int, frame: Frame, session: Session) -> Seen:
        unreachable: set[str] = set()
        refusal: Refused | None = None
        for _ in range(ROUNDS_MAX):
            view, chain = await self._queues.chain(topic, index)
            segment = reachable_tail(chain, unreachable)
            if segment is None:
                break
            try:
                answer = await self._brokers.ask(
                    name := segment.broker_name,
                    view.address(name),
                    _addressed(frame, segment, session),
                    session,
                )
            except Unreachable as error:
                # Nothing was stored: if the queue ends elsewhere by now, the message goes there.
                refusal = error
                unreachable.add(error.broker_name)
                await self._routes.refresh(topic)
                continue
            if not is_redirect(answer):
                if segment.delta < 0:
                    segment = await self._placed(segment)
                return self._seen(frame, answer, segment)
            await self._routes.redirected(topic, redirect_in(answer))
        if refusal is not None:
            raise refusal
        remark = f"topic[{topic}] queueId[{index}] takes no messages"
        raise Refused(ResponseCode.NO_PERMISSION, remark)

    async def _placed(self, segment: Segment) -> Segment:
        """Return a destination with its place, once known, after a write that came before."""
        topic = segment.topic
        await self._routes.refresh(topic)
        chain = self._routes.chain(topic, segment.logical_index)
        found = chain.find(segment.key) if chain is not None else None
        return found or segment

    def _seen(self, asked: Frame, answer: Answer, segment: Segment) -> Seen:
        """Translate a broker's answer for the client of the listener."""
        # As the client named it: among how many brokers queues are divided may have changed since.
        queue_id = int(asked.fields[queue_field(asked.code)])
        if isinstance(answer, Stored):
            tag = broker_tag(segment.broker_name)
            return replace(
                answer,
                log_positions=[tagged(tag, position) for position in answer.log_positions],
                queue_id=queue_id,
                queue_offset=translate.stored_at(segment, answer.queue_offset),
                recall_handle=None,  # it names a broker that the client does not know
            )
        assert isinstance(answer, Frame), "sends are answered by their result or by a frame"
        fields = dict(answer.fields)
        fields.pop("recallHandle", None)
        if "queueId" in fields:
            offset = translate.stored_at(segment, stored_offset(fields))
            fields |= {"queueId": str(queue_id), "queueOffset": str(offset)}
        if ids := fields.get("msgId"):
            fields["msgId"] = ",".join(self._tagged(one, segment) for one in ids.split(","))
        return asked.reply(answer.code, fields, answer.body, answer.remark)

    def _tagged(self, offset_id: str, segment: Segment) -> str:
        try:
            position = int(offset_id[-POSITION_DIGITS:], 16)
        except ValueError:
            return offset_id  # whatever it is, it is not a position
        return self._records.offset_id(segment.broker_name, position)


def _addressed(frame: Frame, segment: Segment, session: Session) -> Frame:
    """Make the request for a segment's queue, as of a client that follows redirects."""
    fields, code = frame.fields, frame.code
    flags = flags_field(code)
    sys_flag = int(fields.get(flags, "0")) | LOGICAL_QUEUE_FLAG
    asked = {
        **fields,
        queue_field(code): str(segment.queue_id),
        flags: str(sys_flag),
        SEGMENT_FIELD: segment.meant,
        BORN_HOST_FIELD: born_host_of(frame, session.peer).hex(),
    }
    return replace(frame, fields=asked)


def register(handlers: Handlers, listener: ListenerContext) -> None:
    """Register sends of a message or a batch, in both forms of the header."""
    broker = listener.broker
    sends = Sends(
        address=listener.address,
        brokers=listener.brokers,
        count_failed=broker.statistics.put_failed,
        mappings=broker.logical.mappings,
        own_name=broker.config.broker_name,
        queues=listener.queues,
        records=listener.records,
        routes=listener.queues.routes,
        sends=listener.sends,
    )
    for code in (
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
    ):
        handlers.add(code, sends.handler(code))
