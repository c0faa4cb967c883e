"""The tables ``messages`` and ``damage``: a walk over the log, for its rows or for its faults."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final, final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from lanemq.storage.tools import Damage, DamageKind

from .._errors import StoreDamaged
from .._filters import usable, wanted_rows
from .._schemas import LOGICAL_QUEUE, MESSAGES, MESSAGES_ON_DEMAND
from .._uris import below, shown
from ..records import RecordColumns, Records, Unreadable
from ._files import StoreFiles
from ._log import LogFile, Piece, find_pieces
from ._logical import logical_places
from ._offset_check import OffsetCheck
from ._plan import LogPart, log_of, log_parts, missing_files
from ._queues import FAILFAST, missing_queue_files
from ._records import RecordReader
from ._table import Query

PERMISSIVE: Final = "PERMISSIVE"
DROPMALFORMED: Final = "DROPMALFORMED"
MODES: Final = (PERMISSIVE, DROPMALFORMED, FAILFAST)
WAY_ON: Final = (
    "mode=PERMISSIVE or DROPMALFORMED reads the rest; table=damage lists everything of the kind"
)
HEADER: Final = "header"
DAMAGE: Final = {
    "store": "string",
    "file": "string",
    "filePosition": "bigint",
    "logPosition": "bigint",
    "endPosition": "bigint",
    "kind": "string",
    "why": "string",
}


@final
class MessagesTable:
    """A row for each record of the log."""

    columns = MESSAGES
    on_demand = MESSAGES_ON_DEMAND

    def parts(self, query: Query) -> list[InputPartition]:
        parts = log_parts(query)
        if query.needs(LOGICAL_QUEUE):
            found = {root: logical_places(query, root) for root in query.roots}
            parts = [replace(part, places=found[part.root]) for part in parts]
        if query.options.choice("mode") == FAILFAST:
            for root in query.roots:
                log = log_of(query, root)
                for damage in missing_files(find_pieces(StoreFiles(log), "")):
                    name = Piece(damage.position, 0).name
                    raise StoreDamaged(
                        f"{below(shown(log), name)} is missing: the log lacks"
                        f" {damage.end - damage.position:,} bytes. {WAY_ON}"
                    )
        return [*parts]

    def batches(self, query: Query, part: LogPart) -> Iterator[Any]:
        """Iterate over batches of messages. Raises ``StoreDamaged`` where the mode says so."""
        mode = query.options.choice("mode")
        check_crc = query.options.flag("checkCrc")
        log = part.open()
        filters = usable(query.filters, {**MESSAGES, **MESSAGES_ON_DEMAND})
        reader = RecordReader(log, part.begin, part.end)
        with closing(OffsetCheck(part.root)) as check:
            for records in reader:
                if mode == FAILFAST:
                    check.take(records)
                    _refuse(log, [*reader.damages, *check.damages])
                    odd = RecordColumns(records).odd_headers()
                    _refuse(log, [_damaged_record(records, one) for one in odd])
                columns = RecordColumns(records, check_crc=check_crc, places=part.places)
                wanted = wanted_rows(filters, columns.column)
                if wanted is not None:
                    rows = np.flatnonzero(wanted.to_numpy(zero_copy_only=False))
                    records = records.take(rows)
                    columns = RecordColumns(records, check_crc=check_crc, places=part.places)
                yield _batch(log, query, columns, mode)
            check.finish()
            if mode == FAILFAST:
                _refuse(log, [*reader.damages, *check.damages])
        log.close()


def _batch(log: LogFile, query: Query, columns: RecordColumns, mode: str) -> Any:  # noqa: ANN401 - pyarrow has no types
    arrays = [columns.column(name) for name in query.names]
    batch = pa.RecordBatch.from_arrays(arrays, schema=query.schema)
    if columns.unreadable:
        if mode == FAILFAST:
            _refuse(log, [_damaged_record(columns.records, one) for one in columns.unreadable])
        if mode == DROPMALFORMED:
            kept = np.ones(len(columns), np.bool_)
            kept[[one.row for one in columns.unreadable]] = False
            batch = batch.filter(pa.array(kept))
    return batch


def _refuse(log: LogFile, damages: list[Damage]) -> None:
    for damage in damages:
        place = damage.position - log.start
        raise StoreDamaged(_told(log.shown, place, damage.position, damage.why))


def _told(file: str, place: int, position: int, why: str) -> str:
    return f"{file}: damaged at byte {place} (log position {position}): {why}. {WAY_ON}"


def _damaged_record(records: Records, one: Unreadable) -> Damage:
    position = int(records.fields["log_position"][one.row])
    size = int(records.fields["size_bytes"][one.row])
    return Damage(DamageKind.BODY, position, position + size, one.why)


@final
class DamageTable:
    """A row for each piece of the log that is damaged or missing, bodies included."""

    columns = DAMAGE
    on_demand: Final[dict[str, str]] = {}

    def parts(self, query: Query) -> list[InputPartition]:
        return [*log_parts(query), *(QueuesPart(root) for root in query.roots)]

    def batches(self, query: Query, part: "LogPart | QueuesPart") -> Iterator[Any]:
        if isinstance(part, QueuesPart):
            yield _missing_batch(query, part.root)
            return
        log = part.open()
        reader = RecordReader(log, part.begin, part.end)
        found: list[tuple[Damage, str]] = []
        with closing(OffsetCheck(part.root)) as check:
            for records in reader:
                check.take(records)
                columns = RecordColumns(records)
                columns.column("body")
                for one in columns.unreadable:
                    found.append((_damaged_record(records, one), DamageKind.BODY.value))
                for one in columns.odd_headers():
                    found.append((_damaged_record(records, one), HEADER))
            check.finish()
        found += [(damage, HEADER) for damage in check.damages]
        for damage in (*reader.damages, *self._gap_before(part)):
            found.append((damage, damage.kind.value))
        log.close()
        yield _damage_batch(query, part, log, sorted(found, key=_position))

    def _gap_before(self, part: LogPart) -> list[Damage]:
        if part.begin != part.piece.start:
            return []
        gaps = missing_files(find_pieces(StoreFiles(part.log), ""))
        return [gap for gap in gaps if gap.end == part.begin]


@final
@dataclass(frozen=True)
class QueuesPart(InputPartition):
    """The files of a store's queues, of which some may lack."""

    root: str


def _missing_batch(query: Query, root: str) -> Any:  # noqa: ANN401 - pyarrow has no types
    rows = [
        {
            "store": shown(root),
            "file": below(shown(root), path),
            "filePosition": 0,
            "kind": DamageKind.GAP.value,
            "why": f"no file of the queue begins here; {size_bytes:,} bytes lack",
        }
        for path, size_bytes in missing_queue_files(root)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=query.schema)


def _position(found: tuple[Damage, str]) -> int:
    return found[0].position


def _damage_batch(
    query: Query, part: LogPart, log: LogFile, found: list[tuple[Damage, str]]
) -> Any:  # noqa: ANN401 - pyarrow has no types
    rows = [
        {
            "store": shown(part.root),
            "file": log.shown,
            "filePosition": max(0, damage.position - log.start),
            "logPosition": damage.position,
            "endPosition": damage.end,
            "kind": kind,
            "why": damage.why,
        }
        for damage, kind in found
    ]
    return pa.RecordBatch.from_pylist(rows, schema=query.schema)
