"""The comparison of a store's RocksDB with its queue files."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import final

from lanemq.wire.message import is_stage_group

from ..log._records import store_timestamp_ms
from ..queues.rocks._diff import at_once, diff_queue
from ..queues.rocks._diff_report import DiffReport, QueueDiff, diff_report
from .checks._findings import Progress, no_progress
from .reading._directory import StoreDirectory, read_store
from .reading._errors import NotAStore
from .reading._metadata import (
    TABLES,
    consumer_offsets,
    has_table_database,
    read_json_table,
    read_rocks_table,
)
from .reading._queue_files import QueueFiles
from .reading._rocks_view import has_database
from .reading._rows_view import RowsView
from .reading._stage import StageFound, derive_stage, files_end

HEAD_BYTES = 80


@final
@dataclass(frozen=True, slots=True)
class StoreDiff:
    """The result of the comparison; ``watermark`` is the position up to which RocksDB has rows."""

    root: Path
    stage: StageFound
    log_begin: int
    files_end: int
    """Position behind the newest message that has a unit in a file."""
    watermark: int
    report: DiffReport


@final
class _FilesView:
    """A queue in files, for the comparison."""

    def __init__(self, queue: QueueFiles, log_begin: int) -> None:
        self._queue = queue
        self.end = queue.end() if len(queue.pieces) else 0
        self.min = queue.first_from(log_begin, self.end) if len(queue.pieces) else 0

    def read(self, offset: int, count: int) -> bytes:
        count = min(count, self.end - offset)
        return self._queue.read(offset, count) if count > 0 else b""


def diff_store(
    root: Path,
    *,
    topic: str | None = None,
    check_from_ms: int = 0,
    commit_log: Path | None = None,
    progress: Progress = no_progress,
) -> StoreDiff:
    """Compare the two indexes of a store, or of one topic, without changing anything.

    ``check_from_ms``: differences in messages stored before do not count, as in the reference.
    Raises ``NotAStore``, also where there is no RocksDB or no such topic, ``StoreLocked``,
    ``StoreCorrupted`` and ``OSError``.
    """
    with read_store(root, commit_log=commit_log) as store, ExitStack() as stack:
        if not has_database(store.consume_queue):
            raise NotAStore(
                root,
                "it has no RocksDB in consumequeue, so there is nothing to compare: start lanemq"
                " with rocksdbCQDoubleWriteEnable=true, or use `convert_to_rocksdb`",
            )
        rows = RowsView(store.consume_queue)
        stack.callback(rows.close)
        names = _names(store, rows, topic)
        committed = _committed(store)
        found: list[QueueDiff] = []
        for number, (name, queue_id) in enumerate(names):
            queue = store.queue(name, queue_id)
            view = _FilesView(queue, store.log.begin)
            steps = diff_queue(
                name,
                queue_id,
                files=view,
                rows=rows.view(name, queue_id, store.log.begin),
                store_time_ms=lambda position: _store_time_ms(store, position),
                check_from_ms=check_from_ms,
                committed=committed.get((name, queue_id)),
            )
            found.append(at_once(steps))
            queue.close()
            progress("queues", number + 1, len(names))
        end, mark = files_end(store), rows.watermark()
        stage = derive_stage(store, files_end=end, rocksdb_end=mark)
        return StoreDiff(root, stage, store.log.begin, end, mark, diff_report(found))


def _names(store: StoreDirectory, rows: RowsView, topic: str | None) -> list[tuple[str, int]]:
    every = {(queue.topic, queue.queue_id) for queue in store.queues()} | set(rows.queues())
    chosen = sorted(name for name in every if topic in (None, name[0]))
    if topic is not None and not chosen:
        raise NotAStore(
            store.root,
            f"no topic {topic!r}; `inspect_store` lists those there are",
        )
    return chosen


def _committed(store: StoreDirectory) -> dict[tuple[str, int], int]:
    """Return (topic, queue id) -> the smallest offset that a group has, on either side."""
    smallest: dict[tuple[str, int], int] = {}
    (kind,) = (kind for kind in TABLES if kind.name == "consumerOffsets")
    tables = [read_json_table(store.config, kind)]
    if has_table_database(store.config, kind):
        tables.append(read_rocks_table(store.config, kind))
    for table in tables:
        for (group, topic), queues in consumer_offsets(table).items():
            for queue_id, offset in queues.items() if not is_stage_group(group) else ():
                name = topic, queue_id
                smallest[name] = min(offset, smallest.get(name, offset))
    return smallest


def _store_time_ms(store: StoreDirectory, position: int) -> int:
    head = store.log.read(position, HEAD_BYTES)
    return store_timestamp_ms(head) if head else -1
