"""Changes of a topic's order by compare-and-set, for queues that move."""

from collections.abc import Iterable

from lanemq.wire import RemoteProtocolError

from ._order import BEHIND_MAX, QueueOrder
from ._orders import TOPICS, QueueOrders


def version_of(orders: QueueOrders, topic: str) -> int:
    """Return the version of a topic's order; 0 without one."""
    entry = orders.keys.get(TOPICS + topic.encode())
    return 0 if entry is None else entry.version


def position_of(orders: QueueOrders, topic: str) -> int:
    """Return the number of the log's records up to the latest change of a topic's order; 0 without
    one."""
    return orders.keys.position_of(TOPICS + topic.encode())


async def change_order(
    orders: QueueOrders,
    topic: str,
    before: QueueOrder | None,
    after: QueueOrder,
    *,
    behind: Iterable[str] = (),
    version: int | None = None,
) -> bool:
    """Put another order in place of one, or of none; returns False where that is another one
    meanwhile.

    ``behind`` are brokers whose positions get tags from now on. With a ``version`` the order
    has to be the very one of ``version_of``, and not an equal one of later.

    Raises ``KeysUnavailable``, ``TooLong``, ``RemoteProtocolError``, that one also for an order
    that nobody could read, and for more than ``BEHIND_MAX`` brokers whose positions get tags.
    """
    encoded = after.encode()
    QueueOrder.decode(encoded)
    name = TOPICS + topic.encode()
    entry = orders.keys.get(name)
    found = 0 if entry is None else entry.version
    is_other = (entry is None) is not (before is None) or orders.of(topic) != before
    if is_other or version not in {None, found}:
        return False
    more = [one for one in behind if one not in orders.behind]
    if len(orders.behind) + len(more) > BEHIND_MAX:
        raise RemoteProtocolError(f"{BEHIND_MAX} brokers have added or moved queues already")
    if more and not await orders.add_behind((*orders.behind, *more)):
        return False
    return await orders.keys.put(name, encoded, expected=found) is not None
