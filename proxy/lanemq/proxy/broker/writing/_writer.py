"""The writer of the log: client sends, send-backs and due delayed messages all go through it.

Whatever decides whether, or where, a message may be written belongs into ``Writer.append``;
nothing else of the broker puts a message for a user's queue into the store.

Source: RocketMQ 4.9.8, CommitLog.asyncPutMessage (the delay part),
SendMessageProcessor.handlePutMessageResult (the refusals).
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import final

from msgspec.structs import replace

from lanemq.storage import (
    MessageIllegal,
    NewBatch,
    NewMessage,
    Put,
    PutBatch,
    Store,
    StoreUnwritable,
    parse_delay_levels,
)
from lanemq.wire import Refused, ResponseCode, SysFlag, SystemTopic
from lanemq.wire.message import Property, remove_property, set_property

from ...logical.rules._gate import Gate, Key
from ...logical.rules._mapping import TopicMapping
from ...sessions.values._waiting import with_target
from ..state._light_queues import LightQueues
from ..state._recall_room import RecallRoom

_LIGHTS = Property.INNER_MULTI_DISPATCH.encode()
_DELAY = Property.DELAY.encode()
_TIMER_OUT_MS = Property.TIMER_OUT_MS.encode()
_OF_CHECKS = tuple(
    name.encode()
    for name in (Property.TRAN_PREPARED_QUEUE_OFFSET, Property.TRANSACTION_CHECK_TIMES)
)
"""Properties that only this broker writes into a half message, once it has asked its producer."""
_OF_TIMERS = tuple(
    name.encode()
    for name in (Property.TIMER_ROLL_TIMES, Property.TIMER_ENQUEUE_MS, Property.TIMER_DEQUEUE_MS)
)
"""Properties that only this broker writes into a message whose timer it has begun."""


@final
class Writer:
    """The writer to ``store``; appended messages are in the log after the next ``store.commit``.

    ``mappings`` are the topics that have logical queues; their messages pass ``gate``, which
    counts them until ``finished``. Messages for light queues need room in ``lights``.
    """

    def __init__(
        self,
        store: Store,
        *,
        lights: LightQueues,
        mappings: Mapping[str, TopicMapping],
        gate: Gate,
    ) -> None:
        self.delays_ms = parse_delay_levels(store.config.delay_levels)
        """The delays of levels 1, 2, ... in milliseconds."""
        self.recalls = RecallRoom()
        """The places of messages that recall others, in which these are appended."""
        self._lights = lights
        self._put = store.put
        self._check_target = store.check_target
        self._put_batch = store.put_batch
        self._mappings = mappings
        self._gate = gate
        self._entered: list[Key] = []
        self._when_finished: list[Callable[[], None]] = []

    def append(self, message: NewMessage) -> Put:
        """Append one message to the queue it names.

        Raises ``Refused``: MESSAGE_ILLEGAL for one that breaks a limit, SERVICE_NOT_AVAILABLE
        while the store takes none, SYSTEM_BUSY beyond a client's share of light queues. Raises
        ``SegmentClosed`` where its logical queue goes on elsewhere, or is about to.
        """
        if message.topic in self._mappings:
            self.enter(message.topic, message.queue_id)
        try:
            return self._put_for(message.topic, message)
        except (StoreUnwritable, MessageIllegal) as error:
            raise _refusal(error) from error

    def append_batch(self, batch: NewBatch) -> PutBatch:
        """Append messages of one queue, with consecutive queue offsets; errors as ``append``."""
        if batch.topic in self._mappings:
            self.enter(batch.topic, batch.queue_id)
        try:
            return self._put_batch(batch)
        except (StoreUnwritable, MessageIllegal) as error:
            raise _refusal(error) from error

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
        """Append as ``append_delayed``, whether the queue takes messages now or not.

        What could not be stored when it is due is refused now (MESSAGE_ILLEGAL).
        """
        level = min(level, len(self.delays_ms))
        properties = set_property(message.properties, _DELAY, str(level).encode())
        return self._put_waiting(message, SystemTopic.SCHEDULE, level - 1, properties)

    def append_timed(self, message: NewMessage, out_ms: int) -> Put:
        """Append a message that is to reach its queue in the second after ``out_ms``.

        It waits in rmq_sys_wheel_timer, and passes ``append`` when it is due. Errors as
        ``append_delayed``.
        """
        if message.topic in self._mappings:
            self.enter(message.topic, message.queue_id)
        return self.append_waiting_timed(message, out_ms)

    def append_waiting_timed(self, message: NewMessage, out_ms: int) -> Put:
        """Append as ``append_timed``, whether the queue takes messages now or not.

        What could not be stored when it is due is refused now (MESSAGE_ILLEGAL).
        """
        properties = _without(message.properties, _OF_TIMERS)
        properties = set_property(properties, _TIMER_OUT_MS, str(out_ms).encode())
        return self._put_waiting(message, SystemTopic.TIMER, 0, properties)

    def _put_waiting(
        self, message: NewMessage, topic: str, queue_id: int, properties: bytes
    ) -> Put:
        properties = with_target(properties, message.topic, message.queue_id)
        waiting = replace(message, topic=topic, queue_id=queue_id, properties=properties)
        waiting.prepared_transaction_offset = 0
        try:
            self._check_target(message.topic, message.queue_id)
            return self._put_for(message.topic, waiting)
        except (StoreUnwritable, MessageIllegal) as error:
            raise _refusal(error) from error

    def append_half(self, message: NewMessage) -> tuple[Put, NewMessage]:
        """Append a message that is to reach its queue when its transaction is committed.

        It waits in RMQ_SYS_TRANS_HALF_TOPIC. What could not be stored then is refused now
        (MESSAGE_ILLEGAL); other errors as ``append``: one for a queue that goes on elsewhere
        better waits there. Returns its place, and the message that was stored: as none that stands
        for an earlier one, whatever its sender says.
        """
        if message.topic in self._mappings:
            self.enter(message.topic, message.queue_id)
        properties = _without(message.properties, _OF_CHECKS)
        properties = with_target(properties, message.topic, message.queue_id)
        half = replace(
            message,
            topic=SystemTopic.TRANSACTION_HALF,
            queue_id=0,
            properties=properties,
            sys_flag=message.sys_flag & ~SysFlag.TRANSACTION_MASK,
        )
        try:
            self._check_target(message.topic, message.queue_id)
            return self._put_for(message.topic, half, is_half=True), half
        except (StoreUnwritable, MessageIllegal) as error:
            raise _refusal(error) from error

    def append_half_again(self, half: NewMessage, topic: str) -> Put:
        """Append a half message for ``topic`` that was given up before. Errors as ``append``."""
        try:
            return self._put_for(topic, half, is_half=True)
        except (StoreUnwritable, MessageIllegal) as error:
            raise _refusal(error) from error

    def give_up_half(self, topic: str, properties: bytes, origin: int) -> None:
        """Note that a half message for ``topic`` will not be committed here, as the log says by
        now; ``origin`` is its first offset in the half queue."""
        if _LIGHTS in properties:
            self._lights.given_up(topic, properties, origin)

    def _put_for(self, topic: str, message: NewMessage, *, is_half: bool = False) -> Put:
        """Put a message that is, or waits, for ``topic``, with the places in light queues that it
        will need there."""
        if message.properties.find(_LIGHTS) < 0:  # `in` makes an error first, in Python 3.11
            return self._put(message)
        put, is_new = partial(self._put, message), not message.was_taken
        return self._lights.put(topic, message.properties, put, is_new=is_new, is_half=is_half)

    def when_finished(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once everything appended by then is in the log and visible, or
        failed."""
        self._when_finished.append(callback)

    def enter(self, topic: str, queue_id: int) -> None:
        """Count a writer until ``finished``. Raises ``SegmentClosed``."""
        self._entered.append(self._gate.enter(self._mappings[topic], queue_id))

    def finished(self) -> None:
        """Note that every appended message is visible in its queue now, or failed."""
        self._lights.finished()
        if self._entered:
            entered, self._entered = self._entered, []
            for key in entered:
                self._gate.leave(key)
        if self._when_finished:
            callbacks, self._when_finished = self._when_finished, []
            for callback in callbacks:
                callback()


def _without(properties: bytes, names: tuple[bytes, ...]) -> bytes:
    for name in names:
        if name in properties:
            properties = remove_property(properties, name)
    return properties


def unwritable(error: StoreUnwritable) -> Refused:
    """Return the refusal while the store takes no messages; clients try another broker then."""
    return Refused(ResponseCode.SERVICE_NOT_AVAILABLE, f"service not available now: {error.reason}")


def _refusal(error: StoreUnwritable | MessageIllegal) -> Refused:
    if isinstance(error, StoreUnwritable):
        return unwritable(error)
    return Refused(ResponseCode.MESSAGE_ILLEGAL, f"the message is illegal: {error}")
