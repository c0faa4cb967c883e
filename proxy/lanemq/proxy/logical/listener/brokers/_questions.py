"""The questions of a listener to the brokers of segments, typed at both ends.

This process's broker is asked by a call, and its result is the answer. Another one gets a request,
and its answer is read as the same result.
"""

from collections.abc import Awaitable, Callable, Container
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, NamedTuple, TypeVar, final

from lanemq.wire import VERSION, RequestCode, ResponseCode
from lanemq.wire.bodies import LockBatch
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import (
    GetEarliestMsgStoretime,
    GetMaxOffset,
    GetMinOffset,
    GetTopicStatsInfo,
    Header,
    QueryConsumerOffset,
    QueryMessage,
    SearchOffset,
    UpdateConsumerOffset,
    ViewMessage,
)
from lanemq.wire.logical import LOCK_FIELD

from ....broker._typed_handlers import TypedHandlers
from ....broker.values._framed import (
    EarliestTime,
    GroupOffset,
    Locked,
    Queried,
    QueueOffset,
    TopicStats,
    Unlocked,
)
from ....broker.values._results import DONE, Done, Viewed

Code = RequestCode
AskedT = TypeVar("AskedT")
ToldT = TypeVar("ToldT")
AskedT_contra = TypeVar("AskedT_contra", contravariant=True)
ToldT_co = TypeVar("ToldT_co", covariant=True)

_SUCCESS: Final = frozenset({ResponseCode.SUCCESS})


@final
@dataclass(frozen=True)
class Question(Generic[AskedT_contra, ToldT_co]):
    """A kind of question: its typed handler here, and its frames at another broker."""

    own: Callable[[AskedT_contra], ToldT_co | Awaitable[ToldT_co]]
    """The handler of this process's broker. Raises ``Refused``."""
    encode: Callable[[AskedT_contra], Frame]
    """Makes the request for another broker."""
    decode: Callable[[Frame], ToldT_co]
    """Reads another broker's answer of one of ``codes``. Raises ``Refused``,
    ``RemoteProtocolError``."""
    codes: Container[int] = _SUCCESS
    """The response codes that answer the question; any other is a refusal."""


class Search(NamedTuple):
    """A client's search for messages by key."""

    header: QueryMessage
    frame: Frame
    """The request, which other brokers get as it is."""


@final
class Questions:
    """All kinds of questions, with the handlers of this process's broker."""

    def __init__(self, own: TypedHandlers) -> None:
        groups, queues = own.group_offsets, own.queue_offsets
        locks, messages = own.locks, own.messages

        def by_key(asked: Search) -> Queried:
            return messages.by_key(asked.header, version=asked.frame.version)

        def done(answer: Frame) -> Done:
            return DONE

        self.group_offset: Final = Question[QueryConsumerOffset, GroupOffset](
            groups.query, _of(Code.QUERY_CONSUMER_OFFSET), GroupOffset.read
        )
        self.commit: Final = Question[UpdateConsumerOffset, Done](
            groups.update, _of(Code.UPDATE_CONSUMER_OFFSET), done
        )
        self.max_offset: Final = Question[GetMaxOffset, QueueOffset](
            queues.get_max, _of(Code.GET_MAX_OFFSET), QueueOffset.read_end
        )
        self.min_offset: Final = Question[GetMinOffset, QueueOffset](
            queues.get_min, _of(Code.GET_MIN_OFFSET), QueueOffset.read
        )
        self.offset_at: Final = Question[SearchOffset, QueueOffset](
            queues.search, _of(Code.SEARCH_OFFSET_BY_TIMESTAMP), QueueOffset.read
        )
        self.earliest_time: Final = Question[GetEarliestMsgStoretime, EarliestTime](
            queues.earliest, _of(Code.GET_EARLIEST_MSG_STORETIME), EarliestTime.read
        )
        self.topic_stats: Final = Question[GetTopicStatsInfo, TopicStats](
            own.topics.stats, _of(Code.GET_TOPIC_STATS_INFO), TopicStats.read
        )
        self.lock: Final = Question[LockBatch, Locked](
            locks.lock_logical, partial(_about_locks, Code.LOCK_BATCH_MQ), Locked.read
        )
        self.unlock: Final = Question[LockBatch, Unlocked](
            locks.unlock_logical, partial(_about_locks, Code.UNLOCK_BATCH_MQ), Unlocked.read
        )
        self.view: Final = Question[ViewMessage, Viewed](
            partial(messages.view, version=VERSION),
            _of(Code.VIEW_MESSAGE_BY_ID),
            lambda answer: Viewed(answer.body),
        )
        self.by_key: Final = Question[Search, Queried](
            by_key,
            lambda asked: asked.frame,
            Queried.read,
            frozenset({ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND}),
        )


def _of(code: int) -> Callable[[Header], Frame]:
    """Make the encoder of questions that are a header."""
    return lambda header: request(code, header.to_fields())


def _about_locks(code: int, asked: LockBatch) -> Frame:
    return request(code, {LOCK_FIELD: "true"}, asked.encode())
