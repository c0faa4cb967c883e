"""The time of a turn of the event loop, shared by all connections and their handlers.

A turn of the loop runs each task that is ready, once, so what the connections take in it adds up.
Together they get ``SHARE_S``. Connections and handlers beyond that wait for a later turn, where
peers are served in rotation: a peer with much to do delays its own requests.

What is spent is set to zero at the begin of a turn only while somebody waits (an instrument of trio
would cost something in each turn); before that, it adds up over turns that take little.
"""

from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Final, final

import trio
from trio.lowlevel import Abort, Task, checkpoint, current_task, reschedule, wait_task_rescheduled

SHARE_S: Final = 0.02
"""Seconds after which the requests of a turn leave the loop to everything else."""
SLICE_S: Final = 0.005
"""Seconds for which the requests of one peer are handled while others wait."""
WOKEN_MIN: Final = 8
"""Number of waiting tasks that a turn wakes at first; twice as many where that was too few."""
WOKEN_MAX: Final = 4096


@final
class LoopTurn(trio.abc.Instrument):
    """The time of the turns of one event loop."""

    def __init__(self) -> None:
        self.spent_s = 0.0
        """Seconds that the turn has taken, without the task that runs."""
        self._waiting: OrderedDict[Hashable, deque[Task]] = OrderedDict()
        self._is_kept = self._was_short = False
        self._woken = WOKEN_MIN

    @property
    def is_free(self) -> bool:
        """True if a task may begin its work in this turn."""
        return self.spent_s < SHARE_S and not self._waiting

    def slice_s(self) -> float:
        """Return the seconds for which the task that runs may go on."""
        return min(SHARE_S - self.spent_s, SLICE_S if self._waiting else SHARE_S)

    def spend(self, seconds: float) -> None:
        """Count the seconds that a task has taken."""
        self.spent_s += seconds
        if self.spent_s >= SHARE_S:
            self._keep()

    async def begin(self, owner: Hashable) -> None:
        """Return in a turn that has time left, in rotation with the tasks of other owners.

        It cannot be cancelled, for it ends soon by itself.
        """
        if self.is_free:
            return
        self._keep()
        self._waiting.setdefault(owner, deque()).append(current_task())
        await wait_task_rescheduled(_not_aborted)
        while self.spent_s >= SHARE_S:
            self._was_short = True
            self._waiting.setdefault(owner, deque()).appendleft(current_task())
            self._waiting.move_to_end(owner, last=False)
            self._keep()
            await wait_task_rescheduled(_not_aborted)

    def after_io_wait(self, timeout: float) -> None:
        """Begin a turn."""
        self.spent_s = 0.0

    def _keep(self) -> None:
        if not self._is_kept:
            self._is_kept = True
            trio.lowlevel.spawn_system_task(self._wake_in_turns)

    async def _wake_in_turns(self) -> None:
        """Wake the tasks that wait, some in each turn, until there is time for everybody."""
        trio.lowlevel.add_instrument(self)
        try:
            await checkpoint()
            while self._waiting or self.spent_s >= SHARE_S:
                self._woken = WOKEN_MIN if self._was_short else min(self._woken * 2, WOKEN_MAX)
                self._was_short = False
                self._wake(self._woken)
                await checkpoint()
        finally:
            self._woken, self._is_kept = WOKEN_MIN, False
            trio.lowlevel.remove_instrument(self)

    def _wake(self, number: int) -> None:
        waiting = self._waiting
        for _ in range(number):
            if not waiting:
                return
            owner, tasks = waiting.popitem(last=False)
            reschedule(tasks.popleft())
            if tasks:
                waiting[owner] = tasks  # behind the others


def _not_aborted(_: object) -> Abort:
    return Abort.FAILED
