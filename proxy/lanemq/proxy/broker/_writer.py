"""The one gate to the log: client sends, send-backs and due delayed messages all pass it.

Whatever decides whether, or where, a message may be written belongs into ``Writer.append``;
nothing else of the broker puts a message for a user's queue into the store.

Source: RocketMQ 4.9.8, CommitLog.asyncPutMessage (the delay part),
SendMessageProcessor.handlePutMessageResult (the refusals).
"""

from collections.abc import Mapping
from typing import final

from lanemq.storage import MessageIllegal, NewMessage, Put, Store, StoreUnwritable
from lanemq.wire import Property, Refused, ResponseCode, SystemTopic, set_property

from ..logical import Gate, Key, TopicMapping

_DELAY = Property.DELAY.encode()
_REAL_TOPIC = Property.REAL_TOPIC.encode()
_REAL_QID = Property.REAL_QID.encode()


@final
class Writer:
    """Appends to ``store``; what was appended is in the log after the next ``store.commit``.

    ``delays_ms`` are the delays of levels 1, 2, ... in milliseconds. ``mappings`` are the topics
    that have logical queues; their messages pass ``gate``, which counts them until ``settled``.
    """

    def __init__(
        self,
        store: Store,
        delays_ms: tuple[int, ...],
        *,
        mappings: Mapping[str, TopicMapping],
        gate: Gate,
    ) -> None:
        self.delays_ms = delays_ms
        self._put = store.put
        self._put_batch = store.put_batch
        self._mappings = mappings
        self._gate = gate
        self._entered: list[Key] = []

    def append(self, message: NewMessage) -> Put:
        """Append one message to the queue it names.

        Raises ``Refused``: MESSAGE_ILLEGAL for one that breaks a limit, SERVICE_NOT_AVAILABLE
        while the store takes none. Raises ``SegmentClosed`` where its logical queue goes on
        elsewhere, or is about to.
        """
        if message.topic in self._mappings:
            self.enter(message.topic, message.queue_id)
        try:
            return self._put(message)
        except StoreUnwritable as error:
            raise unwritable(error) from error
        except MessageIllegal as error:
            raise _illegal(error) from error

    def append_batch(self, messages: list[NewMessage]) -> list[Put]:
        """Append messages of one queue, with consecutive queue offsets; errors as ``append``."""
        if messages and messages[0].topic in self._mappings:
            self.enter(messages[0].topic, messages[0].queue_id)
        try:
            return self._put_batch(messages)
        except StoreUnwritable as error:
            raise unwritable(error) from error
        except MessageIllegal as error:
            raise _illegal(error) from error

    def append_delayed(self, message: NewMessage, level: int) -> Put:
        """Append a message that is to reach its queue after the delay of ``level`` (from 1).

        It waits in the queue of its level of SCHEDULE_TOPIC_XXXX, and passes ``append`` when
        it is due. A level beyond the last is cut to the last. Errors as ``append``: a message
        for a queue that goes on elsewhere better waits there.
        """
        assert level > 0
        if message.topic in self._mappings:
            self.enter(message.topic, message.queue_id)
        return self.append_waiting(message, level)

    def append_waiting(self, message: NewMessage, level: int) -> Put:
        """As ``append_delayed``, whether the queue takes messages now or not."""
        level = min(level, len(self.delays_ms))
        properties = set_property(message.properties, _DELAY, str(level).encode())
        properties = set_property(properties, _REAL_TOPIC, message.topic.encode())
        properties = set_property(properties, _REAL_QID, str(message.queue_id).encode())
        try:
            return self._put(
                NewMessage(
                    topic=SystemTopic.SCHEDULE,
                    queue_id=level - 1,
                    body=message.body,
                    properties=properties,
                    flag=message.flag,
                    sys_flag=message.sys_flag,
                    born_timestamp_ms=message.born_timestamp_ms,
                    born_host=message.born_host,
                    store_host=message.store_host,
                    reconsume_times=message.reconsume_times,
                )
            )
        except StoreUnwritable as error:
            raise unwritable(error) from error
        except MessageIllegal as error:
            raise _illegal(error) from error

    def enter(self, topic: str, queue_id: int) -> None:
        """Count a writer until ``settled``. Raises ``SegmentClosed``."""
        self._entered.append(self._gate.enter(self._mappings[topic], queue_id))

    def settled(self) -> None:
        """All that was appended is visible in its queue, or failed."""
        if self._entered:
            entered, self._entered = self._entered, []
            for key in entered:
                self._gate.leave(key)


def unwritable(error: StoreUnwritable) -> Refused:
    """What a client is told while the store takes no messages; it tries another broker."""
    return Refused(ResponseCode.SERVICE_NOT_AVAILABLE, f"service not available now: {error.reason}")


def _illegal(error: MessageIllegal) -> Refused:
    return Refused(ResponseCode.MESSAGE_ILLEGAL, f"the message is illegal: {error}")
