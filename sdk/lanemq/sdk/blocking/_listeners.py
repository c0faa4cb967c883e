"""Generated from lanemq.sdk.listeners by sdk/tools/generate_faces.py."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

from .._messages import ReceivedMessage
from ..listeners import _listener as _core_listener
from ..listeners import _ordered_listeners as _core_ordered_listeners
from ..listeners._listener import Handle as CoreHandle
from ..listeners._ordered_listeners import LockLoss, StageCounter
from ..listeners._ordered_listeners import StageOffsetStore as CoreStore
from ._callables import Handle, StageOffsetStore, check_plain, no_handle


@dataclass(frozen=True, slots=True)
class ConcurrentListener:
    """A listener for which the order of messages does not matter.

    ``handle`` is called with up to ``batch_messages`` messages of one queue, in up to
    ``concurrency`` threads at once. Returning None or ``Outcome.SUCCESS`` settles them;
    ``Outcome.RETRY``, or any exception, has all of them delivered again later; a ``Retry`` says
    when, and which are settled. With a second parameter ``handle`` is given a
    ``ListenerContext`` too.
    """

    handle: Handle
    concurrency: int = 20
    batch_messages: int = 1

    def __post_init__(self) -> None:
        check_plain(self.handle, "the listener")
        self.for_core(no_handle)

    def for_core(self, handle: CoreHandle) -> _core_listener.ConcurrentListener:
        """Return this listener for the core, with functions that forward to these."""
        return _core_listener.ConcurrentListener(
            handle=handle, concurrency=self.concurrency, batch_messages=self.batch_messages
        )


@dataclass(frozen=True, slots=True)
class OrderlyListener:
    """A listener that gets the messages of each queue in their order, one batch at a time.

    ``handle`` is called with up to ``batch_messages`` messages; ``concurrency`` queues have
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
        check_plain(self.handle, "the listener")
        self.for_core(no_handle)

    def for_core(self, handle: CoreHandle) -> _core_ordered_listeners.OrderlyListener:
        """Return this listener for the core, with functions that forward to these."""
        return _core_ordered_listeners.OrderlyListener(
            handle=handle,
            concurrency=self.concurrency,
            batch_messages=self.batch_messages,
            suspend_s=self.suspend_s,
            max_reconsume_times=self.max_reconsume_times,
            on_lock_loss=self.on_lock_loss,
        )


@dataclass(frozen=True, slots=True)
class KeyOrderedListener:
    """A listener that gets the messages of each key one after the other, those of others at once.

    ``key`` computes the key of a message, such as an order's number: anything that can be a key
    of a dictionary, always the same for the same message; None is a message without an order.
    ``handle`` is called with up to ``batch_messages`` messages of one key, for up to
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
        check_plain(self.handle, "the listener")
        self.for_core(no_handle)

    def for_core(self, handle: CoreHandle) -> _core_ordered_listeners.KeyOrderedListener:
        """Return this listener for the core, with functions that forward to these."""
        return _core_ordered_listeners.KeyOrderedListener(
            handle=handle,
            key=self.key,
            concurrency=self.concurrency,
            batch_messages=self.batch_messages,
            suspend_s=self.suspend_s,
            max_reconsume_times=self.max_reconsume_times,
            above_max=self.above_max,
            on_lock_loss=self.on_lock_loss,
        )


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
        check_plain(self.handle, "the listener")
        self.for_core(no_handle, None)

    def for_core(
        self, handle: CoreHandle, store: CoreStore | None
    ) -> _core_ordered_listeners.StagedConcurrentListener:
        """Return this listener for the core, with functions that forward to these."""
        return _core_ordered_listeners.StagedConcurrentListener(
            handle=handle,
            stages=self.stages,
            concurrency=self.concurrency,
            batch_messages=self.batch_messages,
            suspend_s=self.suspend_s,
            max_reconsume_times=self.max_reconsume_times,
            reset_current_stage_offset_if_needed=self.reset_current_stage_offset_if_needed,
            compute_strategy=self.compute_strategy,
            on_lock_loss=self.on_lock_loss,
            store=store,
            group_offset_wins=self.group_offset_wins,
        )
