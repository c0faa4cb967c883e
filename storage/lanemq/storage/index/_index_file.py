"""One file of the message index: a hash table of chains, newest entry first.

Layout: header, ``slots`` numbers of 4 bytes (the newest entry of each slot), entries.
Source: RocketMQ 4.9.8, IndexFile.
"""

from collections.abc import Iterator, Sequence
from typing import Final, final

from lanemq.wire import java_hash

from .._layouts import INDEX_ENTRY_FIELDS, INDEX_HEADER_FIELDS
from ..disk._files import File
from ._slots import PAGE_SLOTS, RUN_PAGES, SLOT_BYTES, SlotTable

HEADER_BYTES: Final = INDEX_HEADER_FIELDS.size
ENTRY_BYTES: Final = INDEX_ENTRY_FIELDS.size
SECONDS_MAX: Final = 2147483647
CHUNK_ENTRIES: Final = 1024
STEP_RUNS: Final = 4
"""Runs of pages of slots that one step writes: a megabyte at most."""
STEP_SLOTS: Final = STEP_RUNS * RUN_PAGES * PAGE_SLOTS
pack_entry: Final = INDEX_ENTRY_FIELDS.pack
unpack_entry: Final = INDEX_ENTRY_FIELDS.unpack_from


def key_hash(topic: str, key: str) -> int:
    """Return the hash of a key of a topic's messages, never negative."""
    value = abs(java_hash(f"{topic}#{key}"))
    return 0 if value == 1 << 31 else value


def index_file_bytes(slots: int, entries: int) -> int:
    return HEADER_BYTES + slots * SLOT_BYTES + entries * ENTRY_BYTES


