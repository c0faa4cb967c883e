"""The files of a RocksDB, for tools that do without its library."""

import os
import re
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
