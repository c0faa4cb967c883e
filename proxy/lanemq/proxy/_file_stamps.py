"""Stamps of files, by which a task that watches them sees that one has changed."""

from collections.abc import Iterable
from pathlib import Path

Stamp = tuple[tuple[str, tuple[int, ...] | None], ...]


def stamp_of(paths: Iterable[Path]) -> Stamp:
    """Return a value that changes with any of the files, also where one appears or goes."""
    return tuple((str(path), _identity(path)) for path in paths)


def _identity(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
