"""The messages a lite pull consumer has pulled and not returned yet, and the progress of those it
has returned.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import final

import trio

from lanemq.wire.bodies import MessageQueue

from .._messages import ReceivedMessage
from ._lent import LENT_MAX, LENT_S, Lent
from .pulls._held_queue import HeldQueue


@final
class MessageBuffer:
    """The messages of all queues, in the order in which they arrived.

    The messages returned last are *at hand*: they count as consumed when more are asked for.
    """

    def __init__(self) -> None:
        self.positions: dict[MessageQueue, int] = {}
        """The offset behind the returned messages of each queue; commits take it from here."""
        self.arrived = trio.Event()
        """Set when something may be returned that could not be before."""
        self.lent: Lent | None = None
        """Messages lent to an iteration in another thread."""
        self._waiting: deque[tuple[HeldQueue, deque[ReceivedMessage]]] = deque()
        self._at_hand: tuple[MessageQueue, int] | None = None  # and its first offset

    def deliver(self, held: HeldQueue, messages: list[ReceivedMessage]) -> None:
        """Take the ``messages`` that a pull found."""
        self._waiting.append((held, deque(messages)))
        self.arrived.set()

    def skip(self, held: HeldQueue) -> None:
        """Note a pull that found nothing to deliver; it may have gone past messages of other
        tags."""
        if not held.messages.count and held.queue in self.positions:
            self.positions[held.queue] = held.messages.next_offset

    # Returning

    def take(self, limit: int, is_paused: Callable[[MessageQueue], bool]) -> list[ReceivedMessage]:
        """Take up to ``limit`` messages of one queue that is not paused; [] if there are none."""
        held, messages = self._next(limit, is_paused)
        if held is not None:
            self._at_hand = held.queue, held.messages.commit_offset
            held.release(messages)
            self.positions[held.queue] = held.messages.commit_offset
        return messages

    def lend(self, is_paused: Callable[[MessageQueue], bool]) -> Lent | None:
        """Lend messages to an iteration in another thread: held until they are handed out."""
        held, messages = self._next(LENT_MAX, is_paused)
        if held is not None:
            self.lent = Lent(held, messages, time.monotonic() + LENT_S)
        return self.lent

    def _next(
        self, limit: int, is_paused: Callable[[MessageQueue], bool]
    ) -> tuple[HeldQueue | None, list[ReceivedMessage]]:
        waiting, at = self._waiting, 0
        while at < len(waiting):
            held, messages = waiting[at]
            if held.dropped:
                del waiting[at]
            elif is_paused(held.queue):
                at += 1
            elif len(messages) <= limit:
                del waiting[at]
                return held, list(messages)
            else:
                return held, [messages.popleft() for _ in range(limit)]
        return None, []

    def reclaim(self) -> None:
        """End the loan, if there is one; what was not handed out is the next to be returned."""
        lent = self.lent
        if lent is None:
            return
        rest = lent.reclaim()
        self._catch_up(lent, lent.handed_out)
        self.lent = None
        if rest and not lent.held.dropped:
            self._waiting.appendleft((lent.held, deque(rest)))

    # Progress

    def _catch_up(self, lent: Lent, done: int) -> None:
        """Release the first ``done`` messages of a loan."""
        if done > lent.released and not lent.held.dropped:
            lent.held.release(lent.messages[lent.released : done])
            lent.released = done
            self.positions[lent.held.queue] = lent.held.messages.commit_offset

    def everything_is_done(self) -> None:
        """Count the messages at hand as consumed: more are asked for, or they are committed."""
        self._at_hand = None
        if self.lent is not None:
            self._catch_up(self.lent, self.lent.handed_out)

    def leave_what_is_at_hand(self) -> None:
        """Count the messages at hand as not consumed: an error came in between."""
        if self.lent is not None:
            self._catch_up(self.lent, self.lent.handed_out - 1)
        if self._at_hand is not None:
            queue, offset = self._at_hand
            self.positions[queue] = min(offset, self.positions.get(queue, offset))

    def move(self, queue: MessageQueue, offset: int) -> None:
        """Note that ``queue`` is read from ``offset`` on."""
        self.positions[queue] = offset
        if self._at_hand is not None and self._at_hand[0] == queue:
            self._at_hand = None
