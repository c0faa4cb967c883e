"""Keeping brokers off a store while a tool reads or changes it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..._errors import StoreLocked
from ...disk._real_files import RealFiles, lock_holder
from ._errors import no_directory


@contextmanager
def exclusive_lock(root: Path) -> Iterator[None]:
    """Hold the store's lock. Raises ``NotAStore``, and ``StoreLocked`` where it is in use."""
    if not root.is_dir():
        raise no_directory(root)
    lock = RealFiles().lock(root / "lock", root)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def shared_lock(root: Path) -> Iterator[None]:
    """Hold a read lock on the store's lock file, where it has one: nothing is written.

    Any number of readers get it at a time; a broker, of Apache's too, does not start meanwhile.
    Raises ``NotAStore``, and ``StoreLocked`` where one is running.
    """
    if not root.is_dir():
        raise no_directory(root)
    path = root / "lock"
    try:
        status = path.stat()
    except FileNotFoundError:  # never opened by a broker, or a copy without it
        yield
        return
    # To close any descriptor of a file gives up this process's locks on it: look first.
    if (status.st_dev, status.st_ino) in RealFiles.locked:
        raise StoreLocked(root)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
        except OSError as error:
            raise StoreLocked(root, holder=lock_holder(descriptor)) from error
        yield
    finally:
        os.close(descriptor)
