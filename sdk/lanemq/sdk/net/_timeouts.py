"""Time limits of many requests under way, kept by one task.

A cancel scope for each call would cost a quarter of a call's time; here a call that is answered
in time costs a heap entry.
"""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from math import inf
from typing import Final, final

import outcome
import trio
from trio.lowlevel import Task

EXPIRED: Final = object()
"""The value in place of an answer when the time is up."""

OnAnswer = Callable[[object], object]
"""Takes an answer, ``EXPIRED``, or an exception; called in the core's thread."""


@final
class Timeouts:
    """Requests by number, each until its answer, its time, or the end.

    A task waits for an answer; one that another thread has sent has a function that takes it.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, Task | OnAnswer] = {}
        # (when, number), also of requests long answered: those go as soon as they come to the top,
        # so what is kept is bounded by the calls since the oldest that still waits.
        self._heap: list[tuple[float, int]] = []
        self._added: deque[tuple[float, int]] = deque()  # by other threads; not in the heap yet
        self._has_sooner = False
        self._next_s = inf  # when the watching task will wake by itself
        self._sooner = trio.lowlevel.ParkingLot()

    def __len__(self) -> int:
        return len(self._waiting)

    async def wait(self, number: int, deadline_s: float) -> object:
        """Sleep until ``answer(number, …)``, and return what it gave; at ``deadline_s`` EXPIRED.

        ``fail_all`` makes it raise. Being cancelled forgets the number.
        """
        waiting = self._waiting
        waiting[number] = trio.lowlevel.current_task()
        heappush(self._heap, (deadline_s, number))
        if deadline_s < self._next_s:
            self._sooner.unpark_all()

        def give_up(_: object) -> trio.lowlevel.Abort:
            del waiting[number]
            return trio.lowlevel.Abort.SUCCEEDED

        return await trio.lowlevel.wait_task_rescheduled(give_up)

    def add(self, number: int, deadline_s: float, on_answer: OnAnswer) -> bool:
        """Have ``on_answer`` called once; in any thread. Return whether the core has to ``look``.

        ``fail_all`` gives it the error.
        """
        self._waiting[number] = on_answer
        self._added.append((deadline_s, number))
        if deadline_s >= self._next_s:  # read after the entry was made, set before one is sought
            return False
        self._has_sooner = True
        return True

    def forget(self, number: int) -> bool:
        """Drop a request: its answer goes nowhere. Return False if it has been answered."""
        return self._waiting.pop(number, None) is not None

    def look(self) -> None:
        """Have the watching task look at the deadlines that other threads have added."""
        if self._has_sooner:
            self._has_sooner = False
            self._sooner.unpark_all()

    def answer(self, number: int, value: object) -> None:
        """Give ``value`` to whatever waits for ``number``, if anything does."""
        waiting, heap, added = self._waiting, self._heap, self._added
        found = waiting.pop(number, None)
        if isinstance(found, Task):
            trio.lowlevel.reschedule(found, outcome.Value(value))
        elif found is not None:
            found(value)
        while heap and heap[0][1] not in waiting:
            heappop(heap)
        while added and added[0][1] not in waiting:
            added.popleft()

    def fail_all(self, make_error: "type[Exception]", *arguments: object) -> None:
        """Give every request an error of its own."""
        self._heap.clear()
        for number in list(self._waiting):
            found = self._waiting.pop(number, None)
            error = make_error(*arguments)
            if isinstance(found, Task):
                trio.lowlevel.reschedule(found, outcome.Error(error))
            elif found is not None:
                found(error)

    async def watch(self) -> None:
        """Expire requests whose time is up; runs until cancelled."""
        heap, added = self._heap, self._added
        while True:
            while added:
                heappush(heap, added.popleft())
            while heap and (heap[0][1] not in self._waiting or heap[0][0] <= trio.current_time()):
                self.answer(heappop(heap)[1], EXPIRED)
            self._next_s = heap[0][0] if heap else inf
            if not added:
                with trio.move_on_at(self._next_s):
                    await self._sooner.park()
            self._next_s = -inf  # it is awake, and needs no notice of an earlier one
