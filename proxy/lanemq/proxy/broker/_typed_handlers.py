"""The typed handlers of one broker that callers in its process use beside its port."""

from dataclasses import dataclass
from typing import final

from ..net._dispatch import Handlers
from .admin import _topics
from .admin._own_queues import OwnQueues
from .admin._topics import TopicViews
from .context._context import BrokerContext
from .handlers import _lock_requests
from .handlers._lock_requests import LockRequests
from .handlers.pulls import _offsets, _query
from .handlers.pulls._offsets import GroupOffsets, QueueOffsets
from .handlers.pulls._query import SingleMessages
from .handlers.sends import _send_back
from .handlers.sends._send_back import SendBacks


@final
@dataclass(frozen=True, slots=True)
class TypedHandlers:
    """The handlers whose results a logical listener takes from its own process's broker."""

    group_offsets: GroupOffsets
    queue_offsets: QueueOffsets
    locks: LockRequests
    messages: SingleMessages
    send_backs: SendBacks
    topics: TopicViews


def register(handlers: Handlers, broker: BrokerContext, *, queues: OwnQueues) -> TypedHandlers:
    """Register their requests."""
    group_offsets, queue_offsets = _offsets.register(handlers, broker)
    return TypedHandlers(
        group_offsets=group_offsets,
        queue_offsets=queue_offsets,
        locks=_lock_requests.register(handlers, broker),
        messages=_query.register(handlers, broker),
        send_backs=_send_back.register(handlers, broker),
        topics=_topics.register(handlers, broker, queues=queues),
    )
