"""Scheduler of a queue whose messages have no order: everything that arrived may run."""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import ClassVar, Generic, final

from ._stage_scheduler import Batch, M


@final
class ConcurrentScheduler(Generic[M]):
    """The scheduler of a queue without stages; batches have at most ``batch_messages`` messages."""

    __slots__ = ("_batch_messages", "_waiting")

    exclusive: ClassVar[bool] = False

    def __init__(self, batch_messages: int = 1) -> None:
        self._batch_messages = batch_messages
        self._waiting: deque[Batch[M]] = deque()

    def put(self, messages: Iterable[M], next_offset: int) -> Sequence[M]:
        """Hand ``messages`` out later, in batches of messages that arrived together."""
        size = self._batch_messages
        if size == 1:
            self._waiting.extend([Batch((message,), 0) for message in messages])
        else:
            arrived = tuple(messages)
            self._waiting.extend(
                [Batch(arrived[at : at + size], 0) for at in range(0, len(arrived), size)]
            )
        return ()

    def skip_to(self, next_offset: int) -> None:
        """Do nothing: nothing depends on offsets here."""

    def take(self) -> Batch[M] | None:
        """Hand out the next batch, or None."""
        return self._waiting.popleft() if self._waiting else None

    def take_many(self, count: int) -> list[Batch[M]]:
        """Hand out the next batches, up to ``count``."""
        waiting = self._waiting
        return [waiting.popleft() for _ in range(min(count, len(waiting)))]

    @property
    def has_more(self) -> bool:
        """True if something waits."""
        return bool(self._waiting)

    def stage(self, batch: Batch[M]) -> None:
        """Return None: there are no stages."""

    def discard(self) -> None:
        """Forget the messages that wait."""
        self._waiting.clear()
