"""The completion of messages whose listener has returned: the policy that a worker pool asks."""

from collections.abc import Awaitable
from typing import Protocol

from ..pulls._held_queue import HeldQueue
from ._queue_consumer import Messages, QueueConsumer, S


class Completion(Protocol[S]):
    """A policy for messages whose listener has returned."""

    def complete(
        self, consumer: QueueConsumer[S], batch: Messages, outcome: object, *, timed_out: bool
    ) -> Awaitable[None] | None:
        """Act on the listener's result; an awaitable that is returned is awaited by the worker.

        ``timed_out`` says that the listener was cancelled.
        """

    def nothing_to_take(self, consumer: QueueConsumer[S]) -> None:
        """Note that the scheduler has no (other) batch that may run now."""

    def nothing_found(self, held: HeldQueue) -> None:
        """Note that a pull found nothing for the listener, but the next offset may have moved."""
