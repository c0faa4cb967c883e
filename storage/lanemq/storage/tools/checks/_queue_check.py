"""The comparison of a queue's units with those that the log demands."""

from struct import Struct
from typing import Final, final

from lanemq.wire import SystemTopic

from ..._layouts import UNIT_BYTES, iter_units, unpack_unit
from ...derive._compare import Verdict, differences, judge
from ...derive._units import DerivedUnit
from ...queues.rocks._row_format import pack_unit_value
from ..reading._queue_files import QueueFiles
from ..reading._rows_view import RowsView
from ._tally import QueueSpan

FIELDS: Final = 3
RUN_FIELDS: Final = 4096 * FIELDS


@final
class QueueCheck:
    """The check of one queue: units come one after another, and are compared in runs."""

    def __init__(
        self, topic: str, queue_id: int, first: int, files: QueueFiles | None, rows: RowsView | None
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.next = first
        self.holds = False
        """True while a judgement is awaited about units that were not added."""
        self.span = QueueSpan(first, first)
        self._is_schedule = topic == SystemTopic.SCHEDULE
        self._files = files
        self._rows = rows
        self._start = first
        self.fields: list[int] = []
        """Log positions, sizes and tags codes of the next units, one behind the other."""
        self.is_plain = rows is None
        """True if nothing but ``fields`` and ``next`` changes with a unit that is the next one."""
        self._values: list[bytes] = []

    def add(self, unit: DerivedUnit) -> None:
        """Check that a record's unit is in its slot."""
        _, _, offset, position, size_bytes, code, store_ms = unit
        if offset != self.next:
            self._jump(position, offset)
        self.fields += (position, size_bytes, code)
        if self._rows is not None:
            self._values.append(pack_unit_value(position, size_bytes, code, store_ms))
        self.next = offset + 1
        self.flush_if_full()

    @property
    def has_several(self) -> bool:
        """True if more than one message was added."""
        return self.span.records > 0 or len(self.fields) > FIELDS

    @property
    def last_position(self) -> int:
        """Log position of the newest message."""
        return self.fields[-FIELDS] if self.fields else self.span.last_position

    def flush_if_full(self) -> None:
        """Compare the units that were added, if they are many."""
        if len(self.fields) >= RUN_FIELDS:
            self.flush()

    def _jump(self, position: int, offset: int) -> None:
        self.flush()
        span = self.span
        if offset > self.next:
            span.gaps.add(self.next, position, count=offset - self.next)
        else:
            # The topic was deleted and made again, or a broker ran without the queue's last files.
            span.go_back(offset, position)
        self._start = self.next = offset

    def flush(self) -> None:
        """Compare what was added since the last time."""
        if not self.fields:
            return
        count = len(self.fields) // FIELDS
        units = Struct(">" + "qiq" * count).pack(*self.fields)
        self.fields.clear()
        span = self.span
        span.records += count
        span.next = self._start + count
        span.last_position = unpack_unit(units, len(units) - UNIT_BYTES)[0]
        if self._files is not None:
            if self._files.read(self._start, count) == units:
                span.files.same += count
            else:
                self._differ_from_files(units)
        if self._rows is not None:
            self._compare_rows(self._rows, units)
            self._values.clear()
        self._start += count

    def _differ_from_files(self, units: bytes) -> None:
        files, check = self._files, self.span.files
        assert files is not None
        begin = end = 0
        if len(files.pieces):
            begin, end = files.begin, files.written_end()
        count = len(units) // UNIT_BYTES
        data = files.read(self._start, count)
        check.same += count
        for number, verdict in differences(data, units, is_schedule=self._is_schedule):
            at = number * UNIT_BYTES
            wanted = unpack_unit(units, at)
            offset, position = self._start + number, wanted[0]
            check.same -= 1
            if offset < begin or not end:
                (check.before if end else check.behind).add(offset, position)
            elif offset >= end:
                check.behind.add(offset, position)
            elif verdict is Verdict.ABSENT:
                check.missing.add(offset, position, "its file is gone")
            elif verdict is Verdict.BLANK:
                check.missing.add(offset, position)
            else:
                check.wrong.add(offset, position, _difference(unpack_unit(data, at), wanted))

    def _compare_rows(self, rows: RowsView, units: bytes) -> None:
        check, wanted = self.span.rows, self._values
        start, end = self._start, self._start + len(wanted)
        try:
            found = list(rows.values(self.topic, self.queue_id, start, len(wanted)))
        except OSError as error:
            position = unpack_unit(units, 0)[0]
            check.wrong.add(start, position, f"cannot be read: {error.strerror}", len(wanted))
            return
        if len(found) == len(wanted) and [value for _, value in found] == wanted:
            check.same += len(wanted)
            return
        by_offset = dict(found)
        bounds = rows.bounds(self.topic, self.queue_id)
        first, last = bounds if bounds is not None else (end, start)
        for number, fields in enumerate(iter_units(units)):
            offset, position = start + number, fields[0]
            value = by_offset.get(offset)
            if value is None:
                if offset >= last:
                    check.behind.add(offset, position)
                elif offset < first:
                    check.before.add(offset, position)
                else:
                    check.missing.add(offset, position)
            elif value == wanted[number]:
                check.same += 1
            else:
                row = unpack_unit(value, 0)
                verdict = judge(row, fields, is_schedule=self._is_schedule)
                if verdict is Verdict.SAME and value[UNIT_BYTES:] == wanted[number][UNIT_BYTES:]:
                    check.same += 1
                else:
                    check.wrong.add(offset, position, _difference(row, fields))

    def close(self) -> QueueSpan:
        """Compare the rest; returns what was found."""
        self.flush()
        if self._files is not None:
            self._files.close()
        return self.span


def _difference(found: tuple[int, int, int], wanted: tuple[int, int, int]) -> str:
    if found[0] != wanted[0]:
        return f"it leads to position {found[0]}"
    if found[1] != wanted[1]:
        return f"it says {found[1]} bytes, the record has {wanted[1]}"
    if found[2] != wanted[2]:
        return f"its tags code is {found[2]}, that of the tags {wanted[2]}"
    return "its store time is not the record's"
