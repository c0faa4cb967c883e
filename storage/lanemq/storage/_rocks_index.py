"""Writing the rows of what the log got, in batches, so that they are always a whole prefix.

Dispatch hands over what it made visible, which costs it next to nothing; a task writes that in
batches soon after. Whoever is behind reads the log instead until it has caught up, and what is
handed over meanwhile is left to that. So there is one watermark: every record before it has its
rows. Source: RocketMQ 5.3.3, RocksGroupCommitService and RocksDBConsumeQueueStore.
"""

import logging
from collections import deque
from typing import TYPE_CHECKING, Final, final

import trio

from ._records import Record
from ._watermarks import RocksCover

if TYPE_CHECKING:  # the binding comes with the server, and is needed only where this is used
    from ._appender import Pending
    from ._queues import ConsumeQueue
    from ._rocks_queues import RocksQueueTable
    from ._rocks_redo import RocksRedo
    from .rocks import QueueRows

LOGGER = logging.getLogger(__name__)
BATCH_ROWS: Final = 512
HANDED_MAX: Final = 100_000


@final
class RocksIndex:
    """One index of the log. Positions count bytes of the log.

    No method waits but those that are async; a write goes to memory. What RocksDB refuses is
    ``OSError``.
    """

    name = "RocksDB"

    def __init__(self, rows: "QueueRows", redo: "RocksRedo", table: "RocksQueueTable") -> None:
        self.rows = rows
        self.writer = redo
        self.table = table
        self.identity = (rows.database.directory / "IDENTITY").read_text().strip()
        """The name of this very database: another one in its place has another."""
        self.watermark = 0
        """All from ``begin`` up to here is written."""
        self.begin = 0
        """Records before it may be missing."""
        self.filled = 0
        """Of what lies before ``begin``, all up to here is written as well."""
        self.fills = False
        """Whether history is wanted."""
        self.offered_end = 0
        """Behind the newest message that dispatch made visible."""
        self.offered = 0
        """Messages handed over since the store was opened."""
        self.is_live = False
        """Whether all that is missing was handed over."""
        self._handed: deque[list[Pending]] = deque()
        self._handed_rows = 0
        self._wanted = trio.Event()
        self._moved = trio.Event()

    async def flush(self) -> RocksCover:
        """Make all durable that was handed over until now; returns what that is.

        Raises ``OSError``.
        """
        await self.write_all()
        cover = RocksCover(
            identity=self.identity, begin=self.begin, end=self.watermark, filled=self.filled
        )
        await trio.to_thread.run_sync(self.rows.flush)
        return cover

    async def wait(self, position: int) -> None:
        """Return once all before a log position is written, history included."""
        while self.is_filling or self.watermark < position:
            self._wanted.set()
            await self._moved.wait()

    async def sleep(self, interval_s: float) -> None:
        """Return when somebody waits for more to be written, or after the interval."""
        with trio.move_on_after(interval_s):
            await self._wanted.wait()
        self._wanted = trio.Event()

    def _move(self) -> None:
        moved, self._moved = self._moved, trio.Event()
        moved.set()

    # From dispatch

    def offer(self, dispatched: "list[Pending]") -> None:
        """Take over what was dispatched. Raises ``OSError`` only where too much waits."""
        self.offered += len(dispatched)
        last = dispatched[-1]
        self.offered_end = last[3] + last[4]
        if self.is_live:
            self._handed.append(dispatched)
            self._handed_rows += len(dispatched)
            while self._handed_rows > HANDED_MAX:
                self.write_some()

    def write_some(self) -> bool:
        """Write a batch of what was handed over; whether there is more. Raises ``OSError``."""
        if not self._handed:
            return False
        batch = self.rows.batch()
        newest: dict[ConsumeQueue, tuple[int, int]] = {}
        count = lists = end = 0
        for dispatched in self._handed:
            for queue, offset, is_queued, position, size, code, store_ms, _, _, light in dispatched:
                if is_queued:
                    batch.put_unit(
                        queue.topic_data, queue.queue_id, offset, position, size, code, store_ms
                    )
                    newest[queue] = position, offset
                    for other, other_offset in light:
                        batch.put_unit(
                            other.topic_data,
                            other.queue_id,
                            other_offset,
                            position,
                            size,
                            code,
                            store_ms,
                        )
                        newest[other] = position, other_offset
                end = position + size
            lists += 1
            count += len(dispatched)
            if count >= BATCH_ROWS:
                break
        for queue, (position, offset) in newest.items():
            batch.put_max(queue.topic_data, queue.queue_id, position, offset)
        batch.set_watermark(end)
        batch.write()
        self.watermark = end
        self._handed_rows -= count
        for _ in range(lists):
            self._handed.popleft()
        for queue, (_, offset) in newest.items():
            self.table.written(queue.topic, queue.queue_id, offset + 1)
        self._move()
        return bool(self._handed)

    async def write_all(self) -> None:
        """Write all that was handed over until now. Raises ``OSError``."""
        until = self.offered_end
        while self.is_live and self.watermark < until and self.write_some():
            await trio.lowlevel.checkpoint()

    # From the log

    def redo(self, record: Record) -> None:
        """Take a record at the watermark."""
        self.writer.take(record)
        if len(self.writer) >= BATCH_ROWS:
            self.writer.write(record.end)

    def truncate(self, log_end: int) -> int:
        """Write what was taken, and forget rows of messages at or behind the end of the log."""
        self.writer.write(None)
        # What was taken just now lies before the end.
        if self.table.newest_position < log_end and (self.rows.watermark() or 0) <= log_end:
            return 0
        return self.rows.truncate(log_end)

    @property
    def is_filling(self) -> bool:
        """Whether history that lies before ``begin`` is written first."""
        return self.fills and self.filled < self.begin

    def go_live(self, log_end: int) -> None:
        """Say where the log ends; all records before that were taken. Raises ``OSError``."""
        self.offered_end = log_end
        self.reached(log_end)

    def reached(self, position: int) -> None:
        """Write what was taken: all records up to ``position`` of what is missing.

        Once that is the newest message, what dispatch hands over follows. Raises ``OSError``.
        """
        if self.is_filling:
            self.writer.write(None)
            self.filled = position
            if position >= self.begin:
                self.begin = self.filled = 0
        else:
            self.writer.write(position)
            self.watermark = position
        self.is_live = not self.is_filling and self.watermark >= self.offered_end
        self._move()

    # Topics

    def remove_topic(self, topic: str) -> int:
        """Remove the queues of a topic; returns how many. Raises ``OSError``."""
        while self.write_some():
            pass
        removed = 0
        for bounds in list(self.rows.queues(topic)):
            self.rows.delete_queue(topic, bounds.queue_id)
            removed += bounds.max is not None
        self.table.forget_topic(topic, removed)
        return removed
