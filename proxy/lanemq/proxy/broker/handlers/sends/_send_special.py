"""Special sends: batches, delays, retries, topics that do not exist yet.

Their headers and properties are read as everyone else reads them.

Source: RocketMQ 4.9.8, SendMessageProcessor, AbstractSendMessageProcessor.msgCheck.
"""

import random
from collections.abc import Callable, Mapping
from typing import Final, final

from attrs import define

from lanemq.storage import INDEXED_KEYS_MAX, NewBatch, NewMessage
from lanemq.wire import (
    Permission,
    Refused,
    RemoteProtocolError,
    ResponseCode,
    SysFlag,
    SystemTopic,
    Version,
    dlq_topic,
    group_of_retry_topic,
)
from lanemq.wire.headers import SendMessage
from lanemq.wire.logical import LOGICAL_QUEUE_FLAG
from lanemq.wire.message import (
    BatchEntry,
    Property,
    count_batch,
    decode_batch,
    decode_properties,
    get_property,
    remove_property,
)

from ....logical.rules._forwarding import half_forbidden
from ....logical.rules._mapping import TopicMapping
from ....sessions.values._results import Stored
from ...settings._config import BrokerConfig
from ...state._groups import Groups
from ...state._topics import SendTarget, Topics
from ...timers._rules import asks_for_timer, without_timer
from ...timers._sends import TimedSends
from ...values._own_properties import OwnProperties
from ...values._room import check_length, check_room
from ...writing._writer import Writer

BATCH_MESSAGES_MAX: Final = 4096
"""Most messages of a batch, which are stored in one turn."""

BATCH_KEYS_MAX: Final = 4096
"""Most keys of a batch, beside one of each message: they are indexed in one turn."""

DLQ_QUEUES: Final = 1
STORED_FLAGS: Final = ~LOGICAL_QUEUE_FLAG
"""The flags that are stored: following redirects is a property of the request, not of the
message."""


@final
@define(eq=False, kw_only=True, repr=False)
class SpecialSends:
    """The slow way of sends to one broker, for every kind of them.

    ``waits`` is whether senders wait for the disk, unless they say otherwise.
    """

    _config: BrokerConfig
    _count_put: Callable[[str, int, int], None]
    _groups: Groups
    _mappings: Mapping[str, TopicMapping]
    _message_bytes_max: int
    _now_ms: Callable[[], int]
    _own: OwnProperties
    _store_host: bytes
    _timed: TimedSends
    _topics: Topics
    _waits: bool
    _writer: Writer

    def store(
        self,
        header: SendMessage,
        *,
        body: bytes,
        born_host: bytes,
        version: int,
    ) -> Stored:
        """Append the message or batch of a client of protocol ``version``.

        Raises ``Refused`` and ``SegmentClosed``.
        """
        check_length(header.properties or "")
        check_accepts(self._config, self._now_ms())
        target = checked_target(header, config=self._config, topics=self._topics)
        queue_id = choose_queue(self._mappings, target, header.queue_id)
        if header.batch:
            return self._batch(header, target, queue_id, body, born_host)
        return self._single(header, target, queue_id, body, born_host, version)

    def _single(
        self,
        header: SendMessage,
        target: SendTarget,
        queue_id: int,
        body: bytes,
        born_host: bytes,
        version: int,
    ) -> Stored:
        topic, stored_queue_id = header.topic, queue_id
        properties = decode_properties(header.properties or "")
        level = _number(properties, Property.DELAY)
        reconsume_times = header.reconsume_times or 0
        group = group_of_retry_topic(topic)
        if group is not None:
            limit = self._groups.require(group).retry_max_times
            if version >= Version.V3_4_9 and header.max_reconsume_times is not None:
                limit = header.max_reconsume_times
            if reconsume_times >= limit:
                topic, stored_queue_id, level = dlq_topic(group), 0, 0
                self._topics.ensure(topic, queues=DLQ_QUEUES)
        is_half = brings_half(header, properties)
        if is_half and self._config.reject_transaction_message:
            raise half_forbidden(self._config.broker_ip1)
        data = self._own.added_to(header.properties or "").encode()
        if topic != header.topic:
            # As where the broker is asked to send back: dead letters are in no light queues.
            data = remove_property(data, Property.INNER_MULTI_DISPATCH.encode())
        is_timed = asks_for_timer(properties) if level <= 0 else group is None
        check_room(header.topic, len(data), properties, is_half=is_half, is_timed=is_timed)
        message = NewMessage(
            topic=topic,
            queue_id=stored_queue_id,
            body=body,
            properties=data,
            flag=header.flag,
            sys_flag=header.sys_flag & STORED_FLAGS | target.sys_flag,
            born_timestamp_ms=header.born_timestamp,
            born_host=born_host,
            store_host=self._store_host,
            reconsume_times=reconsume_times,
        )
        waits = self._waits and properties.get(Property.WAIT) != "false"
        handle: str | None = None
        if is_half:
            topic = SystemTopic.TRANSACTION_HALF
            self._topics.ensure(topic, queues=1)
            put, _ = self._writer.append_half(message)
        elif message.sys_flag & SysFlag.TRANSACTION_MASK not in (0, SysFlag.TRANSACTION_COMMIT):
            put = self._writer.append(message)
        elif level > 0:
            message.properties = without_timer(message.properties)
            put = self._writer.append_delayed(message, level)
        else:
            put, handle = self._timed.append(message, properties)
        self._count_put(topic, 1, put.size_bytes)
        return Stored(
            (put.log_position,), queue_id, put.queue_offset, put.end, waits, recall_handle=handle
        )

    def _batch(
        self,
        header: SendMessage,
        target: SendTarget,
        queue_id: int,
        body: bytes,
        born_host: bytes,
    ) -> Stored:
        if len(body) > self._message_bytes_max:
            remark = f"the batch has {len(body)} bytes, too many"
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, remark)
        shared = decode_properties(header.properties or "")
        # Every record gets the batch's own properties besides its own. Of equal names the last
        # one counts, and a unique key must stay that of its message.
        left_out = {*self._own.names, Property.WAIT, Property.UNIQ_KEY}
        common = "".join(
            f"{name}\x01{value}\x02" for name, value in shared.items() if name not in left_out
        )
        appended = (common + self._own.tail).encode()
        number = count_batch(body, most=BATCH_MESSAGES_MAX + 1)
        if number > BATCH_MESSAGES_MAX:
            remark = f"the batch has more than {BATCH_MESSAGES_MAX} messages: send several batches"
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, remark)
        if number * len(appended) > self._message_bytes_max:
            remark = (
                f"the batch has {number} messages, and {len(appended)} bytes of properties for each"
                " of them: send the properties in the messages that need them"
            )
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, remark)
        entries = decode_batch(body, shared_properties=appended)
        if not entries:
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, "the batch has no message")
        check_room(header.topic, max(len(entry.properties) for entry in entries), {})
        blanks = body.count(b" ") + number * appended.count(b" ")
        if blanks > BATCH_KEYS_MAX and _keys_of(entries) > BATCH_KEYS_MAX:
            remark = f"the batch has more than {BATCH_KEYS_MAX} keys: send several batches"
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, remark)
        put = self._writer.append_batch(
            NewBatch(
                topic=header.topic,
                queue_id=queue_id,
                entries=entries,
                sys_flag=header.sys_flag & STORED_FLAGS | target.sys_flag,
                born_timestamp_ms=header.born_timestamp,
                born_host=born_host,
                store_host=self._store_host,
                reconsume_times=header.reconsume_times or 0,
            )
        )
        self._count_put(header.topic, len(entries), put.size_bytes)
        waits = self._waits and shared.get(Property.WAIT) != "false"
        return Stored(put.log_positions, queue_id, put.queue_offset, put.end, waits)


