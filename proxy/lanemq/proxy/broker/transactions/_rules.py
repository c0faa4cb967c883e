"""The rules of checks, and the messages that transactions consist of; all pure.

Source: RocketMQ 4.9.8, TransactionalMessageServiceImpl, TransactionalMessageBridge,
EndTransactionProcessor.
"""

import enum
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, final

from msgspec.structs import replace

from lanemq.storage import NewMessage
from lanemq.wire import INT64, SysFlag, SystemTopic, read_number
from lanemq.wire.message import (
    Property,
    StoredMessage,
    get_property,
    remove_property,
    set_property,
)

from ..state._recent_halves import Half
from ..state._stored_again import stored_again

QUEUE_ID: Final = 0
"""The one queue of half messages, and of op messages."""
OP_PROPERTIES: Final = b"TAGS\x01d\x02"
"""The tag of op messages, which says that a half message is done with."""
OP_SEPARATOR: Final = b","
BEHIND_MAX: Final = 1 << 22
"""Half messages that may come behind one whose producer asked for time: for each of them the table
of half messages keeps some nine bytes."""
_CHECK_TIMES: Final = Property.TRANSACTION_CHECK_TIMES.encode()
_ORIGIN: Final = Property.TRAN_PREPARED_QUEUE_OFFSET.encode()


def property_of(message: StoredMessage, name: str) -> str | None:
    """Return one property of a message; of most messages here only a few are looked at."""
    return _text_in(message.properties_data, name)


def group_of(half: Half) -> str | None:
    """Return the producer group of a half message."""
    return _text_in(half.message.properties, Property.PGROUP)


class Treatment(enum.Enum):
    """The treatment of an open half message."""

    CHECK = "check"
    WAIT = "wait"
    """Wait: the message is young, and so are those behind it."""
    PASS = "pass"
    """Pass over it: its producer asked for more time; those behind it may be due."""
    DISCARD = "discard"


@final
@dataclass(frozen=True, slots=True)
class CheckRules:
    """The settings of checks; times in milliseconds."""

    timeout_ms: int
    """The age at which a transaction is asked about first."""
    times_max: int
    reserved_ms: int
    """The age at which the log's files go."""

    def judge(self, half: StoredMessage, *, now_ms: int, end: int) -> Treatment:
        """Judge a half message that was there when the round of checks began, with the queue's
        ``end``."""
        age_ms = now_ms - half.born_timestamp_ms
        if check_times(half) >= self.times_max or age_ms > self.reserved_ms:
            return Treatment.DISCARD
        until_ms = self.passed_until_ms(half, now_ms=now_ms)
        if until_ms is not None:
            is_immune = now_ms < until_ms and end - half.queue_offset <= BEHIND_MAX
            return Treatment.PASS if is_immune else Treatment.CHECK
        # One that was born later than now comes from a client whose clock is wrong, or from before
        # this broker's clock was set back.
        return Treatment.WAIT if 0 <= age_ms < self.timeout_ms else Treatment.CHECK

    def passed_until_ms(self, half: StoredMessage, *, now_ms: int) -> int | None:
        """Return the time at which a half message that is not checked too often is judged again,
        that of now at the latest where it is due; None where its producer asked for no time."""
        immunity = property_of(half, Property.CHECK_IMMUNITY_TIME_IN_SECONDS)
        if immunity is None:
            return None
        asked_s = _number(immunity, -1)
        immune_ms = self.timeout_ms if asked_s == -1 else asked_s * 1000
        born_ms, stored_ms = half.born_timestamp_ms, half.store_timestamp_ms
        if born_ms <= now_ms:
            return min(born_ms + immune_ms, born_ms + self.reserved_ms + 1)
        # A client's clock is fast; this broker's own age of it counts.
        return min(stored_ms + immune_ms, born_ms) if stored_ms <= now_ms else now_ms


@final
@dataclass(frozen=True, slots=True)
class Passed:
    """Half messages that a round of checks has passed over together: from ``first``, which is one,
    to before ``behind``. Times in milliseconds."""

    first: int
    behind: int
    since_ms: int
    until_ms: int

    def holds(self, *, now_ms: int, end: int) -> bool:
        """Return whether another round, by the same rules, passes over those that are still open;
        the queue's ``end`` is as in ``judge``."""
        return self.since_ms <= now_ms < self.until_ms and end - self.first <= BEHIND_MAX


