"""Opening and closing of a RocksDB: its lock or view, its families, and its errors."""

import errno
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, final

from rocksdict import AccessType, Options, Rdict, WriteBatch, WriteOptions

from lanemq.local import make_directories

from .._errors import RocksFault, StoreCorrupted, StoreLocked
from ._files import STRAY_FILE, is_present, link_database
from ._lock import LOCK_FILE, LockWatch

VIEW_PREFIX: Final = "lanemq-rocksdb-"
LOCKED: Final = re.compile(r"lock hold by|lock file|No locks available")
"""RocksDB's words for a database that is open elsewhere. (A damaged *block* has a lock in it, too.)
"""
VIEW: Final = re.compile(r"[^\s:]*/lanemq-rocksdb-[^/\s]+/")


def rocks_error(error: Exception, path: Path) -> RocksFault:
    """Turn an error of the binding into one that says which database it is about."""
    is_full = "No space left" in str(error)
    said = VIEW.sub("", str(error)).replace(f"{path}/", "")
    return RocksFault(errno.ENOSPC if is_full else errno.EIO, f"RocksDB: {said}", str(path))


def rocks_text(error: Exception, opened: Path, shown: Path) -> str:
    """Return RocksDB's text, with the directory's name in place of its temporary view's."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text.replace(str(opened), str(shown)).removeprefix("RocksDB: ")


def without_wal() -> WriteOptions:
    """Return the options of writes that RocksDB keeps in memory until it is told to flush."""
    options = WriteOptions()
    setattr(options, "disable_wal", True)  # noqa: B010 - typed as a method
    return options


@final
class OpenDatabase:
    """One open RocksDB and what is held for it: the lock to write it, or a view to read it.

    ``directory`` is its name in messages; ``path`` is where RocksDB has it open; ``families`` are
    the names of those that are open.
    """

    def __init__(
        self,
        directory: Path,
        options: Options,
        families: Callable[[Sequence[str]], Mapping[str, Options]],
        *,
        read_only: bool,
        through_view: bool = True,
    ) -> None:
        """Open the database, which is made if missing, unless ``read_only``.

        ``families`` tells the families to open from the names of those that are there: one that
        is there must be opened, whatever it is. To read ``through_view`` leaves no trace in
        ``directory``, and another process may have it open.

        Raises ``StoreLocked`` where another has it open to write, before anything is touched;
        ``StoreCorrupted`` where it cannot be opened.
        """
        self.directory = directory
        self.path = directory
        self._view: tempfile.TemporaryDirectory[str] | None = None
        self._lock: LockWatch | None = None
        if not read_only:
            make_directories(directory)
            self._lock = LockWatch(directory)
        elif not is_present(directory):
            raise StoreCorrupted(directory, "there is no RocksDB database")
        elif through_view:
            self._view = tempfile.TemporaryDirectory(prefix=VIEW_PREFIX)
            self.path = Path(self._view.name)
            link_database(directory, self.path)
        access = AccessType.read_only() if read_only else AccessType.read_write()
        name = str(self.path)
        try:
            present = Rdict.list_cf(name, options) if is_present(self.path) else []
            opened = dict(families(present))
            self.rows = Rdict(name, options, opened, access)
        except Exception as error:  # the binding has no class of its own for what RocksDB says
            self._release()
            if LOCKED.search(str(error)):
                raise StoreLocked(self.directory, LOCK_FILE) from error
            raise self.corrupted("RocksDB cannot open it", error) from error
        finally:
            self._drop_stray()
        self.families = tuple(opened)
        if self._lock is not None:
            self._lock.opened()

    @property
    def is_view(self) -> bool:
        """True if it is read through a view that was made here."""
        return self._view is not None

    def corrupted(self, what: str, error: Exception) -> StoreCorrupted:
        """Return an error that reports what RocksDB said of the database."""
        said = rocks_text(error, self.path, self.directory)
        return StoreCorrupted(self.directory, f"{what}: {said}")

    def write(self, batch: WriteBatch, options: WriteOptions) -> None:
        """Write a whole batch or nothing. Raises ``OSError``, also for an earlier flush."""
        try:
            self.rows.write(batch, options)
        except Exception as error:  # as above
            raise rocks_error(error, self.directory) from error
        finally:
            del batch  # which holds the database open for as long as an error keeps this frame

    def close(self) -> None:
        """Close the database, whose other families are closed, and release what is held for it.

        Raises ``OSError``; then what was held is released all the same.
        """
        rows = self.rows
        del self.rows  # one that cannot be closed in order holds its lock for as long as it is held
        try:
            rows.close()
        except Exception as error:  # as above
            raise rocks_error(error, self.directory) from None
        finally:
            del rows
            self._release()
            self._drop_stray()

    def _release(self) -> None:
        if self._view is not None:
            self._view.cleanup()
        if self._lock is not None:
            self._lock.closed()

    def _drop_stray(self) -> None:
        (self.path / STRAY_FILE).unlink(missing_ok=True)
