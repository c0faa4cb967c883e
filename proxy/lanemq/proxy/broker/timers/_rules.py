"""The rules of messages with a timer: their marks, the time they are due, their form on the way.

Source: RocketMQ 5.3.3, HookUtils.handleScheduleMessage, SendMessageProcessor,
TimerMessageStore.convert; RecallMessageProcessor.buildMessage.
"""

import random
from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

from lanemq.storage import NewMessage
from lanemq.wire import INT64, RETRY_PREFIX, Refused, ResponseCode, SystemTopic, read_number
from lanemq.wire.message import Property, RecallHandle, StoredMessage, remove_property, set_property

from ..settings._config import BrokerConfig
from ..state._stored_again import stored_again

PRECISION_MS: Final = 1000
QUEUE_ID: Final = 0
ASKING: Final = (Property.TIMER_DELAY_SEC, Property.TIMER_DELAY_MS, Property.TIMER_DELIVER_MS)
"""The properties by which a sender asks for a timer; of several, the first one counts."""
MARK: Final = "TIMER_D"
"""A part of all of their names."""
RECALL_TAG: Final = "_RECALL_TAG_"
RECALL_BODY: Final = b"0"


def asks_for_timer(properties: Mapping[str, str]) -> bool:
    """Return whether a message asks for a timer, and does not say that it has had it."""
    return Property.TIMER_OUT_MS not in properties and any(name in properties for name in ASKING)


def without_timer(properties: bytes) -> bytes:
    """Return the properties of a message whose delay level counts, and not its timer."""
    for name in ASKING:
        properties = remove_property(properties, name.encode())
    return properties


def slot_time_ms(
    properties: Mapping[str, str], now_ms: int, config: BrokerConfig, *, topic: str
) -> int | None:
    """Return the time that a message for ``topic`` is kept under: that of its slot, up to a second
    early.

    None for one that is due now. Raises ``Refused`` as Apache's brokers do, and for one that
    recalls a message of another topic.
    """
    key = properties.get(Property.TIMER_DEL_UNIQKEY)
    if key is not None and not recalls_of(topic, key):
        remark = (
            f"timer message illegal, {Property.TIMER_DEL_UNIQKEY} must be {topic}+ and a unique "
            "key: a message recalls those of its own topic alone"
        )
        raise Refused(ResponseCode.MESSAGE_ILLEGAL, remark)
    if not config.timer_wheel_enable:
        remark = "accurate timer message is not enabled, timerWheelEnable is false"
        raise Refused(ResponseCode.SYSTEM_ERROR, remark)
    deliver_ms = _deliver_ms(properties, now_ms)
    if deliver_ms is None or deliver_ms - now_ms > config.timer_max_delay_sec * 1000:
        raise _illegal(config)
    if deliver_ms <= now_ms:
        if Property.TIMER_DEL_UNIQKEY in properties:
            raise _illegal(config)
        return None
    return (deliver_ms - 1) // PRECISION_MS * PRECISION_MS


def _illegal(config: BrokerConfig) -> Refused:
    return Refused(
        ResponseCode.MESSAGE_ILLEGAL,
        "timer message illegal, the delay time should not be bigger than the max delay"
        f" {config.timer_max_delay_sec * 1000}ms; or if set del msg, the delay time should be"
        " bigger than the current time",
    )


def check_crowd(count: int, config: BrokerConfig) -> None:
    """Refuse a timer for a second that has many, by chance, and one that has twice as many."""
    limit = config.timer_congest_num_each_slot
    if count <= limit:
        return
    if count < limit * 2 and random.random() * limit < count - limit:
        return
    raise Refused(
        ResponseCode.SYSTEM_ERROR,
        f"timer message is under flow control, max num limit is {limit * 2} or the current value"
        f" is greater than {limit} and less than {limit * 2}, trigger random flow control",
    )


