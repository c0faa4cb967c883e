"""The sender of messages that are ready for the wire: chooses queues, tries again, reads answers.

Source: RocketMQ 4.9.8, DefaultMQProducerImpl.sendDefaultImpl, MQClientAPIImpl.processSendResponse.
"""

from collections.abc import Container, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Final, final

import trio

from lanemq.wire import (
    TIMERS_FIELD,
    RequestCode,
    SysFlag,
    Version,
    version_name,
)
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.frame import FLAG_ONEWAY, Frame
from lanemq.wire.logical import Segment

from .._errors import (
    BrokerUnreachable,
    LanemqError,
    MessageRejected,
    RequestTimedOut,
)
from .._messages import SendResult, SendStatus
from .._namespace import in_namespace
from .._options import ProducerOptions
from ..logical._send import NO_PERMISSION, LogicalSends, mark
from ..net._client import Client
from ..net._latency_faults import LatencyFaults
from ..net._route_table import TopicRoute
from ..observe._send_hooks import SendAttempt, SendHook, call_after, call_before
from ._first_attempt import FirstAttempt, FirstAttempts, share_of
from ._outgoing import Outgoing
from ._selectors import Select
from ._send_targets import SendTargets, broker_of
from ._sent import STATUSES, read_sent

PAUSE_MAX_S: Final = 1.0
"""Longest pause before an attempt at a broker that has failed already."""
# A broker that was asked at a segment which is closed refuses, and may say where to go.
STATUSES_OR_REFUSAL: Final = frozenset({*STATUSES, NO_PERMISSION})


