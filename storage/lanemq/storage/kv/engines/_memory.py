"""An engine for small states: rows in memory, written to one file from time to time.

The file is replaced as a whole, and checked by its checksum when it is read: eight bytes that say
what it is, the rows of each namespace as msgpack, and a BLAKE2b of 16 bytes over both.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final, final

import msgspec
import trio

from ..._errors import StoreCorrupted
from ...disk._files import Files
from ...disk._real_files import RealFiles
from ._engine import OnFault, ignore_fault

FILE_NAME: Final = "memory.kv"
MAGIC: Final = b"lanekv\x00\x01"
SUM_BYTES: Final = 16
ROW_COSTS: Final = 64
MEMORY_COSTS: Final = 150
"""Bytes of memory that a row takes besides its key and value, about."""
CHUNK_ROWS: Final = 512
"""Rows of a chunk; one with twice as many is divided."""
Rows = dict[str, dict[bytes, bytes]]
_DECODER: Final = msgspec.msgpack.Decoder(Rows)


@final
class _Chunk:
    """Some rows that follow each other; one of an earlier era is shared with a snapshot."""

    __slots__ = ("era", "keys", "rows")

    def __init__(self, keys: list[bytes], rows: dict[bytes, bytes], era: int) -> None:
        self.keys = keys
        """The keys of the rows, sorted; never empty."""
        self.rows = rows
        self.era = era


@final
class MemoryTable:
    """The rows of a namespace: chunks of some hundred, so that no write and no snapshot takes as
    long as there are rows."""

    def __init__(self, rows: dict[bytes, bytes]) -> None:
        keys = sorted(rows)
        self._era = 0
        self._chunks: list[_Chunk] = []
        for at in range(0, len(keys), CHUNK_ROWS):
            some = keys[at : at + CHUNK_ROWS]
            self._chunks.append(_Chunk(some, {key: rows[key] for key in some}, 0))
        self._firsts = [chunk.keys[0] for chunk in self._chunks]
        self.dirty_bytes = 0
        self.size_bytes = _size(rows.items())
        """Bytes of memory that all rows take, about; those of a snapshot are not counted."""

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
        self._era += 1  # a chunk that is changed from now on is copied first
        view = MemoryTable({})
        view._chunks, view._firsts, view._era = list(self._chunks), list(self._firsts), self._era
        return view

    def write(self, drops: list[tuple[bytes, bytes]], rows: dict[bytes, bytes | None]) -> None:
        for begin, end in drops:
            self._drop(begin, end)
        for key, row in rows.items():
            if row is None:
                self._remove(key)
            else:
                self._put(key, row)
                self.dirty_bytes += len(key) + len(row) + ROW_COSTS

    def _place(self, key: bytes) -> int:
        """Return the place of the chunk in which a key is, or would be."""
        return max(bisect_right(self._firsts, key) - 1, 0)

    def _own(self, at: int) -> _Chunk:
        """Return a chunk that may be changed."""
        chunk = self._chunks[at]
        if chunk.era != self._era:
            chunk = self._chunks[at] = _Chunk(list(chunk.keys), dict(chunk.rows), self._era)
        return chunk

    def _put(self, key: bytes, row: bytes) -> None:
        if not self._chunks:
            self._chunks.append(_Chunk([key], {key: row}, self._era))
            self._firsts.append(key)
            self.size_bytes += MEMORY_COSTS + len(key) + len(row)
            return
        at = self._place(key)
        chunk = self._own(at)
        old = chunk.rows.get(key)
        if old is None:
            insort(chunk.keys, key)
            self.size_bytes += MEMORY_COSTS + len(key) + len(row)
        else:
            self.size_bytes += len(row) - len(old)
        chunk.rows[key] = row
        self._firsts[at] = chunk.keys[0]
        if len(chunk.keys) > 2 * CHUNK_ROWS:
            right = chunk.keys[CHUNK_ROWS:]
            del chunk.keys[CHUNK_ROWS:]
            moved = {key: chunk.rows.pop(key) for key in right}
            self._chunks.insert(at + 1, _Chunk(right, moved, self._era))
            self._firsts.insert(at + 1, right[0])

    def _remove(self, key: bytes) -> None:
        at = bisect_right(self._firsts, key) - 1
        if at < 0 or key not in self._chunks[at].rows:
            return
        chunk = self._own(at)
        self.size_bytes -= MEMORY_COSTS + len(key) + len(chunk.rows.pop(key))
        del chunk.keys[bisect_left(chunk.keys, key)]
        if chunk.keys:
            self._firsts[at] = chunk.keys[0]
        else:
            del self._chunks[at], self._firsts[at]

    def _drop(self, begin: bytes, end: bytes) -> None:
        if begin >= end:
            return
        first, last = self._place(begin), bisect_left(self._firsts, end)
        left = []
        for chunk in self._chunks[first:last]:
            keys = chunk.keys
            kept = keys[: bisect_left(keys, begin)] + keys[bisect_left(keys, end) :]
            if len(kept) == len(keys):
                left.append(chunk)
                continue
            gone = keys[bisect_left(keys, begin) : bisect_left(keys, end)]
            self.size_bytes -= _size((key, chunk.rows[key]) for key in gone)
            if kept:
                left.append(_Chunk(kept, {key: chunk.rows[key] for key in kept}, self._era))
        self._chunks[first:last] = left
        self._firsts[first:last] = [chunk.keys[0] for chunk in left]


def _size(rows: Iterable[tuple[bytes, bytes]]) -> int:
    return sum(MEMORY_COSTS + len(key) + len(row) for key, row in rows)


@final
class MemoryEngine:
    """The rows of all namespaces; ``freeze`` begins to write the file."""

    def __init__(self, files: Files, directory: Path) -> None:
        """Read the file, if there is one. Raises ``StoreCorrupted``, ``OSError``."""
        self.on_fault: OnFault = ignore_fault
        self._files = files
        self._path = directory / FILE_NAME
        files.make_directory(directory)
        data = files.read_all(self._path)
        rows: Rows = {} if data is None else _decode(data, self._path)
        self._tables = {name: MemoryTable(found) for name, found in rows.items()}

    def tables(self) -> dict[str, MemoryTable]:
        return self._tables

    def replace(self, name: str) -> None:
        self._tables.pop(name, None)

    def table(self, name: str) -> MemoryTable:
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = MemoryTable({})
        return table

    @property
    def dirty_bytes(self) -> int:
        return sum(table.dirty_bytes for table in self._tables.values())

    @property
    def size_bytes(self) -> int:
        """Bytes of memory that all rows take, about."""
        return sum(table.size_bytes for table in self._tables.values())

    def freeze(self) -> Callable[[], Awaitable[None]]:
        was_dirty = {name: table.dirty_bytes for name, table in self._tables.items()}
        frozen = {name: table.snapshot().chunks for name, table in self._tables.items()}

        async def finish() -> None:
            if not any(was_dirty.values()):
                return
            data = await trio.to_thread.run_sync(_encode, frozen)
            temporary = self._path.with_name(FILE_NAME + ".tmp")
            if isinstance(self._files, RealFiles):
                await trio.to_thread.run_sync(self._files.write_all, temporary, data)
            else:
                self._files.write_all(temporary, data)
            await self._files.sync_path(temporary)
            self._files.move(temporary, self._path)
            await self._files.sync_path(self._path.parent)
            for name, dirty_bytes in was_dirty.items():
                self._tables[name].dirty_bytes -= dirty_bytes

        return finish

    def close(self) -> None:
        """Forget the rows; what is not flushed is not in the file."""
        self._tables.clear()


def move_file_aside(files: Files, directory: Path, now_ms: int) -> Path:
    """Move a damaged file aside; returns where it is. Raises ``OSError``."""
    target = directory / f"{FILE_NAME}.bad-{now_ms}"
    files.move(directory / FILE_NAME, target)
    return target


def _encode(tables: Mapping[str, Sequence[dict[bytes, bytes]]]) -> bytes:
    """Encode the file, in a thread: chunk by chunk, between which others get the interpreter's
    lock."""
    parts = [MAGIC, _map_header(len(tables))]
    for name, chunks in tables.items():
        parts += msgspec.msgpack.encode(name), _map_header(sum(map(len, chunks)))
        parts += (msgspec.msgpack.encode(some)[_header_bytes(len(some)) :] for some in chunks)
    data = b"".join(parts)
    return data + blake2b(data, digest_size=SUM_BYTES).digest()


def _map_header(count: int) -> bytes:
    """Return the header of a map in msgpack, in its longest form."""
    return b"\xdf" + count.to_bytes(4, "big")


def _header_bytes(count: int) -> int:
    """Return the length of the header that msgspec writes for a map."""
    return 1 if count < 16 else 3 if count < 1 << 16 else 5


def _decode(data: bytes, path: Path) -> Rows:
    content, found = data[:-SUM_BYTES], data[-SUM_BYTES:]
    if not content.startswith(MAGIC):
        raise StoreCorrupted(path, "it is not a file of keys, or is one of another version")
    if blake2b(content, digest_size=SUM_BYTES).digest() != found:
        raise StoreCorrupted(path, "its checksum does not match")
    try:
        return _DECODER.decode(content[len(MAGIC) :])
    except msgspec.MsgspecError as error:
        raise StoreCorrupted(path, f"it cannot be read: {error}") from error
