"""CONSUMER_SEND_MSG_BACK (36): redelivers a message, which its consumer could not handle, later.

The message goes to the group's retry topic by way of a delay, longer with each time; when
its retries are used up, to the group's dead-letter topic.

Source: RocketMQ 4.9.8, SendMessageProcessor.asyncConsumerSendMsgBack.
"""

import random
from collections.abc import Awaitable
from typing import Final, final

from attrs import define

from lanemq.storage import Store
from lanemq.wire import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    HostAddress,
    Permission,
    Refused,
    RequestCode,
    ResponseCode,
    TopicSysFlag,
    Version,
    dlq_topic,
    retry_topic,
)
from lanemq.wire.frame import Frame
from lanemq.wire.headers import ConsumerSendMsgBack
from lanemq.wire.logical import ORIGIN_ID_FIELD
from lanemq.wire.message import Property, StoredMessage, get_property, remove_property, set_property

from ....acl import UNLIMITED, Rights
from ....net._dispatch import Handlers, typed
from ....net._session import Session
from ....sessions.values._framed import SENT_BACK, SentBack
from ....sessions.values._rights import RightsOf
from ....sessions.values._touched import require_reading
from ...context._context import BrokerContext
from ...settings._config import BrokerConfig
from ...state._groups import Groups
from ...state._stats import BrokerStatistics
from ...state._stored_again import stored_again
from ...state._topics import Topics
from ...writing._flushes import Flushes
from ...writing._writer import Writer
from ._send_special import DLQ_QUEUES

FIRST_RETRY_LEVEL: Final = 3
"""Delay level of the first retry, 10 s by default; each further retry takes the next level."""


@final
@define(eq=False, kw_only=True, repr=False)
class SendBacks:
    """The send-back handler of one broker."""

    _address: HostAddress
    _config: BrokerConfig
    _flushes: Flushes
    _groups: Groups
    _rights: RightsOf
    _statistics: BrokerStatistics
    _store: Store
    _topics: Topics
    _writer: Writer

    def answer(
        self, header: ConsumerSendMsgBack, frame: Frame, session: Session
    ) -> SentBack | Awaitable[SentBack]:
        """Answer a request."""
        return self._send_back(header, frame, self._rights(frame, session))

    def checked(self, frame: Frame) -> SentBack | Awaitable[SentBack]:
        """Answer a request of a sender that may read the message, as was checked already: the
        request is written again, and no longer has its sender's signature."""
        return self._send_back(ConsumerSendMsgBack.from_fields(frame.fields), frame, UNLIMITED)

    def _send_back(
        self, header: ConsumerSendMsgBack, frame: Frame, rights: Rights
    ) -> SentBack | Awaitable[SentBack]:
        """Append the message again; its old record stays where it is.

        Where the consumer knows the message by an id that is not the broker's, the frame has it.
        Raises ``Refused``, also where ``rights`` do not reach the topic of the message that is
        found.
        """
        message = self._store.message_at(header.offset, queued=True)
        if message is not None:
            require_reading(rights, message)  # before a group or topic is made for it
        group = self._groups.require(header.group)
        if not self._config.broker_permission & Permission.WRITE:
            remark = f"the broker[{self._address.host}] sending message is forbidden"
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        if group.retry_queue_nums <= 0:
            return SENT_BACK
        topic = retry_topic(header.group)
        config = self._topics.ensure(
            topic,
            queues=group.retry_queue_nums,
            sys_flag=TopicSysFlag.UNIT_SUB if header.unit_mode else 0,
        )
        if not config.perm & Permission.WRITE:
            remark = f"the topic[{topic}] sending message is forbidden"
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        if message is None:
            remark = f"look message by offset failed, {header.offset}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)

        retries_max = group.retry_max_times
        if frame.version >= Version.V3_4_9 and header.max_reconsume_times is not None:
            retries_max = header.max_reconsume_times
        properties = _marked(message, frame.fields.get(ORIGIN_ID_FIELD) or message.offset_id)
        if message.reconsume_times >= retries_max or header.delay_level < 0:
            topic, queue_id, level = dlq_topic(header.group), 0, 0
            self._topics.ensure(topic, queues=DLQ_QUEUES)
            properties = set_property(properties, Property.DELAY.encode(), b"0")
            # It is in its light queues already, and who gives it back may not send to them.
            properties = remove_property(properties, Property.INNER_MULTI_DISPATCH.encode())
        else:
            queue_id = random.randrange(group.retry_queue_nums)
            level = header.delay_level or FIRST_RETRY_LEVEL + message.reconsume_times

        tries = message.reconsume_times + 1
        again = stored_again(message, topic, queue_id, properties=properties, reconsume_times=tries)
        if level > 0:
            put = self._writer.append_delayed(again, level)
        else:
            put = self._writer.append(again)
        self._statistics.sent_back(self._counted(message.topic, properties), header.group)
        # The consumer forgets the message. (The reference does not wait here, and may lose it
        # with the power.)
        return self._flushes.answered(SENT_BACK, put.end)

    def _counted(self, topic: str, properties: bytes) -> str:
        """Return the topic for which a message of ``topic`` is counted: the one it first had, if
        there is one of that name.

        Of a message in a retry topic its sender may have said anything.
        """
        first = get_property(properties, Property.RETRY_TOPIC.encode()) or b""
        name = first.decode("utf-8", "replace")
        return topic if self._topics.get(name) is None else name


def _marked(message: StoredMessage, offset_id: str) -> bytes:
    """Return the message's properties with its origin; the first topic and id stay.

    A message for neither retries nor dead letters has not been given back before, whatever its
    sender says.
    """
    properties = message.properties_data
    is_first = not message.topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
    for name, value in (
        (Property.RETRY_TOPIC, message.topic),
        (Property.ORIGIN_MESSAGE_ID, offset_id),
    ):
        if is_first or get_property(properties, name.encode()) is None:
            properties = set_property(properties, name.encode(), value.encode())
    return properties


def register(handlers: Handlers, broker: BrokerContext) -> SendBacks:
    """Register the request by which consumers send messages back."""
    back = SendBacks(
        address=broker.address,
        config=broker.config,
        flushes=Flushes(broker.store),
        groups=broker.groups,
        rights=broker.rights,
        statistics=broker.statistics,
        store=broker.store,
        topics=broker.topics,
        writer=broker.writer,
    )
    handlers.add(
        RequestCode.CONSUMER_SEND_MSG_BACK,
        typed(ConsumerSendMsgBack, back.answer),
    )
    return back
