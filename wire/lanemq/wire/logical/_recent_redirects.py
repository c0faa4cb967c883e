"""Redirects that name servers may not have heard of yet: a view of theirs does not take them back.

Name servers hear of a migration from the brokers' reports, and a client from the first broker that
it asks. A view that is asked for in between shows the earlier end still, and who went by it would
commit there, where an offset counts only up to the end of the segment.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final, final

from ._bodies import Redirect
from ._queues import LogicalQueues

REPORTED_S: Final = 10.0
"""Seconds until name servers have heard of a migration, which brokers report at once; after that
their views count alone. A topic that is deleted and made anew has segments of the same identity."""
KEPT_MAX: Final = 8
"""Most redirects of one logical queue that are kept; beyond it the oldest are forgotten."""


@final
class RecentRedirects:
    """The recent redirects of one topic. Times are seconds of a clock that does not go back."""

    def __init__(self) -> None:
        self._noted: dict[int, deque[tuple[float, Redirect]]] = {}

    def note(self, redirect: Redirect, now_s: float) -> None:
        """Keep a redirect from the end of a segment to the one that begins there.

        Others are left out: there may be more between the two, which only name servers show. So
        are those from a segment that never had a message, for the queue may come back to it, and
        to a destination that is not open: the source opens again if the migration is called off.
        """
        ended, following = redirect.current, redirect.following
        index = ended.logical_index
        is_beside = ended.end_offset == following.delta and following.logical_index == index
        if is_beside and following.is_readable and not ended.is_empty:
            noted = self._noted.setdefault(index, deque(maxlen=KEPT_MAX))
            noted.append((now_s, redirect))

    def unheard(self, view: LogicalQueues, now_s: float) -> Iterator[Redirect]:
        """Iterate over the redirects that came before their migrations were in ``view``, in order.

        It shows a segment open that has ended. One that ended with messages stays so: if the queue
        comes back, that is another one.
        """
        for index, noted in list(self._noted.items()):
            while noted and now_s - noted[0][0] >= REPORTED_S:
                noted.popleft()
            if not noted:
                del self._noted[index]
            chain = view.get(index)
            for _, redirect in noted:
                ended = None if chain is None else chain.find(redirect.current.key)
                if chain is not None and ended is not None and not ended.is_sealed:
                    chain = chain.put(redirect.current, redirect.following)
                    yield redirect
