# ruff: noqa: N818 - named for what happened, as in trio
"""Listeners for which order matters: of all messages of a queue, of its stages, or of its keys."""

import inspect
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol, final

from lanemq.wire.bodies import MessageQueue
from lanemq.wire.message import STAGE_OFFSET_MAX, StageRecord, Stages

from .._messages import ReceivedMessage
from .._values import check_fields
from ._listener import Handle

_STRATEGY: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@final
class StageCounter:
    """The number of a queue's messages that were handed out since the counter was last reset."""

    __slots__ = ("_value", "strategy")

    def __init__(self, value: int, strategy: str | None = None) -> None:
        self._value = value
        self.strategy = strategy
        """The strategy whose messages it counts; None for a listener that has no strategies."""

    @property
    def value(self) -> int:
        """The number that the next message will get; stops at ``STAGE_OFFSET_MAX``."""
        return self._value

    def compare_and_set(self, expected: int, new: int) -> bool:
        """Set it to ``new`` if it is ``expected``; say whether it was.

        The next message begins again with number ``new``, once everything handed out before is
        finished. Raises ``ValueError`` for a number that cannot be counted.
        """
        if not 0 <= new <= STAGE_OFFSET_MAX:
            raise ValueError(f"a stage offset is from 0 to {STAGE_OFFSET_MAX}, not {new}")
        if self._value != expected:
            return False
        self._value = new
        return True

    def __repr__(self) -> str:
        return f"StageCounter({self._value})"


class AbandonMessage(Exception):
    """Raised by a listener: its messages go to the dead letters at once.

    With ``messages`` only these of the batch do, and the others are handed over again. Where
    none of them is of the batch, as of an empty list, the batch counts as failed.
    """

    messages: tuple[ReceivedMessage, ...] | None = None
    """None for the whole batch."""

    def __init__(self, *reasons: object, messages: Iterable[ReceivedMessage] | None = None) -> None:
        super().__init__(*reasons)
        if messages is None:
            return
        self.messages = tuple(messages)
        for message in self.messages:
            if not isinstance(message, ReceivedMessage):
                raise TypeError(f"messages= takes messages of the batch, not {message!r}")

    def of(self, batch: Sequence[ReceivedMessage]) -> Sequence[ReceivedMessage]:
        """Return the messages of ``batch`` that are abandoned."""
        if self.messages is None:
            return batch
        chosen = {(message.queue, message.queue_offset) for message in self.messages}
        return [m for m in batch if (m.queue, m.queue_offset) in chosen]


class LockLoss(Enum):
    """The fate of running handlers when the lock of their queue is lost."""

    FINISH = "finish"
    """Handlers run to their end."""
    CANCEL = "cancel"
    """Handlers are cancelled."""


class StageOffsetStore(Protocol):
    """Keeps one record for each queue, and one for each of its strategies, if there are any.

    Both methods raise when they cannot: the client logs it, and asks again.
    """

    async def load(self, queue: MessageQueue, strategy: str = "") -> StageRecord | None:
        """Return the record that was saved last, or None before the first."""

    async def save(self, queue: MessageQueue, record: StageRecord, strategy: str = "") -> None:
        """Keep ``record``; it lasts on return."""