def _deliver_ms(properties: Mapping[str, str], now_ms: int) -> int | None:
    """Return the time that is asked for; None where it is not a number."""
    name = next(name for name in ASKING if name in properties)
    value = _number(properties[name])
    if value is None or name == Property.TIMER_DELIVER_MS:
        return value
    return now_ms + (value * 1000 if name == Property.TIMER_DELAY_SEC else value)


def due_ms(message: StoredMessage, out_ms: int) -> int:
    """Return when a message that waits under ``out_ms`` is due, within the second behind it."""
    properties, latest_ms = message.properties, out_ms + PRECISION_MS
    if not any(name in properties for name in ASKING):
        return latest_ms
    if Property.TIMER_DELIVER_MS not in properties and Property.TIMER_ROLL_TIMES in properties:
        return latest_ms  # it was stored again: the time of its first storing is no longer known
    asked_ms = _deliver_ms(properties, message.store_timestamp_ms)
    return latest_ms if asked_ms is None else min(max(asked_ms, out_ms + 1), latest_ms)


def out_ms_of(message: StoredMessage) -> int | None:
    """Return the time that a message is kept under; None where it does not say one."""
    value = _number(message.properties.get(Property.TIMER_OUT_MS, ""))
    return value if value is not None and value >= 0 else None


def delivered_message(
    message: StoredMessage, target: tuple[str, int], *, enqueued_ms: int, now_ms: int
) -> NewMessage:
    """Make the message that consumers get.

    REAL_TOPIC and REAL_QID stay in its properties, as at the reference.
    """
    properties = set_property(message.properties_data, _ENQUEUE_MS, b"%d" % enqueued_ms)
    properties = set_property(properties, _DEQUEUE_MS, b"%d" % now_ms)
    return stored_again(message, *target, properties=properties)


def rolled_message(message: StoredMessage, *, enqueued_ms: int, now_ms: int) -> NewMessage:
    """Make the message that waits on, stored again at the end of the log."""
    times = _number(message.properties.get(Property.TIMER_ROLL_TIMES, "")) or 0
    target = (SystemTopic.TIMER, QUEUE_ID)
    rolled = delivered_message(message, target, enqueued_ms=enqueued_ms, now_ms=now_ms)
    rolled.properties = set_property(rolled.properties, _ROLL_TIMES, b"%d" % (times + 1))
    return rolled


def delete_key(topic: str, message_id: str) -> str:
    """Return the value by which a recall names a message."""
    return f"{topic}+{message_id}"


def recalls_of(topic: str, key: str) -> bool:
    """Return whether the value of a recall names a message of a topic."""
    return key.partition("+")[0] == topic


def recalled_key(message: StoredMessage) -> str | None:
    """Return the value by which a message recalls another one of its topic; None for any other
    message, also for one that names another topic."""
    key = message.properties.get(Property.TIMER_DEL_UNIQKEY)
    is_own = key is not None and recalls_of(message.properties.get(Property.REAL_TOPIC, ""), key)
    return key if is_own else None


def key_of(message: StoredMessage) -> str | None:
    """Return the value that a recall of a message has; None for one without a unique key."""
    key = message.properties.get(Property.UNIQ_KEY)
    return None if key is None else delete_key(message.properties.get(Property.REAL_TOPIC, ""), key)


def key_digest(key: str) -> bytes:
    """Return what is kept of the value of a recall, however long it is."""
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def handle_of(
    properties: Mapping[str, str], *, topic: str, broker_name: str, out_ms: int
) -> str | None:
    """Return the recall handle of a message; None for one that cannot be recalled."""
    key = properties.get(Property.UNIQ_KEY)
    if key is None or topic.startswith(RETRY_PREFIX):
        return None
    return RecallHandle(topic, broker_name, str(out_ms + 1), key).encode()


def _number(text: str) -> int | None:
    try:
        return read_number(text, INT64)
    except ValueError:
        return None


_ENQUEUE_MS: Final = Property.TIMER_ENQUEUE_MS.encode()
_DEQUEUE_MS: Final = Property.TIMER_DEQUEUE_MS.encode()
_ROLL_TIMES: Final = Property.TIMER_ROLL_TIMES.encode()
