"""The files of a store on any file system, for reading only.

On a local disk a file is mapped, and its holes are passed over; elsewhere ranges are fetched
through ``pyarrow.fs``, in the process that needs them.
"""

import errno
import fnmatch
import mmap
import os
import re
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, final
from urllib.parse import unquote

from pyarrow import fs

from .._errors import SourceError
from .._uris import CLUSTER, SCHEME, below, shown

Buffer = bytes | memoryview
LOCAL: Final = "file:"
PATTERN_CHARACTERS: Final = frozenset("*?[{")


class Entry(NamedTuple):
    """A file or directory: its name, and the size in bytes of a file."""

    name: str
    is_directory: bool
    size_bytes: int


class OpenFile(Protocol):
    """A file that is read from several places."""

    def read(self, at: int, size_bytes: int) -> Buffer:
        """Return bytes from ``at`` on; fewer where the file ends."""
        ...

    def next_data(self, at: int) -> int:
        """Return the first place from ``at`` on that is not a hole; -1 where all are."""
        ...

    def close(self) -> None: ...


@final
class MappedFile:
    """A file of a local disk."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        size = os.fstat(self._descriptor).st_size
        self._data = (
            memoryview(mmap.mmap(self._descriptor, size, access=mmap.ACCESS_READ))
            if size
            else memoryview(b"")
        )

    def read(self, at: int, size_bytes: int) -> Buffer:
        return self._data[at : at + size_bytes]

    def next_data(self, at: int) -> int:
        try:
            return os.lseek(self._descriptor, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return -1
            raise

    def close(self) -> None:
        # The mapping goes with the last array over it.
        os.close(self._descriptor)


@final
class FetchedFile:
    """A file that is read through its file system."""

    def __init__(self, file: Any) -> None:  # noqa: ANN401 - pyarrow publishes no types
        self._file = file
        self._size = file.size()

    def read(self, at: int, size_bytes: int) -> Buffer:
        count = min(size_bytes, self._size - at)
        found: bytes = self._file.read_at(count, at) if count > 0 else b""
        return found

    def next_data(self, at: int) -> int:
        return at if at < self._size else -1

    def close(self) -> None:
        self._file.close()


@final
class StoreFiles:
    """The files below a directory, which an absolute path or a URI names."""

    def __init__(self, root: str) -> None:
        """Find the file system. Raises ``SourceError`` where none knows the URI."""
        self.root = root
        self._system, path = _file_system(root)
        self._path = path.rstrip("/") or "/"
        self.is_local = isinstance(self._system, fs.LocalFileSystem)

    @property
    def local_root(self) -> Path:
        """The directory on a local disk."""
        return Path(self._path)

    def entries(self, directory: str = "") -> list[Entry]:
        """List a directory by name; nothing where it is missing or a file."""
        found = self._system.get_file_info(
            fs.FileSelector(self._join(directory), allow_not_found=True)
        )
        return sorted(
            Entry(one.base_name, one.type == fs.FileType.Directory, one.size or 0) for one in found
        )

    def is_directory(self, directory: str = "") -> bool:
        kind = self._system.get_file_info(self._join(directory)).type
        return bool(kind == fs.FileType.Directory)

    def open(self, path: str) -> OpenFile:
        """Open a file. Raises ``OSError``."""
        if self.is_local:
            return MappedFile(self._join(path))
        return FetchedFile(self._system.open_input_file(self._join(path)))

    def fetch(self, path: str, target: Path) -> None:
        """Copy a file to the local disk."""
        fs.copy_files(
            self._join(path),
            str(target),
            source_filesystem=self._system,
            destination_filesystem=fs.LocalFileSystem(),
        )

    def shown(self, path: str) -> str:
        """Return the name of a file for people."""
        return below(shown(self.root), path)

    def _join(self, path: str) -> str:
        return f"{self._path}/{path}" if path else self._path


def write_file(path: str, data: bytes) -> None:
    """Write a file, which an absolute path or a URI names. Raises ``SourceError``."""
    system, place = _file_system(path)
    try:
        with system.open_output_stream(place) as stream:
            stream.write(data)
    except OSError as error:
        raise SourceError(f"{shown(path)} cannot be written: {error}") from error


def open_file_system(root: str) -> tuple[Any, str]:
    """Return the file system of a path or URI, and the path there. Raises ``SourceError``."""
    return _file_system(root)


def _file_system(root: str) -> tuple[Any, str]:
    if root.startswith(LOCAL) or SCHEME not in root:
        return fs.LocalFileSystem(), os.path.abspath(_local_path(root))
    if root.startswith(CLUSTER):
        raise SourceError(
            f"{shown(root)} is a cluster, and here goes a directory: of a store, or of an archive,"
            " which the job archive makes of topics"
        )
    try:
        system, path = fs.FileSystem.from_uri(root)
    except (ValueError, OSError, NotImplementedError) as error:
        return _other_file_system(root, error)
    return system, str(path)


def _local_path(root: str) -> str:
    """Return a path without ``file:``, ``file://`` or ``file://localhost``.

    Spark hands paths over as they were given, blanks and all; a URI proper has ``%20`` for them.
    """
    if not root.startswith(LOCAL):
        return root
    path = root.removeprefix(LOCAL)
    if path.startswith("//"):
        path = path[2:].removeprefix("localhost")
    return path if os.path.exists(path) else unquote(path)


def matching(root: str) -> list[str]:
    """Return the directories that a pattern matches, as paths or URIs of the same form.

    Patterns are those of Spark's other sources: ``*``, ``[...]``, ``{a,b}``, and in a path that
    is no URI ``?``. A path without them, or one that is there as it is written, is returned.
    Raises ``SourceError`` if a pattern matches no directory.
    """
    place, mark, options = root.partition("?") if SCHEME in root else (root, "", "")
    if not set(place) & PATTERN_CHARACTERS or StoreFiles(root).is_directory():
        return [root]
    steps = place.split("/")
    first = next(number for number, step in enumerate(steps) if set(step) & PATTERN_CHARACTERS)
    found = ["/".join(steps[:first])]
    for step in steps[first:]:
        pattern = _expression(step)
        found = [
            f"{above}/{entry.name}"
            for above in found
            for entry in StoreFiles(f"{above or '/'}{mark}{options}").entries()
            if entry.is_directory and pattern.fullmatch(entry.name)
        ]
    if not found:
        raise SourceError(f"{shown(root)}: no directory matches this pattern")
    return [f"{one}{mark}{options}" for one in found]


def _expression(step: str) -> re.Pattern[str]:
    """Return the regular expression of one name of a pattern, with ``{a,b}`` as either."""
    parts = re.split(r"\{([^{}]*)\}", step)
    whole = ""
    for number, part in enumerate(parts):
        choices = part.split(",") if number % 2 else [part]
        # The two last characters of a translation are the end of the text.
        whole += "(?:" + "|".join(fnmatch.translate(one)[:-2] for one in choices) + ")"
    return re.compile(whole)


def _other_file_system(root: str, error: Exception) -> tuple[Any, str]:
    """Ask fsspec, where it is installed, for what pyarrow does not know."""
    try:
        import fsspec  # type: ignore[import-not-found, import-untyped, unused-ignore] # may be missing
    except ModuleNotFoundError:
        raise SourceError(
            f"{shown(root)}: {error}. Known without more are local paths, file:, hdfs:, s3:, gs:"
            " and abfs:; with the package fsspec whatever it knows"
        ) from None
    try:
        system, path = fsspec.url_to_fs(root)
    except (ImportError, ValueError) as unknown:  # no such protocol, or its package is missing
        raise SourceError(f"{shown(root)}: {unknown}") from None
    return fs.PyFileSystem(fs.FSSpecHandler(system)), str(path)
