"""Sends: SEND_MESSAGE (10), SEND_MESSAGE_V2 (310) and SEND_BATCH_MESSAGE (320).

This is the busiest path of a broker. An ordinary message goes from the fields of its request
straight into the store: no header object, no table of its properties, and an answer from a
template. Whatever is out of the ordinary (an unknown topic, a delay, a timer, a retry, a half
message) takes the slow way (``_send_special``).

Source: RocketMQ 4.9.8, SendMessageProcessor, AbstractSendMessageProcessor.msgCheck.
"""

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, Protocol, final

from lanemq.storage import NewMessage
from lanemq.wire import Refused, RequestCode, SystemTopic
from lanemq.wire.frame import FLAG_ONEWAY, Frame
from lanemq.wire.headers import SendMessage
from lanemq.wire.logical import SEGMENT_FIELD

from ...logical.broker._send import Elsewhere
from ...logical.rules import BORN_HOST_FIELD, SegmentClosed, born_host_of
from ...net._dispatch import Handlers
from ...net._session import Session
from .._context import BrokerContext
from .._results import Moved, Stored
from ..timers._sends import TimedSends
from ._flushes import Flushes
from ._half_sends import half_sends
from ._own_properties import Kind, OwnProperties
from ._send_special import STORED_FLAGS, SpecialSends, choose_queue

Sent = Stored | Moved | Frame
"""The result of a send; a frame is the answer of another broker that took the message."""

Send = Callable[[Frame, Session], Sent | Awaitable[Sent]]
"""Sends the message of a request. Raises ``Refused``."""


class OrdinarySend(Protocol):
    """Appends an ordinary message.

    Returns None, with nothing done, for one that has to be looked at more closely. With
    ``is_exact`` that is also a message for a queue that there is not; otherwise another queue
    takes it. Raises ``Refused`` and ``SegmentClosed``.
    """

    def __call__(
        self,
        *,
        topic: str,
        queue_id: int,
        is_exact: bool,
        body: bytes,
        properties: str,
        flag: int,
        sys_flag: int,
        born_timestamp_ms: int,
        born_host: bytes,
        reconsume_times: int,
    ) -> Stored | None: ...


class QuickSend(Protocol):
    """Appends the message of a request as ``OrdinarySend``.

    ``queue_id`` is the queue to take, and no other, in place of the one that is asked for.
    Raises ``KeyError`` or ``ValueError`` for fields that cannot be read.
    """

    def __call__(
        self, frame: Frame, session: Session, queue_id: int | None = None
    ) -> Stored | None: ...


class _Names(NamedTuple):
    """Names of the ext fields that the quick way reads, in one form of the header."""

    topic: str
    queue_id: str
    sys_flag: str
    born_timestamp: str
    flag: str
    properties: str
    reconsume_times: str
    batch: str


LONG_NAMES: Final = _Names(
    "topic",
    "queueId",
    "sysFlag",
    "bornTimestamp",
    "flag",
    "properties",
    "reconsumeTimes",
    "batch",
)
LETTERS: Final = _Names("b", "e", "f", "g", "h", "i", "j", "m")


@final
class Sends:
    """The sends to one broker."""

    def __init__(self, broker: BrokerContext) -> None:
        own = OwnProperties(broker.config)
        self._statistics = broker.statistics
        self._flushes = Flushes(broker.store)
        self.flushed: Final = self._flushes.flushed
        """Waits for the disk on behalf of a sender whose result says so."""
        self.ordinary: Final = _ordinary_sends(broker, own, waits=self._flushes.are_awaited)
        self._special = SpecialSends(
            config=broker.config,
            groups=broker.groups,
            now_ms=broker.now_ms,
            store_host=broker.store_host,
            topics=broker.topics,
            writer=broker.writer,
            count_put=broker.statistics.put,
            mappings=broker.logical.mappings,
            message_bytes_max=broker.store.config.max_message_bytes,
            own=own,
            timed=TimedSends.of(broker),
            waits=self._flushes.are_awaited,
        )
        self._elsewhere = Elsewhere(
            address=broker.address,
            commit=broker.commit,
            config=broker.config,
            logical=broker.logical,
            peers=broker.peers,
        )
        self.quick: dict[int, QuickSend] = {}
        """Request code -> the quick way of its sends."""
        self.any: dict[int, Send] = {}
        """Request code -> the handler of its sends."""

    def add(self, code: int, names: _Names, read: Callable[[Frame], SendMessage]) -> Send:
        """Make the handler of a request code: ``names`` is for the quick way, ``read`` for the
        slow."""
        append, flushed = _quick_sends(self.ordinary, names), self.flushed
        special, elsewhere = self._special, self._elsewhere
        count_failed = self._statistics.put_failed
        topic_name, queue_id_name = names.topic, names.queue_id

        def send(frame: Frame, session: Session) -> Sent | Awaitable[Sent]:
            try:
                if SEGMENT_FIELD in frame.fields:
                    elsewhere.check_meant(frame, topic_name, queue_id_name)
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
                return elsewhere.answer(closed, frame, session, send)
            except (KeyError, ValueError):
                read(frame)  # says which field it is
                raise
            if stored.waits and not frame.flag & FLAG_ONEWAY:
                return flushed(stored)
            return stored

        self.quick[code], self.any[code] = append, send
        return send


