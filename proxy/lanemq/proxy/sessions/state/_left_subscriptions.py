"""The memory of subscriptions that members have left to the others of their groups.

They hold until another member names its own, within half a minute. Their bytes are charged to an
account of the address that brought them, not to one of the others, who did not; beyond the limit of
all peers what an address has left is dropped.
"""

from functools import partial
from typing import final

from lanemq.local import get_logger

from ...net._session import Session
from ...net.limits._budget import Account, Budget
from ._clients import ClientRegistry
from ._members import ConsumerGroup

LOGGER = get_logger("lanemq.proxy.clients", by_peers=True)


@final
class LeftSubscriptions:
    """The groups by the addresses that pay for their subscriptions."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._left: dict[str, tuple[Account, dict[str, ConsumerGroup[Session]]]] = {}

    def take(self, session: Session, group: ConsumerGroup[Session]) -> None:
        """Charge the address of a member that left for what its group keeps, until ``give_back``
        of the group is called."""
        host = session.peer.host
        if host not in self._left:
            account = self._budget.open(partial(self._relieve, host), is_peer=False)
            self._left[host] = account, {}
        account, groups = self._left[host]
        groups[group.name] = group
        group.give_back = partial(self._give_back, host, group)
        account.add(group.charged_bytes)

    def _give_back(self, host: str, group: ConsumerGroup[Session]) -> None:
        account, groups = self._left[host]
        del groups[group.name]
        account.add(-group.charged_bytes)
        if not groups:
            del self._left[host]
            account.close()

    def _relieve(self, host: str) -> None:
        LOGGER.warning("memory is short: subscriptions that %s left were dropped", host)
        account, groups = self._left.pop(host)
        account.close()
        for group in groups.values():
            group.drop_subscriptions()


def client_registry(budget: Budget) -> ClientRegistry[Session]:
    """Return a registry whose clients, and what they leave, are charged to a budget."""
    left = LeftSubscriptions(budget)
    return ClientRegistry(lambda session, size: session.account.add(size), left.take)
