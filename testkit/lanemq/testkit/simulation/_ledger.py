"""The ledger of a run: compares acknowledged messages with delivered ones."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple, final

import trio

from lanemq.sdk import LanemqError, RefusedByBroker
from lanemq.wire import ResponseCode
from lanemq.wire.bodies import MessageQueue

CALM_S: Final = 900.0
"""Seconds for a cluster in which nothing happens any more to deliver everything."""


class Acknowledged(NamedTuple):
    """A message that a sender was told is stored."""

    sender: str
    number: int
    queue: MessageQueue
    queue_offset: int
    """The offset in the answer; -1 where it had none."""


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
    """Delivered messages by consumer group, in the order of the calls."""
    rolled_back: set[tuple[str, int]] = field(default_factory=set)
    """Sender and number of messages whose transactions were rolled back."""
    failed_sends: int = 0
    unserved: list[str] = field(default_factory=list)
    """The errors of sends that failed though their queues were not closed."""
    at_once: list[str] = field(default_factory=list)
    """Queues that two members of an orderly group worked on at the same time, and might not."""
    _moved: set[tuple[str, int]] = field(default_factory=set)
    """Sender and number of messages that were appended once more, at a later place."""
    _workers: dict[tuple[str, MessageQueue], list[Callable[[], bool]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _shared_until_s: dict[tuple[str, MessageQueue], float] = field(default_factory=dict)
    _changed: trio.Event = field(default_factory=trio.Event)

    def deliver(self, group: str, message: Delivered) -> None:
        """Note a call of a listener."""
        self.delivered[group].append(message)
        self._changed.set()
        self._changed = trio.Event()

    @contextmanager
    def works_on(
        self, group: str, queue: MessageQueue, has_lock: Callable[[], bool] = lambda: True
    ) -> Iterator[None]:
        """Note that a member of an orderly group works on a queue within the block.

        One that ``has_lock`` no longer, because its connection has ended, finishes what it handles
        while another one may begin: only what it finishes with its lock counts (docs/staged.md).
        """
        now_s = trio.current_time()
        others = any(has_its() for has_its in self._workers[group, queue])
        if others and now_s > self._shared_until_s.get((group, queue), -1):
            self.at_once.append(f"{group} on {queue} at {now_s:.3f} s")
        self._workers[group, queue].append(has_lock)
        try:
            yield
        finally:
            self._workers[group, queue].remove(has_lock)

    def may_share(self, group: str, queue: MessageQueue, until_s: float) -> None:
        """Let two members work on a queue until then: the broker that had lent its lock is gone."""
        key = group, queue
        self._shared_until_s[key] = max(until_s, self._shared_until_s.get(key, until_s))

    def check_owners(self) -> None:
        """Check that queues had one owner at a time in each orderly group, but for
        ``may_share``."""
        if self.at_once:
            raise Violated(f"two members of a group at once: {self.at_once[:10]}")

    async def all_delivered(self, group: str) -> None:
        """Wait until the group has had everything that is acknowledged."""
        while self.missing(group):
            await self._changed.wait()

    async def check_delivered(self, group: str) -> None:
        """Wait until the group has had everything. Raises ``Violated`` after ``CALM_S``."""
        with trio.move_on_after(CALM_S):
            await self.all_delivered(group)
            return
        missing = sorted(self.missing(group))
        raise Violated(
            f"{len(missing)} acknowledged messages never reached {group}: {missing[:10]}"
        )

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

    def moved(
        self, sender: str, number: int, queue: MessageQueue, before: int, offset: int
    ) -> None:
        """Note that a message acknowledged at ``before`` has another offset of the queue now."""
        known = Acknowledged(sender, number, queue, before)
        for at, ack in enumerate(self.acknowledged):
            if ack == known:
                self.acknowledged[at] = ack._replace(queue_offset=offset)
                self._moved.add((sender, number))

    def failed(self, error: LanemqError) -> None:
        """Note a send that has failed."""
        self.failed_sends += 1
        is_closed = isinstance(error, RefusedByBroker) and error.code == ResponseCode.NO_PERMISSION
        if not is_closed:
            self.unserved.append(str(error))

    def check_all_served(self) -> None:
        """Check that no send to an open queue has failed: an outage of name servers fails none."""
        if self.unserved:
            raise Violated(
                f"{len(self.unserved)} sends failed, {len(self.acknowledged)} were acknowledged:"
                f" {self.unserved[:10]}"
            )

    def check_rolled_back(self) -> None:
        """Check that nothing that was rolled back was delivered."""
        for group, messages in self.delivered.items():
            for message in messages:
                if (message.sender, message.number) in self.rolled_back:
                    raise Violated(f"{group} was given {message}, which was rolled back")

    def check_places(self) -> None:
        """Check that no two messages were given one place of a queue.

        Unacknowledged messages do not count: a consumer may see a message that a loss of
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
        """Check that a stored message lies before those its sender sent to that queue afterwards.

        Messages that were cut off, and appended again, lie behind.
        """
        last: dict[tuple[str, MessageQueue], Acknowledged] = {}
        for ack in self.acknowledged:
            if ack.queue_offset < 0 or ack[:2] in self._moved:
                continue
            before = last.get((ack.sender, ack.queue))
            if before is not None and before.queue_offset >= ack.queue_offset:
                raise Violated(f"{before} was acknowledged before {ack} was sent")
            last[ack.sender, ack.queue] = ack

    def check_delivered_order(self, group: str) -> None:
        """Check that orderly groups saw each queue's messages in their order, some of them again.

        Again means from an earlier place on: a group repeats after a crash, it never skips.
        """
        ends: dict[MessageQueue, int] = defaultdict(int)
        for message in self.delivered[group]:
            end = ends[message.queue]
            if message.queue_offset > end:
                lost = f"{end} to {message.queue_offset - 1} of {message.queue}"
                raise Violated(f"{group} was given {message} before the messages {lost}")
            ends[message.queue] = max(message.queue_offset + 1, end)
