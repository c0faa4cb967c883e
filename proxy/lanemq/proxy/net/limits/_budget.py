"""The memory budget of a process for its peers: beyond it, the largest peer is disconnected.

Every connection has an account. The memory kept for it is charged there: the frames that it has
not finished, the requests that wait, the answers that it has not taken, its rows in the tables
of clients. All accounts share one limit. Beyond it, the connection that uses the most is
closed, and the next, until the rest fits: a peer can lose its own connection, but harm no others.

Pure: it knows no sockets, and what it closes is told by a callback.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

from ._descriptors import peers_max

SHARE_OF_MEMORY: Final = 8
DEFAULT_MAX_BYTES: Final = 256 << 20
DEFAULT_MIN_BYTES: Final = 64 << 20
PEER_MEMORY_MOST: Final = 1 << 50
LIMIT_MIN_BYTES: Final = 32 << 20
"""The least limit: below it a single peer with the longest frame would be disconnected."""


def default_limit_bytes() -> int:
    """Return an eighth of the machine's memory, but from 64 to 256 MiB."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(max(memory_bytes // SHARE_OF_MEMORY, DEFAULT_MIN_BYTES), DEFAULT_MAX_BYTES)


def limit_bytes_of(peer_memory_max: int) -> int:
    """Return the limit that a setting stands for: 0 for the default, and too little for the
    least."""
    return max(peer_memory_max, LIMIT_MIN_BYTES) if peer_memory_max else default_limit_bytes()


@final
@dataclass(eq=False, repr=False, slots=True)
class Account:
    """The bytes kept for one peer; made by ``Budget.open``."""

    _budget: "Budget"
    relieve: Callable[[], None]
    kept_bytes: int = 0
    is_open: bool = True

    def add(self, size_bytes: int) -> None:
        """Charge more bytes, or fewer; it may close a peer, perhaps this one."""
        self.kept_bytes += size_bytes
        if self.is_open:
            budget = self._budget
            budget.used_bytes += size_bytes
            if budget.used_bytes > budget.limit_bytes:
                budget.relieve()

    def admits(self, size_bytes: int) -> bool:
        """Return whether to take a request that waits; otherwise the peer is told that the server
        is busy.

        No where so many bytes more come near the limit, and this peer would be the first to go.
        """
        return self._budget.admits(self, size_bytes)

    def close(self) -> None:
        """Free everything; later charges do not count any more."""
        if self.is_open:
            self.is_open = False
            self._budget.closed(self)


@final
class Budget:
    """The accounts of a process, and their common limit."""

    def __init__(self, limit_bytes: int | None = None, *, accounts_max: int | None = None) -> None:
        """Set the limit; ``limit_bytes`` None stands for ``default_limit_bytes()``.

        ``accounts_max`` is how many peers there may be; by default what descriptors allow.
        """
        self.accounts_max = peers_max() if accounts_max is None else accounts_max
        self.limit_bytes = default_limit_bytes() if limit_bytes is None else limit_bytes
        self.used_bytes = 0
        self._accounts: set[Account] = set()

    @property
    def peers(self) -> int:
        """The number of open accounts."""
        return len(self._accounts)

    @property
    def is_full(self) -> bool:
        """True if there are as many peers as the limit allows."""
        return len(self._accounts) >= self.accounts_max

    def open(self, relieve: Callable[[], None]) -> Account:
        """Open an account; ``relieve`` must ``close`` it, and free what is charged to it."""
        account = Account(self, relieve)
        self._accounts.add(account)
        return account

    def closed(self, account: Account) -> None:
        """Forget an account; ``Account.close`` calls it."""
        self._accounts.discard(account)
        self.used_bytes -= account.kept_bytes

    def admits(self, account: Account, size_bytes: int) -> bool:
        """Return whether to take a request that waits; see ``Account.admits``."""
        if self.used_bytes + size_bytes <= self.limit_bytes // 8 * 7:
            return True
        return account.kept_bytes + size_bytes < self._largest().kept_bytes

    def relieve(self) -> None:
        """Close the largest accounts, until the rest is within the limit."""
        while self.used_bytes > self.limit_bytes and self._accounts:
            largest = self._largest()
            largest.relieve()
            assert not largest.is_open

    def _largest(self) -> Account:
        return max(self._accounts, key=lambda account: account.kept_bytes)
