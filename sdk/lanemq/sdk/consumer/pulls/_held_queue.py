"""A queue that this consumer reads at the moment."""

from collections.abc import Callable, Iterable
from typing import final

import trio

from lanemq.wire.bodies import MASTER_ID, MessageQueue

from ..._messages import ReceivedMessage
from ._process_queue import ProcessQueue


@final
class HeldQueue:
    """A queue that is held, with its pulled messages and the task that pulls.

    Once dropped it takes no results any more: another consumer may own the queue, or its
    offsets were reset, and progress reported late would overwrite theirs.
    """

    def __init__(self, queue: MessageQueue, offset: int) -> None:
        self.queue = queue
        self.lost_at: int | None = None
        """The group's offset when the lock of the queue was lost; None while it is not, and where
        nothing was finished before."""
        self.messages: ProcessQueue[ReceivedMessage] = ProcessQueue(offset)
        self.scope = trio.CancelScope()
        self.broker_id = MASTER_ID  # where the broker wants the next pull
        self.failing = False  # the last pull failed; the next failure is not news
        self.is_full: Callable[[], bool] | None = None
        """Says that nothing more is to be pulled until something is released; None: never."""
        self.returned: int | None = None
        """The offset behind the messages that a lite pull consumer returned; None before that."""
        self.last_pull_ms = 0
        self.last_consume_ms = 0
        self._released: trio.Event | None = None

    @property
    def dropped(self) -> bool:
        """True if the queue was taken away."""
        return self.messages.dropped

    def drop(self) -> None:
        """Stop pulling and forget what was pulled."""
        self.messages.dropped = True
        self.messages.clear()
        self.scope.cancel()

    def release(self, messages: Iterable[ReceivedMessage]) -> None:
        """Release messages; ``messages.commit_offset`` may be further on now."""
        self.messages.release(messages)
        if self._released is not None:
            self._released.set()
            self._released = None

    async def wait_released(self) -> None:
        """Wait until something is released."""
        if self._released is None:
            self._released = trio.Event()
        await self._released.wait()
