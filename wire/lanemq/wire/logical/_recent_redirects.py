"""Redirects that name servers may not have heard of yet: a view of theirs does not take them back.

Name servers hear of a migration from the brokers' reports, and a client from the first broker that
it asks. A view that is asked for in between shows the earlier end still, open, or sealed with
nothing behind it, and who went by it would commit there, where an offset counts only up to the end
of the segment.
"""

from typing import Final, final

from ._bodies import Redirect
from ._chain import Chain
from ._queues import LogicalQueues
from ._segment import SegmentKey

REPORTED_S: Final = 10.0
"""Seconds until name servers know of a migration, which brokers report at once; after that their
views count alone. A topic that is deleted and made again has segments of the same identity."""
KEPT_MAX: Final = 8
"""Most migrations of one logical queue that are kept; beyond it the oldest are forgotten."""


@final
class RecentRedirects:
    """The recent redirects of one topic. Times are seconds of a clock that does not go back."""

    def __init__(self) -> None:
        self._noted: dict[int, dict[SegmentKey, tuple[float, Redirect]]] = {}

    def __bool__(self) -> bool:
        return bool(self._noted)

    def note(self, redirect: Redirect, now_s: float) -> None:
        """Keep a redirect from the end of a segment to the one that begins there.

        Others are left out: there may be more between the two, which only name servers show. So
        are those from a segment that never had a message, for the queue may come back to it, and
        to a destination that is not open: the source opens again if the migration is called off.
        Of the same redirect the first time counts, however many readers are given it.
        """
        ended, following = redirect.current, redirect.following
        index = ended.logical_index
        is_beside = ended.end_offset == following.delta and following.logical_index == index
        if not is_beside or not following.is_readable or ended.is_empty:
            return
        self._forget_old(now_s)
        noted = self._noted.setdefault(index, {})
        if ended.key not in noted or noted[ended.key][1] != redirect:
            noted[ended.key] = now_s, redirect
        if len(noted) > KEPT_MAX:
            del noted[next(iter(noted))]

    def unheard(self, view: LogicalQueues, now_s: float) -> list[Redirect]:
        """Return the redirects that came before their migrations were in ``view``, in order.

        The view shows their source open, or sealed there and nothing with a place behind it. A
        segment that ended with messages stays ended: if the queue comes back, that is another one.
        What would leave a queue without an open end is left out.
        """
        self._forget_old(now_s)
        found: list[Redirect] = []
        for index, noted in self._noted.items():
            chain, applied, lasting = view.get(index), [], 0
            for redirect in sorted((kept for _, kept in noted.values()), key=_begin):
                if chain is None or (unheard := _unheard_in(chain, redirect)) is None:
                    continue
                chain = chain.put(unheard.current, unheard.following)
                applied.append(unheard)
                if chain.tail is not None:
                    lasting = len(applied)
            found += applied[:lasting]
        return found

    def _forget_old(self, now_s: float) -> None:
        for index, noted in list(self._noted.items()):
            fresh = {key: kept for key, kept in noted.items() if now_s - kept[0] < REPORTED_S}
            if not fresh:
                del self._noted[index]
            elif len(fresh) < len(noted):
                self._noted[index] = fresh


def _unheard_in(chain: Chain, redirect: Redirect) -> Redirect | None:
    """Return the redirect if ``chain`` is from before it, with the source as the chain has it once
    it is sealed there."""
    source, following = chain.find(redirect.current.key), redirect.following
    if source is None:
        return None
    if not source.is_sealed:
        return redirect
    # The report of the source is there, and not that of the destination. What has a place behind
    # the source is newer than the redirect, as where the destination was given up; but for what
    # the queue has passed by on its way, without a message there.
    is_before = source.end_offset == following.delta and all(
        segment.delta < following.delta or (segment.is_empty and segment.key != following.key)
        for segment in chain.placed
    )
    return Redirect(source, following) if is_before else None


def _begin(redirect: Redirect) -> int:
    return redirect.following.delta
