"""Names and numbers by which clients, brokers and name servers speak of logical queues.

Source: RocketMQ 5.0.0-PREVIEW, MixAll, MessageConst, MessageSysFlag, MQClientAPIImpl.
"""

from typing import Final

LOGICAL_QUEUE_BROKER: Final = "__logical_queue_broker__"
"""The broker that a client sees its logical queues at; the queue id is the logical index."""

LOGICAL_QUEUE_FLAG: Final = 64
"""Bit of ``sysFlag``: in a route query "with logical queues", in a send "I follow redirects".

The number is ``NEED_UNWRAP`` in later versions: the bit belongs to the request and is never
stored with the message.
"""

READER_FIELD: Final = "logicalQueue"
"""Ext field of a pull with the value ``true``: its sender reads segment by segment and follows
redirects. Clients of 5.0.0-PREVIEW do not say it, and are known by their version."""

SEGMENT_FIELD: Final = "lanemqSegment"
"""Ext field of a send: the segment that its sender takes the queue for (``Segment.meant``).

The queue id alone does not tell: a sender with an old view may mean a segment that was sealed
long ago, on a message queue that is part of another logical queue by now. Only lanemq's own
clients and servers say it. Where it is another one, they are sent on instead of writing where
nobody looks for the message.
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

PROGRESS_PREFIX: Final = "%LQ%"


def progress_topic(topic: str, delta: int) -> str:
    """The name under which a broker keeps groups' progress in logical queues that end on it.

    No topic can have it. ``delta`` is the first logical offset of the queue's last segment: so
    who looks from the last segment back finds the latest offset first, and nothing has to be
    carried along when the queue moves. The offsets are logical, the queue id is the index.
    """
    return f"{PROGRESS_PREFIX}{delta}%{topic}"
