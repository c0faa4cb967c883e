"""Sends to a logical queue: to the segment that it ends with, and after it when it moves on.

Source: RocketMQ 5.0.0-PREVIEW, DefaultMQProducerImpl.
"""

from collections.abc import Awaitable, Callable
from typing import Final, final

import trio
from msgspec.structs import replace

from lanemq.wire import ResponseCode
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.frame import Frame
from lanemq.wire.logical import (
    LOGICAL_QUEUE_FLAG,
    REDIRECT_FIELD,
    ROUNDS_MAX,
    SEGMENT_FIELD,
    Segment,
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

        A broker that fails is left only where the queue does not end there any more. A half
        message's offset is not one of the queue, and stays what the broker says.
        """
        until_s = trio.current_time() + timeout_s
        unreachable: set[str] = set()
        for round_number in range(1, ROUNDS_MAX + 1):
            route, segment = self._place(topic, queue, unreachable)
            real = MessageQueue(queue.topic, segment.broker_name, segment.queue_id)
            left_s = max(0.0, until_s - trio.current_time())
            try:
                answer, address = await transmit(route, real, segment, left_s)
            except (BrokerUnreachable, RequestTimedOut) as error:
                if isinstance(error, BrokerUnreachable):
                    unreachable.add(segment.broker_name)
                if round_number == ROUNDS_MAX or not await self._moved(
                    topic, queue, route, segment, unreachable, until_s
                ):
                    raise
                continue
            if REDIRECT_FIELD in answer.fields:
                await follow_redirect(self._client, topic, answer, address)
            elif answer.code == NO_PERMISSION:
                raise RefusedByBroker(answer.code, answer.remark, address)
            else:
                result = read(answer, real, address)
                if segment.delta < 0 and not is_half:
                    segment = await self._placed(topic, queue, segment)
                return _logical(result, queue, segment, is_half=is_half)
        raise RefusedByBroker(NO_PERMISSION, f"redirect after redirect for {queue}", address)

    def _place(
        self, topic: str, queue: MessageQueue, unreachable: set[str]
    ) -> tuple[TopicRoute, Segment]:
        route = self._client.routes.get(topic)
        segment = None if route is None else route.writable_segment(queue, unreachable)
        if route is None or segment is None:
            raise RefusedByBroker(NO_PERMISSION, f"{queue} takes no messages any more")
        return route, segment

    async def _placed(self, topic: str, queue: MessageQueue, segment: Segment) -> Segment:
        """Return ``segment`` with its place in the queue, if that is known by now.

        A look at the route in the middle of a migration does not show it; the next one does.
        """
        now_s = trio.current_time()
        if now_s - self._looked_s >= LOOK_INTERVAL_S:
            self._looked_s = now_s
            try:
                await self._client.routes.refresh(topic)
            except LanemqError:
                return segment  # the message is stored all the same
        route = self._client.routes.get(topic)
        chain = None if route is None else route.chain(queue)
        found = None if chain is None else chain.find(segment.key)
        return found or segment

    async def _moved(
        self,
        topic: str,
        queue: MessageQueue,
        known: TopicRoute,
        tried: Segment,
        unreachable: set[str],
        until_s: float,
    ) -> bool:
        """Return whether ``queue`` no longer ends at ``tried``, or its broker has moved."""
        with trio.move_on_at(until_s):
            try:
                await self._client.routes.refresh(topic)
                name = tried.broker_name
                route = self._client.routes.get(topic)
                if route is not None and route.brokers.get(name) not in (
                    None,
                    known.brokers.get(name),
                ):
                    unreachable.discard(name)
                    return True
                _, segment = self._place(topic, queue, unreachable)
            except LanemqError:
                return False
            return segment.key != tried.key
        return False


def _logical(
    result: SendResult, queue: MessageQueue, segment: Segment, *, is_half: bool
) -> SendResult:
    offset = result.queue_offset
    logical = offset if is_half else translate.stored_at(segment, offset)
    return replace(
        result, queue=queue, queue_offset=logical, origin=result.queue, origin_offset=offset
    )