def check_times(half: StoredMessage) -> int:
    """Return how often a half message was checked."""
    return _number(property_of(half, Property.TRANSACTION_CHECK_TIMES) or "0", -1)


def origin_of(half: StoredMessage) -> int:
    """Return the place in the half queue that a half message had first."""
    text = property_of(half, Property.TRAN_PREPARED_QUEUE_OFFSET)
    origin = half.queue_offset if text is None else _number(text, -1)
    return origin if 0 <= origin <= half.queue_offset else half.queue_offset


def offsets_in(op: StoredMessage, end: int) -> list[int]:
    """Return the offsets of half messages before ``end`` that an op message names.

    4.x names one, 5.x several with commas behind them.
    """
    if property_of(op, Property.TAGS) != "d":
        return []
    numbers = (_number(part, -1) for part in op.body.decode("latin-1").split(","))
    return [number for number in numbers if 0 <= number < end]


def op_message(offsets: Collection[int], *, host: bytes, now_ms: int) -> NewMessage:
    """Make the op message that says that the transactions of ``offsets`` have ended.

    4.x reads one offset of each only.
    """
    return NewMessage(
        topic=SystemTopic.TRANSACTION_OP_HALF,
        queue_id=QUEUE_ID,
        body=OP_SEPARATOR.join(b"%d" % offset for offset in offsets),
        properties=OP_PROPERTIES,
        born_timestamp_ms=now_ms,
        born_host=host,
        store_host=host,
    )


def committed_message(half: StoredMessage, topic: str, queue_id: int) -> NewMessage:
    """Make the message that consumers get of a committed half message.

    TRAN_MSG, REAL_TOPIC and REAL_QID stay in its properties, as at the reference: Java clients
    look at the first of them.
    """
    properties = remove_property(half.properties_data, _ORIGIN)
    message = stored_again(half, topic, queue_id, properties=properties)
    return _committed(message, topic, queue_id, half.log_position)


def committed_at_hand(half: Half) -> NewMessage:
    """Make the same message of a half message that came a moment ago."""
    return _committed(half.message, half.topic, half.queue_id, half.put.log_position)


def _committed(
    message: NewMessage, topic: str, queue_id: int, prepared_position: int
) -> NewMessage:
    return replace(
        message,
        topic=topic,
        queue_id=queue_id,
        sys_flag=message.sys_flag & ~SysFlag.TRANSACTION_MASK | SysFlag.TRANSACTION_COMMIT,
        prepared_transaction_offset=prepared_position,
        was_taken=True,
    )


def renewed_message(half: StoredMessage, *, times: int) -> NewMessage:
    """Make the copy that stands for a half message once it was checked ``times`` times."""
    properties = set_property(half.properties_data, _CHECK_TIMES, b"%d" % times)
    properties = set_property(properties, _ORIGIN, b"%d" % origin_of(half))
    return stored_again(half, SystemTopic.TRANSACTION_HALF, QUEUE_ID, properties=properties)


def resumed_message(discarded: StoredMessage) -> NewMessage:
    """Make the half message of a discarded one that is to be checked again from the first time."""
    properties = set_property(discarded.properties_data, _CHECK_TIMES, b"0")
    properties = remove_property(properties, _ORIGIN)
    return stored_again(discarded, SystemTopic.TRANSACTION_HALF, QUEUE_ID, properties=properties)


def discarded_message(half: StoredMessage) -> NewMessage:
    """Make the message that keeps a discarded half message, which is no longer checked."""
    topic = SystemTopic.TRANSACTION_CHECK_MAX_TIME
    return stored_again(half, topic, QUEUE_ID)


def asked_message(half: StoredMessage, target: tuple[str, int]) -> StoredMessage:
    """Return a half message as its producer is shown it: at the place it is for."""
    topic, queue_id = target
    longer = len(topic.encode()) - len(half.topic.encode())
    return replace(half, topic=topic, queue_id=queue_id, size_bytes=half.size_bytes + longer)


def _text_in(properties: bytes, name: str) -> str | None:
    value = get_property(properties, name.encode())
    return None if value is None else value.decode("utf-8", "replace")


def _number(text: str, otherwise: int) -> int:
    try:
        return read_number(text, INT64)
    except ValueError:
        return otherwise
