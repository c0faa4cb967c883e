"""Scheduler of a queue whose messages belong to several strategies, each with stages of its own.

Source: proposal RIP-22, MessageListenerStagedConcurrently.computeStrategy.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar, Generic, final

from lanemq.wire.message import StageRecord

from ...listeners._listener_context import Stage
from ..ordered._queue_progress import STRATEGIES_COUNT, QueueProgress
from ._stage_scheduler import Batch, BatchState, M, StageScheduler

Choose = Callable[[M], str | None]
"""Computes the strategy of a message; any other name than those declared means none."""


@final
class StrategyScheduler(Generic[M]):
    """The scheduler of one queue, made of one for each strategy and one for messages without any.

    Messages of different strategies do not wait for each other. ``start`` says how far each
    strategy is; what it has finished already is not handed out again.
    """

    exclusive: ClassVar[bool] = True
    __slots__ = ("_choose", "_finished_below", "_schedulers", "_taken", "_turns")

    def __init__(
        self,
        schedulers: Mapping[str, StageScheduler[M]],
        rest: StageScheduler[M],
        choose: Choose[M],
        start: QueueProgress,
    ) -> None:
        self._schedulers: dict[str | None, StageScheduler[M]] = {None: rest}
        self._schedulers.update(schedulers.items())
        self._choose = choose
        self._finished_below = {
            name: record.queue_offset for name, record in start.strategies.items()
        }
        self._turns = deque(self._schedulers.values())
        self._taken: dict[Batch[M], StageScheduler[M]] = {}

    def put(self, messages: Iterable[M], next_offset: int) -> Sequence[M]:
        """Take messages as they arrive; returns those that their strategy has finished."""
        finished: list[M] = []
        arrived: dict[str | None, list[M]] = {}
        for message in messages:
            name = self._choose(message)
            if name not in self._schedulers:
                name = None
            if name is not None and message.queue_offset < self._finished_below[name]:
                finished.append(message)
            else:
                arrived.setdefault(name, []).append(message)
        for name, scheduler in self._schedulers.items():
            scheduler.put(arrived.get(name, ()), self._next_of(name, next_offset))
        return finished

    def skip_to(self, next_offset: int) -> None:
        """Move on: nothing is wanted below ``next_offset`` but what came by ``put``."""
        for name, scheduler in self._schedulers.items():
            scheduler.skip_to(self._next_of(name, next_offset))

    def _next_of(self, name: str | None, next_offset: int) -> int:
        return next_offset if name is None else max(next_offset, self._finished_below[name])

    def take(self) -> Batch[M] | None:
        """Hand out the next batch of the strategies in turn, or None."""
        turns = self._turns
        for _ in range(len(turns)):
            scheduler = turns[0]
            turns.rotate(-1)
            batch = scheduler.take()
            if batch is not None:
                self._taken[batch] = scheduler
                return batch
        return None

    @property
    def has_more(self) -> bool:
        """True if ``take`` may have another batch, after it had one."""
        # Schedulers that wait for a record to be saved come before more is taken.
        return not self.must_save and any(s.is_waiting for s in self._turns)

    def finish(self, batch: Batch[M], messages: Sequence[M] | None = None) -> None:
        """Note that ``messages`` of ``batch`` (all if None) succeeded or were given up."""
        self._taken[batch].finish(batch, messages)
        if batch.state is BatchState.GONE:
            del self._taken[batch]

    def suspend(self, batch: Batch[M]) -> None:
        """Hold a batch back that has to run again, later."""
        self._taken[batch].suspend(batch)

    def resume(self, batch: Batch[M]) -> None:
        """Let the batch run again: the pause is over."""
        self._taken[batch].resume(batch)

    def stage(self, batch: Batch[M]) -> Stage | None:
        """Return the stage of ``batch``, within its strategy."""
        return self._taken[batch].stage(batch)

    def discard(self) -> None:
        """Forget the messages that wait: the queue is no longer held."""
        for scheduler in self._turns:
            scheduler.discard()

    @property
    def progress(self) -> QueueProgress:
        """The records to commit: of each strategy, and of the queue as a whole."""
        whole = min(scheduler.record.queue_offset for scheduler in self._turns)
        records = {
            name: scheduler.record
            for name, scheduler in self._schedulers.items()
            if name is not None
        }
        return QueueProgress(StageRecord(whole, STRATEGIES_COUNT), records)

    @property
    def must_save(self) -> bool:
        """True if a strategy waits for its record to be saved."""
        return any(scheduler.must_save for scheduler in self._turns)

    def unsaved(self) -> Sequence[StageScheduler[M]]:
        """Return the schedulers that wait for ``saved``."""
        return [scheduler for scheduler in self._turns if scheduler.must_save]
