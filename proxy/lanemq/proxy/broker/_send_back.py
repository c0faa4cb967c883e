"""CONSUMER_SEND_MSG_BACK (36): a consumer could not handle a message and wants it later.

The message goes to the group's retry topic by way of a delay, longer with each time; when
its retries are used up, to the group's dead-letter topic.

Source: RocketMQ 4.9.8, SendMessageProcessor.asyncConsumerSendMsgBack.
"""

import random
from collections.abc import Awaitable
from typing import Final, final

import trio

from lanemq.storage import FlushMode, NewMessage
from lanemq.wire import (
    Frame,
    Permission,
    Property,
    Refused,
    RequestCode,
    ResponseCode,
    StoredMessage,
    TopicSysFlag,
    Version,
    dlq_topic,
    get_property,
    retry_topic,
    set_property,
)
from lanemq.wire.headers import ConsumerSendMsgBack

from .._dispatch import Handlers, typed
from .._session import Session
from ..logical import ORIGIN_ID_FIELD
from ._context import BrokerContext

FIRST_RETRY_LEVEL: Final = 3
"""10 seconds, with the default levels; each further retry takes the next level."""

DLQ_QUEUES: Final = 1


@final
class SendBacks:
    """The send-back handler of one broker."""

    def __init__(self, broker: BrokerContext) -> None:
        self._broker = broker

    def send_back(
        self, header: ConsumerSendMsgBack, frame: Frame, session: Session
    ) -> Frame | Awaitable[Frame]:
        """Append the message again; its old record stays where it is."""
        broker = self._broker
        group = broker.groups.require(header.group)
        if not broker.config.broker_permission & Permission.WRITE:
            remark = f"the broker[{broker.address.host}] sending message is forbidden"
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        if group.retry_queue_nums <= 0:
            return frame.reply()
        topic = retry_topic(header.group)
        config = broker.topics.ensure(
            topic,
            queues=group.retry_queue_nums,
            sys_flag=TopicSysFlag.UNIT_SUB if header.unit_mode else 0,
        )
        if not config.perm & Permission.WRITE:
            remark = f"the topic[{topic}] sending message is forbidden"
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        message = broker.store.message_at(header.offset)
        if message is None:
            remark = f"look message by offset failed, {header.offset}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)

        retries_max = group.retry_max_times
        if frame.version >= Version.V3_4_9 and header.max_reconsume_times is not None:
            retries_max = header.max_reconsume_times
        properties = _marked(message, frame.fields.get(ORIGIN_ID_FIELD) or message.offset_id)
        if message.reconsume_times >= retries_max or header.delay_level < 0:
            topic, queue_id, level = dlq_topic(header.group), 0, 0
            broker.topics.ensure(topic, queues=DLQ_QUEUES)
            properties = set_property(properties, Property.DELAY.encode(), b"0")
        else:
            queue_id = random.randrange(group.retry_queue_nums)
            level = header.delay_level or FIRST_RETRY_LEVEL + message.reconsume_times

        again = NewMessage(
            topic=topic,
            queue_id=queue_id,
            body=message.body,
            properties=properties,
            flag=message.flag,
            sys_flag=message.sys_flag,
            born_timestamp_ms=message.born_timestamp_ms,
            born_host=message.born_host.packed,
            store_host=message.store_host.packed,
            reconsume_times=message.reconsume_times + 1,
        )
        if level > 0:
            put = broker.writer.append_delayed(again, level)
        else:
            put = broker.writer.append(again)
        origin = get_property(properties, Property.RETRY_TOPIC.encode()) or b""
        broker.statistics.sent_back(origin.decode("utf-8", "replace"), header.group)
        if broker.store.config.flush is FlushMode.SYNC:
            return self._after_flush(put.end, frame)
        return frame.reply()

    async def _after_flush(self, end: int, frame: Frame) -> Frame:
        """Answer when the log is on the disk up to ``end``: the consumer forgets the message.

        The reference does not wait here, and may lose it with the power.
        """
        store = self._broker.store
        with trio.move_on_after(store.config.sync_flush_timeout_s):
            await store.flushed(end)
        return frame.reply()


def _marked(message: StoredMessage, offset_id: str) -> bytes:
    """The message's properties, with where it came from; the first topic and id stay."""
    properties = message.properties_data
    for name, value in (
        (Property.RETRY_TOPIC, message.topic),
        (Property.ORIGIN_MESSAGE_ID, offset_id),
    ):
        if get_property(properties, name.encode()) is None:
            properties = set_property(properties, name.encode(), value.encode())
    return properties


def register(handlers: Handlers, broker: BrokerContext) -> None:
    """The one request by which consumers give messages back."""
    handlers.add(
        RequestCode.CONSUMER_SEND_MSG_BACK,
        typed(ConsumerSendMsgBack, SendBacks(broker).send_back),
    )
