"""The store as its users see it."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, final

from lanemq.wire import StoredMessage, decode_message

from ._appender import Arrival
from ._config import FlushMode, Stage
from ._consume_queue import Unit
from ._document import Document
from ._errors import StoreUnwritable
from ._messages import Boundary, Got, NewMessage, Put, QueryResult
from ._parts import Parts
from ._reader import WARM_BYTES_MAX
from ._rocks_check import RocksCheck
from ._statistics import RocksProgress, StoreStatistics

if TYPE_CHECKING:  # the binding comes with the server, and is needed only where this is used
    from .rocks import DiffReport, QueueRows


@final
class Store:
    """Commit log, queues, index and tables of one broker; made by ``open_store``.

    One task at a time: no method that is not async waits, and none may be called from another
    thread. What is put is visible and will be dispatched once ``commit`` returns.
    Source: RocketMQ 4.9.8, DefaultMessageStore.
    """

    def __init__(self, parts: Parts) -> None:
        self.config = parts.config
        self.tables = parts.tables
        """Topics, groups and offsets."""
        self.on_durable: list[Callable[[], None]] = []
        """Called when ``dispatch`` has followed a flush by itself (``FlushMode.SYNC``)."""
        self._parts = parts
        # Looked up for every message.
        self._log, self._queues = parts.log, parts.queues
        self._appender, self._reader = parts.appender, parts.reader
        self._flusher, self._retention = parts.flusher, parts.retention
        parts.flusher.on_flushed.append(self._became_durable)

    # Writing

    def put(self, message: NewMessage) -> Put:
        """Give a message its place; ``commit`` stores it.

        Raises ``StoreUnwritable``, and ``MessageIllegal`` for what can never be stored.
        """
        return self._appender.put(message)

    def put_batch(self, messages: Sequence[NewMessage]) -> list[Put]:
        """As ``put``, for messages of one queue: their offsets and records follow each other.

        All or none are taken.
        """
        return self._appender.put_batch(messages)

    def commit(self) -> None:
        """``write`` and ``dispatch`` in one."""
        self._appender.write()
        self.dispatch()

    def write(self) -> None:
        """Write all that was put since the last call to the log. It may be answered for now.

        ``dispatch`` must follow before anything is read. Raises ``StoreUnwritable`` where the log
        cannot be written: then nothing of it is stored, and positions and offsets are as they
        were before.
        """
        self._appender.write()

    def dispatch(self) -> None:
        """Make what was written visible: in queues, in the index, to ``on_arrival``.

        Under ``FlushMode.SYNC`` that is what is durable; the rest follows soon, before those who
        wait for ``flushed`` hear of it. So nobody reads a message that a loss of power takes away
        again, with another one in its place. (Apache's readers may.)
        """
        if self.config.flush is not FlushMode.SYNC:
            self._appender.dispatch()
            return
        self._appender.dispatch(self._flusher.flushed)
        if self._appender.is_behind:
            self._flusher.want()

    def _became_durable(self) -> None:
        if self.config.flush is FlushMode.SYNC and self._appender.is_behind:
            self._appender.dispatch(self._flusher.flushed)
            for became_durable in self.on_durable:
                became_durable()

    async def flushed(self, position: int) -> None:
        """Return once the log is durable up to ``position`` (``Put.end``) of what is committed.

        All callers share one fsync. Raises ``StoreUnwritable`` where the disk fails, and where
        ``position`` lies behind what is committed.
        """
        await self._flusher.wait(position)
        if self.config.flush is FlushMode.SYNC:
            try:
                # A message of a topic that nobody knows any more could not be read.
                await self.tables.topics.backend.sync()
            except OSError as error:
                raise StoreUnwritable(f"the topics cannot be kept: {error}") from error

    @property
    def on_arrival(self) -> list[Arrival]:
        """Called for each message by ``dispatch``: topic, queue id, end of the queue, tags code."""
        return self._appender.on_arrival

    @property
    def writable(self) -> bool:
        return not self._appender.reason

    @property
    def unwritable_reason(self) -> str:
        """Why messages are refused; empty while they are not."""
        return self._appender.reason

    # Reading

    def get(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        *,
        max_count: int,
        max_bytes: int = WARM_BYTES_MAX,
        tag_codes: frozenset[int] | None = None,
        matches: Callable[[bytes], bool] | None = None,
    ) -> Got:
        """Messages of a queue from ``queue_offset`` on, those with one of ``tag_codes``.

        ``matches`` judges the records of those and so decides which of them are given.

        Stops at ``max_count``, at 32 messages or ``max_bytes`` (8 and 64 KiB where it is cold),
        and after 800 messages without a match; the first message is given whatever its size.
        """
        return self._reader.get(
            topic,
            queue_id,
            queue_offset,
            max_count=max_count,
            max_bytes=max_bytes,
            tag_codes=tag_codes,
            matches=matches,
        )

    def record_at(self, log_position: int) -> bytes | None:
        """The record that begins there; None where none does."""
        return self._reader.record_at(log_position)

    def message_at(self, log_position: int) -> StoredMessage | None:
        """As ``record_at``, decoded."""
        record = self._reader.record_at(log_position)
        return decode_message(record) if record is not None else None

    def units(self, topic: str, queue_id: int, start: int, count: int) -> list[Unit]:
        """Up to ``count`` units of a queue from offset ``start`` on; none below its minimum."""
        return self._reader.units(topic, queue_id, start, count)

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Offset of the first message, and behind the last; zeros for an unknown queue."""
        return self._reader.bounds(topic, queue_id)

    def store_time_ms(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """When a message was stored; -1 where it is not there."""
        return self._reader.store_time_ms(topic, queue_id, queue_offset)

    def earliest_time_ms(self, topic: str, queue_id: int) -> int:
        """When the first message of a queue was stored; -1 without any."""
        return self._reader.store_time_ms(topic, queue_id, self.bounds(topic, queue_id)[0])

    def offset_by_time(
        self,
        topic: str,
        queue_id: int,
        timestamp_ms: int,
        *,
        boundary: Boundary = Boundary.NEAREST,
    ) -> int:
        """Offset of the message stored at a time; 0 for an unknown queue."""
        return self._reader.offset_by_time(topic, queue_id, timestamp_ms, boundary)

    def query(
        self, topic: str, key: str, *, max_count: int, begin_ms: int, end_ms: int
    ) -> QueryResult:
        """Messages of a topic with this key or unique key, stored in a span of time.

        At most 64, newest first. Sees all that is committed.
        """
        return self._reader.query(topic, key, max_count=max_count, begin_ms=begin_ms, end_ms=end_ms)

    def is_cold(self, log_position: int) -> bool:
        """Whether it lies so far behind the end of the log that it is hardly in memory."""
        return self._reader.is_cold(log_position)

    # State

    @property
    def min_position(self) -> int:
        """First byte of the log; -1 as long as it has no file."""
        return self._log.min_position

    @property
    def max_position(self) -> int:
        """End of the log."""
        return self._log.end

    @property
    def flushed_position(self) -> int:
        """The log is durable up to here."""
        return self._flusher.flushed

    def disk_ratio(self) -> float:
        """Used share of the partition, 0 to 1."""
        return self._retention.disk_ratio()

    def queues(self) -> Iterator[tuple[str, int]]:
        """Topic and id of every queue that has files or messages."""
        return self._queues.keys()

    def document(self, name: str) -> Document:
        """A JSON file under ``config`` that belongs to its user, who writes and syncs it."""
        return Document(self._parts.files, self.config.root / "config" / name)

    def statistics(self) -> StoreStatistics:
        counters = self._parts.counters
        return StoreStatistics(
            put_messages_total=counters.put_total,
            put_bytes_total=counters.put_bytes,
            put_failed_total=counters.put_failed,
            get_found_total=counters.get_found,
            get_missed_total=counters.get_missed,
            got_messages_total=counters.got_messages,
            got_bytes_total=counters.got_bytes,
            min_position=self.min_position,
            max_position=self.max_position,
            flushed_position=self.flushed_position,
            dispatch_behind_bytes=self._log.next - self._log.end,
            index_backlog=len(self._parts.index.backlog) if self._parts.index is not None else 0,
            queues=len(self._queues),
            log_files=len(self._log.segments),
        )

    @property
    def queue_rows(self) -> "QueueRows | None":
        """The queues in RocksDB, to be looked at; None where the store has none open.

        In double writing the newest rows may be missing: see ``in_rocksdb``.
        """
        return self._parts.rocks.rows if self._parts.rocks is not None else None

    def rocksdb_progress(self) -> RocksProgress | None:
        """How much of the log is in RocksDB; None where the store has none open."""
        if self._parts.rocks is None:
            return None
        return RocksProgress(
            begin=self._parts.rocks.begin,
            filled=self._parts.rocks.filled,
            end=self._parts.rocks.watermark,
            log_begin=self._log.segments.begin,
            log_end=self._log.end,
        )

    async def in_rocksdb(self, position: int) -> None:
        """Return once RocksDB has all committed messages before ``position``, if there is one.

        That may take as long as history takes to be filled in.
        """
        if self._parts.rocks is not None:
            await self._parts.rocks.wait(position)

    async def check_rocksdb(
        self, topic: str = "", *, check_from_ms: int = 0
    ) -> "DiffReport | None":
        """Compare the queues in files with those in RocksDB, of all topics or of one.

        None where the store does not write both. Messages stored before ``check_from_ms`` may
        be missing without that a queue counts as not ready. Raises ``OSError``.
        """
        if self._parts.rocks is None or self.config.stage is not Stage.BOTH:
            return None
        check = RocksCheck(
            queues=self._parts.file_queues,
            rocks=self._parts.rocks,
            log=self._log,
            offsets=self.tables.consumer_offsets,
        )
        return await check.run(topic, check_from_ms)

    def delete_topic(self, topic: str) -> int:
        """Remove the queues of a topic; returns how many. Its records stay in the log.

        The topic's configuration and the offsets of its groups are in ``tables``. Raises
        ``OSError``, and ``StoreUnwritable`` as ``commit`` does.
        """
        self._appender.commit()  # what is under way to the topic goes with it
        self._parts.progress.note_deleted(topic, self._log.end)
        removed = self._parts.file_queues.remove_topic(topic)
        if self._parts.rocks is not None:
            removed = max(removed, self._parts.rocks.remove_topic(topic))
        self._appender.forget_queues()
        return removed

    def delete_expired_files(self) -> None:
        """Have files that are old enough removed at the next cleanings, whatever the hour."""
        self._retention.request()
