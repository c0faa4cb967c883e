"""The tables ``messages`` and ``damage``: a walk over the log, for its rows or for its faults."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from lanemq.storage.tools import Damage, DamageKind

from .._errors import StoreDamaged
from .._filters import usable, wanted_rows
from .._schemas import LOGICAL_QUEUE, MESSAGES, MESSAGES_ON_DEMAND
from .._uris import shown
from ..records import RecordColumns, Records, Unreadable
from ._files import StoreFiles
from ._log import LogFile, find_pieces
from ._logical import logical_places
from ._plan import LogPart, log_of, log_parts, missing_files
from ._records import RecordReader
from ._table import Query

PERMISSIVE: Final = "PERMISSIVE"
DROPMALFORMED: Final = "DROPMALFORMED"
FAILFAST: Final = "FAILFAST"
MODES: Final = (PERMISSIVE, DROPMALFORMED, FAILFAST)
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
                    raise StoreDamaged(
                        _told(shown(log), damage.position, damage.position, damage.why)
                    )
        return [*parts]

    def batches(self, query: Query, part: LogPart) -> Iterator[Any]:
        """Iterate over batches of messages. Raises ``StoreDamaged`` where the mode says so."""
        mode = query.options.choice("mode")
        check_crc = query.options.flag("checkCrc")
        log = part.open()
        filters = usable(query.filters, {**MESSAGES, **MESSAGES_ON_DEMAND})
        reader = RecordReader(log, part.begin, part.end)
        for records in reader:
            if mode == FAILFAST:
                _refuse(log, reader.damages)
            columns = RecordColumns(records, check_crc=check_crc, places=part.places)
            wanted = wanted_rows(filters, columns.column)
            if wanted is not None:
                rows = np.flatnonzero(wanted.to_numpy(zero_copy_only=False))
                columns = RecordColumns(records.take(rows), check_crc=check_crc, places=part.places)
            yield _batch(log, query, columns, mode)
        if mode == FAILFAST:
            _refuse(log, reader.damages)
        log.close()


def _batch(log: LogFile, query: Query, columns: RecordColumns, mode: str) -> Any:  # noqa: ANN401 - pyarrow has no types
    arrays = [columns.column(name) for name in query.names]
    batch = pa.RecordBatch.from_arrays(arrays, schema=query.schema)
    if columns.unreadable:
        if mode == FAILFAST:
            _refuse(log, [_damaged_body(columns.records, one) for one in columns.unreadable])
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
    return (
        f"{file}: damaged at byte {place} (log position {position}): {why}. mode=PERMISSIVE or"
        " DROPMALFORMED reads the rest; table=damage lists everything of the kind"
    )


def _damaged_body(records: Records, one: Unreadable) -> Damage:
    position = int(records.fields["log_position"][one.row])
    size = int(records.fields["size_bytes"][one.row])
    return Damage(DamageKind.BODY, position, position + size, one.why)


@final
class DamageTable:
    """A row for each piece of the log that is damaged or missing, bodies included."""

    columns = DAMAGE
    on_demand: Final[dict[str, str]] = {}

    def parts(self, query: Query) -> list[InputPartition]:
        return [*log_parts(query)]

    def batches(self, query: Query, part: LogPart) -> Iterator[Any]:
        log = part.open()
        reader = RecordReader(log, part.begin, part.end)
        bodies: list[Damage] = []
        for records in reader:
            columns = RecordColumns(records)
            columns.column("body")
            bodies += [_damaged_body(records, one) for one in columns.unreadable]
        found = sorted([*bodies, *reader.damages, *self._gap_before(part)], key=_position)
        log.close()
        yield _damage_batch(query, part, log, found)

    def _gap_before(self, part: LogPart) -> list[Damage]:
        if part.begin != part.piece.start:
            return []
        gaps = missing_files(find_pieces(StoreFiles(part.log), ""))
        return [gap for gap in gaps if gap.end == part.begin]


def _position(damage: Damage) -> int:
    return damage.position


def _damage_batch(query: Query, part: LogPart, log: LogFile, found: list[Damage]) -> Any:  # noqa: ANN401 - pyarrow has no types
    rows = [
        {
            "store": shown(part.root),
            "file": log.shown,
            "filePosition": max(0, damage.position - log.start),
            "logPosition": damage.position,
            "endPosition": damage.end,
            "kind": damage.kind.value,
            "why": damage.why,
        }
        for damage in found
    ]
    return pa.RecordBatch.from_pylist(rows, schema=query.schema)
