"""The table ``consume_queue``: a row for each unit, from files, from RocksDB, or from the log."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from lanemq.local import get_logger
from lanemq.storage.tools import BLANK_SIZE, RowsView, find_unit_facts, look_into

from .._errors import StoreDamaged
from .._filters import filtered, values_of
from .._uris import below, shown
from ..records import TIMESTAMP, times
from ._files import StoreFiles
from ._local import CONFIG, CONSUME_QUEUE, commit_log, local_store, reads_rocksdb
from ._log import Piece, find_pieces
from ._plan import LogPart, log_parts
from ._records import RecordReader
from ._slots import UNIT
from ._table import Query
from ._units import UnitRules, Units

LOGGER: Final = get_logger("lanemq.spark")
FAILFAST: Final = "FAILFAST"
ROW: Final = np.dtype(
    [*[(name, UNIT[name]) for name in ("position", "size", "tags")], ("ms", ">i8")]
)
LOG: Final = "log"
PART_BYTES: Final = 64 << 20
ROWS_AT_ONCE: Final = 1 << 16
UNIT_COLUMNS: Final = {
    "topic": "string",
    "queue": "int",
    "queueOffset": "bigint",
    "logPosition": "bigint",
    "storeSize": "int",
    "tagsCode": "bigint",
    "storeTimestamp": "timestamp",
    "source": "string",
}


@final
@dataclass(frozen=True)
class FilesPart(InputPartition):
    """Some files of queues: topic, queue id and file of each."""

    root: str
    files: tuple[tuple[str, int, Piece], ...]


@final
@dataclass(frozen=True)
class RowsPart(InputPartition):
    """Some queues in RocksDB: topic and queue id of each."""

    root: str
    queues: tuple[tuple[str, int], ...]


@final
@dataclass(frozen=True)
class RecordsPart(InputPartition):
    """A part of the log, whose records tell what units they must have."""

    log: LogPart
    rules: UnitRules


@final
class ConsumeQueueTable:
    """A row for each message of each queue, as the index has it, or as the log has it."""

    columns = UNIT_COLUMNS
    on_demand: Final[dict[str, str]] = {}

    def parts(self, query: Query) -> list[InputPartition]:
        parts: list[InputPartition] = []
        topics = values_of(query.filters, "topic")
        if query.options.choice("from") == LOG:
            rules = {root: unit_rules(query, root) for root in query.roots}
            return [RecordsPart(part, rules[part.root]) for part in log_parts(query)]
        for root in query.roots:
            if reads_rocksdb(query, root):
                with local_store(root, CONSUME_QUEUE) as directory:
                    view = RowsView(directory / CONSUME_QUEUE)
                    queues = [one for one in view.queues() if topics is None or one[0] in topics]
                    view.close()
                parts += [RowsPart(root, tuple(group)) for group in _groups(queues)]
            else:
                queues_of_files = list(_queue_files(root, topics))  # listed once: it may be far
                _check_gaps(query, root, queues_of_files)
                parts += _file_parts(root, queues_of_files)
        return parts

    def batches(self, query: Query, part: FilesPart | RowsPart | RecordsPart) -> Iterator[Any]:
        if isinstance(part, RowsPart):
            yield from _rows(query, part)
            return
        if isinstance(part, RecordsPart):
            yield from _records(query, part)
            return
        files = StoreFiles(part.root)
        for topic, queue, piece in part.files:
            path = f"{CONSUME_QUEUE}/{topic}/{queue}/{piece.name}"
            file = files.open(path)
            data = file.read(0, piece.size_bytes // UNIT.itemsize * UNIT.itemsize)
            units = np.frombuffer(data, UNIT)
            used = np.flatnonzero((units["size"] > 0) & (units["size"] != BLANK_SIZE))
            offsets = piece.start // UNIT.itemsize + used
            yield _batch(query, topic, queue, offsets, units[used])
            file.close()


def _groups(queues: list[tuple[str, int]], size: int = 64) -> Iterator[list[tuple[str, int]]]:
    for begin in range(0, len(queues), size):
        yield queues[begin : begin + size]


def _queue_files(
    root: str, topics: set[Any] | None = None
) -> Iterator[tuple[str, int, list[Piece]]]:
    """Iterate over the queues of a store: topic, queue id, and files."""
    files = StoreFiles(root)
    for topic in files.entries(CONSUME_QUEUE):
        if not topic.is_directory or (topics is not None and topic.name not in topics):
            continue
        for queue in files.entries(f"{CONSUME_QUEUE}/{topic.name}"):
            if queue.is_directory and queue.name.isdigit():
                directory = f"{CONSUME_QUEUE}/{topic.name}/{queue.name}"
                yield topic.name, int(queue.name), find_pieces(files, directory)


def missing_queue_files(root: str) -> Iterator[tuple[str, int]]:
    """Iterate over the files that lack between others of a queue: path in the store, and bytes
    up to the next one."""
    return _missing(_queue_files(root))


def _missing(queues: Iterable[tuple[str, int, list[Piece]]]) -> Iterator[tuple[str, int]]:
    for topic, queue, pieces in queues:
        for before, after in pairwise(pieces):
            if before.end < after.start:
                name = Piece(before.end, 0).name
                yield f"{CONSUME_QUEUE}/{topic}/{queue}/{name}", after.start - before.end


def _check_gaps(query: Query, root: str, queues: Iterable[tuple[str, int, list[Piece]]]) -> None:
    """Raise ``StoreDamaged`` for a queue that lacks a file; other modes write it to the log."""
    for path, size_bytes in _missing(queues):
        units = size_bytes // UNIT.itemsize
        why = f"{below(shown(root), path)} is missing: {units:,} units of the queue are not read"
        if query.options.choice("mode") == FAILFAST:
            raise StoreDamaged(f"{why}. mode=PERMISSIVE reads the rest; table=damage lists them")
        LOGGER.warning("rocketmq-store: %s", why)


def _file_parts(root: str, queues: Iterable[tuple[str, int, list[Piece]]]) -> Iterator[FilesPart]:
    group: list[tuple[str, int, Piece]] = []
    size = 0
    for topic, queue, pieces in queues:
        for piece in pieces:
            group.append((topic, queue, piece))
            size += piece.size_bytes
            if size >= PART_BYTES:
                yield FilesPart(root, tuple(group))
                group, size = [], 0
    if group:
        yield FilesPart(root, tuple(group))


def _rows(query: Query, part: RowsPart) -> Iterator[Any]:
    with local_store(part.root, CONSUME_QUEUE) as directory:
        view = RowsView(directory / CONSUME_QUEUE)
        for topic, queue in part.queues:
            first, end = view.bounds(topic, queue) or (0, 0)
            for begin in range(first, end, ROWS_AT_ONCE):
                found = list(view.values(topic, queue, begin, min(ROWS_AT_ONCE, end - begin)))
                if found:
                    offsets, values = zip(*found, strict=True)
                    rows = np.frombuffer(b"".join(values), ROW)
                    yield _batch(query, topic, queue, np.array(offsets, np.int64), rows)
        view.close()


def unit_rules(query: Query, root: str) -> UnitRules:
    """Return the rules by which a store's records have units."""
    with local_store(root, CONFIG, CONSUME_QUEUE) as directory:
        store = look_into(directory, commit_log=commit_log(query, root), needs_log=False)
        facts = find_unit_facts(store)
    return UnitRules(facts.delays_ms, tuple(facts.deleted.items()))


