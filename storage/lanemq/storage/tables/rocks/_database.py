"""A RocksDB database of configuration: rows by name, the version, and further members.

There are three of them, ``config/topics``, ``config/subscriptionGroups`` and
``config/consumerOffsets``, each with the same families. Readers never change a byte.
Source: RocketMQ 5.3.3, ConfigRocksDBStorage, ConfigHelper.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, final

from rocksdict import DBCompressionType, Options, WriteBatch, WriteOptions

from ...rocks._family import Family
from ...rocks._files import is_present
from ...rocks._opening import OpenDatabase, rocks_error
from ...rocks._options import table_options

ROWS: Final = "default"
VERSION: Final = "kvDataVersion"
FORBIDDEN: Final = "forbidden"
FAMILIES: Final = (ROWS, VERSION, FORBIDDEN)

VERSION_KEY: Final = b"kvDataVersionKey"
MARKER_KEY: Final = b"upgradeMarker"
"""Key of our own row beside the version, where 5.3.3 looks for no other key."""
MEMBERS_KEY: Final = b"otherMembers"
"""Key, as ``MARKER_KEY``, of the members of the JSON file that have no rows of their own."""

MEMTABLE_BYTES: Final = 8 << 20
KEPT_LOGS: Final = 5


class Change(NamedTuple):
    """One row of a batch."""

    family: str
    key: bytes
    value: bytes | None
    """The new value; None removes the row."""


def written_s(path: Path) -> float:
    """Return the Unix time of the last write of rows in seconds; 0 where there is no database."""
    if not is_present(path):
        return 0.0
    data = [*path.glob("*.log"), *path.glob("*.sst")]
    return max((file.stat().st_mtime for file in data), default=0.0)


@final
class ConfigDatabase:
    """One open database. Keys and values are bytes as they are."""

    def __init__(self, path: Path, *, read_only: bool = False, through_view: bool = False) -> None:
        """Open the database, which is made if missing, unless ``read_only``.

        To read ``through_view`` leaves no trace. Raises ``StoreLocked`` where another process has
        it open to write, ``StoreCorrupted`` where it cannot be read.
        """

        def families(present: Sequence[str]) -> dict[str, Options]:
            # One may be missing: a kill came while the database was made.
            wanted = present if read_only else (*FAMILIES, *present)
            return {name: _options() for name in wanted}

        self._opened = OpenDatabase(
            path, _options(), families, read_only=read_only, through_view=through_view
        )
        self.path = path
        rows = self._opened.rows
        opened: list[str] = [name for name in FAMILIES if name in self._opened.families]
        self._families = {name: Family(rows.get_column_family(name), path) for name in opened}
        self._handles = {name: rows.get_column_family_handle(name) for name in opened}

    def written_s(self) -> float:
        """Return the same as the function ``written_s``, for a database that is open to read."""
        return written_s(self._opened.path)

    def rows(self, family: str = ROWS) -> dict[bytes, bytes]:
        """Return all rows of a family, sorted by key. Raises ``StoreCorrupted`` for an unreadable
        one.

        The result is complete: an error is raised rather than a part returned.
        """
        if family not in self._families:
            return {}
        try:
            return self._families[family].all()
        except OSError as error:
            raise self._opened.corrupted("not all of its rows can be read", error) from error

    def get(self, family: str, key: bytes) -> bytes | None:
        """Return the value of a key. Raises ``StoreCorrupted`` where it cannot be read."""
        if family not in self._families:
            return None
        try:
            return self._families[family].get(key)
        except OSError as error:
            raise self._opened.corrupted("not all of its rows can be read", error) from error

    def write(self, changes: Iterable[Change], *, sync: bool) -> None:
        """Write all changes or none; durably if ``sync``, else safe from a kill of the process.

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
        self._opened.write(batch, options)

    def sync(self) -> None:
        """Wait, in a thread, until everything written is durable. Raises ``OSError``."""
        try:
            self._opened.rows.flush_wal(True)
        except Exception as error:  # the binding has no class of its own for what RocksDB says
            raise rocks_error(error, self.path) from error

    def close(self) -> None:
        """Close the database and release its lock."""
        self._handles.clear()
        for family in self._families.values():
            family.close()
        self._opened.close()


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
