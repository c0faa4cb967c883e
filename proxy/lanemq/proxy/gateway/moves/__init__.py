"""Queues that move from one broker of the cluster to another while clients go on.

``MovingQueues`` knows which do, and holds the lease of this proxy. ``MovedRequests`` takes clients'
requests for them at a port, ``MoveRequests`` those that move a queue, ``LeftBehind`` sends again
what a broker stores behind a queue's end.
"""

from ._context import MoveContext
from ._drain_requests import DrainRequests
from ._lease import leases_in
from ._left import LeftBehind
from ._locks import LOCKS, LocksOf
from ._messages import Onward
from ._port import MovedRequests
from ._queues import MovingQueues
from ._requests import MoveRequests
from ._returns import Returns
from ._ways import Link, Receive, Way

__all__ = [
    "LOCKS",
    "DrainRequests",
    "LeftBehind",
    "Link",
    "LocksOf",
    "MoveContext",
    "MoveRequests",
    "MovedRequests",
    "MovingQueues",
    "Onward",
    "Receive",
    "Returns",
    "Way",
    "leases_in",
]
