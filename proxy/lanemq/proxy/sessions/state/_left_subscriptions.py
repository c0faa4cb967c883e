"""The memory of subscriptions that members have left to the others of their groups.

They hold until another member names its own, within half a minute. Their bytes are charged to an
account of the address that brought them, not to one of the others, who did not; beyond the limit of
all peers what an address has left is dropped.
"""

from collections.abc import Mapping
from functools import partial
from typing import final

from lanemq.local import get_logger

from ...net._session import Session
from ...net.limits._budget import Account, Budget
from ._clients import ClientRegistry
from ._members import ConsumerGroup

LOGGER = get_logger("lanemq.proxy.clients", by_peers=True)

_Group = ConsumerGroup[Session]


@final
class LeftSubscriptions:
    """The topics of groups by the addresses that pay for their subscriptions."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._left: dict[str, tuple[Account, dict[tuple[str, str], _Group]]] = {}

    def take(self, session: Session, group: _Group, paid: Mapping[str, int]) -> None:
        """Charge the address of a member that left for what its group keeps of it, the bytes by
        topic, until what is in ``left`` of the group is called."""
        host = session.peer.host
        if host not in self._left:
            account = self._budget.open(partial(self._relieve, host), is_peer=False)
            self._left[host] = account, {}
        account, topics = self._left[host]
        for topic, size_bytes in paid.items():
            topics[group.name, topic] = group
            group.left[topic] = partial(self._give_back, host, (group.name, topic), size_bytes)
        account.add(sum(paid.values()))

    def _give_back(self, host: str, key: tuple[str, str], size_bytes: int) -> None:
        account, topics = self._left[host]
        del topics[key]
        account.add(-size_bytes)
        if not topics:
            del self._left[host]
            account.close()

    def _relieve(self, host: str) -> None:
        LOGGER.warning("memory is short: subscriptions that %s left were dropped", host)
        account, topics = self._left.pop(host)
        account.close()
        for (_, topic), group in topics.items():
            group.drop_subscriptions([topic])


def client_registry(budget: Budget) -> ClientRegistry[Session]:
    """Return a registry whose clients, and what they leave, are charged to a budget."""
    left = LeftSubscriptions(budget)
    return ClientRegistry(lambda session, size: session.account.add(size), left.take)
