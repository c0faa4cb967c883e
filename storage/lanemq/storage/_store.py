"""The store: the interface for its users."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, final

from lanemq.wire.message import StoredMessage, decode_message

from ._config import FlushMode
from ._errors import StoreUnwritable
from ._layouts import Unit
from ._parts import Parts
from ._statistics import RocksProgress, StoreStatistics
from .messages._dispatcher import Arrival
from .messages._messages import Boundary, Got, NewBatch, NewMessage, Put, PutBatch, QueryResult
from .messages._reader import READ_LIMITS, ReadLimits
from .messages._search import KeySearch
from .messages._times import StoreTimes
from .queues._queues import check_names
from .queues.rocks._check import RocksCheck
from .queues.rocks._diff_report import DiffReport
from .tables._document import Document

if TYPE_CHECKING:  # the binding comes with the server, and is needed only where this is used
    from .queues.rocks._queue_rows import QueueRows


@final
class Store:
    """Commit log, queues, index and tables of one broker; made by ``open_store``.

    One task at a time: no method that is not async waits, and none may be called from another
    thread. A message that is put is visible and will be dispatched once ``commit`` returns.
    Source: RocketMQ 4.9.8, DefaultMessageStore.
    """

    def __init__(self, parts: Parts) -> None:
        self.config = parts.config
        self.tables = parts.tables
        """Topics, groups and offsets."""
        self.supervisor = parts.housekeeping.supervisor
        """The supervisor of the store's tasks; users may have it run theirs."""
        self.on_durable: list[Callable[[], None]] = []
        """Callbacks for a ``dispatch`` that a flush has caused (``FlushMode.SYNC``)."""
        self.kv = parts.kv
        """The key-value states; None where ``StoreConfig.kv_enabled`` is not set."""
        self.timers = parts.timers
        """The index of timers; None where ``StoreConfig.timers_enabled`` is not set."""
        self._parts = parts
        # Looked up for every message.
        self._log, self._queues = parts.log, parts.queues
        self._appender, self._reader = parts.appender, parts.reader
        self.search = KeySearch(parts.index, parts.reader)
        self._dispatcher = parts.appender.dispatcher
        self._times = StoreTimes(log=parts.log, queues=parts.queues)
        self._flusher, self._retention = parts.flusher, parts.retention
        parts.flusher.on_flushed.append(self._became_durable)

    # Writing

    def put(self, message: NewMessage) -> Put:
        """Give a message its place, for ``commit`` to store.

        Raises ``StoreUnwritable``, and ``MessageIllegal`` for what can never be stored.
        """
        return self._appender.put(message)

    def check_target(self, topic: str, queue_id: int) -> None:
        """Check topic and queue id. Raises ``MessageIllegal`` where no message can ever be
        stored."""
        check_names(topic, queue_id)

    def put_batch(self, batch: NewBatch) -> PutBatch:
        """Put messages of one queue, whose offsets and records follow each other; see ``put``.

        All or none are taken; there must be at least one.
        """
        return self._appender.put_batch(batch)

    def commit(self) -> None:
        """Do ``write`` and ``dispatch`` in one call."""
        self._appender.write()
        self.dispatch()

    def write(self) -> bool:
        """Write everything put since the last call to the log; returns whether there was anything.
        Producers may be answered then, where the key index is not behind: see ``KeySearch``.
        ``dispatch`` must follow before anything is read. Raises ``StoreUnwritable`` where the log
        cannot be written: then nothing of it is stored, and positions and offsets are as they
        were before.
        """
        return self._appender.write()

    def dispatch(self) -> None:
        """Make what was written visible: in queues, in the index, to ``on_arrival``.

        Under ``FlushMode.SYNC`` that is what is durable; the rest follows soon, before those who
        wait for ``flushed`` hear of it. So nobody reads a message that a loss of power takes away
        again, with another one in its place. (Apache's readers may.)
        """
        if self.config.flush is not FlushMode.SYNC:
            self._dispatcher.dispatch()
            return
        self._dispatcher.dispatch(self._flusher.flushed)
        if self._dispatcher.is_behind:
            self._flusher.want()

    def _became_durable(self) -> None:
        if self.config.flush is FlushMode.SYNC and self._dispatcher.is_behind:
            self._dispatcher.dispatch(self._flusher.flushed)
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
        """The callbacks of ``dispatch`` for messages that came into a queue: see ``Arrival``."""
        return self._dispatcher.on_arrival

    @property
    def writable(self) -> bool:
        return not self._appender.reason

    @property
    def unwritable_reason(self) -> str:
        """The reason why messages are refused; empty while they are not."""
        return self._appender.reason

    # Reading

    def get(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        *,
        max_count: int,
        limits: ReadLimits = READ_LIMITS,
        tag_codes: frozenset[int] | None = None,
        matches: Callable[[bytes], bool | None] | None = None,
    ) -> Got:
        """Read messages of a queue from ``queue_offset`` on, those with one of ``tag_codes``.

        ``matches`` judges the records of those and so decides which of them are given;
        None ends the read at one that is not.

        Stops at ``max_count``, at the ``limits`` (by default 32 messages or 256 KiB, 8 and 64 KiB
        where it is cold), and after 800 messages without a match; the first is always given.
        """
        return self._reader.get(
            topic,
            queue_id,
            queue_offset,
            max_count=max_count,
            limits=limits,
            tag_codes=tag_codes,
            matches=matches,
        )

    def record_at(self, log_position: int, *, queued: bool = False) -> bytes | None:
        """Return the record that begins there; None where none does, or its body is damaged. With
        ``queued``, for a position that a client names, None unless its queue has it there."""
        is_asked = queued and not self._dispatcher.awaits(log_position)
        return self._reader.record_at(log_position, queued=is_asked)

    def read_log(self, log_position: int, size_bytes: int) -> bytes | None:
        """Read bytes of the log, such as a part of a record; None unless it has all of them."""
        return self._log.read(log_position, size_bytes)

    def why_damaged(self, log_position: int) -> str:
        """Return the fault of the message that begins there, for people; empty without one."""
        return self._reader.why_damaged(log_position)

    def message_at(self, log_position: int, *, queued: bool = False) -> StoredMessage | None:
        """Return the decoded ``record_at`` a position."""
        record = self.record_at(log_position, queued=queued)
        return decode_message(record) if record is not None else None

    def units(self, topic: str, queue_id: int, start: int, count: int) -> list[Unit]:
        """Return up to ``count`` units of a queue from ``start`` on; none below its minimum."""
        return self._reader.units(topic, queue_id, start, count)

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return the offsets of the first message and behind the last; zeros for no queue."""
        return self._reader.bounds(topic, queue_id)

    def store_time_ms(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """Return the store time of a message; -1 where it is not there."""
        return self._times.store_time_ms(topic, queue_id, queue_offset)

    def earliest_time_ms(self, topic: str, queue_id: int) -> int:
        """Return the store time of the first message of a queue; -1 without any."""
        return self._times.store_time_ms(topic, queue_id, self.bounds(topic, queue_id)[0])

    def offset_by_time(
        self,
        topic: str,
        queue_id: int,
        timestamp_ms: int,
        *,
        boundary: Boundary = Boundary.NEAREST,
    ) -> int:
        """Return the offset of the message stored at a time; 0 for an unknown queue."""
        return self._times.offset_by_time(topic, queue_id, timestamp_ms, boundary)

    def query(
        self, topic: str, key: str, *, max_count: int, begin_ms: int, end_ms: int
    ) -> QueryResult:
        """Find the messages of a topic with this key or unique key, stored in a span of time.

        At most 64, newest first. Sees all that is committed. See ``search`` for large stores.
        """
        return self.search.whole(topic, key, max_count, begin_ms, end_ms)

    def is_cold(self, log_position: int) -> bool:
        """Return whether a position is so far behind the log's end that it is hardly in memory."""
        return self._reader.is_cold(log_position)

    @property
    def has_cold(self) -> bool:
        """True if any position of the log is cold; asked with every read."""
        return self._reader.has_cold

    # State

    @property
    def min_position(self) -> int:
        """Position of the first byte of the log; -1 as long as it has no file."""
        return self._log.min_position

    @property
    def max_position(self) -> int:
        """End of the log."""
        return self._log.end

    @property
    def flushed_position(self) -> int:
        """Position up to which the log is durable."""
        return self._flusher.flushed

    def disk_ratio(self) -> float:
        """Return the used share of the partition, 0 to 1."""
        return self._retention.disk_ratio()

    def queues(self) -> Iterator[tuple[str, int]]:
        """Return topic and id of every queue that has files or messages."""
        return self._queues.keys()

    def document(self, name: str) -> Document:
        """Open a JSON file under ``config`` for a user, who writes and syncs it."""
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
            index_backlog=self._parts.index.backlog if self._parts.index is not None else 0,
            queues=len(self._queues),
            log_files=len(self._log.segments),
            damaged_pieces=self._parts.damage.pieces,
        )

    @property
    def queue_rows(self) -> "QueueRows | None":
        """The queues in RocksDB, for reading only; None where the store has none open.

        In double writing the newest rows may be missing: see ``in_rocksdb``.
        """
        return self._parts.rocks.rows if self._parts.rocks is not None else None

    def rocksdb_progress(self) -> RocksProgress | None:
        """Return the part of the log that is in RocksDB; None where the store has none open."""
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
        """Wait until RocksDB, if there is one, has all committed messages before ``position``.

        That may take as long as history takes to be filled in.
        """
        if self._parts.rocks is not None:
            await self._parts.rocks.wait(position)

    async def check_rocksdb(self, topic: str = "", *, check_from_ms: int = 0) -> DiffReport | None:
        """Compare the queues in files with those in RocksDB, of all topics or of one.

        None where the store does not write both. Messages stored before ``check_from_ms`` may
        be missing without that a queue counts as not ready. Raises ``OSError``.
        """
        if self._parts.rocks is None or not self.config.stage.has_files:
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
        self._appender.commit()  # messages under way to the topic are deleted with it
        self._parts.progress.note_deleted(topic, self._log.end)
        removed = self._parts.file_queues.remove_topic(topic)
        if self._parts.rocks is not None:
            removed = max(removed, self._parts.rocks.remove_topic(topic))
        self._appender.forget_queues()
        return removed

    def delete_expired_files(self) -> None:
        """Ask for the removal of old enough files at the next cleanings, whatever the hour."""
        self._retention.request()

    async def clean(self) -> int:
        """Remove the files that are old enough now, whatever the hour; returns how many.

        Raises ``OSError``, ``StoreUnwritable``.
        """
        await self._flusher.flush()  # only what is durable may go
        removed = 0
        while True:
            self._retention.request()
            found = await self._retention.run_once()
            if not found:
                return removed
            removed += found
