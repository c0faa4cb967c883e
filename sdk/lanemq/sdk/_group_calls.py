"""The requests of a consumer group, each to the right broker, typed in and typed out.

Source: RocketMQ 4.9.8, MQClientAPIImpl, PullAPIWrapper.
"""

from collections.abc import Hashable
from typing import final

from lanemq.wire import (
    CheckClientRequestBody,
    ConsumerIdList,
    ConsumerSendMsgBack,
    GetConsumerListByGroup,
    MessageQueue,
    RemoteProtocolError,
    RequestCode,
    SubscriptionData,
    request,
)
from lanemq.wire.logical import LOGICAL_QUEUE_BROKER

from ._client import Client
from ._errors import BadAnswer, BrokerUnreachable, LanemqError, RefusedByBroker
from ._logical_calls import LogicalCalls
from ._messages import ReceivedMessage
from ._queue_calls import Pulled, PullTerms, QueueCalls, read_pull


@final
class GroupCalls:
    """Asks brokers on behalf of one group. Every call may raise any ``LanemqError``.

    Queues may be logical ones: then each question goes to the brokers that have a part of it.
    """

    def __init__(self, client: Client, group: str) -> None:
        self._client = client
        self._group = group
        self._timeout_s = client.options.call_timeout_s
        self._queues = QueueCalls(client, group)
        self._logical = LogicalCalls(client, self._queues)

    def is_logical(self, queue: MessageQueue) -> bool:
        """Whether ``queue`` is a chain of parts of others, as far as is known here."""
        return queue.broker_name == LOGICAL_QUEUE_BROKER and self._logical.chain(queue) is not None

    async def committed_offset(self, queue: MessageQueue) -> int | None:
        """Where the group resumes, or None if it never committed."""
        if self.is_logical(queue):
            return await self._logical.progress.committed_offset(queue)
        return await self._queues.committed_offset(queue)

    async def commit_offset(self, queue: MessageQueue, offset: int, *, wait: bool) -> None:
        """Store the group's progress; unless ``wait``, without an answer."""
        if self.is_logical(queue):
            await self._logical.progress.commit_offset(queue, offset, wait=wait)
        else:
            await self._queues.commit_offset(queue, offset, wait=wait)

    def keeper(self, queue: MessageQueue) -> tuple[str, Hashable]:
        """The address that keeps the group's progress, and what tells two such places apart.

        Raises ``BrokerUnreachable``.
        """
        if self.is_logical(queue):
            keeping = self._logical.progress.keeping(queue)
            return keeping.address, keeping.queue
        address = self._client.routes.master(queue.broker_name)
        if address is None:
            raise BrokerUnreachable(queue.broker_name, "its master is not in any known route")
        return address, queue

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will get."""
        if self.is_logical(queue):
            return await self._logical.max_offset(queue)
        return await self._queues.max_offset(queue)

    async def min_offset(self, queue: MessageQueue) -> int:
        """The oldest offset that the broker still has; 0 for a queue never written."""
        if self.is_logical(queue):
            return await self._logical.min_offset(queue)
        return await self._queues.min_offset(queue)

    async def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """An offset next to the first message stored at ``timestamp_ms`` or later.

        4.9 brokers answer the nearest message, which may be one before.
        """
        if self.is_logical(queue):
            return await self._logical.offset_at(queue, timestamp_ms)
        return await self._queues.offset_at(queue, timestamp_ms)

    async def pull(self, queue: MessageQueue, offset: int, terms: PullTerms) -> Pulled:
        """Read from ``offset`` on.

        Finding nothing, the broker waits for a while. Raises ``RefusedByBroker`` for any code
        that is not in ``PULL_CODES``.
        """
        if self.is_logical(queue):
            return await self._logical.pull(queue, offset, terms)
        return read_pull(*await self._queues.pull(queue, offset, terms))

    async def check_subscription(self, broker_name: str, wanted: SubscriptionData) -> None:
        """Ask a broker whether it can filter so. Raises ``RefusedByBroker`` if it cannot."""
        address = self._client.routes.reader(broker_name)
        if address is None:
            raise BrokerUnreachable(broker_name, "it is not in any known route")
        body = CheckClientRequestBody(self._client.client_id, self._group, wanted).encode()
        frame = request(RequestCode.CHECK_CLIENT_CONFIG, body=body)
        await self._client.remoting.call(address, frame, self._timeout_s)

    async def consumer_ids(self, topic: str) -> list[str] | None:
        """The clients of the group, sorted, as the brokers of ``topic`` know them.

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
                return sorted(set(ConsumerIdList.decode(answer.body).consumer_id_list))
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
        """Have the broker deliver ``message`` again, by its own table of delays if level is 0."""
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
