"""The order of topics' queues that clients see through a proxy: it only grows at its end.

``QueueOrder`` is that of one topic, ``QueueOrders`` has all of them, over a topic of the cluster.
``seen_route`` makes the routes. ``PortQueues`` changes the names of queues in what brokers send,
``AddedRequests`` in what clients ask of added brokers.
"""

from ._added import AddedRequests, Passed, Split
from ._order import QueueOrder, SeenQueue, added_name, added_number, extended
from ._orders import LOG_PREFIX, NAMESPACE, QueueOrders
from ._port import PortQueues
from ._requests import READS
from ._route import PROXIED, queues_told, seen_route

__all__ = [
    "LOG_PREFIX",
    "NAMESPACE",
    "PROXIED",
    "READS",
    "AddedRequests",
    "Passed",
    "PortQueues",
    "QueueOrder",
    "QueueOrders",
    "SeenQueue",
    "Split",
    "added_name",
    "added_number",
    "extended",
    "queues_told",
    "seen_route",
]
