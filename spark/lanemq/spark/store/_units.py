"""The units that a log's records have in their queues, as columns.

The rules are those of ``lanemq.storage.derive``: which records are queued, and their tags codes.
What they say of single records, as for light queues, is asked of it record by record.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lanemq.storage import light_positions
from lanemq.storage.tools import UNPLACED, delivery_delay_ms
from lanemq.wire import SystemTopic, tags_code
from lanemq.wire.message import Property, encode_properties

from ..records import RecordColumns, Records

Ints = Any


class Units(NamedTuple):
    """The units of some records; ``topics`` is an Arrow array, the others are numpy's."""

    topics: Any
    queue_ids: Ints
    offsets: Ints
    positions: Ints
    sizes: Ints
    codes: Ints
    times_ms: Ints

    def __len__(self) -> int:
        return len(self.offsets)


@final
@dataclass(frozen=True)
class UnitRules:
    """The facts that the units of a store depend on beside its log."""

    delays_ms: tuple[int, ...]
    """The delays of levels 1, 2, and so on."""
    deleted: tuple[tuple[str, int], ...] = ()
    """Topics, and the end of the log when each was deleted, as lanemq's brokers note it."""

    def of(self, records: Records) -> Units:
        """Return the units of records, those in light queues at the end."""
        placed = records.fields["sys_flag"] & UNPLACED == 0
        if not placed.all():
            records = records.take(np.flatnonzero(placed))
        columns = RecordColumns(records, check_crc=False)
        fields, topics = records.fields, columns.topics()
        units = Units(
            topics,
            fields["queue_id"],
            fields["queue_offset"],
            fields["log_position"],
            fields["size_bytes"],
            self._codes(columns, topics),
            fields["store_timestamp_ms"],
        )
        units = _joined(units, list(_light(columns, units)))
        return self._without_deleted(units)

    def _codes(self, columns: RecordColumns, topics: Any) -> Ints:  # noqa: ANN401 - pyarrow has no types
        encoded = columns.column("tags").dictionary_encode()
        known = np.array([tags_code(tags) for tags in encoded.dictionary.to_pylist()], np.int64)
        there = encoded.indices.to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(encoded.is_valid().to_numpy(zero_copy_only=False))
        codes = np.zeros(len(columns), np.int64)
        codes[rows] = known[there[rows].astype(np.int64)]
        delayed = np.flatnonzero(
            pc.equal(topics, SystemTopic.SCHEDULE).to_numpy(zero_copy_only=False)
        )
        if len(delayed):
            levels = columns.properties.get(Property.DELAY).take(pa.array(delayed)).to_pylist()
            times = columns.records.fields["store_timestamp_ms"][delayed].tolist()
            for row, level, time_ms in zip(delayed.tolist(), levels, times, strict=True):
                text = level.encode() if level is not None else None
                delay_ms = delivery_delay_ms(self.delays_ms, text)
                if delay_ms is not None:
                    codes[row] = time_ms + delay_ms
        return codes

    def _without_deleted(self, units: Units) -> Units:
        kept = np.ones(len(units), np.bool_)
        for topic, end in self.deleted:
            of_topic = pc.equal(units.topics, topic).to_numpy(zero_copy_only=False)
            kept &= ~(of_topic & (units.positions < end))
        return units if kept.all() else _taken(units, np.flatnonzero(kept))


def _light(columns: RecordColumns, units: Units) -> Iterator[tuple[Any, ...]]:
    """Iterate over the units in light queues of the few records that have such."""
    names = columns.properties.get(Property.INNER_MULTI_DISPATCH)
    if names.null_count == len(names):
        return
    offsets = columns.properties.get(Property.INNER_MULTI_QUEUE_OFFSET)
    both = pc.and_(names.is_valid(), offsets.is_valid()).to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(both).tolist():
        properties = encode_properties(
            {
                Property.INNER_MULTI_DISPATCH: names[row].as_py(),
                Property.INNER_MULTI_QUEUE_OFFSET: offsets[row].as_py(),
            }
        )
        same = [int(values[row]) for values in units[3:]]
        for position in light_positions(units.topics[row].as_py(), properties):
            yield (*position, *same)


def _joined(units: Units, more: Sequence[tuple[Any, ...]]) -> Units:
    if not more:
        return units
    topics, *numbers = zip(*more, strict=True)
    return Units(
        pa.concat_arrays([units.topics, pa.array(topics, pa.string())]),
        *(
            np.concatenate([old, np.array(new, np.int64)])
            for old, new in zip(units[1:], numbers, strict=True)
        ),
    )


def _taken(units: Units, rows: Ints) -> Units:
    return Units(units.topics.take(pa.array(rows)), *(values[rows] for values in units[1:]))
