"""The gate for writers to a queue that is part of a logical queue; it counts those inside.

Every writer enters before it appends and leaves when its message is stored. Entering counts
first and looks at the segment then, so that a seal, which closes first and waits for the count
then, can miss nobody. A closed queue keeps its writers waiting in the order of their coming:
when it opens again they find it writable, or know where the logical queue goes on.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

import trio

from ._mapping import TopicMapping

Key = tuple[str, int]
"""Topic and queue id."""


class SegmentClosed(Exception):  # noqa: N818 - what it is, not a fault
    """The message queue takes no message (now), or is not the segment that its sender means."""

    def __init__(self, topic: str, queue_id: int, meant: str | None = None) -> None:
        super().__init__(f"{topic}/{queue_id}")
        self.topic = topic
        self.queue_id = queue_id
        self.meant = meant
        """The ``Segment.meant`` of the message, where it is not the last one on the queue."""


@final
class Gate:
    """The counters and closures of one broker's message queues."""

    def __init__(self) -> None:
        self._writing: dict[Key, int] = {}
        self._idle: dict[Key, trio.Event] = {}
        self._closed: dict[Key, trio.Lock] = {}
        self.withheld: dict[Key, str] = {}
        """Queues that take nothing for now, each with the fact that has to be known first. Unlike
        closed ones, nobody waits for them: that may take as long as another broker is away."""

    def enter(self, mapping: TopicMapping, queue_id: int) -> Key:
        """Count a writer, who must ``leave``. Raises ``SegmentClosed``; then nobody is counted."""
        key = mapping.topic, queue_id
        writing = self._writing
        writing[key] = writing.get(key, 0) + 1
        segment = mapping.latest(queue_id)
        is_shut = key in self._closed or key in self.withheld
        if segment is not None and (is_shut or not segment.is_writable):
            self.leave(key)
            raise SegmentClosed(mapping.topic, queue_id)
        return key

    def leave(self, key: Key) -> None:
        """Count a writer out, whose message is stored, or never will be."""
        left = self._writing[key] - 1
        if left:
            self._writing[key] = left
            return
        del self._writing[key]
        idle = self._idle.pop(key, None)
        if idle is not None:
            idle.set()

    @contextmanager
    def writing(self, mapping: TopicMapping, queue_id: int) -> Iterator[None]:
        """Count a writer for the length of the block; errors as ``enter``."""
        key = self.enter(mapping, queue_id)
        try:
            yield
        finally:
            self.leave(key)

    def in_flight(self, key: Key) -> int:
        """Return the number of writers inside."""
        return self._writing.get(key, 0)

    def is_closed(self, key: Key) -> bool:
        return key in self._closed

    @contextmanager
    def closed(self, key: Key) -> Iterator[None]:
        """Close the gate to writers for the length of the block."""
        assert key not in self._closed, f"{key} is closed already"
        lock = self._closed[key] = trio.Lock()
        lock.acquire_nowait()
        try:
            yield
        finally:
            del self._closed[key]
            lock.release()

    async def idle(self, key: Key) -> None:
        """Wait until a closed queue has no writers."""
        assert key in self._closed, f"{key} is open: there is no end of writers"
        if key in self._writing:
            idle = self._idle.setdefault(key, trio.Event())
            await idle.wait()

    def turn(self, key: Key) -> trio.Lock | None:
        """Return the lock to hold for a retry after the closure; None where the gate is open.

        Those who wait for it get it in the order in which they asked.
        """
        return self._closed.get(key)
