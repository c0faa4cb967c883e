"""Looking into a RocksDB without leaving a trace in its directory.

The binding writes a file of its own wherever it opens a database, even to read. So a directory
of links is opened instead: no data is copied, and what is written goes away with the links.
"""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

DATABASE_FILES: Final = re.compile(
    r"CURRENT|IDENTITY|MANIFEST-\d+|OPTIONS-\d+(\.dbtmp)?|\d+\.(sst|log|blob)"
)


def has_database(directory: Path) -> bool:
    """Whether files of a RocksDB are there, complete or not."""
    try:
        with os.scandir(directory) as entries:
            return any(
                entry.name == "CURRENT" or entry.name.endswith(".sst") or "MANIFEST-" in entry.name
                for entry in entries
                if entry.is_file()
            )
    except (FileNotFoundError, NotADirectoryError):
        return False


@contextmanager
def linked_view(directory: Path) -> Iterator[Path]:
    """A directory, elsewhere, that shows the same database."""
    source = directory.resolve()
    with tempfile.TemporaryDirectory(prefix="lanemq-store-") as name:
        view = Path(name)
        for entry in os.scandir(source):
            if entry.is_file() and DATABASE_FILES.fullmatch(entry.name):
                (view / entry.name).symlink_to(source / entry.name)
        yield view


def database_bytes(directory: Path) -> tuple[int, int]:
    """Files of the database, and what they take on the disk."""
    count = disk_bytes = 0
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_file() and (
                    DATABASE_FILES.fullmatch(entry.name) or entry.name in ("LOCK", "LOG")
                ):
                    count += 1
                    disk_bytes += entry.stat().st_blocks * 512
    except (FileNotFoundError, NotADirectoryError):
        pass
    return count, disk_bytes
