"""Replacement of small files: after a crash a file has its old content or its new one, whole."""

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from ._files import create_temporary, make_directories, sync_path, take_owner

_NO_SYNC_OF_NAMES: Final = frozenset({errno.EINVAL, errno.ENOTSUP})
"""Errors of file systems that cannot sync a directory."""


def replace_file(
    path: Path, data: bytes, *, is_secret: bool = False, follows_links: bool = False
) -> None:
    """Replace a file whole, or make it; content and name are on the disk on return.

    A new file is for its user alone. One that was there keeps its mode and its owner, unless it
    ``is_secret``. A link is replaced by a file, unless ``follows_links``: then the file that it
    leads to is replaced.

    Raises ``OSError``; then the file is as it was, unless the disk failed at the last step, the
    sync of its name.
    """
    if follows_links:
        path = path.resolve()
    made = [parent for parent in path.parents if not parent.exists()]
    make_directories(path.parent)
    fresh = path.with_name(f"{path.name}.tmp")
    try:
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _write(fresh, data, like=None if is_secret else path)
            fresh.replace(path)
            _sync_names(directory)
        finally:
            os.close(directory)
    except OSError as error:
        with suppress(OSError):
            fresh.unlink()
        if error.filename is None:  # of what is done to a descriptor
            error.filename = str(path)
        raise
    for parent in made:
        sync_path(parent.parent)


def _write(fresh: Path, data: bytes, *, like: Path | None) -> None:
    with create_temporary(fresh) as file:
        if like is not None:
            with suppress(FileNotFoundError):
                take_owner(file.fileno(), like.stat())
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_names(directory: int) -> None:
    try:
        os.fsync(directory)
    except OSError as error:
        if error.errno not in _NO_SYNC_OF_NAMES:
            raise
