"""A table kept in RocksDB.

Topics and groups that an operator changes are durable before that is answered; the store's task
writes offsets and the rest, some rows in a batch, and the version of the table in the last one.
Source: RocketMQ 5.3.3, RocksDBConfigManager and the managers over it.
"""

from collections.abc import Callable, Collection, Iterator
from itertools import chain
from pathlib import Path
from typing import TypeVar, final

import trio

from lanemq.local import get_logger

from ..._errors import StoreCorrupted
from ...disk._files import Files
from ...disk._threads import in_thread
from .._contents import DATA_VERSION, Contents
from .._document import Document
from .._table import Table
from ._database import (
    MARKER_KEY,
    MEMBERS_KEY,
    ROWS,
    VERSION,
    VERSION_KEY,
    Change,
    ConfigDatabase,
)
from ._refusal import naming_ways_on
from ._rows import Kind, version_row
from ._rule import Marker, contents_sha256
from ._start import open_converted
from ._table_reading import (
    pack_others,
    parse_entries,
    read_marker,
    read_others,
    read_version,
    split_others,
    stored_rows,
)
from ._values import dump_plain

LOGGER = get_logger(__name__)
_T = TypeVar("_T")


@final
class RocksBackend:
    """The backend of one of the three tables; ``export`` writes its JSON file, a start reads it."""

    steps_version = False
    writes_all = False

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
        """Take the directory ``config``; for ``transfer`` see ``open_converted``."""
        self.at_once = at_once
        self._kind = kind
        self._directory = directory
        self._files = files
        self._transfer = transfer
        self._now_ms = now_ms
        self._document = Document(files, directory / kind.file)
        self._database: ConfigDatabase | None = None
        self._prepared: tuple[dict[str, object], bytes] = {}, b""
        """Members beside the table that will be written, and their row."""
        self._unsynced = False
        self._one_sync = trio.Lock()
        self._is_exported = False
        self._marker: Marker | None = None

    @property
    def path(self) -> Path:
        return self._directory / self._kind.name

    @property
    def _open(self) -> ConfigDatabase:
        assert self._database is not None, "a table is loaded before it is used"
        return self._database

    def load(self, *, after_crash: bool) -> Contents:
        """Open the database and read it whole. Raises as ``open_converted``."""
        self._database = database = open_converted(
            self._kind,
            self._directory,
            self._files,
            transfer=self._transfer,
            now_ms=self._now_ms,
        )
        with naming_ways_on(self._kind, self._directory, self._files):
            rows, others = stored_rows(database), read_others(self._kind, database)
            marker, version = read_marker(database), read_version(database)
        self._marker = marker
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

    @property
    def syncs(self) -> bool:
        return self.at_once and not self._kind.holds_offsets

    def write(
        self,
        source: Table,
        changed: Collection[str],
        *,
        is_last: bool = True,
        may_wait: bool = True,
    ) -> None:
        self._is_exported = False
        sync = is_last and may_wait and self.syncs
        changes = chain(self._rows(source, changed), self._head(source) if is_last else ())
        self._open.write(changes, sync=sync)
        self._unsynced = not sync  # a synced write makes earlier ones durable, too

    def _rows(self, source: Table, changed: Collection[str]) -> Iterator[Change]:
        for name in changed:
            entry = source.entry(name)
            yield Change(ROWS, name.encode(), self._kind.row(entry) if entry is not None else None)

    def _head(self, source: Table) -> Iterator[Change]:
        if source.others_changed:
            yield Change(VERSION, MEMBERS_KEY, self._members_row(source.others()))
        if not self._kind.holds_offsets:
            yield Change(VERSION, VERSION_KEY, version_row(source.data_version))

    def _members_row(self, others: dict[str, object]) -> bytes:
        prepared, row = self._prepared
        self._prepared = {}, b""
        same = prepared.keys() == others.keys() and all(
            value is others[name] for name, value in prepared.items()
        )
        return row if row and same else dump_plain(split_others(others)[1])

    async def beside(self, call: Callable[[], _T]) -> _T:
        return await in_thread(call)

    def prepare(self, others: dict[str, object]) -> None:
        self._prepared = others, dump_plain(split_others(others)[1])

    async def sync(self) -> None:
        async with self._one_sync:  # another that goes on may be for what is written by now
            if not self._unsynced:
                return
            self._unsynced = False
            try:
                await trio.to_thread.run_sync(self._open.sync)
            except BaseException:
                self._unsynced = True
                raise

    async def export(self, source: Table) -> None:
        """Write the JSON file, with the version of the database, durably. Raises ``OSError``.

        One that has it all already stays. What ``source`` has must have been written. It is read,
        encoded and written in a thread, and may change meanwhile. The marker comes last: a kill
        in between leaves two sides that agree.
        """
        if self._is_exported:
            return
        if self._marker is not None and self._marker.suppressed:
            LOGGER.warning(
                "%s stays as it is: the settings forbade taking over its content",
                self._document.path,
            )
            return
        with trio.CancelScope(shield=True):  # a cancelled caller must not leave half of it
            await self._export(source)

    async def _export(self, source: Table) -> None:
        others, version = source.others(), source.data_version
        members = others | {DATA_VERSION: version, self._kind.member: source.values()}

        def write_file() -> tuple[str, str]:
            digest = self._digest(others)
            self._document.write(members)
            return digest, self._document.sha256()

        self._is_exported = True
        try:
            rows_sha256, json_sha256 = await trio.to_thread.run_sync(write_file)
            if not self._is_exported:  # of rows that were changed meanwhile, and differ from it
                rows_sha256 = ""
            marker = Marker(version.counter, json_sha256, rows_sha256).after(self._marker)
            await self.sync()
            await self._document.sync()
            self._open.write([Change(VERSION, MARKER_KEY, marker.row())], sync=False)
            self._unsynced = True
            await self.sync()
        except BaseException:
            self._is_exported = False
            raise
        self._marker = marker

    def _digest(self, others: dict[str, object]) -> str:
        try:
            return contents_sha256(stored_rows(self._open), pack_others(others))
        except StoreCorrupted as error:
            # The table was read whole, and what is in memory is: only the database is not.
            LOGGER.error("%s; the JSON file has all of it", error)
            return ""

    def close(self) -> None:
        """Close the database, if it was opened."""
        if self._database is not None:
            self._database.close()
            self._database = None
