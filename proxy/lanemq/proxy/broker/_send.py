"""Sends: SEND_MESSAGE (10), SEND_MESSAGE_V2 (310) and SEND_BATCH_MESSAGE (320).

This is the busiest path of a broker. An ordinary message goes from the fields of its request
straight into the store: no header object, no table of its properties, and an answer from a
template. Whatever is out of the ordinary (an unknown topic, a delay, a retry, a half message)
takes the slow way (``_send_special``).

Source: RocketMQ 4.9.8, SendMessageProcessor, AbstractSendMessageProcessor.msgCheck.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, final

from lanemq.storage import NewMessage, Put
from lanemq.wire import FLAG_ONEWAY, Frame, Property, Refused, RequestCode, decode_properties
from lanemq.wire.headers import SendMessage
from lanemq.wire.logical import SEGMENT_FIELD

from .._dispatch import Handlers
from .._session import Session
from ..logical import BORN_HOST_FIELD, SegmentClosed, born_host_of
from ._context import BrokerContext
from ._logical_send import Elsewhere
from ._own_properties import OwnProperties
from ._send_answers import Answer, SendAnswers
from ._send_special import STORED_FLAGS, SpecialSends, choose_queue


class QuickSend(Protocol):
    """Appends the message of a send that is nothing out of the ordinary, and answers nothing.

    Returns what was stored, in which queue, and whether the answer waits for the disk; None,
    with nothing done, for a send that the request's handler has to look at. ``queue_id`` is
    the queue to take in place of the one that is asked for. Raises ``Refused``,
    ``SegmentClosed``, and ``KeyError`` or ``ValueError`` for fields that cannot be read.
    """

    def __call__(
        self, frame: Frame, session: Session, queue_id: int | None = None
    ) -> tuple[Put, int, bool] | None: ...


class _Names(NamedTuple):
    """The ext fields of one form of the header that the quick way reads."""

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
    """The send handlers of one broker."""

    def __init__(self, broker: BrokerContext) -> None:
        self._broker = broker
        self._own = OwnProperties(broker.config)
        self.answers = SendAnswers(broker)
        self.quick: dict[int, QuickSend] = {}
        """Request code -> the quick way of its sends."""
        self._special = SpecialSends(broker, self._own, self.answers)
        self._elsewhere = Elsewhere(broker)

    def handlers(
        self, names: _Names, read: Callable[[Frame], SendMessage]
    ) -> tuple[Callable[[Frame, Session], Answer], QuickSend]:
        """The handler of one request code: ``names`` for the quick way, ``read`` for the slow.

        And the quick way alone, for whoever answers in other numbers.
        """
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
        broker, answers, special = self._broker, self.answers, self._special.answer
        config, mappings = broker.config, broker.logical.mappings
        find_target, append = broker.topics.target, broker.writer.append
        count_put, count_failed = broker.statistics.put, broker.statistics.put_failed
        store_host, store_host_hex = broker.store_host, broker.store_host.hex().upper()
        waits_for_flush, stored, flushed = answers.waits_for_flush, answers.stored, answers.flushed
        elsewhere, check_meant = self._elsewhere.answer, self._elsewhere.check_meant
        # A delay, a half message, or what the broker adds itself.
        marks = ("DELAY\x01", "TRAN_MSG\x01", "CLUSTER\x01", "MSG_REGION\x01", "TRACE_ON\x01")
        delay_mark, half_mark, cluster_mark, region_mark, trace_mark = marks
        tail, own_properties = self._own.tail, self._own.added_to

        def append_quickly(
            frame: Frame, session: Session, queue_id: int | None = None
        ) -> tuple[Put, int, bool] | None:
            fields = frame.fields
            target = find_target(fields[topic_name])
            properties = fields.get(properties_name, "")
            if (
                target is None
                or not target.is_plain
                or fields.get(batch_name) == "true"
                or delay_mark in properties
                or half_mark in properties
                or config.start_accept_send_request_time_stamp
            ):
                return None
            if queue_id is None:
                queue_id = int(fields[queue_id_name])
                if not 0 <= queue_id < target.queues_max:
                    queue_id = choose_queue(mappings, target, queue_id)
            elif queue_id >= target.queues_max:
                return None
            waits = waits_for_flush
            wait_at = properties.find("WAIT\x01")
            if (
                cluster_mark in properties
                or region_mark in properties
                or trace_mark in properties
                or wait_at == 0
                or (wait_at > 0 and properties[wait_at - 1] != "\x02")
            ):
                waits = waits and decode_properties(properties).get(Property.WAIT) != "false"
                properties = own_properties(properties)
            else:
                if wait_at > 0:  # the wish to wait for the disk is obeyed, not stored
                    waits = waits and not properties.startswith("false", wait_at + 5)
                    end = properties.find("\x02", wait_at) + 1
                    properties = properties[:wait_at] + (properties[end:] if end else "")
                if properties and properties[-1] != "\x02":
                    properties += "\x02"
                properties += tail
            put = append(
                NewMessage(
                    topic=target.config.topic_name,
                    queue_id=queue_id,
                    body=frame.body,
                    properties=properties.encode(),
                    flag=int(fields[flag_name]),
                    sys_flag=int(fields[sys_flag_name]) & STORED_FLAGS | target.sys_flag,
                    born_timestamp_ms=int(fields[born_timestamp_name]),
                    born_host=(
                        born_host_of(frame, session.peer)
                        if BORN_HOST_FIELD in fields
                        else session.peer.packed
                    ),
                    store_host=store_host,
                    reconsume_times=int(fields.get(reconsume_times_name, "0")),
                )
            )
            count_put(target.config.topic_name, 1, put.size_bytes)
            return put, queue_id, waits

        def send(frame: Frame, session: Session) -> Answer:
            try:
                if SEGMENT_FIELD in frame.fields:
                    check_meant(frame, topic_name, queue_id_name)
                appended = append_quickly(frame, session)
                if appended is None:
                    return special(read(frame), frame, session)
            except Refused:
                count_failed()
                raise
            except SegmentClosed as closed:
                return elsewhere(closed, frame, session, send)
            except (KeyError, ValueError):
                read(frame)  # says which field it is
                raise
            if frame.flag & FLAG_ONEWAY:
                return None
            put, queue_id, waits = appended
            values = (f"{store_host_hex}{put.log_position:016X}", queue_id, put.queue_offset)
            if waits:
                return flushed(put.end, frame, values)
            return stored(frame, values)

        return send, append_quickly


def register(handlers: Handlers, broker: BrokerContext) -> Sends:
    """Sends of a message or a batch, in both forms of the header."""
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
        handler, sends.quick[code] = sends.handlers(names, read)
        handlers.add(code, handler)
    return sends
