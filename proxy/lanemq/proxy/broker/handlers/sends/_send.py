"""Sends: SEND_MESSAGE (10), SEND_MESSAGE_V2 (310) and SEND_BATCH_MESSAGE (320).

This is the busiest path of a broker. An ordinary message goes from the fields of its request
straight into the store: no header object, no table of its properties, and an answer from a
template. Whatever is out of the ordinary (an unknown topic, a delay, a timer, a retry, a half
message) takes the slow way (``_send_special``).

Source: RocketMQ 4.9.8, SendMessageProcessor, AbstractSendMessageProcessor.msgCheck.
"""

from collections.abc import Awaitable, Callable
from typing import Self, final

from attrs import define, field

from lanemq.wire import Refused, RequestCode
from lanemq.wire.frame import FLAG_ONEWAY, Frame
from lanemq.wire.headers import SendMessage
from lanemq.wire.logical import SEGMENT_FIELD

from ....logical.rules._forwarding import born_host_of
from ....logical.rules._gate import SegmentClosed
from ....net._dispatch import Handlers
from ....net._session import Session
from ...context._context import BrokerContext
from ...logical.traffic._send import MovedSends
from ...timers._sends import TimedSends
from ...values._own_properties import OwnProperties
from ...values._results import Moved, Stored
from ...writing._flushes import Flushes
from ._quick_sends import (
    LETTERS,
    LONG_NAMES,
    Names,
    OrdinarySend,
    QuickSend,
    half_sends,
    ordinary_sends,
    quick_sends,
)
from ._send_special import SpecialSends

Sent = Stored | Moved | Frame
"""The result of a send; a frame is the answer of another broker that took the message."""

Send = Callable[[Frame, Session], Sent | Awaitable[Sent]]
"""Sends the message of a request. Raises ``Refused``."""


@final
@define(eq=False, kw_only=True, repr=False)
class Sends:
    """The sends to one broker."""

    _count_failed: Callable[[], None]
    flushed: Callable[[Stored], Awaitable[Stored]]
    """Waits for the disk on behalf of a sender whose result says so."""
    _moved: MovedSends
    ordinary: OrdinarySend
    _special: SpecialSends
    quick: dict[int, QuickSend] = field(init=False, factory=dict)
    """Request code -> the quick way of its sends."""
    any: dict[int, Send] = field(init=False, factory=dict)
    """Request code -> the handler of its sends."""

    @classmethod
    def of(cls, broker: BrokerContext) -> Self:
        """Return the sends to ``broker``."""
        config, topics, writer = broker.config, broker.topics, broker.writer
        statistics, mappings = broker.statistics, broker.logical.mappings
        own, flushes = OwnProperties(config), Flushes(broker.store)
        ordinary = ordinary_sends(
            append=writer.append,
            append_half=half_sends(
                config=config, recent=broker.recent_halves, topics=topics, writer=writer
            ),
            config=config,
            count_put=statistics.put,
            find_target=topics.target,
            mappings=mappings,
            store_host=broker.store_host,
            to_store=own.to_store,
            waits=flushes.are_awaited,
        )
        special = SpecialSends(
            config=config,
            groups=broker.groups,
            now_ms=broker.now_ms,
            store_host=broker.store_host,
            topics=topics,
            writer=writer,
            count_put=statistics.put,
            mappings=mappings,
            message_bytes_max=broker.store.config.max_message_bytes,
            own=own,
            timed=TimedSends.of(broker),
            waits=flushes.are_awaited,
        )
        moved = MovedSends(
            address=broker.address,
            commit=broker.commit,
            config=config,
            logical=broker.logical,
            peers=broker.peers,
        )
        return cls(
            count_failed=statistics.put_failed,
            flushed=flushes.flushed,
            moved=moved,
            ordinary=ordinary,
            special=special,
        )

    def add(self, code: int, names: Names, read: Callable[[Frame], SendMessage]) -> Send:
        """Make the handler of a request code: ``names`` is for the quick way, ``read`` for the
        slow."""
        append, flushed = quick_sends(self.ordinary, names), self.flushed
        special, moved, count_failed = self._special, self._moved, self._count_failed
        topic_name, queue_id_name = names.topic, names.queue_id

        def send(frame: Frame, session: Session) -> Sent | Awaitable[Sent]:
            try:
                if SEGMENT_FIELD in frame.fields:
                    moved.check_meant(frame, topic_name, queue_id_name)
                stored = append(frame, session)
                if stored is None:
                    stored = special.store(
                        read(frame),
                        body=frame.body,
                        born_host=born_host_of(frame, session.peer),
                        version=frame.version,
                    )
            except Refused:
                count_failed()
                raise
            except SegmentClosed as closed:
                return moved.answer(closed, frame, session, send)
            except (KeyError, ValueError):
                read(frame)  # says which field it is
                raise
            if stored.waits and not frame.flag & FLAG_ONEWAY:
                return flushed(stored)
            return stored

        self.quick[code], self.any[code] = append, send
        return send


def register(handlers: Handlers, broker: BrokerContext) -> Sends:
    """Register sends of a message or a batch, in both forms of the header."""
    sends = Sends.of(broker)

    def read_long(frame: Frame) -> SendMessage:
        return SendMessage.from_fields(frame.fields)

    def read_letters(frame: Frame) -> SendMessage:
        return SendMessage.from_letters(frame.fields)

    for code, names, read in (
        (RequestCode.SEND_MESSAGE, LONG_NAMES, read_long),
        (RequestCode.SEND_MESSAGE_V2, LETTERS, read_letters),
        (RequestCode.SEND_BATCH_MESSAGE, LETTERS, read_letters),
    ):
        handlers.add(code, sends.add(code, names, read))
    return sends
