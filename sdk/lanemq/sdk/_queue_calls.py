"""The requests of a consumer group about one physical queue, each to the broker that has it.

Source: RocketMQ 4.9.8, MQClientAPIImpl, PullAPIWrapper.
"""

from collections.abc import Container
from typing import Final, final

import msgspec

from lanemq.wire import (
    MASTER_ID,
    Frame,
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
from lanemq.wire.logical import READER_FIELD

from ._client import Client
from ._errors import BadAnswer, BrokerUnreachable, RefusedByBroker

FOUND: Final = int(ResponseCode.SUCCESS)
NOT_FOUND: Final = int(ResponseCode.PULL_NOT_FOUND)
NO_MATCH: Final = int(ResponseCode.PULL_RETRY_IMMEDIATELY)
OFFSET_ILLEGAL: Final = int(ResponseCode.PULL_OFFSET_MOVED)
PULL_CODES: Final = frozenset({FOUND, NOT_FOUND, NO_MATCH, OFFSET_ILLEGAL})


@final
class PullTerms(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How to pull."""

    subscription: SubscriptionData
    post_subscription: bool
    """Whether the broker is told the subscription; if not, it knows it from heartbeats."""
    commit_offset: int | None
    """Tells the broker the group's progress in passing."""
    broker_id: int
    batch: int
    """Messages at most."""
    suspend_s: float
    """How long the broker waits where it finds nothing."""
    timeout_s: float
    of_logical_queue: bool = False
    """Whether the reader of the answer knows that it is of a segment, and follows redirects."""


@final
class Pulled(msgspec.Struct, frozen=True, gc=False):
    """What a pull brought. Offsets count messages; ``code`` is one of ``PULL_CODES``."""

    code: int
    next_offset: int
    min_offset: int
    max_offset: int
    suggested_broker_id: int
    messages: list[StoredMessage]
    origin: MessageQueue | None = None
    """Of a logical queue: the real one that was read."""
    shift: int = 0
    """To be added to the messages' own offsets to get those of the logical queue."""


@final
class QueueCalls:
    """Asks the broker of a queue on behalf of one group. Every call may raise `LanemqError`."""

    def __init__(self, client: Client, group: str) -> None:
        self._client = client
        self._group = group
        self._timeout_s = client.options.call_timeout_s

    def reader(self, queue: MessageQueue, broker_id: int = MASTER_ID) -> str:
        """The address to read ``queue`` at. Raises ``BrokerUnreachable``."""
        address = self._client.routes.reader(queue.broker_name, broker_id)
        if address is None:
            raise BrokerUnreachable(queue.broker_name, "it is not in any known route")
        return address

    async def _offset(self, address: str, code: int, fields: dict[str, str]) -> int:
        return _read_offset(await self._ask(address, code, fields), address)

    async def _ask(self, address: str, code: int, fields: dict[str, str]) -> Frame:
        return await self._client.remoting.call(address, request(code, fields), self._timeout_s)

    async def committed_offset(
        self, queue: MessageQueue, *, address: str | None = None, zero_if_young: bool | None = None
    ) -> int | None:
        """Where the group resumes, or None if it never committed.

        Without ``zero_if_young=False`` brokers answer 0 for that, while a queue is young.
        """
        header = QueryConsumerOffset(
            self._group, queue.topic, queue.queue_id, set_zero_if_not_found=zero_if_young
        )
        code = RequestCode.QUERY_CONSUMER_OFFSET
        try:
            return await self._offset(address or self.reader(queue), code, header.to_fields())
        except RefusedByBroker as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise

    async def commit_offset(
        self, queue: MessageQueue, offset: int, *, wait: bool, address: str | None = None
    ) -> None:
        """Store the group's progress; unless ``wait``, without an answer."""
        header = UpdateConsumerOffset(self._group, queue.topic, queue.queue_id, offset)
        frame = request(RequestCode.UPDATE_CONSUMER_OFFSET, header.to_fields(), oneway=not wait)
        remoting, address = self._client.remoting, address or self.reader(queue)
        if wait:
            await remoting.call(address, frame, self._timeout_s)
        else:
            await remoting.oneway(address, frame)

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will get."""
        header = GetMaxOffset(queue.topic, queue.queue_id)
        return await self._offset(
            self.reader(queue), RequestCode.GET_MAX_OFFSET, header.to_fields()
        )

    async def max_offset_of_part(self, queue: MessageQueue) -> tuple[int, Frame]:
        """As ``max_offset``, for who knows that ``queue`` is part of a logical one."""
        header = GetMaxOffset(queue.topic, queue.queue_id, committed=True, logical_queue=True)
        address = self.reader(queue)
        answer = await self._ask(address, RequestCode.GET_MAX_OFFSET, header.to_fields())
        return _read_offset(answer, address), answer

    async def min_offset(self, queue: MessageQueue) -> int:
        """The oldest offset that the broker still has; 0 for a queue never written."""
        header = GetMinOffset(queue.topic, queue.queue_id)
        code = RequestCode.GET_MIN_OFFSET
        return max(await self._offset(self.reader(queue), code, header.to_fields()), 0)

    async def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """An offset next to the first message stored at ``timestamp_ms`` or later.

        4.9 brokers answer the nearest message, which may be one before.
        """
        header = SearchOffset(queue.topic, queue.queue_id, timestamp_ms, "LOWER")
        code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        return await self._offset(self.reader(queue), code, header.to_fields())

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        terms: PullTerms,
        *,
        accept: Container[int] = PULL_CODES,
    ) -> tuple[Frame, str]:
        """The answer to one pull, for ``read_pull``, and who gave it."""
        flags = (
            PullSysFlag.SUSPEND * (terms.suspend_s > 0)
            | PullSysFlag.COMMIT_OFFSET * (terms.commit_offset is not None)
            | PullSysFlag.SUBSCRIPTION * terms.post_subscription
        )
        subscription = terms.subscription
        header = PullMessage(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=terms.batch,
            sys_flag=flags,
            commit_offset=terms.commit_offset or 0,
            suspend_timeout_millis=int(terms.suspend_s * 1000),
            sub_version=subscription.sub_version,
            subscription=subscription.sub_string if terms.post_subscription else None,
            expression_type=subscription.expression_type,
        )
        address = self.reader(queue, terms.broker_id)
        fields = header.to_fields()
        if terms.of_logical_queue:
            fields[READER_FIELD] = "true"
        frame = request(RequestCode.PULL_MESSAGE, fields)
        answer = await self._client.remoting.call(address, frame, terms.timeout_s, accept=accept)
        return answer, address


def _read_offset(answer: Frame, address: str) -> int:
    try:
        return int(answer.fields["offset"])
    except (KeyError, ValueError) as error:
        raise BadAnswer(address, "a question for an offset", repr(error)) from error


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
