"""The message index: which messages have a key.

Source: RocketMQ 4.9.8, IndexService. Unlike there, entries that a redo made twice are answered
once, a crash costs no entry of a synced message, and hash collisions are left to the caller,
who has the records.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, final

from lanemq.wire import Property, SysFlag, get_property

from ._errors import StoreCorrupted
from ._files import Files
from ._index_file import IndexFile, index_file_bytes, key_hash

LOGGER = logging.getLogger(__name__)
BACKLOG_MAX: Final = 20_000
UNIQ_KEY: Final = Property.UNIQ_KEY.encode()
KEYS: Final = Property.KEYS.encode()
NAME_DIGITS: Final = 17


def index_file_name(now_ms: int) -> str:
    """Local time as yyyyMMddHHmmssSSS."""
    return time.strftime("%Y%m%d%H%M%S", time.localtime(now_ms // 1000)) + f"{now_ms % 1000:03d}"


def keys_of(properties: bytes) -> list[str]:
    """What a message is found by: its unique key, then each of its keys."""
    found = []
    unique = get_property(properties, UNIQ_KEY)
    if unique:
        found.append(unique.decode("utf-8", "replace"))
    keys = get_property(properties, KEYS)
    if keys:
        found += [key for key in keys.decode("utf-8", "replace").split(" ") if key]
    return found


@final
class Index:
    """``submit`` only queues: a background task and every query ``drain`` the backlog."""

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
        self.backlog: deque[tuple[str, int, int, int, bytes]] = deque()
        """(topic, log position, store time, sysFlag, properties) of what is not indexed yet."""

    # Writing

    def submit(
        self, topic: str, log_position: int, store_ms: int, sys_flag: int, properties: bytes
    ) -> None:
        """Have a message indexed soon. Raises ``OSError`` only where the backlog is full."""
        backlog = self.backlog
        backlog.append((topic, log_position, store_ms, sys_flag, properties))
        if len(backlog) > BACKLOG_MAX:
            self.drain(BACKLOG_MAX // 2)

    def drain(self, count: int | None = None) -> None:
        """Index the oldest ``count`` messages of the backlog, or all. Raises ``OSError``."""
        backlog = self.backlog
        for _ in range(len(backlog) if count is None else min(count, len(backlog))):
            self._put_message(*backlog[0])
            backlog.popleft()

    def _put_message(
        self, topic: str, log_position: int, store_ms: int, sys_flag: int, properties: bytes
    ) -> None:
        if sys_flag & SysFlag.TRANSACTION_MASK == SysFlag.TRANSACTION_ROLLBACK:
            return
        current = self._index_files[-1] if self._index_files else None
        if current is not None and (
            log_position < current.end_position
            or (log_position == current.end_position and current.next_entry > 1)
        ):
            return  # a redo of what is there
        for key in keys_of(properties):
            if current is None or current.is_full:
                current = self._next_file(current)
            current.put(key_hash(topic, key), log_position, store_ms)

    def _next_file(self, full: IndexFile | None) -> IndexFile:
        name = index_file_name(self._clock_ms())
        if full is not None:
            full.write_out()
            full.drop_pages()
            self._on_full(full.end_ms)
            name = max(name, f"{int(full.file.path.name) + 1:0{NAME_DIGITS}d}")
        size_bytes = index_file_bytes(self._slots, self._entries)
        file = self._files.create(self._directory / name, size_bytes)
        self._names_dirty = True
        created = IndexFile(file, slots=self._slots, entries=self._entries)
        if full is not None:
            created.begin_ms = created.end_ms = full.end_ms
            created.begin_position = created.end_position = full.end_position
        self._index_files.append(created)
        return created

    def write_out(self) -> None:
        """Write everything indexed, unsynced. Raises ``OSError``."""
        for index_file in self._index_files:
            index_file.write_out()

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

    def positions(self, topic: str, key: str, begin_ms: int, end_ms: int) -> Iterator[int]:
        """Positions of messages that may have the key, newest first, none twice.

        Sees all that was submitted before. Times are exact to the second only.
        """
        self.drain()
        hash_, seen = key_hash(topic, key), set[int]()
        for index_file in reversed(self._index_files):
            if index_file.begin_ms <= end_ms and index_file.end_ms >= begin_ms:
                for position in index_file.positions(hash_, begin_ms, end_ms):
                    if position not in seen:
                        seen.add(position)
                        yield position
            if index_file.begin_ms < begin_ms:
                break

    # Start-up and cleaning

    def load(self, redo_position: int | None) -> None:
        """Find the files; after a crash, cut them where the log's redo begins.

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
                    f"has {entry.size_bytes} bytes instead of {size_bytes}; are the numbers of"
                    " slots and entries configured as when it was made?",
                )
            index_file = IndexFile(self._files.open(path), slots=self._slots, entries=self._entries)
            index_file.load()
            self._index_files.append(index_file)
        if redo_position is not None:
            self.cut(redo_position)

    def cut(self, position: int) -> None:
        """Keep what was indexed of messages before ``position``, and make the files whole.

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
