"""Replacement of small files: after a crash a file has its old content or its new one, whole."""

import os
import stat
from contextlib import suppress
from pathlib import Path

from ._real_files import FILE_MODE, make_directories, sync_path


def replace_file(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Replace a file whole, or make it; the content is on the disk on return.

    The file gets ``mode``. Without one it keeps its mode and its owner, and a new file is for its
    user alone. Raises ``OSError``; then the file is as it was.
    """
    path = path.resolve()
    make_directories(path.parent)
    fresh = path.with_name(f"{path.name}.tmp")
    try:
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE), "wb") as file:
            _take_mode(file.fileno(), path, mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError:
        with suppress(OSError):
            fresh.unlink()
        raise
    sync_path(path.parent)


def _take_mode(descriptor: int, path: Path, mode: int | None) -> None:
    kept = FILE_MODE if mode is None else mode
    os.fchmod(descriptor, kept & FILE_MODE)  # the file may have been left behind by a crash
    with suppress(FileNotFoundError):
        status = path.stat()
        with suppress(PermissionError):  # of another user: this one's from now on
            os.fchown(descriptor, status.st_uid, status.st_gid)
        if mode is None:
            kept = stat.S_IMODE(status.st_mode)
    os.fchmod(descriptor, kept)
