"""The memory and the places of locks: of the connections that took them, and of their addresses.

A lock outlives its connection by a minute, as consumers come back. What it takes is charged to an
account of its address then; beyond the limit of all peers the locks that an address has left are
void.
"""

from collections import defaultdict
from collections.abc import Hashable
from typing import Final, final

from lanemq.local import get_logger

from ...net._session import Session
from ...net.limits._budget import Account, Budget
from ...net.limits._quotas import HOST_SHARE, PeerQuota

LOGGER = get_logger("lanemq.proxy.locks", by_peers=True)
LOCKS_MAX: Final = 200_000
"""Most locks of a broker."""


@final
class LockCharges:
    """The bytes and places of owners of locks; only sessions have an address, and pay."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._places = PeerQuota[Hashable](LOCKS_MAX)
        self._at_address = PeerQuota[str](LOCKS_MAX, share=HOST_SHARE)
        self._bytes: dict[Session, int] = {}
        # By address: the account of what connections have left, and these.
        self._accounts: dict[str, Account] = {}
        self._left: defaultdict[str, set[Session]] = defaultdict(set)
        self._void: set[Hashable] = set()

    def __len__(self) -> int:
        return len(self._places)

    def held_by(self, owner: Hashable) -> int:
        """Return the number of locks of an owner."""
        return self._places.held_by(owner)

    def room(self, owner: Hashable) -> int:
        """Return how many more places there are for an owner, and for its address."""
        room = self._places.room(owner)
        if isinstance(owner, Session):
            room = min(room, self._at_address.room(owner.peer.host))
        return room

    def is_void(self, owner: Hashable) -> bool:
        """Return whether the locks of an owner have ended, as memory was short."""
        return owner in self._void

    def take(self, owner: Hashable, size_bytes: int, locks: int = 1) -> None:
        """Charge locks to their owner."""
        self._places.take(owner, locks)
        if isinstance(owner, Session):
            self._at_address.take(owner.peer.host, locks)
            if owner not in self._bytes:
                owner.on_close.append(self._closed)
            self._add(owner, size_bytes)

    def give_back(self, owner: Hashable, size_bytes: int) -> None:
        """Free what a lock took."""
        self._places.give_back(owner)
        if isinstance(owner, Session):
            self._at_address.give_back(owner.peer.host)
            self._add(owner, -size_bytes)
        if not self._places.held_by(owner):
            self._void.discard(owner)

    def _add(self, owner: Session, size_bytes: int) -> None:
        self._bytes[owner] = self._bytes.get(owner, 0) + size_bytes
        if not owner.closed:
            owner.account.add(size_bytes)
            return
        host = owner.peer.host
        if owner in self._left.get(host, ()):
            self._accounts[host].add(size_bytes)
        if not self._bytes[owner]:
            del self._bytes[owner]
            self._forget(host, owner)

    def _forget(self, host: str, owner: Session) -> None:
        left = self._left[host]
        left.discard(owner)
        if not left:
            del self._left[host]
            account = self._accounts.pop(host, None)
            if account is not None:
                account.close()

    def _closed(self, owner: Session) -> None:
        """Charge what a connection leaves to its address."""
        size_bytes, host = self._bytes[owner], owner.peer.host
        if not size_bytes:
            del self._bytes[owner]
            return
        self._left[host].add(owner)
        if host not in self._accounts:
            self._accounts[host] = self._budget.open(lambda: self._relieve(host), is_peer=False)
        self._accounts[host].add(size_bytes)

    def _relieve(self, host: str) -> None:
        """End the locks that connections of an address have left; they are forgotten soon."""
        LOGGER.warning("memory is short: the locks that %s left have ended", host)
        self._accounts.pop(host).close()
        self._void |= self._left.pop(host)
