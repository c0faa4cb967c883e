"""The process queue: messages pulled from one queue and not settled yet. No I/O and no clock.

Messages settle in any order; the offset to commit is the lowest that has not. So after a crash
some messages come twice and none is lost.
Source: RocketMQ 4.9.8, ProcessQueue.
"""

from collections import deque
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar, final


class HasOffset(Protocol):
    """A message as far as a process queue sees it."""

    @property
    def queue_offset(self) -> int: ...  # counts messages of its queue

    @property
    def size_bytes(self) -> int: ...


M = TypeVar("M", bound=HasOffset)


@final
class ProcessQueue(Generic[M]):
    """Offsets in flight of one queue.

    ``next_offset`` is where the next pull begins: everything below it is either held here or
    needs no settling (delivered and settled, or filtered out).
    """

    __slots__ = ("_held", "_order", "dropped", "next_offset", "size_bytes")

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self.size_bytes = 0
        self.dropped = False
        self._held: dict[int, M] = {}
        # Offsets in ascending order. It may begin with settled ones: they go when met, so
        # each costs one step however the messages settle.
        self._order: deque[int] = deque()

    def put(self, messages: Iterable[M], next_offset: int) -> list[M]:
        """Hold the messages that a pull found; return the new ones, as they came."""
        held, order, fresh, is_behind = self._held, self._order, [], False
        for message in messages:
            offset = message.queue_offset
            if offset in held:
                continue
            if order and offset <= order[-1]:
                is_behind = True
            else:
                order.append(offset)
            held[offset] = message
            self.size_bytes += message.size_bytes
            fresh.append(message)
        if is_behind:  # only after a reset of offsets, or where a broker keeps no order
            self._order = deque(sorted(held))
        self.next_offset = next_offset
        return fresh

    def release(self, messages: Iterable[M]) -> None:
        """Hold ``messages`` no longer. Unknown ones are passed over."""
        held = self._held
        for message in messages:
            gone = held.pop(message.queue_offset, None)
            if gone is not None:
                self.size_bytes -= gone.size_bytes

    @property
    def commit_offset(self) -> int:
        """The first message that a new owner has to read."""
        first = self._first()
        return self.next_offset if first is None else first

    @property
    def first(self) -> M | None:
        """The held message with the lowest offset; None if there is none."""
        offset = self._first()
        return None if offset is None else self._held[offset]

    def _first(self) -> int | None:
        order, held = self._order, self._held
        while order and order[0] not in held:
            order.popleft()
        return order[0] if order else None

    @property
    def count(self) -> int:
        """Messages held."""
        return len(self._held)

    @property
    def span(self) -> int:
        """Distance from the first to the last offset held; a stuck message makes it grow."""
        first = self._first()
        if first is None:
            return 0
        order, held = self._order, self._held
        while order[-1] not in held:
            order.pop()
        return order[-1] - first

    @property
    def offsets(self) -> list[int]:
        """Offsets held, ascending."""
        return sorted(self._held)

    def clear(self) -> None:
        """Forget everything held, and take no result of messages that were handed out."""
        self._held.clear()
        self._order.clear()
        self.size_bytes = 0
