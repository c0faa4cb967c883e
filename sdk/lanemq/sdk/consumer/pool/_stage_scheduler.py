"""Scheduler of a queue with stages, or with a strict order. No I/O, no clock, no task.

Messages come in the order of their queue (``put``), are handed out in batches (``take``) and
finish in any order. They are numbered as they are handed out; the numbers decide the stage.
A batch moves through these states, and no other way::

              take                 finish
    (waiting) -----> RUNNING ------------------> (gone)
                      ^   |                        ^
                 take |   | suspend                | finish
                      |   v                        |
                    READY <---- SUSPENDED ---------+
                         resume

``take`` begins a stage only when nothing of an earlier one is left in any of these states.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import ClassVar, Final, Generic, TypeVar, final

import msgspec

from lanemq.wire.message import STAGE_OFFSET_MAX, StageRecord, Stages

from ...listeners._listener_context import Stage
from ...listeners._ordered_listeners import StageCounter
from ..pulls._process_queue import HasOffset

M = TypeVar("M", bound=HasOffset)

Reset = Callable[[StageCounter], None]
"""Looks at the counter before a decision, and may reset it."""

_ENDLESS: Final = STAGE_OFFSET_MAX + 1


class BatchState(Enum):
    """The state of a batch."""

    RUNNING = "running"
    SUSPENDED = "suspended"
    READY = "ready"
    GONE = "gone"


RUNNING, GONE = BatchState.RUNNING, BatchState.GONE  # looked up for every message


class Batch(msgspec.Struct, Generic[M], eq=False, gc=False):
    """Messages handed out together; neighbours in their queue, and all of one stage.

    None is part of a cycle: the collector need not look.
    """

    messages: tuple[M, ...]
    first_number: int
    state: BatchState = RUNNING
    _numbers: Sequence[int] | None = None  # they follow each other, until some are gone

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of ``messages``."""
        if self._numbers is None:
            return range(self.first_number, self.first_number + len(self.messages))
        return self._numbers

    def keep(self, left: Sequence[tuple[M, int]]) -> None:
        """Go on with these messages and their numbers only."""
        self.messages = tuple(message for message, _ in left)
        self._numbers = [number for _, number in left]
        self.first_number = self._numbers[0]

    def __repr__(self) -> str:
        offsets = ", ".join(str(message.queue_offset) for message in self.messages)
        return f"<Batch of offsets {offsets}, {self.state.value}>"


