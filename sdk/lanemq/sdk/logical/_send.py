"""Sends to a logical queue: to the segment that it ends with, and after it when it moves on.

Source: RocketMQ 5.0.0-PREVIEW, DefaultMQProducerImpl.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, final

import trio
from msgspec.structs import replace

from lanemq.wire import ResponseCode
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.frame import Frame
from lanemq.wire.logical import (
    LOGICAL_QUEUE_FLAG,
    REDIRECT_FIELD,
    SEGMENT_FIELD,
    Chain,
    Looked,
    LookForEnd,
    LookForPlace,
    NotReached,
    NotSent,
    Redirected,
    Segment,
    SendAsk,
    SendOutcome,
    SendReply,
    SendTo,
    Taken,
    translate,
)

from .._errors import BrokerUnreachable, LanemqError, RefusedByBroker, RequestTimedOut
from .._messages import SendResult
from ..net._client import Client
from ..net._route_table import TopicRoute
from ._calls import follow_redirect

NO_PERMISSION: Final = int(ResponseCode.NO_PERMISSION)
LOOK_INTERVAL_S: Final = 0.1
"""Interval of looks for the place of a new segment, while messages go to it."""

Transmit = Callable[[TopicRoute, MessageQueue, Segment, float], Awaitable[tuple[Frame, str]]]
"""Sends one request to the real queue of a segment; returns the answer, which may be a refusal, and
the address that gave it."""
Read = Callable[[Frame, MessageQueue, str], SendResult]
"""Makes the result for a logical queue from the answer for a real one."""


def mark(frame: Frame, segment: Segment) -> None:
    """Name in a send the segment that it is for, and allow its answer to be a redirect."""
    fields = frame.fields
    fields["f"] = str(int(fields["f"]) | LOGICAL_QUEUE_FLAG)
    fields[SEGMENT_FIELD] = segment.meant


@final
class LogicalSends:
    """Finds the segment for each request, and tries again where it is another one by now."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._looked_s = -LOOK_INTERVAL_S

    async def send(
        self,
        topic: str,
        queue: MessageQueue,
        timeout_s: float,
        transmit: Transmit,
        read: Read,
        *,
        is_half: bool,
    ) -> SendResult:
        """Send to ``queue`` of ``topic``, the name that brokers have for it.

        A broker that fails is left only where the queue no longer ends there. A half
        message's offset is not one of the queue, and stays what the broker says.
        """
        until_s = trio.current_time() + timeout_s
        failure: LanemqError | None = None
        known = self._client.routes.get(topic)
        conversation = SendTo(
            is_away=lambda name: not self._has_master(topic, name), needs_place=not is_half
        ).steps(self._chain(topic, queue))
        try:
            step = next(conversation)
            while True:
                reply: SendReply
                match step:
                    case SendAsk(segment):
                        known = self._known_route(topic, queue)
                        real = MessageQueue(queue.topic, segment.broker_name, segment.queue_id)
                        left_s = max(0.0, until_s - trio.current_time())
                        try:
                            answer, address = await transmit(known, real, segment, left_s)
                        except (BrokerUnreachable, RequestTimedOut) as error:
                            failure = error
                            reply = NotReached(is_down=isinstance(error, BrokerUnreachable))
                        else:
                            if REDIRECT_FIELD in answer.fields:
                                await follow_redirect(self._client, topic, answer, address)
                                reply = Redirected(self._chain(topic, queue))
                            elif answer.code == NO_PERMISSION:
                                raise RefusedByBroker(answer.code, answer.remark, address)
                            else:
                                result, reply = read(answer, real, address), Taken()
                    case LookForEnd(tried):
                        assert known is not None, "it has been sent to"
                        reply = await self._looked(topic, queue, known, tried, until_s)
                    case LookForPlace():
                        reply = await self._look_for_place(topic, queue)
                step = conversation.send(reply)
        except StopIteration as end:
            outcome: SendOutcome = end.value
        match outcome:
            case Segment():
                return _logical(result, queue, outcome, is_half=is_half)
            case NotSent.REDIRECTS:
                remark = f"redirect after redirect for {queue}"
                raise RefusedByBroker(NO_PERMISSION, remark, address)
            case NotSent.GAVE_UP if failure is not None:
                raise failure
        raise RefusedByBroker(NO_PERMISSION, f"{queue} takes no messages any more")

    def _known_route(self, topic: str, queue: MessageQueue) -> TopicRoute:
        route = self._client.routes.get(topic)
        if route is None:
            raise RefusedByBroker(NO_PERMISSION, f"{queue} takes no messages any more")
        return route

    def _chain(self, topic: str, queue: MessageQueue) -> Chain:
        route = self._client.routes.get(topic)
        chain = None if route is None else route.chain(queue)
        return chain or Chain(queue.queue_id)

    def _has_master(self, topic: str, broker_name: str) -> bool:
        route = self._client.routes.get(topic)
        return route is not None and route.has_master(broker_name)

    async def _look_for_place(self, topic: str, queue: MessageQueue) -> Looked:
        """Look for the place of a destination in the queue.

        A look at the route in the middle of a migration does not show it; the next one does.
        """
        now_s = trio.current_time()
        if now_s - self._looked_s >= LOOK_INTERVAL_S:
            self._looked_s = now_s
            with suppress(LanemqError):  # the message is stored all the same
                await self._client.routes.refresh(topic)
        return Looked(self._chain(topic, queue))

    async def _looked(
        self, topic: str, queue: MessageQueue, known: TopicRoute, tried: Segment, until_s: float
    ) -> Looked:
        """Look where ``queue`` ends now, and whether the broker of ``tried`` has moved."""
        with trio.move_on_at(until_s), suppress(LanemqError):
            await self._client.routes.refresh(topic)
            name, route = tried.broker_name, self._client.routes.get(topic)
            before = None, known.brokers.get(name)
            has_moved = route is not None and route.brokers.get(name) not in before
            return Looked(self._chain(topic, queue), has_new_address=has_moved)
        return Looked(Chain(queue.queue_id))  # nobody knows, or there is no time left


def _logical(
    result: SendResult, queue: MessageQueue, segment: Segment, *, is_half: bool
) -> SendResult:
    offset = result.queue_offset
    logical = offset if is_half else translate.stored_at(segment, offset)
    return replace(
        result, queue=queue, queue_offset=logical, origin=result.queue, origin_offset=offset
    )
