"""Sends: SEND_MESSAGE (10), SEND_MESSAGE_V2 (310) and SEND_BATCH_MESSAGE (320).

This is the busiest path of a broker. An ordinary message goes from the fields of its request
straight into the store: no header object, no table of its properties, and an answer from a
template. Whatever is out of the ordinary (an unknown topic, a delay, a retry, a half message)
takes the slow way, which reads its header and properties as everyone else does.

Source: RocketMQ 4.9.8, SendMessageProcessor, AbstractSendMessageProcessor.msgCheck.
"""

import random
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, Protocol, final

import trio

from lanemq.storage import FlushMode, NewMessage, Put
from lanemq.wire import (
    FLAG_ONEWAY,
    Frame,
    Permission,
    Property,
    Refused,
    RemoteProtocolError,
    RequestCode,
    ResponseCode,
    SysFlag,
    Version,
    decode_batch,
    decode_properties,
    dlq_topic,
    group_of_retry_topic,
)
from lanemq.wire.headers import SendMessage
from lanemq.wire.logical import LOGICAL_QUEUE_FLAG, SEGMENT_FIELD

from .._dispatch import Handlers
from .._reply_template import ReplyTemplate
from .._session import Session
from ..logical import BORN_HOST_FIELD, SegmentClosed, born_host_of
from ._context import BrokerContext
from ._logical_send import Elsewhere
from ._topics import SendTarget

DLQ_QUEUES: Final = 1
FIELDS: Final = ("msgId", "queueId", "queueOffset")
STORED_FLAGS: Final = ~LOGICAL_QUEUE_FLAG
"""That a sender follows redirects is said of the request, not of the message."""

