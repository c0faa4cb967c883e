"""Scheduler of a queue whose messages have an order by key. No I/O, no clock, no task.

Messages are numbered from 0 as they arrive. A key has a line of messages that wait, in the order
of the queue, and at most one batch that is handed out; the batch moves through these states::

              take                 finish
    (waiting) -----> RUNNING ------------------> (gone)
                      ^   |                        ^
                 take |   | suspend                | finish
                      |   v                        |
                    READY <---- SUSPENDED ---------+
                         resume

Messages without a key wait for none. No message is handed out that arrived more than
``above_max`` messages after the lowest unfinished one.
"""

import heapq
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import ClassVar, Generic, TypeAlias, final

from ._stage_scheduler import Batch, BatchState, M, StageScheduler

KeyOf: TypeAlias = Callable[[M], Hashable | None]
"""Computes the key of a message; None is a message without an order."""


@final
class KeyScheduler(Generic[M]):
    """The scheduler of one queue whose messages keep the order of their keys."""

    exclusive: ClassVar[bool] = True
    __slots__ = (
        "_above_max",
        "_batch_messages",
        "_end",
        "_finished",
        "_free",
        "_heads",
        "_key_of",
        "_lines",
        "_lowest",
        "_ready",
        "_taken",
    )

    def __init__(self, key_of: KeyOf[M], *, above_max: int, batch_messages: int = 1) -> None:
        assert above_max > 0 < batch_messages
        self._key_of = key_of
        self._above_max = above_max
        self._batch_messages = batch_messages
        self._lowest = self._end = 0  # the lowest unfinished number, and the next one
        self._finished: set[int] = set()  # numbers above the lowest unfinished one
        # A key is here while one of its messages waits or is handed out.
        self._lines: dict[Hashable, deque[tuple[M, int]]] = {}
        self._heads: list[tuple[int, Hashable]] = []  # a heap: idle keys, by their first number
        self._free: deque[tuple[M, int]] = deque()  # messages without a key
        self._ready: deque[Batch[M]] = deque()
        self._taken: dict[Batch[M], Hashable] = {}  # handed out; the key is None for free ones

    # Messages of the queue

    def put(self, messages: Iterable[M], next_offset: int) -> Sequence[M]:
        """Take messages that arrived behind all before, or that the queue delivers again."""
        for message in messages:
            number = self._end
            self._end += 1
            key = self._key_of(message)
            if key is None:
                self._free.append((message, number))
                continue
            line = self._lines.get(key)
            if line is None:
                self._lines[key] = deque(((message, number),))
                heapq.heappush(self._heads, (number, key))
            else:
                line.append((message, number))
        return ()

    def skip_to(self, next_offset: int) -> None:
        """Do nothing: nothing depends on offsets here."""

    def discard(self) -> None:
        """Forget the messages that wait: the queue is no longer held."""
        self._lines.clear()
        self._heads.clear()
        self._free.clear()
        self._ready.clear()

    # Results of the listener

    def take(self) -> Batch[M] | None:
        """Hand out the next batch, or None while there is none that may run."""
        if self._ready:
            batch = self._ready.popleft()
            batch.state = BatchState.RUNNING
            return batch
        free, heads, limit = self._free, self._heads, self._lowest + self._above_max
        first_free = free[0][1] if free else limit + 1
        first_keyed = heads[0][0] if heads else limit + 1
        if min(first_free, first_keyed) > limit:
            return None
        key: Hashable | None = None
        line = free
        if first_keyed < first_free:
            _, key = heapq.heappop(heads)
            line = self._lines[key]
        if self._batch_messages == 1:
            message, number = line.popleft()
            batch = Batch((message,), number)
        else:
            batch = self._several(line, limit)
        self._taken[batch] = key
        return batch

    def _several(self, line: deque[tuple[M, int]], limit: int) -> Batch[M]:
        found = [line.popleft()]
        while line and len(found) < self._batch_messages and line[0][1] <= limit:
            found.append(line.popleft())
        batch = Batch(tuple(message for message, _ in found), found[0][1])
        batch.keep(found)
        return batch

    def finish(self, batch: Batch[M], messages: Sequence[M] | None = None) -> None:
        """Note that ``messages`` of ``batch`` (all if None) succeeded or were given up."""
        assert batch.state in (BatchState.RUNNING, BatchState.SUSPENDED), f"not running: {batch}"
        gone = None if messages is None else {message.queue_offset for message in messages}
        left: list[tuple[M, int]] = []
        for message, number in zip(batch.messages, batch.numbers, strict=True):
            if gone is None or message.queue_offset in gone:
                self._finished.add(number)
            else:
                left.append((message, number))
        while self._lowest in self._finished:
            self._finished.remove(self._lowest)
            self._lowest += 1
        if left:
            batch.keep(left)
            return
        batch.state = BatchState.GONE
        key = self._taken.pop(batch)
        line = self._lines.get(key)
        if key is None or line is None:
            return
        if line:
            heapq.heappush(self._heads, (line[0][1], key))
        else:
            del self._lines[key]

    def suspend(self, batch: Batch[M]) -> None:
        """Hold a batch back that has to run again, later; its key waits, others do not."""
        assert batch.state is BatchState.RUNNING, f"not running: {batch}"
        batch.state = BatchState.SUSPENDED

    def resume(self, batch: Batch[M]) -> None:
        """Let the batch run again: the pause is over."""
        assert batch.state is BatchState.SUSPENDED, f"not suspended: {batch}"
        batch.state = BatchState.READY
        self._ready.append(batch)

    def stage(self, batch: Batch[M]) -> None:
        """Return None: there are no stages."""

    # Progress

    @property
    def is_full(self) -> bool:
        """True if as many messages lie above the lowest unfinished one as may be handed out."""
        return self._end - self._lowest > self._above_max

    @property
    def has_more(self) -> bool:
        """True if ``take`` may have another batch, after it had one."""
        limit = self._lowest + self._above_max
        return bool(
            self._ready
            or (self._free and self._free[0][1] <= limit)
            or (self._heads and self._heads[0][0] <= limit)
        )

    @property
    def must_save(self) -> bool:
        """False: no record has to last before more is handed out."""
        return False

    def unsaved(self) -> "Sequence[StageScheduler[M]]":
        """Return no records: there are none."""
        return ()
