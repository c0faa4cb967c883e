"""The files of an archive on any file system, for reading and writing."""

import os
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, final

from lanemq.local import create_file

from .._errors import SourceError
from .._uris import shown
from ..store import Entry, StoreFiles, open_file_system

TEMPORARY: Final = ".tmp"
SHARED_MODE: Final = 0o666
"""Mode of a file for everybody whom the umask of the user lets in, as of the rows beside it."""


@final
class ArchiveFiles:
    """The files below a directory, which an absolute path or a URI names."""

    def __init__(self, root: str) -> None:
        """Find the file system. Raises ``SourceError`` where none knows the URI."""
        self._reader = StoreFiles(root)
        self._system, path = open_file_system(root)
        self._path = path.rstrip("/") or "/"

    def entries(self, directory: str = "") -> list[Entry]:
        """List a directory by name; nothing where it is missing."""
        return self._reader.entries(directory)

    def is_directory(self, directory: str = "") -> bool:
        return self._reader.is_directory(directory)

    def read(self, path: str) -> bytes:
        """Return a whole small file. Raises ``OSError``."""
        with self._system.open_input_stream(f"{self._path}/{path}") as stream:
            return bytes(stream.read())

    def open_output(self, path: str) -> Any:  # noqa: ANN401 - pyarrow publishes no types
        """Begin a file, and the directories above it. Raises ``OSError``."""
        self._make_directory(path)
        return self._system.open_output_stream(f"{self._path}/{path}")

    def create(self, path: str, data: bytes) -> None:
        """Write a whole file, which must not exist yet; others see all of it or nothing.

        Raises ``FileExistsError``. Where the file system has no such operation, as object stores
        have not, of two that create the same file at the same moment the later one wins.
        """
        self._make_directory(path)
        place = f"{self._path}/{path}"
        if self._reader.is_local:
            _create_local(Path(place), data)
            return
        from pyarrow import fs

        if self._system.get_file_info(place).type != fs.FileType.NotFound:
            raise FileExistsError(place)
        with self._system.open_output_stream(place) as stream:
            stream.write(data)

    def remove(self, path: str) -> None:
        """Remove a file; nothing happens where it is missing."""
        try:
            self._system.delete_file(f"{self._path}/{path}")
        except FileNotFoundError:
            return

    def remove_run(self, run: str, counted: Iterable[str]) -> None:
        """Remove the files that tasks of a run have written, but for those that count.

        Tasks that failed have left theirs beside these, where another attempt has written the same
        rows.
        """
        kept = {path for path in counted if path.rpartition("/")[2].startswith(f"{run}-")}
        directories = {path.rpartition("/")[0] for path in kept}
        for directory in directories or self._days():
            for entry in self.entries(directory):
                path = f"{directory}/{entry.name}"
                if entry.name.startswith(f"{run}-") and path not in kept:
                    self.remove(path)

    def _days(self) -> Iterator[str]:
        for topic in self.entries():
            if topic.is_directory and topic.name.startswith("topic="):
                yield from (f"{topic.name}/{day.name}" for day in self.entries(topic.name))

    def _make_directory(self, path: str) -> None:
        self._system.create_dir(f"{self._path}/{path}".rpartition("/")[0], recursive=True)


def require_vacant(target: str, files: ArchiveFiles, begun: str) -> None:
    """Raise ``SourceError`` where others have files: beside an archive that is begun there, those
    of an export would count no more, and a store would be no one's.

    Names that readers of Parquet pass over are let be, and that of a new file system. ``begun`` is
    what another run makes first, in this moment perhaps.
    """
    names = [entry.name for entry in files.entries()]
    for name in names:
        if not name.startswith((".", "_")) and name != "lost+found" and begun not in names:
            raise SourceError(
                f"{shown(target)} is no archive, and has other files, as {name}: name a new"
                " directory, or an empty one"
            )


def _create_local(path: Path, data: bytes) -> None:
    temporary = path.with_name(f"{uuid.uuid4().hex}{TEMPORARY}")
    try:
        with create_file(temporary, SHARED_MODE) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
