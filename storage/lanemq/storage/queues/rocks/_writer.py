"""Writing rows for the records of the log, in batches, so that they always cover it without holes.

Dispatch hands over the records it made visible, which costs it next to nothing; a task writes
their rows in batches soon after. While the rows are behind, the task reads the log instead until
it has caught up, and leaves out what is handed over meanwhile. So there is one watermark: every
record before it has its rows.

Source: RocketMQ 5.3.3, RocksGroupCommitService and RocksDBConsumeQueueStore.
"""

from collections import deque
from typing import TYPE_CHECKING, Final, final

import trio

from ...log._records import Record
from ._cover import RocksCover

if TYPE_CHECKING:  # the binding comes with the server, and is needed only where this is used
    from ...messages._messages import Appended
    from .._queues import ConsumeQueue
    from ._consume_queue import RocksQueueTable
    from ._queue_rows import QueueRows
    from ._redo import RocksRedo

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
        self.put, self.pass_over = redo.put, redo.pass_over
        self.expected, self.is_known = redo.expected, redo.is_known
        """The side that the walk over the log asks and tells: see ``UnitTarget``."""
        self.table = table
        self.identity = (rows.database.directory / "IDENTITY").read_text().strip()
        """The id of the database; another one in its place has another id."""
        self.watermark = 0
        """Position up to which everything from ``begin`` on is written."""
        self.begin = 0
        """Position before which records may be missing."""
        self.filled = 0
        """Position, before ``begin``, up to which history is written as well."""
        self.fills = False
        """True if older messages are written, too."""
        self.offered_end = 0
        """Position behind the newest message that dispatch made visible."""
        self.offered = 0
        """Number of messages handed over since the store was opened."""
        self.is_live = False
        """True once everything missing was handed over."""
        self._handed: deque[list[Appended]] = deque()
        self._handed_messages = 0
        self._deleted: dict[str, int] = {}
        """Topic -> position before which messages that were handed over get no rows."""
        self._wanted = trio.Event()
        self._moved = trio.Event()

    async def flush(self) -> RocksCover:
        """Make everything handed over until now durable; returns the part of the log that this
        covers.

        Raises ``OSError``.
        """
        await self.write_all()
        cover = RocksCover(
            identity=self.identity, begin=self.begin, end=self.watermark, filled=self.filled
        )
        await trio.to_thread.run_sync(self.rows.flush)
        return cover

    async def wait(self, position: int) -> None:
        """Wait until everything before a log position is written, history included."""
        while self.is_filling or self.watermark < position:
            self._wanted.set()
            await self._moved.wait()

    async def sleep(self, interval_s: float) -> None:
        """Wait until a caller wants more to be written, or for the interval."""
        with trio.move_on_after(interval_s):
            await self._wanted.wait()
        self._wanted = trio.Event()

    def _move(self) -> None:
        moved, self._moved = self._moved, trio.Event()
        moved.set()

    # From dispatch

    def offer(self, dispatched: "list[Appended]") -> None:
        """Take over dispatched messages. Raises ``OSError`` only where too many wait."""
        self.offered += len(dispatched)
        self.offered_end = dispatched[-1].end
        if self.is_live:
            self._handed.append(dispatched)
            self._handed_messages += len(dispatched)
            while self._handed_messages > HANDED_MAX:
                self.write_some()

    def write_some(self) -> bool:
        """Write a batch of what was handed over; returns whether there is more. Raises
        ``OSError``."""
        if not self._handed:
            return False
        batch, deleted = self.rows.batch(), self._deleted
        newest: dict[ConsumeQueue, tuple[int, int]] = {}
        rows = taken = lists = part = end = 0
        for dispatched in self._handed:
            part = 0
            for message in dispatched:
                if message.is_queued:
                    own = (message.queue, message.queue_offset)
                    for queue, offset in (own, *message.lights):
                        if deleted and message.log_position < deleted.get(queue.topic, 0):
                            continue
                        batch.put_unit(
                            queue.topic_data,
                            queue.queue_id,
                            offset,
                            message.log_position,
                            message.size_bytes,
                            message.tags_code,
                            message.store_timestamp_ms,
                        )
                        newest[queue] = message.log_position, offset
                rows += 1 + len(message.lights)
                part += 1
                if rows >= BATCH_ROWS:
                    break
            end = dispatched[part - 1].end
            taken += part
            if part < len(dispatched):
                break
            lists, part = lists + 1, 0
            if rows >= BATCH_ROWS:
                break
        for queue, (position, offset) in newest.items():
            batch.put_max(queue.topic_data, queue.queue_id, position, offset)
        batch.set_watermark(end)
        batch.write()
        self.watermark = end
        self._handed_messages -= taken
        for _ in range(lists):
            self._handed.popleft()
        if part:
            self._handed[0] = self._handed[0][part:]
        for queue, (_, offset) in newest.items():
            self.table.written(queue.topic, queue.queue_id, offset + 1)
        if not self._handed:
            deleted.clear()
        self._move()
        return bool(self._handed)

    async def write_all(self) -> None:
        """Write everything handed over until now. Raises ``OSError``."""
        until = self.offered_end
        while self.is_live and self.watermark < until and self.write_some():
            await trio.lowlevel.checkpoint()

    # From the log

    def take(self, _record: Record, decided_to: int) -> None:
        """Write the batch if it is full; units before ``decided_to`` were put."""
        if len(self.writer) >= BATCH_ROWS:
            self.writer.write(decided_to)

    def truncate(self, log_end: int) -> int:
        """Write what was taken, and drop rows of messages at or behind the end of the log."""
        self.writer.write(None)
        # Records taken just now lie before the end.
        if self.table.newest_position < log_end and (self.rows.watermark() or 0) <= log_end:
            return 0
        return self.rows.truncate(log_end)

    @property
    def is_filling(self) -> bool:
        """True while older messages, before ``begin``, are written first."""
        return self.fills and self.filled < self.begin

    def go_live(self, log_end: int) -> None:
        """Set the end of the log; all records before it were taken. Raises ``OSError``."""
        self.offered_end = log_end
        self.reached(log_end)

    def reached(self, position: int) -> None:
        """Write what was taken: all missing records up to ``position``.

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
        """Remove the queues of a topic; returns how many. Raises ``OSError``.

        Its messages that were handed over, and have no rows yet, get none.
        """
        if self._handed:
            self._deleted[topic] = self.offered_end
        batch = self.rows.batch()
        batch.delete_topic(topic.encode())
        batch.write()
        return self.table.forget_topic(topic)
