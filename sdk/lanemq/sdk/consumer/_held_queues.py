"""The queues that a consumer holds."""

from collections import Counter
from collections.abc import Mapping
from typing import final

from lanemq.wire.bodies import MessageQueue

from .pulls._held_queue import HeldQueue


@final
class HeldQueues:
    """The queues by themselves. The consumer's loop changes them; any thread may read ``all``."""

    def __init__(self) -> None:
        self._held: dict[MessageQueue, HeldQueue] = {}
        self._of_topic = Counter[str]()
        self._changes = 0
        self._copy: tuple[int, Mapping[MessageQueue, HeldQueue]] = 0, {}

    def __contains__(self, queue: MessageQueue) -> bool:
        return queue in self._held

    def get(self, queue: MessageQueue) -> HeldQueue | None:
        """Return what is held of a queue."""
        return self._held.get(queue)

    @property
    def all(self) -> Mapping[MessageQueue, HeldQueue]:
        """All of them, as they are now: later changes are in another mapping."""
        changes = self._changes  # read first: a change meanwhile makes this copy void
        made_at, copy = self._copy
        if made_at != changes:
            copy = self._held.copy()
            self._copy = changes, copy
        return copy

    def count(self, topic: str) -> int:
        """Return the number of queues of ``topic``."""
        return self._of_topic[topic]

    def put(self, held: HeldQueue) -> None:
        """Hold a queue, in place of what was held of it."""
        queue = held.queue
        self._of_topic[queue.topic] += queue not in self._held
        self._held[queue] = held
        self._changes += 1

    def remove(self, queue: MessageQueue) -> HeldQueue | None:
        """Hold a queue no longer; returns what was held of it."""
        held = self._held.pop(queue, None)
        if held is not None:
            self._of_topic[queue.topic] -= 1
            if not self._of_topic[queue.topic]:
                del self._of_topic[queue.topic]
            self._changes += 1
        return held
