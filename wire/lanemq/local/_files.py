"""Files and directories of this user alone, which are made and never reached through links.

Other users can place links at names that are known before, in a directory that all may write to
or in one that is theirs. So new files are created, older ones are replaced by name, and a
directory that lanemq chooses by itself is checked before anything is written into it.
"""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

FILE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700
"""Modes of what is new: messages are for their user alone. Existing directories keep theirs."""
USER_DIRECTORY: Final = ".lanemq"
"""The directory in the user's home for what is written without a path being given."""
COPIED_BYTES: Final = 1 << 20

_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = _FLAGS | os.O_EXCL
_APPEND: Final = _FLAGS | os.O_APPEND | os.O_NONBLOCK
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class NotOwnDirectory(OSError):  # noqa: N818 - says what was found
    """A directory that lanemq chose by itself is a link, another user's, or no directory."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(errno.EPERM, f"{what}: remove it, or give another path", str(path))


def make_directories(path: Path) -> None:
    """Make a directory, and missing ones above it, for this user alone."""
    if not path.is_dir():
        make_directories(path.parent)
        path.mkdir(DIRECTORY_MODE, exist_ok=True)


def own_directory(path: Path) -> Path:
    """Return a directory that lanemq chose by itself; make it (0700) if it is missing.

    An existing one must be a directory of this user, and no link; other users lose their rights
    in it. Raises ``NotOwnDirectory`` and ``OSError``.
    """
    make_directories(path.parent)
    with suppress(FileExistsError):
        path.mkdir(DIRECTORY_MODE)
    try:
        descriptor = os.open(path, _DIRECTORY)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise NotOwnDirectory(path, "it is a link or no directory") from None
        raise
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid():
            raise NotOwnDirectory(path, f"it belongs to user {status.st_uid}")
        if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            os.fchmod(descriptor, DIRECTORY_MODE)
    finally:
        os.close(descriptor)
    return path


def user_path(*names: str) -> Path:
    """Return a path below lanemq's directory in the user's home."""
    return Path.home().joinpath(USER_DIRECTORY, *names)


def user_directory(*names: str) -> Path:
    """Return a directory below the user's home, such as ``~/.lanemq/export``, made and checked.

    Raises as ``own_directory``.
    """
    path = own_directory(user_path())
    for name in names:
        path = own_directory(path / name)
    return path


def create_file(path: Path, mode: int = FILE_MODE) -> BinaryIO:
    """Create a file to write to. Raises ``FileExistsError`` also for a link of that name."""
    return open(os.open(path, _NEW, mode), "wb")


def create_temporary(path: Path, mode: int = FILE_MODE) -> BinaryIO:
    """Create a file in place of an older one, such as a crash leaves. Raises ``OSError``."""
    path.unlink(missing_ok=True)
    return create_file(path, mode)


def append_file(path: Path) -> BinaryIO:
    """Open a file to append to; create it if it is missing. Raises ``OSError`` for a link, and for
    anything but a file."""
    descriptor = os.open(path, _APPEND, FILE_MODE)  # a pipe without reader fails
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no file", str(path))
    return open(descriptor, "ab")


def write_file(path: Path, data: bytes) -> None:
    """Write a whole file, in place of an older one or a link of that name. Raises ``OSError``.

    Unlike ``replace_file`` it does not wait for the disk.
    """
    fresh = path.with_name(f"{path.name}.tmp")
    try:
        with create_temporary(fresh) as file:
            file.write(data)
        fresh.replace(path)
    except OSError:
        with suppress(OSError):
            fresh.unlink()
        raise


def copy_file(source: Path, target: Path) -> None:
    """Copy a file with its mode and its holes, in place of an older one or a link of that name.

    Nobody who must not read the source can read the copy at any time. Raises ``OSError``.
    """
    with source.open("rb", buffering=0) as read, create_temporary(target) as written:
        status, to = os.fstat(read.fileno()), written.fileno()
        take_owner(to, status)
        os.ftruncate(to, status.st_size)
        at = 0
        while (at := _next_data(read.fileno(), at)) >= 0:
            end = os.lseek(read.fileno(), at, os.SEEK_HOLE)
            while at < end:
                data = os.pread(read.fileno(), min(COPIED_BYTES, end - at), at)
                if not data:  # cut off meanwhile
                    return
                at += os.pwrite(to, data, at)


def _next_data(descriptor: int, at: int) -> int:
    try:
        return os.lseek(descriptor, at, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:  # zeros to the end
            return -1
        raise


def take_owner(descriptor: int, status: os.stat_result) -> None:
    """Give a new file the owner and the mode of another one, as far as this user may."""
    with suppress(OSError):  # another user's: it is this one's from now on
        os.fchown(descriptor, status.st_uid, status.st_gid)
    with suppress(OSError):
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode))


def sync_path(path: Path) -> None:
    """Make a file, or the names in a directory, survive a loss of power. Raises ``OSError``."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