@final
class Sender:
    """Sends for one group. Used by producers, and by consumers to put a message back."""

    def __init__(
        self,
        client: Client,
        group: str,
        options: ProducerOptions,
        hooks: Sequence[SendHook] = (),
    ) -> None:
        self._client = client
        self._group = group
        self._options = options
        self._hooks = hooks
        self._logical = LogicalSends(client)
        self._faults = (
            LatencyFaults(options.slow_broker_pauses) if options.avoid_slow_brokers else None
        )
        self._targets = SendTargets(client, options.client.namespace, self._faults)
        self.firsts = FirstAttempts(
            client, group, options, self._targets, self._resume, is_watched=bool(hooks)
        )
        """Makes first attempts in other threads."""
        self.route = self._targets.route
        """Returns the route to send by, its queues as applications know them. Raises as
        ``Routes.find_for_send``."""

    async def send(
        self, outgoing: Outgoing, queue: MessageQueue | Select | None, timeout_s: float
    ) -> SendResult:
        """Send, and on a retriable failure send again while ``timeout_s`` lasts.

        A given or selected ``queue`` is the only one tried, once. Raises the last failure, with
        a note of the attempts before it.
        """
        if outgoing.span is None:
            return await self._send(outgoing, queue, timeout_s)
        with self._watched(outgoing):
            return await self._send(outgoing, queue, timeout_s)

    def _watched(self, outgoing: Outgoing) -> AbstractContextManager[None]:
        from ..observe._telemetry import sending  # may not be installed

        return sending(outgoing.span, outgoing.topic, outgoing.message_id, self._group)

    async def _resume(self, attempt: FirstAttempt) -> SendResult:
        return await self._send(attempt.outgoing, attempt.target, attempt.timeout_s, attempt)

    async def _send(
        self,
        outgoing: Outgoing,
        queue: MessageQueue | Select | None,
        timeout_s: float,
        first: FirstAttempt | None = None,
    ) -> SendResult:
        options = self._options
        started_s = trio.current_time() if first is None else first.started_s
        route = self._targets.known(outgoing.topic) if first is None else first.route
        if route is None or not route.publish_queues:
            route = await self._look_up(outgoing.topic, timeout_s)
        if queue is not None and not isinstance(queue, MessageQueue):
            queue = queue(route.publish_queues)
        attempts = 1 if queue is not None else 1 + options.retries
        failed: list[str] = []
        is_down = False
        while True:
            target = queue if first is None else first.queue
            if target is None:
                target = self._targets.choose(route, failed[-1] if failed else None)
            left_s = started_s + timeout_s - trio.current_time()  # a look-up took its part
            broker_name = broker_of(route, target)
            if is_down and broker_name in failed:  # there is no other: let this one come back
                pause_s = min(left_s / (1 + attempts - len(failed)), PAUSE_MAX_S)
                await trio.sleep(pause_s)
                left_s -= pause_s
            left_s = share_of(left_s, route, is_last=len(failed) + 1 >= attempts)
            try:
                if (made := first) is None:
                    result = await self._attempt(outgoing, route, target, left_s)
                else:
                    first = None
                    result = made.result()
                if (
                    result.status is SendStatus.OK
                    or not options.retry_when_not_stored
                    or len(failed) + 1 >= attempts
                ):
                    return result
                failed.append(broker_name)
            except LanemqError as error:
                failed.append(broker_name)
                is_down = isinstance(error, BrokerUnreachable)
                elapsed_s = trio.current_time() - started_s
                if not error.retriable or len(failed) >= attempts or elapsed_s >= timeout_s:
                    error.add_note(
                        f"sending to {outgoing.topic} failed after {len(failed)} of {attempts}"
                        f" attempts and {elapsed_s:.3f} s; brokers tried: {', '.join(failed)}"
                    )
                    raise
                # The periodic refresh may have brought another route meanwhile.
                fresh = self._targets.known(outgoing.topic)
                if fresh is not None and fresh.publish_queues:
                    route = fresh

    async def _look_up(self, topic: str, timeout_s: float) -> TopicRoute:
        """Return the route to send by, asked for within ``timeout_s``."""
        with trio.move_on_after(timeout_s):
            return await self.route(topic)
        servers = ",".join(self._client.routes.name_servers.addresses)
        raise RequestTimedOut(servers, 105, timeout_s)

    async def _attempt(
        self, outgoing: Outgoing, route: TopicRoute, queue: MessageQueue, timeout_s: float
    ) -> SendResult:
        is_logical = route.chain(queue) is not None
        if not is_logical:
            address = self._targets.address(route, queue.broker_name)
        elif self._hooks:  # the known end; it may move on
            address = self._client.routes.master(broker_of(route, queue)) or ""
        if self._hooks:
            attempt = outgoing.attempt(self._group, queue, address, self._client.clock_ms())
            await call_before(self._hooks, attempt)
        try:
            if is_logical:
                result = await self._logical.send(
                    in_namespace(self._options.client.namespace, outgoing.topic),
                    queue,
                    timeout_s,
                    partial(self._transmit_to_segment, outgoing),
                    partial(read_sent, outgoing),
                    is_half=bool(outgoing.sys_flag & SysFlag.TRANSACTION_MASK),
                )
            else:
                if outgoing.asks_version:
                    timeout_s = await self._suit(outgoing, address, timeout_s)
                frame = self._frame(outgoing, queue)
                answer = await self._transmit(frame, queue, address, timeout_s, STATUSES)
                result = read_sent(outgoing, answer, queue, address)
        except BaseException as error:
            if self._hooks:
                await self._finish(attempt, None, error)
            raise
        if self._hooks:
            await self._finish(attempt, result, None)
        return result

    def _frame(self, outgoing: Outgoing, queue: MessageQueue, flag: int = 0) -> Frame:
        return outgoing.frame(self._group, queue, self._options, self._client.clock_ms(), flag)

    async def _transmit(
        self,
        frame: Frame,
        queue: MessageQueue,
        address: str,
        timeout_s: float,
        accept: Container[int],
    ) -> Frame:
        """Send one request to a real queue; how long it took tells of its broker."""
        call = self._client.remoting.call
        if self._faults is None:
            return await call(address, frame, timeout_s, accept=accept)
        started_s = trio.current_time()
        try:
            answer = await call(address, frame, timeout_s, accept=accept)
        except LanemqError:
            now_s = trio.current_time()
            self._faults.record_failure(queue.broker_name, now_s - started_s, now_s)
            raise
        now_s = trio.current_time()
        self._faults.record(queue.broker_name, now_s - started_s, now_s)
        return answer

    async def _transmit_to_segment(
        self,
        outgoing: Outgoing,
        route: TopicRoute,
        queue: MessageQueue,
        segment: Segment,
        timeout_s: float,
    ) -> tuple[Frame, str]:
        address = self._targets.address(route, queue.broker_name)
        if outgoing.asks_version:
            timeout_s = await self._suit(outgoing, address, timeout_s)
        frame = self._frame(outgoing, queue)
        mark(frame, segment)
        accept = STATUSES_OR_REFUSAL
        return await self._transmit(frame, queue, address, timeout_s, accept), address

    async def _suit(self, outgoing: Outgoing, address: str, timeout_s: float) -> float:
        """Adapt ``outgoing`` to what the broker at ``address`` understands; returns the rest of
        ``timeout_s``.

        Raises ``MessageRejected`` where it would deliver a timed message at once.
        """
        deadline_s = trio.current_time() + timeout_s
        with trio.move_on_at(deadline_s) as scope:
            answer = await self._client.heartbeat_answer(address)
        if scope.cancelled_caught:
            raise RequestTimedOut(address, RequestCode.HEART_BEAT, timeout_s)
        version = answer.version
        if outgoing.plain is not None:
            outgoing.compress_for(version, self._options)
        if (
            outgoing.is_timed
            and not self._options.timers_at_any_broker
            and version < Version.V5_0_0
            and answer.fields.get(TIMERS_FIELD) != "true"
        ):
            raise MessageRejected(
                f"{address} is {version_name(version)} and has no timers for delay_s and"
                " deliver_at_ms: use delay_level, or send it all the same with the option"
                " timers_at_any_broker=True (Apache's 4.x brokers deliver it at once)"
            )
        return deadline_s - trio.current_time()

    async def _finish(
        self, attempt: SendAttempt, result: SendResult | None, error: BaseException | None
    ) -> None:
        attempt.cost_ms = round((trio.current_time() - attempt.began_s) * 1000)
        attempt.result, attempt.error = result, error
        await call_after(self._hooks, attempt)

    async def send_oneway(self, outgoing: Outgoing, queue: MessageQueue | Select | None) -> None:
        """Send without an answer; one attempt. Raises where nothing could be sent at all."""
        if outgoing.span is None:
            await self._send_oneway(outgoing, queue)
            return
        with self._watched(outgoing):
            await self._send_oneway(outgoing, queue)

    async def _send_oneway(self, outgoing: Outgoing, queue: MessageQueue | Select | None) -> None:
        deadline_s = trio.current_time() + self._options.send_timeout_s
        route = await self._look_up(outgoing.topic, self._options.send_timeout_s)
        left_s = deadline_s - trio.current_time()
        if queue is None:
            queue = self._targets.choose(route, None)
        elif not isinstance(queue, MessageQueue):
            queue = queue(route.publish_queues)
        segment = route.writable_segment(queue)
        real = queue if segment is None else segment.message_queue
        address = self._targets.address(route, real.broker_name)
        if outgoing.asks_version:
            left_s = await self._suit(outgoing, address, left_s)
        if self._hooks:
            attempt = outgoing.attempt(self._group, queue, address, self._client.clock_ms())
            attempt.oneway = True
            await call_before(self._hooks, attempt)
        # Without the mark of a logical queue: a redirect could not be followed.
        frame = self._frame(outgoing, real, FLAG_ONEWAY)
        try:
            await self._client.remoting.oneway(address, frame, left_s)
        except BaseException as error:
            if self._hooks:
                await self._finish(attempt, None, error)
            raise
        if self._hooks:
            await self._finish(attempt, None, None)
