"""A RocksDB database of configuration: rows by name, the version, what else is kept beside it.

There are three of them, ``config/topics``, ``config/subscriptionGroups`` and
``config/consumerOffsets``, each with the same families. Readers never change a byte.
Source: RocketMQ 5.3.3, ConfigRocksDBStorage, ConfigHelper.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, cast, final

from rocksdict import AccessType, DBCompressionType, Options, Rdict, WriteBatch, WriteOptions

from .._errors import StoreCorrupted, StoreLocked
from ._database import STRAY_FILE, is_present, rocks_error
from ._lock import LOCK_FILE, LockWatch
from ._options import table_options

ROWS: Final = "default"
VERSION: Final = "kvDataVersion"
FORBIDDEN: Final = "forbidden"
FAMILIES: Final = (ROWS, VERSION, FORBIDDEN)

VERSION_KEY: Final = b"kvDataVersionKey"
MARKER_KEY: Final = b"upgradeMarker"
"""Ours, beside the version, where 5.3.3 looks for no other key."""
MEMBERS_KEY: Final = b"otherMembers"
"""As ``MARKER_KEY``: the members of the JSON file that have no rows of their own."""

MEMTABLE_BYTES: Final = 8 << 20
KEPT_LOGS: Final = 5


class Change(NamedTuple):
    """One row of a batch."""

    family: str
    key: bytes
    value: bytes | None
    """None removes the row."""


def written_s(path: Path) -> float:
    """When rows were last written, as Unix time in seconds; 0 where there is no database."""
    if not is_present(path):
        return 0.0
    data = [*path.glob("*.log"), *path.glob("*.sst")]
    return max((file.stat().st_mtime for file in data), default=0.0)


@final
class ConfigDatabase:
    """One open database. Keys and values are bytes as they are."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Open the database; one that is not there is made, but not ``read_only``.

        Raises ``StoreLocked`` where another process has it open to write, ``StoreCorrupted``
        where it cannot be read.
        """
        self.path = path
        self._lock: LockWatch | None = None
        if not read_only:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = LockWatch(path)
        elif not is_present(path):
            raise StoreCorrupted(path, "there is no RocksDB database")
        access = AccessType.read_only() if read_only else AccessType.read_write()
        try:
            names = Rdict.list_cf(str(path), _options()) if is_present(path) else [ROWS]
            # A family that is there must be opened, whatever it is. One may be missing: a kill
            # came while the database was made.
            wanted = names if read_only else (*FAMILIES, *names)
            families = {name: _options() for name in wanted}
            self._database = Rdict(str(path), _options(), families, access)
        except Exception as error:  # the binding has no class of its own for what RocksDB says
            if "lock" in str(error).lower():
                raise StoreLocked(path, LOCK_FILE) from error
            raise StoreCorrupted(path, f"RocksDB cannot open it: {error}") from error
        finally:
            (path / STRAY_FILE).unlink(missing_ok=True)
        if self._lock is not None:
            self._lock.opened()
        opened: list[str] = [name for name in FAMILIES if name in families]
        self._families = {name: self._database.get_column_family(name) for name in opened}
        self._handles = {name: self._database.get_column_family_handle(name) for name in opened}

    def rows(self, family: str = ROWS) -> dict[bytes, bytes]:
        """All rows of a family, sorted by key."""
        if family not in self._families:
            return {}
        items = cast("Iterator[tuple[bytes, bytes]]", iter(self._families[family].items()))
        return dict(items)

    def get(self, family: str, key: bytes) -> bytes | None:
        if family not in self._families:
            return None
        return cast("bytes | None", self._families[family].get(key))

    def write(self, changes: Iterable[Change], *, sync: bool) -> None:
        """Write all of them or none; durably if ``sync``, else safe from a kill of the process.

        Raises ``OSError``.
        """
        batch = WriteBatch(raw_mode=True)
        for family, key, value in changes:
            if value is None:
                batch.delete(key, self._handles[family])
            else:
                batch.put(key, value, self._handles[family])
        options = WriteOptions()
        options.sync = sync
        try:
            self._database.write(batch, options)
        except Exception as error:  # as above
            raise rocks_error(error, self.path) from error

    def sync(self) -> None:
        """Return once all that was written is durable; for a thread. Raises ``OSError``."""
        try:
            self._database.flush_wal(True)
        except Exception as error:  # as above
            raise rocks_error(error, self.path) from error

    def close(self) -> None:
        """Give up the database and its lock."""
        self._handles.clear()
        for family in self._families.values():
            family.close()
        self._database.close()
        if self._lock is not None:
            self._lock.closed()
        (self.path / STRAY_FILE).unlink(missing_ok=True)


def _options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_write_buffer_size(MEMTABLE_BYTES)
    options.set_keep_log_file_num(KEPT_LOGS)
    options.set_compression_type(DBCompressionType.none())
    options.set_level_compaction_dynamic_level_bytes(False)
    options.set_block_based_table_factory(table_options())
    return options
