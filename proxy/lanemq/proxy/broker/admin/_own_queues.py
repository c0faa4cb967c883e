"""A broker's own message queues, as answers to operators name and date them."""

from typing import final

from attrs import define

from lanemq.storage import Store
from lanemq.wire import Refused, ResponseCode
from lanemq.wire.bodies import MessageQueue, TopicConfig

from ..state._topics import Topics


@final
@define(eq=False, kw_only=True, repr=False)
class OwnQueues:
    """The message queues of one broker."""

    _broker_name: str
    _store: Store
    _topics: Topics

    def topic(self, name: str) -> TopicConfig:
        """Return a topic's settings. Raises ``Refused`` with TOPIC_NOT_EXIST."""
        config = self._topics.get(name)
        if config is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
        return config

    def named(self, topic: str, queue_id: int) -> MessageQueue:
        """Return the name of a queue."""
        return MessageQueue(topic, self._broker_name, queue_id)

    def store_time_ms(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """Return the store time of a message; -1 for an offset without one."""
        if queue_offset < 0:
            return -1
        return self._store.store_time_ms(topic, queue_id, queue_offset)
