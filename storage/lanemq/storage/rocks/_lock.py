"""Detection of another process that writes a database, before anything in it is touched.

RocksDB itself looks only after it has begun to write its log of events.
"""

import fcntl
import os
from pathlib import Path
from typing import ClassVar, Final, final

from .._errors import StoreLocked

LOCK_FILE: Final = "LOCK"


@final
class LockWatch:
    """The databases that this process has open to write.

    POSIX record locks do not keep a process from itself, and are lost with any descriptor of
    the file: so what is open here must not be asked about.
    """

    _open: ClassVar[set[tuple[int, int]]] = set()

    def __init__(self, directory: Path) -> None:
        """Check the database in ``directory``. Raises ``StoreLocked`` if it is open to write."""
        self._path = directory / LOCK_FILE
        self._key: tuple[int, int] | None = None
        key = self._identity()
        if key is None:
            return
        if key in self._open:
            raise StoreLocked(directory, LOCK_FILE)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StoreLocked(directory, LOCK_FILE) from error
        finally:
            os.close(descriptor)

    def opened(self) -> None:
        """Note that the database is open."""
        self._key = self._identity()
        if self._key is not None:
            self._open.add(self._key)

    def closed(self) -> None:
        """Note that the database is closed, or was never opened."""
        if self._key is not None:
            self._open.discard(self._key)
            self._key = None

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino
