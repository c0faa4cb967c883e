"""The wait of a thread for the core."""

from queue import SimpleQueue
from typing import Any, TypeVar, final

from ..faces._portal_calls import Answer, Callback

T = TypeVar("T")


@final
class Waiter(Answer[T]):
    """A thread that waits for the outcome of one call, and does what the call asks of it."""

    def __init__(self) -> None:
        self._inbox: SimpleQueue[Callback[Any] | None] = SimpleQueue()

    def deliver(self, value: T | None, error: BaseException | None) -> None:
        self._value, self._error, self._over = value, error, True
        self._inbox.put(None)

    def hand_over(self, callback: Callback[Any]) -> None:
        self._inbox.put(callback)

    def wait(self) -> None:
        """Return when there is an outcome. What leaves it meanwhile was raised in this thread."""
        while not self._over:
            callback = self._inbox.get()
            if callback is not None:
                self._run(callback)
        self._inbox.put(None)  # another thread may wait for the same outcome

    def wait_idly(self) -> None:
        """Wait without doing anything for the call."""
        while not self._over:
            self._inbox.get()
        self._inbox.put(None)

    @staticmethod
    def _run(callback: Callback[Any]) -> None:
        try:
            value = callback.function()
        except Exception as error:  # the application's own, and it gets it back
            callback.finish(None, error)
        else:
            callback.finish(value, None)
