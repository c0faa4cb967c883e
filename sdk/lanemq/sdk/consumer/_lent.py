"""Loan of messages from a lite pull consumer to an iteration in another thread.

A hop between threads for every message would cost many times as much as the message. So the
core lends a batch, and goes on to hold it: what the iteration has handed out it reads off the
loan whenever progress, a seek or the end asks for it.
"""

import threading
from collections.abc import Sequence
from typing import Final, final

from .._messages import ReceivedMessage
from .pulls._held_queue import HeldQueue

LENT_MAX: Final = 32
"""Messages lent at once."""
LENT_S: Final = 0.5
"""Seconds after which an iteration comes back, though it has messages left: the core commits in
passing, and sees whose queue it is by now."""


@final
class Lent:
    """A batch of one queue. One thread iterates; the core looks on."""

    __slots__ = ("_lock", "end", "handed_out", "held", "messages", "released", "until_s")

    def __init__(
        self, held: HeldQueue, messages: Sequence[ReceivedMessage], until_s: float
    ) -> None:
        self.held = held
        self.messages = messages
        self.until_s = until_s
        """Time the iteration comes back, by ``time.monotonic``."""
        self.handed_out = 0
        """The number the iteration has handed out; the last of them is at hand."""
        self.released = 0
        """The number the core has looked at and released; the last of them may be at hand."""
        self.end = len(messages)
        """The number that may be handed out: fewer, once the core has taken the rest back."""
        self._lock = threading.Lock()

    def next(self, now_s: float) -> ReceivedMessage | None:
        """Return the next message, or None where the core has to be asked."""
        with self._lock:
            at = self.handed_out
            if at >= self.end or now_s >= self.until_s:
                return None
            self.handed_out = at + 1
        return self.messages[at]

    def reclaim(self) -> Sequence[ReceivedMessage]:
        """Take back the messages that were not handed out."""
        with self._lock:
            self.end = self.handed_out
        return self.messages[self.end :]
