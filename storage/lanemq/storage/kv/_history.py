"""The rows of the latest changes of a state: the oldest are forgotten, by number, by bytes or by
command."""

from collections.abc import Iterator
from typing import Final, final

from ._outcomes import Status
from .engines._engine import Batch
from .engines._rows import CHANGE, Meta, after_prefix, change_key

CHANGES_MAX: Final = 100_000
"""Changes that a watcher may be behind."""
CHANGES_SLICE: Final = 1000
"""Changes beyond that which are forgotten together."""
CHANGE_BYTES_MAX: Final = 32 << 20
"""Bytes of the rows of changes, beyond which the oldest are forgotten: each row has its key."""
BYTES_SLICE: Final = 512 << 10
"""Bytes beyond that which are forgotten together."""
FIRST_ROWS: Final = 64
ROWS_MAX: Final = 4096
"""Rows that one record removes for their bytes: very many short ones may be before long ones."""
ROW_BYTES: Final = 8 << 10
"""A row of a change is not as long."""


@final
class History:
    """The changes that are known, as a batch changes them. ``meta`` is that of the state."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._pruned = b""
        """The latest change that was forgotten since the start; all before it are."""

    @property
    def changes_max(self) -> int:
        """The number of changes at which the oldest are forgotten."""
        return CHANGES_MAX + CHANGES_SLICE

    @property
    def change_bytes_near(self) -> int:
        """The bytes of changes beyond which the next one may be too much."""
        return CHANGE_BYTES_MAX - ROW_BYTES

    def forget(self) -> None:
        """Forget what a batch has done, or all changes."""
        self._pruned = b""

    def compact(self, meta: Meta, revision: int, position: int) -> Status:
        """Forget the changes before a revision, by the record at ``position``. Their rows go with
        this record and the next.

        Returns why nothing was done, where the revision is ahead of the record, or before what is
        forgotten: etcd refuses both.
        """
        if revision > position:
            return Status.AHEAD
        if revision < meta.changes_from:
            return Status.COMPACTED
        if revision > meta.changes_from:
            if meta.stale_from < 0:
                meta.stale_from = meta.changes_from
            meta.changes_from = revision
        return Status.APPLIED

    def prune(self, meta: Meta) -> None:
        """Forget the oldest changes where they are too many, or too long."""
        if meta.stale_from >= 0:
            self._sweep(meta)
            return
        excess_bytes = meta.change_bytes - CHANGE_BYTES_MAX if meta.is_bounded else 0
        if meta.changes < self.changes_max and excess_bytes <= 0:
            return
        # A load has thousands of changes, other records have a few.
        count = meta.changes - CHANGES_MAX if meta.changes >= self.changes_max else 0
        # From the record on where the last ones ended, of which some may be left, or from the very
        # last one, where it is known: RocksDB passes over what was deleted one by one.
        begin = max(change_key(max(0, meta.changes_from - 1), 0), self._pruned)
        oldest = self._batch.first(begin, after_prefix(CHANGE), count) if count else []
        if excess_bytes > 0:
            longest = self._longest(meta, begin, excess_bytes + BYTES_SLICE)
            oldest = max(oldest, longest, key=len)
        self._remove(meta, oldest)
        meta.changes_from = int.from_bytes(self._pruned[1:9], "big") + 1

    def _longest(self, meta: Meta, begin: bytes, size_bytes: int) -> list[tuple[bytes, bytes]]:
        """Return the first rows from ``begin`` on that have so many bytes together, or as many as
        one record may remove."""
        most = FIRST_ROWS
        while True:
            rows = self._batch.first(begin, after_prefix(CHANGE), most)
            count = _count(meta, rows, size_bytes)
            if count < most or most >= ROWS_MAX:
                return rows[:count]
            most *= 4

    def _sweep(self, meta: Meta) -> None:
        """Remove rows of changes that are no longer known, as many as one record may."""
        begin = max(change_key(meta.stale_from, 0), self._pruned)
        end = change_key(meta.changes_from, 0)
        stale = self._batch.first(begin, end, CHANGES_SLICE)
        if stale:
            self._remove(meta, stale)
            meta.stale_from = int.from_bytes(self._pruned[1:9], "big")
        if len(stale) < CHANGES_SLICE:
            meta.stale_from = -1

    def _remove(self, meta: Meta, rows: list[tuple[bytes, bytes]]) -> None:
        for key, _ in rows:
            self._batch.rows[key] = None
        self._pruned = rows[-1][0]
        meta.changes -= len(rows)
        if meta.is_bounded and self._pruned >= change_key(meta.bounds_from, 0):
            meta.change_bytes -= sum(_counted(meta, rows))


def _counted(meta: Meta, rows: list[tuple[bytes, bytes]]) -> Iterator[int]:
    """Yield the bytes of each row as they are counted: none of those from before the bounds."""
    first = change_key(meta.bounds_from, 0)
    for key, row in rows:
        yield len(key) + len(row) if key >= first else 0


def _count(meta: Meta, rows: list[tuple[bytes, bytes]], size_bytes: int) -> int:
    """Return how many of the first rows have so many bytes, or all."""
    for count, row_bytes in enumerate(_counted(meta, rows), 1):
        size_bytes -= row_bytes
        if size_bytes <= 0:
            return count
    return len(rows)
