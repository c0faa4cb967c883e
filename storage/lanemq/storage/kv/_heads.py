"""Heads of entries' rows: what a record has to know of rows that it replaces or removes.

A value has up to 4 MiB, and a record may be about a thousand entries. So those with long values
have a second row with the head, the length and the hash of the first: a record is judged, an
entry removed and the sum of all entries moved by that, and no long value is read that nobody asks
for. A state that an earlier version wrote last has none that are right, and gets them as its
entries are written.
"""

from struct import Struct
from typing import Final, NamedTuple, final

from lanemq.wire.kv import HASH_BYTES

from .engines._engine import Batch
from .engines._rows import ENTRY, HASH_MASK, HEAD, HEADS, LIFE, NEVER, life_of, row_hash

LARGE_BYTES: Final = 4 << 10
"""Length of a row beyond which it has a second one."""
READ_BYTES: Final = 1 << 20
"""Bytes of rows that one record reads before it looks for second rows first: most entries have
none, and to look for them takes as long as to read a short one."""
_REST: Final = Struct(f">Q{HASH_BYTES}s")
Before = dict[bytes, bytes | int | None]
"""Keys of rows of entries that a batch has changed -> the rows before it, None for none, and the
hashes of long ones."""


@final
class Found(NamedTuple):
    """The row of an entry, as far as it is known."""

    head: bytes
    size_bytes: int
    """Length of the row."""
    row: bytes | None
    """The row itself; None for a long one that was not read, or not kept."""

    @property
    def is_timed(self) -> bool:
        """True if it expires or is under a lease."""
        return self.head[LIFE] != NEVER

    @property
    def life(self) -> int:
        """The life, as the row has it."""
        return life_of(self.head)


def second_row(row: bytes, hashed: int) -> bytes:
    """Return the second row of a long one, whose hash is ``hashed``."""
    return row[: HEAD.size] + _REST.pack(len(row), hashed.to_bytes(HASH_BYTES, "big"))


def moved_entries(total: bytes, before: Before, rows: dict[bytes, bytes | None]) -> bytes:
    """Return the sum of the hashes of all entries after a batch, and put second rows into it.

    ``rows`` are those of the batch, which has what ``before`` has.
    """
    number, seconds = int.from_bytes(total, "big"), dict[bytes, bytes | None]()
    for row_key, old in before.items():
        key, new = row_key[1:], rows[row_key]
        if isinstance(old, int):
            number -= old
            seconds[HEADS + key] = None
        elif old is not None:
            number -= row_hash(key, old)
        if new is not None:
            hashed = row_hash(key, new)
            number += hashed
            if len(new) > LARGE_BYTES:
                seconds[HEADS + key] = second_row(new, hashed)
    rows.update(seconds)
    return (number & HASH_MASK).to_bytes(HASH_BYTES, "big")


@final
class Heads:
    """Finds rows of entries, as a batch changes them."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._read_bytes = 0

    def begin(self) -> None:
        """Begin another record."""
        self._read_bytes = 0

    def find(self, key: bytes) -> Found | None:
        """Return what is known of an entry's row; None where there is no entry."""
        row_key, batch = ENTRY + key, self._batch
        is_much = self._read_bytes > READ_BYTES
        if is_much and row_key not in batch.rows:
            second = batch.get(HEADS + key)
            if second is not None:
                size_bytes, _ = _REST.unpack_from(second, HEAD.size)
                return Found(second[: HEAD.size], size_bytes, None)
        row = batch.get(row_key)
        if row is None:
            return None
        self._read_bytes += len(row)
        is_kept = len(row) <= LARGE_BYTES or not is_much
        return Found(row[: HEAD.size], len(row), row if is_kept else None)

    def row(self, key: bytes, found: Found) -> bytes:
        """Return the whole row of an entry that was found."""
        row = found.row if found.row is not None else self._batch.get(ENTRY + key)
        assert row is not None, "an entry was found, but is not there"
        return row

    def before(self, key: bytes, found: Found) -> bytes | int:
        """Return what the sum of all entries needs of a row that the batch has not changed yet:
        the row, or the hash of a long one."""
        if found.size_bytes <= LARGE_BYTES:
            return self.row(key, found)
        second = self._batch.get(HEADS + key)
        if second is None:  # written by an earlier version
            return row_hash(key, self.row(key, found))
        return int.from_bytes(second[-HASH_BYTES:], "big")
