"""The swap of a RocksDB that was changed beside a store, by one rename.

Its tables are second names of the store's, for nobody changes a table that is there. What comes
new has names of its own, for the copy goes on counting where the original was. So everything is
moved beside the original first, and the rename of CURRENT takes the one for the other: a kill
leaves the store with its old database, or with its new one.
"""

from pathlib import Path

from lanemq.local import DIRECTORY_MODE, copy_file, sync_path

from ..._clock import system_clock_ms
from ...rocks import is_present
from ...rocks._files import DATA_FILE
from ...tools.rebuild._build_rows import finish_swap, mark_ready, swap_database
from ...tools.rebuild._swap import keep

CURRENT = "CURRENT"


def copy_database(directory: Path, copy: Path) -> None:
    """Copy a database, so that it may be opened and changed. Raises ``OSError``."""
    copy.mkdir(DIRECTORY_MODE)
    for path in _files(directory):
        if path.suffix == ".sst":
            keep(path, copy)
        else:
            copy_file(path, copy / path.name)


def _files(directory: Path) -> list[Path]:
    return sorted(
        path for path in directory.iterdir() if DATA_FILE.fullmatch(path.name) and path.is_file()
    )


def swap_rows(new: Path, directory: Path, backup: Path, *, is_copy: bool) -> None:
    """Put the closed database ``new`` in ``directory``; the old one is moved to ``backup``.

    ``is_copy``: whether it comes from ``copy_database``. Where it does not, the old one could not
    be opened, and goes away first. Raises ``OSError``.
    """
    backup /= "rocksdb"
    if not is_copy or not is_present(directory):
        mark_ready(new)
        aside = swap_database(new, directory, system_clock_ms())
        if aside is not None:
            aside.rename(backup)
        return
    names = {path.name for path in _files(new)}
    for path in _files(directory):
        keep(path, backup)
    for path in (*_files(new), new, backup, backup.parent):
        sync_path(path)
    for name in sorted(names - {CURRENT}):
        target = directory / name
        if not (target.exists() and target.samefile(new / name)):
            (new / name).replace(target)
    sync_path(directory)
    (new / CURRENT).replace(directory / CURRENT)
    sync_path(directory)
    for path in _files(directory):
        if path.name not in names:
            path.unlink()


def finish_rows(new: Path, directory: Path) -> None:
    """Finish a swap that was killed between its two renames."""
    if not is_present(directory):
        finish_swap(new, directory, system_clock_ms())
