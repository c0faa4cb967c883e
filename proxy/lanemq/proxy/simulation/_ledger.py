"""What was promised and what was delivered, and whether the two agree."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple, final

import trio

from lanemq.wire import MessageQueue


class Acknowledged(NamedTuple):
    """A message that a sender was told is stored."""

    sender: str
    number: int
    queue: MessageQueue
    queue_offset: int
    """As the answer said; -1 where it said nothing."""


class Delivered(NamedTuple):
    """A message as a consumer was given it."""

    sender: str
    number: int
    queue: MessageQueue
    queue_offset: int


class Violated(AssertionError):  # noqa: N818 - says what happened
    """A promise was broken; the text says which, with the messages it was broken for."""


@final
@dataclass
class Ledger:
    """The books of one run."""

    acknowledged: list[Acknowledged] = field(default_factory=list)
    delivered: dict[str, list[Delivered]] = field(default_factory=lambda: defaultdict(list))
    """By consumer group, in the order of the calls."""
    failed_sends: int = 0
    _changed: trio.Event = field(default_factory=trio.Event)

    def deliver(self, group: str, message: Delivered) -> None:
        """Note a call of a listener."""
        self.delivered[group].append(message)
        self._changed.set()
        self._changed = trio.Event()

    async def all_delivered(self, group: str) -> None:
        """Wait until the group has had everything that is acknowledged."""
        while self.missing(group):
            await self._changed.wait()

    def missing(self, group: str) -> set[Acknowledged]:
        """Acknowledged, and not delivered to the group from its place so far.

        A send that was tried again may have left a copy; that one does not count. Where the
        answer did not say the place, any copy does.
        """
        delivered = self.delivered[group]
        seen = {(message.sender, message.number) for message in delivered}
        places = set(delivered)
        return {
            ack
            for ack in self.acknowledged
            if (Delivered(*ack) not in places if ack.queue_offset >= 0 else ack[:2] not in seen)
        }

    def check_places(self) -> None:
        """No two messages were given one place of a queue.

        What was never acknowledged does not count: a consumer may see a message that a loss of
        power then takes away, and another one in its place.
        """
        places: dict[tuple[MessageQueue, int], tuple[str, int]] = {}
        for ack in self.acknowledged:
            if ack.queue_offset >= 0:
                place, message = (ack.queue, ack.queue_offset), (ack.sender, ack.number)
                known = places.setdefault(place, message)
                if known != message:
                    raise Violated(f"{place} was given to {known} and to {message}")

    def check_order(self) -> None:
        """What a sender was told is stored lies before what it sent to that queue afterwards."""
        last: dict[tuple[str, MessageQueue], Acknowledged] = {}
        for ack in self.acknowledged:
            if ack.queue_offset < 0:
                continue
            before = last.get((ack.sender, ack.queue))
            if before is not None and before.queue_offset >= ack.queue_offset:
                raise Violated(f"{before} was acknowledged before {ack} was sent")
            last[ack.sender, ack.queue] = ack

    def check_delivered_order(self, group: str) -> None:
        """An orderly group saw the messages of each queue in their order, some of them again.

        Again means from an earlier place on: a group repeats after a crash, it never skips.
        """
        ends: dict[MessageQueue, int] = defaultdict(int)
        for message in self.delivered[group]:
            end = ends[message.queue]
            if message.queue_offset > end:
                lost = f"{end} to {message.queue_offset - 1} of {message.queue}"
                raise Violated(f"{group} was given {message} before the messages {lost}")
            ends[message.queue] = max(message.queue_offset + 1, end)
