"""Work counted in calls, which are the same on every machine; seconds are not."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import trio


class Calls:
    """A count of calls of Python functions and of C functions."""

    def __init__(self) -> None:
        self.count = 0

    def _note(self, _frame: FrameType, event: str, _argument: object) -> None:
        if event in ("call", "c_call"):
            self.count += 1


@contextmanager
def calls_of_this_thread() -> Iterator[Calls]:
    """Count what the calling thread calls within the block; other threads do not count."""
    calls = Calls()
    before = sys.getprofile()
    sys.setprofile(calls._note)
    try:
        yield calls
    finally:
        sys.setprofile(before)


class StepCalls(trio.abc.Instrument):
    """The calls of the longest step of a task; one step runs from one wait to the next."""

    def __init__(self) -> None:
        self.most = self._count = 0

    def _note(self, _frame: FrameType, event: str, _argument: object) -> None:
        if event in ("call", "c_call"):
            self._count += 1

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._count = 0

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.most = max(self.most, self._count)


@contextmanager
def calls_of_steps() -> Iterator[StepCalls]:
    """Count the calls of each step of the tasks that run within the block; threads do not count."""
    steps, before = StepCalls(), sys.getprofile()
    trio.lowlevel.add_instrument(steps)
    sys.setprofile(steps._note)
    try:
        yield steps
    finally:
        sys.setprofile(before)
        trio.lowlevel.remove_instrument(steps)
