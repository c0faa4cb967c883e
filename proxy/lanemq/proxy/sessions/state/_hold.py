"""Parked pulls: requests that wait at the end of a queue, with their deadlines.

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
      +---- nobody waits for it ------+------------ forget -----------> forgotten

Source: RocketMQ 4.9.8, PullRequestHoldService, which scans every 5 s; here nothing scans.
"""

import heapq
import math
from collections.abc import Callable
from itertools import islice
from typing import Any, Final, Generic, TypeVar, final

import msgspec

from ...net._turns import LOOKS_OF_A_STEP
from ...net.limits._quotas import HOST_SHARE, has_share
from ._crowd import Arrival, Crowd

SLOT_S = 0.1
"""Seconds of a slot of deadlines; an answer may be this late."""
RECHECK_S = 5.0
"""Seconds after the first unwanted message at which a pull is answered, so that its client moves on
past them (the reference's scan does the same)."""

OwnerT = TypeVar("OwnerT")

HOLD_MAX_S: Final = 300.0
"""Longest time that a pull is parked, whatever it asks for; clients ask for 15 to 20 s."""


@final
class Hold(msgspec.Struct, Generic[OwnerT], eq=False, kw_only=True, gc=False):
    """One parked pull, which waits on behalf of ``owner`` for ``queue_offset`` of a queue.

    The collector does not know it, so that very many cost it nothing. Whoever makes a circle of
    references through one breaks it.
    """

    owner: OwnerT
    host: str
    """The address of its owner, which shares places with the other owners there."""
    again: Callable[[], Any]
    """Runs it once more."""
    deliver: Callable[[Any], None]
    """Takes what comes of that."""
    queue: tuple[str, int]
    queue_offset: int
    tag_codes: frozenset[int] | None
    """The hashes of the tags it wants; None for all."""
    matches: Callable[[bytes], bool] | None = None
    """Judges the property string of a message that has one of them."""
    timeout_s: float
    size_bytes: int = 0
    """The bytes that it is charged with."""
    slot: int = 0
    """The slot of its deadline, while it is parked."""


