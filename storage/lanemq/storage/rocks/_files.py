"""The files of a RocksDB: finding, viewing, and moving them aside."""

import os
import re
import shutil
from pathlib import Path
from typing import Final

from lanemq.local import DIRECTORY_MODE, copy_file

STRAY_FILE: Final = "rocksdict-config.json"  # the binding leaves it behind, even where it reads
LOST_DIRECTORY: Final = "lost"  # RocksDB's repair moves there what it cannot read
DATA_FILE: Final = re.compile(r"CURRENT|IDENTITY|MANIFEST-\d+|OPTIONS-\d+|\d+\.(sst|log)")
ANY_FILE: Final = re.compile(
    rf"{DATA_FILE.pattern}|LOCK|LOG|LOG\.old\.\d+|OPTIONS-\d+\.dbtmp|\d+\.dbtmp|"
    rf"{re.escape(STRAY_FILE)}"
)


def is_present(directory: Path) -> bool:
    """Return whether there is a database. One whose creation was interrupted does not count."""
    return (directory / "CURRENT").exists()


def move_aside(directory: Path, now_ms: int) -> Path | None:
    """Move the files of a database that cannot be opened aside; returns their directory, None
    without any.

    Nothing is touched that has not a name RocksDB gives. Raises ``OSError``.
    """
    names = [
        name
        for name in sorted(os.listdir(directory))
        if ANY_FILE.fullmatch(name) and (directory / name).is_file()
    ]
    if not names:
        return None
    target = directory.with_name(f"{directory.name}.bad-{now_ms}")
    target.mkdir(DIRECTORY_MODE)
    # Without CURRENT nobody takes the rest for a database, should this be interrupted.
    for name in sorted(names, key=lambda name: name != "CURRENT"):
        (directory / name).rename(target / name)
    return target


def keep_files(directory: Path, now_ms: int) -> Path:
    """Keep the files of an open database beside it, as they are now: tables as hard links, which
    take no room as long as the database has them, too. Returns their directory. Raises ``OSError``.
    """
    target = directory.with_name(f"{directory.name}.bad-{now_ms}")
    target.mkdir(DIRECTORY_MODE, exist_ok=True)
    # Tables first: what CURRENT leads to must be there when it is.
    names = [name for name in os.listdir(directory) if DATA_FILE.fullmatch(name)]
    for name in sorted(names, key=lambda name: (name == "CURRENT", not name.endswith(".sst"))):
        try:
            if name.endswith(".sst"):
                os.link(directory / name, target / name)
            else:
                copy_file(directory / name, target / name)
        except (FileExistsError, FileNotFoundError):  # kept already; removed by RocksDB just now
            continue
    return target


def remove_files(directory: Path) -> None:
    """Remove the files of a database, those that a repair by RocksDB puts aside included. Raises
    ``OSError``."""
    for name in os.listdir(directory):
        if ANY_FILE.fullmatch(name):
            (directory / name).unlink()
    shutil.rmtree(directory / LOST_DIRECTORY, ignore_errors=True)


def link_database(directory: Path, view: Path) -> None:
    """Make a view of the files of a database, in which reading it leaves its traces."""
    source = directory.resolve()
    for entry in os.scandir(source):
        if entry.is_file() and DATA_FILE.fullmatch(entry.name):
            (view / entry.name).symlink_to(source / entry.name)
