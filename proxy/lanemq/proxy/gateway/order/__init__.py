"""The order of topics' queues that clients see through a proxy: it only grows at its end.

``QueueOrder`` is that of one topic, ``QueueOrders`` has all of them, over a topic of the cluster.
``seen_route`` makes the routes. ``PortQueues`` changes the names of queues in what brokers send,
``AddedRequests`` in what clients ask of added brokers.
"""

from ._added import AddedRequests, Passed, Split, heartbeat_groups, topic_of_body
from ._changes import change_order, position_of, version_of
from ._growth import extended
from ._moved import PARTS_MAX, MovedQueue, Part
from ._order import (
    QueueOrder,
    SeenQueue,
    added_name,
    added_number,
    sorts_before_added,
)
from ._orders import LOG_PREFIX, NAMESPACE, TOPICS, QueueOrders
from ._port import PortQueues
from ._reasons import unreadable, unserved
from ._requests import (
    BROKER_FIELDS,
    BY_NAME,
    EMPTY,
    FIELDS,
    IDS,
    NO_GROUPS,
    POSITIONS,
    PULLS,
    READS,
    SENDS,
)
from ._route import OWN_PREFIX, PROXIED, may_have_order, queues_told, seen_route, with_gone
from ._tags import broker_of, tag_of

__all__ = [
    "BROKER_FIELDS",
    "BY_NAME",
    "EMPTY",
    "FIELDS",
    "IDS",
    "LOG_PREFIX",
    "NAMESPACE",
    "NO_GROUPS",
    "OWN_PREFIX",
    "PARTS_MAX",
    "POSITIONS",
    "PROXIED",
    "PULLS",
    "READS",
    "SENDS",
    "TOPICS",
    "AddedRequests",
    "MovedQueue",
    "Part",
    "Passed",
    "PortQueues",
    "QueueOrder",
    "QueueOrders",
    "SeenQueue",
    "Split",
    "added_name",
    "added_number",
    "broker_of",
    "change_order",
    "extended",
    "heartbeat_groups",
    "may_have_order",
    "position_of",
    "queues_told",
    "seen_route",
    "sorts_before_added",
    "tag_of",
    "topic_of_body",
    "unreadable",
    "unserved",
    "version_of",
    "with_gone",
]
