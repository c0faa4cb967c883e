"""The typed handlers of this process's broker, as its listener asks them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, final

from lanemq.wire.bodies import LockBatch
from lanemq.wire.headers import (
    GetEarliestMsgStoretime,
    GetMaxOffset,
    GetMinOffset,
    GetTopicStatsInfo,
    QueryConsumerOffset,
    QueryMessage,
    SearchOffset,
    UpdateConsumerOffset,
    ViewMessage,
)

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
from ....sessions.values._results import Done, Viewed


class ByKey(Protocol):
    """Answers a search for messages by key."""

    def __call__(
        self, asked: QueryMessage, *, session: Session, version: int
    ) -> Awaitable[Queried]: ...


class View(Protocol):
    """Answers the record at a position."""

    def __call__(self, asked: ViewMessage, *, version: int) -> Viewed: ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OwnAnswers:
    """The typed handlers of the broker. They raise ``Refused``."""

    group_offset: Callable[[QueryConsumerOffset], GroupOffset | Awaitable[GroupOffset]]
    commit: Callable[[UpdateConsumerOffset], Done]
    max_offset: Callable[[GetMaxOffset], QueueOffset]
    min_offset: Callable[[GetMinOffset], QueueOffset]
    offset_at: Callable[[SearchOffset], QueueOffset]
    earliest_time: Callable[[GetEarliestMsgStoretime], EarliestTime]
    topic_stats: Callable[[GetTopicStatsInfo], Awaitable[TopicStats]]
    lock: Callable[[LockBatch, Session, Asker], Awaitable[Locked]]
    unlock: Callable[[LockBatch, Asker], Unlocked]
    view: View
    by_key: ByKey
