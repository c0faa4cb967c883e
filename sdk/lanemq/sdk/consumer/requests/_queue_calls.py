"""The requests of a consumer group about one physical queue, each to the broker that has it.

Source: RocketMQ 4.9.8, MQClientAPIImpl, PullAPIWrapper.
"""

from collections.abc import Hashable, Mapping
from functools import partial
from typing import Final, Protocol, final

import msgspec

from lanemq.wire import PullSysFlag, RemoteProtocolError, RequestCode, ResponseCode
from lanemq.wire.bodies import MASTER_ID, MessageQueue, SubscriptionData
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import (
    GetMaxOffset,
    GetMinOffset,
    OffsetResponse,
    PullMessage,
    PullMessageResponse,
    QueryConsumerOffset,
    SearchOffset,
    UpdateConsumerOffset,
)
from lanemq.wire.logical import KEPT_FIELD, READER_FIELD, SEGMENT_FIELD
from lanemq.wire.message import StoredMessage, decode_messages

from ..._errors import BadAnswer, RefusedByBroker
from ...net._client import Client
from ._first_commits import FirstCommits

FOUND: Final = int(ResponseCode.SUCCESS)
NOT_FOUND: Final = int(ResponseCode.PULL_NOT_FOUND)
NO_MATCH: Final = int(ResponseCode.PULL_RETRY_IMMEDIATELY)
OFFSET_ILLEGAL: Final = int(ResponseCode.PULL_OFFSET_MOVED)
PULL_CODES: Final = frozenset({FOUND, NOT_FOUND, NO_MATCH, OFFSET_ILLEGAL})


