"""The property string of a message: ``name 0x01 value 0x02`` repeated, in UTF-8.

The last 0x02 may be missing. A segment counts only if it has a name and a value: the
protocol cannot carry an empty value. Of equal names the last one wins.
Source: RocketMQ 4.9.8, MessageDecoder.messageProperties2String, string2messageProperties.
"""

from collections.abc import Mapping
from typing import Final, final

from .._errors import LocalProtocolError


@final
class Property:
    """Names of properties that the system itself uses. Source: RocketMQ 5.3.3, MessageConst."""

    KEYS: Final = "KEYS"
    TAGS: Final = "TAGS"
    WAIT: Final = "WAIT"
    DELAY: Final = "DELAY"
    RETRY_TOPIC: Final = "RETRY_TOPIC"
    REAL_TOPIC: Final = "REAL_TOPIC"
    REAL_QID: Final = "REAL_QID"
    TRAN_MSG: Final = "TRAN_MSG"
    PGROUP: Final = "PGROUP"
    MIN_OFFSET: Final = "MIN_OFFSET"
    MAX_OFFSET: Final = "MAX_OFFSET"
    BUYER_ID: Final = "BUYER_ID"
    ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
    TRANSFER_FLAG: Final = "TRANSFER_FLAG"
    CORRECTION_FLAG: Final = "CORRECTION_FLAG"
    MQ2_FLAG: Final = "MQ2_FLAG"
    RECONSUME_TIME: Final = "RECONSUME_TIME"
    MSG_REGION: Final = "MSG_REGION"
    TRACE_ON: Final = "TRACE_ON"
    UNIQ_KEY: Final = "UNIQ_KEY"
    EXTEND_UNIQ_INFO: Final = "EXTEND_UNIQ_INFO"
    MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
    CONSUME_START_TIME: Final = "CONSUME_START_TIME"
    INNER_NUM: Final = "INNER_NUM"
    INNER_BASE: Final = "INNER_BASE"
    DUP_INFO: Final = "DUP_INFO"
    TRAN_PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
    TRANSACTION_ID: Final = "__transactionId__"
    TRANSACTION_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
    CHECK_IMMUNITY_TIME_IN_SECONDS: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
    INSTANCE_ID: Final = "INSTANCE_ID"
    CORRELATION_ID: Final = "CORRELATION_ID"
    REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
    TTL: Final = "TTL"
    ARRIVE_TIME: Final = "ARRIVE_TIME"
    PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"
    CLUSTER: Final = "CLUSTER"
    MSG_TYPE: Final = "MSG_TYPE"
    POP_CK: Final = "POP_CK"
    POP_CK_OFFSET: Final = "POP_CK_OFFSET"
    FIRST_POP_TIME: Final = "1ST_POP_TIME"
    SHARDING_KEY: Final = "__SHARDINGKEY"
    FORWARD_QUEUE_ID: Final = "PROPERTY_FORWARD_QUEUE_ID"
    REDIRECT: Final = "REDIRECT"
    INNER_MULTI_DISPATCH: Final = "INNER_MULTI_DISPATCH"
    INNER_MULTI_QUEUE_OFFSET: Final = "INNER_MULTI_QUEUE_OFFSET"
    TRACE_CONTEXT: Final = "TRACE_CONTEXT"
    TIMER_DELAY_SEC: Final = "TIMER_DELAY_SEC"
    TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
    TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
    TIMER_OUT_MS: Final = "TIMER_OUT_MS"
    TIMER_ROLL_TIMES: Final = "TIMER_ROLL_TIMES"
    TIMER_ENQUEUE_MS: Final = "TIMER_ENQUEUE_MS"
    TIMER_DEQUEUE_MS: Final = "TIMER_DEQUEUE_MS"
    TIMER_DEL_UNIQKEY: Final = "TIMER_DEL_UNIQKEY"
    TIMER_DELAY_LEVEL: Final = "TIMER_DELAY_LEVEL"
    BORN_HOST: Final = "__BORNHOST"
    BORN_TIMESTAMP: Final = "BORN_TIMESTAMP"
    CRC32: Final = "__CRC32#"
    DLQ_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
    DLQ_ORIGIN_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"
    DLQ_REASON: Final = "DLQ_REASON"  # lanemq's: the first line of the last error
    DLQ_ATTEMPTS: Final = "DLQ_ATTEMPTS"  # lanemq's: deliveries before a message was given up
    TRANSIENT_PREFIX: Final = "__RMQ.TRANSIENT."


KEY_SEPARATOR = " "  # between the keys in KEYS


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """Return the property string, with the final 0x02 that a broker writes.

    Pairs with an empty value are left out, since no reader would see them. Raises
    ``LocalProtocolError`` for an empty name, and for a name or value that holds 0x01 or 0x02
    or is not valid Unicode.
    """
    pairs = [f"{name}\x01{value}\x02" for name, value in properties.items() if value != ""]
    text = "".join(pairs)
    if text.count("\x01") != len(pairs) or text.count("\x02") != len(pairs):
        raise LocalProtocolError("a property name or value holds the separator 0x01 or 0x02")
    if "" in properties or text.startswith("\x01") or "\x02\x01" in text:
        raise LocalProtocolError("a property has an empty name")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"a property is not valid Unicode: {error}") from error


def decode_properties(data: bytes | str) -> dict[str, str]:
    """Return the properties in their order. Unparsable parts are skipped, as every reader
    does."""
    text = data if isinstance(data, str) else bytes(data).decode("utf-8", "replace")
    properties: dict[str, str] = {}
    for segment in text.split("\x02"):
        name, _, value = segment.partition("\x01")
        if name and value:
            properties[name] = value
    return properties


def get_property(data: bytes, name: bytes) -> bytes | None:
    """Return the value of one property, found by scanning: no text, no table is built.

    Gives what ``decode_properties`` would, as bytes.
    """
    needle = name + b"\x01"
    at = data.find(needle)
    if at < 0:
        return None
    size, end = len(needle), len(data)
    if at == 0 and data.find(needle, size) < 0:  # as a unique key mostly stands
        stop = data.find(b"\x02", size)
        return (data[size:] if stop < 0 else data[size:stop]) or None
    while (at := data.rfind(needle, 0, end)) >= 0:
        if at == 0 or data[at - 1] == 2:
            stop = data.find(b"\x02", at + size)
            value = data[at + size :] if stop < 0 else data[at + size : stop]
            if value:
                return value
        end = at + size - 1  # overlaps are impossible: a needle ends in 0x01
    return None


def set_property(data: bytes, name: bytes, value: bytes) -> bytes:
    """Return the property string with one value added or replaced; other segments keep their
    bytes."""
    rest = remove_property(data, name)
    if rest and not rest.endswith(b"\x02"):
        rest += b"\x02"
    return b"%b%b\x01%b\x02" % (rest, name, value)


def remove_property(data: bytes, name: bytes) -> bytes:
    """Return the property string without one name; other segments keep their bytes and order."""
    needle = name + b"\x01"
    if needle not in data:
        return data
    return b"\x02".join(
        segment for segment in data.split(b"\x02") if not segment.startswith(needle)
    )
