"""Sends what is ready for the wire: chooses queues, tries again, reads the answer.

Source: RocketMQ 4.9.8, DefaultMQProducerImpl.sendDefaultImpl, MQClientAPIImpl.processSendResponse.
"""

from collections.abc import Container, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Final, final

import trio

from lanemq.wire import FLAG_ONEWAY, MASTER_ID, Frame, MessageQueue, SysFlag
from lanemq.wire.logical import Segment

from ._client import Client
from ._errors import BadAnswer, BrokerUnreachable, LanemqError, RequestTimedOut
from ._latency_faults import LatencyFaults
from ._logical_send import NO_PERMISSION, LogicalSends, mark
from ._messages import SendResult, SendStatus
from ._namespace import in_namespace, queue_out
from ._options import ProducerOptions
from ._outgoing import Outgoing
from ._queue_chooser import QueueChooser, own_broker
from ._route_table import TopicRoute
from ._selectors import Select
from ._send_hooks import SendAttempt, SendHook, call_after, call_before, describe

NOWHERE: Final[dict[int, str]] = {}
STATUSES: Final = {status.value: status for status in SendStatus}
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
        self._choosers: dict[str, QueueChooser] = {}
        # With a namespace: a route, and the same with the names that applications use.
        self._shown_routes: dict[str, tuple[TopicRoute, TopicRoute]] = {}
        self._faults = (
            LatencyFaults(options.slow_broker_pauses) if options.avoid_slow_brokers else None
        )

    async def route(self, topic: str) -> TopicRoute:
        """The route to send by, its queues as applications know them.

        Raises as ``Routes.find_for_send``.
        """
        route = self._known(topic)
        if route is None or not route.publish_queues:
            full = in_namespace(self._options.client.namespace, topic)
            route = self._shown(topic, await self._client.routes.find_for_send(full))
        return route

    def _known(self, topic: str) -> TopicRoute | None:
        """As ``route``, without asking; None if it is not known yet."""
        namespace = self._options.client.namespace
        if not namespace:
            return self._client.routes.get(topic)
        route = self._client.routes.get(in_namespace(namespace, topic))
        return None if route is None else self._shown(topic, route)

    def _shown(self, topic: str, route: TopicRoute) -> TopicRoute:
        namespace = self._options.client.namespace
        if not namespace:
            return route
        known = self._shown_routes.get(topic)
        if known is None or known[0] is not route:
            queues = tuple(queue_out(namespace, queue) for queue in route.publish_queues)
            known = route, replace(route, topic=topic, publish_queues=queues)
            self._shown_routes[topic] = known
        return known[1]

    def _choose(self, route: TopicRoute, failed_broker: str | None) -> MessageQueue:
        chooser = self._choosers.get(route.topic)
        if chooser is None:
            chooser = self._choosers[route.topic] = QueueChooser()
        broker_of = own_broker if route.chains is None else partial(_broker_of, route)
        queues = route.publish_queues
        if self._faults is not None:
            now_s = trio.current_time()
            return chooser.choose_available(queues, self._faults, now_s, broker_of)
        return chooser.choose(queues, failed_broker, broker_of)

    def _address(self, route: TopicRoute, broker_name: str) -> str:
        known = route.brokers.get(broker_name, NOWHERE)
        address = known.get(MASTER_ID) or self._client.routes.master(broker_name)
        if address is None:
            raise BrokerUnreachable(broker_name, "its master is not in any known route")
        return address

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
        from ._telemetry import sending  # may not be installed

        return sending(outgoing.span, outgoing.topic, outgoing.message_id, self._group)

    async def _send(
        self, outgoing: Outgoing, queue: MessageQueue | Select | None, timeout_s: float
    ) -> SendResult:
        started_s = trio.current_time()
        options = self._options
        route = self._known(outgoing.topic)
        if route is None or not route.publish_queues:
            with trio.move_on_after(timeout_s) as scope:
                route = await self.route(outgoing.topic)
            if scope.cancelled_caught or route is None:
                servers = ",".join(self._client.routes.name_servers.addresses)
                raise RequestTimedOut(servers, 105, timeout_s)
        if queue is not None and not isinstance(queue, MessageQueue):
            queue = queue(route.publish_queues)
        attempts = 1 if queue is not None else 1 + options.retries
        failed: list[str] = []
        while True:
            target = queue or self._choose(route, failed[-1] if failed else None)
            left_s = timeout_s - (trio.current_time() - started_s) if failed else timeout_s
            broker_name = _broker_of(route, target)
            try:
                result = await self._attempt(outgoing, route, target, left_s)
                if (
                    result.status is SendStatus.OK
                    or not options.retry_when_not_stored
                    or len(failed) + 1 >= attempts
                ):
                    return result
                failed.append(broker_name)
            except LanemqError as error:
                failed.append(broker_name)
                elapsed_s = trio.current_time() - started_s
                if not error.retriable or len(failed) >= attempts or elapsed_s >= timeout_s:
                    error.add_note(
                        f"sending to {outgoing.topic} failed after {len(failed)} of {attempts}"
                        f" attempts and {elapsed_s:.3f} s; brokers tried: {', '.join(failed)}"
                    )
                    raise
                # The periodic refresh may have brought another route meanwhile.
                fresh = self._known(outgoing.topic)
                if fresh is not None and fresh.publish_queues:
                    route = fresh

    async def _attempt(
        self, outgoing: Outgoing, route: TopicRoute, queue: MessageQueue, timeout_s: float
    ) -> SendResult:
        is_logical = route.chain(queue) is not None
        if not is_logical:
            address = self._address(route, queue.broker_name)
        elif self._hooks:  # what is known now; it may move on
            address = self._client.routes.master(_broker_of(route, queue)) or ""
        if self._hooks:
            attempt = self._describe(outgoing, queue, address)
            await call_before(self._hooks, attempt)
        try:
            if is_logical:
                result = await self._logical.send(
                    in_namespace(self._options.client.namespace, outgoing.topic),
                    queue,
                    timeout_s,
                    partial(self._transmit_to_segment, outgoing),
                    partial(self._read, outgoing),
                    is_half=bool(outgoing.sys_flag & SysFlag.TRANSACTION_MASK),
                )
            else:
                frame = self._frame(outgoing, queue)
                answer = await self._transmit(frame, queue, address, timeout_s, STATUSES)
                result = self._read(outgoing, answer, queue, address)
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
        """One request to a real queue; how long it took tells of its broker."""
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
        address = self._address(route, queue.broker_name)
        frame = self._frame(outgoing, queue)
        mark(frame, segment)
        accept = STATUSES_OR_REFUSAL
        return await self._transmit(frame, queue, address, timeout_s, accept), address

    def _describe(self, outgoing: Outgoing, queue: MessageQueue, address: str) -> SendAttempt:
        return describe(self._group, outgoing, queue, address, self._client.clock_ms())

    async def _finish(
        self, attempt: SendAttempt, result: SendResult | None, error: BaseException | None
    ) -> None:
        attempt.cost_ms = self._client.clock_ms() - attempt.started_ms
        attempt.result, attempt.error = result, error
        await call_after(self._hooks, attempt)

    @staticmethod
    def _read(outgoing: Outgoing, answer: Frame, queue: MessageQueue, address: str) -> SendResult:
        fields = answer.fields
        try:
            queue_id = int(fields["queueId"])
            if queue_id != queue.queue_id:
                queue = MessageQueue(queue.topic, queue.broker_name, queue_id)
            return SendResult(
                status=STATUSES[answer.code],
                message_id=outgoing.message_id,
                offset_id=fields["msgId"],
                queue=queue,
                queue_offset=int(fields["queueOffset"]),
                transaction_id=fields.get("transactionId"),
                region=fields.get("MSG_REGION"),
                trace_on=fields.get("TRACE_ON") != "false",
            )
        except (KeyError, ValueError) as error:
            raise BadAnswer(address, "a send", repr(error)) from error

    async def send_oneway(self, outgoing: Outgoing, queue: MessageQueue | Select | None) -> None:
        """Send without an answer; one attempt. Raises where nothing could be sent at all."""
        if outgoing.span is None:
            await self._send_oneway(outgoing, queue)
            return
        with self._watched(outgoing):
            await self._send_oneway(outgoing, queue)

    async def _send_oneway(self, outgoing: Outgoing, queue: MessageQueue | Select | None) -> None:
        route = await self.route(outgoing.topic)
        if queue is None:
            queue = self._choose(route, None)
        elif not isinstance(queue, MessageQueue):
            queue = queue(route.publish_queues)
        segment = route.writable_segment(queue)
        real = queue if segment is None else segment.message_queue
        address = self._address(route, real.broker_name)
        if self._hooks:
            attempt = self._describe(outgoing, queue, address)
            attempt.oneway = True
            await call_before(self._hooks, attempt)
        # Without the mark of a logical queue: nobody would read a redirect.
        frame = self._frame(outgoing, real, FLAG_ONEWAY)
        try:
            await self._client.remoting.oneway(address, frame)
        except BaseException as error:
            if self._hooks:
                await self._finish(attempt, None, error)
            raise
        if self._hooks:
            await self._finish(attempt, None, None)


def _broker_of(route: TopicRoute, queue: MessageQueue) -> str:
    """The broker that a message for ``queue`` goes to now."""
    segment = route.writable_segment(queue)
    return queue.broker_name if segment is None else segment.broker_name
