"""Sends to a message queue whose logical queue goes on elsewhere: redirected, or forwarded.

A client that follows redirects is told where to send. For any other the broker sends itself,
and answers as if the message had gone to the queue that was asked for. While a queue is being
sealed, senders wait: a moment later it is known what to tell them.

Source: RocketMQ 5.0.0-PREVIEW, AbstractSendMessageProcessor (LogicalQueueContext).
"""

from collections.abc import Awaitable, Callable
from typing import Final, final

import trio
from attrs import define
from msgspec.structs import replace

from lanemq.local import get_logger
from lanemq.wire import HostAddress, Refused, ResponseCode
from lanemq.wire.frame import JAVA, Frame
from lanemq.wire.logical import (
    LOGICAL_QUEUE_FLAG,
    SEGMENT_FIELD,
    LogicalQueues,
    Redirect,
    Segment,
    serves_java,
    translate,
)

from ....logical.rules._forwarding import (
    SEND_NAMES,
    forwarded,
    half_forbidden,
    hops_of,
    is_half,
    relayed,
)
from ....logical.rules._gate import SegmentClosed
from ....logical.rules._view import merged
from ....net._answers import Later, answer_after, kept_after
from ....net._session import Session
from ....sessions.values._results import Moved, Stored, is_redirect, redirect_in
from ...cluster._peers import Peers
from ...settings._config import BrokerConfig
from ..state._state import LogicalState

LOGGER = get_logger("lanemq.proxy.broker.logical", by_peers=True)

REDIRECTS_FOLLOWED: Final = 1
"""Most redirects followed: the first target may have been sealed meanwhile; more mean a stale
view."""

PLACE_WAIT_S: Final = 1.0
"""Longest wait of an answer for the place of a destination, which a commit gives it within
milliseconds; an answer after that names no offset."""

Sent = Stored | Moved | Frame
Send = Callable[[Frame, Session], Sent | Awaitable[Sent]]