def _records(query: Query, part: RecordsPart) -> Iterator[Any]:
    log = part.log.open()
    for records in RecordReader(log, part.log.begin, part.log.end):
        yield _made(query, part.rules.of(records))
    log.close()


def _made(query: Query, units: Units) -> Any:  # noqa: ANN401 - pyarrow has no types
    arrays = {
        "topic": units.topics,
        "queue": pa.array(units.queue_ids, pa.int64()).cast(pa.int32()),
        "queueOffset": pa.array(units.offsets, pa.int64()),
        "logPosition": pa.array(units.positions, pa.int64()),
        "storeSize": pa.array(units.sizes, pa.int64()).cast(pa.int32()),
        "tagsCode": pa.array(units.codes, pa.int64()),
        "storeTimestamp": times(units.times_ms),
        "source": pa.repeat(LOG, len(units)),
    }
    return filtered(query.filters, arrays, query.schema)


def _batch(query: Query, topic: str, queue: int, offsets: Any, units: Any) -> Any:  # noqa: ANN401 - pyarrow has no types
    count = len(units)
    has_times = "ms" in units.dtype.names
    stored = times(units["ms"].astype(np.int64)) if has_times else pa.nulls(count, TIMESTAMP)
    arrays = {
        "topic": pa.repeat(topic, count),
        "queue": pa.repeat(pa.scalar(queue, pa.int32()), count),
        "queueOffset": pa.array(offsets, pa.int64()),
        "logPosition": pa.array(units["position"].astype(np.int64)),
        "storeSize": pa.array(units["size"].astype(np.int32)),
        "tagsCode": pa.array(units["tags"].astype(np.int64)),
        "storeTimestamp": stored,
        "source": pa.repeat("rocksdb" if has_times else "files", count),
    }
    return filtered(query.filters, arrays, query.schema)
