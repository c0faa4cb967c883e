"""The table ``consume_queue``: a row for each unit, from files, from RocksDB, or from the log."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from lanemq.storage.tools import BLANK_SIZE, RowsView, find_unit_facts, look_into

from .._filters import filtered, values_of
from ..records import MS_MAX, TIMESTAMP
from ._files import StoreFiles
from ._local import CONFIG, CONSUME_QUEUE, commit_log, local_store, reads_rocksdb
from ._log import Piece, find_pieces
from ._plan import LogPart, log_parts
from ._records import RecordReader
from ._table import Query
from ._units import UnitRules, Units

UNIT: Final = np.dtype([("position", ">i8"), ("size", ">i4"), ("tags", ">i8")])
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
                parts += _file_parts(root, topics)
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


def _file_parts(root: str, topics: set[Any] | None) -> Iterator[FilesPart]:
    files = StoreFiles(root)
    group: list[tuple[str, int, Piece]] = []
    size = 0
    for topic in files.entries(CONSUME_QUEUE):
        if not topic.is_directory or (topics is not None and topic.name not in topics):
            continue
        for queue in files.entries(f"{CONSUME_QUEUE}/{topic.name}"):
            if not queue.is_directory or not queue.name.isdigit():
                continue
            for piece in find_pieces(files, f"{CONSUME_QUEUE}/{topic.name}/{queue.name}"):
                group.append((topic.name, int(queue.name), piece))
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
    milliseconds = np.clip(units.times_ms, -MS_MAX, MS_MAX)
    arrays = {
        "topic": units.topics,
        "queue": pa.array(units.queue_ids, pa.int64()).cast(pa.int32()),
        "queueOffset": pa.array(units.offsets, pa.int64()),
        "logPosition": pa.array(units.positions, pa.int64()),
        "storeSize": pa.array(units.sizes, pa.int64()).cast(pa.int32()),
        "tagsCode": pa.array(units.codes, pa.int64()),
        "storeTimestamp": pa.array(milliseconds * 1000, pa.int64()).view(TIMESTAMP),
        "source": pa.repeat(LOG, len(units)),
    }
    return filtered(query.filters, arrays, query.schema)


def _batch(query: Query, topic: str, queue: int, offsets: Any, units: Any) -> Any:  # noqa: ANN401 - pyarrow has no types
    count = len(units)
    has_times = "ms" in units.dtype.names
    times = pa.nulls(count, TIMESTAMP)
    if has_times:
        milliseconds = np.clip(units["ms"].astype(np.int64), -MS_MAX, MS_MAX)
        times = pa.array(milliseconds * 1000, pa.int64()).view(TIMESTAMP)
    arrays = {
        "topic": pa.repeat(topic, count),
        "queue": pa.repeat(pa.scalar(queue, pa.int32()), count),
        "queueOffset": pa.array(offsets, pa.int64()),
        "logPosition": pa.array(units["position"].astype(np.int64)),
        "storeSize": pa.array(units["size"].astype(np.int32)),
        "tagsCode": pa.array(units["tags"].astype(np.int64)),
        "storeTimestamp": times,
        "source": pa.repeat("rocksdb" if has_times else "files", count),
    }
    return filtered(query.filters, arrays, query.schema)
