"""Replacing files so that a kill at any moment leaves the store no worse.

Every file is replaced by one rename, and has a second name in a backup before. A repair that
was killed is simply run again: what is still wrong is made again.
"""

from contextlib import suppress
from pathlib import Path

from lanemq.local import copy_file, make_directories, sync_path


def keep(path: Path, backup: Path) -> None:
    """Give a file a second name in ``backup``, or a copy there where the disk has no such names."""
    make_directories(backup)
    target = backup / path.name
    with suppress(FileNotFoundError):
        target.unlink()
    try:
        target.hardlink_to(path)
    except OSError:
        copy = target.with_name(f"{target.name}.tmp")
        copy_file(path, copy)
        copy.replace(target)


def replace_files(directory: Path, new: list[Path], old: list[Path], backup: Path) -> None:
    """Replace the files ``old`` in ``directory`` by ``new``; the old ones are kept in ``backup``.

    Raises ``OSError``.
    """
    for path in old:
        keep(path, backup)
    if old:
        sync_path(backup)
    make_directories(directory)
    names = {path.name for path in new}
    for path in new:
        path.replace(directory / path.name)
    sync_path(directory)
    for path in old:
        if path.name not in names:
            path.unlink()
    sync_path(directory)
    with suppress(FileNotFoundError):
        sync_path(directory.parent)
