"""Transfer of a state to the broker at which its partition goes on, as pages of rows.

All rows go, those of writers and changes too. So a write that is repeated at the new broker gets
the result that it had at the old one, and a watcher goes on.
"""

from typing import Final, final

import msgspec

from lanemq.wire import RemoteProtocolError
from lanemq.wire.kv import StateRows

from ._state import State
from ._sums import row_hash
from .engines._engine import Table, Unfinished
from .engines._rows import ENTRY, HASH_MASK, META, SESSION, Meta, decode_meta, encode_row

ALL_BEGIN: Final = b""
ALL_END: Final = b"\xff"
"""No row has a key behind it."""
PAGE_BYTES: Final = 1 << 20
PAGE_ROWS: Final = 2000


def read_rows(state: State, cursor: bytes | None) -> StateRows:
    """Return rows from ``cursor`` on: some 2,000, or a MiB. Raises ``OSError``.

    Nothing may be written to the state between two pages.
    """
    found: list[tuple[bytes, bytes]] = []
    size_bytes, position = 0, state.meta.next
    try:
        for key, row in state.table.some(cursor or ALL_BEGIN, ALL_END):
            if len(found) >= PAGE_ROWS or size_bytes >= PAGE_BYTES:
                return StateRows(found, key, position)
            found.append((key, row))
            size_bytes += len(key) + len(row)
    except Unfinished as stop:
        return StateRows(found, stop.key, position)
    return StateRows(found, None, position)


@final
class StateCopy:
    """A state that is being copied here, into rows that are not read yet.

    The row that makes it a state is the last one: what a crash leaves is begun anew.
    """

    def __init__(self, table: Table) -> None:
        """Empty the rows. Raises ``OSError``."""
        self._table = table
        self._meta: Meta | None = None
        self._sums = dict.fromkeys((ENTRY, SESSION + b"\0", SESSION + b"\1"), 0)
        table.write([(ALL_BEGIN, ALL_END)], {})

    def put(self, rows: list[tuple[bytes, bytes]]) -> None:
        """Take rows over. Raises ``OSError``, ``RemoteProtocolError``."""
        kept: dict[bytes, bytes | None] = {}
        for key, row in rows:
            if key == META:
                self._meta = _meta(row)
                continue
            kept[key] = row
            if key.startswith(ENTRY):
                self._sums[ENTRY] += row_hash(key[1:], row)
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
        kept = [meta.entry_sum, *meta.session_sums]
        for total, expected in zip(self._sums.values(), kept, strict=True):
            if total & HASH_MASK != int.from_bytes(expected, "big"):
                raise RemoteProtocolError("the rows are not those that the state's hash says")
        meta.queue_id, meta.shift, meta.first = place.queue_id, place.shift, position
        self._table.write([], {META: encode_row(meta)})


def _meta(row: bytes) -> Meta:
    try:
        return decode_meta(row)
    except msgspec.MsgspecError as error:
        raise RemoteProtocolError(f"the row of a state cannot be read: {error}") from error
