"""A dump of the stacks of all tasks of this program, as Java's jstack makes one of threads."""

import sys
import traceback
from collections.abc import Iterator
from types import CoroutineType, FrameType

import trio


def task_dump() -> str:
    """Return all trio tasks of this run with their stacks, outermost call first."""
    parts = []
    for task in _tasks():
        parts.append(f'"{task.name}"\n')
        if task is trio.lowlevel.current_task():
            parts += traceback.format_stack(sys._getframe())
        else:
            parts += traceback.format_list(traceback.StackSummary.extract(_frames(task.coro)))
    return "".join(parts)


def _tasks() -> Iterator[trio.lowlevel.Task]:
    root = trio.lowlevel.current_root_task()
    waiting = [root] if root is not None else []
    while waiting:
        task = waiting.pop()
        yield task
        for nursery in reversed(task.child_nurseries):
            waiting.extend(sorted(nursery.child_tasks, key=lambda child: child.name))


def _frames(awaited: object) -> Iterator[tuple[FrameType, int]]:
    """Iterate over the frames of a coroutine and of those it waits for."""
    while isinstance(awaited, CoroutineType):
        frame = awaited.cr_frame
        if frame is None:
            return
        yield frame, frame.f_lineno
        awaited = awaited.cr_await
