"""Entries that wait, of all peers, of which nobody's go because another has brought too many."""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar, final

from ._quotas import HOST_SHARE, PeerQuota

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")
Owner = str | None
"""The address of a peer; None for the server itself."""


@final
class OwnedEntries(Generic[KeyT, ValueT]):
    """Key -> value, in the order of the keys, with the address whose request brought each key.

    Whoever is beyond its share of ``most`` loses its own oldest entry to a new one of its own. Pure
    but for ``owner_of_request``, which tells whose request is handled.
    """

    __slots__ = ("_keys", "_of_request", "_owners", "_quota", "_values")

    def __init__(self, most: int, owner_of_request: Callable[[], Owner]) -> None:
        self._of_request = owner_of_request
        self._quota = PeerQuota[Owner](most, share=HOST_SHARE)
        self._values: dict[KeyT, ValueT] = {}
        self._owners: dict[KeyT, Owner] = {}
        self._keys: dict[Owner, dict[KeyT, None]] = {}

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[KeyT]:
        return iter(self._values)

    def __contains__(self, key: KeyT) -> bool:
        return key in self._values

    def get(self, key: KeyT) -> ValueT | None:
        """Return the value of a key; None for none."""
        return self._values.get(key)

    def put(
        self, key: KeyT, value: ValueT, *, spares: Callable[[KeyT], bool] = lambda key: False
    ) -> None:
        """Keep a value. A key that is there stays its owner's, in its place; for a new one beyond
        the share the oldest goes that ``spares`` does not spare; if it spares all, none does."""
        if key not in self._values:
            owner = self._of_request()
            if not self._quota.has_room(owner):
                # One who has nothing in a full table takes a place of whoever has the most.
                loser = owner if owner in self._keys else max(self._keys, key=self._quota.held_by)
                keys = self._keys[loser]
                for one in keys:
                    if not spares(one):
                        self.pop(one)
                        break
            self._quota.take(owner)
            self._owners[key] = owner
            self._keys.setdefault(owner, {})[key] = None
        self._values[key] = value

    def pop(self, key: KeyT) -> ValueT | None:
        """Remove a key; return its value, None where it is not there."""
        if key not in self._values:
            return None
        owner = self._owners.pop(key)
        self._quota.give_back(owner)
        keys = self._keys[owner]
        del keys[key]
        if not keys:
            del self._keys[owner]
        return self._values.pop(key)
