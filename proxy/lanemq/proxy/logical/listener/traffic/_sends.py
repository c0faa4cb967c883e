"""Sends to a logical queue: to its last segment, and to the next one when the queue moves.

The client addresses a queue by its index and is answered in its numbers, wherever the message
went. What this process's broker stores without further ado, as almost all that is sent to it, is
stored here at once and answered in the queue's numbers; all other requests are passed on.

Source: the translation is lanemq's own; what brokers answer is 5.0.0-PREVIEW's.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import final

from attrs import define, field

from lanemq.wire import HostAddress, Refused, RequestCode, ResponseCode
from lanemq.wire.frame import FLAG_ONEWAY, Frame
from lanemq.wire.logical import (
    Chain,
    Looked,
    LookForEnd,
    LookForPlace,
    NotReached,
    Redirected,
    Segment,
    SendAsk,
    SendOutcome,
    SendReply,
    Taken,
)

from ....net._answers import Answer, Later
from ....net._dispatch import Handlers
from ....net._session import Session
from ....sessions.values._results import Stored, is_redirect, redirect_in
from ...rules._forwarding import (
    SEND_NAMES,
    half_forbidden,
    is_half,
)
from ...rules._gate import SegmentClosed
from ...rules._mapping import TopicMapping
from ...rules._positions import broker_tag, tagged
from ..brokers._broker import Unreachable
from ..brokers._brokers import Brokers
from ..brokers._known import TOPICS_MAX
from ..brokers._own import OwnBroker
from ..brokers._routes import LogicalRoutes
from ..brokers._views import TopicView
from ..port._context import ListenerContext
from ..port._queues import SeenQueues
from ..port._records import SeenRecords
from ._send_answers import Seen, addressed, seen
from ._tails import SEND_TO, own_open_end


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
    _check: Callable[[Frame, Session], None] | None
    _queues: SeenQueues
    _records: SeenRecords
    _routes: LogicalRoutes
    _open_ends: dict[str, _OpenEnds] = field(factory=dict, init=False)

    def handler(self, code: RequestCode) -> Callable[[Frame, Session], Seen | Awaitable[Seen]]:
        """Make the handler of one request code."""
        own = self._brokers.own
        return self._forwarding(code) if own is None else self._storing(code, own)

    def _forwarding(self, code: RequestCode) -> Callable[[Frame, Session], Seen | Awaitable[Seen]]:
        """Make the handler of a listener all whose brokers are remote."""
        pass_on, check = self._pass_on, self._check
        names = SEND_NAMES[code]
        topic_field, id_field = names.topic, names.queue_id

        def send(frame: Frame, session: Session) -> Seen | Awaitable[Seen]:
            if check is not None:
                check(frame, session)
            topic, queue_id = frame.fields[topic_field], int(frame.fields[id_field])
            return pass_on(topic, queue_id, frame, session)

        return send

    def _storing(
        self, code: RequestCode, own: OwnBroker
    ) -> Callable[[Frame, Session], Seen | Awaitable[Seen]]:
        """Make the handler that stores at once what is for the process's own broker."""
        pass_on, open_end, count_failed = self._pass_on, self._open_end, own.count_failed
        append, flushed, mappings = own.sends.quick[code], own.sends.flushed, own.mappings
        names = SEND_NAMES[code]
        topic_field, id_field = names.topic, names.queue_id
        tag, check = broker_tag(own.name), self._check

        def send(frame: Frame, session: Session) -> Seen | Awaitable[Seen]:
            try:
                if check is not None:  # other brokers are asked in this one's name
                    check(frame, session)
                topic, queue_id = frame.fields[topic_field], int(frame.fields[id_field])
                segment, stored = open_end(mappings, topic, queue_id), None
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
            stored = Stored(
                (tagged(tag, position),),
                queue_id,
                segment.to_logical(stored.queue_offset),
                stored.end,
                stored.waits,
            )
            return flushed(stored) if stored.waits and not frame.flag & FLAG_ONEWAY else stored

        return send

    def _open_end(
        self, mappings: Mapping[str, TopicMapping], topic: str, queue_id: int
    ) -> Segment | None:
        """Return the open end of a queue, if it is at this process's broker, and that agrees."""
        view, mapping = self._routes.get(topic), mappings.get(topic)
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
        segment = SEND_TO.end(chain, set()) if chain is not None else None
        if chain is None or segment is None or segment.delta < 0:
            return self._send(topic, index, frame, session)
        own = self._brokers.quick(segment.broker_name)
        if own is None:
            return self._send(topic, index, frame, session)
        answer = own.answer(addressed(frame, segment, session), session)
        if isinstance(answer, Awaitable):
            return Later(answer, self._send(topic, index, frame, session, (chain, answer)))
        if is_redirect(answer):
            return self._send(topic, index, frame, session, (chain, answer))
        return seen(frame, answer, segment, self._records)

    async def _find(self, topic: str, queue_id: int, frame: Frame, session: Session) -> Seen:
        index = await self._queues.index(topic, queue_id)
        return await self._send(topic, index, frame, session)

    async def _send(
        self,
        topic: str,
        index: int,
        frame: Frame,
        session: Session,
        begun: tuple[Chain, Answer | Awaitable[Answer]] | None = None,
    ) -> Seen:
        """Send to where the queue ends; ``begun`` is the chain by which this process's broker was
        asked already, and its answer."""
        if begun is None:
            _, chain = await self._queues.chain(topic, index)
            first: Answer | Awaitable[Answer] | None = None
        else:
            chain, first = begun
        refusal: Refused | None = None
        conversation = SEND_TO.steps(chain)
        try:
            step = next(conversation)
            while True:
                reply: SendReply
                match step:
                    case SendAsk(segment):
                        try:
                            answer = await self._answer(topic, segment, frame, session, first)
                        except Unreachable as error:
                            # Nothing was stored: if the queue ends elsewhere by now, the message
                            # goes there.
                            refusal, reply = error, NotReached(is_down=True)
                        else:
                            if is_redirect(answer):
                                await self._routes.redirected(topic, redirect_in(answer))
                                reply = Redirected((await self._queues.chain(topic, index))[1])
                            else:
                                reply = Taken()
                        first = None
                    case LookForEnd() | LookForPlace():
                        await self._routes.refresh(topic)
                        reply = Looked(self._routes.chain(topic, index) or Chain(index))
                step = conversation.send(reply)
        except StopIteration as end:
            outcome: SendOutcome = end.value
        if isinstance(outcome, Segment):
            return seen(frame, answer, outcome, self._records)
        remark = f"topic[{topic}] queueId[{index}] takes no messages"
        raise refusal or Refused(ResponseCode.NO_PERMISSION, remark)

    async def _answer(
        self,
        topic: str,
        segment: Segment,
        frame: Frame,
        session: Session,
        first: Answer | Awaitable[Answer] | None,
    ) -> Answer:
        """Return a broker's answer; ``first`` is that of this process's broker if it was asked."""
        if first is not None:
            return await first if isinstance(first, Awaitable) else first
        name, view = segment.broker_name, self._routes.get(topic)
        address = view.address(name) if view is not None else None
        return await self._brokers.ask(name, address, addressed(frame, segment, session), session)


def register(handlers: Handlers, listener: ListenerContext) -> None:
    """Register sends of a message or a batch, in both forms of the header."""
    sends = Sends(
        address=listener.address,
        brokers=listener.brokers,
        check=listener.host.check_sender,
        queues=listener.queues,
        records=listener.records,
        routes=listener.queues.routes,
    )
    for code in (
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
    ):
        handlers.add(code, sends.handler(code))