def brings_half(header: SendMessage, properties: dict[str, str]) -> bool:
    """Return whether the message of a send is stored as a half message.

    Raises ``RemoteProtocolError`` for a delay that is not a number.
    """
    if header.batch or properties.get(Property.TRAN_MSG, "").lower() != "true":
        return False
    if header.sys_flag & SysFlag.TRANSACTION_MASK == SysFlag.TRANSACTION_COMMIT:
        return False  # another broker passes on what was committed there
    if not header.reconsume_times or header.reconsume_times < 0:
        return True
    # A consumer that gives a committed message back by sending it leaves the mark in it.
    is_retry = group_of_retry_topic(header.topic) is not None
    return not (is_retry or _number(properties, Property.DELAY) > 0)


def check_accepts(config: BrokerConfig, now_ms: int) -> None:
    """Refuse sends before the time from which the broker takes them."""
    accept_from_ms = config.start_accept_send_request_time_stamp
    if now_ms < accept_from_ms:
        raise Refused(
            ResponseCode.SYSTEM_ERROR, f"broker unable to service, until {accept_from_ms}"
        )


def checked_target(header: SendMessage, *, config: BrokerConfig, topics: Topics) -> SendTarget:
    """Return the target of a send, whose topic is created if need be.

    Raises ``Refused`` as ``Topics.target_for_send``, and for an ordered topic of a broker that
    takes no messages (NO_PERMISSION).
    """
    target = topics.target_for_send(
        header.topic,
        default_topic=header.default_topic,
        queue_nums=header.default_topic_queue_nums,
        unit_mode=bool(header.unit_mode),
    )
    if target.config.order and not config.broker_permission & Permission.WRITE:
        remark = f"the broker[{config.broker_ip1}] sending message is forbidden"
        raise Refused(ResponseCode.NO_PERMISSION, remark)
    return target


def choose_queue(mappings: Mapping[str, TopicMapping], target: SendTarget, queue_id: int) -> int:
    """Choose the queue of a send: an open one, if the choice is the broker's."""
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
        raise RemoteProtocolError(
            f"property {name} is not a number: {properties[name]!r}"
        ) from None


def _keys_of(entries: list[BatchEntry]) -> int:
    """Count the keys of a batch, of each message those that come after its first."""
    name = Property.KEYS.encode()
    keys = (get_property(entry.properties, name) for entry in entries)
    return sum(min(one.count(b" "), INDEXED_KEYS_MAX) for one in keys if one)
