"""Time limits of many waiting tasks, kept by one.

A cancel scope for each call would cost a quarter of a call's time; here a call that is answered
in time costs a heap entry.
"""

from heapq import heappop, heappush
from math import inf
from typing import Final, final

import outcome
import trio

EXPIRED: Final = object()
"""The value a task is woken with when its time is up."""


@final
class Timeouts:
    """Tasks that wait for an answer by number; each until its answer, its time, or the end."""

    def __init__(self) -> None:
        self._tasks: dict[int, trio.lowlevel.Task] = {}
        # (when, number), also of tasks long woken: those go as soon as they come to the top,
        # so what is kept is bounded by the calls since the oldest that still waits.
        self._heap: list[tuple[float, int]] = []
        self._next_s = inf  # when the watching task will wake by itself
        self._sooner = trio.lowlevel.ParkingLot()

    def __len__(self) -> int:
        return len(self._tasks)

    async def wait(self, number: int, deadline_s: float) -> object:
        """Sleep until ``answer(number, …)``, and return what it gave; at ``deadline_s`` EXPIRED.

        ``fail_all`` makes it raise. Being cancelled forgets the number.
        """
        tasks = self._tasks
        tasks[number] = trio.lowlevel.current_task()
        heappush(self._heap, (deadline_s, number))
        if deadline_s < self._next_s:
            self._sooner.unpark_all()

        def give_up(_: object) -> trio.lowlevel.Abort:
            del tasks[number]
            return trio.lowlevel.Abort.SUCCEEDED

        return await trio.lowlevel.wait_task_rescheduled(give_up)

    def answer(self, number: int, value: object) -> None:
        """Wake the task that waits for ``number``, if one does."""
        tasks, heap = self._tasks, self._heap
        task = tasks.pop(number, None)
        if task is not None:
            trio.lowlevel.reschedule(task, outcome.Value(value))
        while heap and heap[0][1] not in tasks:
            heappop(heap)

    def fail_all(self, make_error: "type[Exception]", *arguments: object) -> None:
        """Wake every task with an error of its own."""
        waiting = list(self._tasks.values())
        self._tasks.clear()
        self._heap.clear()
        for task in waiting:
            trio.lowlevel.reschedule(task, outcome.Error(make_error(*arguments)))

    async def watch(self) -> None:
        """Wake tasks whose time is up; runs until cancelled."""
        heap = self._heap
        while True:
            while heap and (heap[0][1] not in self._tasks or heap[0][0] <= trio.current_time()):
                self.answer(heappop(heap)[1], EXPIRED)
            self._next_s = heap[0][0] if heap else inf
            with trio.move_on_at(self._next_s):
                await self._sooner.park()
            self._next_s = -inf  # it is awake, and needs no notice of an earlier one
