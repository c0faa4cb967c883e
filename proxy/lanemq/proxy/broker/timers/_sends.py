"""Sends of messages with a timer: those that wait are put aside, with a handle to recall them."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Self, final

from attrs import define

from lanemq.storage import NewMessage, Put, Timers
from lanemq.wire import SystemTopic
from lanemq.wire.message import Property, decode_properties

from ..context._context import BrokerContext
from ..settings._config import BrokerConfig
from ..state._topics import Topics
from ..writing._writer import Writer
from ._rules import MARK, asks_for_timer, check_crowd, handle_of, slot_time_ms

_MARK = MARK.encode()


@final
@define(eq=False, kw_only=True, repr=False)
class TimedSends:
    """The appends of messages that may have a timer."""

    _config: BrokerConfig
    _now_ms: Callable[[], int]
    _timers: Timers | None
    _topics: Topics
    _writer: Writer

    @classmethod
    def of(cls, broker: BrokerContext) -> Self:
        """Return the appends of ``broker``."""
        return cls(
            config=broker.config,
            now_ms=broker.now_ms,
            timers=broker.store.timers,
            topics=broker.topics,
            writer=broker.writer,
        )

    def append(self, message: NewMessage, properties: Mapping[str, str]) -> tuple[Put, str | None]:
        """Append a message, which waits first if it has a timer; returns its recall handle, too.

        ``properties`` are the message's. Raises as ``Writer.append``, and ``Refused`` for a timer
        that cannot be.
        """
        out_ms = self._slot_time_ms(properties, message.topic)
        if out_ms is None:
            return self._writer.append(message), None
        with self._place(properties, out_ms):
            put = self._writer.append_timed(message, out_ms)
        name = self._config.broker_name
        return put, handle_of(properties, topic=message.topic, broker_name=name, out_ms=out_ms)

    def append_again(self, message: NewMessage) -> Put:
        """Append a message that has waited for something else already; one with a timer is taken
        even where its queue takes none now. Raises as ``append``."""
        if _MARK in message.properties:
            properties = decode_properties(message.properties.decode("utf-8", "replace"))
            out_ms = self._slot_time_ms(properties, message.topic)
            if out_ms is not None:
                with self._place(properties, out_ms):
                    return self._writer.append_waiting_timed(message, out_ms)
        return self._writer.append(message)

    def _place(self, properties: Mapping[str, str], out_ms: int) -> AbstractContextManager[None]:
        """Return the place of a message that recalls another one; any other needs none."""
        if Property.TIMER_DEL_UNIQKEY not in properties:
            return nullcontext()
        return self._writer.recalls.place(out_ms, self._now_ms())

    def _slot_time_ms(self, properties: Mapping[str, str], topic: str) -> int | None:
        """Return the time that a message is kept under; None for one that does not wait."""
        if not asks_for_timer(properties):
            return None
        out_ms = slot_time_ms(properties, self._now_ms(), self._config, topic=topic)
        if out_ms is not None:
            if self._timers is not None:
                check_crowd(self._timers.count_at(out_ms), self._config)
            self._topics.ensure(SystemTopic.TIMER, queues=1)
        return out_ms
