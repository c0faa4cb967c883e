"""Units of queue files that several processes make rows of, or compare with rows.

The rows of a window are divided in the order of their keys: so each part is a table of its own,
and RocksDB takes all of them in as if they were one.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, final

from lanemq.local import make_directories

from ..._errors import StoreError
from ..._layouts import UNIT_BYTES
from ..._workers import Workers
from ...queues.rocks._queue_rows import QueueRows
from ...rocks import QueueDatabase
from ...tools.reading._directory import StoreDirectory
from ..checks._survey import Survey
from ..units._file_units import FileUnits, Share, Written, write_shares
from ..units._heads import LogMap
from ..units._sorted_table import SortedTable

SHARED_FROM_UNITS: Final = 1_000_000
"""Number of units whose half is converted in about the time that another process takes to start."""
QUEUE_UNITS_MIN: Final = 1000
"""Units of a queue, on average: looking up what a window has of it costs as much as ten."""
PART_UNITS_MIN: Final = 65_536
PARTS_MAX: Final = 8
"""Most tables of a window: enough that nobody waits long for the last."""
BLOCK_UNITS: Final = 8192


class TablePart(NamedTuple):
    """Units of one file of the log, which begins at ``start``; ``end`` is a position of the log."""

    store: StoreDirectory
    start: int
    end: int
    shares: list[Share]
    path: Path


class MadeTables(NamedTuple):
    """Tables whose keys do not overlap."""

    paths: list[Path]
    rows: int
    written: Written


class SamePart(NamedTuple):
    """Units to be compared with rows."""

    store: StoreDirectory
    database: Path
    shares: list[Share]


@final
class SharedUnits:
    """The work on a store's units, shared where there is enough of it."""

    def __init__(self, found: Survey, workers: Workers, directory: Path) -> None:
        """Keep tables in ``directory``: it is made, and no other conversion may use it."""
        self._store = found.store
        self._workers = workers
        self._directory = directory
        count = sum(queue.end - queue.min for queue in found.queues.values())
        least = max(SHARED_FROM_UNITS, QUEUE_UNITS_MIN * len(found.queues))
        self.is_worth_it = workers.jobs > 1 and count >= least
        """True if there is so much to do that other processes are a gain."""

    def make_tables(self, units: FileUnits, begin: int, end: int) -> MadeTables:
        """Make tables of a window of the log, a part of one of its files.

        Raises ``UnitsDamaged``, and ``OSError``.
        """
        make_directories(self._directory)
        start, shares = self._store.log.start_of(begin), list(units.shares(begin, end))
        tasks = [
            TablePart(self._store, start, end, part, self._directory / f"{number}.sst")
            for number, part in enumerate(divided(shares))
        ]
        made = self._workers.share(tasks, here=make_table, there=make_table)
        written = Written()
        for table in made:
            written.add(table.written)
        units.pass_over(begin, end, shares, written)
        paths = [path for table in made for path in table.paths]
        return MadeTables(paths, sum(table.rows for table in made), written)

    def are_same(self, rows: QueueRows, names: Iterable[tuple[str, int]]) -> bool:
        """Return whether each unit of these queues' files is known to be a row.

        False says nothing. Rows have to be flushed.
        """
        if not self.is_worth_it:
            return False
        shares = [self._all_of(name) for name in sorted(names)]
        database = rows.database.directory
        tasks = [SamePart(self._store, database, part) for part in divided(shares)]
        return all(self._workers.share(tasks, here=partial(has_same, rows), there=opened_has_same))

    def _all_of(self, name: tuple[str, int]) -> Share:
        with closing(self._store.queue(*name)) as files:
            return Share(*name, files.begin, files.written_end())


def divided(shares: Sequence[Share]) -> Iterator[list[Share]]:
    """Divide shares, in their order, into parts of as many units; the last may have fewer."""
    count = sum(share.end - share.begin for share in shares)
    parts = min(PARTS_MAX, max(1, count // PART_UNITS_MIN))
    part: list[Share] = []
    size = room = -(-count // parts)
    for share in shares:
        begin = share.begin
        while begin < share.end:
            end = min(share.end, begin + room)
            part.append(share._replace(begin=begin, end=end))
            room -= end - begin
            begin = end
            if not room:
                yield part
                part, room = [], size
    if part:
        yield part


def make_table(part: TablePart) -> MadeTables:
    """Make the table of a part, if it has rows. Raises ``UnitsDamaged``, and ``OSError``."""
    part.path.unlink(missing_ok=True)  # of a process that died
    table = SortedTable(part.path)
    with closing(LogMap(part.store.log, part.start)) as log:
        written = write_shares(part.shares, part.store.queue, part.end, log, table)
    if not table.rows:
        return MadeTables([], 0, written)
    table.finish()
    return MadeTables([part.path], table.rows, written)


def has_same(rows: QueueRows, part: SamePart) -> bool:
    """Return whether the rows have each unit of a part, byte by byte. Raises ``OSError``."""
    for topic, queue_id, begin, end in part.shares:
        data = topic.encode()
        with closing(part.store.queue(topic, queue_id)) as files:
            for at in range(begin, end, BLOCK_UNITS):
                count = min(BLOCK_UNITS, end - at)
                units = files.read(at, count)
                if len(units) != count * UNIT_BYTES:
                    return False
                if rows.read_units(data, queue_id, at, count) != units:
                    return False
    return True


def opened_has_same(part: SamePart) -> bool:
    """Return as ``has_same``, of the database as it is on the disk; False where it cannot be
    read."""
    try:
        with closing(QueueRows(QueueDatabase(part.database, read_only=True))) as rows:
            return has_same(rows, part)
    except (OSError, StoreError):
        return False
