"""Notice to an application of the queues that its consumer takes and gives up.

Source: RocketMQ 4.9.8, MessageQueueListener.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final

import trio

from lanemq.wire.bodies import MessageQueue

from .._namespace import queue_out
from ..observe._send_hooks import call_hook


@final
@dataclass(frozen=True, slots=True)
class QueueChange:
    """Queues of one topic that a consumer was assigned, and queues that were taken from it."""

    topic: str
    assigned: tuple[MessageQueue, ...]
    """Read from now on; no message of them was handed over yet. Sorted."""
    revoked: tuple[MessageQueue, ...]
    """Queues that are no longer read; no message of them is handed over any more. Sorted."""


QueueListener = Callable[[QueueChange], Awaitable[None] | None]
"""An application's function, plain or async, that is told of changes."""


@final
class QueueChanges:
    """Changes on their way to one application, told one after the other.

    What happens to one queue is told in its order; what happens to several of a topic at once is
    told together.
    """

    def __init__(self, tell: QueueListener | None, namespace: str) -> None:
        self._tell = tell
        self._namespace = namespace
        self._pending: deque[tuple[MessageQueue, trio.Event | None]] = deque()
        self._untold: dict[MessageQueue, trio.Event] = {}
        self._more = trio.Event()
        self._gathering = 0

    @contextmanager
    def together(self) -> Iterator[None]:
        """Report all changes within the block together, at its end."""
        self._gathering += 1
        try:
            yield
        finally:
            self._gathering -= 1
            self._wake()

    def assigned(self, queue: MessageQueue) -> None:
        """Report that ``queue`` is read from now on."""
        if self._tell is not None:
            told = self._untold[queue] = trio.Event()
            self._pending.append((queue, told))
            self._wake()

    def revoked(self, queue: MessageQueue) -> None:
        """Report that ``queue`` is no longer read."""
        if self._tell is not None:
            self._pending.append((queue, None))
            self._wake()

    async def wait_told(self, queue: MessageQueue) -> None:
        """Return when the application knows that it was assigned ``queue``."""
        told = self._untold.get(queue)
        if told is not None:
            await told.wait()

    def _wake(self) -> None:
        if self._pending and not self._gathering:
            self._more.set()

    async def run(self) -> None:
        """Report changes until cancelled."""
        while self._tell is not None:
            await self._more.wait()
            self._more = trio.Event()
            while self._pending:
                changed = self._take()
                await call_hook(self._tell, self._describe(changed))
                for queue, told in changed.items():
                    if told is not None:
                        told.set()
                        if self._untold.get(queue) is told:
                            del self._untold[queue]

    def _take(self) -> dict[MessageQueue, trio.Event | None]:
        """Return the next changes of one topic, at most one for each queue."""
        topic = self._pending[0][0].topic
        taken: dict[MessageQueue, trio.Event | None] = {}
        left: deque[tuple[MessageQueue, trio.Event | None]] = deque()
        for queue, told in self._pending:
            if queue.topic == topic and queue not in taken:
                taken[queue] = told
            else:
                left.append((queue, told))
        self._pending = left
        return taken

    def _describe(self, queues: dict[MessageQueue, trio.Event | None]) -> QueueChange:
        assigned = [queue for queue, told in queues.items() if told is not None]
        revoked = [queue for queue, told in queues.items() if told is None]
        return QueueChange(
            queue_out(self._namespace, next(iter(queues))).topic,
            self._out(assigned),
            self._out(revoked),
        )

    def _out(self, queues: list[MessageQueue]) -> tuple[MessageQueue, ...]:
        return tuple(sorted(queue_out(self._namespace, queue) for queue in queues))
