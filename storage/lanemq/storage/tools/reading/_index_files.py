"""Files of the key index, for reading only."""

import os
import sys
from array import array
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from struct import Struct
from typing import final

from ..._layouts import INDEX_ENTRY_FIELDS, INDEX_HEADER_FIELDS
from ...index._index_file import ENTRY_BYTES, HEADER_BYTES
from ...index._slots import SLOT_BYTES
from ._index_sizes import IndexHeader, IndexSizes

CHUNK_ENTRIES = 4096
WORDS = ENTRY_BYTES // array("i").itemsize
# The first two fields of an entry; the others are of no use to who looks for keys.
KEY_FIELDS = Struct(f"{INDEX_ENTRY_FIELDS.format[:3]}{ENTRY_BYTES - 12}x")


@final
class IndexFileView:
    """A file of the key index, which ``entries`` and ``slots`` open again."""

    def __init__(self, path: Path, sizes: IndexSizes) -> None:
        self.path = path
        self.sizes = sizes
        self.size_bytes = path.stat().st_size
        with path.open("rb") as file:
            data = file.read(HEADER_BYTES).ljust(HEADER_BYTES, b"\0")
        self.header = IndexHeader(*INDEX_HEADER_FIELDS.unpack(data))

    @property
    def next_entry(self) -> int:
        return min(max(self.header.next_entry, 1), self.sizes.entries)

    def entries(self, first: int = 1) -> Iterator[tuple[int, int, int, int]]:
        """Iterate over hash, log position, seconds and number of the previous entry, from entry
        ``first`` on."""
        return chain.from_iterable(map(INDEX_ENTRY_FIELDS.iter_unpack, self._chunks(first)))

    def _chunks(self, first: int) -> Iterator[bytes]:
        number, end = first, self.next_entry
        base = HEADER_BYTES + self.sizes.slots * SLOT_BYTES
        with self.path.open("rb", buffering=0) as file:
            while number < end:
                count = min(CHUNK_ENTRIES, end - number)
                data = os.pread(file.fileno(), count * ENTRY_BYTES, base + number * ENTRY_BYTES)
                if len(data) < count * ENTRY_BYTES:
                    data = data[: len(data) // ENTRY_BYTES * ENTRY_BYTES]
                    end = number + len(data) // ENTRY_BYTES
                yield data
                number += count

    def keys(self, first: int) -> Iterator[tuple[int, int]]:
        """Iterate over hash and log position of the entries from ``first`` on."""
        return chain.from_iterable(map(KEY_FIELDS.iter_unpack, self._chunks(first)))

    def columns(self) -> Iterator[tuple["array[int]", Callable[[int], int], "array[int]"]]:
        """Iterate over runs of entries: their hashes, a way to a log position by number, and the
        numbers of their previous entries."""
        for data in self._chunks(1):
            words = array("i", data)
            if sys.byteorder == "little":
                words.byteswap()
            yield words[0::WORDS], partial(_position, data), words[WORDS - 1 :: WORDS]

    def slots(self) -> bytes:
        """Return the slot table, big-endian."""
        with self.path.open("rb") as file:
            file.seek(HEADER_BYTES)
            return file.read(self.sizes.slots * SLOT_BYTES)


def _position(data: bytes, number: int) -> int:
    position: int = INDEX_ENTRY_FIELDS.unpack_from(data, number * ENTRY_BYTES)[1]
    return position


def has_entries(path: Path) -> bool:
    """Return whether a file has entries, as its header says."""
    with path.open("rb") as file:
        data = file.read(HEADER_BYTES).ljust(HEADER_BYTES, b"\0")
    return IndexHeader(*INDEX_HEADER_FIELDS.unpack(data)).next_entry > 1


def index_paths(directory: Path) -> list[Path]:
    """Return the index files in order; other names are left alone."""
    try:
        with os.scandir(directory) as entries:
            names = [
                entry.name
                for entry in entries
                if entry.name.isascii() and entry.name.isdigit() and entry.is_file()
            ]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [directory / name for name in sorted(names)]
