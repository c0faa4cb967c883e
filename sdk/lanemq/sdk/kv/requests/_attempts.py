"""The attempts of a call: its deadline, and the pauses between them."""

from typing import Final, final

import trio

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
        self._redirects = 0

    def fork(self) -> "Attempts":
        """Return those of a part of the call."""
        return Attempts(self._until_s)

    def extend(self, more_s: float) -> None:
        """Extend the deadline by a time in which nothing was asked; not that of a wait."""
        if self._later is None:
            self._until_s += more_s

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
        if trio.current_time() + self._pause_s >= self._until_s:
            raise error
        await trio.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)
        self._redirects = 0
