"""Sends to a message queue whose logical queue goes on elsewhere: redirected, or passed on.

A client that follows redirects is told where to send. For any other the broker sends itself,
and answers as if the message had gone to the queue that was asked for. While a queue is being
sealed, senders wait: a moment later it is known what to tell them.

Source: RocketMQ 5.0.0-PREVIEW, AbstractSendMessageProcessor (LogicalQueueContext).
"""

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Final, final

import trio
from msgspec.structs import replace

from lanemq.wire import (
    Frame,
    ProtocolError,
    Refused,
    ResponseCode,
    decode_frame,
    encode_frame,
)
from lanemq.wire.logical import (
    LOGICAL_QUEUE_FLAG,
    REDIRECT_FIELD,
    REDIRECT_VALUE,
    SEGMENT_FIELD,
    LogicalQueues,
    Redirect,
    Segment,
    serves_java,
)

from .._session import Session
from ..logical import SegmentClosed, flags_field, forwarded, hops_of, merged, relayed
from ._context import BrokerContext

LOGGER = logging.getLogger("lanemq.proxy.broker.logical")

JAVA: Final = "JAVA"
REDIRECTS_FOLLOWED: Final = 1
"""The broker that was asked may have been sealed meanwhile; more than that is a stale view."""

Answer = bytes | None | Awaitable[bytes | None]
Send = Callable[[Frame, Session], Answer]


@final
class Elsewhere:
    """Answers the sends that their queue does not take."""

    def __init__(self, broker: BrokerContext) -> None:
        self._broker = broker
        self._logical = broker.logical

    def check_meant(self, frame: Frame, topic_field: str, id_field: str) -> None:
        """Raise ``SegmentClosed`` where the queue is not (any more) what its sender means."""
        fields = frame.fields
        topic, meant = fields[topic_field], fields[SEGMENT_FIELD]
        mapping = self._logical.mappings.get(topic)
        if mapping is None:  # it is read as it is again
            return
        queue_id = int(fields[id_field])
        latest = mapping.latest(queue_id)
        if latest is None or latest.meant != meant:
            raise SegmentClosed(topic, queue_id, meant)

    def answer(self, closed: SegmentClosed, frame: Frame, session: Session, send: Send) -> Answer:
        """What to answer to ``frame``, which ``send`` could not append.

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
        target = mapping.open_end(segment.logical_index)
        if target is None:
            raise Refused(
                ResponseCode.NO_PERMISSION,
                f"broker[{self._broker.address.host}] topic[{topic}] queueId[{queue_id}] "
                f"logicalQueueIdx[{segment.logical_index}] not writable",
            )
        return self._send_on(segment, target, frame, session, send)

    def _mistaken(
        self, closed: SegmentClosed, meant: str, frame: Frame, session: Session, send: Send
    ) -> Answer:
        """Send on who means a segment that is not, or not any more, the last one of its queue."""
        topic, queue_id = closed.topic, closed.queue_id
        mapping = self._logical.mappings[topic]
        LOGGER.info("a sender takes %s/%d for segment %s", topic, queue_id, meant)
        for segment in mapping.of_queue(queue_id):
            if segment.meant == meant:
                target = mapping.open_end(segment.logical_index)
                if target is not None:
                    return self._send_on(segment, target, frame, session, send)
        if self._follows_redirects(frame, topic):
            return self._redirect(frame, b"")  # nothing is known here: all is to be asked anew
        raise Refused(
            ResponseCode.NO_PERMISSION,
            f"topic[{topic}] queueId[{queue_id}] is not segment[{meant}] of a logical queue",
        )

    def _send_on(
        self, segment: Segment, target: Segment, frame: Frame, session: Session, send: Send
    ) -> Answer:
        if self._follows_redirects(frame, segment.topic):
            return self._redirect(frame, Redirect(segment, target).encode())
        return self._forward(frame, session, segment, target, send)

    def _redirect(self, frame: Frame, body: bytes) -> bytes:
        self._logical.counters.redirects += 1
        return encode_frame(
            frame.reply(ResponseCode.NO_PERMISSION, {REDIRECT_FIELD: REDIRECT_VALUE}, body)
        )

    def _follows_redirects(self, frame: Frame, topic: str) -> bool:
        """Whether the sender does, as far as this topic goes.

        A Java client that is not told of the topic's logical queues has no use for a redirect,
        though it says so with every message. Brokers that pass a message on always follow.
        """
        if frame.is_oneway:
            return False
        if hops_of(frame):
            return True
        if not int(frame.fields[flags_field(frame.code)]) & LOGICAL_QUEUE_FLAG:
            return False
        return frame.language != JAVA or all(
            serves_java(setting, topic) for setting in self._logical.java_settings.values()
        )

    async def _in_turn(
        self, turn: trio.Lock, frame: Frame, session: Session, send: Send
    ) -> bytes | None:
        """Try again once the queue is open, or sealed for good; in the order of the sends."""
        async with turn:
            answer = send(frame, session)
            try:
                self._broker.commit()
            except Refused:
                if inspect.iscoroutine(answer):
                    answer.close()
                raise
        return await answer if isinstance(answer, Awaitable) else answer

    async def _forward(
        self, frame: Frame, session: Session, segment: Segment, target: Segment, send: Send
    ) -> bytes | None:
        """Send to ``target`` what was sent to ``segment``, and answer as if it were there."""
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
        if answer is None:
            counters.forwards += 1
            return None
        if REDIRECT_FIELD in answer.fields:
            counters.forwards_failed += 1
            raise Refused(ResponseCode.NO_PERMISSION, f"{target} does not take messages any more")
        counters.forwards += 1
        return encode_frame(relayed(answer, frame, segment, target))

    async def _ask(
        self, frame: Frame, session: Session, target: Segment, send: Send
    ) -> Frame | None:
        """The answer of the broker that ``target`` is on; None to a one-way send."""
        ours = forwarded(frame, target, session.peer)
        if target.broker_name == self._logical.broker_name:
            answer = send(replace(frame, fields=ours.fields), session)
            self._broker.commit()
            data = await answer if isinstance(answer, Awaitable) else answer
            return None if data is None else decode_frame(data[4:])
        peers, name, address = self._broker.peers, target.broker_name, target.broker_address
        if frame.is_oneway:
            await peers.oneway(name, address, ours)
            return None
        timeout_s = self._broker.config.forward_timeout / 1000
        return await peers.call(name, address, ours, timeout_s)

    async def _redirected(self, answer: Frame | None) -> Segment | None:
        """Where an answer sends us; it is kept in mind."""
        if answer is None or REDIRECT_FIELD not in answer.fields:
            return None
        try:
            redirect = Redirect.decode(answer.body)
        except ProtocolError as error:
            LOGGER.warning("a redirect cannot be read: %s", error)
            return None
        if redirect is None:
            return None
        news = LogicalQueues.of((redirect.current, redirect.following))
        topic = redirect.following.topic
        if topic in self._logical.mappings:
            await self._logical.change(topic, lambda mapping: merged(mapping, news))
        return redirect.following