@final
@define(eq=False, kw_only=True, repr=False)
class MovedSends:
    """The sends to queues of one broker whose logical queue has moved: redirected or forwarded."""

    _address: HostAddress
    _commit: Callable[[], None]
    _commit_all: Callable[[], Awaitable[None]]
    _config: BrokerConfig
    _logical: LogicalState
    _peers: Peers

    def check_meant(self, frame: Frame, topic_field: str, id_field: str) -> None:
        """Check the segment that the sender means. Raises ``SegmentClosed`` if it is not the latest
        of its queue, or if the sender names a place that it does not know."""
        fields = frame.fields
        topic, meant = fields[topic_field], fields[SEGMENT_FIELD]
        mapping = self._logical.mappings.get(topic)
        if mapping is None:  # it is read as it is again
            return
        queue_id = int(fields[id_field])
        latest = mapping.latest(queue_id)
        if latest is None or not latest.is_meant(meant):
            raise SegmentClosed(topic, queue_id, meant)
        if latest.delta < 0 and Segment.place_meant(meant) is not None:
            raise SegmentClosed(topic, queue_id, meant)

    def answer(
        self, closed: SegmentClosed, frame: Frame, session: Session, send: Send
    ) -> Sent | Awaitable[Sent]:
        """Answer ``frame``, which ``send`` could not append.

        Raises ``Refused`` (NO_PERMISSION) where the logical queue takes messages nowhere.
        """
        topic, queue_id = closed.topic, closed.queue_id
        if closed.meant is not None:
            return self._mistaken(closed, closed.meant, frame, session, send)
        turn = self._logical.gate.turn((topic, queue_id))
        if turn is not None:
            return self._in_turn(turn, frame, session, send)
        mapping = self._logical.mappings[topic]
        segment = mapping.latest(queue_id)
        assert segment is not None, "an unmapped queue is never closed"
        unknown = self._logical.gate.withheld.get((topic, queue_id))
        if unknown is not None and segment.is_writable:
            raise Refused(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                f"topic[{topic}] queueId[{queue_id}] takes no message yet: {unknown}",
            )
        target = mapping.open_end(segment.logical_index)
        if target is None:
            raise Refused(
                ResponseCode.NO_PERMISSION,
                f"broker[{self._address.host}] topic[{topic}] queueId[{queue_id}] "
                f"logicalQueueIdx[{segment.logical_index}] not writable",
            )
        return self._send_on(segment, target, frame, session, send)

    def _mistaken(
        self, closed: SegmentClosed, meant: str, frame: Frame, session: Session, send: Send
    ) -> Sent | Awaitable[Sent]:
        """Forward a send whose segment has been followed by another, or never existed."""
        topic, queue_id = closed.topic, closed.queue_id
        mapping = self._logical.mappings[topic]
        latest = mapping.latest(queue_id)
        if latest is not None and latest.delta < 0 and latest.is_meant(meant):
            return self._unplaced(latest, meant, frame, session, send)
        LOGGER.info("a sender takes %s/%d for segment %s", topic, queue_id, meant)
        for segment in mapping.of_queue(queue_id):
            if segment.is_meant(meant):
                target = mapping.open_end(segment.logical_index)
                if target is not None:
                    return self._send_on(segment, target, frame, session, send)
        if self._follows_redirects(frame, topic):
            return self._redirect(None)  # nothing is known here: all is to be asked again
        raise Refused(
            ResponseCode.NO_PERMISSION,
            f"topic[{topic}] queueId[{queue_id}] is not segment[{meant}] of a logical queue",
        )

    def _unplaced(
        self, segment: Segment, meant: str, frame: Frame, session: Session, send: Send
    ) -> Sent | Awaitable[Sent]:
        """Take a message whose sender names the place of a destination that does not know it yet.

        It may have heard of an earlier migration to this queue, which was called off. So it is
        answered once the place is known, with an offset on the scale of the one that it named.
        """
        place = Segment.place_meant(meant)
        assert place is not None, "where no place is named, none is wrong"
        taken = send(replace(frame, fields={**frame.fields, SEGMENT_FIELD: segment.meant}), session)
        if frame.is_oneway or is_half(frame):  # a half message's offset is not one of the queue
            return taken
        return Later(taken, self._placed(taken, segment, segment.with_delta(place)))

    async def _placed(
        self, taken: Sent | Awaitable[Sent], segment: Segment, named: Segment
    ) -> Sent:
        answer = await taken if isinstance(taken, Awaitable) else taken
        if not isinstance(answer, Stored) or answer.queue_offset < 0:
            return answer
        logical, now = self._logical, segment
        with trio.move_on_after(PLACE_WAIT_S):
            while True:
                mapping = logical.get(segment.topic)
                now = (mapping and mapping.find(segment.key)) or segment
                if now.delta >= 0:
                    break
                await logical.next_change.wait()
        offset = translate.as_if_at(named, now, answer.queue_offset)
        return replace(answer, queue_offset=offset)

    def _send_on(
        self, segment: Segment, target: Segment, frame: Frame, session: Session, send: Send
    ) -> Sent | Awaitable[Sent]:
        if self._follows_redirects(frame, segment.topic):
            return self._redirect(Redirect(segment, target))
        if is_half(frame):
            raise half_forbidden(self._address.host)
        return self._forward(frame, session, segment, target, send)

    def _redirect(self, redirect: Redirect | None) -> Moved:
        self._logical.counters.redirects += 1
        return Moved(redirect)

    def _follows_redirects(self, frame: Frame, topic: str) -> bool:
        """Return whether the sender follows redirects for this topic.

        A Java client that is not told of the topic's logical queues has no use for a redirect,
        though it says so with every message. Brokers that pass a message on always follow.
        """
        if frame.is_oneway:
            return False
        if hops_of(frame):
            return True
        if not int(frame.fields[SEND_NAMES[frame.code].sys_flag]) & LOGICAL_QUEUE_FLAG:
            return False
        return frame.language != JAVA or all(
            serves_java(setting, topic) for setting in self._logical.java_settings.values()
        )

    async def _in_turn(self, turn: trio.Lock, frame: Frame, session: Session, send: Send) -> Sent:
        """Retry in the order of the sends, once the queue is open again or sealed for good."""
        async with turn:
            answer = kept_after(self._commit, send(frame, session))
        return await answer_after(self._commit_all, answer)

    async def _forward(
        self, frame: Frame, session: Session, segment: Segment, target: Segment, send: Send
    ) -> Sent:
        """Forward a send from ``segment`` to ``target``, and answer as if it were stored here."""
        counters = self._logical.counters
        try:
            answer = await self._ask(frame, session, target, send)
            for _ in range(REDIRECTS_FOLLOWED):
                following = await self._redirected(answer)
                if following is None:
                    break
                target = following
                answer = await self._ask(frame, session, target, send)
        except Refused as error:
            counters.forwards_failed += 1
            LOGGER.warning("a message for %s cannot be passed on: %s", segment, error.remark)
            raise
        if is_redirect(answer):
            counters.forwards_failed += 1
            raise Refused(ResponseCode.NO_PERMISSION, f"{target} no longer takes messages")
        counters.forwards += 1
        if isinstance(answer, Frame):
            return relayed(answer, frame, segment, target)
        assert isinstance(answer, Stored)
        return replace(
            answer,
            queue_id=segment.queue_id,
            queue_offset=translate.as_if_at(segment, target, answer.queue_offset),
            taken_by=answer.queue_id,
        )

    async def _ask(self, frame: Frame, session: Session, target: Segment, send: Send) -> Sent:
        """Ask the broker of ``target``; return its answer, an empty success to a one-way send."""
        ours = forwarded(frame, target, session.peer)
        if target.broker_name == self._logical.broker_name:
            answer = send(replace(frame, fields=ours.fields), session)
            return await answer_after(self._commit_all, answer)
        peers, name, address = self._peers, target.broker_name, target.broker_address
        if frame.is_oneway:
            await peers.oneway(name, address, ours)
            return frame.reply()
        timeout_s = self._config.forward_timeout / 1000
        return await peers.call(name, address, ours, timeout_s)

    async def _redirected(self, answer: Sent) -> Segment | None:
        """Return the redirect in an answer, and remember it."""
        redirect = redirect_in(answer)
        if redirect is None:
            return None
        news = LogicalQueues.of((redirect.current, redirect.following))
        topic = redirect.following.topic
        if topic in self._logical.mappings:
            await self._logical.change(topic, lambda mapping: merged(mapping, news))
        return redirect.following
