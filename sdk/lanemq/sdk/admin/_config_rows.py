"""The configuration that a broker keeps in RocksDB, read from its directory.

Nothing in the directory changes, and the broker may be running. Needs ``rocksdict``, which comes
with ``lanemq[server]``. Source: RocketMQ 5.3.3, ConfigRocksDBStorage.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, cast

from lanemq.wire import RemoteProtocolError, fastjson

from .._errors import LanemqError

TABLES = {
    "topics": "topicConfigTable",
    "subscriptionGroups": "subscriptionGroupTable",
    "consumerOffsets": "offsetTable",
}
"""Directory -> the member of the JSON file that has the same."""

ROWS, VERSION, VERSION_KEY = "default", "kvDataVersion", b"kvDataVersionKey"


class ConfigRows(NamedTuple):
    """The table of one database."""

    values: dict[str, str]
    """Name -> the text of its value, sorted by the bytes of the names."""
    version: str | None
    """The text of the version."""

    def entries(self, table: str) -> dict[str, object]:
        """Return the values as JSON; the offsets of a group by queue id. Raises ``LanemqError``."""
        return {name: _entry(table, name, text) for name, text in self.values.items()}


def read_config_rows(directory: Path) -> ConfigRows:
    """Read the database in ``directory``. Raises ``LanemqError`` if it cannot be read."""
    try:
        from rocksdict import AccessType, Options, Rdict
    except ImportError:
        raise LanemqError("RocksDB databases need rocksdict: install lanemq[server]") from None
    if not (directory / "CURRENT").exists():
        raise LanemqError(f"RocksDB load error, path={directory}: there is no database")
    with tempfile.TemporaryDirectory(prefix="lanemq-config-") as view:
        # The binding leaves a file behind even where it only reads: let it do so elsewhere.
        for file in directory.resolve().iterdir():
            if file.is_file() and file.name != "LOCK":
                (Path(view) / file.name).symlink_to(file)
        try:
            options = Options(raw_mode=True)
            names = Rdict.list_cf(view, options)
            families = {name: Options(raw_mode=True) for name in names}
            database = Rdict(view, options, families, AccessType.read_only())
            try:
                rows = cast("Iterator[tuple[bytes, bytes]]", iter(database.items()))
                values = {key.decode(): value.decode() for key, value in rows}
                version = None
                if VERSION in names:
                    row = database.get_column_family(VERSION).get(VERSION_KEY)
                    version = cast("bytes", row).decode() if row is not None else None
            finally:
                database.close()
        except Exception as error:  # the binding has no class of its own for what RocksDB says
            raise LanemqError(f"RocksDB load error, path={directory}: {error}") from error
    return ConfigRows(values, version)


def _entry(table: str, name: str, text: str) -> object:
    try:
        value = fastjson.loads(text)
    except RemoteProtocolError as error:
        raise LanemqError(f"{table}, {name}: {error}") from error
    if table != "consumerOffsets":
        return value
    offsets = value.get("offsetTable") if isinstance(value, dict) else None
    if not isinstance(offsets, dict):
        raise LanemqError(f"{table}, {name}: there are no offsets in {text!r}")
    return {int(queue_id): int(offset) for queue_id, offset in offsets.items()}
