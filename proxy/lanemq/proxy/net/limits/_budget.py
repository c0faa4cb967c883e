"""The memory budget of a process for its peers: beyond it, the largest peer is disconnected.

Every connection has an account. The memory kept for it is charged there: the frames that it has
not finished, the requests that wait, the answers that it has not taken, its rows in the tables
of clients. All accounts share one limit. Beyond it, the connection that uses the most is
closed, and the next, until the rest fits: a peer can lose its own connection, but harm no others.

Each connection takes a descriptor as well, and so does each that a proxy makes in a client's
name. They have places, of which one address gets three quarters at most, whichever of the
process's ports it comes to.

Pure: it knows no sockets, and what it closes is told by a callback.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, final

from ._descriptors import peers_max
from ._quotas import HOST_SHARE, PeerQuota

SHARE_OF_MEMORY: Final = 8
DEFAULT_MAX_BYTES: Final = 256 << 20
DEFAULT_MIN_BYTES: Final = 64 << 20
PEER_MEMORY_MOST: Final = 1 << 50
SPARE_RANKS: Final = 1000
"""Entries of the ranks, beside two for each account, before all are made again."""
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
    is_peer: bool = True
    """False for what peers have left that are not connected any longer."""

    def add(self, size_bytes: int) -> None:
        """Charge more bytes, or fewer; it may close a peer, perhaps this one."""
        self.kept_bytes += size_bytes
        if self.is_open:
            budget = self._budget
            budget.used_bytes += size_bytes
            if budget.used_bytes > budget.watched_from_bytes:
                budget.changed(self)

    def admits(self, size_bytes: int) -> bool:
        """Return whether to take a request that waits; otherwise the peer is told that the server
        is busy.

        No where so many bytes more come near the limit, and this peer would be the first to go.
        """
        return self._budget.admits(self, size_bytes)

    def close(self) -> None:
        """Free everything; later charges no longer count."""
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
        self.places = PeerQuota[str](self.accounts_max, share=HOST_SHARE)
        """The connections of peers and those made in their names, by address."""
        self.used_bytes = 0
        self.watched_from_bytes = 0
        """The used bytes beyond which each change is told to ``changed``: less than none while the
        accounts are ranked."""
        self._accounts: set[Account] = set()
        self._others = 0  # of them those that are not of peers
        self._ranks: list[tuple[int, int, Account]] | None = None
        """A heap of the accounts by what they keep, negative, while little is left: to look at all
        of them for each request would cost most where everything is short. What is no
        longer true of an account stays in it until it comes to the top."""
        self._numbers = count()
        self.limit_bytes = default_limit_bytes() if limit_bytes is None else limit_bytes

    @property
    def limit_bytes(self) -> int:
        """The bytes that all accounts may keep together."""
        return self._limit_bytes

    @limit_bytes.setter
    def limit_bytes(self, limit_bytes: int) -> None:
        self._limit_bytes, self._tight_bytes = limit_bytes, limit_bytes // 8 * 7
        self._ranks, self.watched_from_bytes = None, self._tight_bytes

    @property
    def peers(self) -> int:
        """The number of open accounts of peers."""
        return len(self._accounts) - self._others

    def open(self, relieve: Callable[[], None], *, is_peer: bool = True) -> Account:
        """Open an account; ``relieve`` must ``close`` it, and free what is charged to it."""
        account = Account(self, relieve, is_peer=is_peer)
        self._others += not is_peer
        self._accounts.add(account)
        if self._ranks is not None:
            self._rank(account, self._ranks)
        return account

    def closed(self, account: Account) -> None:
        """Forget an account; ``Account.close`` calls it."""
        self._accounts.discard(account)
        self._others -= not account.is_peer
        self.used_bytes -= account.kept_bytes
        self._unrank()

    def admits(self, account: Account, size_bytes: int) -> bool:
        """Return whether to take a request that waits; see ``Account.admits``."""
        if self.used_bytes + size_bytes <= self._tight_bytes:
            return True
        largest = self._largest()
        return largest is not None and account.kept_bytes + size_bytes < largest.kept_bytes

    def changed(self, account: Account) -> None:
        """Note the bytes of an account where little is left, and keep the limit."""
        if self._ranks is not None:
            self._rank(account, self._ranks)
        if self.used_bytes > self.limit_bytes:
            self.relieve()
        else:
            self._unrank()

    def relieve(self) -> None:
        """Close the largest accounts, until the rest is within the limit."""
        while self.used_bytes > self.limit_bytes:
            largest = self._largest()
            if largest is None:
                return
            largest.relieve()
            assert not largest.is_open

    def _largest(self) -> Account | None:
        """Return the open account that keeps the most; the accounts are ranked from then on."""
        ranks = self._ranks
        if ranks is None:
            ranks = self._rank_all()
        while ranks:
            kept_bytes, _, account = ranks[0]
            if account.is_open and account.kept_bytes == -kept_bytes:
                return account
            heappop(ranks)
        return None

    def _rank_all(self) -> list[tuple[int, int, Account]]:
        ranks = [(-one.kept_bytes, next(self._numbers), one) for one in self._accounts]
        heapify(ranks)
        self._ranks, self.watched_from_bytes = ranks, -1
        return ranks

    def _rank(self, account: Account, ranks: list[tuple[int, int, Account]]) -> None:
        if len(ranks) > 2 * len(self._accounts) + SPARE_RANKS:
            self._rank_all()
        else:
            heappush(ranks, (-account.kept_bytes, next(self._numbers), account))

    def _unrank(self) -> None:
        """Do without ranks where there is enough left again, and not only for a moment."""
        if self._ranks is not None and self.used_bytes < self.limit_bytes // 4 * 3:
            self._ranks, self.watched_from_bytes = None, self._tight_bytes
