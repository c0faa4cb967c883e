"""A task of a worker pool, and the call of the listener that it is at."""

from collections.abc import Callable, Sequence
from math import inf
from typing import Generic, final

import trio

from ..._errors import BodyNotRestored
from ..._messages import Outcome, ReceivedMessage
from ..._unpacking import any_packed, unpack
from ...listeners._listener import Handle
from ...listeners._ordered_listeners import AbandonMessage
from ...observe._consume_stats import TopicStats
from ..pulls._held_queue import HeldQueue
from ._failures import abandonment, log_failure, reason_of
from ._queue_consumer import Messages, QueueConsumer, S


@final
class Worker(Generic[S]):
    """A task that calls the listener for one batch after the other.

    A cancel scope for every message would cost as much as the rest of its way to the listener:
    a worker keeps one as long as nobody cancels a call of it.
    """

    __slots__ = ("cancelled", "job", "outcome", "scope", "since_s")

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.cancelled = False  # the scope knows it as well, but slowly
        self.job: tuple[QueueConsumer[S], Messages] | None = None
        self.outcome: object = None
        """None for a success; else an Outcome, Retry or AbandonMessage, where the listener is
        right."""
        self.since_s = inf  # when the listener was called; inf while it does not run

    def cancel(self) -> None:
        """Cancel the listener that runs."""
        self.cancelled = True
        self.scope.cancel()

    async def run(
        self,
        handle: Handle,
        held: HeldQueue,
        messages: Sequence[ReceivedMessage],
        *,
        stats: TopicStats,
        clock_ms: Callable[[], int],
        now_s: float,
    ) -> float:
        """Call the listener, leave its result in ``outcome``, and return the time."""
        held.last_consume_ms = clock_ms()
        self.outcome = Outcome.RETRY  # the outcome after a cancellation
        self.since_s = started_s = now_s
        failure: BaseException | None = None
        try:
            if any_packed(messages):
                await unpack(messages)
            outcome = await handle(messages)
            self.outcome = None if outcome is Outcome.SUCCESS else outcome
        except (AbandonMessage, BodyNotRestored) as error:
            failure = error
            self.outcome = abandonment(error, messages)
        except Exception as error:  # the application's own
            failure = error
            log_failure(messages, error)
        except trio.Cancelled as error:
            failure = error
            raise
        finally:
            if self.outcome is not None:
                reason = reason_of(self.outcome, failure)
                for message in messages:
                    message._note_failure(reason)
            self.since_s = inf
            now_s = trio.current_time()
            stats.consumed(now_s, len(messages), now_s - started_s, ok=self.outcome is None)
        return now_s
