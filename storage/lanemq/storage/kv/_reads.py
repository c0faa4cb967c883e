"""Reads of a state: an entry, a page under a prefix, the latest changes.

A page ends at its limit, at a MiB, or when its turn of the loop is over (``until_s``, by
``perf_counter``), whichever is first; the next request continues it.
"""

import math
from time import perf_counter
from typing import Final, NamedTuple

import msgspec

from lanemq.wire.kv import (
    PAGE_BYTES_MAX,
    PAGE_ENTRIES_MAX,
    Change,
    ChangeKind,
    Changes,
    Entry,
    Page,
    after_key,
)

from ._log import KvLog
from ._outcomes import Frozen
from ._state import State
from ._values import Values
from .engines._engine import Unfinished
from .engines._rows import (
    CHANGE,
    CHANGE_PLACE,
    ENTRY,
    HEAD,
    after_prefix,
    change_key,
    decode_change,
    entry_of,
    entry_with,
)

HEAD_BYTES: Final = HEAD.size
LOOKED_AT_MAX: Final = 2000
"""Rows that one read looks at; one that finds less goes on with the next request."""
LOOKS_AT_CLOCK: Final = 8
"""Rows between two looks at the clock: a page of a cold table reads a block for some 30 rows."""
RECORD_BYTES_MAX: Final = 4 << 20
"""Bytes of records that one page of changes reads from the log for their values."""


def read_entry(state: State, key: bytes) -> Entry | None:
    """Return an entry; None where there is none, or its time has come. Raises ``OSError``."""
    row = state.table.get(ENTRY + key)
    return _entry(state, key, row) if row is not None else None


def read_page(
    state: State | Frozen,
    prefix: bytes,
    *,
    cursor: bytes | None,
    limit: int,
    keys_only: bool = False,
    until_s: float = math.inf,
) -> Page:
    """Return the entries under ``prefix`` from ``cursor`` on: ``limit`` at most, and a MiB.

    All are of one moment. There may be fewer, or none, before the last page: a page ends where
    many rows that are no longer entries were passed over. Raises ``OSError``.
    """
    limit = max(1, min(limit, PAGE_ENTRIES_MAX))
    begin = ENTRY + max(prefix, cursor or b"")
    found: list[Entry] = []
    size_bytes, meta = 0, state.meta
    clock_ms, numbers_of = meta.clock_ms, HEAD.unpack_from
    rows = state.table.some(begin, after_prefix(ENTRY + prefix))
    try:
        for looked_at, (row_key, row) in enumerate(rows):
            if (
                len(found) >= limit
                or size_bytes >= PAGE_BYTES_MAX
                or looked_at >= LOOKED_AT_MAX
                or (looked_at and not looked_at % LOOKS_AT_CLOCK and perf_counter() > until_s)
            ):
                return Page(found, row_key[1:], meta.next, clock_ms)
            version, modified, created_ms, updated_ms, expires_ms = numbers_of(row)
            if 0 < expires_ms <= clock_ms:  # a lease is greater than any time
                continue
            value = b"" if keys_only else row[HEAD_BYTES:]
            found.append(
                entry_with(
                    row_key[1:], value, version, modified, created_ms, updated_ms, expires_ms
                )
            )
            size_bytes += len(row_key) + len(value) + HEAD_BYTES - 1
    except Unfinished as stop:
        return Page(found, stop.key[1:], meta.next, clock_ms)
    return Page(found, None, meta.next, clock_ms)


class WatchedKeys(NamedTuple):
    """The keys whose changes are asked for."""

    begin: bytes
    """The first key."""
    end: bytes | None
    """The first key behind them; None for all keys from ``begin`` on."""
    previous: bool = False
    """True if each change has the entry before it."""

    def has(self, key: bytes) -> bool:
        """Return whether a key is one of them."""
        return self.begin <= key and (self.end is None or key < self.end)


def under_prefix(prefix: bytes) -> WatchedKeys:
    """Return the keys that begin with ``prefix``."""
    return WatchedKeys(prefix, after_key(prefix))


def read_changes(
    state: State,
    log: KvLog,
    asked: WatchedKeys,
    *,
    position: int,
    index: int,
    limit: int,
    until_s: float = math.inf,
) -> Changes | None:
    """Return the changes of some keys from a position on, each with its value.

    None where they, or the values, are no longer known. Raises ``OSError``.
    """
    meta = state.meta
    if position < meta.changes_from:
        return None
    limit = max(1, min(limit, PAGE_ENTRIES_MAX))
    begin, end = change_key(position, index), after_prefix(CHANGE)
    found: list[Change] = []
    values, size_bytes = Values(state, log), 0
    for looked_at, (row_key, row) in enumerate(state.table.items(begin, end)):
        at, number = CHANGE_PLACE.unpack_from(row_key, 1)
        if (
            len(found) >= limit
            or size_bytes >= PAGE_BYTES_MAX
            or values.read_bytes >= RECORD_BYTES_MAX
            or looked_at >= LOOKED_AT_MAX
            or (looked_at and not looked_at % LOOKS_AT_CLOCK and perf_counter() > until_s)
        ):
            return Changes(found, at, number)
        change = decode_change(row)
        if not asked.has(change.key):
            continue
        value = None
        if change.kind == ChangeKind.PUT:
            value = values.find(change.key, at, change.step)
            if value is None:
                return None
        one = Change(at, number, change.kind, change.key, change.version, value)
        if asked.previous and change.before:
            previous = values.entry(change.key, change.before)
            if previous is not None:
                one = msgspec.structs.replace(one, previous=previous)
                size_bytes += len(change.key) + len(previous.value)
        found.append(one)
        size_bytes += len(change.key) + len(value or b"") + HEAD.size
    return Changes(found, max(meta.next, position))


def _entry(state: State | Frozen, key: bytes, row: bytes) -> Entry | None:
    entry = entry_of(key, row)
    return None if 0 < entry.expires_ms <= state.meta.clock_ms else entry
