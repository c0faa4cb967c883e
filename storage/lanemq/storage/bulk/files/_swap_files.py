"""Replacing the queue files of a store by those of a conversion.

All of them are whole and durable before the first is moved, and a note says so. Meanwhile the
store looks like after a crash (``CrashMarker``). A tool that finds note and mark goes
on; without the mark a broker was there since, and what was built is of no use any more.
"""

import os
import shutil
from pathlib import Path
from typing import Final

import msgspec

from lanemq.local import DIRECTORY_MODE, copy_file, make_directories, replace_file, sync_path

from ...disk._backups import CONVERT_TEMPORARY as TEMPORARY
from ...disk._real_files import RealFiles
from ...queues._queues import digest_of_files
from ...tools.rebuild._swap import keep
from ..checks._store_access import KnownWatermarks
from ._marker import CrashMarker

NOTE: Final = "READY"
LINKED: Final = "new.tmp"


class _Ready(msgspec.Struct, rename="camel"):
    backup: str
    """Name of the store's directory that keeps what is replaced."""
    log_end: int
    file_bytes: int = 0
    """Size of the store's queue files; 0 where that was not noted."""


def queue_shadow(root: Path) -> Path:
    """Return the directory in which the files of changed queues are built."""
    return root / TEMPORARY / "consumequeue"


def begin_temporary(root: Path) -> Path:
    """Finish an interrupted swap; return an empty directory to build in."""
    temporary = root / TEMPORARY
    marker = CrashMarker(root)
    if (temporary / NOTE).exists() and marker.is_ours:
        _swap(root, marker)
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(DIRECTORY_MODE)
    return temporary


def swap_files(root: Path, *, backup: Path, log_end: int, file_bytes: int) -> None:
    """Put the files of the shadow in place; what they replace is moved to ``backup``.

    ``file_bytes`` is the size of the store's queue files. Raises ``OSError``.
    """
    note = root / TEMPORARY / NOTE
    os.sync()
    replace_file(note, msgspec.json.encode(_Ready(backup.name, log_end, file_bytes)))
    _swap(root, CrashMarker(root))


def _swap(root: Path, marker: CrashMarker) -> None:
    ready = msgspec.json.decode((root / TEMPORARY / NOTE).read_bytes(), type=_Ready)
    known = KnownWatermarks(root)
    marker.begin()
    known.set_files(0, "")
    shadow = queue_shadow(root)
    for directory in sorted(shadow.glob("*/*")):
        place = directory.relative_to(shadow)
        _swap_queue(
            directory,
            root / "consumequeue" / place,
            root / ready.backup / "consumequeue" / place,
        )
    os.sync()
    known.set_files(ready.log_end, _digest(root, ready.file_bytes))
    marker.end()


def _digest(root: Path, file_bytes: int) -> str:
    """Return the digest by which the next start finds files that are lost meanwhile."""
    if not file_bytes:
        return ""
    return digest_of_files(RealFiles(), root / "consumequeue", file_bytes=file_bytes)


def _swap_queue(new: Path, directory: Path, backup: Path) -> None:
    """Swap one queue. It may be repeated: new files keep their names in the shadow until all is
    done."""
    make_directories(directory)
    linked = new / LINKED
    names = {path.name for path in new.iterdir()} - {LINKED}
    for name in sorted(names | {path.name for path in directory.iterdir()}):
        old = directory / name
        if old.exists():
            if name in names and old.samefile(new / name):
                continue
            if not (backup / name).exists():
                keep(old, backup)
        if name not in names:
            old.unlink()
            continue
        linked.unlink(missing_ok=True)
        try:
            linked.hardlink_to(new / name)
        except OSError:  # some file systems have no second names
            copy_file(new / name, linked)
        if backup.exists():
            sync_path(backup)
        linked.replace(old)
    sync_path(directory)
