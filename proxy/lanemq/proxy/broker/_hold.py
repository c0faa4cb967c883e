"""Parked pulls: who waits at the end of which queue, and until when.

A pull that finds nothing new may wait for a message (long polling). It is parked under its
queue, and leaves exactly once: because a message it wants arrived, because its time is up, or
because its connection closed. Nothing here reads a clock or a socket; times are arguments.

::

             arrived, tag wanted                        take_woken
    PARKED ----------------------> WOKEN (in order) ------------------> answered
      |  ^ |                          |
      |  | +--- time is up -----------|----------- expire ------------> answered
      |  +-- arrived, tag not wanted: |
      |      time is up in 5 s        |
      +---- connection closed --------+------------- drop ------------> forgotten

Source: RocketMQ 4.9.8, PullRequestHoldService, which scans every 5 s; here nothing scans.
"""

import heapq
import math
from collections.abc import Callable
from typing import Generic, TypeVar, final

from lanemq.wire import Frame

SLOT_S = 0.1
"""Deadlines are kept in slots of this many seconds; an answer may be this much late."""

RECHECK_S = 5.0
"""A pull that messages pass by unwanted is answered this many seconds after the first of them,
so that its client moves on past them (the reference's scan does the same)."""

OwnerT = TypeVar("OwnerT")


@final
class Hold(Generic[OwnerT]):
    """One parked pull: ``request`` waits on behalf of ``owner`` for ``queue_offset`` of a queue.

    ``tag_codes`` are the hashes of the tags it wants, None for all; ``matches`` judges the
    property string of a message that has one of them.
    """

    __slots__ = (
        "matches",
        "owner",
        "queue",
        "queue_offset",
        "request",
        "slot",
        "tag_codes",
        "timeout_s",
    )

    def __init__(
        self,
        *,
        owner: OwnerT,
        request: Frame,
        topic: str,
        queue_id: int,
        queue_offset: int,
        tag_codes: frozenset[int] | None,
        matches: Callable[[bytes], bool] | None = None,
        timeout_s: float,
    ) -> None:
        self.owner = owner
        self.request = request
        self.queue = (topic, queue_id)
        self.queue_offset = queue_offset
        self.tag_codes = tag_codes
        self.matches = matches
        self.timeout_s = timeout_s
        self.slot = 0


@final
class Holds(Generic[OwnerT]):
    """All parked pulls of a broker, at most ``held_max``; used by one task at a time."""

    def __init__(self, *, held_max: int = 100_000) -> None:
        assert held_max > 0
        self.held_max = held_max
        self._count = 0
        self._queues: dict[tuple[str, int], dict[Hold[OwnerT], None]] = {}
        self._owners: dict[OwnerT, dict[Hold[OwnerT], None]] = {}
        # The heap has one entry per slot, not per pull, and a slot stays until its time even
        # when it is empty: a pull that is woken leaves nothing behind, however many come and go.
        self._slots: dict[int, dict[Hold[OwnerT], None]] = {}
        self._slot_heap: list[int] = []
        self._woken: dict[Hold[OwnerT], None] = {}

    def __len__(self) -> int:
        return self._count

    @property
    def is_full(self) -> bool:
        """Whether ``park`` must not be called now."""
        return self._count >= self.held_max

    @property
    def has_woken(self) -> bool:
        """Whether ``take_woken`` would return any."""
        return bool(self._woken)

    def waits_on(self, topic: str, queue_id: int) -> bool:
        """Whether any pull is parked on the queue."""
        return (topic, queue_id) in self._queues

    def park(self, hold: Hold[OwnerT], now_s: float) -> bool:
        """Keep ``hold`` until it is woken, expires or is dropped.

        Returns True where its owner was not known yet, so that the caller can arrange for
        ``drop`` to be called when that owner goes away.
        """
        assert not self.is_full
        self._queues.setdefault(hold.queue, {})[hold] = None
        self._enter_slot(hold, now_s + hold.timeout_s)
        self._count += 1
        owned = self._owners.get(hold.owner)
        if owned is None:
            self._owners[hold.owner] = {hold: None}
            return True
        owned[hold] = None
        return False

    def arrived(
        self,
        topic: str,
        queue_id: int,
        *,
        max_offset: int,
        tags_code: int,
        now_s: float,
        properties: Callable[[], bytes] = bytes,
    ) -> bool:
        """A message with ``tags_code`` is in the queue, which now ends at ``max_offset``.

        ``properties`` gives its property string; it is called once if a pull needs to know. The
        pulls that want it wait in ``take_woken`` from now on. Returns whether any other
        expires earlier than it did.
        """
        waiting = self._queues.get((topic, queue_id))
        if waiting is None:
            return False
        hurried, data = False, None
        for hold in list(waiting):
            if max_offset <= hold.queue_offset:
                continue
            wanted = hold.tag_codes is None or tags_code in hold.tag_codes
            if wanted and hold.matches is not None:
                if data is None:
                    data = properties()
                wanted = hold.matches(data)
            if wanted:
                self._leave(hold)
                self._woken[hold] = None
            elif math.ceil((now_s + RECHECK_S) / SLOT_S) < hold.slot:
                del self._slots[hold.slot][hold]
                self._enter_slot(hold, now_s + RECHECK_S)
                hurried = True
        return hurried

    def wake(self, topic: str, queue_id: int) -> None:
        """What the pulls of a queue wait for may have changed: they wait in ``take_woken`` now."""
        for hold in list(self._queues.get((topic, queue_id), ())):
            self._leave(hold)
            self._woken[hold] = None

    def take_woken(self) -> list[Hold[OwnerT]]:
        """The pulls woken since the last call, in the order of their waking."""
        woken, self._woken = list(self._woken), {}
        for hold in woken:
            self._disown(hold)
        return woken

    def expire(self, now_s: float) -> list[Hold[OwnerT]]:
        """The pulls whose time is up at ``now_s``; they are not parked any more."""
        expired: list[Hold[OwnerT]] = []
        while self._slot_heap and self._slot_heap[0] * SLOT_S <= now_s:
            for hold in list(self._slots[self._slot_heap[0]]):
                self._leave(hold)
                self._disown(hold)
                expired.append(hold)
            del self._slots[heapq.heappop(self._slot_heap)]
        return expired

    def drop(self, owner: OwnerT) -> None:
        """Forget every pull of ``owner``."""
        for hold in self._owners.pop(owner, ()):
            if hold in self._woken:
                del self._woken[hold]
            else:
                self._leave(hold)

    def next_expiry_s(self) -> float | None:
        """When ``expire`` has something to do next; None while nothing is parked."""
        while self._slot_heap and not self._slots[self._slot_heap[0]]:
            del self._slots[heapq.heappop(self._slot_heap)]
        return self._slot_heap[0] * SLOT_S if self._slot_heap else None

    def _enter_slot(self, hold: Hold[OwnerT], deadline_s: float) -> None:
        slot = hold.slot = math.ceil(deadline_s / SLOT_S)
        held = self._slots.get(slot)
        if held is None:
            held = self._slots[slot] = {}
            heapq.heappush(self._slot_heap, slot)
        held[hold] = None

    def _leave(self, hold: Hold[OwnerT]) -> None:
        del self._slots[hold.slot][hold]
        waiting = self._queues[hold.queue]
        del waiting[hold]
        if not waiting:
            del self._queues[hold.queue]
        self._count -= 1

    def _disown(self, hold: Hold[OwnerT]) -> None:
        del self._owners[hold.owner][hold]
