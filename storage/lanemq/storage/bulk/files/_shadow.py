"""Copies of a store's queue files that are changed while the store's own stay as they are.

A queue that nothing is written to is read where it is. With the first change it gets a directory
of its own in the shadow, with second names of all its files, and what is changed becomes a copy.
So a conversion can be checked before it replaces anything.
"""

from pathlib import Path
from typing import final

from lanemq.local import copy_file, make_directories

from ...disk._files import Entry
from ...disk._real_files import RealFiles, erase
from ...tools.reading._queue_files import QueueFiles, open_queue, queue_directories

COPIED_BYTES = 1 << 20


@final
class ShadowFile:
    """A file whose first write makes a copy, which is written instead."""

    def __init__(self, files: "ShadowFiles", path: Path) -> None:
        self._files = files
        self.path = path
        self._file = files.real.open(files.place(path.parent) / path.name)

    def read(self, position: int, size_bytes: int) -> bytes:
        return self._file.read(position, size_bytes)

    def write(self, position: int, data: bytes | bytearray) -> None:
        own = self._files.own(self.path)
        if own != self._file.path:
            self._file.close()
            self._file = self._files.real.open(own)
        self._file.write(position, data)

    def erase(self, position: int) -> None:
        erase(self, position)  # without bytes that are not zero there is nothing to copy

    def next_data(self, position: int) -> int:
        return self._file.next_data(position)

    async def sync(self) -> None:
        await self._file.sync()

    def close(self) -> None:
        self._file.close()


@final
class ShadowFiles:
    """A disk for ``Segments``, for the queues below ``directory``. Raises ``OSError``."""

    def __init__(self, directory: Path, shadow: Path) -> None:
        self.real = RealFiles()
        self.directory = directory
        self.shadow = shadow
        self._own: set[Path] = set()

    def _shadow_of(self, path: Path) -> Path:
        return self.shadow / path.relative_to(self.directory)

    def place(self, directory: Path) -> Path:
        """Return the directory of a queue's files."""
        target = self._shadow_of(directory)
        return target if target.is_dir() else directory

    def changed(self) -> list[Path]:
        """Return the directories of changed queues, relative to ``directory``."""
        return [
            path.relative_to(self.shadow)
            for path in sorted(self.shadow.glob("*/*"))
            if path.is_dir()
        ]

    def begin_anew(self, directory: Path) -> None:
        """Begin a queue without files."""
        target = self._shadow_of(directory)
        make_directories(target)
        for path in target.iterdir():
            path.unlink()

    def _enter(self, directory: Path) -> Path:
        target = self._shadow_of(directory)
        if not target.is_dir():
            make_directories(target)
            for entry in self.real.entries(directory):
                if not entry.is_directory:
                    self.real.link(directory / entry.name, target / entry.name)
        return target

    def own(self, path: Path) -> Path:
        """Return the copy of a file that may be written to."""
        target = self._enter(path.parent) / path.name
        if target not in self._own:
            self._own.add(target)
            copy_file(path, target)
        return target

    def open(self, path: Path) -> ShadowFile:
        return ShadowFile(self, path)

    def create(self, path: Path, size_bytes: int) -> ShadowFile:
        target = self._enter(path.parent) / path.name
        self.real.create(target, size_bytes)
        self._own.add(target)
        return ShadowFile(self, path)

    def entries(self, directory: Path) -> list[Entry]:
        return self.real.entries(self.place(directory))

    def remove(self, path: Path) -> None:
        (self._enter(path.parent) / path.name).unlink()

    async def sync_path(self, path: Path) -> None:
        await self.real.sync_path(self.place(path))


@final
class ResultFiles:
    """The queues with the changes of a shadow, for reading only."""

    def __init__(self, files: ShadowFiles, file_bytes: int) -> None:
        self._files = files
        self._file_bytes = file_bytes

    def names(self) -> set[tuple[str, int]]:
        """Return topic and id of every queue."""
        return {
            (topic, queue_id)
            for directory in (self._files.directory, self._files.shadow)
            for topic, queue_id, _ in queue_directories(directory)
        }

    def queue(self, topic: str, queue_id: int) -> QueueFiles:
        """Return one queue; one that does not exist has no files."""
        directory = self._files.place(self._files.directory / topic / str(queue_id))
        return open_queue(topic, queue_id, directory, self._file_bytes)
