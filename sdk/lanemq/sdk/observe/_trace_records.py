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

DEFAULT_REGION: Final = "DefaultRegion"
TRANSACTION_END_KIND: Final = 2  # MessageType.Trans_msg_Commit, whatever the state
# Above these a trace message is begun anew: half of what readers' limits are, and of the longest
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
    *,
    time_ms: int,
    region: str,
    group: str,
    topic: str,
    message_id: str,
    tags: str,
    keys: tuple[str, ...],
    store_host: str,
    body_bytes: int,
    cost_ms: int,
    kind: int,
    offset_id: str,
    succeeded: bool,
) -> TraceRecord:
    """Return the record of a message that was sent."""
    fields = (
        *("Pub", time_ms, region, group, topic, message_id, tags, " ".join(keys), store_host),
        *(body_bytes, cost_ms, kind, offset_id, _java_bool(succeeded)),
    )
    return _record(fields, message_id, keys)


def consuming_record(
    *,
    time_ms: int,
    region: str | None,
    group: str,
    request_id: str,
    message_id: str,
    reconsume_times: int,
    keys: tuple[str, ...],
) -> TraceRecord:
    """Return the record of a message given to a listener; ``request_id`` ties it to the record of
    its end."""
    fields = (
        *("SubBefore", time_ms, region, group, request_id, message_id, reconsume_times),
        " ".join(keys),
    )
    return _record(fields, message_id, keys)


def consumed_record(
    *,
    time_ms: int,
    group: str,
    request_id: str,
    message_id: str,
    cost_ms: int,
    returned: ConsumeReturn,
    keys: tuple[str, ...],
) -> TraceRecord:
    """Return the record of a listener's return."""
    succeeded = _java_bool(returned is ConsumeReturn.SUCCESS)
    fields = (
        *("SubAfter", request_id, message_id, cost_ms, succeeded, " ".join(keys)),
        *(returned.value, time_ms, group),
    )
    return _record(fields, message_id, keys)


def transaction_end_record(
    *,
    time_ms: int,
    region: str,
    group: str,
    topic: str,
    message_id: str,
    tags: str,
    keys: tuple[str, ...],
    store_host: str,
    state: str,
    checked: bool,
) -> TraceRecord:
    """Return the record of a transaction's state told to a broker; ``checked`` says that it had
    asked."""
    fields = (
        *("EndTransaction", time_ms, region, group, topic, message_id, tags, " ".join(keys)),
        *(store_host, TRANSACTION_END_KIND, message_id, state, _java_bool(checked)),
    )
    return _record(fields, message_id, keys)


def _java_bool(value: bool) -> str:
    return "true" if value else "false"


def pack(records: Iterable[TraceRecord]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Body and keys of as few trace messages as hold ``records``, in order."""
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
