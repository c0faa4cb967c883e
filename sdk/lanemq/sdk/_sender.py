"""Sends what is ready for the wire: chooses queues, tries again, reads the answer.

Source: RocketMQ 4.9.8, DefaultMQProducerImpl.sendDefaultImpl, MQClientAPIImpl.processSendResponse.
"""

import random
from typing import Final, final

import trio

from lanemq.wire import FLAG_ONEWAY, MASTER_ID, Frame, MessageQueue

from ._client import Client
from ._errors import BadAnswer, BrokerUnreachable, LanemqError, RequestTimedOut
from ._messages import SendResult, SendStatus
from ._options import ProducerOptions
from ._outgoing import Outgoing
from ._route_table import TopicRoute

STATUSES: Final = {status.value: status for status in SendStatus}


@final
class QueueChooser:
    """Goes round the queues of a route, and leaves the broker that just failed aside."""

    def __init__(self) -> None:
        # Producers that start together should not all begin with the same queue.
        self._next = random.randrange(1 << 16)

    def choose(self, queues: tuple[MessageQueue, ...], failed_broker: str | None) -> MessageQueue:
        """The next queue; of another broker than ``failed_broker`` if there is one."""
        count = len(queues)
        for _ in range(count):
            self._next += 1
            queue = queues[self._next % count]
            if queue.broker_name != failed_broker:
                return queue
        self._next += 1
        return queues[self._next % count]


@final
class Sender:
    """Sends for one group. Used by producers, and by consumers to put a message back."""

    def __init__(self, client: Client, group: str, options: ProducerOptions) -> None:
        self._client = client
        self._group = group
        self._options = options
        self._choosers: dict[str, QueueChooser] = {}

    async def route(self, topic: str) -> TopicRoute:
        """The route to send by; raises as ``Routes.find_for_send``."""
        route = self._client.routes.get(topic)
        if route is None or not route.publish_queues:
            route = await self._client.routes.find_for_send(topic)
        return route

    def _choose(self, route: TopicRoute, failed_broker: str | None) -> MessageQueue:
        chooser = self._choosers.get(route.topic)
        if chooser is None:
            chooser = self._choosers[route.topic] = QueueChooser()
        return chooser.choose(route.publish_queues, failed_broker)

    def _address(self, route: TopicRoute, queue: MessageQueue) -> str:
        addresses = route.brokers.get(queue.broker_name)
        address = None if addresses is None else addresses.get(MASTER_ID)
        if address is None:
            address = self._client.routes.master(queue.broker_name)
        if address is None:
            raise BrokerUnreachable(queue.broker_name, "its master is not in any known route")
        return address

    async def send(
        self, outgoing: Outgoing, queue: MessageQueue | None, timeout_s: float
    ) -> SendResult:
        """Send, and on a retriable failure send again while ``timeout_s`` lasts.

        A given ``queue`` is the only one tried, once. Raises the last failure, with a note of
        the attempts before it.
        """
        started_s = trio.current_time()
        options = self._options
        route = self._client.routes.get(outgoing.topic)
        if route is None or not route.publish_queues:
            with trio.move_on_after(timeout_s) as scope:
                route = await self._client.routes.find_for_send(outgoing.topic)
            if scope.cancelled_caught or route is None:
                servers = ",".join(self._client.routes.name_servers.addresses)
                raise RequestTimedOut(servers, 105, timeout_s)
        attempts = 1 if queue is not None else 1 + options.retries
        failed: list[str] = []
        while True:
            target = queue or self._choose(route, failed[-1] if failed else None)
            left_s = timeout_s - (trio.current_time() - started_s) if failed else timeout_s
            try:
                result = await self._attempt(outgoing, route, target, left_s)
                if (
                    result.status is SendStatus.OK
                    or not options.retry_when_not_stored
                    or len(failed) + 1 >= attempts
                ):
                    return result
                failed.append(target.broker_name)
            except LanemqError as error:
                failed.append(target.broker_name)
                elapsed_s = trio.current_time() - started_s
                if not error.retriable or len(failed) >= attempts or elapsed_s >= timeout_s:
                    error.add_note(
                        f"sending to {outgoing.topic} failed after {len(failed)} of {attempts}"
                        f" attempts and {elapsed_s:.3f} s; brokers tried: {', '.join(failed)}"
                    )
                    raise
                # The periodic refresh may have brought another route meanwhile.
                route = self._client.routes.get(outgoing.topic) or route

    async def _attempt(
        self, outgoing: Outgoing, route: TopicRoute, queue: MessageQueue, timeout_s: float
    ) -> SendResult:
        address = self._address(route, queue)
        client = self._client
        frame = outgoing.frame(self._group, queue, self._options, client.clock_ms(), 0)
        answer = await client.remoting.call(address, frame, timeout_s, accept=STATUSES)
        return self._read(answer, outgoing, queue, address)

    @staticmethod
    def _read(answer: Frame, outgoing: Outgoing, queue: MessageQueue, address: str) -> SendResult:
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
            )
        except (KeyError, ValueError) as error:
            raise BadAnswer(address, "a send", repr(error)) from error

    async def send_oneway(self, outgoing: Outgoing, queue: MessageQueue | None) -> None:
        """Send without an answer; one attempt. Raises where nothing could be sent at all."""
        route = await self.route(outgoing.topic)
        target = queue or self._choose(route, None)
        frame = outgoing.frame(
            self._group, target, self._options, self._client.clock_ms(), FLAG_ONEWAY
        )
        await self._client.remoting.oneway(self._address(route, target), frame)
