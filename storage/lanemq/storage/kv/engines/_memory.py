"""An engine for small states: rows in memory, written to one file from time to time.

The file is replaced as a whole, and checked by its checksum when it is read: eight bytes that say
what it is, the rows of each namespace as msgpack, and a BLAKE2b of 16 bytes over both.
"""

from bisect import bisect_left, insort
from collections.abc import Awaitable, Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Final, final

import msgspec
import trio

from ..._errors import StoreCorrupted
from ...disk._files import Files
from ._rows import META

FILE_NAME: Final = "memory.kv"
MAGIC: Final = b"lanekv\x00\x01"
SUM_BYTES: Final = 16
ROW_COSTS: Final = 64
Rows = dict[str, dict[bytes, bytes]]
_DECODER: Final = msgspec.msgpack.Decoder(Rows)


@final
class MemoryTable:
    """The rows of a namespace."""

    def __init__(self, rows: dict[bytes, bytes], keys: list[bytes] | None = None) -> None:
        """Take the rows, with their keys sorted where that is done already."""
        self.rows = rows
        self._keys = sorted(rows) if keys is None else keys
        self.dirty_bytes = 0

    def get(self, key: bytes) -> bytes | None:
        return self.rows.get(key)

    def items(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        keys = self._keys
        for at in range(bisect_left(keys, begin), bisect_left(keys, end)):
            yield keys[at], self.rows[keys[at]]

    some = items
    """Nothing is left of a row that is gone."""

    def snapshot(self) -> "MemoryTable":
        return MemoryTable(dict(self.rows), list(self._keys))

    def write(self, drops: list[tuple[bytes, bytes]], rows: dict[bytes, bytes | None]) -> None:
        keys = self._keys
        for begin, end in drops:
            first, last = bisect_left(keys, begin), bisect_left(keys, end)
            for key in keys[first:last]:
                del self.rows[key]
            del keys[first:last]
        for key, row in rows.items():
            if row is not None:
                if key not in self.rows:
                    insort(keys, key)
                self.rows[key] = row
                self.dirty_bytes += len(key) + len(row) + ROW_COSTS
            elif key in self.rows:
                del self.rows[key]
                del keys[bisect_left(keys, key)]


@final
class MemoryEngine:
    """The rows of all namespaces; ``freeze`` begins to write the file."""

    def __init__(self, files: Files, directory: Path) -> None:
        """Read the file, if there is one. Raises ``StoreCorrupted``, ``OSError``."""
        self._files = files
        self._path = directory / FILE_NAME
        files.make_directory(directory)
        data = files.read_all(self._path)
        rows: Rows = {} if data is None else _decode(data, self._path)
        self._tables = {name: MemoryTable(found) for name, found in rows.items()}

    def names(self) -> list[str]:
        return [name for name, table in self._tables.items() if META in table.rows]

    def table(self, name: str) -> MemoryTable:
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = MemoryTable({})
        return table

    @property
    def dirty_bytes(self) -> int:
        return sum(table.dirty_bytes for table in self._tables.values())

    def freeze(self) -> Callable[[], Awaitable[None]]:
        was_dirty = {name: table.dirty_bytes for name, table in self._tables.items()}
        copied = {name: dict(table.rows) for name, table in self._tables.items()}

        async def finish() -> None:
            if not any(was_dirty.values()):
                return
            data = await trio.to_thread.run_sync(_encode, copied)
            temporary = self._path.with_name(FILE_NAME + ".tmp")
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


def _encode(rows: Rows) -> bytes:
    data = MAGIC + msgspec.msgpack.encode(rows)
    return data + blake2b(data, digest_size=SUM_BYTES).digest()


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
