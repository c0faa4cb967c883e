"""A message queue: the unit of balancing, locking and progress."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from .. import fastjson
from .._numbers import INT32, Int
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

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Read one as ``Body.from_json``: without a look at its declaration where it is as
        expected, for a request may name thousands."""
        if isinstance(value, dict):
            topic, broker_name = value.get("topic"), value.get("brokerName")
            queue_id = value.get("queueId")
            if (
                isinstance(topic, str)
                and isinstance(broker_name, str)
                and type(queue_id) is int
                and queue_id in INT32
            ):
                return cls(topic, broker_name, queue_id)
        return super(MessageQueue, cls).from_json(value)

    @property
    def java_text(self) -> str:
        """The text of ``toString`` in Java, which its tools print and its hash ring hashes."""
        return (
            f"MessageQueue [topic={self.topic}, brokerName={self.broker_name},"
            f" queueId={self.queue_id}]"
        )


def written(queues: Iterable[MessageQueue]) -> fastjson.WrittenParts:
    """Write an array of queues, whose topics and brokers are mostly the same."""
    heads = dict[str, bytes]()
    tails = dict[str, bytes]()
    members: list[bytes] = []
    for queue in queues:
        head, tail = heads.get(queue.broker_name), tails.get(queue.topic)
        if head is None:
            head = b'{"brokerName":%b,"queueId":' % fastjson.dumps(queue.broker_name)
            heads[queue.broker_name] = head
        if tail is None:
            tail = tails[queue.topic] = b',"topic":%b}' % fastjson.dumps(queue.topic)
        members.append(b"%b%d%b" % (head, queue.queue_id, tail))
    return fastjson.WrittenParts(b"[", members, b"]")
