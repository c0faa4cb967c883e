"""A message queue: the unit of balancing, locking and progress."""

from dataclasses import dataclass

from .._numbers import Int
from ._body import Body


@dataclass(frozen=True, order=True, slots=True)
class MessageQueue(Body):
    """One queue of a topic at one broker; ordered by topic, broker, number, as Java orders it.

    As a key of a table it is written as an object: ``{{"brokerName":...}:5}``.
    Source: RocketMQ 4.9.8, MessageQueue.
    """

    topic: str
    broker_name: str
    queue_id: Int

    @property
    def java_text(self) -> str:
        """The text of ``toString`` in Java, which its tools print and its hash ring hashes."""
        return (
            f"MessageQueue [topic={self.topic}, brokerName={self.broker_name},"
            f" queueId={self.queue_id}]"
        )
