"""The accumulator of a batching sender: which messages are sent together, and when. Pure.

Messages of one key (topic, queue and durability) make batches in the order in which they came. A
batch is ready when it is full, when it has lingered, or when it is asked for; of one key only one
batch is away at a time, so order is kept.
"""

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from math import inf
from typing import Generic, TypeVar, final

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


@dataclass(eq=False, slots=True)
class _Waiting(Generic[T]):
    waiting: deque[tuple[T, int, float]] = field(default_factory=deque)  # item, size, due
    size_bytes: int = 0
    is_away: bool = False


@final
class Accumulator(Generic[K, T]):
    """Collects items into batches; times are seconds of a clock that is never set."""

    def __init__(self, *, linger_s: float, batch_messages: int, batch_bytes: int) -> None:
        self._linger_s = linger_s
        self._batch_messages = batch_messages
        self._batch_bytes = batch_bytes
        self._keys: dict[K, _Waiting[T]] = {}
        self.count = 0
        """Items that wait."""
        self.size_bytes = 0
        """Their bytes."""

    def add(self, key: K, item: T, size_bytes: int, now_s: float) -> None:
        """Take an item behind all others of its key."""
        line = self._keys.setdefault(key, _Waiting())
        line.waiting.append((item, size_bytes, now_s + self._linger_s))
        line.size_bytes += size_bytes
        self.count += 1
        self.size_bytes += size_bytes

    def take(self, now_s: float, *, all_of_it: bool = False) -> tuple[K, list[T]] | None:
        """Return a batch that is ready and its key, or None; ``returned`` must be called for it.

        With ``all_of_it`` nothing lingers.
        """
        for key, line in self._keys.items():
            if line.waiting and not line.is_away and (all_of_it or self._is_ready(line, now_s)):
                line.is_away = True
                return key, self._cut(line)
        return None

    def _is_ready(self, line: _Waiting[T], now_s: float) -> bool:
        return (
            line.waiting[0][2] <= now_s
            or len(line.waiting) >= self._batch_messages
            or line.size_bytes >= self._batch_bytes
        )

    def _cut(self, line: _Waiting[T]) -> list[T]:
        batch: list[T] = []
        total = 0
        while line.waiting and len(batch) < self._batch_messages:
            item, size_bytes, _ = line.waiting[0]
            if batch and total + size_bytes > self._batch_bytes:
                break
            line.waiting.popleft()
            batch.append(item)
            total += size_bytes
        line.size_bytes -= total
        self.count -= len(batch)
        self.size_bytes -= total
        return batch

    def returned(self, key: K) -> None:
        """Note that the batch of ``key`` was stored, or failed."""
        line = self._keys[key]
        line.is_away = False
        if not line.waiting:
            del self._keys[key]

    def due_s(self) -> float:
        """Return the time at which something is ready next; ``inf`` for never."""
        return min(
            (
                -inf if self._is_ready(line, -inf) else line.waiting[0][2]
                for line in self._keys.values()
                if line.waiting and not line.is_away
            ),
            default=inf,
        )
