"""The requests of a consumer group, each to the right broker, typed in and typed out.

Source: RocketMQ 4.9.8, MQClientAPIImpl, PullAPIWrapper.
"""

from collections.abc import Hashable
from typing import final

from lanemq.wire import RemoteProtocolError, RequestCode
from lanemq.wire.bodies import (
    CheckClientRequestBody,
    ConsumerIdList,
    MessageQueue,
    SubscriptionData,
)
from lanemq.wire.frame import request
from lanemq.wire.headers import ConsumerSendMsgBack, GetConsumerListByGroup
from lanemq.wire.logical import LOGICAL_QUEUE_BROKER

from ..._errors import BadAnswer, BrokerUnreachable, LanemqError, RefusedByBroker
from ..._messages import ReceivedMessage
from ..._tasks import read_body
from ...logical._calls import LogicalCalls
from ...net._client import Client
from ..requests._queue_calls import QueueCalls, QueueRequests


@final
class GroupCalls:
    """Asks brokers on behalf of one group. Every call may raise any ``LanemqError``.

    ``of`` gives the requests about one queue, physical or logical.
    """

    def __init__(self, client: Client, group: str) -> None:
        self._client = client
        self._group = group
        self._timeout_s = client.options.call_timeout_s
        self._physical = QueueCalls(client, group)
        self._logical = LogicalCalls(client, self._physical)

    def of(self, queue: MessageQueue) -> QueueRequests:
        """Return the requests about ``queue``, which may be a chain of parts of others."""
        if queue.broker_name == LOGICAL_QUEUE_BROKER and self._logical.chain(queue) is not None:
            return self._logical
        return self._physical

    def place(self, queue: MessageQueue) -> Hashable:
        """Return the broker and queue at which the group's offset is kept."""
        return self.of(queue).progress_key(queue)

    async def committed_offset(self, queue: MessageQueue) -> int | None:
        """Return the offset where the group resumes, or None if it never committed."""
        return await self.of(queue).committed_offset(queue)

    async def commit_offset(self, queue: MessageQueue, offset: int, *, wait: bool) -> None:
        """Store the group's progress; unless ``wait``, without an answer."""
        await self.of(queue).commit_offset(queue, offset, wait=wait)

    async def check_subscription(self, broker_name: str, wanted: SubscriptionData) -> None:
        """Ask a broker whether it can filter so. Raises ``RefusedByBroker`` if it cannot."""
        address = self._client.routes.reader(broker_name)
        body = CheckClientRequestBody(self._client.client_id, self._group, wanted).encode()
        frame = request(RequestCode.CHECK_CLIENT_CONFIG, body=body)
        await self._client.remoting.call(address, frame, self._timeout_s)

    async def consumer_ids(self, topic: str) -> list[str] | None:
        """Return the clients of the group, sorted, as the brokers of ``topic`` know them.

        None if no broker knows the group (yet). One broker after another is asked until one
        answers; raises the last failure. A coordinator of logical queues comes first: clients
        that know nothing of these are known there alone.
        """
        route = self._client.routes.get(topic)
        addresses = []
        if route is not None:
            brokers = sorted(
                route.brokers.items(), key=lambda item: (item[0] != LOGICAL_QUEUE_BROKER, item[0])
            )
            addresses = [addresses[min(addresses)] for _, addresses in brokers if addresses]
        frame = request(
            RequestCode.GET_CONSUMER_LIST_BY_GROUP, GetConsumerListByGroup(self._group).to_fields()
        )
        failure: LanemqError = BrokerUnreachable(topic, "no broker in its route")
        for address in addresses:
            try:
                answer = await self._client.remoting.call(address, frame, self._timeout_s)
                return await read_body(answer.body, _read_ids)
            except RefusedByBroker:
                return None
            except RemoteProtocolError as error:
                failure = BadAnswer(address, "a list of consumers", str(error))
            except LanemqError as error:
                failure = error
        raise failure

    async def send_back(
        self, message: ReceivedMessage, *, delay_level: int, max_reconsume_times: int
    ) -> None:
        """Let the broker deliver ``message`` again, by its own table of delays if level is 0."""
        stored = message.stored
        header = ConsumerSendMsgBack(
            offset=stored.log_position,
            group=self._group,
            delay_level=delay_level,
            origin_msg_id=message.message_id,
            origin_topic=message.full_topic,
            max_reconsume_times=max_reconsume_times,
        )
        # The position is one in the log of the broker that has the message, whatever the queue.
        broker_name = message.origin.broker_name
        address = self._client.routes.master(broker_name) or str(stored.store_host)
        frame = request(RequestCode.CONSUMER_SEND_MSG_BACK, header.to_fields())
        await self._client.remoting.call(address, frame, self._timeout_s)


def _read_ids(body: bytes) -> list[str]:
    return sorted(set(ConsumerIdList.decode(body).consumer_id_list))
