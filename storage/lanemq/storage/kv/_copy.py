"""Transfer of a state to the broker at which its partition goes on, as pages of rows.

All rows go, those of writers and changes too. So a write that is repeated at the new broker gets
the result that it had at the old one, and a watcher goes on.
"""

import math
from time import perf_counter
from typing import Final, Protocol, final

import msgspec

from lanemq.wire import RemoteProtocolError
from lanemq.wire.kv import StateRows

from ._heads import LARGE_BYTES, second_row
from ._outcomes import Frozen
from ._state import State
from .engines._engine import Unfinished
from .engines._rows import (
    ENTRY,
    HASH_MASK,
    HEADS,
    LEASE,
    META,
    SESSION,
    Meta,
    decode_meta,
    encode_row,
    row_hash,
)

ALL_BEGIN: Final = b""
ALL_END: Final = b"\xff"
"""No row has a key behind it."""
PAGE_BYTES: Final = 1 << 20
PAGE_ROWS: Final = 2000
LOOKS_AT_CLOCK: Final = 8


def read_rows(
    state: State | Frozen, cursor: bytes | None, *, until_s: float = math.inf
) -> StateRows:
    """Return rows from ``cursor`` on: some 2,000, a MiB, or what is read until ``until_s`` (by
    ``perf_counter``). Raises ``OSError``.

    Nothing may be written to the state between two pages, unless it is frozen.
    """
    found: list[tuple[bytes, bytes]] = []
    size_bytes, position = 0, state.meta.next
    try:
        for key, row in state.table.some(cursor or ALL_BEGIN, ALL_END):
            is_looked_at = found and not len(found) % LOOKS_AT_CLOCK
            if (
                len(found) >= PAGE_ROWS
                or size_bytes >= PAGE_BYTES
                or (is_looked_at and perf_counter() > until_s)
            ):
                return StateRows(found, key, position)
            found.append((key, row))
            size_bytes += len(key) + len(row)
    except Unfinished as stop:
        return StateRows(found, stop.key, position)
    return StateRows(found, None, position)


class Target(Protocol):
    """The table that a copy is written to; see ``Table.write``."""

    def write(self, drops: list[tuple[bytes, bytes]], rows: dict[bytes, bytes | None]) -> None: ...


@final
class StateCopy:
    """A state that is being copied here, into rows that are not read yet.

    The row that makes it a state is the last one: what a crash leaves is begun again.
    """

    def __init__(self, table: Target) -> None:
        """Empty the rows. Raises ``OSError``."""
        self._table = table
        self._meta: Meta | None = None
        self._sums = dict.fromkeys((ENTRY, SESSION + b"\0", SESSION + b"\1", LEASE), 0)
        table.write([(ALL_BEGIN, ALL_END)], {})

    def put(self, rows: list[tuple[bytes, bytes]]) -> None:
        """Take rows over. Raises ``OSError``, ``RemoteProtocolError``."""
        kept: dict[bytes, bytes | None] = {}
        for key, row in rows:
            if key == META:
                self._meta = _meta(row)
                continue
            if key.startswith(HEADS):
                continue  # no sum says that they are right, so they are made again
            kept[key] = row
            if key.startswith(ENTRY):
                hashed = row_hash(key[1:], row)
                self._sums[ENTRY] += hashed
                if len(row) > LARGE_BYTES:
                    kept[HEADS + key[1:]] = second_row(row, hashed)
            elif key.startswith(LEASE):
                self._sums[LEASE] += row_hash(key, row)
            elif key[:2] in self._sums:
                self._sums[key[:2]] += row_hash(key, row)
        if kept:
            self._table.write([], kept)

    def finish(self, place: Meta) -> None:
        """Turn the copy into a state, whose records come from the queue that ``place`` names.

        Never does a row name the queue that the other broker had: here it may be another
        partition's. Raises ``OSError``, and ``RemoteProtocolError`` where the rows are not those
        of the first record there, or not those that the state's hash was made of.
        """
        meta, position = self._meta, place.first
        if meta is None or meta.next != position:
            raise RemoteProtocolError(f"the rows are not those of a state at record {position}")
        kept = [meta.entry_sum, *meta.session_sums, meta.lease_sum]
        for total, expected in zip(self._sums.values(), kept, strict=True):
            if total & HASH_MASK != int.from_bytes(expected, "big"):
                raise RemoteProtocolError("the rows are not those that the state's hash says")
        meta.queue_id, meta.shift, meta.first = place.queue_id, place.shift, position
        meta.has_heads = True
        self._table.write([], {META: encode_row(meta)})


def _meta(row: bytes) -> Meta:
    try:
        return decode_meta(row)
    except msgspec.MsgspecError as error:
        raise RemoteProtocolError(f"the row of a state cannot be read: {error}") from error