@final
class IndexFile:
    """An index file whose entries and slots change in memory and reach the file with ``write_out``.

    Memory: only what was touched of the slots, at most all of them. The maker of one
    calls ``load`` or ``rebuild`` but for a new file.
    """

    def __init__(self, file: File, *, slots: int, entries: int, is_new: bool = False) -> None:
        self.file = file
        self._slots = SlotTable(file, slots=slots, begin=HEADER_BYTES, is_new=is_new)
        self._slots_count = slots
        self._limit = entries
        self._entries_at = HEADER_BYTES + slots * SLOT_BYTES
        self.begin_ms = 0
        self.end_ms = 0
        self.begin_position = 0
        self.end_position = 0
        self.used_slots = 0
        self.next_entry = 1
        self._tail = bytearray()
        self._tail_start = 1  # number of the first entry in the tail
        self._dirty = False
        self._unsynced = False

    @property
    def is_full(self) -> bool:
        return self.next_entry >= self._limit

    @property
    def is_whole(self) -> bool:
        """True if the file is full and its header is not older than its entries."""
        return (
            self.is_full
            and self.begin_ms > 0
            and self._entry(self.next_entry - 1)[1] == self.end_position
        )

    def load(self) -> None:
        """Read the header."""
        (
            self.begin_ms,
            self.end_ms,
            self.begin_position,
            self.end_position,
            self.used_slots,
            self.next_entry,
        ) = INDEX_HEADER_FIELDS.unpack(self.file.read(0, HEADER_BYTES))
        self.next_entry = min(max(self.next_entry, 1), self._limit)
        self._tail_start = self.next_entry

    @property
    def room(self) -> int:
        """Number of entries that can be added."""
        return max(self._limit - self.next_entry, 0)

    def put(
        self, hashes: Sequence[int], log_positions: Sequence[int], store_ms: Sequence[int]
    ) -> None:
        """Add entries, as many at most as there is ``room`` for; one at least."""
        number = self.next_entry
        if number <= 1:
            self.begin_ms, self.begin_position = store_ms[0], log_positions[0]
        begin_ms = self.begin_ms
        seconds = [(now_ms - begin_ms) // 1000 if now_ms > begin_ms else 0 for now_ms in store_ms]
        if begin_ms <= 0:
            seconds = [0] * len(seconds)
        elif max(seconds) > SECONDS_MAX:
            seconds = [min(one, SECONDS_MAX) for one in seconds]
        previous = self._slots.link(hashes, number)
        self.used_slots += previous.count(0)
        self._tail += b"".join(map(pack_entry, hashes, log_positions, seconds, previous))
        self.next_entry = number + len(previous)
        self.end_position, self.end_ms = log_positions[-1], store_ms[-1]
        self._dirty = True

    def _entry(self, number: int) -> tuple[int, int, int, int]:
        at = (number - self._tail_start) * ENTRY_BYTES
        if at >= 0:
            fields = unpack_entry(self._tail, at)
        else:
            data = self.file.read(self._entries_at + number * ENTRY_BYTES, ENTRY_BYTES)
            fields = unpack_entry(data, 0)
        return fields[0], fields[1], fields[2], fields[3]

    def positions(self, hash_: int, begin_ms: int, end_ms: int, step: int) -> Iterator[int | None]:
        """Return the log positions under a hash, newest first; times are exact to the second
        only. None comes after every ``step`` entries of the chain."""
        number = self._slots.newest(hash_)
        above, passed = self.next_entry, 0
        while 0 < number < above:  # chains only lead back: a loop on the disk ends here
            above = number
            found, log_position, seconds, number = self._entry(number)
            stored_ms = self.begin_ms + seconds * 1000
            if stored_ms + 999 < begin_ms:
                break
            if found == hash_ and stored_ms <= end_ms:
                yield log_position
            passed += 1
            if passed % step == 0:
                yield None

    def write_out(self) -> None:
        """Write what changed, unsynced: entries, then slots, then the header.

        Raises ``OSError``; nothing is forgotten then.
        """
        if self._dirty:
            self._write_tail()
            self._slots.write_out()
            self._write_header()

    def write_steps(self) -> Iterator[None]:
        """Do ``write_out`` in steps. Of what changes between two, some slots may be left for the
        next time; entries come before what points at them in each step."""
        for _ in range(0, self._slots_count, STEP_SLOTS):
            if not self._dirty:
                return
            self._write_tail()
            self._slots.write_out(STEP_RUNS)
            if not self._slots.is_dirty:
                break
            yield
        if self.is_full:
            self.write_out()  # a full file whose header is written is trusted after a crash
        elif self._dirty:
            self._write_tail()
            self._write_header()
            yield

    def _write_tail(self) -> None:
        if self._tail:
            at = self._entries_at + self._tail_start * ENTRY_BYTES
            self.file.write(at, self._tail)
            self._tail = bytearray()
            self._tail_start = self.next_entry

    def _write_header(self) -> None:
        self.file.write(
            0,
            INDEX_HEADER_FIELDS.pack(
                self.begin_ms,
                self.end_ms,
                self.begin_position,
                self.end_position,
                self.used_slots,
                self.next_entry,
            ),
        )
        self._dirty = self._slots.is_dirty
        self._unsynced = True

    async def sync(self) -> None:
        """Return once what ``write_out`` wrote is durable."""
        if self._unsynced:
            self._unsynced = False
            try:
                await self.file.sync()
            except BaseException:
                self._unsynced = True
                raise

    def drop_slots(self) -> None:
        """Release the memory of a file that is only read from now on."""
        if not self._dirty:
            self._slots.drop()

    def rebuild(self, log_position: int) -> None:
        """Keep the entries of messages before ``log_position``, and make slots and header again.

        This is for files a crash may have left half written; entries are written before what
        points at them, and those of messages before a checkpoint are whole. They stay where
        they are, so that a crash in the middle of this costs nothing.
        """
        self.load()
        begin_ms, end_ms, next_entry = self.begin_ms, self.end_ms, self.next_entry
        self._slots.clear()
        self.used_slots, self.next_entry = 0, 1
        for fields in self._readable_entries(log_position) if begin_ms > 0 else ():
            self._adopt(*fields)
        self._tail_start = self.next_entry
        self.file.erase(self._entries_at + self.next_entry * ENTRY_BYTES)
        if self.next_entry <= 1:
            self.begin_ms = self.end_ms = self.begin_position = self.end_position = 0
        elif self.next_entry == next_entry:
            self.end_ms = end_ms
        self._dirty = True
        self.write_out()

    def _adopt(self, hash_: int, log_position: int, seconds: int, previous: int) -> None:
        """Take over an entry that is already in the file."""
        number = self.next_entry
        (expected,) = self._slots.link((hash_,), number)
        if previous != expected:
            self.file.write(
                self._entries_at + number * ENTRY_BYTES,
                pack_entry(hash_, log_position, seconds, expected),
            )
        self.used_slots += expected == 0
        self.next_entry = number + 1
        self.end_position = log_position
        self.end_ms = self.begin_ms + seconds * 1000

    def _readable_entries(self, log_position: int) -> Iterator[tuple[int, int, int, int]]:
        number, newest = 1, self.begin_position
        while number < self._limit:
            count = min(CHUNK_ENTRIES, self._limit - number)
            data = self.file.read(self._entries_at + number * ENTRY_BYTES, count * ENTRY_BYTES)
            for hash_, position, seconds, previous in INDEX_ENTRY_FIELDS.iter_unpack(data):
                sane = hash_ >= 0 and seconds >= 0 and 0 <= previous < number
                unwritten = hash_ == position == 0 and number > 1
                if not sane or unwritten or not newest <= position < log_position:
                    return
                newest = position
                yield hash_, position, seconds, previous
                number += 1
