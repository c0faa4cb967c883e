"""A view of a RocksDB that leaves no trace in its directory.

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
    """Return whether there are files of a RocksDB, complete or not."""
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
    """Make a directory, elsewhere, that shows the same database."""
    source = directory.resolve()
    with tempfile.TemporaryDirectory(prefix="lanemq-store-") as name:
        view = Path(name)
        for entry in os.scandir(source):
            if entry.is_file() and DATABASE_FILES.fullmatch(entry.name):
                (view / entry.name).symlink_to(source / entry.name)
        yield view
