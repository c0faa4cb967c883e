"""Records of a message trace, as tools read them.

A record is fields joined by 0x01; a trace message holds records, each with 0x02 behind it, and
has as its keys the ids and keys of all messages they are about. A missing text is written
``null``: readers drop empty fields at the end of a record.
Source: RocketMQ 4.9.8, TraceDataEncoder, SendMessageTraceHookImpl, ConsumeMessageTraceHookImpl,
EndTransactionTraceHookImpl.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from lanemq.wire.message import Property

from .._messages import Message, ReceivedMessage, SendResult, SendStatus
from ._consume_hooks import Consumption
from ._send_hooks import SendAttempt

DEFAULT_REGION: Final = "DefaultRegion"
TRANSACTION_END_KIND: Final = 2  # MessageType.Trans_msg_Commit, whatever the state
# Above these a trace message is begun again: half of what readers' limits are, and of the longest
# property string a broker takes.
DATA_MAX: Final = 64_000  # characters
KEYS_MAX: Final = 16_000  # characters


class ConsumeReturn(Enum):
    """The end of a listener's call, by number. Source: ConsumeReturnType."""

    SUCCESS = 0
    TIMED_OUT = 1
    EXCEPTION = 2
    FAILED = 4


@dataclass(frozen=True, slots=True)
class TraceRecord:
    """A trace record, and the keys to find it by."""

    text: str
    keys: tuple[str, ...]


def _record(fields: Iterable[object], message_id: str, keys: tuple[str, ...]) -> TraceRecord:
    text = "\x01".join("null" if field in (None, "") else str(field) for field in fields)
    return TraceRecord(text + "\x02", (message_id, *keys))


def sent_record(
    attempt: SendAttempt, result: SendResult, message: Message, message_id: str, offset_id: str
) -> TraceRecord:
    """Return the record of one message of an attempt that was answered."""
    fields = (
        *("Pub", attempt.started_ms, result.region, attempt.group, message.topic, message_id),
        *(message.tags, " ".join(message.keys), attempt.address, len(message.body)),
        *(attempt.cost_ms // len(attempt.messages), attempt.kind.value, offset_id),
        _java_bool(result.status is SendStatus.OK),
    )
    return _record(fields, message_id, message.keys)


def consuming_record(event: Consumption, message: ReceivedMessage, request_id: str) -> TraceRecord:
    """Return the record of a message given to a listener; ``request_id`` ties it to the record of
    its end."""
    region = message.properties.get(Property.MSG_REGION)
    fields = (
        *("SubBefore", event.started_ms, region, event.group, request_id, message.message_id),
        *(message.reconsume_times, " ".join(message.keys)),
    )
    return _record(fields, message.message_id, message.keys)


def consumed_record(
    event: Consumption, message: ReceivedMessage, request_id: str, returned: ConsumeReturn
) -> TraceRecord:
    """Return the record of a listener's return."""
    fields = (
        *("SubAfter", request_id, message.message_id, event.cost_ms // len(event.messages)),
        *(_java_bool(returned is ConsumeReturn.SUCCESS), " ".join(message.keys)),
        *(returned.value, event.started_ms + event.cost_ms, event.group),
    )
    return _record(fields, message.message_id, message.keys)


def transaction_end_record(
    message: Message | ReceivedMessage,
    message_id: str,
    *,
    time_ms: int,
    group: str,
    address: str,
    state: str,
) -> TraceRecord:
    """Return the record of a transaction's state told to the broker at ``address``, which had
    asked for that of a received message."""
    region = message.properties.get(Property.MSG_REGION) or DEFAULT_REGION
    checked = _java_bool(isinstance(message, ReceivedMessage))
    fields = (
        *("EndTransaction", time_ms, region, group, message.topic, message_id, message.tags),
        *(" ".join(message.keys), address, TRANSACTION_END_KIND, message_id, state, checked),
    )
    return _record(fields, message_id, message.keys)


def _java_bool(value: bool) -> str:
    return "true" if value else "false"


def pack(records: Iterable[TraceRecord]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Pack ``records``, in order, into as few trace messages as hold them: bodies and keys."""
    texts: list[str] = []
    keys: dict[str, None] = {}  # a set that keeps its order
    data_size = keys_size = 0
    for record in records:
        fresh = [key for key in dict.fromkeys(record.keys) if key not in keys]
        more = sum(len(key) + 1 for key in fresh)
        if texts and (data_size + len(record.text) > DATA_MAX or keys_size + more > KEYS_MAX):
            yield "".join(texts), tuple(keys)
            texts, keys, data_size, keys_size = [], {}, 0, 0
            fresh = list(dict.fromkeys(record.keys))
            more = sum(len(key) + 1 for key in fresh)
        texts.append(record.text)
        keys.update(dict.fromkeys(fresh))
        data_size += len(record.text)
        keys_size += more
    if texts:
        yield "".join(texts), tuple(keys)
