"""Finding messages: by id, by key, by position in a queue.

As ``_broker``: the address first, the same errors.
Source: RocketMQ 4.9.8, MQAdminImpl, MQClientAPIImpl.
"""

from dataclasses import dataclass
from typing import Final

import trio

from lanemq.wire import (
    LONG_MAX,
    PullSysFlag,
    RemoteProtocolError,
    RequestCode,
    ResponseCode,
    SystemGroup,
)
from lanemq.wire.bodies import (
    CheckClientRequestBody,
    ExpressionType,
    MessageQueue,
    QueryConsumeQueueBody,
    SubscriptionData,
)
from lanemq.wire.headers import (
    PullMessage,
    PullMessageResponse,
    QueryConsumeQueue,
    QueryMessage,
    ViewMessage,
)
from lanemq.wire.message import (
    StoredMessage,
    check_number,
    decode_message,
    decode_messages,
    iter_messages,
)

from ..._errors import BadAnswer
from ..._pull_status import PULL_STATUS, PullStatus
from ..._tasks import read_body
from ._caller import Caller

TURN_BYTES: Final = 32 << 10
"""Bytes of an answer to a query that are looked at in one turn of the event loop, about. Such an
answer may have any length: of a topic with logical queues, all brokers' messages are in it."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """The answer to a pull."""

    status: PullStatus
    next_offset: int
    messages: list[StoredMessage]


@dataclass(frozen=True, slots=True)
class PulledRecords:
    """One answered pull, its records joined as they are stored. Offsets count messages."""

    status: PullStatus
    next_offset: int
    min_offset: int
    records: bytes


class MessageRequests:
    """Requests, one method each."""

    _caller: Caller

    async def message_at(
        self, address: str, log_position: int, *, topic: str = ""
    ) -> StoredMessage | None:
        """Return the message at a byte of the commit log (33), None where there is none."""
        frame = await self._caller.ask(
            address,
            RequestCode.VIEW_MESSAGE_BY_ID,
            ViewMessage(offset=log_position, topic=topic or None),  # 5.x looks at the topic
            accept=(ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR),
        )
        return decode_message(frame.body) if frame.code == ResponseCode.SUCCESS else None

    async def query(
        self,
        address: str,
        topic: str,
        key: str,
        *,
        unique: bool = False,
        max_count: int = 64,
        begin_ms: int = 0,
        end_ms: int = LONG_MAX,
    ) -> list[StoredMessage]:
        """Return messages of ``topic`` with a key, or with a unique key (12), newest first.

        The broker's index knows hashes only; messages with another key are left out here.
        """
        frame = await self._caller.ask(
            address,
            RequestCode.QUERY_MESSAGE,
            QueryMessage(
                topic=topic,
                key=key,
                max_num=max_count,
                begin_timestamp=begin_ms,
                end_timestamp=end_ms,
                unique_key_query=True if unique else None,
            ),
            accept=(ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND),
            timeout_s=3 * self._caller.timeout_s,
        )
        if frame.code != ResponseCode.SUCCESS:
            return []
        found: list[StoredMessage] = []
        left = TURN_BYTES
        for message in iter_messages(frame.body):
            if unique:
                is_it = message_id(message) == key
            else:
                is_it = message.topic == topic and key in message.keys
            if is_it:
                found.append(message)
            left -= message.size_bytes
            if left <= 0:
                await trio.lowlevel.checkpoint()
                left = TURN_BYTES
        return found

    async def pull(
        self,
        address: str,
        queue: MessageQueue,
        queue_offset: int,
        *,
        expression: str = "*",
        max_count: int = 32,
        group: str = SystemGroup.TOOLS_CONSUMER,
    ) -> Pulled:
        """Read a queue from ``queue_offset`` on (11), without waiting for new messages.

        Raises ``BadAnswer`` for clearly more messages than ``max_count``.
        """
        found = await self.pull_records(
            address, queue, queue_offset, expression=expression, max_count=max_count, group=group
        )
        try:
            messages = decode_messages(found.records)
        except RemoteProtocolError as error:
            raise BadAnswer(address, "a pull", str(error)) from error
        return Pulled(found.status, found.next_offset, messages)

    async def pull_records(
        self,
        address: str,
        queue: MessageQueue,
        queue_offset: int,
        *,
        expression: str = "*",
        expression_type: str = ExpressionType.TAG.value,
        max_count: int = 32,
        group: str = SystemGroup.TOOLS_CONSUMER,
    ) -> PulledRecords:
        """Read a queue as ``pull`` does, and leave the records as they are.

        A broker judges tags by their hashes: others may be among them. Raises ``BadAnswer`` for
        clearly more messages than ``max_count``.
        """
        frame = await self._caller.ask(
            address,
            RequestCode.PULL_MESSAGE,
            PullMessage(
                consumer_group=group,
                topic=queue.topic,
                queue_id=queue.queue_id,
                queue_offset=queue_offset,
                max_msg_nums=max_count,
                sys_flag=PullSysFlag.SUBSCRIPTION,
                commit_offset=0,
                suspend_timeout_millis=0,
                subscription=expression,
                sub_version=0,
                expression_type=expression_type,
            ),
            accept=tuple(PULL_STATUS),
        )
        header = PullMessageResponse.from_fields(frame.fields)
        status = PULL_STATUS[frame.code]
        records = frame.body if status is PullStatus.FOUND else b""
        try:
            check_number(records, max_count)
        except RemoteProtocolError as error:
            raise BadAnswer(address, "a pull", str(error)) from error
        return PulledRecords(status, header.next_begin_offset, header.min_offset, records)

    async def check_filter(self, address: str, topic: str, condition: str) -> None:
        """Ask a broker whether it can filter ``topic`` by a condition in SQL92 (46).

        Raises ``RefusedByBroker`` if it cannot: the condition is wrong, or the broker does not
        filter by properties (``enablePropertyFilter``).
        """
        wanted = SubscriptionData(
            topic, condition, sub_version=1, expression_type=ExpressionType.SQL92.value
        )
        body = CheckClientRequestBody("lanemq", SystemGroup.TOOLS_CONSUMER, wanted)
        await self._caller.ask(address, RequestCode.CHECK_CLIENT_CONFIG, body=body.encode)

    async def queue_units(
        self, address: str, queue: MessageQueue, start: int, count: int
    ) -> QueryConsumeQueueBody:
        """Return entries of a queue's index (321)."""
        header = QueryConsumeQueue(
            topic=queue.topic, queue_id=queue.queue_id, index=start, count=count
        )
        frame = await self._caller.ask(address, RequestCode.QUERY_CONSUME_QUEUE, header)
        return await read_body(frame.body, QueryConsumeQueueBody.decode)


def message_id(message: StoredMessage) -> str:
    """Return the message id as clients show it: its unique key, else its offset id."""
    return message.unique_key or message.offset_id
