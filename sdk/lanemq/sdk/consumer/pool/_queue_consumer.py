"""The state of one queue in a worker pool: its scheduler, its lock, and the calls that run.

And what a pool asks of others: schedulers, and a policy for messages that were handed out.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import InitVar, dataclass, field
from typing import ClassVar, Generic, Protocol, TypeVar, final

import trio

from ..._messages import ReceivedMessage
from ...listeners._listener_context import ListenerContext, Stage
from ...observe._consume_stats import TopicStats
from ..ordered._queue_locks import Lease
from ..pulls._held_queue import HeldQueue
from ._stage_scheduler import Batch, StageScheduler

Messages = Batch[ReceivedMessage]


class Scheduler(Protocol):
    """Decides which messages of one queue may be handed to a listener next. No I/O, no clock."""

    exclusive: ClassVar[bool]
    """True if running calls restrict which calls may start. Then none starts beside calls from an
    earlier time that the queue was held, and each end of a call is a reason to look again."""

    def put(
        self, messages: Iterable[ReceivedMessage], next_offset: int
    ) -> Sequence[ReceivedMessage]:
        """Take messages that arrived behind all before; the next is not below ``next_offset``.

        Returns those that were finished when the queue was held before.
        """

    def skip_to(self, next_offset: int) -> None:
        """Move on: nothing is wanted below ``next_offset`` but what came by ``put``."""

    def take(self) -> Messages | None:
        """Hand out the next batch, or None while there is none that may run."""

    @property
    def has_more(self) -> bool:
        """True if ``take`` may have another batch, after it had one."""

    def stage(self, batch: Messages) -> Stage | None:
        """Return the stage of ``batch``; None where there are none."""

    def discard(self) -> None:
        """Forget the messages that wait: the queue is no longer held."""


class OrderedScheduler(Scheduler, Protocol):
    """A scheduler for which it matters when a batch is finished."""

    def finish(self, batch: Messages, messages: Sequence[ReceivedMessage] | None = None) -> None:
        """Note that ``messages`` of ``batch`` (all if None) succeeded or were given up."""

    def suspend(self, batch: Messages) -> None:
        """Hold a batch back that has to run again, later."""

    def resume(self, batch: Messages) -> None:
        """Let the batch run again: the pause is over."""

    @property
    def must_save(self) -> bool:
        """True if something waits for the record of the queue to be saved."""

    def unsaved(self) -> "Sequence[StageScheduler[ReceivedMessage]]":
        """Return the records that wait to be saved; ``saved`` of each is to be called."""


S = TypeVar("S", bound=Scheduler)


@final
@dataclass(eq=False, repr=False, kw_only=True, slots=True)
class QueueConsumer(Generic[S]):
    """The state of one queue while it is held."""

    held: HeldQueue
    scheduler: S
    lease: Lease | None
    """The lock of the queue; None where nobody locks."""
    stats: TopicStats
    on_wake: "Callable[[QueueConsumer[S]], None]"
    predecessor: "InitVar[QueueConsumer[S] | None]"
    exclusive: bool = field(init=False)
    running: int = 0
    """Calls of the listener that run."""
    predecessors_running: int = 0
    """Calls that still run from an earlier time that the queue was held."""
    successor: "QueueConsumer[S] | None" = None
    """The consumer of the same queue after it was given up and held again."""
    queued: bool = False  # among those that workers look at next
    retired: bool = False  # nothing is handed out any more
    saving: bool = False
    idle: trio.Event | None = None

    def __post_init__(self, predecessor: "QueueConsumer[S] | None") -> None:
        self.exclusive = self.scheduler.exclusive
        if predecessor is not None:
            predecessor.successor = self
            if self.exclusive:
                self.predecessors_running = predecessor.predecessors_running + predecessor.running

    def wake(self) -> None:
        """Let a worker look at this queue now, if one is free."""
        self.on_wake(self)

    @property
    def current(self) -> "QueueConsumer[S]":
        """The consumer of this queue as it is held now."""
        consumer = self
        while consumer.successor is not None:
            consumer = consumer.successor
        return consumer


def context_of(group: str, consumer: QueueConsumer[S], batch: Messages) -> ListenerContext:
    """Return the context of a call of the listener with ``batch``."""
    return ListenerContext(
        group,
        batch.messages[0].queue,
        1 + max(message.reconsume_times for message in batch.messages),
        consumer.scheduler.stage(batch),
    )


class Completion(Protocol[S]):
    """A policy for messages whose listener has returned."""

    def complete(
        self, consumer: QueueConsumer[S], batch: Messages, outcome: object, *, timed_out: bool
    ) -> Awaitable[None] | None:
        """Act on the listener's result; an awaitable that is returned is awaited by the worker.

        ``outcome`` is as ``Worker.outcome``, None for a success. ``timed_out`` says that the
        listener was cancelled.
        """

    def nothing_to_take(self, consumer: QueueConsumer[S]) -> None:
        """Note that the scheduler has no (other) batch that may run now."""

    def nothing_found(self, held: HeldQueue) -> None:
        """Note that a pull found nothing for the listener, but the next offset may have moved."""
