"""The rows of a namespace in memory, and their snapshots, which share what has not changed."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from typing import Final, final
from weakref import ref

ROW_COSTS: Final = 64
MEMORY_COSTS: Final = 150
"""Bytes of memory that a row takes besides its key and value, about."""
COPY_COSTS: Final = 64
"""Bytes that a row takes in a copy of its chunk, which shares its key and value, about."""
CHUNK_ROWS: Final = 512
"""Rows of a chunk; one with twice as many is divided."""
RELEASED_CHUNKS: Final = 256
"""Chunks without a use whose memory one write gives back; that takes some 5 ms."""


@final
class _Chunk:
    """Some rows that follow each other; one of an earlier era is shared with a snapshot."""

    __slots__ = ("era", "keys", "rows", "size_bytes")

    def __init__(
        self, keys: list[bytes], rows: dict[bytes, bytes], era: int, size_bytes: int
    ) -> None:
        self.keys = keys
        """The keys of the rows, sorted; never empty."""
        self.rows = rows
        self.era = era
        self.size_bytes = size_bytes


@final
class MemoryTable:
    """The rows of a namespace: chunks of some hundred, so that no write and no snapshot takes as
    long as there are rows. A snapshot is one too, which nobody writes to."""

    def __init__(self, rows: dict[bytes, bytes]) -> None:
        keys = sorted(rows)
        self._era = self._snapshot_era = 0
        self._emptied: list[_Chunk] = []
        """Chunks that were removed as a whole, whose memory later writes give back."""
        self._chunks: list[_Chunk] = []
        for at in range(0, len(keys), CHUNK_ROWS):
            some = keys[at : at + CHUNK_ROWS]
            part = {key: rows[key] for key in some}
            self._chunks.append(_Chunk(some, part, 0, _size(part.items())))
        self._firsts = [chunk.keys[0] for chunk in self._chunks]
        self.dirty_bytes = 0
        self.size_bytes = sum(chunk.size_bytes for chunk in self._chunks)
        """Bytes of memory that all rows take, about; what snapshots keep is not counted."""
        self._let_go_bytes = 0
        """Bytes that were replaced or removed here since the begin: what snapshots may keep."""
        self._source: Callable[[], MemoryTable | None] | None = None
        self._let_go_before = 0

    @property
    def chunks(self) -> list[dict[bytes, bytes]]:
        """The rows, chunk by chunk in the order of keys, as they are until the next write."""
        return [chunk.rows for chunk in self._chunks]

    def get(self, key: bytes) -> bytes | None:
        at = bisect_right(self._firsts, key) - 1
        return self._chunks[at].rows.get(key) if at >= 0 else None

    def items(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        chunks, at = self._chunks, self._place(begin)
        while at < len(chunks):
            keys, rows = chunks[at].keys, chunks[at].rows
            last = bisect_left(keys, end)
            for key in keys[bisect_left(keys, begin) : last]:
                yield key, rows[key]
            if last < len(keys):
                return
            at += 1

    some = items
    """Nothing is left of a row that is gone."""

    def some_back(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        chunks = self._chunks
        for at in range(bisect_left(self._firsts, end) - 1, -1, -1):
            keys, rows = chunks[at].keys, chunks[at].rows
            first = bisect_left(keys, begin)
            for key in reversed(keys[first : bisect_left(keys, end)]):
                yield key, rows[key]
            if first:
                return

    def snapshot(self) -> "MemoryTable":
        self.share()
        self._snapshot_era = self._era
        view = MemoryTable({})
        view._chunks, view._firsts, view._era = list(self._chunks), list(self._firsts), self._era
        view.size_bytes = self.size_bytes
        view._source, view._let_go_before = ref(self), self._let_go_bytes
        return view

    @property
    def pinned_bytes(self) -> int:
        """Bytes that a snapshot keeps in memory, and the table that it is of has no more, at most.

        What was written after the snapshot and replaced again counts too, up to the size of the
        snapshot. 0 for a table that is none.
        """
        if self._source is None:
            return 0
        source = self._source()
        if source is None:
            return self.size_bytes
        return min(source._let_go_bytes - self._let_go_before, self.size_bytes)

    def share(self) -> list[dict[bytes, bytes]]:
        """Return the rows, chunk by chunk in the order of keys, as they are now, whatever is
        written later."""
        self._era += 1  # a chunk that is changed from now on is copied first
        return self.chunks

    def write(self, drops: list[tuple[bytes, bytes]], rows: dict[bytes, bytes | None]) -> None:
        for begin, end in drops:
            self._drop(begin, end)
        for key, row in rows.items():
            if row is None:
                self._remove(key)
            else:
                self._put(key, row)
                self.dirty_bytes += len(key) + len(row) + ROW_COSTS
        del self._emptied[-RELEASED_CHUNKS:]

    def _place(self, key: bytes) -> int:
        """Return the place of the chunk in which a key is, or would be."""
        return max(bisect_right(self._firsts, key) - 1, 0)

    def _own(self, at: int) -> _Chunk:
        """Return a chunk that may be changed."""
        chunk = self._chunks[at]
        if chunk.era != self._era:
            if chunk.era < self._snapshot_era:
                self._let_go_bytes += COPY_COSTS * len(chunk.keys)
            keys, rows = list(chunk.keys), dict(chunk.rows)
            chunk = self._chunks[at] = _Chunk(keys, rows, self._era, chunk.size_bytes)
        return chunk

    def _grow(self, chunk: _Chunk, size_bytes: int) -> None:
        chunk.size_bytes += size_bytes
        self.size_bytes += size_bytes

    def _forget(self, chunk: _Chunk, key: bytes) -> None:
        """Remove a row, but not its key."""
        size_bytes = MEMORY_COSTS + len(key) + len(chunk.rows.pop(key))
        self._grow(chunk, -size_bytes)
        self._let_go_bytes += size_bytes

    def _put(self, key: bytes, row: bytes) -> None:
        if not self._chunks:
            self._chunks.append(_Chunk([key], {}, self._era, 0))
            self._firsts.append(key)
            self._chunks[0].rows[key] = row
            self._grow(self._chunks[0], MEMORY_COSTS + len(key) + len(row))
            return
        at = self._place(key)
        chunk = self._own(at)
        old = chunk.rows.get(key)
        if old is None:
            insort(chunk.keys, key)
            self._grow(chunk, MEMORY_COSTS + len(key) + len(row))
        else:
            self._grow(chunk, len(row) - len(old))
            self._let_go_bytes += MEMORY_COSTS + len(key) + len(old)
        chunk.rows[key] = row
        self._firsts[at] = chunk.keys[0]
        if len(chunk.keys) > 2 * CHUNK_ROWS:
            right = chunk.keys[CHUNK_ROWS:]
            del chunk.keys[CHUNK_ROWS:]
            moved = {key: chunk.rows.pop(key) for key in right}
            moved_bytes = _size(moved.items())
            chunk.size_bytes -= moved_bytes
            self._chunks.insert(at + 1, _Chunk(right, moved, self._era, moved_bytes))
            self._firsts.insert(at + 1, right[0])

    def _remove(self, key: bytes) -> None:
        at = bisect_right(self._firsts, key) - 1
        if at < 0 or key not in self._chunks[at].rows:
            return
        chunk = self._own(at)
        self._forget(chunk, key)
        del chunk.keys[bisect_left(chunk.keys, key)]
        if chunk.keys:
            self._firsts[at] = chunk.keys[0]
        else:
            del self._chunks[at], self._firsts[at]

    def _drop(self, begin: bytes, end: bytes) -> None:
        first, last = self._place(begin), bisect_left(self._firsts, end)
        if begin >= end or first >= last:
            return
        if self._firsts[first] < begin:
            self._cut(first, begin, end)
            first += 1
        if first < last and self._chunks[last - 1].keys[-1] >= end:
            last -= 1
            self._cut(last, begin, end)
        gone = self._chunks[first:last]  # as a whole: nobody looks at their rows
        gone_bytes = sum(chunk.size_bytes for chunk in gone)
        self.size_bytes -= gone_bytes
        self._let_go_bytes += gone_bytes
        self._emptied += gone
        del self._chunks[first:last], self._firsts[first:last]

    def _cut(self, at: int, begin: bytes, end: bytes) -> None:
        """Remove rows of a chunk, some of which stay."""
        keys = self._chunks[at].keys
        low, high = bisect_left(keys, begin), bisect_left(keys, end)
        if low == high:
            return
        chunk = self._own(at)
        for key in chunk.keys[low:high]:
            self._forget(chunk, key)
        del chunk.keys[low:high]
        self._firsts[at] = chunk.keys[0]


def _size(rows: Iterable[tuple[bytes, bytes]]) -> int:
    return sum(MEMORY_COSTS + len(key) + len(row) for key, row in rows)
