"""Rows of entries that a redo wrote lately: keys that are written again need not be read again."""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, final

from ._rows import HASH_BYTES, HASH_MASK

RECENT_BYTES: Final = 16 << 20
"""Bytes of rows beyond which all are forgotten."""
ROW_COSTS: Final = 320
"""Bytes that a small row and its hash take besides key and value."""

_BEGUN: Final = blake2b(digest_size=HASH_BYTES).copy
"""A copy is made in less time than one with arguments."""


@final
class RecentRows:
    """The latest rows of some entries, as they are in the table, and the hashes of these."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        """Keys of entries -> their rows."""
        self._hashes: dict[bytes, int] = {}
        self._size_bytes = 0

    def clear(self) -> None:
        """Forget all rows."""
        self.rows.clear()
        self._hashes.clear()
        self._size_bytes = 0

    def moved(
        self, total: bytes, changes: Iterable[tuple[bytes, bytes | None, bytes | None]]
    ) -> bytes:
        """Move a sum of hashes by changes, as ``_sums.moved`` does, and keep the new rows."""
        number, size_bytes, rows, hashes = 0, self._size_bytes, self.rows, self._hashes
        from_bytes, begun = int.from_bytes, _BEGUN
        for key, old, new in changes:
            head = len(key).to_bytes(4, "big") + key
            if key in rows:
                number -= hashes[key]
                size_bytes -= len(rows[key])
            else:
                size_bytes += len(key) + ROW_COSTS
                if old is not None:
                    hashed = begun()
                    hashed.update(head + old)
                    number -= from_bytes(hashed.digest(), "big")
            if new is None:
                if rows.pop(key, None) is not None:
                    del hashes[key]
                size_bytes -= len(key) + ROW_COSTS
                continue
            hashed = begun()
            hashed.update(head + new)
            now = from_bytes(hashed.digest(), "big")
            number += now
            rows[key], hashes[key] = new, now
            size_bytes += len(new)
        self._size_bytes = size_bytes
        if size_bytes > RECENT_BYTES:
            self.clear()
        return ((int.from_bytes(total, "big") + number) & HASH_MASK).to_bytes(HASH_BYTES, "big")
