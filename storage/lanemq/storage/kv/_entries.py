"""The entries of a namespace: their rows in a batch, with the counts, sums and changes about them.

Every change of an entry keeps these together; see ``State`` for which changes a record makes.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, final

import msgspec

from lanemq.wire.kv import Action, ChangeKind, LoadedEntry, Step

from ._recent import RecentRows
from ._sums import NOTHING, moved
from .engines._engine import Batch
from .engines._rows import (
    CHANGE,
    CHANGE_PLACE,
    ENTRY,
    EXPIRY,
    HEAD,
    Meta,
    after_prefix,
    change_key,
    encode_change,
    expiry_key,
    stored,
)

CHANGES_MAX: Final = 100_000
"""Changes that a watcher may be behind."""
CHANGES_SLICE: Final = 1000
"""Changes beyond that which are forgotten together."""
EXPIRED_MAX: Final = 256
"""Entries at most that one record removes because their time has come; no read shows the rest."""
EXPIRES: Final = slice(HEAD.size - 8, HEAD.size)
NEVER: Final = bytes(8)
_KEPT: Final = Struct(">Q8xQ8xQ").unpack_from
"""Reads the fields of an entry's head that a put needs: version, created, expires."""
_PUT: Final = ChangeKind.PUT
_ENCODER: Final = msgspec.msgpack.Encoder()


