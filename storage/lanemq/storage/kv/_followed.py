"""The queues of a store whose records go into states, and the state of each."""

from collections.abc import Iterable
from typing import NamedTuple, final

from lanemq.wire.kv import kv_topic, parse_partition

from ..messages._messages import Appended
from ..messages._reader import Reader
from ._log import QueueLog
from .engines._rows import NO_QUEUE, Meta


class _Part(NamedTuple):
    """The part of a state's log that is in a queue, from the offset ``begin`` on."""

    queue_id: int
    shift: int
    begin: int


@final
class FollowedQueues:
    """The queue that each state follows. A queue belongs to one state at a time."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.logs: dict[str, QueueLog] = {}
        """Name of the partition -> its log, or the part of it that is here."""
        self._parts: dict[str, _Part] = {}
        self._names: dict[str, dict[int, str]] = {}

    def follow(self, name: str, meta: Meta) -> str | None:
        """Have a state follow the queue that its ``meta`` names, or none.

        Returns the state that followed that queue until now, and does no longer: where two
        claim one queue, the part that begins later is the present one. That may be the other's,
        and then it is ``name`` that follows nothing.
        """
        namespace, _ = parse_partition(name)
        self.forget(name)
        loser = None
        queues = self._names.setdefault(kv_topic(namespace), {})
        part = _Part(meta.queue_id, meta.shift, meta.first - meta.shift)
        if meta.queue_id != NO_QUEUE:
            loser = queues.get(meta.queue_id)
            if loser is not None and self._parts[loser].begin > part.begin:
                part = _Part(NO_QUEUE, 0, 0)
                loser = name
            else:
                queues[meta.queue_id] = name
        self._parts[name] = part
        self.logs[name] = QueueLog(self._reader, namespace, meta)
        return loser

    def forget(self, name: str) -> None:
        """Forget a state."""
        namespace, _ = parse_partition(name)
        part = self._parts.pop(name, None)
        self.logs.pop(name, None)
        queues = self._names.get(kv_topic(namespace), {})
        if part is not None and queues.get(part.queue_id) == name:
            del queues[part.queue_id]

    def of(self, dispatched: list[Appended]) -> dict[str, list[Appended]]:
        """Find those of the dispatched records that belong to states."""
        topics, found = self._names, dict[str, list[Appended]]()
        for message in dispatched:
            queue = message.queue
            if queue.topic in topics and message.is_queued:
                name = topics[queue.topic].get(queue.queue_id)
                if name is not None:
                    found.setdefault(name, []).append(message)
        return found

    def shift(self, name: str) -> int:
        """Return the position of a state's record less its offset in the queue."""
        return self._parts[name].shift

    def unclaimed(self, queues: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
        """Return those of the given queues that no state follows, in order."""
        return [
            (topic, queue_id)
            for topic, queue_id in sorted(queues)
            if queue_id not in self._names.get(topic, {})
        ]

    def clear(self) -> None:
        """Forget everything."""
        self.logs.clear()
        self._parts.clear()
        self._names.clear()
