"""Places that all peers share, of which one peer gets a part only."""

from collections import Counter
from collections.abc import Hashable
from typing import Final, Generic, TypeVar, final

OWNER_SHARE: Final = 4
"""An owner gets a place if so many times the places it has are still free: a fifth of all at most,
and others always find some."""

HOST_SHARE: Final = 1 / 3
"""Such a factor for an address: three quarters of all are the most, so that a machine with a fault
leaves some to others."""

OwnerT = TypeVar("OwnerT", bound=Hashable)


def has_share(held: int, free: int, share: float = OWNER_SHARE) -> bool:
    """Return whether an owner that has ``held`` places gets one of the ``free`` ones."""
    return free > 0 and held * share <= free


@final
class PeerQuota(Generic[OwnerT]):
    """The places of one table, counted by their owners, mostly connections. Pure.

    The caller gives back what it has taken, at the end of an owner at the latest.
    """

    __slots__ = ("_held", "_share", "_taken", "most")

    def __init__(self, most: int, *, share: float = OWNER_SHARE) -> None:
        self.most = most
        self._share = share
        self._taken = 0
        self._held = Counter[OwnerT]()

    def __len__(self) -> int:
        return self._taken

    def held_by(self, owner: OwnerT) -> int:
        """Return the number of places that an owner has."""
        return self._held.get(owner, 0)

    def has_room(self, owner: OwnerT) -> bool:
        """Return whether there is one more place for an owner."""
        return has_share(self.held_by(owner), self.most - self._taken, self._share)

    def room(self, owner: OwnerT) -> int:
        """Return how many more places there are for an owner, one after the other."""
        held, free = self.held_by(owner), self.most - self._taken
        places = max(0, int((free - held * self._share) / (1 + self._share)))
        while places and not has_share(held + places - 1, free - places + 1, self._share):
            places -= 1  # shares are fractions, and not exact
        while has_share(held + places, free - places, self._share):
            places += 1
        return places

    def take(self, owner: OwnerT, places: int = 1) -> None:
        """Take places, whether or not there is room."""
        self._held[owner] += places
        self._taken += places

    def give_back(self, owner: OwnerT) -> None:
        """Give back a place of an owner."""
        self._taken -= 1
        self._held[owner] -= 1
        if not self._held[owner]:
            del self._held[owner]
