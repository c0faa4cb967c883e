"""The entries of a partition in RocksDB at one moment."""

import heapq
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, Protocol, cast, final

from rocksdict import Rdict

from ._engine import RowsView, SnapshotGone, Unfinished
from ._rows import (
    CHANGE,
    CHANGE_PLACE,
    ENTRY,
    META,
    after_prefix,
    change_key,
    decode_change,
    decode_meta,
)

NOT_FOUND: Final = "key not found"  # the binding has no class of its own for it
PASSED_MAX: Final = 500
"""Keys that were not entries at the moment which a read passes over in one turn."""
CHANGES_LOOKED_AT_MAX: Final = 4000
"""Changes since the moment which a read looks at in one turn."""

_STOPPED: Final = 0  # of one key these come in their order
_CHANGED: Final = 1
_UNCHANGED: Final = 2


class LiveRows(RowsView, Protocol):
    """The rows of a namespace as they are now."""

    @property
    def family(self) -> Rdict:
        """The column family."""

    @property
    def writes(self) -> int:
        """Number of writes so far."""

    @property
    def is_closed(self) -> bool:
        """True if the table was replaced, or its database closed."""

    def error(self, error: Exception) -> OSError:
        """Turn an error of RocksDB into ``OSError``."""


@final
class RocksView:
    """The entries of a namespace at one moment; other rows are not shown.

    The binding's iterators do not keep to a snapshot, single reads do. So the keys are those
    that are there now, and those that were changed since, which the rows of changes tell. A row
    that was not changed is the one of that moment; the others are read one by one.
    """

    def __init__(self, table: LiveRows) -> None:
        self._table = table
        self._snapshot = table.family.snapshot()
        self._seen = decode_meta(table.get(META)).next
        self._seen_key = change_key(self._seen, 0)
        self._known: set[bytes] = set()
        self._changed: list[bytes] = []
        """Keys that were changed since, in their order."""

    @property
    def pinned_bytes(self) -> int:
        """Bytes of rows in memory: none, they are on the disk."""
        return 0

    def get(self, key: bytes) -> bytes | None:
        try:
            return cast("bytes | None", self._snapshot[key])
        except Exception as error:
            if str(error) == NOT_FOUND:
                return None
            raise self._table.error(error) from error

    def items(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Iterate as a table does. Raises ``SnapshotGone`` too."""
        while begin < end:
            try:
                yield from self.some(begin, end)
                return
            except Unfinished as stop:
                begin = stop.key

    def some(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Iterate as a table does. Raises ``SnapshotGone`` and ``Unfinished``."""
        self._look_at_changes(begin)
        first, last = bisect_left(self._changed, begin), bisect_left(self._changed, end)
        if first < last:
            yield from self._with_changes(first, last, begin, end)
            return
        table, writes = self._table, self._table.writes
        for key, live in table.some(begin, end):
            row = live if table.writes == writes else self.get(key)
            if row is not None:
                yield key, row

    def _with_changes(
        self, first: int, last: int, begin: bytes, end: bytes
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate where keys were changed: those numbered ``first`` up to ``last``."""
        keys = self._changed
        changed = ((keys[number], _CHANGED, b"") for number in range(first, last))
        table, writes = self._table, self._table.writes
        done, passed = b"", 0
        for key, kind, live in heapq.merge(changed, self._live(begin, end)):
            if kind == _STOPPED:
                raise Unfinished(key)
            if key == done:
                continue
            done = key
            is_same = kind == _UNCHANGED and table.writes == writes
            row = live if is_same else self.get(key)
            if row is not None:
                yield key, row
                continue
            passed += 1
            if passed > PASSED_MAX:
                raise Unfinished(key + b"\0")

    def _live(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, int, bytes]]:
        """Iterate over the keys and rows that are there now.

        Where that stops for this turn comes last, marked so, and before a key like it.
        """
        try:
            for key, row in self._table.some(begin, end):
                yield key, _UNCHANGED, row
        except Unfinished as stop:
            yield stop.key, _STOPPED, b""

    def _look_at_changes(self, begin: bytes) -> None:
        """Note what has changed since the last look; more than a turn's worth ends this read."""
        if self._table.is_closed:
            raise SnapshotGone("its database was opened again since the snapshot was taken")
        meta = decode_meta(self._table.get(META))
        if meta.changes_from > self._seen:
            raise SnapshotGone("too much has changed since the snapshot was taken")
        found: set[bytes] = set()
        rest: bytes | None = None
        for count, (key, row) in enumerate(self._table.items(self._seen_key, after_prefix(CHANGE))):
            if count >= CHANGES_LOOKED_AT_MAX:
                rest = key
                break
            found.add(ENTRY + decode_change(row).key)
        new = found - self._known
        if new:
            self._known |= new
            # Two sorted runs, which are merged; and a new list, for others may read on in the old.
            self._changed = sorted(self._changed + sorted(new))
        if rest is not None:
            self._seen, self._seen_key = CHANGE_PLACE.unpack_from(rest, 1)[0], rest
            raise Unfinished(begin)
        self._seen, self._seen_key = meta.next, change_key(meta.next, 0)
