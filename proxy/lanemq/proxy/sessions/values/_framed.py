"""The typed results of a broker's rarer requests, with the frame that each is at every port.

A logical listener gets them from its own process's broker as they are, and reads them from the
frames of other brokers.
"""

from typing import Final, Self, TypeVar, final

from lanemq.wire import BOUND_LOCK_FIELD, Refused, RemoteProtocolError, ResponseCode
from lanemq.wire.bodies import LockBatchResult, MessageQueue, TopicStatsTable
from lanemq.wire.frame import Frame
from lanemq.wire.headers import (
    GetEarliestMsgStoretimeResponse,
    Header,
    OffsetResponse,
    QueryMessageResponse,
)
from lanemq.wire.logical import (
    KEPT_FIELD,
    MOVED_FIELD,
    NOT_SET,
    REDIRECT_FIELD,
    REDIRECT_VALUE,
)

from ...net._answers import Result

HeaderT = TypeVar("HeaderT", bound=Header)
(_OFFSET,) = OffsetResponse.names("offset")


@final
class GroupOffset(Result, frozen=True, gc=False):
    """The result of a question for a group's offset in a queue that has one."""

    offset: int
    """The offset; -1 where another broker answered without one."""
    is_kept: bool = False
    """True for an offset that the group has committed in a logical queue."""

    def reply(self, request: Frame) -> Frame:
        fields = OffsetResponse(self.offset).to_fields()
        if self.is_kept:
            fields[KEPT_FIELD] = "true"
        return request.reply(fields=fields)

    @classmethod
    def read(cls, answer: Frame) -> Self:
        """Read another broker's answer."""
        try:
            offset = max(OffsetResponse.from_fields(answer.fields).offset, NOT_SET)
        except RemoteProtocolError:
            offset = NOT_SET
        return cls(offset, KEPT_FIELD in answer.fields)


@final
class QueueOffset(Result, frozen=True, gc=False):
    """The result of a question for the begin or the end of a queue, or for its offset at a time."""

    offset: int
    is_continued: bool = False
    """True if the logical queue goes on elsewhere, so that this is not its end."""

    def reply(self, request: Frame) -> Frame:
        fields = OffsetResponse(self.offset).to_fields()
        if self.is_continued:
            fields[REDIRECT_FIELD] = REDIRECT_VALUE
        return request.reply(fields=fields)

    @classmethod
    def read(cls, answer: Frame) -> Self:
        """Read another broker's answer. Raises ``Refused`` for one without an offset."""
        offset = _header(OffsetResponse, answer).offset
        return cls(offset, REDIRECT_FIELD in answer.fields)

    @classmethod
    def read_end(cls, answer: Frame) -> Self:
        """Read an answer about a queue's end, which may be only that it goes on elsewhere."""
        if REDIRECT_FIELD in answer.fields and _OFFSET not in answer.fields:
            return cls(NOT_SET, is_continued=True)
        return cls.read(answer)


@final
class EarliestTime(Result, frozen=True, gc=False):
    """The result of a question for the store time of a queue's first message."""

    time_ms: int
    """The time in milliseconds since 1970; -1 without any message."""

    def reply(self, request: Frame) -> Frame:
        return request.reply(fields=GetEarliestMsgStoretimeResponse(self.time_ms).to_fields())

    @classmethod
    def read(cls, answer: Frame) -> Self:
        """Read another broker's answer. Raises ``Refused`` for one without a time."""
        return cls(_header(GetEarliestMsgStoretimeResponse, answer).timestamp)


@final
class TopicStats(Result, frozen=True, gc=False):
    """The result of a question for the bounds of a topic's queues."""

    stats: TopicStatsTable

    def reply(self, request: Frame) -> Frame:
        return request.reply(body=self.stats.encode())

    @classmethod
    def read(cls, answer: Frame) -> Self:
        """Read another broker's answer. Raises ``RemoteProtocolError``."""
        return cls(TopicStatsTable.decode(answer.body))


@final
class Locked(Result, frozen=True, gc=False):
    """The result of a request to lock queues."""

    queues: tuple[MessageQueue, ...]
    """The queues that the client holds now."""
    is_bound: bool = False
    """True if the locks end with the connection."""
    has_moved: bool = False
    """True if a logical queue of the request does not end at this broker."""

    def fields(self) -> dict[str, str]:
        """Return the fields of the answer."""
        fields = {BOUND_LOCK_FIELD: "true"} if self.is_bound else {}
        if self.has_moved:
            fields[MOVED_FIELD] = "true"
        return fields

    def reply(self, request: Frame) -> Frame:
        return request.reply(fields=self.fields(), body=LockBatchResult(self.queues).encode())

    @classmethod
    def read(cls, answer: Frame) -> Self:
        """Read another broker's answer. Raises ``RemoteProtocolError``."""
        held = LockBatchResult.decode(answer.body).lock_ok_mq_set if answer.body else ()
        return cls(tuple(held), BOUND_LOCK_FIELD in answer.fields, MOVED_FIELD in answer.fields)


@final
class Unlocked(Result, frozen=True, gc=False):
    """The result of a request to release the locks of queues."""

    has_moved: bool = False
    """True if a logical queue of the request does not end at this broker."""

    def reply(self, request: Frame) -> Frame:
        return request.reply(fields={MOVED_FIELD: "true"} if self.has_moved else None)

    @classmethod
    def read(cls, answer: Frame) -> Self:
        """Read another broker's answer."""
        return cls(MOVED_FIELD in answer.fields)


@final
class SentBack(Result, frozen=True, gc=False):
    """The result of a message that is sent back: it will be delivered again, if its group has
    retries."""

    def reply(self, request: Frame) -> Frame:
        return request.reply()


SENT_BACK: Final = SentBack()


@final
class Queried(Result, frozen=True, gc=False):
    """The result of a search for messages by key."""

    body: bytes
    """The records, one behind the other."""
    last_time_ms: int
    last_position: int
    """Store time and log position of the last message in the index; 0 where they are not known."""
    not_found: str | None = None
    """The remark of an answer without any record."""

    def reply(self, request: Frame) -> Frame:
        fields = QueryMessageResponse(self.last_time_ms, self.last_position).to_fields()
        if self.not_found is not None:
            return request.reply(ResponseCode.QUERY_NOT_FOUND, fields, remark=self.not_found)
        return request.reply(fields=fields, body=self.body)

    @classmethod
    def read(cls, answer: Frame) -> Self:
        """Read another broker's answer, which may be that there is no such message."""
        try:
            last = QueryMessageResponse.from_fields(answer.fields)
        except RemoteProtocolError:
            last = QueryMessageResponse(0, 0)
        is_found = answer.code != ResponseCode.QUERY_NOT_FOUND
        return cls(
            answer.body if is_found else b"",
            last.index_last_update_timestamp,
            last.index_last_update_phyoffset,
            None if is_found else answer.remark or "",
        )


Framed = (
    GroupOffset | QueueOffset | EarliestTime | TopicStats | Locked | Unlocked | SentBack | Queried
)
"""A result that has one frame, which no port changes: ``reply`` makes it for a request."""


def _header(header: type[HeaderT], answer: Frame) -> HeaderT:
    """Read the header of another broker's answer. Raises ``Refused`` where it is not there."""
    try:
        return header.from_fields(answer.fields)
    except RemoteProtocolError:
        asked_for = header.__struct_encode_fields__[0]
        remark = f"a broker answered a question for {asked_for} without it"
        raise Refused(ResponseCode.SYSTEM_ERROR, remark) from None
