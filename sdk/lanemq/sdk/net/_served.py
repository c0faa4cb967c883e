"""The requests that a server sends over one connection, which cost the client no more than a share.

A server asks as often as it likes. What bounds it: the requests of a turn of the event loop, those
under way at once, the answers that it has not taken, and the lines of the log.
"""

from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Final, final

import trio

from lanemq.wire.frame import Frame

from ..observe._log import get_logger
from ._outbox import HIGH_BYTES, Outbox

LOGGER = get_logger("lanemq.sdk.remoting.requests", by_peers=True)

SERVED_MAX: Final = 64
"""Requests under way at once on one connection; past it they are refused."""
TURN_REQUESTS: Final = 16
TURN_S: Final = 0.002
"""Requests of one connection that are served in a turn of the event loop, and seconds after which
no further one is."""


@final
class ServedRequests:
    """The requests of the server at ``address``; ``outbox`` has the answers on their way to it."""

    def __init__(
        self,
        address: str,
        serve: Callable[[Frame], Awaitable[None] | None],
        answer: Callable[[Frame], None],
        outbox: Outbox,
    ) -> None:
        """``serve`` handles a request; an awaitable that it returns runs in a task."""
        self._address = address
        self._serve, self._answer = serve, answer
        self._outbox = outbox
        self._under_way = 0
        self._turn_requests, self._turn_s = 0, 0.0

    def take(self, frame: Frame, nursery: trio.Nursery) -> bool:
        """Serve a request, refuse it, or drop it; return whether others are to run before the next.

        While the server takes none of its answers, what would add to them is dropped: refusals are
        answers, too. Reading goes on, for what it sends may be what it waits to get rid of.
        """
        begun_s = perf_counter()
        self._take(frame, nursery)
        self._turn_requests += 1
        self._turn_s += perf_counter() - begun_s
        if self._turn_requests < TURN_REQUESTS and self._turn_s < TURN_S:
            return False
        self._turn_requests, self._turn_s = 0, 0.0
        return True

    def _take(self, frame: Frame, nursery: trio.Nursery) -> None:
        address, is_oneway = self._address, frame.is_oneway
        if not is_oneway and self._outbox.answer_bytes > HIGH_BYTES:
            LOGGER.warning("%s: it takes no answers, request %d dropped", address, frame.code)
        elif self._under_way >= SERVED_MAX:
            LOGGER.warning("%s: too many requests at once, %d dropped", address, frame.code)
            if not is_oneway:
                self._answer(frame.reply(2, remark="[OVERLOAD]too many requests to this client"))
        elif (work := self._serve(frame)) is not None:
            self._under_way += 1
            nursery.start_soon(self._finish, work)

    async def _finish(self, work: Awaitable[None]) -> None:
        try:
            await work
        finally:
            self._under_way -= 1
