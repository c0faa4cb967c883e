"""The messages of a store, by queue or in the order of the log."""

from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, final

from lanemq.wire import RemoteProtocolError
from lanemq.wire.message import StoredMessage, decode_message

from .._layouts import BLANK_SIZE, Unit
from ..index._keys import has_key
from ..log._records import Record, record_at
from .reading._directory import StoreDirectory, read_store
from .reading._errors import NotAStore
from .reading._rocks_view import has_database
from .reading._rows_view import RowsView
from .reading._scan import Damage, LogScan
from .reading._stage import derive_stage, files_end

SHOWN_QUEUES: Final = 16


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The selection of messages. Offsets count messages, times are store times in milliseconds."""

    topic: str | None = None
    queue_id: int | None = None
    offset: int | None = None
    """The first offset in each queue."""
    key: str | None = None
    """The key or unique key of the messages; None for any."""
    begin_ms: int | None = None
    end_ms: int | None = None
    count: int | None = None
    """The largest number of messages; None for all."""

    def accepts(self, record: Record) -> bool:
        """Return whether a record of the log is selected, ``count`` left aside."""
        return (
            (self.topic is None or record.topic == self.topic)
            and (self.queue_id is None or record.queue_id == self.queue_id)
            and (self.offset is None or record.queue_offset >= self.offset)
            and (self.begin_ms is None or record.store_timestamp_ms >= self.begin_ms)
            and (self.end_ms is None or record.store_timestamp_ms <= self.end_ms)
            and (self.key is None or has_key(record.properties, self.key))
        )


@final
@dataclass(frozen=True, slots=True)
class Lost:
    """A place in a queue that leads to no message, or damaged bytes of the log."""

    topic: str | None
    queue_id: int | None
    queue_offset: int | None
    log_position: int
    why: str


@final
@dataclass(slots=True)
class Dump:
    """An iterable of messages, and of places where one is lost."""

    store: StoreDirectory
    selection: Selection
    source: str
    """The source of the order: ``log``, ``files`` or ``rocksdb``."""
    rows: RowsView | None = None
    bounds: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    """First offset, and offset behind the last, of each selected queue, unless the source is the
    log."""

    def __iter__(self) -> Iterator[StoredMessage | Lost]:
        left = self.selection.count
        for found in self._all():
            if left is not None:
                if left <= 0:
                    return
                left -= 1
            yield found

    def _all(self) -> Iterator[StoredMessage | Lost]:
        if self.source == "log":
            yield from self._from_log()
            return
        for (topic, queue_id), (begin, end) in self.bounds.items():
            begin = max(begin, self.selection.offset or 0)
            queue = (self.rows or self.store).queue(topic, queue_id)
            for offset, unit in queue.units(begin, end):
                yield from self._of_unit(topic, queue_id, offset, unit)

    def _of_unit(
        self, topic: str, queue_id: int, offset: int, unit: Unit
    ) -> Iterator[StoredMessage | Lost]:
        log, position = self.store.log, unit.log_position
        if unit.size_bytes == BLANK_SIZE or position < log.begin:
            return  # it was removed with the oldest files
        record = record_at(log, position)
        if record is None:
            yield Lost(topic, queue_id, offset, position, "the unit leads to no record")
        elif self.selection.accepts(record) or record.topic != topic:
            yield self._message(record, (topic, queue_id, offset))

    def _message(self, record: Record, place: tuple[str, int, int] | None) -> StoredMessage | Lost:
        data = self.store.log.read(record.position, record.size_bytes)
        where = place or (record.topic, record.queue_id, record.queue_offset)
        try:
            return decode_message(data, check_crc=True)
        except RemoteProtocolError as error:
            return Lost(*where, record.position, str(error))

    def _from_log(self) -> Iterator[StoredMessage | Lost]:
        log = self.store.log
        scan = LogScan(log, log.begin, log.capacity_end, check_crc=False)
        told = 0
        for record in scan:
            for damage in scan.damages[told:]:
                yield _lost(damage)
            told = len(scan.damages)
            if self.selection.accepts(record):
                yield self._message(record, None)


def _lost(damage: Damage) -> Lost:
    why = f"{damage.end - damage.position} bytes are not a record: {damage.why}"
    return Lost(None, None, None, damage.position, why)


@contextmanager
def open_dump(
    root: Path,
    selection: Selection,
    *,
    source: str | None = None,
    commit_log: Path | None = None,
) -> Iterator[Dump]:
    """Look for messages in a store, without changing anything.

    ``source``: ``log``, ``files`` or ``rocksdb``; None for the queues that a broker would read.
    Raises ``NotAStore``, also for a topic or queue that is not there, ``StoreLocked``,
    ``StoreCorrupted`` and ``OSError``.
    """
    with read_store(root, commit_log=commit_log) as store, ExitStack() as stack:
        if source == "log":
            yield Dump(store, selection, source)
            return
        rows = None
        if source != "files" and has_database(store.consume_queue):
            rows = RowsView(store.consume_queue)
            stack.callback(rows.close)
        if source == "rocksdb" and rows is None:
            raise NotAStore(root, "it has no RocksDB in consumequeue")
        if source is None:
            stage = derive_stage(
                store,
                files_end=files_end(store),
                rocksdb_end=rows.watermark() if rows is not None else None,
            )
            if stage.stage.has_files:
                rows = None
        bounds = _selected(store, selection, rows)
        yield Dump(store, selection, "rocksdb" if rows is not None else "files", rows, bounds)


def _selected(
    store: StoreDirectory, selection: Selection, rows: RowsView | None
) -> dict[tuple[str, int], tuple[int, int]]:
    if rows is not None:
        every = {name: rows.bounds(*name) or (0, 0) for name in rows.queues()}
    else:
        every = {
            (queue.topic, queue.queue_id): (queue.begin, queue.end()) for queue in store.queues()
        }
    chosen = {
        name: every[name]
        for name in sorted(every)
        if selection.topic in (None, name[0]) and selection.queue_id in (None, name[1])
    }
    if not chosen and (selection.topic is not None or selection.queue_id is not None):
        raise NotAStore(store.root, _absent(store, selection, every, rows))
    return chosen


def _absent(
    store: StoreDirectory,
    selection: Selection,
    every: Collection[tuple[str, int]],
    rows: RowsView | None,
) -> str:
    """Return a message that names the selected parts that are missing, and those that exist."""
    kind = "RocksDB" if rows is not None else "queue files"
    lists = "`inspect_store` lists"
    log = "`open_dump(source='log')` looks through the log instead"
    if selection.topic is None:
        return f"no topic in its {kind} has a queue {selection.queue_id}; {lists} all queues"
    numbers = sorted(queue_id for topic, queue_id in every if topic == selection.topic)
    if not numbers:
        return (
            f"no topic {selection.topic!r} in its {kind}; {lists} lists those there are, and {log}"
        )
    more = len(numbers) - SHOWN_QUEUES
    shown = ", ".join(map(str, numbers[:SHOWN_QUEUES])) + (f" and {more} more" if more > 0 else "")
    return (
        f"no queue {selection.queue_id} in topic {selection.topic!r} in its {kind}; it has"
        f" {shown}, and {log}"
    )