@final
class Holds(Generic[OwnerT]):
    """All parked pulls of a broker, at most ``held_max``; used by one task at a time."""

    def __init__(self, *, held_max: int = 100_000) -> None:
        assert held_max > 0
        self.held_max = held_max
        self._count = 0
        self._queues: dict[tuple[str, int], dict[Hold[OwnerT], None]] = {}
        self._owners: dict[OwnerT, dict[Hold[OwnerT], None]] = {}
        self._hosts: dict[str, int] = {}
        # The heap has one entry per slot, not per pull, and a slot stays until its time even
        # when it is empty: a pull that is woken leaves nothing behind, however many come and go.
        self._slots: dict[int, dict[Hold[OwnerT], None]] = {}
        self._slot_heap: list[int] = []
        self._woken: dict[Hold[OwnerT], None] = {}
        self._behind: dict[tuple[str, int], Crowd[Hold[OwnerT]]] = {}

    def __len__(self) -> int:
        return self._count

    def has_place(self, owner: OwnerT, host: str) -> bool:
        """Return whether ``park`` may be called for a pull of ``owner``, who is at ``host``."""
        is_fair = has_share(len(self._owners.get(owner, ())), self.held_max - self._count)
        return is_fair and self.has_place_at(host)

    def has_place_at(self, host: str) -> bool:
        """Return whether an address has a place left of its share."""
        return has_share(self.held_at(host), self.held_max - self._count, HOST_SHARE)

    def held_by(self, owner: OwnerT) -> int:
        """Return the number of parked pulls of ``owner``."""
        return len(self._owners.get(owner, ()))

    def held_at(self, host: str) -> int:
        """Return the number of parked pulls of all owners at an address."""
        return self._hosts.get(host, 0)

    @property
    def has_woken(self) -> bool:
        """True if ``take_woken`` would return any, or if there is something to ``catch_up``
        with."""
        return bool(self._woken or self._behind)

    @property
    def is_behind(self) -> bool:
        """True if there is something for ``catch_up`` to do."""
        return bool(self._behind)

    def waits_on(self, topic: str, queue_id: int) -> bool:
        """Return whether any pull is parked on the queue."""
        return (topic, queue_id) in self._queues

    def park(self, hold: Hold[OwnerT], now_s: float) -> bool:
        """Keep ``hold`` until it is woken, expires or is dropped.

        Returns True where its owner was not known yet, so that the caller can arrange for
        ``drop`` to be called when that owner goes away.
        """
        assert self.has_place(hold.owner, hold.host)
        self._queues.setdefault(hold.queue, {})[hold] = None
        self._enter_slot(hold, now_s + hold.timeout_s)
        self._count += 1
        self._hosts[hold.host] = self._hosts.get(hold.host, 0) + 1
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
        may_judge: Callable[[], bool] = lambda: True,
    ) -> bool:
        """Wake pulls for a message with ``tags_code`` in the queue, which now ends at
        ``max_offset``.

        ``properties`` gives its property string; it is called once if a pull needs to know. The
        pulls that want it wait in ``take_woken`` from now on. Pulls with the same judge share its
        verdict; where ``may_judge`` says no, a pull expires at once instead. Returns whether any
        expires earlier than it did. Where very many wait on the queue, all of this is left to
        ``catch_up``.
        """
        waiting = self._queues.get((topic, queue_id))
        if waiting is None:
            return False
        arrival = Arrival(max_offset, tags_code, properties)
        behind = self._behind.get((topic, queue_id)) if self._behind else None
        if behind is None and len(waiting) <= LOOKS_OF_A_STEP:
            return self._look(list(waiting), arrival, now_s, may_judge)
        self._behind_on((topic, queue_id)).note(arrival)
        return False

    def _look(
        self,
        holds: list[Hold[OwnerT]],
        arrival: Arrival,
        now_s: float,
        may_judge: Callable[[], bool],
    ) -> bool:
        """Wake those of parked pulls that want a message; returns as ``arrived``."""
        hurried, max_offset, tags_code = False, arrival.max_offset, arrival.tags_code
        for hold in holds:
            if max_offset <= hold.queue_offset:
                continue
            wanted = hold.tag_codes is None or tags_code in hold.tag_codes
            patience_s = RECHECK_S
            if wanted and hold.matches is not None:
                verdict = arrival.verdict(hold.matches, may_judge)
                if verdict is None:
                    patience_s = 0.0
                wanted = verdict is True
            if wanted:
                self._leave(hold)
                self._woken[hold] = None
            elif math.ceil((now_s + patience_s) / SLOT_S) < hold.slot:
                del self._slots[hold.slot][hold]
                self._enter_slot(hold, now_s + patience_s)
                hurried = True
        return hurried

    def _behind_on(self, queue: tuple[str, int]) -> Crowd[Hold[OwnerT]]:
        behind = self._behind.get(queue)
        if behind is None:
            behind = self._behind[queue] = Crowd()
        return behind

    def catch_up(self, now_s: float, may_judge: Callable[[], bool] = lambda: True) -> None:
        """Look at some pulls of a queue on which very many wait, as ``arrived`` and ``wake`` do
        otherwise."""
        queue = next(iter(self._behind))
        behind, waiting = self._behind.pop(queue), self._queues.get(queue, {})
        count = max(1, LOOKS_OF_A_STEP // max(1, len(behind.looked_for)))
        some = list(islice(behind.holds, count))
        if some or behind.begin(waiting):
            self._behind[queue] = behind  # the other queues first
        if behind.wakes:
            self._wake([hold for hold in some if hold in waiting])
            return
        for arrival in behind.looked_for:
            some = [hold for hold in some if hold in waiting]
            self._look(some, arrival, now_s, may_judge)

    def wake(self, topic: str, queue_id: int) -> None:
        """Wake all pulls of a queue, for ``take_woken``: what they wait for may have changed. Where
        very many wait, that is left to ``catch_up``."""
        waiting = self._queues.get((topic, queue_id), {})
        if len(waiting) <= LOOKS_OF_A_STEP:
            self._wake(list(waiting))
        else:
            self._behind_on((topic, queue_id)).woken_next = True

    def _wake(self, holds: list[Hold[OwnerT]]) -> None:
        for hold in holds:
            self._leave(hold)
            self._woken[hold] = None

    def take_woken(self) -> list[Hold[OwnerT]]:
        """Return the pulls woken since the last call, in the order of their waking."""
        woken, self._woken = list(self._woken), {}
        for hold in woken:
            self._disown(hold)
        return woken

    def expire(self, now_s: float, *, most: int | None = None) -> list[Hold[OwnerT]]:
        """Remove and return the pulls whose time is up at ``now_s``, ``most`` of them at most."""
        expired: list[Hold[OwnerT]] = []
        while self._slot_heap and self._slot_heap[0] * SLOT_S <= now_s:
            slot = self._slots[self._slot_heap[0]]
            for hold in list(islice(slot, None if most is None else most - len(expired))):
                self._leave(hold)
                self._disown(hold)
                expired.append(hold)
            if slot:
                break  # there are as many as may be
            del self._slots[heapq.heappop(self._slot_heap)]
        return expired

    def forget(self, hold: Hold[OwnerT]) -> bool:
        """Remove a pull whose answer is no longer wanted; returns False where it is gone."""
        owned = self._owners.get(hold.owner, {})
        if hold not in owned:
            return False
        del owned[hold]
        if hold in self._woken:
            del self._woken[hold]
        else:
            self._leave(hold)
        return True

    def drop(self, owner: OwnerT, *, most: int | None = None) -> list[Hold[OwnerT]]:
        """Remove and return the pulls of ``owner``, ``most`` of them at most."""
        owned = self._owners.get(owner, {})
        dropped = list(islice(owned, most))
        for hold in dropped:
            del owned[hold]
            if hold in self._woken:
                del self._woken[hold]
            else:
                self._leave(hold)
        if not owned:
            self._owners.pop(owner, None)
        return dropped

    def next_expiry_s(self) -> float | None:
        """Return the time of the next work for ``expire``; None while nothing is parked."""
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
        if held := self._hosts.pop(hold.host) - 1:
            self._hosts[hold.host] = held

    def _disown(self, hold: Hold[OwnerT]) -> None:
        del self._owners[hold.owner][hold]
