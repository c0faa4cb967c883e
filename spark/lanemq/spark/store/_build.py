"""Sorted tables of RocksDB rows, each made of a part of a log by a task of its own."""

import uuid
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from lanemq.storage.bulk import BuiltQueue, BuiltTable, SortedTable, TablesPlan, queue_keys

from ._files import StoreFiles
from ._log import LogFile, Piece, find_pieces
from ._records import RecordReader
from ._units import UnitRules, Units

PART_BYTES: Final = 256 << 20
"""Bytes of the log whose rows make one table; their units are held in memory."""
VALUE: Final = np.dtype([("position", ">i8"), ("size", ">i4"), ("code", ">i8"), ("time", ">i8")])
Ints = Any


class TablePart(NamedTuple):
    """The part of the log that one table is made of."""

    plan: TablesPlan
    piece: Piece
    begin: int
    end: int
    covers: tuple[int, int]
    """The part and what lies between it and the next one."""


def table_parts(plan: TablesPlan, *, part_bytes: int = PART_BYTES) -> list[TablePart]:
    """Divide the part of a log that tables are wanted of."""
    spans = []
    for piece in find_pieces(StoreFiles(str(plan.log)), ""):
        for at in range(piece.start, piece.end, part_bytes):
            begin, end = max(at, plan.begin), min(at + part_bytes, piece.end, plan.end)
            if begin < end:
                spans.append((piece, begin, end))
    # Where files are missing the parts before and behind the gap cover it.
    edges = [plan.begin, *(begin for _, begin, _ in spans[1:]), plan.end]
    return [
        TablePart(plan, piece, begin, end, (edges[number], edges[number + 1]))
        for number, (piece, begin, end) in enumerate(spans)
    ]


def build_table(part: TablePart) -> BuiltTable:
    """Make the table of a part, or none where offsets have to be judged. Raises ``OSError``."""
    plan = part.plan
    rules = UnitRules(plan.delays_ms, tuple(plan.deleted.items()))
    log = LogFile(StoreFiles(str(plan.log)), part.piece.name, part.piece)
    found = [rules.of(records) for records in RecordReader(log, part.begin, part.end)]
    log.close()
    queues: list[BuiltQueue] = []
    count = sum(map(len, found))
    if not count:
        return BuiltTable(*part.covers, None, 0, [])
    rows = _all(found)
    found_queues = list(_queues(plan, rows))
    if not all(_follow(rows.units.offsets[numbers]) for _, _, numbers in found_queues):
        return BuiltTable(*part.covers, None, 0, [], is_even=False)
    # Another attempt may still write its own: one that was slow, or whose executor was given up.
    path = plan.directory / f"{part.begin:020d}-{uuid.uuid4().hex}.sst"
    table = SortedTable(path)
    for topic, queue_id, numbers in found_queues:
        if len(numbers):
            queues.append(_put(table, topic, queue_id, rows.units, numbers))
    if not table.rows:
        return BuiltTable(*part.covers, None, 0, [])
    table.finish()
    path.chmod(0o600)
    return BuiltTable(*part.covers, path, table.rows, queues)


class _Rows(NamedTuple):
    codes: Ints
    names: list[str]
    units: Units


def _all(found: list[Units]) -> _Rows:
    topics = pa.chunked_array([one.topics for one in found]).combine_chunks().dictionary_encode()
    numbers = [
        np.concatenate([one[column] for one in found]) for column in range(1, len(found[0]._fields))
    ]
    codes = topics.indices.to_numpy(zero_copy_only=False)
    return _Rows(codes, topics.dictionary.to_pylist(), Units(None, *numbers))


def _queues(plan: TablesPlan, rows: _Rows) -> Iterator[tuple[str, int, Ints]]:
    """Iterate over the queues in the order of their keys: name, id, and the numbers of their rows
    in the order of the log."""
    names = rows.names
    ranks = np.empty(len(names), np.int64)
    for rank, code in enumerate(
        sorted(
            range(len(names)), key=lambda code: (len(names[code].encode()), names[code].encode())
        )
    ):
        ranks[code] = rank
    queue_ids, positions = rows.units.queue_ids, rows.units.positions
    order = np.lexsort((positions, queue_ids, ranks[rows.codes]))
    codes, ids = rows.codes[order], queue_ids[order]
    cuts = np.flatnonzero((np.diff(codes) != 0) | (np.diff(ids) != 0)) + 1
    for numbers in np.split(order, cuts):
        topic, queue_id = names[rows.codes[numbers[0]]], int(queue_ids[numbers[0]])
        kept = numbers[positions[numbers] >= plan.begins(topic, queue_id)]
        yield topic, queue_id, kept


def _follow(offsets: Ints) -> bool:
    """Return whether offsets follow each other."""
    return bool((np.diff(offsets) == 1).all()) and not (offsets < 0).any()


def _put(table: SortedTable, topic: str, queue_id: int, units: Units, numbers: Ints) -> BuiltQueue:
    """Put the rows of a queue, whose numbers are in the order of the log."""
    first, newest = int(units.offsets[numbers[0]]), int(numbers[-1])
    values = np.empty(len(numbers), VALUE)
    values["position"], values["size"] = units.positions[numbers], units.sizes[numbers]
    values["code"], values["time"] = units.codes[numbers], units.times_ms[numbers]
    table.put_run(queue_keys(topic, queue_id), first, values.tobytes())
    offset = int(units.offsets[newest])
    return BuiltQueue(topic, queue_id, first, int(units.positions[newest]), offset)
