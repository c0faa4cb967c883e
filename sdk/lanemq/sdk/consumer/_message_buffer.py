"""The messages that a lite pull consumer has pulled and not returned yet, and its progress.

The progress in a queue is part of the held queue (``HeldQueue.returned``): it ends with it, when
another consumer takes the queue, or its offset is reset.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import final

import trio

from lanemq.wire.bodies import MessageQueue

from .._messages import ReceivedMessage
from .._unpacking import any_packed, ready_part, unpack
from ._lent import LENT_S, Lent
from .group._offsets import Offsets
from .pulls._held_queue import HeldQueue


@final
class MessageBuffer:
    """The messages of all queues, in the order in which they arrived.

    The messages returned last are *at hand*: they count as consumed when more are asked for.
    """

    def __init__(self) -> None:
        self.arrived = trio.Event()
        """Set when something may be returned that could not be before."""
        self.lent: Lent | None = None
        """Messages lent to an iteration in another thread."""
        self._waiting: deque[tuple[HeldQueue, deque[ReceivedMessage]]] = deque()
        self._at_hand: tuple[HeldQueue, int] | None = None  # and its first offset

    def deliver(self, held: HeldQueue, messages: list[ReceivedMessage]) -> None:
        """Take the ``messages`` that a pull found."""
        self._waiting.append((held, deque(messages)))
        self.arrived.set()

    def skip(self, held: HeldQueue) -> None:
        """Note a pull that found nothing to deliver; it may have gone past messages of other
        tags."""
        if not held.messages.count and held.returned is not None:
            held.returned = held.messages.next_offset

    # Returning

    async def unpack_next(
        self, limit: int, most_bytes: int, pauses: Callable[[], Callable[[MessageQueue], bool]]
    ) -> int:
        """Unpack the messages to be taken next; return how many, up to ``limit``.

        That is fewer once those unpacked for it have ``most_bytes`` together. Nothing is taken
        before the bodies are ready: a cancellation loses no message.
        """
        while True:
            messages = self._first(limit, pauses())
            ready = ready_part(messages, most_bytes)
            if not any_packed(messages[ready : ready + 1]):
                return ready
            await unpack(messages[ready:], most_bytes)

    def _first(
        self, limit: int, is_paused: Callable[[MessageQueue], bool]
    ) -> list[ReceivedMessage]:
        for held, messages in self._waiting:
            if not (held.dropped or is_paused(held.queue)):
                return list(islice(messages, limit))
        return []

    def take(self, limit: int, is_paused: Callable[[MessageQueue], bool]) -> list[ReceivedMessage]:
        """Take up to ``limit`` messages of one queue that is not paused; [] if there are none."""
        held, messages = self._next(limit, is_paused)
        if held is not None:
            self._at_hand = held, held.messages.commit_offset
            held.release(messages)
            held.returned = held.messages.commit_offset
        return messages

    def lend(self, limit: int, is_paused: Callable[[MessageQueue], bool]) -> Lent | None:
        """Lend up to ``limit`` messages to an iteration in another thread: held until they are
        handed out."""
        held, messages = self._next(limit, is_paused)
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
        self.look_at_loan()
        self.lent = None
        if rest and not lent.held.dropped:
            self._waiting.appendleft((lent.held, deque(rest)))

    # Progress

    def look_at_loan(self) -> None:
        """Note how far the iteration is, if there is a loan: its last message is at hand."""
        lent = self.lent
        if lent is None or lent.held.dropped:
            return
        handed_out = lent.handed_out  # read once: it goes on
        if handed_out > lent.released:
            self._release(lent, handed_out - 1)
            self._at_hand = lent.held, lent.held.messages.commit_offset
            self._release(lent, handed_out)

    def _release(self, lent: Lent, count: int) -> None:
        """Release the first ``count`` messages of a loan."""
        lent.held.release(lent.messages[lent.released : count])
        lent.released = count
        lent.held.returned = lent.held.messages.commit_offset

    def note(
        self, offsets: Offsets, queues: Mapping[MessageQueue, HeldQueue], topic: str | None = None
    ) -> None:
        """Note progress behind everything that was returned, of ``topic`` alone if one is given."""
        self.everything_is_done(topic)
        for queue, offset in returned(queues, topic):
            offsets.update(queue, offset)

    def everything_is_done(self, topic: str | None = None) -> None:
        """Count the messages at hand as consumed: more are asked for, or they are committed.

        With ``topic`` only those of that topic are.
        """
        self.look_at_loan()
        if self._at_hand is not None and topic in (None, self._at_hand[0].queue.topic):
            self._at_hand = None

    def leave_what_is_at_hand(self) -> None:
        """Count the messages at hand as not consumed: an error came in between."""
        self.look_at_loan()
        if self._at_hand is not None:
            held, offset = self._at_hand
            held.returned = offset if held.returned is None else min(offset, held.returned)

    def replaced(self, old: HeldQueue, new: HeldQueue | None) -> None:
        """Note that ``new``, which begins where ``old`` was, is read in its place, if any is."""
        if new is None:
            return
        new.returned = old.returned
        if self._at_hand is not None and self._at_hand[0] is old:
            self._at_hand = new, self._at_hand[1]


def returned(
    queues: Mapping[MessageQueue, HeldQueue], topic: str | None = None
) -> Iterator[tuple[MessageQueue, int]]:
    """Iterate over the queues that messages were returned of, with the offset behind them.

    With ``topic`` over those of that topic.
    """
    for queue, held in queues.items():
        if held.returned is None or held.dropped:  # its offset may be under correction
            continue
        if topic in (None, queue.topic):
            yield queue, held.returned
