"""The dispatch of written records, which makes them visible: queue units, index, callbacks.

No log is read again for that.
Source: RocketMQ 4.9.8, DefaultMessageStore.ReputMessageService.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import starmap
from operator import attrgetter
from typing import TYPE_CHECKING, final

from .._layouts import pack_unit
from .._statistics import Counters
from ..index._backlog import BACKLOG_FULL
from ..index._index import Index
from ._messages import Appended

if TYPE_CHECKING:
    from ..queues._queues import ConsumeQueue

Arrival = Callable[[str, int, int, Sequence[int]], None]
"""Called with messages that came into a queue one behind the other, and can be read: topic, queue
id, the end of the queue, and the tags code of each."""


@final
class Dispatcher:
    """The dispatch of one store; ``on_failure`` is told what could not be written, and why."""

    def __init__(
        self,
        *,
        index: Index | None,
        counters: Counters,
        on_failure: Callable[[str, OSError], object],
    ) -> None:
        self._index = index
        self._counters = counters
        self._on_failure = on_failure
        self.written: list[Appended] = []
        """Records that are in the log, and not dispatched yet."""
        self.on_arrival: list[Arrival] = []
        self.on_dispatch: list[Callable[[list[Appended]], None]] = []
        """Callbacks of other indexes, called with what was dispatched. They may raise
        ``OSError``."""
        self.last_store_ms = 0
        """Store time of the newest dispatched message."""
        self.dispatched_end = 0
        """Position behind the newest dispatched message."""

    def start_at(self, position: int, store_ms: int) -> None:
        """Set the end of the log that recovery found, and the time its last message was stored."""
        self.dispatched_end, self.last_store_ms = position, store_ms

    @property
    def is_behind(self) -> bool:
        """True while something written is not dispatched yet."""
        return bool(self.written)

    @property
    def is_index_full(self) -> bool:
        """True if so many keys wait for the key index that it takes no more."""
        return self._index is not None and self._index.waiting.keys > BACKLOG_FULL

    def awaits(self, log_position: int) -> bool:
        """Return whether a written record that begins there will come into a queue."""
        number = bisect_right(self.written, log_position, key=attrgetter("end"))
        found = self.written[number] if number < len(self.written) else None
        return found is not None and found.log_position == log_position and found.is_queued

    def dispatch(self, limit: int | None = None) -> None:
        """Dispatch what was written; with ``limit``, only records that end at or before that
        position."""
        pending = self.written
        if limit is not None and pending and pending[-1].end > limit:
            count = bisect_right(pending, limit, key=attrgetter("end"))
            pending, self.written = pending[:count], pending[count:]
        else:
            self.written = []
        if not pending:
            return
        index, arrivals = self._index, self.on_arrival
        total_bytes, begin, count = 0, 0, len(pending)
        while begin < count:
            message, end = pending[begin], begin + 1
            queue = message.queue
            while end < count and pending[end].queue is queue:
                end += 1
            if end > begin + 1:
                total_bytes += self._add_run(queue, pending[begin:end])
            else:
                position, size, code = message.log_position, message.size_bytes, message.tags_code
                total_bytes += size
                if message.is_queued:
                    queue.append(position, size, code)
                    for arrived in arrivals:
                        arrived(queue.topic, queue.queue_id, queue.end, (code,))
                    if message.lights:
                        self._add_lights(message)
            begin = end
        if index is not None:
            try:
                index.submit(
                    [
                        (
                            message.queue.topic,
                            message.log_position,
                            message.store_timestamp_ms,
                            message.sys_flag,
                            message.properties,
                        )
                        for message in pending
                    ]
                )
            except OSError as error:  # they wait in the backlog
                self._on_failure("the index cannot be written", error)
        self.last_store_ms = pending[-1].store_timestamp_ms
        self.dispatched_end = pending[-1].end
        for take in self.on_dispatch:
            try:
                take(pending)
            except OSError as error:  # it waits there
                self._on_failure("RocksDB cannot be written", error)
        self._counters.put_total += len(pending)
        self._counters.put_bytes += total_bytes

    def _add_run(self, queue: "ConsumeQueue", messages: Sequence[Appended]) -> int:
        """Make messages visible that follow one another in ``queue``; returns their bytes."""
        queued = [message for message in messages if message.is_queued]
        if queued:
            places = [(one.log_position, one.size_bytes, one.tags_code) for one in queued]
            queue.extend(b"".join(starmap(pack_unit, places)))
            codes = [code for _, _, code in places]
            for arrived in self.on_arrival:
                arrived(queue.topic, queue.queue_id, queue.end, codes)
            for message in queued:
                if message.lights:
                    self._add_lights(message)
        return sum([message.size_bytes for message in messages])

    def _add_lights(self, message: Appended) -> None:
        """Make a message visible in the light queues that have it, too."""
        for light, _ in message.lights:
            light.append(message.log_position, message.size_bytes, message.tags_code)
            for arrived in self.on_arrival:
                arrived(light.topic, light.queue_id, light.end, (message.tags_code,))
