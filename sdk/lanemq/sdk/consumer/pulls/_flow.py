"""Limits of what a consumer holds of a queue before it stops pulling.

Source: RocketMQ 4.9.8, DefaultMQPushConsumerImpl.pullMessage, RebalancePushImpl.
"""

from dataclasses import dataclass
from typing import Any

from ..._values import check_fields
from ._process_queue import ProcessQueue


@dataclass(frozen=True, kw_only=True, slots=True)
class FlowLimits:
    """Limits of what a queue holds before its pulls pause; the defaults are the Java client's.

    A limit may be passed by what one pull brings.
    """

    messages: int = 1000
    """Messages pulled and not yet settled."""
    size_bytes: int = 100 << 20
    """Bytes of those messages, as stored."""
    span: int = 2000
    """Distance in offsets between the first and the last of those messages."""
    topic_messages: int | None = None
    """Messages of all queues of a topic together; None is without limit. Each queue that the
    consumer has of the topic gets an equal share, so that one that is stuck leaves the others
    theirs; ``messages`` holds besides."""
    topic_size_bytes: int | None = None
    """Bytes of all queues of a topic together, shared in the same way."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("messages", "size_bytes", "span", "topic_messages", "topic_size_bytes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"FlowLimits.{name} must be at least 1")

    @property
    def by_topic(self) -> bool:
        """True if the limits of a queue depend on how many of its topic there are."""
        return self.topic_messages is not None or self.topic_size_bytes is not None

    def exceeded_by(self, queue: ProcessQueue[Any], queues: int = 1) -> str | None:
        """Return in words the limit that holds the queue back, or None if it may pull.

        ``queues`` of the topic are the consumer's.
        """
        if queue.count > _share(self.messages, self.topic_messages, queues):
            return f"{queue.count} messages are not settled yet"
        if queue.size_bytes > _share(self.size_bytes, self.topic_size_bytes, queues):
            return f"{queue.size_bytes} bytes are not settled yet"
        if queue.span > self.span:
            return f"the first unsettled message is {queue.span} behind the last"
        return None


def _share(limit: int, of_topic: int | None, queues: int) -> int:
    return limit if of_topic is None else min(limit, max(1, of_topic // max(1, queues)))
