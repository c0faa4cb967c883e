"""Rows made from the records of a part of the log, where no queue file tells."""

from collections.abc import Callable, Iterator
from typing import Final, final

from .._places import Places
from .._tags import TagsCodes
from ..rocks import QueueKeys
from ..rocks._rows import pack_unit_value
from ..tools._pieces import Pieces
from ..tools._scan import LogScan
from ._file_units import Newest
from ._heads import LOW_COUNT, RUN_UNITS_MAX
from ._sorted_table import SortedTable

RECORDS_MAX: Final = 1_000_000
Since = Callable[[str, int], int]
"""Topic and queue id -> log position from which on messages are in that queue still: a topic may
have been deleted."""
NEVER: Final = 1 << 63
"""The answer for a queue that cannot be."""


@final
class _Rows:
    """What a part of the log has of one queue: offset -> value of the row."""

    __slots__ = ("by_offset", "since")

    def __init__(self, since: int) -> None:
        self.since = since
        self.by_offset: dict[int, bytes] = {}


@final
class LogUnits:
    """Reads the log. ``places`` and ``since`` tell which queues a record is in."""

    def __init__(self, log: Pieces, *, places: Places, tags: TagsCodes, since: Since) -> None:
        self._log = log
        self._places = places
        self._tags = tags
        self._since = since
        self._queues: dict[tuple[str, int], _Rows] = {}
        self.made_anew: set[tuple[str, int]] = set()
        """Queues that began again in what ``write`` wrote last: their older rows must go."""

    def write(self, begin: int, end: int, table: SortedTable) -> tuple[int, Newest]:
        """Write rows of records from ``begin`` on to a table, up to ``end`` at most.

        Returns where it stopped, and where each queue is then. Raises ``OSError``.
        """
        self._queues = {}
        self.made_anew = set()
        count, stopped = 0, end
        code_of = self._tags.code
        for record in LogScan(self._log, begin, end, check_crc=False):
            if count == RECORDS_MAX:
                stopped = record.position
                break
            count += 1
            places = self._places.of(record)
            if not places:
                continue
            position, store_ms = record.position, record.store_timestamp_ms
            value = pack_unit_value(
                position,
                record.size_bytes,
                code_of(record.topic, record.properties, store_ms),
                store_ms,
            )
            for topic, queue_id, offset in places:
                name = topic, queue_id
                rows = self._queues.get(name)
                if rows is None:
                    rows = self._queues[name] = _Rows(self._since(topic, queue_id))
                if position >= rows.since:
                    if not offset:
                        rows.by_offset.clear()
                        self.made_anew.add(name)
                    rows.by_offset[offset] = value
        return stopped, self._put(table)

    def _put(self, table: SortedTable) -> Newest:
        newest: Newest = {}
        for topic, queue_id in sorted(
            self._queues, key=lambda name: (len(name[0].encode()), *name)
        ):
            rows = self._queues[topic, queue_id].by_offset
            if not rows:
                continue
            data = topic.encode()
            keys = QueueKeys(data, queue_id)
            for first, values in _runs(rows):
                table.put(keys, first, values)
            last = max(rows)
            newest[data, queue_id] = int.from_bytes(rows[last][:8], "big"), last
        return newest


def _runs(rows: dict[int, bytes]) -> Iterator[tuple[int, bytes]]:
    """First offset and values of rows that follow each other, as long as a table takes them."""
    offsets = sorted(rows)
    begin = 0
    for number in range(1, len(offsets) + 1):
        first = offsets[begin]
        if (
            number == len(offsets)
            or offsets[number] != first + number - begin
            or number - begin == RUN_UNITS_MAX
            or offsets[number] % LOW_COUNT == 0
        ):
            yield first, b"".join([rows[offset] for offset in offsets[begin:number]])
            begin = number
