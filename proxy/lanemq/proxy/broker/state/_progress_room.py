"""The room for offsets of groups: all are in memory, and are written and answered together.

A group that the broker knows commits in every queue that exists, and both may be made by clients,
up to the product of their numbers. So what an address has brought is counted, whatever it is of.
"""

from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import Final, final

from lanemq.storage import OffsetTable
from lanemq.wire import Refused, ResponseCode

from ...net._loop_watch import asking_host
from ...net.limits._quotas import HOST_SHARE, has_share

PLACES_MAX: Final = 4_000_000
"""Places of all offsets, at up to a hundred bytes: see ``OffsetTable.places``. 1,000 groups with
100 topics of 16 queues have 2,400,000 of them, and may all be behind one address."""
SWEEP_S: Final = 10.0
"""Seconds from one look at what an address has brought to the next."""
SWEPT_GROUPS: Final = 10_000
"""Groups that such a look is at, at most."""


@final
class ProgressRoom:
    """The places that clients' addresses have in the table of offsets."""

    def __init__(self, offsets: OffsetTable, now_s: Callable[[], float]) -> None:
        self._offsets = offsets
        self._now_s = now_s
        self._by_host: dict[str, Counter[str]] = {}
        """Address -> group -> places, which may be gone with their group meanwhile."""
        self._held = Counter[str]()
        self._swept_s = float("-inf")

    def require(self) -> None:
        """Raise ``Refused`` (SYSTEM_BUSY) where the address of the client whose request is handled
        has its share. The broker's own work has no bounds."""
        host = asking_host()
        if host is None or self._has_room(host):
            return
        self._sweep(host)
        if not self._has_room(host):
            remark = (
                f"the broker keeps {self._offsets.places} of {PLACES_MAX} places for offsets of "
                f"groups, of which {host} has brought {self._held[host]} since the start: delete "
                "groups that are no longer used, with their offsets"
            )
            raise Refused(ResponseCode.SYSTEM_BUSY, remark)

    def put(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Keep an offset, and count what is new for the client whose request is handled."""
        before = self._offsets.places
        self._offsets.put(group, topic, queue_id, offset)
        grown = self._offsets.places - before
        host = asking_host() if grown else None
        if host is not None:
            self._by_host.setdefault(host, Counter())[group] += grown
            self._held[host] += grown

    def _has_room(self, host: str) -> bool:
        free = PLACES_MAX - self._offsets.places
        return has_share(self._held[host], free, HOST_SHARE)

    def _sweep(self, host: str) -> None:
        """Give back what was deleted of the groups that were longest not looked at."""
        if self._now_s() - self._swept_s < SWEEP_S:
            return
        self._swept_s = self._now_s()
        of_host = self._by_host.get(host, Counter())
        for group in tuple(islice(of_host, SWEPT_GROUPS)):
            brought = of_host.pop(group)
            there = min(brought, self._offsets.places_of(group))
            self._held[host] -= brought - there
            if there:
                of_host[group] = there