@final
class Entries:
    """The entries of one namespace, as a batch changes them; ``meta`` is that of the state.

    ``begin`` says which record the changes are of.
    """

    def __init__(self, batch: Batch, meta: Meta) -> None:
        self.meta = meta
        self._batch = batch
        self._before: dict[bytes, bytes | None] = {}
        """Keys of rows of entries that a batch has changed -> the rows before it."""
        self.recent: RecentRows | None = None
        """Rows as the batch before left them, while a redo lasts."""
        self._position = self._index = 0
        self._pruned = b""
        """The latest change that was forgotten since the start; all before it are."""

    @property
    def changes_max(self) -> int:
        """The number of changes at which the oldest are forgotten."""
        return CHANGES_MAX + CHANGES_SLICE

    def begin(self, position: int) -> None:
        """Begin the record at ``position`` of the log."""
        self._position, self._index = position, 0

    def forget(self, meta: Meta) -> None:
        """Forget the changes of a batch; ``meta`` is the one before them."""
        self.meta = meta
        self._before.clear()
        if self.recent is not None:
            self.recent.clear()
        self._pruned = b""

    def update_sum(self) -> None:
        """Bring the sum of entries up to date with the changes of a batch."""
        rows, before, meta = self._batch.rows, self._before, self.meta
        if self.recent is not None:
            meta.entry_sum = self.recent.moved(meta.entry_sum, before, rows)
        else:
            changes = ((key[1:], old, rows[key]) for key, old in before.items())
            meta.entry_sum = moved(meta.entry_sum, changes)
        before.clear()

    def put(self, step: Step, row: bytes | None, number: int) -> int:
        """Put the entry of a step, whose row is ``row`` now; returns its version."""
        now_ms = self.meta.clock_ms
        version, create_time_ms = 1, now_ms
        if row is not None:
            version, _, create_time_ms, _, _ = HEAD.unpack_from(row)
            version += 1
        expires_ms = now_ms + step.ttl_ms if step.ttl_ms else 0
        head = HEAD.pack(version, self._position, create_time_ms, now_ms, expires_ms)
        key = step.key
        self._replace(key, row, head + step.value, expires_ms)
        self._note(ChangeKind.PUT, key, version, number)
        return version

    def put_for_ever(self, key: bytes, value: bytes) -> int:
        """Put an entry that does not expire, as ``put`` does; returns its version.

        Nearly all records are that, and a redo has very many: so it is done without calls.
        """
        meta, rows, row_key = self.meta, self._batch.rows, ENTRY + key
        now_ms, position, index = meta.clock_ms, self._position, self._index
        if row_key in rows:
            row = rows[row_key]
        elif self.recent is not None and (kept := self.recent.rows.get(row_key)) is not None:
            row = kept[0]
        else:
            row = self._batch.get(row_key)
        if row is None:
            version, create_time_ms = 1, now_ms
            meta.entries += 1
            meta.entry_bytes += len(key) + len(value)
        else:
            version, create_time_ms, expires_ms = _KEPT(row)
            if expires_ms:
                step = Step(key, Action.PUT, value)
                return self.put(step, self.live_row(key), 0)
            version += 1
            meta.entry_bytes += len(value) - len(row) + HEAD.size
        rows[row_key] = HEAD.pack(version, position, create_time_ms, now_ms, 0) + value
        if row_key not in self._before:
            self._before[row_key] = row
        rows[change_key(position, index)] = encode_change(_PUT, key, version, 0)
        self._index = index + 1
        meta.changes += 1
        return version

    def load(self, loaded: Sequence[LoadedEntry]) -> None:
        """Put entries as they were elsewhere, with their versions and times."""
        if not loaded:
            return
        keys = [entry.key for entry in loaded]
        # The entries of an import are new, and come in the order of their keys: one look says so
        # for all of them.
        if self._batch.table_has_none(ENTRY + min(keys), ENTRY + max(keys) + b"\0"):
            self._load_new(loaded)
            return
        for number, entry in enumerate(loaded):
            self._load_one(number, entry)

    def _load_one(self, number: int, entry: LoadedEntry) -> None:
        if 0 < entry.expires_ms <= self.meta.clock_ms:
            return
        numbers = entry.create_time_ms, entry.update_time_ms, entry.expires_ms
        head = HEAD.pack(entry.version, self._position, *numbers)
        row = self.live_row(entry.key)
        self._replace(entry.key, row, head + entry.value, entry.expires_ms)
        self._note(ChangeKind.PUT, entry.key, entry.version, number)

    def _load_new(self, loaded: Sequence[LoadedEntry]) -> None:
        """Put entries that only rows of the batch may be in the way of."""
        meta, rows, before, position = self.meta, self._batch.rows, self._before, self._position
        packed, placed, encoded = HEAD.pack, CHANGE_PLACE.pack, _ENCODER.encode
        # They follow the rows of entries: RocksDB takes keys twice as fast that come in order.
        changes: dict[bytes, bytes] = {}
        size_bytes, kind = 0, ChangeKind.PUT
        for number, entry in enumerate(loaded):
            key, value, version = entry.key, entry.value, entry.version
            row_key = ENTRY + key
            if entry.expires_ms or row_key in rows:
                self._load_one(number, entry)
                continue
            head = packed(version, position, entry.create_time_ms, entry.update_time_ms, 0)
            rows[row_key] = head + value
            before[row_key] = None
            size_bytes += len(key) + len(value)
            changes[CHANGE + placed(position, self._index)] = encoded((kind, key, version, number))
            self._index += 1
        rows.update(changes)
        meta.entries += len(changes)
        meta.changes += len(changes)
        meta.entry_bytes += size_bytes

    def live_row(self, key: bytes) -> bytes | None:
        """Return an entry's row; one whose time has come is removed."""
        row = self._batch.get(ENTRY + key)
        if row is None or row[EXPIRES] == NEVER:
            return row
        if stored(row).expires_ms <= self.meta.clock_ms:
            self.remove(key, row, ChangeKind.EXPIRE)
            return None
        return row

    def _replace(self, key: bytes, row: bytes | None, new: bytes, expires_ms: int) -> None:
        meta, rows = self.meta, self._batch.rows
        if row is None:
            meta.entries += 1
            meta.entry_bytes += len(key) + len(new) - HEAD.size
        else:
            meta.entry_bytes += len(new) - len(row)
            if row[EXPIRES] != NEVER:
                rows[expiry_key(stored(row).expires_ms, key)] = None
        if expires_ms:
            rows[expiry_key(expires_ms, key)] = b""
            if not 0 < meta.next_expiry_ms <= expires_ms:
                meta.next_expiry_ms = expires_ms
        row_key = ENTRY + key
        rows[row_key] = new
        if row_key not in self._before:
            self._before[row_key] = row

    def remove(self, key: bytes, row: bytes, kind: int) -> None:
        """Remove an entry, whose row is ``row``."""
        meta, batch, old = self.meta, self._batch, stored(row)
        row_key = ENTRY + key
        batch.rows[row_key] = None
        if old.expires_ms:
            batch.rows[expiry_key(old.expires_ms, key)] = None
        meta.entries -= 1
        meta.entry_bytes -= len(key) + len(row) - HEAD.size
        if row_key not in self._before:
            self._before[row_key] = row
        self._note(kind, key, old.version, -1)

    def _note(self, kind: int, key: bytes, version: int, step: int) -> None:
        index = self._index
        row = encode_change(kind, key, version, step)
        self._batch.rows[change_key(self._position, index)] = row
        self._index = index + 1
        self.meta.changes += 1

    def clear(self) -> None:
        """Remove all entries and what is known of their changes."""
        meta, batch = self.meta, self._batch
        for table in (ENTRY, EXPIRY, CHANGE):
            batch.drop(table, after_prefix(table))
        self._before.clear()
        if self.recent is not None:
            self.recent.clear()
        meta.entries = meta.entry_bytes = meta.changes = meta.next_expiry_ms = 0
        meta.entry_sum = NOTHING
        meta.lost = False
        self._pruned = b""

    def expire_some(self) -> None:
        """Remove entries whose time has come, as many as one record may."""
        meta = self.meta
        now = meta.clock_ms.to_bytes(8, "big")
        # Nothing is before that; RocksDB passes over what was deleted one by one.
        begin = expiry_key(meta.next_expiry_ms, b"")
        due = self._batch.first(begin, EXPIRY + now + b"\xff" * 8, EXPIRED_MAX)
        for found, _ in due:
            expires_ms, key = int.from_bytes(found[1:9], "big"), found[9:]
            if expires_ms > meta.clock_ms:
                break
            row = self._batch.get(ENTRY + key)
            assert row is not None, "an entry has a time to expire, but is not there"
            self.remove(key, row, ChangeKind.EXPIRE)
        rest = self._batch.first(begin, after_prefix(EXPIRY), 1)
        meta.next_expiry_ms = int.from_bytes(rest[0][0][1:9], "big") if rest else 0

    def prune_changes(self) -> None:
        """Forget the oldest changes where they are too many."""
        if self.meta.changes < self.changes_max:
            return
        # A load has thousands of changes, other records have a few.
        count = self.meta.changes - CHANGES_MAX
        # From the record on where the last ones ended, of which some may be left, or from the very
        # last one, where it is known: RocksDB passes over what was deleted one by one.
        begin = max(change_key(max(0, self.meta.changes_from - 1), 0), self._pruned)
        oldest = self._batch.first(begin, after_prefix(CHANGE), count)
        for key, _ in oldest:
            self._batch.rows[key] = None
        self._pruned = oldest[-1][0]
        self.meta.changes -= len(oldest)
        self.meta.changes_from = int.from_bytes(oldest[-1][0][1:9], "big") + 1
