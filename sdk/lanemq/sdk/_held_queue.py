"""A queue that this consumer reads at the moment."""

from collections.abc import Iterable
from typing import final

import trio

from lanemq.wire import MASTER_ID, MessageQueue

from ._messages import ReceivedMessage
from ._process_queue import ProcessQueue


@final
class HeldQueue:
    """What was pulled from a queue, and the task that pulls.

    Once dropped it takes no results any more: another consumer may own the queue, or its
    offsets were reset, and progress reported late would overwrite theirs.
    """

    def __init__(self, queue: MessageQueue, offset: int) -> None:
        self.queue = queue
        self.messages: ProcessQueue[ReceivedMessage] = ProcessQueue(offset)
        self.scope = trio.CancelScope()
        self.broker_id = MASTER_ID  # where the broker wants the next pull
        self.failing = False  # the last pull failed; the next failure is no news
        self.last_pull_ms = 0
        self.last_consume_ms = 0
        self._settled: trio.Event | None = None

    @property
    def dropped(self) -> bool:
        """Whether the queue was taken away."""
        return self.messages.dropped

    def drop(self) -> None:
        """Stop pulling and forget what was pulled."""
        self.messages.dropped = True
        self.messages.clear()
        self.scope.cancel()

    def settle(self, messages: Iterable[ReceivedMessage]) -> None:
        """Let messages go; ``messages.commit_offset`` may be further on now."""
        self.messages.settle(messages)
        if self._settled is not None:
            self._settled.set()
            self._settled = None

    async def wait_settled(self) -> None:
        """Wait until something is let go."""
        if self._settled is None:
            self._settled = trio.Event()
        await self._settled.wait()
