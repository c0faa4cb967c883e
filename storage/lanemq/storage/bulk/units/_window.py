"""A window of the log, read as far behind its end as its last messages need to be judged."""

from collections.abc import Iterator
from typing import Final, final

from ...derive._sequence import Sequences
from ...log._records import Record
from ...tools.reading._pieces import Pieces
from ...tools.reading._scan import LogScan

AHEAD_MAX: Final = 4096
"""Most records behind the end that are looked at."""


@final
class Window:
    """The records from ``begin`` on; ``end`` comes earlier where there are more than
    ``records_max``.

    Those at or behind the end are given as long as ``sequences`` hold anything back, to be taken
    for that alone.
    """

    def __init__(
        self,
        log: Pieces,
        begin: int,
        end: int,
        *,
        log_end: int,
        sequences: Sequences,
        records_max: int | None = None,
    ) -> None:
        self.end = end
        self._records = LogScan(log, begin, log_end, check_crc=False)
        self._sequences = sequences
        self._records_max = records_max

    def __iter__(self) -> Iterator[Record]:
        ahead = 0
        for count, record in enumerate(self._records):
            if count == self._records_max:
                self.end = min(self.end, record.position)
            if record.position >= self.end:
                if ahead == AHEAD_MAX or not self._sequences.is_undecided:
                    return
                ahead += 1
            yield record
