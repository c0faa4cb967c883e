"""The rows of the latest changes of a state: the oldest are forgotten, by number or by command."""

from typing import Final, final

from ._outcomes import Status
from .engines._engine import Batch
from .engines._rows import CHANGE, Meta, after_prefix, change_key

CHANGES_MAX: Final = 100_000
"""Changes that a watcher may be behind."""
CHANGES_SLICE: Final = 1000
"""Changes beyond that which are forgotten together."""


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
        """Forget the oldest changes where they are too many."""
        if meta.stale_from >= 0:
            self._sweep(meta)
            return
        if meta.changes < self.changes_max:
            return
        # A load has thousands of changes, other records have a few.
        count = meta.changes - CHANGES_MAX
        # From the record on where the last ones ended, of which some may be left, or from the very
        # last one, where it is known: RocksDB passes over what was deleted one by one.
        begin = max(change_key(max(0, meta.changes_from - 1), 0), self._pruned)
        oldest = self._batch.first(begin, after_prefix(CHANGE), count)
        self._remove(meta, oldest)
        meta.changes_from = int.from_bytes(self._pruned[1:9], "big") + 1

    def _sweep(self, meta: Meta) -> None:
        """Remove rows of changes that are not known any more, as many as one record may."""
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
