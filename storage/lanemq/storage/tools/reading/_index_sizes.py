"""The numbers of slots and entries in the files of a key index, derived from their content.

The length of a file leaves one number open, and its content tells it: the header says how many
entries there are and where the messages of the first and the last one lie, so the entries are
found, and what is before them are the slots.
"""

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from ..._layouts import INDEX_ENTRY_FIELDS, INDEX_HEADER_FIELDS
from ...disk._zeros import without_zeros
from ...index._index_file import ENTRY_BYTES, HEADER_BYTES, index_file_bytes
from ...index._slots import SLOT_BYTES

DEFAULT_SLOTS: Final = 5_000_000
DEFAULT_ENTRIES: Final = 20_000_000
LOOKED_AT: Final = 256
ENOUGH: Final = 0.75
"""Share of the sampled entries that must be plausible: some may be damaged."""
CANDIDATES_MAX: Final = 10_000


class IndexSizes(NamedTuple):
    """The values of ``maxHashSlotNum`` and ``maxIndexNum`` when the files were made."""

    slots: int
    entries: int

    @property
    def file_bytes(self) -> int:
        return index_file_bytes(self.slots, self.entries)


class IndexHeader(NamedTuple):
    """The header of an index file: times in milliseconds; positions of the first and the newest
    message."""

    begin_timestamp_ms: int
    end_timestamp_ms: int
    begin_position: int
    end_position: int
    used_slots: int
    next_entry: int


DEFAULT: Final = IndexSizes(DEFAULT_SLOTS, DEFAULT_ENTRIES)


def index_sizes(paths: list[Path], configured: IndexSizes | None = None) -> IndexSizes | None:
    """Derive the sizes of a store's index files; None where nothing shows them.

    ``configured``: those of the broker's settings, which count where a file has that length, and
    where there are no files. Raises ``OSError``.
    """
    used = [(path, path.stat().st_size) for path in paths]
    used = [(path, size_bytes) for path, size_bytes in used if size_bytes]
    if not used:
        return configured or DEFAULT
    for known in (configured, DEFAULT):
        if known is not None and any(size == known.file_bytes for _, size in used):
            return known
    for path, size_bytes in reversed(used):
        found = _probe(path, size_bytes)
        if found is not None:
            return found
    return None


def _probe(path: Path, size_bytes: int) -> IndexSizes | None:
    if size_bytes <= HEADER_BYTES:
        return None
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        header = IndexHeader(*INDEX_HEADER_FIELDS.unpack_from(data))
        entries = header.next_entry - 1
        if entries < 1 or size_bytes < HEADER_BYTES + SLOT_BYTES + header.next_entry * ENTRY_BYTES:
            return None
        best, score = None, 0.0
        for sizes in _candidates(data, size_bytes, header):
            sane = _sane_entries(data, sizes, header)
            if sane > score:
                best, score = sizes, sane
    return best if score >= ENOUGH else None


def _candidates(data: mmap.mmap, size_bytes: int, header: IndexHeader) -> Iterator[IndexSizes]:
    """Iterate over sizes with which the last entry, or the first, would lie where its position is
    found."""
    room = size_bytes - HEADER_BYTES
    for number, position in (
        (header.next_entry - 1, header.end_position),
        (1, header.begin_position),
    ):
        if position <= 0:
            continue  # zeros are everywhere
        wanted = position.to_bytes(8, "big")
        at, seen = data.find(wanted, HEADER_BYTES), 0
        while at >= 0 and seen < CANDIDATES_MAX:
            slots_bytes = at - 4 - number * ENTRY_BYTES - HEADER_BYTES
            slots, odd = divmod(slots_bytes, SLOT_BYTES)
            entries, rest = divmod(room - slots_bytes, ENTRY_BYTES)
            if slots > 0 and not odd and not rest and entries >= header.next_entry:
                yield IndexSizes(slots, entries)
            at, seen = data.find(wanted, at + 1), seen + 1
    if header.next_entry == 2 and header.begin_position == 0:
        yield from _only_entry(data, size_bytes)


def _only_entry(data: mmap.mmap, size_bytes: int) -> Iterator[IndexSizes]:
    """Derive the sizes of a file with one entry, of the message at position 0, by the hash at its
    end."""
    at = len(without_zeros(data[HEADER_BYTES:])) + HEADER_BYTES
    for end in range(at, at + 4):
        slots_bytes = end - 4 - ENTRY_BYTES - HEADER_BYTES
        entries, rest = divmod(size_bytes - HEADER_BYTES - slots_bytes, ENTRY_BYTES)
        if slots_bytes > 0 and slots_bytes % SLOT_BYTES == 0 and not rest and entries > 1:
            yield IndexSizes(slots_bytes // SLOT_BYTES, entries)


def _sane_entries(data: mmap.mmap, sizes: IndexSizes, header: IndexHeader) -> float:
    """Return the share of plausible ones among the first entries, each with its slot and
    predecessor."""
    base = HEADER_BYTES + sizes.slots * SLOT_BYTES
    count = min(header.next_entry - 1, LOOKED_AT)
    newest: dict[int, int] = {}
    sane, last = 0, header.begin_position
    for number in range(1, count + 1):
        fields = INDEX_ENTRY_FIELDS.unpack_from(data, base + number * ENTRY_BYTES)
        hash_, position, seconds, previous = fields
        if hash_ < 0 or seconds < 0 or not last <= position <= header.end_position:
            continue
        slot = hash_ % sizes.slots
        slot_at = HEADER_BYTES + slot * SLOT_BYTES
        leads_to = int.from_bytes(data[slot_at : slot_at + SLOT_BYTES], "big", signed=True)
        if previous == newest.get(slot, 0) and number <= leads_to < header.next_entry:
            sane += 1
        newest[slot] = number
        last = position
    return sane / count
