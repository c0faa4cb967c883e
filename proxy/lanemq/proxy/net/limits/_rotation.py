"""Things that are to be done for many peers, some at once and each peer's in rotation."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar, final

import trio

from ._quotas import HOST_SHARE, PeerQuota

Owner = str | None
"""The address of a peer; None for the server itself."""
_T = TypeVar("_T", bound=Hashable)

AT_ONCE: Final = 64
"""Most things that are done at once; one peer gets a fifth."""

WAITING_MAX: Final = 10_000
"""Most things that wait; one peer gets three quarters."""


@final
class Rotation(Generic[_T]):
    """The things by the peers that wait for them, in rotation: each peer's in their order."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[Owner, OrderedDict[_T, None]] = OrderedDict()
        self._begun = PeerQuota[Owner](AT_ONCE)
        self._places = PeerQuota[Owner](WAITING_MAX, share=HOST_SHARE)
        self._changed = trio.Event()

    def has_room(self, owner: Owner) -> bool:
        """Return whether one more of a peer may wait; of the server itself, any number may."""
        return owner is None or self._places.has_room(owner)

    def put(self, owner: Owner, thing: _T) -> None:
        """Put one, which does not wait yet, behind the others of ``owner``."""
        self._places.take(owner)
        self._waiting.setdefault(owner, OrderedDict())[thing] = None
        self._changed.set()

    def next(self) -> tuple[Owner, _T] | None:
        """Return the next that may begin, until ``done`` with its owner; None where none may."""
        for owner, things in self._waiting.items():
            if self._begun.has_room(owner):
                self._begun.take(owner)
                thing = next(iter(things))
                self._waiting.move_to_end(owner)
                self.discard(owner, thing)
                return owner, thing
        return None

    async def take(self) -> tuple[Owner, _T]:
        """Wait for the ``next``."""
        while (found := self.next()) is None:
            self._changed = trio.Event()
            await self._changed.wait()
        return found

    def discard(self, owner: Owner, thing: _T) -> None:
        """Forget one that waits."""
        things = self._waiting[owner]
        del things[thing]
        self._places.give_back(owner)
        if not things:
            del self._waiting[owner]

    def done(self, owner: Owner) -> None:
        """Let the next begin."""
        self._begun.give_back(owner)
        self._changed.set()
