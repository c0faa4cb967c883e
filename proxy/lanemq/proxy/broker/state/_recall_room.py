"""The places of recalls: a second has a bound for all of them, and a share for each address.

While a second is delivered, its recalls are read before its first message, and their digests are in
memory: too many of them hold up the timers of everybody.
"""

import heapq
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, final

from lanemq.wire import Refused, ResponseCode

from ...net._loop_watch import asking_host
from ...net.limits._quotas import HOST_SHARE, PeerQuota

RECALLS_MAX: Final = 400_000
"""Recalls of one second, since the start."""
UNCOUNTED: Final = 1000
"""The first recalls of a second, for which no addresses are kept."""
FORGOTTEN_AT_ONCE: Final = 1000
"""Most numbers of passed seconds that one recall forgets: others are left to the next ones."""
KEPT_MS: Final = 2000
"""Milliseconds after the begin of a second for which its number is kept."""


@final
class RecallRoom:
    """The numbers of recalls by the times of their slots, and of their addresses where they are
    many."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._times: list[int] = []
        """The times that have a number, as a heap."""
        self._by_host: dict[int, PeerQuota[str]] = {}

    def __len__(self) -> int:
        return len(self._counts)

    @contextmanager
    def place(self, out_ms: int, now_ms: int) -> Iterator[None]:
        """Take a place for a recall that is stored within the block.

        Raises ``Refused`` (SYSTEM_BUSY) beyond the share of the client whose request is handled;
        the broker's own work takes no places.
        """
        for _ in range(FORGOTTEN_AT_ONCE):
            if not self._times or self._times[0] + KEPT_MS > now_ms:
                break
            passed_ms = heapq.heappop(self._times)
            del self._counts[passed_ms]
            self._by_host.pop(passed_ms, None)
        host = asking_host()
        if host is None:
            yield
            return
        count = self._counts.get(out_ms, 0)
        is_counted = count >= UNCOUNTED
        if is_counted:
            self._check(out_ms, host)
        yield
        if not count:
            heapq.heappush(self._times, out_ms)
        self._counts[out_ms] = count + 1
        if is_counted:
            self._by_host[out_ms].take(host)

    def _check(self, out_ms: int, host: str) -> None:
        quota = self._by_host.get(out_ms)
        if quota is None:
            most = RECALLS_MAX - UNCOUNTED
            quota = self._by_host[out_ms] = PeerQuota(most, share=HOST_SHARE)
        if not quota.has_room(host):
            remark = (
                f"[OVERLOAD]{quota.held_by(host)} messages of the same second are recalled from "
                f"{host}, its share of the {RECALLS_MAX} that may be, of which "
                f"{self._counts[out_ms]} are: have the others passed over by their consumers, and "
                "let messages be due at different seconds"
            )
            raise Refused(ResponseCode.SYSTEM_BUSY, remark)
