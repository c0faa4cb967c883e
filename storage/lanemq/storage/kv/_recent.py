"""Rows of entries that a redo wrote lately: keys that are written again need not be read again."""

from hashlib import blake2b
from struct import Struct
from typing import Final, final

from lanemq.wire.kv import HASH_BYTES

from ._heads import LARGE_BYTES, Before, second_row
from .engines._rows import HASH_MASK, HEADS

RECENT_BYTES: Final = 16 << 20
"""Bytes of rows beyond which all are forgotten."""
ROW_COSTS: Final = 320
"""Bytes that a small row and its hash take besides key and value."""

_BEGUN: Final = blake2b(digest_size=HASH_BYTES).copy
"""A copy is made in less time than one with arguments."""

_SIZE: Final = Struct(">I").pack


@final
class RecentRows:
    """The latest rows of some entries, as they are in the table, and the hashes of these."""

    def __init__(self) -> None:
        self.rows: dict[bytes, tuple[bytes, int]] = {}
        """Keys of rows -> row and hash."""
        self._size_bytes = 0

    def clear(self) -> None:
        """Forget all rows."""
        self.rows.clear()
        self._size_bytes = 0

    def moved(self, total: bytes, before: Before, rows: dict[bytes, bytes | None]) -> bytes:
        """Move a sum of hashes as ``moved_entries`` does, and keep the new rows."""
        seconds: dict[bytes, bytes | None] = {}
        number, size_bytes, kept = 0, self._size_bytes, self.rows
        from_bytes, begun = int.from_bytes, _BEGUN
        for row_key, old in before.items():
            head, new = _SIZE(len(row_key) - 1) + row_key[1:], rows[row_key]
            was = kept.get(row_key)
            if was is not None:
                number -= was[1]
                size_bytes -= len(was[0])
            else:
                size_bytes += len(row_key) + ROW_COSTS
                if isinstance(old, int):
                    number -= old
                elif old is not None:
                    hashed = begun()
                    hashed.update(head + old)
                    number -= from_bytes(hashed.digest(), "big")
            if isinstance(old, int):
                seconds[HEADS + row_key[1:]] = None
            if new is None:
                kept.pop(row_key, None)
                size_bytes -= len(row_key) + ROW_COSTS
                continue
            hashed = begun()
            hashed.update(head + new)
            now = from_bytes(hashed.digest(), "big")
            number += now
            kept[row_key] = new, now
            size_bytes += len(new)
            if len(new) > LARGE_BYTES:
                seconds[HEADS + row_key[1:]] = second_row(new, now)
        rows.update(seconds)
        self._size_bytes = size_bytes
        if size_bytes > RECENT_BYTES:
            self.clear()
        return ((int.from_bytes(total, "big") + number) & HASH_MASK).to_bytes(HASH_BYTES, "big")
