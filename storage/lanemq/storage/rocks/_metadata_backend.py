"""A table kept in RocksDB.

Topics and groups are durable before their change is answered; offsets are written by the store's
task, the changed ones of a table in one batch.
Source: RocketMQ 5.3.3, RocksDBConfigManager and the managers over it.
"""

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import final

import trio

from .._document import Document
from .._files import Files
from .._table import Contents, Source, write_document
from ._config_database import (
    MARKER_KEY,
    MEMBERS_KEY,
    ROWS,
    VERSION,
    VERSION_KEY,
    Change,
    ConfigDatabase,
)
from ._metadata_rows import Kind, version_row
from ._metadata_rule import Marker, contents_sha256
from ._metadata_sides import (
    pack_others,
    parse_entries,
    read_marker,
    read_others,
    read_version,
    split_others,
    stored_rows,
)
from ._metadata_start import open_converted
from ._values import dump_plain


@final
class RocksBackend:
    """One of the three tables; its JSON file is read at the start, and written by ``export``."""

    steps_version = False

    def __init__(
        self,
        kind: Kind,
        directory: Path,
        files: Files,
        *,
        transfer: bool,
        at_once: bool,
        now_ms: Callable[[], int],
    ) -> None:
        """``directory`` is ``config``; for ``transfer`` see ``open_converted``."""
        self.at_once = at_once
        self._kind = kind
        self._directory = directory
        self._files = files
        self._transfer = transfer
        self._now_ms = now_ms
        self._document = Document(files, directory / kind.file)
        self._database: ConfigDatabase | None = None
        self._unsynced = False
        self._is_exported = False

    @property
    def path(self) -> Path:
        return self._directory / self._kind.name

    @property
    def _open(self) -> ConfigDatabase:
        assert self._database is not None, "a table is loaded before it is used"
        return self._database

    def load(self, *, after_crash: bool) -> Contents:
        """Open the database and read it. Raises as ``open_converted``."""
        self._database = database = open_converted(
            self._kind,
            self._directory,
            self._files,
            transfer=self._transfer,
            now_ms=self._now_ms,
        )
        rows, others = stored_rows(database), read_others(self._kind, database)
        marker, version = read_marker(database), read_version(database)
        # After a merge RocksDB is one ahead: only an export makes the versions equal, so that
        # for 5.3.3, too, one change in the JSON file makes that the newer one.
        self._is_exported = (
            marker is not None
            and marker.json_counter == (version.counter if version is not None else 0)
            and marker.json_sha256 == self._document.sha256()
            and marker.rocks_sha256 == contents_sha256(rows, pack_others(others))
        )
        entries = parse_entries(self._kind, rows, self.path)
        return Contents(entries, version, others)

    def write(self, source: Source, changed: Collection[str]) -> None:
        self._is_exported = False
        sync = self.at_once and not self._kind.holds_offsets
        self._open.write(self._changes(source, changed), sync=sync)
        self._unsynced = not sync

    def _changes(self, source: Source, changed: Collection[str]) -> Iterator[Change]:
        for name in changed:
            entry = source.entry(name)
            yield Change(ROWS, name.encode(), self._kind.row(entry) if entry is not None else None)
        if source.others_changed:
            _, members = split_others(source.others())
            yield Change(VERSION, MEMBERS_KEY, dump_plain(members))
        if not self._kind.holds_offsets:
            yield Change(VERSION, VERSION_KEY, version_row(source.data_version))

    async def sync(self) -> None:
        if self._unsynced:
            self._unsynced = False
            try:
                await trio.to_thread.run_sync(self._open.sync)
            except OSError:
                self._unsynced = True
                raise

    async def export(self, source: Source) -> None:
        """Write the JSON file, with the version of the database, durably. Raises ``OSError``.

        One that has it all already stays. What ``source`` has must have been written. The marker
        comes last: a kill in between leaves two sides that agree.
        """
        if self._is_exported:
            return
        digest = contents_sha256(stored_rows(self._open), pack_others(source.others()))
        write_document(self._document, self._kind.member, source)
        marker = Marker(source.data_version.counter, self._document.sha256(), digest)
        self._is_exported = True
        try:
            await self.sync()
            await self._document.sync()
            self._open.write([Change(VERSION, MARKER_KEY, marker.row())], sync=True)
        except OSError:
            self._is_exported = False
            raise

    def close(self) -> None:
        """Give up the database, if it was opened."""
        if self._database is not None:
            self._database.close()
            self._database = None
