"""The quick way of ordinary and half messages, from the fields of a request into the store."""

from collections.abc import Callable, Mapping
from typing import Protocol

from lanemq.storage import NewMessage, Put
from lanemq.wire import SysFlag, SystemTopic
from lanemq.wire.frame import Frame
from lanemq.wire.logical import BORN_HOST_FIELD

from ....logical.rules._forwarding import SendNames, born_host_of
from ....logical.rules._mapping import TopicMapping
from ....net._session import Session
from ....sessions.values._results import Stored
from ...settings._config import BrokerConfig
from ...state._recent_halves import Half, RecentHalves
from ...state._topics import SendTarget, Topics
from ...values._own_properties import Kept, Kind
from ...values._room import QUICK_BYTES_MAX, check_length
from ...writing._writer import Writer
from ._send_special import STORED_FLAGS, choose_queue

HalfSend = Callable[[NewMessage], Put | None]
"""Appends a message that has nothing but a transaction.

Returns None, with nothing done, for one that has to be looked at more closely. Raises ``Refused``
and ``SegmentClosed``.
"""


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


def ordinary_sends(
    *,
    append: Callable[[NewMessage], Put],
    append_half: HalfSend,
    config: BrokerConfig,
    count_put: Callable[[str, int, int], None],
    find_target: Callable[[str], SendTarget | None],
    mappings: Mapping[str, TopicMapping],
    store_host: bytes,
    to_store: Callable[[str], Kept],
    waits: bool,
) -> OrdinarySend:
    """Make the quick way into the store; with ``waits`` senders wait for the disk unless they say
    otherwise."""
    plain, half = Kind.PLAIN, Kind.HALF

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
        check_length(properties)
        text, wishes_flush, kind = to_store(properties)
        data, is_quick = text.encode(), kind is plain or (kind is half and not is_exact)
        if not is_quick or len(data) > QUICK_BYTES_MAX:
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
            properties=data,
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
        place, size = put.log_position, put.size_bytes
        count_put(topic, 1, size)
        return Stored((place,), queue_id, put.queue_offset, place + size, waits and wishes_flush)

    return send


def half_sends(
    *, config: BrokerConfig, recent: RecentHalves, topics: Topics, writer: Writer
) -> HalfSend:
    """Make the quick way of half messages into the store of one broker."""
    ensure, append, keep = topics.ensure, writer.append_half, recent.keep

    def store(message: NewMessage) -> Put | None:
        if config.reject_transaction_message or (
            message.sys_flag & SysFlag.TRANSACTION_MASK == SysFlag.TRANSACTION_COMMIT
        ):
            return None
        ensure(SystemTopic.TRANSACTION_HALF, queues=1)
        put, half = append(message)
        keep(Half(put, half, message.topic, message.queue_id))
        return put

    return store


def quick_sends(ordinary: OrdinarySend, names: SendNames) -> QuickSend:
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
        if fields.get(batch_name, "false") != "false":  # the header says what else means
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