def _check(listener: "OrderlyListener | KeyOrderedListener | StagedConcurrentListener") -> None:
    check_fields(listener)
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
    nothing else of that queue before them. A ``Retry`` says another pause, and which are settled.

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
    """The fate of running handlers when the lock of their queue is lost. Success counts
    where this consumer is the next one that has the queue, as after a restart of the broker; else
    the messages come again, here or at another consumer."""

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True, slots=True)
class KeyOrderedListener:
    """A listener that gets the messages of each key one after the other, those of others at once.

    ``key`` computes the key of a message, such as an order's number: anything that can be a key
    of a dictionary, always the same for the same message; None is a message without an order.
    ``handle`` is awaited with up to ``batch_messages`` messages of one key, for up to
    ``concurrency`` keys at once, however many queues there are. Keys are ordered within a queue,
    so messages of one key have to be sent to one queue, by ``queue_key``.

    ``Outcome.SUSPEND_CURRENT_QUEUE``, or any exception but ``AbandonMessage``, has the messages
    handed over again after ``suspend_s`` seconds; messages of the same key wait for that, others
    do not. A ``Retry`` says another pause, and which are settled.

    The progress of a queue is its lowest unfinished offset. At most ``above_max`` messages that
    arrived after it are handed over; then the queue is not pulled until it is finished. After a
    crash at most these come again, in the order of their keys.

    See docs/staged.md. Nothing like it is in RocketMQ; it was asked for in apache/rocketmq 1889.
    """

    handle: Handle
    key: Callable[[ReceivedMessage], Hashable | None]
    """Called once for each message that arrives, without waiting. Its errors are logged; messages
    on which it fails are handled one after the other, as if they had one key."""
    concurrency: int = 20
    batch_messages: int = 1
    suspend_s: float = 1.0
    """Seconds."""
    max_reconsume_times: int | None = 16
    """Deliveries after the first, before a message goes to the dead letters and its key goes on;
    None: without limit."""
    above_max: int = 1000
    """Messages of a queue that may be handed over, or finished, beyond the lowest unfinished."""
    on_lock_loss: LockLoss = LockLoss.FINISH
    """The fate of running handlers when the lock of their queue is lost. Whatever they
    return does not count: the messages come again, here or at another consumer."""

    def __post_init__(self) -> None:
        _check(self)
        if inspect.iscoroutinefunction(self.key):
            raise ValueError("key is called without waiting: write `def`")
        if self.above_max < 1:
            raise ValueError("above_max must be at least 1")


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
    A ``Retry`` says another pause, and which are settled.

    With several definitions, ``stages={"gold": [1, 5], "silver": [10, 20]}``, each message
    belongs to the strategy that ``compute_strategy`` names. Strategies are counted apart and do
    not wait for each other; a message with any other name, or None, has no order.

    See docs/staged.md. Nothing like it is in RocketMQ; the idea is its proposal RIP-22.
    """

    handle: Handle
    stages: Sequence[int] | Mapping[str, Sequence[int]]
    concurrency: int = 20
    batch_messages: int = 1
    suspend_s: float = 1.0
    """Seconds."""
    max_reconsume_times: int | None = 16
    """Deliveries after the first, before a message goes to the dead letters; None: without
    limit."""
    reset_current_stage_offset_if_needed: Callable[[str, StageCounter], None] | None = None
    """Called with topic and counter before each decision which message may be handed over;
    ``counter.compare_and_set(expected, new)`` begins to count again, as for a new day."""
    compute_strategy: Callable[[ReceivedMessage], str | None] | None = None
    """Called once for each message that arrives: the name of its strategy, always the same for
    the same message. Its errors are logged, and the message then has no strategy."""
    on_lock_loss: LockLoss = LockLoss.FINISH
    """The fate of running handlers when the lock of their queue is lost. Whatever they
    return does not count: the messages come again, here or at another consumer."""
    store: StageOffsetStore | None = None
    """The keeper of progress; None is the brokers, or a local file when broadcasting."""
    group_offset_wins: bool = False
    """The rule for when somebody else moved the group's offset while no consumer was there: go on
    from their offset with stage offset 0, or (the default) warn and go on from the record."""

    def __post_init__(self) -> None:
        _check(self)
        if isinstance(self.stages, Mapping) != (self.compute_strategy is not None):
            raise ValueError(
                "several stage definitions need `compute_strategy`, and it needs them: write"
                " stages={'gold': [1, 5], 'silver': [10]}"
            )
        if inspect.iscoroutinefunction(self.compute_strategy):
            raise ValueError("compute_strategy is called without waiting: write `def`")
        if not isinstance(self.stages, Mapping):
            Stages(self.stages)  # says what is wrong with them
            return
        for name, sizes in self.stages.items():
            if not _STRATEGY.fullmatch(name):
                raise ValueError(
                    f"{name!r} is not a name for a strategy: letters, digits, - and _, at most 64"
                )
            Stages(sizes)