def _ordinary_sends(broker: BrokerContext, own: OwnProperties, *, waits: bool) -> OrdinarySend:
    """Make the quick way into the store; with ``waits`` senders wait for the disk unless they say
    otherwise."""
    config, mappings = broker.config, broker.logical.mappings
    find_target, append = broker.topics.target, broker.writer.append
    count_put, store_host = broker.statistics.put, broker.store_host
    to_store = own.to_store
    append_half, plain, half = half_sends(broker), Kind.PLAIN, Kind.HALF

    def send(
        *,
        topic: str,
        queue_id: int,
        is_exact: bool,
        body: bytes,
        properties: str,
        flag: int,
        sys_flag: int,
        born_timestamp_ms: int,
        born_host: bytes,
        reconsume_times: int,
    ) -> Stored | None:
        target = find_target(topic)
        if target is None or not target.is_plain or config.start_accept_send_request_time_stamp:
            return None
        text, wishes_flush, kind = to_store(properties)
        if kind is not plain and (kind is not half or is_exact):
            return None
        if not 0 <= queue_id < target.queues_max:
            if is_exact:
                return None
            queue_id = choose_queue(mappings, target, queue_id)
        topic = target.config.topic_name
        message = NewMessage(
            topic=topic,
            queue_id=queue_id,
            body=body,
            properties=text.encode(),
            flag=flag,
            sys_flag=sys_flag & STORED_FLAGS | target.sys_flag,
            born_timestamp_ms=born_timestamp_ms,
            born_host=born_host,
            store_host=store_host,
            reconsume_times=reconsume_times,
        )
        if kind is plain:
            put = append(message)
        elif (stored := append_half(message)) is not None:
            put, topic = stored, SystemTopic.TRANSACTION_HALF
        else:
            return None
        position, size_bytes = put.log_position, put.size_bytes
        count_put(topic, 1, size_bytes)
        return Stored(
            (position,),
            queue_id,
            put.queue_offset,
            position + size_bytes,
            waits and wishes_flush,
        )

    return send


def _quick_sends(ordinary: OrdinarySend, names: _Names) -> QuickSend:
    """Make the reader of one form of the header."""
    (
        topic_name,
        queue_id_name,
        sys_flag_name,
        born_timestamp_name,
        flag_name,
        properties_name,
        reconsume_times_name,
        batch_name,
    ) = names

    def send(frame: Frame, session: Session, queue_id: int | None = None) -> Stored | None:
        fields = frame.fields
        if fields.get(batch_name) == "true":
            return None
        return ordinary(
            topic=fields[topic_name],
            queue_id=int(fields[queue_id_name]) if queue_id is None else queue_id,
            is_exact=queue_id is not None,
            body=frame.body,
            properties=fields.get(properties_name, ""),
            flag=int(fields[flag_name]),
            sys_flag=int(fields[sys_flag_name]),
            born_timestamp_ms=int(fields[born_timestamp_name]),
            born_host=(
                born_host_of(frame, session.peer)
                if BORN_HOST_FIELD in fields
                else session.born_host
            ),
            reconsume_times=int(fields.get(reconsume_times_name, "0")),
        )

    return send


def register(handlers: Handlers, broker: BrokerContext) -> Sends:
    """Register sends of a message or a batch, in both forms of the header."""
    sends = Sends(broker)

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
