# ruff: noqa: N818 - named for what happened, as in trio
"""Listeners for which order matters: of all messages of a queue, or of its stages only."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from lanemq.wire import Stages

from ._listener import Handle
from ._stage_counter import StageCounter
from ._stage_offsets import StageOffsetStore


class AbandonMessage(Exception):
    """Raised by an orderly or staged listener: its messages go to the dead letters at once."""


class LockLoss(Enum):
    """What becomes of running handlers when the lock of their queue is lost."""

    FINISH = "finish"
    """They run to their end."""
    CANCEL = "cancel"
    """They are cancelled."""


def _check(listener: "OrderlyListener | StagedConcurrentListener") -> None:
    if listener.concurrency < 1 or listener.batch_messages < 1:
        raise ValueError("concurrency and batch_messages must be at least 1")
    if listener.suspend_s <= 0:
        raise ValueError("suspend_s must be positive")
    if listener.max_reconsume_times is not None and listener.max_reconsume_times < 0:
        raise ValueError("max_reconsume_times must not be negative; None is without limit")


@dataclass(frozen=True, slots=True)
class OrderlyListener:
    """A listener that gets the messages of each queue in their order, one batch at a time.

    ``handle`` is awaited with up to ``batch_messages`` messages; ``concurrency`` queues have
    theirs run at once. ``Outcome.SUSPEND_CURRENT_QUEUE``, or any exception but
    ``AbandonMessage``, has the same messages handed over again after ``suspend_s`` seconds, and
    nothing else of that queue before them.

    Source: RocketMQ 4.9.8, MessageListenerOrderly, ConsumeMessageOrderlyService.
    """

    handle: Handle
    concurrency: int = 20
    batch_messages: int = 1
    suspend_s: float = 1.0
    """Seconds."""
    max_reconsume_times: int | None = None
    """Deliveries after the first, before a message goes to the dead letters; None: without
    limit, as in Java."""
    on_lock_loss: LockLoss = LockLoss.FINISH
    """What becomes of running handlers when the lock of their queue is lost. Whatever they
    return does not count: the messages come again, here or at another consumer."""

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True, slots=True)
class StagedConcurrentListener:
    """A listener that gets each queue's messages stage by stage, each stage concurrently.

    ``stages`` are the sizes of consecutive stages of a queue: with ``[10, 20, 70]`` the first
    10 messages are all finished before any of the next 20 is handed over, and these before any
    of the next 70; what follows has no order. Inside a stage up to ``concurrency`` handlers run
    at once (for all queues together), each with up to ``batch_messages`` messages of one stage.
    Without any stages it is a ``ConcurrentListener``.

    ``Outcome.SUSPEND_CURRENT_QUEUE``, or any exception but ``AbandonMessage``, has the messages
    handed over again after ``suspend_s`` seconds; the next stage waits, the same stage goes on.

    See docs/staged.md. Nothing like it is in RocketMQ; the idea is its proposal RIP-22.
    """

    handle: Handle
    stages: Sequence[int]
    concurrency: int = 20
    batch_messages: int = 1
    suspend_s: float = 1.0
    """Seconds."""
    max_reconsume_times: int | None = 16
    """Deliveries after the first, before a message goes to the dead letters; None: without
    limit."""
    reset_current_stage_offset_if_needed: Callable[[str, StageCounter], None] | None = None
    """Called with topic and counter before each decision which message may be handed over;
    ``counter.compare_and_set(expected, new)`` begins to count anew, as for a new day."""
    on_lock_loss: LockLoss = LockLoss.FINISH
    """As in ``OrderlyListener``."""
    store: StageOffsetStore | None = None
    """Where progress is kept; None is the brokers, or a local file when broadcasting."""
    group_offset_wins: bool = False
    """What to do when somebody else moved the group's offset while no consumer was there: go on
    from their offset with stage offset 0, or (the default) warn and go on from the record."""

    def __post_init__(self) -> None:
        _check(self)
        Stages(self.stages)  # says what is wrong with them