@final
class StageScheduler(Generic[M]):
    """The scheduler of one queue, from ``start`` on.

    ``serial`` makes every batch a stage of its own, as an orderly listener wants it. ``reset``
    is called before every decision; where it changes the counter, the next message waits until
    everything handed out before is finished and the record of that was saved: otherwise a crash
    could class messages into a later stage than before.
    """

    exclusive: ClassVar[bool] = True
    __slots__ = (
        "_batch_messages",
        "_end",
        "_in_flight",
        "_next_offset",
        "_number",
        "_ready",
        "_reset",
        "_serial",
        "_stages",
        "_strategy",
        "_turning",
        "_waiting",
    )

    def __init__(
        self,
        stages: Stages,
        start: StageRecord,
        *,
        batch_messages: int = 1,
        serial: bool = False,
        reset: Reset | None = None,
        strategy: str | None = None,
    ) -> None:
        assert batch_messages > 0
        self._stages = stages
        self._batch_messages = batch_messages
        self._serial = serial
        self._reset = reset
        self._strategy = strategy
        self._number = start.stage_offset  # of the first message waiting
        self._end = self._end_of(self._number)  # of the stage that may be handed out
        self._next_offset = start.queue_offset
        self._turning = False
        self._waiting: deque[M] = deque()
        self._ready: deque[Batch[M]] = deque()
        self._in_flight: dict[Batch[M], None] = {}  # in the order of the queue

    def _end_of(self, number: int) -> int:
        end = self._stages.end_of(number)
        return _ENDLESS if end is None else end

    # Messages of the queue

    def put(self, messages: Iterable[M], next_offset: int) -> Sequence[M]:
        """Take messages that arrived behind all before; the next is not below ``next_offset``."""
        self._waiting.extend(messages)
        self.skip_to(next_offset)
        return ()

    def skip_to(self, next_offset: int) -> None:
        """Move on: nothing is wanted below ``next_offset`` but what came by ``put``."""
        assert next_offset >= self._next_offset, "a queue is read forward"
        self._next_offset = next_offset

    def discard(self) -> None:
        """Forget the messages that wait: the queue is no longer held."""
        self._waiting.clear()
        self._ready.clear()

    # Results of the listener

    def take(self) -> Batch[M] | None:
        """Hand out the next batch, or None while there is none that may run."""
        if self._ready:
            batch = self._ready.popleft()
            batch.state = RUNNING
            return batch
        if not self._waiting:
            return None
        if self._reset is not None and not self._turning:
            self._ask_for_reset(self._reset)
        if self._turning:
            return None
        if self._in_flight:
            if self._serial or self._number >= self._end:
                return None
        elif self._number >= self._end:
            self._end = self._end_of(self._number)
        number = self._number
        if self._batch_messages == 1:
            batch = Batch((self._waiting.popleft(),), number)
            number += 1
        else:
            # The number stops behind the last stage, where it does not limit the batch.
            room = self._end - number if self._end != _ENDLESS else self._batch_messages
            size = min(self._batch_messages, len(self._waiting), room)
            batch = Batch(tuple(self._waiting.popleft() for _ in range(size)), number)
            number += size
        self._number = number if number < STAGE_OFFSET_MAX else STAGE_OFFSET_MAX
        self._in_flight[batch] = None
        return batch

    def _ask_for_reset(self, reset: Reset) -> None:
        counter = StageCounter(self._number, self._strategy)
        reset(counter)
        if counter.value != self._number:
            self._number = counter.value
            self._turning = True

    def finish(self, batch: Batch[M], messages: Sequence[M] | None = None) -> None:
        """Note that ``messages`` of ``batch`` (all if None) succeeded or were given up."""
        assert batch.state is RUNNING or batch.state is BatchState.SUSPENDED, (
            f"not running: {batch}"
        )
        if messages is not None:
            gone = {message.queue_offset for message in messages}
            left = [
                (message, number)
                for message, number in zip(batch.messages, batch.numbers, strict=True)
                if message.queue_offset not in gone
            ]
            if left:
                batch.keep(left)
                return
        batch.state = GONE
        del self._in_flight[batch]

    def suspend(self, batch: Batch[M]) -> None:
        """Hold a batch back that has to run again, later."""
        assert batch.state is RUNNING, f"not running: {batch}"
        batch.state = BatchState.SUSPENDED

    def resume(self, batch: Batch[M]) -> None:
        """Let the batch run again: the pause is over."""
        assert batch.state is BatchState.SUSPENDED, f"not suspended: {batch}"
        batch.state = BatchState.READY
        self._ready.append(batch)

    def stage(self, batch: Batch[M]) -> Stage | None:
        """Return the stage of ``batch``; None where there are none."""
        if not self._stages and self._strategy is None:
            return None
        index, sizes = self._stages.stage_of(batch.first_number), self._stages.sizes
        size = sizes[index] if index < len(sizes) else None
        return Stage(index, size, batch.first_number, self._strategy)

    # Durable records

    @property
    def record(self) -> StageRecord:
        """The pair to commit: the first message that is not finished, and its number."""
        if self._in_flight:
            first = next(iter(self._in_flight))
            return StageRecord(first.messages[0].queue_offset, first.first_number)
        if self._waiting:
            return StageRecord(self._waiting[0].queue_offset, self._number)
        return StageRecord(self._next_offset, self._number)

    @property
    def must_save(self) -> bool:
        """True if nothing goes on before ``record`` is saved and ``saved`` is called."""
        return self._turning and not self._in_flight

    def unsaved(self) -> Sequence["StageScheduler[M]"]:
        """Return the schedulers that wait for ``saved``: this one, or none."""
        return (self,) if self.must_save else ()

    def saved(self) -> None:
        """Note that the record of a reset is durable."""
        assert self.must_save
        self._turning = False
        self._end = self._end_of(self._number)

    @property
    def is_waiting(self) -> bool:
        """True if messages wait."""
        return bool(self._waiting or self._ready)

    @property
    def has_more(self) -> bool:
        """True if ``take`` may have another batch, after it had one."""
        if self._waiting and self._number < self._end:
            return not self._serial
        return bool(self._ready)
