"""Rows made from the records of a part of the log, where no queue file tells."""

from collections.abc import Callable
from typing import Final, final

from .._places import Place, Places
from .._tags import TagsCodes
from ..rocks import QueueKeys
from ..rocks._rows import pack_unit_value
from ..tools._pieces import Pieces
from ..tools._scan import LogScan
from ._file_units import Newest
from ._sorted_table import SortedTable

RECORDS_MAX: Final = 1_000_000
Belongs = Callable[[Place, int], bool]
"""Whether the message at a log position has that place still: a topic may have been deleted."""


@final
class LogUnits:
    """Reads the log. ``places`` and ``belongs`` tell which queues a record is in."""

    def __init__(self, log: Pieces, *, places: Places, tags: TagsCodes, belongs: Belongs) -> None:
        self._log = log
        self._places = places
        self._tags = tags
        self._belongs = belongs
        self.made_anew: set[tuple[str, int]] = set()
        """Queues that began again in what ``write`` wrote last: their older rows must go."""

    def write(self, begin: int, end: int, table: SortedTable) -> tuple[int, Newest]:
        """Write rows of records from ``begin`` on to a table, up to ``end`` at most.

        Returns where it stopped, and where each queue is then. Raises ``OSError``.
        """
        queues: dict[tuple[str, int], dict[int, tuple[bytes, int]]] = {}
        self.made_anew = set()
        count, stopped = 0, end
        for record in LogScan(self._log, begin, end, check_crc=False):
            if count == RECORDS_MAX:
                stopped = record.position
                break
            count += 1
            code = None
            for place in self._places.of(record):
                if not self._belongs(place, record.position):
                    continue
                if code is None:
                    code = self._tags.code(
                        record.topic, record.properties, record.store_timestamp_ms
                    )
                name = place.topic, place.queue_id
                rows = queues.setdefault(name, {})
                if place.queue_offset == 0:
                    rows.clear()
                    self.made_anew.add(name)
                value = pack_unit_value(
                    record.position, record.size_bytes, code, record.store_timestamp_ms
                )
                rows[place.queue_offset] = value, record.position
        newest: Newest = {}
        for (topic, queue_id), rows in sorted(
            queues.items(), key=lambda item: (len(item[0][0].encode()), item[0])
        ):
            data = topic.encode()
            keys = QueueKeys(data, queue_id)
            for offset in sorted(rows):
                table.put(keys, offset, rows[offset][0])
            last = max(rows)
            newest[data, queue_id] = rows[last][1], last
        return stopped, newest
