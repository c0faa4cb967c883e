"""The threads in which the blocking face runs an application's functions."""

import contextvars
import queue
import threading
from collections.abc import Callable

from lanemq.sdk.blocking._bridge import Threads


class FakeCallback:
    """A function to be run, and its end."""

    def __init__(self, function: Callable[[], str]) -> None:
        self.function = function
        self.context = contextvars.copy_context()
        self.ended: queue.Queue[tuple[object, BaseException | None]] = queue.Queue()

    def finish(self, value: object, error: BaseException | None) -> None:
        self.ended.put((value, error))


def test_workers_that_run_at_once_have_names_that_tell_them_apart() -> None:
    together = threading.Barrier(4)

    def name() -> str:
        together.wait(30)
        return threading.current_thread().name

    callbacks = [FakeCallback(name) for _ in range(4)]
    for callback in callbacks:
        Threads().start(callback)  # type: ignore[arg-type]
    ends = [callback.ended.get(timeout=30) for callback in callbacks]
    assert [error for _, error in ends] == [None] * 4
    names = {str(value) for value, _ in ends}
    assert len(names) == 4
    assert all(text.startswith("lanemq worker ") for text in names)
