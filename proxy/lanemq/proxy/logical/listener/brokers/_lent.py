"""The locks that clients of a listener have at other brokers, to which all of them are one peer."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, final

from lanemq.wire.bodies import MessageQueue

from ....net.limits._quotas import HOST_SHARE, PeerQuota
from ....sessions.state._locks import LOCK_LIFE_S

LENT_MAX: Final = 40_000
"""Locks of queues that a broker has for one peer."""

Lock = tuple[str, MessageQueue]
"""A group and a queue."""


@final
class LentLocks:
    """The locks, each with the address of the client that asked for it. Pure; ``now_s`` never goes
    back."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._quota = PeerQuota[str](LENT_MAX, share=HOST_SHARE)
        self._until_s: OrderedDict[Lock, tuple[float, str]] = OrderedDict()
        """The time at which each expires, and whose it is; the next to expire first."""

    def __len__(self) -> int:
        return len(self._until_s)

    def take(self, group: str, queue: MessageQueue, host: str) -> bool:
        """Note that a lock is asked for, or asked for again; return whether there is room."""
        now_s, key = self._now_s(), (group, queue)
        while self._until_s and next(iter(self._until_s.values()))[0] <= now_s:
            _, (_, owner) = self._until_s.popitem(last=False)
            self._quota.give_back(owner)
        before = self._until_s.get(key)
        if before is not None:
            self._quota.give_back(before[1])
        is_renewed = before is not None and before[1] == host
        if not is_renewed and not self._quota.has_room(host):
            if before is not None:  # the other one may have the lock still
                self._quota.take(before[1])
            return False
        self._quota.take(host)
        self._until_s[key] = now_s + LOCK_LIFE_S, host
        self._until_s.move_to_end(key)
        return True

    def give_back(self, group: str, queues: Iterable[MessageQueue], host: str) -> None:
        """Note that a client at ``host`` gives locks back; those of other addresses stay."""
        for queue in queues:
            _, owner = self._until_s.get((group, queue), (0.0, None))
            if owner == host:
                del self._until_s[group, queue]
                self._quota.give_back(host)
