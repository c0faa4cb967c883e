"""The requests of a consumer group, each to the right broker, typed in and typed out.

Source: RocketMQ 4.9.8, MQClientAPIImpl, PullAPIWrapper.
"""

from typing import Final, final

import msgspec

from lanemq.wire import (
    MASTER_ID,
    CheckClientRequestBody,
    ConsumerIdList,
    ConsumerSendMsgBack,
    Frame,
    GetConsumerListByGroup,
    GetMaxOffset,
    GetMinOffset,
    MessageQueue,
    PullMessage,
    PullMessageResponse,
    PullSysFlag,
    QueryConsumerOffset,
    RemoteProtocolError,
    RequestCode,
    ResponseCode,
    SearchOffset,
    StoredMessage,
    SubscriptionData,
    UpdateConsumerOffset,
    decode_messages,
    request,
)

from ._client import Client
from ._errors import BadAnswer, BrokerUnreachable, LanemqError, RefusedByBroker
from ._messages import ReceivedMessage

FOUND: Final = int(ResponseCode.SUCCESS)
NOT_FOUND: Final = int(ResponseCode.PULL_NOT_FOUND)
NO_MATCH: Final = int(ResponseCode.PULL_RETRY_IMMEDIATELY)
OFFSET_ILLEGAL: Final = int(ResponseCode.PULL_OFFSET_MOVED)
PULL_CODES: Final = frozenset({FOUND, NOT_FOUND, NO_MATCH, OFFSET_ILLEGAL})


@final
class Pulled(msgspec.Struct, frozen=True, gc=False):
    """What a pull brought. Offsets count messages; ``code`` is one of ``PULL_CODES``."""

    code: int
    next_offset: int
    min_offset: int
    max_offset: int
    suggested_broker_id: int
    messages: list[StoredMessage]


@final
class GroupCalls:
    """Asks brokers on behalf of one group. Every call may raise any ``LanemqError``."""

    def __init__(self, client: Client, group: str) -> None:
        self._client = client
        self._group = group
        self._timeout_s = client.options.call_timeout_s

    def _reader(self, queue: MessageQueue, broker_id: int = MASTER_ID) -> str:
        address = self._client.routes.reader(queue.broker_name, broker_id)
        if address is None:
            raise BrokerUnreachable(queue.broker_name, "it is not in any known route")
        return address

    async def _offset(self, queue: MessageQueue, code: int, fields: dict[str, str]) -> int:
        address = self._reader(queue)
        answer = await self._client.remoting.call(address, request(code, fields), self._timeout_s)
        try:
            return int(answer.fields["offset"])
        except (KeyError, ValueError) as error:
            raise BadAnswer(address, f"request {code}", repr(error)) from error

    async def committed_offset(self, queue: MessageQueue) -> int | None:
        """Where the group resumes, or None if it never committed."""
        header = QueryConsumerOffset(self._group, queue.topic, queue.queue_id)
        try:
            return await self._offset(queue, RequestCode.QUERY_CONSUMER_OFFSET, header.to_fields())
        except RefusedByBroker as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will get."""
        header = GetMaxOffset(queue.topic, queue.queue_id)
        return await self._offset(queue, RequestCode.GET_MAX_OFFSET, header.to_fields())

    async def min_offset(self, queue: MessageQueue) -> int:
        """The oldest offset that the broker still has; 0 for a queue never written."""
        header = GetMinOffset(queue.topic, queue.queue_id)
        offset = await self._offset(queue, RequestCode.GET_MIN_OFFSET, header.to_fields())
        return max(offset, 0)

    async def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """An offset next to the first message stored at ``timestamp_ms`` or later.

        4.9 brokers answer the nearest message, which may be one before.
        """
        header = SearchOffset(queue.topic, queue.queue_id, timestamp_ms, "LOWER")
        code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        return await self._offset(queue, code, header.to_fields())

    async def commit_offset(self, queue: MessageQueue, offset: int, *, wait: bool) -> None:
        """Store the group's progress; unless ``wait``, without an answer."""
        header = UpdateConsumerOffset(self._group, queue.topic, queue.queue_id, offset)
        frame = request(RequestCode.UPDATE_CONSUMER_OFFSET, header.to_fields(), oneway=not wait)
        remoting, address = self._client.remoting, self._reader(queue)
        if wait:
            await remoting.call(address, frame, self._timeout_s)
        else:
            await remoting.oneway(address, frame)

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
        answers; raises the last failure.
        """
        route = self._client.routes.get(topic)
        addresses = (
            []
            if route is None
            else [brokers[min(brokers)] for _, brokers in sorted(route.brokers.items()) if brokers]
        )
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

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        subscription: SubscriptionData,
        commit_offset: int | None,
        post_subscription: bool,
        broker_id: int,
        batch: int,
        suspend_s: float,
        timeout_s: float,
    ) -> Pulled:
        """Read from ``offset`` on, at most ``batch`` messages.

        Finding nothing, the broker waits up to ``suspend_s`` seconds. ``commit_offset`` tells
        it the group's progress in passing. Raises ``RefusedByBroker`` for any code that is
        not in ``PULL_CODES``.
        """
        flags = (
            PullSysFlag.SUSPEND * (suspend_s > 0)
            | PullSysFlag.COMMIT_OFFSET * (commit_offset is not None)
            | PullSysFlag.SUBSCRIPTION * post_subscription
        )
        header = PullMessage(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=batch,
            sys_flag=flags,
            commit_offset=commit_offset or 0,
            suspend_timeout_millis=int(suspend_s * 1000),
            sub_version=subscription.sub_version,
            subscription=subscription.sub_string if post_subscription else None,
            expression_type=subscription.expression_type,
        )
        address = self._reader(queue, broker_id)
        frame = request(RequestCode.PULL_MESSAGE, header.to_fields())
        answer = await self._client.remoting.call(address, frame, timeout_s, accept=PULL_CODES)
        return read_pull(answer, address)

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
        queue = message.queue
        address = self._client.routes.master(queue.broker_name) or str(stored.store_host)
        frame = request(RequestCode.CONSUMER_SEND_MSG_BACK, header.to_fields())
        await self._client.remoting.call(address, frame, self._timeout_s)


def read_pull(answer: Frame, address: str) -> Pulled:
    """Decode the answer to a pull. Raises ``BadAnswer``."""
    try:
        header = PullMessageResponse.from_fields(answer.fields)
        messages = decode_messages(answer.body) if answer.code == FOUND else []
    except RemoteProtocolError as error:
        raise BadAnswer(address, "a pull", str(error)) from error
    return Pulled(
        answer.code,
        header.next_begin_offset,
        header.min_offset,
        header.max_offset,
        header.suggest_which_broker_id,
        messages,
    )
