"""Calls of a listener that runs outside of the core, and the executor that runs them.

The core hands calls over and gets them back many at a time: to hand over one alone would cost more
than all else that a message needs.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, final

import msgspec

from ..._errors import BodyNotRestored
from ..._messages import Outcome, ReceivedMessage
from ...listeners._listener_context import ListenerContext
from ...listeners._ordered_listeners import AbandonMessage
from ._failures import abandonment, log_failure
from ._queue_consumer import Messages, QueueConsumer

OUTSIDE: Final = "lanemq_outside"


@final
class OutsideCall(msgspec.Struct, eq=False, gc=False):
    """One call of the listener. The executor writes the second group of fields.

    There is one for each message; none is part of a cycle, so the collector need not look.
    """

    consumer: QueueConsumer[Any]
    batch: Messages
    messages: tuple[ReceivedMessage, ...]
    """The argument of the listener."""
    context: ListenerContext | None = None
    """The second argument, of a listener that takes a context."""
    is_packed: bool = False
    """True if bodies are to be unpacked before the call, where it would hold a loop up."""

    begun_s: float | None = None
    """The time of the executor's clock when the function was called; None before."""
    spent_s: float = 0.0
    value: object = None
    error: BaseException | None = None
    was_cancelled: bool = False
    """True if the function was stopped before it had an outcome."""
    was_skipped: bool = False
    """True if the function was not called: the queue was given up before."""
    is_special: bool = False
    """True if there is more to know than ``value``: an error, or one of the other flags."""

    is_late: bool = False
    """True once the call was told to stop."""
    is_abandoned: bool = False
    """True once nothing waits for the call any more, whatever its outcome is."""
    on_end: Callable[[], object] | None = None

    def outcome(self) -> object:
        """Return the outcome as a completion takes it: None for a success; log an error."""
        error = self.error
        if error is None:
            return None if self.value is Outcome.SUCCESS else self.value
        if isinstance(error, AbandonMessage | BodyNotRestored):
            return abandonment(error, self.batch.messages)
        if not isinstance(error, Exception):
            # No reason for the core to end: SystemExit in a thread, a task that was cancelled.
            failure = RuntimeError(f"the application's function ended by {error!r}")
            failure.__cause__, self.error = error, failure
            error = failure
        log_failure(self.batch.messages, error)
        return Outcome.RETRY


class ListenerExecutor(Protocol):
    """Runs the calls of one listener outside of the core, at most ``limit`` at once.

    Its methods are called in the core's thread.
    """

    cancel_grace_s: float
    """Longest time a call that was told to stop may take for it; 0 where it cannot be told."""
    limit: int
    """The largest number of calls that run at once."""
    ended: deque[OutsideCall]
    """The calls that have ended, in their order; the core removes them."""
    is_waiting_ordered: bool
    """True if a call that is late has to end before anything else of its order may begin."""

    @property
    def is_closed(self) -> bool:
        """True once nothing can run there any more."""

    def open(self, on_ended: Callable[[], object]) -> None:
        """Have ``on_ended`` called in the core's thread when calls have ended."""

    def now_s(self) -> float:
        """Return the time of the clock by which ``begun_s`` is set."""

    def begin(self, calls: Sequence[OutsideCall]) -> None:
        """Begin calls in their order, as soon as there is room. Raises ``ClientClosed``."""

    def nudge(self) -> None:
        """Look again at the calls that have not begun."""

    def recall(self) -> list[OutsideCall]:
        """Take back all calls that have not begun, in their order."""

    def running(self) -> list[OutsideCall]:
        """Return the calls that run."""

    def cancel(self, call: OutsideCall) -> None:
        """Tell a call that runs to stop, if the executor is able to."""

    async def wait_for_leave(self) -> None:
        """Return when the client is about to be closed: nothing waits for its order then."""

    def close(self) -> None:
        """End what waits for calls; those that run may go on."""


def run_outside(handle: Callable[..., object], executor: ListenerExecutor) -> None:
    """Mark ``handle``, which forwards to ``executor``: a pool may use it directly."""
    setattr(handle, OUTSIDE, executor)


def listener_executor_of(handle: Callable[..., object]) -> ListenerExecutor | None:
    """Return the executor that ``handle`` does nothing but forward to; None for all others."""
    return getattr(handle, OUTSIDE, None)
