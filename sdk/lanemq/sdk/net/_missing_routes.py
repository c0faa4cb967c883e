"""Early looks for topics that are wanted and have no route yet.

A topic may show at the name servers a moment after its first message was stored, or the retry
topic of a new group after its first heartbeat.
"""

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, final

import trio

from ._routes import Routes

FIRST_LOOK_S: Final = 1.0


class _Look(NamedTuple):
    at_s: float
    after_s: float
    """Seconds that it is behind the look before."""


@final
class MissingRoutes:
    """Looks for watched topics without a route after 1, 2, 4, ... seconds.

    Where pauses would get longer than ``interval_s``, it leaves them to the refreshes of all
    routes that come as often. ``refresh`` asks for the route of one topic, and does not fail.
    """

    def __init__(
        self, routes: Routes, refresh: Callable[[str], Awaitable[None]], *, interval_s: float
    ) -> None:
        self._routes = routes
        self._refresh = refresh
        self._interval_s = interval_s
        self._looks: dict[str, _Look] = {}
        self._more = trio.Event()
        routes.on_watch(self._begin)

    def _begin(self, topic: str) -> None:
        self._plan(topic, FIRST_LOOK_S)
        self._more.set()

    def _plan(self, topic: str, after_s: float) -> None:
        if after_s < self._interval_s:
            self._looks[topic] = _Look(trio.current_time() + after_s, after_s)

    async def run(self) -> None:
        """Look for routes whenever it is time to."""
        while True:
            times = (look.at_s for look in self._looks.values())
            with trio.move_on_at(min(times, default=float("inf"))):
                await self._more.wait()
            self._more = trio.Event()
            now_s = trio.current_time()
            due = [topic for topic, look in self._looks.items() if look.at_s <= now_s]
            for topic in due:
                await self._look(topic, self._looks.pop(topic).after_s)

    async def _look(self, topic: str, after_s: float) -> None:
        if not self._is_missing(topic):
            return
        await self._refresh(topic)
        if self._is_missing(topic):
            self._plan(topic, 2 * after_s)

    def _is_missing(self, topic: str) -> bool:
        return self._routes.get(topic) is None and self._routes.is_watched(topic)
