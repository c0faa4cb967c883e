"""Dates, maps and JSON as mqadmin writes them, so that scripts that read it go on working.

Times are local, as mqadmin's.
Source: RocketMQ 4.9.8, UtilAll, MessageExt.toString; fastjson's SerializerFeature.PrettyFormat.
"""

import re
import time
from collections.abc import Mapping

import msgspec

from lanemq.wire.bodies import Body
from lanemq.wire.message import StoredMessage

TIME_FORM = "a number of milliseconds since 1970 or yyyy-MM-dd#HH:mm:ss:SSS"
_TIME = re.compile(r"(\d{4}-\d{2}-\d{2}#\d{2}:\d{2}:\d{2}):(\d{1,3})")


def moment(milliseconds: int) -> str:
    """Write a time as ``2026-11-21 04:36:39,919``."""
    seconds, rest = divmod(milliseconds, 1000)
    return f"{_to_seconds(seconds)},{rest:03d}"


def moment_in_seconds(milliseconds: int) -> str:
    """Write a time as ``2026-11-21 04:36:39``."""
    return _to_seconds(milliseconds // 1000)


def _to_seconds(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def parse_moment(text: str) -> int:
    """Return the milliseconds since 1970 that ``text`` stands for.

    Raises ``ValueError`` for a text of neither of the two forms mqadmin knows.
    """
    text = text.strip()
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not {TIME_FORM}")
    try:
        seconds = time.mktime(time.strptime(match[1], "%Y-%m-%d#%H:%M:%S"))
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not an existing time") from None
    return int(seconds) * 1000 + int(match[2])


def boolean(value: bool) -> str:
    return "true" if value else "false"


def mapping(values: Mapping[str, object]) -> str:
    """Write a map as ``{a=1, b=2}``."""
    return "{" + ", ".join(f"{key}={value}" for key, value in values.items()) + "}"


def java_bytes(data: bytes) -> str:
    """Write bytes as ``[104, -61]``."""
    return "[" + ", ".join(str(byte - 256 if byte > 127 else byte) for byte in data) + "]"


def message_line(message: StoredMessage, broker_name: str, body: bytes) -> str:
    """Write all of ``message`` in one line; ``body`` is its body, decompressed."""
    properties = message.properties
    inner = (
        f"Message{{topic='{message.topic}', flag={message.flag}, "
        f"properties={mapping(properties)}, body={java_bytes(body)}, "
        f"transactionId='null'}}"
    )
    return (
        f"MessageExt [brokerName={broker_name}, queueId={message.queue_id}, "
        f"storeSize={message.size_bytes}, queueOffset={message.queue_offset}, "
        f"sysFlag={message.sys_flag}, bornTimestamp={message.born_timestamp_ms}, "
        f"bornHost=/{message.born_host}, storeTimestamp={message.store_timestamp_ms}, "
        f"storeHost=/{message.store_host}, msgId={message.offset_id}, "
        f"commitLogOffset={message.log_position}, bodyCRC={message.body_crc}, "
        f"reconsumeTimes={message.reconsume_times}, "
        f"preparedTransactionOffset={message.prepared_transaction_offset}, "
        f"toString()={inner}]"
    )


def pretty(value: object, depth: int = 0) -> str:
    """Write a JSON value over several lines, the members of an object by name.

    Keys that are numbers stand bare, and on the line of their brace: it is not strict JSON.
    """
    inner, outer = "\n" + "\t" * (depth + 1), "\n" + "\t" * depth
    if isinstance(value, Body):
        value = value.to_json()
    if isinstance(value, Mapping) and value:
        members = []
        for key in sorted(value, key=str):
            if value[key] is None:
                continue
            member = pretty(value[key], depth + 1)
            numbered = isinstance(key, int)
            members.append(f"{key}:{member}" if numbered else f"{inner}{_json(key)}:{member}")
        return "{" + ",".join(members) + outer + "}"
    if isinstance(value, list | tuple) and value:
        return "[" + ",".join(inner + pretty(item, depth + 1) for item in value) + outer + "]"
    return _json(value)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
