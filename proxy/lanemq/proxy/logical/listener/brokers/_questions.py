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
from lanemq.wire.logical import ACCOUNT_FIELD, LOCK_FIELD

from ....net._session import Session
from ....sessions.state._locks import Asker
from ....sessions.values._framed import (
    EarliestTime,
    GroupOffset,
    Locked,
    Queried,
    QueueOffset,
    TopicStats,
    Unlocked,
)
from ....sessions.values._results import DONE, Done, Viewed
from ._own_answers import OwnAnswers

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

    own: Callable[[OwnAnswers, AskedT_contra], ToldT_co | Awaitable[ToldT_co]]
    """Asks the handler of this process's broker. Raises ``Refused``."""
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
    session: Session
    """The client's connection."""


class Locking(NamedTuple):
    """A client's request for the locks of queues."""

    batch: LockBatch
    session: Session
    """The client's connection."""
    asker: Asker


def _of(code: int) -> Callable[[Header], Frame]:
    """Make the encoder of questions that are a header."""
    return lambda header: request(code, header.to_fields())


def _about_locks(code: int, asked: Locking) -> Frame:
    fields, asker = {LOCK_FIELD: "true"}, asked.asker
    if asker.is_limited and asker.name is not None:
        fields[ACCOUNT_FIELD] = asker.name  # the broker that is asked sees this one's account
    return request(code, fields, asked.batch.encode())


GROUP_OFFSET: Final = Question[QueryConsumerOffset, GroupOffset](
    lambda own, asked: own.group_offset(asked),
    _of(Code.QUERY_CONSUMER_OFFSET),
    GroupOffset.read,
)
COMMIT: Final = Question[UpdateConsumerOffset, Done](
    lambda own, asked: own.commit(asked), _of(Code.UPDATE_CONSUMER_OFFSET), lambda _: DONE
)
MAX_OFFSET: Final = Question[GetMaxOffset, QueueOffset](
    lambda own, asked: own.max_offset(asked), _of(Code.GET_MAX_OFFSET), QueueOffset.read_end
)
MIN_OFFSET: Final = Question[GetMinOffset, QueueOffset](
    lambda own, asked: own.min_offset(asked), _of(Code.GET_MIN_OFFSET), QueueOffset.read
)
OFFSET_AT: Final = Question[SearchOffset, QueueOffset](
    lambda own, asked: own.offset_at(asked),
    _of(Code.SEARCH_OFFSET_BY_TIMESTAMP),
    QueueOffset.read,
)
EARLIEST_TIME: Final = Question[GetEarliestMsgStoretime, EarliestTime](
    lambda own, asked: own.earliest_time(asked),
    _of(Code.GET_EARLIEST_MSG_STORETIME),
    EarliestTime.read,
)
TOPIC_STATS: Final = Question[GetTopicStatsInfo, TopicStats](
    lambda own, asked: own.topic_stats(asked), _of(Code.GET_TOPIC_STATS_INFO), TopicStats.read
)
LOCK: Final = Question[Locking, Locked](
    lambda own, asked: own.lock(asked.batch, asked.session, asked.asker),
    partial(_about_locks, Code.LOCK_BATCH_MQ),
    Locked.read,
)
UNLOCK: Final = Question[Locking, Unlocked](
    lambda own, asked: own.unlock(asked.batch, asked.asker),
    partial(_about_locks, Code.UNLOCK_BATCH_MQ),
    Unlocked.read,
)
VIEW: Final = Question[ViewMessage, Viewed](
    lambda own, asked: own.view(asked, version=VERSION),
    _of(Code.VIEW_MESSAGE_BY_ID),
    lambda answer: Viewed(answer.body),
)
BY_KEY: Final = Question[Search, Queried](
    lambda own, asked: own.by_key(asked.header, session=asked.session, version=asked.frame.version),
    lambda asked: asked.frame,
    Queried.read,
    frozenset({ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND}),
)
