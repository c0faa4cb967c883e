"""The entries of a namespace: their rows in a batch, with the counts, sums and changes about them.

Every change of an entry keeps these together; see ``State`` for which changes a record makes.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, final

import msgspec

from lanemq.wire.kv import Action, ChangeKind, LoadedEntry, Step

from ._heads import LARGE_BYTES, Before, Found, Heads, moved_entries
from ._history import History
from ._leases import Leases
from ._recent import RecentRows
from ._sums import NOTHING
from .engines._engine import Batch
from .engines._rows import (
    BY_LEASE,
    CHANGE,
    CHANGE_KEY_BYTES,
    CHANGE_PLACE,
    ENTRY,
    EXPIRY,
    HEAD,
    HEADS,
    Meta,
    after_prefix,
    change_key,
    encode_change,
    expiry_key,
    stored,
)

_KEPT: Final = Struct(">Q8xQ8xQ").unpack_from
"""Reads the fields of an entry's head that a put needs: version, created, expires."""
_HEAD_BYTES: Final = HEAD.size
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
        self._before: Before = {}
        self._heads = Heads(batch)
        self.recent: RecentRows | None = None
        """Rows as the batch before left them, while a redo lasts."""
        self._position = self._index = 0
        self.expired = b""
        """The row of the time of the last entry that has expired since the start: as the time of
        the log does not go back, none comes before it again."""
        self.expirations = 0
        """Number of entries and leases that have ended by their time since the start."""
        self.history = History(batch)
        self.leases = Leases(batch, meta)

    def begin(self, position: int) -> None:
        """Begin the record at ``position`` of the log."""
        self._position, self._index = position, 0
        self._heads.begin()

    def forget(self, meta: Meta) -> None:
        """Forget the changes of a batch; ``meta`` is the one before them."""
        self.meta = meta
        self.expired = b""
        self._before.clear()
        if self.recent is not None:
            self.recent.clear()
        self.history.forget()
        self.leases.forget(meta)

    def update_sum(self) -> None:
        """Bring the sums of entries and leases up to date with the changes of a batch."""
        self.leases.update_sum()
        rows, before, meta = self._batch.rows, self._before, self.meta
        if self.recent is not None:
            meta.entry_sum = self.recent.moved(meta.entry_sum, before, rows)
        else:
            meta.entry_sum = moved_entries(meta.entry_sum, before, rows)
        before.clear()

    def put(self, step: Step, old: Found | None, number: int) -> int:
        """Put the entry of a step, which is ``old`` now; returns its version.

        The lease that it is to be under was checked.
        """
        now_ms = self.meta.clock_ms
        version, create_time_ms = self.meta.floor + 1, now_ms
        if old is not None:
            version, _, create_time_ms, _, _ = HEAD.unpack(old.head)
            version = max(version, self.meta.restored) + 1
        life = now_ms + step.ttl_ms if step.ttl_ms else 0
        if step.ttl_ms < 0:
            life = BY_LEASE | step.lease
        head = HEAD.pack(version, self._position, create_time_ms, now_ms, life)
        key = step.key
        self._replace(key, old, head + step.value, life)
        self._note(_PUT, key, version, number, old)
        self._raise_top(version)
        return version

    def _raise_top(self, version: int) -> None:
        if version > self.meta.top and self.meta.identity:
            self.meta.top = version

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
            version, create_time_ms = meta.floor + 1, now_ms
            meta.entries += 1
            meta.entry_bytes += len(key) + len(value)
        else:
            version, create_time_ms, life = _KEPT(row)
            if life:
                step = Step(key, Action.PUT, value)
                return self.put(step, self.live(key), 0)
            version = (version if version > meta.restored else meta.restored) + 1
            meta.entry_bytes += len(value) - len(row) + HEAD.size
        rows[row_key] = HEAD.pack(version, position, create_time_ms, now_ms, 0) + value
        if row_key not in self._before:
            self._before[row_key] = (
                row
                if row is None or len(row) <= LARGE_BYTES
                else self._heads.before(key, Found(row[:_HEAD_BYTES], len(row), row))
            )
        before = b"" if row is None else row[:_HEAD_BYTES]
        rows[change_key(position, index)] = row = encode_change(_PUT, key, version, 0, before)
        self._index = index + 1
        meta.changes += 1
        meta.change_bytes += CHANGE_KEY_BYTES + len(row)
        if version > meta.top and meta.identity:
            meta.top = version
        return version

    def load(self, loaded: Sequence[LoadedEntry]) -> None:
        """Put entries as they were elsewhere, with their versions and times."""
        if not loaded:
            return
        meta, lower = self.meta, self._load(loaded)
        # By the whole record: its entries are put in one of two ways, which rows decide on.
        if meta.identity and (lower or min(entry.version for entry in loaded) <= meta.floor):
            meta.restored = meta.top

    def _load(self, loaded: Sequence[LoadedEntry]) -> bool:
        """Put loaded entries; returns whether a key got a lower version than it had."""
        keys = [entry.key for entry in loaded]
        # The entries of an import are new, and come in the order of their keys: one look says so
        # for all of them.
        if self._batch.table_has_none(ENTRY + min(keys), ENTRY + max(keys) + b"\0"):
            return self._load_new(loaded)
        lower = False
        for number, entry in enumerate(loaded):
            lower = self._load_one(number, entry) or lower
        return lower

    def _load_one(self, number: int, entry: LoadedEntry) -> bool:
        if 0 < entry.expires_ms <= self.meta.clock_ms:
            return False
        numbers = entry.create_time_ms, entry.update_time_ms, entry.expires_ms
        old, version = self.live(entry.key), entry.version
        head = HEAD.pack(version, self._position, *numbers)
        self._replace(entry.key, old, head + entry.value, entry.expires_ms)
        self._note(_PUT, entry.key, version, number, old)
        self._raise_top(version)
        return old is not None and version < stored(old.head).version

    def _load_new(self, loaded: Sequence[LoadedEntry]) -> bool:
        """Put entries that only rows of the batch may be in the way of."""
        meta, rows, before, position = self.meta, self._batch.rows, self._before, self._position
        packed, placed, encoded = HEAD.pack, CHANGE_PLACE.pack, _ENCODER.encode
        # They follow the rows of entries: RocksDB takes keys twice as fast that come in order.
        changes: dict[bytes, bytes] = {}
        size_bytes, kind, top, lower = 0, ChangeKind.PUT, meta.top, False
        for number, entry in enumerate(loaded):
            key, value, version = entry.key, entry.value, entry.version
            if version > top:
                top = version
            row_key = ENTRY + key
            if entry.expires_ms or row_key in rows:
                lower = self._load_one(number, entry) or lower
                continue
            head = packed(version, position, entry.create_time_ms, entry.update_time_ms, 0)
            rows[row_key] = head + value
            before[row_key] = None
            size_bytes += len(key) + len(value)
            changes[CHANGE + placed(position, self._index)] = encoded(
                (kind, key, version, number, b"")
            )
            self._index += 1
        rows.update(changes)
        meta.entries += len(changes)
        meta.changes += len(changes)
        meta.change_bytes += sum(map(len, changes)) + sum(map(len, changes.values()))
        meta.entry_bytes += size_bytes
        self._raise_top(top)
        return lower

    def live(self, key: bytes) -> Found | None:
        """Return what is known of an entry's row; one whose time has come is removed."""
        found = self._heads.find(key)
        if found is None or not found.is_timed:
            return found
        # One under a lease is there until that ends, whose number is greater than any time.
        if found.life <= self.meta.clock_ms:
            self.remove(key, found, ChangeKind.EXPIRE)
            return None
        return found

    def there(self, key: bytes) -> Found:
        """Return what is known of the row of an entry that has to be there."""
        found = self._heads.find(key)
        assert found is not None, "an entry has a time to end, or a lease, but is not there"
        return found

    def row(self, key: bytes, found: Found) -> bytes:
        """Return the whole row of an entry that ``live`` has found."""
        return self._heads.row(key, found)

    def _replace(self, key: bytes, old: Found | None, new: bytes, life: int) -> None:
        meta = self.meta
        if old is None:
            meta.entries += 1
            meta.entry_bytes += len(key) + len(new) - HEAD.size
        else:
            meta.entry_bytes += len(new) - old.size_bytes
        was = 0 if old is None else old.life
        if was != life:
            self._forget_life(key, was)
            self._note_life(key, life)
        self._keep_before(key, old)
        self._batch.rows[ENTRY + key] = new

    def _keep_before(self, key: bytes, old: Found | None) -> None:
        row_key = ENTRY + key
        if row_key not in self._before:
            self._before[row_key] = None if old is None else self._heads.before(key, old)

    def _note_life(self, key: bytes, life: int) -> None:
        meta = self.meta
        if life & BY_LEASE:
            self.leases.attach(life & ~BY_LEASE, key)
        elif life:
            self._batch.rows[expiry_key(life, key)] = b""
            if not 0 < meta.next_expiry_ms <= life:
                meta.next_expiry_ms = life

    def _forget_life(self, key: bytes, life: int) -> None:
        if life & BY_LEASE:
            self.leases.detach(life & ~BY_LEASE, key)
        elif life:
            self._batch.rows[expiry_key(life, key)] = None

    def remove(self, key: bytes, found: Found, kind: int, *, is_released: bool = False) -> None:
        """Remove an entry that was found; ``is_released``: its lease has none any more."""
        meta, old = self.meta, stored(found.head)
        self.expirations += kind == ChangeKind.EXPIRE
        self._keep_before(key, found)
        self._batch.rows[ENTRY + key] = None
        self._forget_life(key, 0 if is_released else old.life)
        meta.entries -= 1
        meta.entry_bytes -= len(key) + found.size_bytes - HEAD.size
        if old.version > meta.floor and meta.identity:
            meta.floor = old.version
        self._note(kind, key, old.version, -1, found)

    def _note(self, kind: int, key: bytes, version: int, step: int, old: Found | None) -> None:
        index = self._index
        row = encode_change(kind, key, version, step, b"" if old is None else old.head)
        self._batch.rows[change_key(self._position, index)] = row
        self._index = index + 1
        self.meta.changes += 1
        self.meta.change_bytes += CHANGE_KEY_BYTES + len(row)

    def clear(self) -> None:
        """Remove all entries and what is known of their changes."""
        meta, batch = self.meta, self._batch
        for table in (ENTRY, HEADS, EXPIRY, CHANGE):
            batch.drop(table, after_prefix(table))
        self._before.clear()
        if self.recent is not None:
            self.recent.clear()
        meta.entries = meta.entry_bytes = meta.changes = meta.change_bytes = 0
        meta.next_expiry_ms = 0
        meta.entry_sum = NOTHING
        meta.floor = meta.top
        self.leases.clear()
        meta.stale_from = -1
        meta.lost = False
        self.history.forget()
