"""Names and numbers by which clients, brokers and name servers speak of logical queues.

Source: RocketMQ 5.0.0-PREVIEW, MixAll, MessageConst, MessageSysFlag, MQClientAPIImpl.
"""

from typing import Final, NamedTuple

from .._names import PROGRESS_PREFIX

LOGICAL_QUEUE_BROKER: Final = "__logical_queue_broker__"
"""The broker that a client sees its logical queues at; the queue id is the logical index."""

LOGICAL_BROKERS_MEMBER: Final = "lanemqLogicalBrokers"
"""Member of a route with logical queues, and of a broker's table of topics: the number of brokers
at which older clients see them."""

LOGICAL_QUEUE_FLAG: Final = 64
"""Bit of ``sysFlag``: in a route query "with logical queues", in a send "I follow redirects".

The number is ``NEED_UNWRAP`` in later versions: the bit belongs to the request and is never
stored with the message.
"""

READER_FIELD: Final = "logicalQueue"
"""Ext field with the value ``true``. Of a pull: its sender reads segment by segment and follows
redirects. Of a commit: its sender reads so, and knows what its queue went past. Of a heartbeat:
its sender names logical queues by their index. Clients of 5.0.0-PREVIEW do not say it; their pulls
and commits are known by their version, and they by the port that they come to."""

SEGMENT_FIELD: Final = "lanemqSegment"
"""Ext field of a send or a pull: the segment that its sender takes the queue for
(``Segment.meant``).

The queue id alone does not tell: a sender with an old view may mean a segment that was sealed
long ago, on a message queue that is part of another logical queue by now. Or it may mean one that
a migration was to open, which was called off, at a place where the queue has other messages by now.
Only lanemq's own clients and servers say it. Where it is another one, they are sent on instead of
writing where nobody looks for the message, or taking it for one at another offset. A reader is
given nothing of another segment than the one it names.
"""

READ_FIELD: Final = "lanemqRead"
"""Ext field of a commit of a reader that knows segments: the one it read last (``Reached.meant``).

Its view of the queue may be older than that of the server that keeps the commit: where the queue
went past that segment by then, the commit counts up to the place where it did. Only lanemq's own
clients say it.
"""

REDIRECT_FIELD: Final = "REDIRECT"
"""Ext field of an answer: ask the segment in the body instead. Its presence counts."""

REDIRECT_VALUE: Final = "1"

FORWARD_QUEUE_ID_FIELD: Final = "PROPERTY_FORWARD_QUEUE_ID"
"""Ext field of an answer to a forwarded send: the queue that the message really went to."""

LOGICAL_QUEUES_MEMBER: Final = "logicalQueuesInfo"
"""Member of a route: the logical queues, chains in order."""

LOGICAL_QUEUES_UNORDERED_MEMBER: Final = "logicalQueuesInfoUnordered"
"""Member of a route as name servers of 5.0.0-PREVIEW write it."""

LOGICAL_QUEUES_MAP_MEMBER: Final = "logicalQueuesInfoMap"
"""Member of the topic tables that are registered, handed out and kept: topic -> logical queues."""

HOPS_FIELD: Final = "lanemqHops"
"""Ext field of a forwarded send or commit: the number of hops."""

BORN_HOST_FIELD: Final = "lanemqBornHost"
"""Ext field of a forwarded send: the address of its sender, packed, in hex digits."""

ORIGIN_ID_FIELD: Final = "lanemqOriginId"
"""Ext field of a send-back from a logical listener: the offset id that the consumer knows."""

ACCOUNT_FIELD: Final = "lanemqAccount"
"""Ext field of a request for locks from a logical listener: the account of the client, if it may
not do everything. In a broker's answer about a lock that it lent: the account that has the lock."""

SERVERS_FIELDS: Final = frozenset({HOPS_FIELD, BORN_HOST_FIELD, ORIGIN_ID_FIELD, ACCOUNT_FIELD})
"""Ext fields by which servers speak for their clients; no client has a use for them."""

LOCK_FIELD: Final = "lanemqLock"
"""Ext field of a request to lock or unlock queues (41, 42): they are logical queues, by index.

The broker that a queue ends on lends its lock. Only lanemq's servers say it.
"""

MOVED_FIELD: Final = "lanemqMoved"
"""Ext field of the answer to that: a queue does not end at this broker, or no longer."""

KEPT_FIELD: Final = "lanemqKept"
"""Ext field of an answer with an offset (14): a group has committed it, even where it is 0.

Brokers that do not say it answer 0 for "none" too, whatever they are asked for.
"""


def progress_topic(topic: str, delta: int) -> str:
    """Return the name under which a broker keeps groups' progress in logical queues that end on it.

    No topic can have it (``lanemq.wire.has_only_offsets``). ``delta`` is the first logical offset
    of the queue's last segment: so who looks from the last segment back finds the latest offset
    first. A migration carries what its source has to its destination. The offsets are logical, the
    queue id is the index.
    """
    return f"{PROGRESS_PREFIX}{delta}%{topic}"


class ProgressTopic(NamedTuple):
    """The parts of a ``progress_topic``."""

    topic: str
    delta: int


def parse_progress_topic(name: str) -> ProgressTopic | None:
    """Take a ``progress_topic`` apart; None for any other name."""
    if not name.startswith(PROGRESS_PREFIX):
        return None
    delta, separator, topic = name.removeprefix(PROGRESS_PREFIX).partition("%")
    if not separator or not topic or not delta.isascii() or not delta.isdigit():
        return None
    return ProgressTopic(topic, int(delta)) if len(delta) < 20 else None


def logical_broker(number: int) -> str:
    """Return the name of a broker at which older clients see logical queues; the first has number
    0."""
    return f"{LOGICAL_QUEUE_BROKER}{number or ''}"


def logical_broker_number(name: str) -> int | None:
    """Return the number of the logical broker of that name; None for any other name."""
    digits = name.removeprefix(LOGICAL_QUEUE_BROKER)
    if digits == name:
        return None
    if not digits:
        return 0
    is_number = digits.isascii() and digits.isdigit() and digits[0] != "0" and len(digits) < 10
    return int(digits) if is_number else None


def place_of(index: int, brokers: int) -> tuple[int, int]:
    """Return the number of the broker and the queue id by which older clients know a logical queue.

    ``brokers`` is how many the topic has. ``index_of`` is the way back.
    """
    return index % brokers, index // brokers


def index_of(number: int, queue_id: int, brokers: int) -> int:
    """Return the logical index of a queue of broker ``number``."""
    return queue_id * brokers + number
