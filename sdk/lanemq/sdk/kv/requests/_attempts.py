"""The attempts of a call: its deadline, and the pauses between them."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar, final

import trio

from lanemq.wire import RequestCode

from ..._errors import RequestTimedOut

T = TypeVar("T")
ATTEMPT_S: Final = 3.0
"""Time that name servers, and then a broker, have for one attempt, at first."""
SLOW_BYTES_S: Final = 128 * 1024
"""Bytes of a request for which a broker has a second more: a link may be as slow as that."""

FIRST_PAUSE_S: Final = 0.05
PAUSE_S_MAX: Final = 1.0
REDIRECTS_MAX: Final = 2
"""Redirects in a row that are followed at once: brokers may disagree for a moment."""


@final
class Attempts:
    """The time that a call may take, and its pauses."""

    def __init__(self, until_s: float, later: trio.CancelScope | None = None) -> None:
        self._until_s = until_s
        self._later = later  # gets the deadline when the first attempt has failed
        self.asked = False
        """True once a broker may have got the request."""
        self.error: Exception | None = None
        """The failure of the last attempt."""
        self._pause_s = FIRST_PAUSE_S
        self._attempt_s = ATTEMPT_S
        self._redirects = 0

    def fork(self) -> "Attempts":
        """Return those of a part of the call."""
        part = Attempts(self._until_s)
        part.error = self.error
        return part

    async def turn(self, take: Callable[[], Awaitable[T]]) -> T | None:
        """Return what ``take`` gives when its turn has come; None where the time is over first."""
        with trio.move_on_after(self._left_s()):
            return await take()
        return None

    def _left_s(self) -> float:
        """Return the time left to the call; the first attempt has a whole one all the same."""
        left_s = self._until_s - trio.current_time()
        return max(left_s, 0.0 if self.error is not None else ATTEMPT_S)

    def request_s(self, wait_s: float, size_bytes: int = 0) -> float:
        """Return how long to wait for an answer of a broker, which itself may wait ``wait_s``.

        A broker's wait is not cut short: a watch without changes would end with an error.
        """
        limit_s = self._attempt_s + size_bytes / SLOW_BYTES_S
        return limit_s + wait_s if wait_s else min(limit_s, self._left_s())

    async def look_up(self, search: Callable[[], Awaitable[T]]) -> T:
        """Return what ``search`` finds at name servers, of which several may be asked in turn.

        Where the time is over first, the failure of the last attempt is raised, and
        ``RequestTimedOut`` if there was none.
        """
        left_s = self._left_s()
        with trio.move_on_after(left_s):
            return await search()
        raise self.error or RequestTimedOut(
            "the name servers", RequestCode.GET_ROUTEINFO_BY_TOPIC, left_s
        )

    def may_follow(self) -> bool:
        """Note a redirect; returns whether to follow it at once."""
        self._redirects += 1
        return self._redirects <= REDIRECTS_MAX

    def answered(self) -> None:
        """Note an answer: the next redirect is the first in a row."""
        self._redirects = 0

    async def pause(self, error: Exception) -> None:
        """Wait before the next attempt. Raises ``error`` where there is no time for one."""
        self.error = error
        if self._later is not None:
            self._later.deadline = self._until_s
        left_s = self._until_s - trio.current_time()
        if self._pause_s >= left_s:
            raise error
        if isinstance(error, RequestTimedOut):
            # A long answer over a slow link takes as long each time: it needs more, and leaves
            # another holder time for an attempt.
            self._attempt_s = max(ATTEMPT_S, min(2 * self._attempt_s, left_s / 2))
        await trio.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)
        self._redirects = 0
