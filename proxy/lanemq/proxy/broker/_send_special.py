"""Sends that are out of the ordinary: batches, delays, retries, topics that are not there yet.

Their headers and properties are read as everyone else reads them.

Source: RocketMQ 4.9.8, SendMessageProcessor, AbstractSendMessageProcessor.msgCheck.
"""

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, final

from lanemq.storage import NewMessage
from lanemq.wire import (
    Frame,
    Permission,
    Property,
    Refused,
    RemoteProtocolError,
    ResponseCode,
    SysFlag,
    Version,
    decode_batch,
    decode_properties,
    dlq_topic,
    group_of_retry_topic,
)
from lanemq.wire.headers import SendMessage
from lanemq.wire.logical import LOGICAL_QUEUE_FLAG

from .._session import Session
from ..logical import TopicMapping, born_host_of
from ._own_properties import OwnProperties
from ._send_answers import Answer, SendAnswers
from ._topics import SendTarget

if TYPE_CHECKING:
    from ._context import BrokerContext

DLQ_QUEUES: Final = 1
STORED_FLAGS: Final = ~LOGICAL_QUEUE_FLAG
"""That a sender follows redirects is said of the request, not of the message."""


@final
class SpecialSends:
    """Takes any send, of one broker."""

    def __init__(self, broker: "BrokerContext", own: OwnProperties, answers: SendAnswers) -> None:
        self._broker = broker
        self._own = own
        self._answers = answers
        self._store_host = broker.store_host
        self._store_host_hex = broker.store_host.hex().upper()
        self._topics = broker.topics
        self._mappings = broker.logical.mappings
        self._count_put = broker.statistics.put

    def answer(self, header: SendMessage, frame: Frame, session: Session) -> Answer:
        """Store what is sent, and answer. Raises ``Refused`` and ``SegmentClosed``."""
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
        queue_id = choose_queue(self._mappings, target, header.queue_id)
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
            properties=self._own.added_to(header.properties or "").encode(),
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
        waits = self._answers.waits_for_flush and properties.get(Property.WAIT) != "false"
        values = (f"{self._store_host_hex}{put.log_position:016X}", queue_id, put.queue_offset)
        return self._answers.give(frame, values, put.end, waits=waits)

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
        left_out = {*self._own.names, Property.WAIT, Property.UNIQ_KEY}
        common = "".join(
            f"{name}\x01{value}\x02" for name, value in shared.items() if name not in left_out
        )
        appended = (common + self._own.tail).encode()
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
        waits = self._answers.waits_for_flush and shared.get(Property.WAIT) != "false"
        return self._answers.give(frame, (ids, queue_id, puts[0].queue_offset), end, waits=waits)


def choose_queue(mappings: Mapping[str, TopicMapping], target: SendTarget, queue_id: int) -> int:
    """The queue a send goes to. A broker that may choose takes one that is open."""
    if queue_id < 0:
        mapping = mappings.get(target.config.topic_name)
        writable = mapping.writable_queue_ids() if mapping is not None else ()
        if writable:
            return random.choice(writable)
    return target.choose_queue(queue_id)


def _number(properties: dict[str, str], name: str) -> int:
    try:
        return int(properties.get(name, "0"))
    except ValueError:
        raise RemoteProtocolError(f"property {name} is no number: {properties[name]!r}") from None
