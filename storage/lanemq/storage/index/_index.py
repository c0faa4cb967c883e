"""The message index, which finds messages by key.

Source: RocketMQ 4.9.8, IndexService. Unlike there, entries that a redo made twice are answered
once, a crash costs no entry of a synced message, and hash collisions are left to the caller,
who has the records.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, final

from lanemq.local import get_logger
from lanemq.wire import SysFlag

from .._errors import StoreCorrupted
from ..derive._shapes import Shape
from ..disk._files import Files
from ._backlog import Backlog, Message
from ._index_file import IndexFile, index_file_bytes, key_hash
from ._key_hashes import Key, key_hashes
from ._keys import split_keys

LOGGER = get_logger(__name__)
TOGETHER: Final = 32
"""Number of messages from which on it pays to index them: many at once cost less than half."""
TURN_MAX: Final = 1000
"""Number of keys that are indexed in one turn: two to three milliseconds."""
TOPICS_MAX: Final = 1 << 12
STEP_ENTRIES: Final = 256
"""Entries of a chain that are looked at in one step of a search."""
NAME_DIGITS: Final = 17


def index_file_name(now_ms: int) -> str:
    """Return the name of an index file: local time as yyyyMMddHHmmssSSS."""
    return time.strftime("%Y%m%d%H%M%S", time.localtime(now_ms // 1000)) + f"{now_ms % 1000:03d}"


Entries = tuple[list[int], list[int], list[int]]
"""Hashes of keys, with the log positions and the store times of their messages."""


@final
class Index:
    """The index of a store. Messages that are submitted wait until there are enough to be indexed
    together; a background task and every query ``drain`` the rest."""

    def __init__(
        self,
        files: Files,
        directory: Path,
        *,
        slots: int,
        entries: int,
        clock_ms: Callable[[], int],
        on_full: Callable[[int], None],
    ) -> None:
        self._files = files
        self._directory = directory
        self._slots = slots
        self._entries = entries
        self._clock_ms = clock_ms
        self._on_full = on_full
        self._index_files: list[IndexFile] = []
        self._names_dirty = False
        self._shapes: dict[str, Shape] = {}
        self._heads: dict[tuple[str, bytes], int] = {}
        self.waiting = Backlog()
        """The messages that are not hashed yet."""
        self._hashed: Entries = [], [], []  # taken off the backlog, and not in a file yet

    # Writing

    @property
    def backlog(self) -> int:
        """Number of messages that are not indexed yet."""
        return len(self.waiting) + bool(self._hashed[0])

    def submit(self, messages: Iterable[Message]) -> None:
        """Queue messages, in the order of the log, and index them where they are many.

        More than ``TURN_MAX`` keys are left to the background task. Raises ``OSError`` where
        indexing fails; then they wait.
        """
        waiting = self.waiting
        added = waiting.add(messages)
        if len(waiting) >= TOGETHER or waiting.is_behind:
            if added <= TURN_MAX:
                self.drain(TURN_MAX)
            if waiting:
                waiting.many.set()

    def drained(self) -> Iterator[None]:
        """Index all that waits now, in steps. Raises ``OSError``."""
        left = self.backlog
        while left > 0 and self.backlog:  # others index it between two steps, too
            left -= self.backlog
            self.drain(TURN_MAX)
            left += self.backlog
            yield

    def drain(self, keys: int | None = None) -> None:
        """Index the oldest messages of the backlog with ``keys`` keys, one at least, or all.

        Raises ``OSError``.
        """
        waiting = self.waiting
        try:
            self._put_hashed()
            rest = 0 if keys is None else max(waiting.keys - keys, 0)
            while waiting.keys > rest:
                self._hash(waiting.taken(max(waiting.keys - TURN_MAX, rest)))
                self._put_hashed()
        except OSError:
            waiting.make_room()  # their messages are in the log: no sender waits for the disk
            raise
        if not waiting.is_behind:
            waiting.make_room()

    def _hash(self, messages: list[Message]) -> None:
        """Find and hash the keys of messages; those that are indexed already are passed over."""
        indexed_end = -1
        if self._index_files:
            newest = self._index_files[-1]
            indexed_end = newest.end_position + (newest.next_entry > 1)
        keys: list[Key] = []
        times: list[int] = []
        shapes = self._shapes
        for topic, log_position, store_ms, sys_flag, properties in messages:
            if (
                log_position < indexed_end
                or sys_flag & SysFlag.TRANSACTION_MASK == SysFlag.TRANSACTION_ROLLBACK
            ):
                continue
            shape = shapes.get(topic)
            if shape is None:
                shape = self._new_shape(topic)
            _, unique, others = shape.values(properties)
            if unique is not None:
                keys.append((log_position, topic, unique))
                times.append(store_ms)
            if others is not None:
                for key in split_keys(others):
                    keys.append((log_position, topic, key))
                    times.append(store_ms)
        self._hashed = key_hashes(keys, self._heads), [key[0] for key in keys], times

    def _new_shape(self, topic: str) -> Shape:
        if len(self._shapes) >= TOPICS_MAX:
            self._shapes.clear()
        shape = self._shapes[topic] = Shape()
        return shape

    def _put_hashed(self) -> None:
        """Add what is hashed to the newest file, and to new ones where that is full."""
        hashes, positions, times = self._hashed
        while hashes:
            current = self._index_files[-1] if self._index_files else None
            if current is None or current.is_full:
                current = self._next_file(current)
            room = current.room
            if room >= len(hashes):
                current.put(hashes, positions, times)
                break
            current.put(hashes[:room], positions[:room], times[:room])
            self._hashed = hashes, positions, times = hashes[room:], positions[room:], times[room:]
        self._hashed = [], [], []

    def _next_file(self, full: IndexFile | None) -> IndexFile:
        name = index_file_name(self._clock_ms())
        if full is not None:
            full.write_out()
            full.drop_slots()
            self._on_full(full.end_ms)
            name = max(name, f"{int(full.file.path.name) + 1:0{NAME_DIGITS}d}")
        size_bytes = index_file_bytes(self._slots, self._entries)
        file = self._files.create(self._directory / name, size_bytes)
        self._names_dirty = True
        created = IndexFile(file, slots=self._slots, entries=self._entries, is_new=True)
        if full is not None:
            created.begin_ms = created.end_ms = full.end_ms
            created.begin_position = created.end_position = full.end_position
        self._index_files.append(created)
        return created

    def write_out(self) -> None:
        """Write everything indexed, unsynced. Raises ``OSError``."""
        for index_file in self._index_files:
            index_file.write_out()

    def write_steps(self) -> Iterator[None]:
        """Do ``write_out`` in steps, between which more may be indexed. Raises ``OSError``."""
        for index_file in list(self._index_files):
            steps = index_file.write_steps()
            # It may be cleaned meanwhile, and closed.
            while index_file in self._index_files and next(steps, True) is None:
                yield

    async def sync(self) -> None:
        """Return once everything written is durable."""
        if self._names_dirty:
            self._names_dirty = False
            try:
                await self._files.sync_path(self._directory)
                await self._files.sync_path(self._directory.parent)
            except BaseException:
                self._names_dirty = True
                raise
        for index_file in list(self._index_files):
            if index_file in self._index_files:  # it may go while another is synced
                await index_file.sync()

    # Reading

    @property
    def newest(self) -> tuple[int, int]:
        """Store time and log position of the newest indexed message; zeros without any."""
        if not self._index_files:
            return 0, 0
        return self._index_files[-1].end_ms, self._index_files[-1].end_position

    def positions(self, topic: str, key: str, begin_ms: int, end_ms: int) -> Iterator[int | None]:
        """Return the positions of messages that may have the key, newest first, without duplicates.

        Sees all that was submitted before. Times are exact to the second only. None stands for
        ``STEP_ENTRIES`` entries that were passed over, or for messages that had to be indexed.
        """
        for _ in self.drained():
            yield None
        hash_, seen = key_hash(topic, key), set[int]()
        for index_file in reversed(list(self._index_files)):
            if index_file.begin_ms <= end_ms and index_file.end_ms >= begin_ms:
                for position in index_file.positions(hash_, begin_ms, end_ms, STEP_ENTRIES):
                    if position not in seen:
                        if position is not None:
                            seen.add(position)
                        yield position
                        if index_file not in self._index_files:  # cleaned meanwhile, and closed
                            return
            if index_file.begin_ms < begin_ms:
                break

    # Start-up and cleaning

    def load(self, redo_position: int | None) -> None:
        """Find the files, and after a crash cut them where the log's redo begins.

        Raises ``StoreCorrupted`` for a file of a wrong size.
        """
        size_bytes = index_file_bytes(self._slots, self._entries)
        for entry in self._files.entries(self._directory):
            name, path = entry.name, self._directory / entry.name
            if entry.is_directory or not (name.isascii() and name.isdigit()):
                continue
            if entry.size_bytes == 0:
                LOGGER.warning("%s is empty: removed, a crash interrupted its creation", path)
                self._files.remove(path)
                continue
            if entry.size_bytes != size_bytes:
                raise StoreCorrupted(
                    path,
                    f"has {entry.size_bytes} bytes where maxHashSlotNum={self._slots} and"
                    f" maxIndexNum={self._entries} make {size_bytes}: set both to the values"
                    " with which it was made, or move the directory away, and"
                    " `repair_store(settings=...)` makes the key index again",
                )
            index_file = IndexFile(self._files.open(path), slots=self._slots, entries=self._entries)
            index_file.load()
            self._index_files.append(index_file)
        if redo_position is not None:
            self.cut(redo_position)

    def cut(self, position: int) -> None:
        """Keep the entries of messages before ``position``, and make the files whole.

        Those messages' entries are durable. A file that was full before that is whole; any later
        one may have a header that is older than its slots.
        """
        while len(self._index_files) > 1 and self._index_files[-1].begin_position >= position:
            self._remove(len(self._index_files) - 1)
        for index_file in reversed(self._index_files):
            if index_file.is_whole and index_file.end_position < position:
                break
            index_file.rebuild(position)
        while len(self._index_files) > 1 and self._index_files[-1].next_entry <= 1:
            self._remove(len(self._index_files) - 1)

    def _remove(self, number: int) -> None:
        index_file = self._index_files.pop(number)
        index_file.file.close()
        self._files.remove(index_file.file.path)
        self._names_dirty = True

    def clean(self, log_position: int) -> int:
        """Remove files whose messages all lie before ``log_position``, never the last one."""
        removed = 0
        while len(self._index_files) > 1 and self._index_files[0].end_position < log_position:
            self._remove(0)
            removed += 1
        return removed

    def close(self) -> None:
        for index_file in self._index_files:
            index_file.file.close()
