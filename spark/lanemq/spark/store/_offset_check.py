"""Check of the queue offsets in the records of a part of a log.

No checksum covers them. Queues whose offsets follow each other are passed over as columns; what
does not follow is judged by its neighbours, as a start of the store judges it, and by the queues.
"""

from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from lanemq.storage.tools import UNPLACED, Damage, DamageKind, DerivedUnit, Sequences

from ..records import RecordColumns, Records
from ._slots import QueueSlots

Name = tuple[str, int]
QUEUE_BITS: Final = 32


@dataclass(slots=True)
class _Seen:
    """The latest message of a queue whose offsets have followed each other so far."""

    last: DerivedUnit
    is_alone: bool
    """True while no other message of the queue confirms it."""


@final
class OffsetCheck:
    """The check of one part; takes its records in the order of the log."""

    def __init__(self, root: str) -> None:
        self.damages: list[Damage] = []
        """The records with an offset that cannot be right, as far as it is decided."""
        self._slots = QueueSlots(root)
        self._seen: dict[Name, _Seen] = {}
        self._odd: dict[Name, int] = {}
        """Queues in which an offset did not follow, and the offset that should be next."""
        self._sequences = Sequences(
            lambda unit, slot: self._note(unit, slot),
            expected=self._expected,
            is_known=lambda unit: self._slot(unit) == unit.queue_offset,
        )

    def take(self, records: Records) -> None:
        """Check the next records."""
        placed = np.flatnonzero(records.fields["sys_flag"] & UNPLACED == 0)
        if not len(placed):
            return
        records = records.take(placed)
        fields = records.fields
        topics = RecordColumns(records, check_crc=False).topics().dictionary_encode()
        queues = fields["queue_id"] & (1 << QUEUE_BITS) - 1
        keys = topics.indices.to_numpy().astype(np.int64) << QUEUE_BITS | queues
        order = np.argsort(keys, kind="stable")
        sorted_keys, offsets = keys[order], fields["queue_offset"][order]
        is_new = np.concatenate(([True], sorted_keys[1:] != sorted_keys[:-1]))
        breaks = np.concatenate(([False], offsets[1:] != offsets[:-1] + 1)) & ~is_new
        begins = np.flatnonzero(is_new)
        odd = np.add.reduceat(breaks, begins, dtype=np.int64) > 0
        names = topics.dictionary.to_pylist()
        ends = [*begins[1:].tolist(), len(order)]
        for begin, end, is_odd in zip(begins.tolist(), ends, odd.tolist(), strict=True):
            rows = order[begin:end]
            topic = names[int(sorted_keys[begin]) >> QUEUE_BITS]
            self._take_queue(topic, fields, rows, is_odd=is_odd)

    def finish(self) -> None:
        """Decide about the rest: no more records come."""
        for name, seen in self._seen.items():
            if seen.is_alone and name not in self._odd:
                self._judge(seen.last)
        self._sequences.finish()
        self.damages.sort(key=lambda one: one.position)

    def close(self) -> None:
        self._slots.close()

    def _take_queue(self, topic: str, fields: Any, rows: Any, *, is_odd: bool) -> None:  # noqa: ANN401 - numpy's arrays
        first, last = (_unit(topic, fields, int(row)) for row in (rows[0], rows[-1]))
        name = first[:2]
        seen = self._seen.get(name)
        if name not in self._odd:
            follows = seen is None or seen.last.queue_offset + 1 == first.queue_offset
            if follows and not is_odd and first.queue_offset >= 0:
                self._seen[name] = _Seen(last, seen is None and len(rows) == 1)
                return
            self._odd[name] = -1
            if seen is not None and seen.is_alone:
                self._judge(seen.last)
        for row in rows.tolist():
            self._judge(_unit(topic, fields, row))

    def _judge(self, unit: DerivedUnit) -> None:
        name = unit[:2]
        if unit.queue_offset < 0:
            self._note(unit, None)
            return
        if self._odd.get(name) != unit.queue_offset:
            slot = self._slot(unit)
            if slot is not None and slot != unit.queue_offset:
                self._note(unit, slot)
                self._odd[name] = slot + 1
                return
        self._odd[name] = unit.queue_offset + 1
        self._sequences.take(unit)

    def _expected(self, unit: DerivedUnit) -> tuple[int, int] | None:
        seen = self._seen.get(unit[:2])
        if seen is None or seen.is_alone:
            return None
        return seen.last.queue_offset + 1, seen.last.log_position

    def _slot(self, unit: DerivedUnit) -> int | None:
        return self._slots.find(*unit[:2], unit.log_position, near=unit.queue_offset)

    def _note(self, unit: DerivedUnit, slot: int | None) -> None:
        where = "" if slot is None else f", and its place in the queue is {slot}"
        why = f"its queue offset is {unit.queue_offset}{where}"
        if slot is None and unit.queue_offset >= 0:
            why += ", which the messages beside it contradict"
        end = unit.log_position + unit.size_bytes
        self.damages.append(Damage(DamageKind.BODY, unit.log_position, end, why))


def _unit(topic: str, fields: Any, row: int) -> DerivedUnit:  # noqa: ANN401 - numpy's arrays
    queue, offset, position, size, stored = (
        int(fields[name][row])
        for name in (
            "queue_id",
            "queue_offset",
            "log_position",
            "size_bytes",
            "store_timestamp_ms",
        )
    )
    return DerivedUnit(topic, queue, offset, position, size, 0, stored)