@final
class PullTerms(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The terms of a pull."""

    subscription: SubscriptionData
    post_subscription: bool
    """Tell the broker the subscription; False if it knows the subscription from heartbeats."""
    commit_offset: int | None
    """Tells the broker the group's progress in passing, behind a first commit."""
    broker_id: int
    batch: int
    """Messages at most."""
    suspend_s: float
    """Longest time the broker waits where it finds nothing."""
    timeout_s: float
    meant: str | None = None
    """The segment by which the reader translates the answer (``Segment.meant``); it follows
    redirects then. None for a reader of the message queue as it is."""


@final
class Pulled(msgspec.Struct, frozen=True, gc=False):
    """The result of a pull. Offsets count messages; ``code`` is one of ``PULL_CODES``."""

    code: int
    next_offset: int
    min_offset: int
    max_offset: int
    suggested_broker_id: int
    messages: list[StoredMessage]
    origin: MessageQueue | None = None
    """The real queue that was read, where ``queue`` is a logical one."""
    shift: int = 0
    """Difference to be added to the messages' own offsets to get those of the logical queue."""
    is_gap: bool = False
    """The offset lies where a logical queue has nothing (any more), with more behind."""


class QueueRequests(Protocol):
    """A group's requests about queues of one kind. Every call may raise any ``LanemqError``."""

    async def committed_offset(self, queue: MessageQueue) -> int | None:
        """Return the offset where the group resumes, or None if it never committed."""

    async def commit_offset(self, queue: MessageQueue, offset: int, *, wait: bool) -> None:
        """Store the group's progress; unless ``wait``, without an answer."""

    def keeper(self, queue: MessageQueue) -> str:
        """Return the address of the broker that keeps the group's progress."""

    def progress_key(self, queue: MessageQueue) -> Hashable:
        """Return a value that changes when progress moves to another broker. Never raises."""

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the next message will get."""

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the oldest offset that there is a message for; 0 for a queue never written."""

    async def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return an offset next to the first message stored at ``timestamp_ms`` or later.

        4.9 brokers answer the nearest message, which may be one before.
        """

    async def pull(self, queue: MessageQueue, offset: int, terms: PullTerms) -> Pulled:
        """Read from ``offset`` on.

        Finding nothing, the broker waits for a while. Raises ``RefusedByBroker`` for any code
        that is not in ``PULL_CODES``.
        """


NO_FIELDS: Final[Mapping[str, str]] = {}


@final
class QueueCalls:
    """Asks the broker of a queue on behalf of one group. Every call may raise `LanemqError`."""

    def __init__(self, client: Client, group: str) -> None:
        self._client = client
        self._group = group
        self._timeout_s = client.options.call_timeout_s
        self._first_commits = FirstCommits(client.remoting.connection_number)

    @property
    def group(self) -> str:
        """The name of the consumer group."""
        return self._group

    def reader(self, queue: MessageQueue, broker_id: int = MASTER_ID) -> str:
        """Return the address to read ``queue`` at. Raises ``BrokerUnreachable``."""
        return self._client.routes.reader(queue.broker_name, broker_id)

    async def _offset(self, address: str, code: int, fields: dict[str, str]) -> int:
        return _read_offset(await self._ask(address, code, fields), address)

    async def _ask(self, address: str, code: int, fields: dict[str, str]) -> Frame:
        return await self._client.remoting.call(address, request(code, fields), self._timeout_s)

    async def committed_offset(
        self, queue: MessageQueue, *, address: str | None = None
    ) -> int | None:
        """Return the offset where the group resumes, or None if it never committed.

        While a queue is young, brokers answer 0 for that.
        """
        header = QueryConsumerOffset(self._group, queue.topic, queue.queue_id)
        code = RequestCode.QUERY_CONSUMER_OFFSET
        address = address or self.reader(queue)
        try:
            offset = await self._offset(address, code, header.to_fields())
        except RefusedByBroker as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise
        if offset > 0:  # some brokers answer 0 for a group that has none
            self._first_commits.note(address, queue.topic)
        return offset

    async def kept_offset(self, queue: MessageQueue, address: str) -> tuple[int | None, bool]:
        """Return progress in a logical queue as one broker keeps it, and whether it was committed.

        Where it was not, 0 may be another way to say "none".
        """
        header = QueryConsumerOffset(
            self._group, queue.topic, queue.queue_id, set_zero_if_not_found=False
        )
        code = RequestCode.QUERY_CONSUMER_OFFSET
        try:
            answer = await self._ask(address, code, header.to_fields())
        except RefusedByBroker as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return None, False
            raise
        return _read_offset(answer, address), KEPT_FIELD in answer.fields

    async def commit_offset(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        wait: bool,
        address: str | None = None,
        more: Mapping[str, str] = NO_FIELDS,
    ) -> None:
        """Store the group's progress; unless ``wait``, without an answer.

        ``more`` are further ext fields.
        The first of a topic at a broker is answered in any case before another is sent.
        """
        header = UpdateConsumerOffset(self._group, queue.topic, queue.queue_id, offset)
        fields = {**header.to_fields(), **more}
        code, remoting = RequestCode.UPDATE_CONSUMER_OFFSET, self._client.remoting
        address = address or self.reader(queue)
        first = partial(self._ask, address, code, fields)
        oneway = request(code, fields, oneway=True)
        later = first if wait else partial(remoting.oneway, address, oneway, self._timeout_s)
        await self._first_commits.commit(address, queue.topic, first=first, later=later)

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the next message will get."""
        header = GetMaxOffset(queue.topic, queue.queue_id)
        return await self._offset(
            self.reader(queue), RequestCode.GET_MAX_OFFSET, header.to_fields()
        )

    async def max_offset_of_part(self, queue: MessageQueue) -> tuple[int, Frame]:
        """Return the next offset of a queue that is part of a logical one, and the whole answer."""
        header = GetMaxOffset(queue.topic, queue.queue_id, committed=True, logical_queue=True)
        address = self.reader(queue)
        answer = await self._ask(address, RequestCode.GET_MAX_OFFSET, header.to_fields())
        return _read_offset(answer, address), answer

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the oldest offset that the broker still has; 0 for a queue never written."""
        header = GetMinOffset(queue.topic, queue.queue_id)
        code = RequestCode.GET_MIN_OFFSET
        return max(await self._offset(self.reader(queue), code, header.to_fields()), 0)

    async def offset_at(
        self, queue: MessageQueue, timestamp_ms: int, boundary: str | None = "LOWER"
    ) -> int:
        """Return an offset next to the first message stored at ``timestamp_ms`` or later.

        4.9 brokers answer the nearest message, which may be one before, whatever ``boundary`` is.
        """
        header = SearchOffset(queue.topic, queue.queue_id, timestamp_ms, boundary)
        code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        return await self._offset(self.reader(queue), code, header.to_fields())

    def keeper(self, queue: MessageQueue) -> str:
        """Return the address of the queue's master. Raises ``BrokerUnreachable``."""
        return self._client.routes.known_master(queue.broker_name)

    def progress_key(self, queue: MessageQueue) -> Hashable:
        """Return None, since progress never moves: a queue stays at its broker."""
        return None

    async def pull(self, queue: MessageQueue, offset: int, terms: PullTerms) -> Pulled:
        """Read from ``offset`` on."""
        pulled = read_pull(*await self.pull_answer(queue, offset, terms), terms.batch)
        if pulled.messages and (pulled.shift or pulled.messages[0].queue_id != queue.queue_id):
            # Of a static topic of 5.x: the broker has the queue under another id.
            own = MessageQueue(queue.topic, queue.broker_name, pulled.messages[0].queue_id)
            return msgspec.structs.replace(pulled, origin=own)
        return pulled

    async def pull_answer(
        self, queue: MessageQueue, offset: int, terms: PullTerms
    ) -> tuple[Frame, str]:
        """Return the answer to one pull, for ``read_pull``, and the address that gave it."""
        address = self.reader(queue, terms.broker_id)
        commit_offset = terms.commit_offset
        if commit_offset is not None and not self._first_commits.has_table(address, queue.topic):
            commit_offset = None
        flags = (
            PullSysFlag.SUSPEND * (terms.suspend_s > 0)
            | PullSysFlag.COMMIT_OFFSET * (commit_offset is not None)
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
            commit_offset=commit_offset or 0,
            suspend_timeout_millis=int(terms.suspend_s * 1000),
            sub_version=subscription.sub_version,
            subscription=subscription.sub_string if terms.post_subscription else None,
            expression_type=subscription.expression_type,
        )
        fields = header.to_fields()
        if terms.meant is not None:
            fields[READER_FIELD] = "true"
            fields[SEGMENT_FIELD] = terms.meant
        frame = request(RequestCode.PULL_MESSAGE, fields)
        call = self._client.remoting.call
        return await call(address, frame, terms.timeout_s, accept=PULL_CODES), address


def _read_offset(answer: Frame, address: str) -> int:
    try:
        return OffsetResponse.from_fields(answer.fields).offset
    except RemoteProtocolError as error:
        raise BadAnswer(address, "a question for an offset", str(error)) from error


def read_pull(answer: Frame, address: str, asked: int) -> Pulled:
    """Decode the answer to a pull for ``asked`` messages at most. Raises ``BadAnswer``."""
    try:
        header = PullMessageResponse.from_fields(answer.fields)
        messages = decode_messages(answer.body, asked=asked) if answer.code == FOUND else []
    except RemoteProtocolError as error:
        raise BadAnswer(address, "a pull", str(error)) from error
    return Pulled(
        answer.code,
        header.next_begin_offset,
        header.min_offset,
        header.max_offset,
        header.suggest_which_broker_id,
        messages,
        shift=header.offset_delta or 0,
    )