Answer = bytes | None | Awaitable[bytes | None]


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
        config = broker.config
        self._broker = broker
        self._store_host = broker.store_host
        self._store_host_hex = broker.store_host.hex().upper()
        self._waits_for_flush = broker.store.config.flush is FlushMode.SYNC
        answered = {
            Property.MSG_REGION: config.region_id,
            Property.TRACE_ON: "true" if config.trace_on else "false",
        }
        stored = answered | {Property.CLUSTER: config.broker_cluster_name}
        # Added to what the sender wrote, in its order. A client that sends a message again may
        # have them in it already; then they are taken out first, so that strings do not grow.
        self._tail = "".join(f"{name}\x01{value}\x02" for name, value in stored.items())
        self._tail_names = tuple(stored)
        self.answer = ReplyTemplate(FIELDS, constants=answered).encode
        """To a send that is stored: message id, queue id and queue offset."""
        self._flushed_late = ReplyTemplate(
            FIELDS, constants=answered, code=ResponseCode.FLUSH_DISK_TIMEOUT
        ).encode
        self.quick: dict[int, QuickSend] = {}
        """Request code -> the quick way of its sends."""
        self._topics = broker.topics
        self._mappings = broker.logical.mappings
        self._elsewhere = Elsewhere(broker)
        self._count_put = broker.statistics.put

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
        config = self._broker.config
        find_target, append = self._topics.target, self._broker.writer.append
        count_put, count_failed = self._count_put, self._broker.statistics.put_failed
        encode_reply = self.answer
        store_host, store_host_hex = self._store_host, self._store_host_hex
        waits_for_flush = self._waits_for_flush
        own_properties, elsewhere = self._own_properties, self._elsewhere.answer
        check_meant = self._elsewhere.check_meant
        # A delay, a half message, or what the broker adds itself.
        marks = ("DELAY\x01", "TRAN_MSG\x01", "CLUSTER\x01", "MSG_REGION\x01", "TRACE_ON\x01")
        delay_mark, half_mark, cluster_mark, region_mark, trace_mark = marks
        tail = self._tail

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
                    queue_id = self._choose_queue(target, queue_id)
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
                    return self._special(read(frame), frame, session)
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
                return self.answer_flushed(put.end, frame, values)
            return encode_reply(frame, values)

        return send, append_quickly

    def _own_properties(self, text: str) -> str:
        """The property string to store: without WAIT, with what this broker adds."""
        if "\x01" not in text:
            return self._tail
        kept = [
            part
            for part in text.split("\x02")
            if part
            and part.partition("\x01")[0] not in self._tail_names
            and not part.startswith("WAIT\x01")
        ]
        return "".join([f"{part}\x02" for part in kept]) + self._tail

    def _choose_queue(self, target: SendTarget, queue_id: int) -> int:
        """The queue a send goes to. A broker that may choose takes one that is open."""
        if queue_id < 0:
            mapping = self._mappings.get(target.config.topic_name)
            writable = mapping.writable_queue_ids() if mapping is not None else ()
            if writable:
                return random.choice(writable)
        return target.choose_queue(queue_id)

    def _special(self, header: SendMessage, frame: Frame, session: Session) -> Answer:
        broker = self._broker
        accept_from_ms = broker.config.start_accept_send_request_time_stamp
        if broker.now_ms() < accept_from_ms:
            raise Refused(
                ResponseCode.SYSTEM_ERROR, f"broker unable to service, until {accept_from_ms}"
            )
        target = self._topics.target_for_send(
            header.topic,
            default_topic=header.default_topic,
            queue_nums=header.default_topic_queue_nums,
            unit_mode=bool(header.unit_mode),
        )
        if target.config.order and not broker.config.broker_permission & Permission.WRITE:
            remark = f"the broker[{broker.config.broker_ip1}] sending message is forbidden"
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        queue_id = self._choose_queue(target, header.queue_id)
        if header.batch:
            return self._batch(header, target, queue_id, frame, session)
        return self._single(header, target, queue_id, frame, session)

    def _single(
        self,
        header: SendMessage,
        target: SendTarget,
        queue_id: int,
        frame: Frame,
        session: Session,
    ) -> Answer:
        broker, topic, stored_queue_id = self._broker, header.topic, queue_id
        properties = decode_properties(header.properties or "")
        level = _number(properties, Property.DELAY)
        reconsume_times = header.reconsume_times or 0
        group = group_of_retry_topic(topic)
        if group is not None:
            limit = broker.groups.require(group).retry_max_times
            if frame.version >= Version.V3_4_9 and header.max_reconsume_times is not None:
                limit = header.max_reconsume_times
            if reconsume_times >= limit:
                topic, stored_queue_id, level = dlq_topic(group), 0, 0
                self._topics.ensure(topic, queues=DLQ_QUEUES)
        is_half = properties.get(Property.TRAN_MSG, "").lower() == "true"
        # A consumer that gives a committed message back by sending it leaves the mark in it.
        if is_half and not (reconsume_times > 0 and (level > 0 or group is not None)):
            remark = (
                f"the broker[{broker.config.broker_ip1}] sending transaction message is forbidden"
            )
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        message = NewMessage(
            topic=topic,
            queue_id=stored_queue_id,
            body=frame.body,
            properties=self._own_properties(header.properties or "").encode(),
            flag=header.flag,
            sys_flag=header.sys_flag & STORED_FLAGS | target.sys_flag,
            born_timestamp_ms=header.born_timestamp,
            born_host=born_host_of(frame, session.peer),
            store_host=self._store_host,
            reconsume_times=reconsume_times,
        )
        if level > 0 and message.sys_flag & SysFlag.TRANSACTION_MASK in (
            0,
            SysFlag.TRANSACTION_COMMIT,
        ):
            put = broker.writer.append_delayed(message, level)
        else:
            put = broker.writer.append(message)
        self._count_put(topic, 1, put.size_bytes)
        waits = self._waits_for_flush and properties.get(Property.WAIT) != "false"
        values = (f"{self._store_host_hex}{put.log_position:016X}", queue_id, put.queue_offset)
        return self._answer(frame, values, put.end, waits=waits)

    def _batch(
        self,
        header: SendMessage,
        target: SendTarget,
        queue_id: int,
        frame: Frame,
        session: Session,
    ) -> Answer:
        broker = self._broker
        if len(frame.body) > broker.store.config.max_message_bytes:
            remark = f"the batch has {len(frame.body)} bytes, too many"
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, remark)
        entries = decode_batch(frame.body)
        if not entries:
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, "the batch has no message")
        shared = decode_properties(header.properties or "")
        born_host = born_host_of(frame, session.peer)
        # Every record gets the batch's own properties besides its own. Of equal names the last
        # one counts, and a unique key must stay that of its message.
        left_out = {*self._tail_names, Property.WAIT, Property.UNIQ_KEY}
        common = "".join(
            f"{name}\x01{value}\x02" for name, value in shared.items() if name not in left_out
        )
        appended = (common + self._tail).encode()
        messages = [
            NewMessage(
                topic=header.topic,
                queue_id=queue_id,
                body=entry.body,
                properties=(
                    entry.properties + appended
                    if entry.properties.endswith(b"\x02") or not entry.properties
                    else entry.properties + b"\x02" + appended
                ),
                flag=entry.flag,
                sys_flag=header.sys_flag & STORED_FLAGS | target.sys_flag,
                born_timestamp_ms=header.born_timestamp,
                born_host=born_host,
                store_host=self._store_host,
                reconsume_times=header.reconsume_times or 0,
            )
            for entry in entries
        ]
        puts = broker.writer.append_batch(messages)
        self._count_put(header.topic, len(puts), sum(put.size_bytes for put in puts))
        ids = ",".join(f"{self._store_host_hex}{put.log_position:016X}" for put in puts)
        end = puts[-1].end
        waits = self._waits_for_flush and shared.get(Property.WAIT) != "false"
        return self._answer(frame, (ids, queue_id, puts[0].queue_offset), end, waits=waits)

    def _answer(self, frame: Frame, values: tuple[object, ...], end: int, *, waits: bool) -> Answer:
        if frame.flag & FLAG_ONEWAY:
            return None
        return self.answer_flushed(end, frame, values) if waits else self.answer(frame, values)

    async def answer_flushed(self, end: int, frame: Frame, values: tuple[object, ...]) -> bytes:
        """Answer once the log is on the disk up to ``end``; late, but stored, is code 10."""
        store = self._broker.store
        with trio.move_on_after(store.config.sync_flush_timeout_s):
            await store.flushed(end)
            return self.answer(frame, values)
        return self._flushed_late(frame, values)


def _number(properties: dict[str, str], name: str) -> int:
    try:
        return int(properties.get(name, "0"))
    except ValueError:
        raise RemoteProtocolError(f"property {name} is no number: {properties[name]!r}") from None


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
