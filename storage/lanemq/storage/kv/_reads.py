"""Reads of a state: an entry, a page under a prefix, the latest changes."""

from typing import Final

from lanemq.wire.kv import (
    PAGE_BYTES_MAX,
    PAGE_ENTRIES_MAX,
    Change,
    ChangeKind,
    Changes,
    Entry,
    OpType,
    Page,
    decode_load,
    decode_steps,
)

from ._log import KvLog
from ._outcomes import Frozen
from ._state import State
from .engines._engine import Unfinished
from .engines._rows import (
    CHANGE,
    CHANGE_PLACE,
    ENTRY,
    HEAD,
    after_prefix,
    change_key,
    decode_change,
    stored,
)

HEAD_BYTES: Final = HEAD.size
LOOKED_AT_MAX: Final = 2000
"""Rows that one read looks at; one that finds less goes on with the next request."""


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
) -> Page:
    """Return the entries under ``prefix`` from ``cursor`` on: ``limit`` at most, and a MiB.

    All are of one moment. There may be fewer, or none, before the last page: a page ends where
    many rows that are not entries any more were passed over. Raises ``OSError``.
    """
    limit = max(1, min(limit, PAGE_ENTRIES_MAX))
    begin = ENTRY + max(prefix, cursor or b"")
    found: list[Entry] = []
    size_bytes, meta = 0, state.meta
    clock_ms, numbers_of = meta.clock_ms, HEAD.unpack_from
    rows = state.table.some(begin, after_prefix(ENTRY + prefix))
    try:
        for looked_at, (row_key, row) in enumerate(rows):
            if len(found) >= limit or size_bytes >= PAGE_BYTES_MAX or looked_at >= LOOKED_AT_MAX:
                return Page(found, row_key[1:], meta.next, clock_ms)
            version, modified, created_ms, updated_ms, expires_ms = numbers_of(row)
            if 0 < expires_ms <= clock_ms:
                continue
            value = b"" if keys_only else row[HEAD_BYTES:]
            found.append(
                Entry(row_key[1:], value, version, modified, created_ms, updated_ms, expires_ms)
            )
            size_bytes += len(row_key) + len(value) + HEAD_BYTES - 1
    except Unfinished as stop:
        return Page(found, stop.key[1:], meta.next, clock_ms)
    return Page(found, None, meta.next, clock_ms)


def read_changes(
    state: State, log: KvLog, prefix: bytes, *, position: int, index: int, limit: int
) -> Changes | None:
    """Return the changes of keys under ``prefix`` from a position on, each with its value.

    None where they, or the values, are not known any more. Raises ``OSError``.
    """
    meta = state.meta
    if position < meta.changes_from:
        return None
    limit = max(1, min(limit, PAGE_ENTRIES_MAX))
    begin, end = change_key(position, index), after_prefix(CHANGE)
    found: list[Change] = []
    size_bytes = 0
    for looked_at, (row_key, row) in enumerate(state.table.items(begin, end)):
        at, number = CHANGE_PLACE.unpack_from(row_key, 1)
        if len(found) >= limit or size_bytes >= PAGE_BYTES_MAX or looked_at >= LOOKED_AT_MAX:
            return Changes(found, at, number)
        change = decode_change(row)
        if not change.key.startswith(prefix):
            continue
        value = None
        if change.kind == ChangeKind.PUT:
            value = _value(state, log, change.key, at, change.step)
            if value is None:
                return None
        found.append(Change(at, number, change.kind, change.key, change.version, value))
        size_bytes += len(change.key) + len(value or b"") + HEAD.size
    return Changes(found, max(meta.next, position))


def _value(state: State, log: KvLog, key: bytes, position: int, step: int) -> bytes | None:
    row = state.table.get(ENTRY + key)
    if row is not None and stored(row).modified == position:
        return row[HEAD.size :]
    begin, end = log.bounds()
    records = log.read(position, 1) if begin <= position < end else []
    if not records:
        return None
    record = records[0]
    if record.op_type == OpType.LOAD:
        return decode_load(record.body)[step].value
    return decode_steps(record.op_type, record.body)[step].value


def _entry(state: State | Frozen, key: bytes, row: bytes) -> Entry | None:
    head = stored(row)
    if 0 < head.expires_ms <= state.meta.clock_ms:
        return None
    return Entry(key, row[HEAD.size :], *head)
