"""Files of the key index, for reading only.

A file does not say how many slots and entries it was made for, only their total size shows.
"""

import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from struct import Struct
from typing import NamedTuple, final

from .._index_file import ENTRY_BYTES, HEADER_BYTES, SLOT_BYTES, index_file_bytes
from .._layouts import INDEX_ENTRY_FIELDS, INDEX_HEADER_FIELDS

DEFAULT_SLOTS = 5_000_000
DEFAULT_ENTRIES = 20_000_000
CHUNK_ENTRIES = 4096
SLOTS_PER_ENTRY = ENTRY_BYTES // SLOT_BYTES
PROBED_BYTES = 1 << 22
# The first two fields of an entry; the others are of no use to who looks for keys.
KEY_FIELDS = Struct(f"{INDEX_ENTRY_FIELDS.format[:3]}{ENTRY_BYTES - 12}x")


class IndexSizes(NamedTuple):
    """What ``maxHashSlotNum`` and ``maxIndexNum`` were when the files were made."""

    slots: int
    entries: int

    @property
    def file_bytes(self) -> int:
        return index_file_bytes(self.slots, self.entries)


class IndexHeader(NamedTuple):
    """Times in milliseconds; positions of the first and the newest message."""

    begin_timestamp_ms: int
    end_timestamp_ms: int
    begin_position: int
    end_position: int
    used_slots: int
    next_entry: int


@final
class IndexFileView:
    """One file. ``entries`` and ``slots`` open it anew."""

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
        """Hash, log position, seconds and number of the previous entry, from entry ``first``."""
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
        """Hash and log position of the entries from ``first`` on."""
        return chain.from_iterable(map(KEY_FIELDS.iter_unpack, self._chunks(first)))

    def slots(self) -> bytes:
        """The slot table, big-endian."""
        with self.path.open("rb") as file:
            file.seek(HEADER_BYTES)
            return file.read(self.sizes.slots * SLOT_BYTES)


def index_paths(directory: Path) -> list[Path]:
    """The index files in order; other names are left alone."""
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


def index_sizes(paths: list[Path]) -> IndexSizes | None:
    """Find out the sizes from a file with entries; None where no file fits any.

    A chain tells: the slot of an entry's hash leads to that entry, or to a later one.
    """
    default = IndexSizes(DEFAULT_SLOTS, DEFAULT_ENTRIES)
    for path in paths:
        size_bytes = path.stat().st_size
        if size_bytes == 0:
            continue
        if size_bytes == default.file_bytes:
            return default
        found = _probe(path, size_bytes)
        if found is not None:
            return found
    return default if not paths else None


def _probe(path: Path, size_bytes: int) -> IndexSizes | None:
    room = size_bytes - HEADER_BYTES
    with path.open("rb") as file:
        data = file.read(PROBED_BYTES + HEADER_BYTES)
    if len(data) < HEADER_BYTES or room % SLOT_BYTES:
        return None
    header = IndexHeader(*INDEX_HEADER_FIELDS.unpack_from(data))
    if header.next_entry <= 1:
        return None
    # Entry 1 has the first message's position, no seconds and nothing before it.
    rest = header.begin_position.to_bytes(8, "big", signed=True) + bytes(8)
    at = data.find(rest, HEADER_BYTES)
    while at >= 0:
        slots_bytes = at - 4 - ENTRY_BYTES - HEADER_BYTES
        slots, odd = divmod(slots_bytes, SLOT_BYTES)
        entries, rest_slots = divmod(room - slots * SLOT_BYTES, ENTRY_BYTES)
        if slots > 0 and not odd and entries > 1 and not rest_slots:
            sizes = IndexSizes(slots, entries)
            if _chains_lead_somewhere(data, sizes, header):
                return sizes
        at = data.find(rest, at + 1)
    return None


def _chains_lead_somewhere(data: bytes, sizes: IndexSizes, header: IndexHeader) -> bool:
    base = HEADER_BYTES + sizes.slots * SLOT_BYTES
    last = min(header.next_entry, sizes.entries, (len(data) - base) // ENTRY_BYTES)
    if last <= 1:
        return False
    for number in range(1, min(last, 64)):
        hash_, position, seconds, previous = INDEX_ENTRY_FIELDS.unpack_from(
            data, base + number * ENTRY_BYTES
        )
        slot_at = HEADER_BYTES + hash_ % sizes.slots * SLOT_BYTES if hash_ >= 0 else -1
        newest = int.from_bytes(data[slot_at : slot_at + SLOT_BYTES], "big", signed=True)
        sane = hash_ >= 0 and seconds >= 0 and 0 <= previous < number
        if (
            not sane
            or not header.begin_position <= position
            or not number <= newest < header.next_entry
        ):
            return False
    return True
