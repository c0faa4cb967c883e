"""An engine for small states: rows in memory, written to one file from time to time.

The file is replaced as a whole, and checked by its checksum when it is read: eight bytes that say
what it is, the rows of each namespace as msgpack, and a BLAKE2b of 16 bytes over both.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final, final

import msgspec
import trio

from ..._errors import StoreCorrupted
from ...disk._files import Files
from ...disk._real_files import RealFiles
from ._engine import OnFault, ignore_fault
from ._memory_table import MemoryTable

FILE_NAME: Final = "memory.kv"
MAGIC: Final = b"lanekv\x00\x01"
SUM_BYTES: Final = 16
Rows = dict[str, dict[bytes, bytes]]
_DECODER: Final = msgspec.msgpack.Decoder(Rows)


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
        frozen = {name: table.share() for name, table in self._tables.items()}

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
