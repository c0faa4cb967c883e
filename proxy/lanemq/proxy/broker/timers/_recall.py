"""RECALL_MESSAGE (370): a message with a timer is taken back before its time.

The recall is a message of the same second, which is delivered to nobody.

Source: RocketMQ 5.3.3, RecallMessageProcessor.
"""

from collections.abc import Awaitable, Callable
from typing import final

from attrs import define

from lanemq.storage import NewMessage
from lanemq.wire import (
    INT64,
    Permission,
    Refused,
    RemoteProtocolError,
    RequestCode,
    ResponseCode,
    SystemTopic,
    read_number,
)
from lanemq.wire.frame import Frame
from lanemq.wire.headers import RecallMessage, RecallMessageResponse
from lanemq.wire.message import Property, RecallHandle, encode_properties

from ...net._dispatch import Handlers, typed
from ...net._session import Session
from ..context._context import BrokerContext
from ..settings._config import BrokerConfig
from ..state._topics import Topics
from ..writing._flushes import Flushes
from ..writing._writer import Writer
from ._rules import QUEUE_ID, RECALL_BODY, RECALL_TAG, delete_key, slot_time_ms


@final
@define(eq=False, kw_only=True, repr=False)
class Recalls:
    """The recalls at one broker."""

    _config: BrokerConfig
    _flushes: Flushes
    _now_ms: Callable[[], int]
    _store_host: bytes
    _topics: Topics
    _writer: Writer

    def recall(
        self, header: RecallMessage, frame: Frame, session: Session
    ) -> Frame | Awaitable[Frame]:
        """Store the recall of a message. Raises ``Refused``, with Apache's words."""
        self._check_accepts()
        if self._topics.get(header.topic) is None:
            remark = f"recall failed, the topic[{header.topic}] not exist"
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, remark)
        try:
            handle = RecallHandle.decode(header.recall_handle)
        except RemoteProtocolError as error:
            raise Refused(ResponseCode.ILLEGAL_OPERATION, str(error)) from error
        if handle.topic != header.topic:
            raise Refused(ResponseCode.ILLEGAL_OPERATION, "recall failed, topic not match")
        if handle.broker_name != self._config.broker_name:
            remark = "recall failed, broker service not available"
            raise Refused(ResponseCode.ILLEGAL_OPERATION, remark)
        properties = self._properties(handle, header)
        message = NewMessage(
            topic=header.topic,
            queue_id=QUEUE_ID,
            body=RECALL_BODY,
            properties=encode_properties(properties),
            born_timestamp_ms=self._now_ms(),
            born_host=session.born_host,
            store_host=self._store_host,
        )
        try:
            out_ms = slot_time_ms(properties, self._now_ms(), self._config, topic=header.topic)
            assert out_ms is not None  # it was looked at before
            self._topics.ensure(SystemTopic.TIMER, queues=1)
            with self._writer.recalls.place(out_ms, self._now_ms()):
                put = self._writer.append_waiting_timed(message, out_ms)
        except Refused as error:
            if error.code in (ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.SYSTEM_BUSY):
                raise
            remark = "recall failed, execute error"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark) from error
        fields = RecallMessageResponse(handle.message_id).to_fields()
        fields[Property.MSG_REGION] = self._config.region_id
        return self._flushes.answered(frame.reply(0, fields), put.end)

    def _check_accepts(self) -> None:
        config = self._config
        if not config.recall_message_enable:
            remark = "recall failed, operation is forbidden"
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        is_writable = bool(config.broker_permission & Permission.WRITE)
        if self._now_ms() < config.start_accept_send_request_time_stamp or not (
            is_writable or config.allow_recall_when_broker_not_writeable
        ):
            remark = "recall failed, broker service not available"
            raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, remark)

    def _properties(self, handle: RecallHandle, header: RecallMessage) -> dict[str, str]:
        try:
            left_ms = read_number(handle.time_ms, INT64) - self._now_ms()
        except ValueError:
            left_ms = 0
        if not 0 < left_ms < self._config.timer_max_delay_sec * 1000:
            raise Refused(ResponseCode.ILLEGAL_OPERATION, "recall failed, timestamp invalid")
        properties = {
            Property.TAGS: RECALL_TAG,
            Property.TIMER_DEL_UNIQKEY: delete_key(handle.topic, handle.message_id),
            Property.UNIQ_KEY: handle.message_id,
            Property.TIMER_DELIVER_MS: handle.time_ms,
            Property.BORN_TIMESTAMP: str(self._now_ms()),
        }
        if header.producer_group:
            properties[Property.PGROUP] = header.producer_group
        return properties


def register(handlers: Handlers, broker: BrokerContext) -> None:
    """Register recalls."""
    recalls = Recalls(
        config=broker.config,
        flushes=Flushes(broker.store),
        now_ms=broker.now_ms,
        store_host=broker.store_host,
        topics=broker.topics,
        writer=broker.writer,
    )
    handlers.add(RequestCode.RECALL_MESSAGE, typed(RecallMessage, recalls.recall))
