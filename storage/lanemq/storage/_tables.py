"""The tables under ``config``: topics, groups, and the offsets of consumers and of delay levels.

With RocksDB alone all but the last are kept there, else all are JSON files.
Source: RocketMQ 4.9.8 and 5.3.3, BrokerController.initialize.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, final

from ._config import StoreConfig
from .disk._files import Files
from .tables._config_tables import GROUP_MEMBER, TOPIC_MEMBER, GroupTable, TopicTable
from .tables._document import Document
from .tables._offset_tables import OFFSET_MEMBER, DelayOffsetTable, OffsetTable
from .tables._table import Backend, JsonBackend, Table
from .tables._wanted import WantedWrites

if TYPE_CHECKING:  # a store without RocksDB does without its library
    from .tables.rocks._backend import RocksBackend

__all__ = [
    "ConfigTables",
    "DelayOffsetTable",
    "GroupTable",
    "OffsetTable",
    "TopicTable",
    "check_tables",
]

DATABASES: Final = ("topics", "subscriptionGroups", "consumerOffsets", "rdb")


def check_tables(config: StoreConfig, files: Files) -> None:
    """Refuse a start that would use the wrong tables, before anything is changed.

    Raises ``StartRefused``, ``StoreLocked``, ``StoreCorrupted`` and ``ConfigInvalid``.
    """
    directory = config.root / "config"
    if any(files.exists(directory / name / "CURRENT") for name in DATABASES):
        from .tables.rocks._guard import check_metadata

        check_metadata(config, files)


@final
class ConfigTables:
    """The tables of a store (``Store.tables``)."""

    def __init__(self, config: StoreConfig, files: Files, clock_ms: Callable[[], int]) -> None:
        directory = config.root / "config"

        def json(name: str, member: str) -> Backend:
            return JsonBackend(Document(files, directory / name), member)

        self._config = config
        self._wanted: dict[Table, WantedWrites] = {}
        self.is_wanted = False
        """True if ``want`` was called since the last ``write_wanted``."""
        self._rocks = _rocks_backends(config, files, clock_ms)
        kept = self._rocks.get
        self.topics = TopicTable(kept("topics") or json("topics.json", TOPIC_MEMBER), clock_ms)
        self.groups = GroupTable(
            kept("subscriptionGroups") or json("subscriptionGroup.json", GROUP_MEMBER), clock_ms
        )
        self.consumer_offsets = OffsetTable(
            kept("consumerOffsets") or json("consumerOffset.json", OFFSET_MEMBER), clock_ms
        )
        self.delay_offsets = DelayOffsetTable(json("delayOffset.json", OFFSET_MEMBER), clock_ms)

    @property
    def all(self) -> tuple[TopicTable, GroupTable, OffsetTable, DelayOffsetTable]:
        return self.topics, self.groups, self.consumer_offsets, self.delay_offsets

    @property
    def of_users(self) -> tuple[Table, ...]:
        """The tables that users and operators change."""
        return self.topics, self.groups, self.consumer_offsets

    def load(self, *, after_crash: bool) -> None:
        """Read all tables; RocksDB takes over newer JSON files here.

        Raises ``ConfigInvalid``, ``StoreLocked`` and ``StoreCorrupted``.
        """
        for table in self.all:
            table.load(after_crash=after_crash)

    def want(self, table: TopicTable | GroupTable, name: str) -> None:
        """Ask ``write_wanted`` to write the changes of topics, or of groups, ``name``'s among
        them."""
        wanted = self._wanted.get(table)
        if wanted is None:
            wanted = self._wanted[table] = WantedWrites(table)
        wanted.add(name)
        self.is_wanted = True

    def is_unwritten(self, table: TopicTable | GroupTable, name: str) -> bool:
        """Return whether a change was wanted that ``write_wanted`` has not written yet.

        Who builds on it wants it again, and is answered once it is written.
        """
        return name in self._wanted.get(table, ())

    async def write_wanted(self) -> None:
        """Return when all that is wanted by now is written: beside the loop, once for all who
        wait.

        Raises ``OSError``; the changes are kept, written later, and wanted until then.
        """
        self.is_wanted = False
        for wanted in list(self._wanted.values()):
            await wanted.write()

    def persist(self) -> None:
        """Write the changes. Raises ``OSError``."""
        for table in self.all:
            table.persist()

    async def sync(self) -> None:
        """Wait until everything written is durable. Raises ``OSError``."""
        for table in self.all:
            await table.backend.sync()

    async def export(self, names: Iterable[str]) -> None:
        """Write the JSON files of tables in RocksDB: ``topics``, ``subscriptionGroups``, ....

        Those that are JSON files anyway stay as they are. Raises ``OSError``.
        """
        tables: Mapping[str, Table] = {
            "topics": self.topics,
            "subscriptionGroups": self.groups,
            "consumerOffsets": self.consumer_offsets,
        }
        for name in names:
            backend = self._rocks.get(name)
            if backend is not None:
                tables[name].persist()
                await backend.export(tables[name])

    async def finish(self) -> None:
        """Write everything in the form that the next start needs, whatever its settings. Raises
        ``OSError``."""
        for table in self.all:
            await table.persist_in_turns()
        await self.sync()
        if self._config.export_json_on_close:
            await self.export(self._rocks)

    def close(self) -> None:
        """Close the databases. Changes that are not written yet are lost."""
        for backend in self._rocks.values():
            backend.close()


def _rocks_backends(
    config: StoreConfig, files: Files, clock_ms: Callable[[], int]
) -> "dict[str, RocksBackend]":
    """Return the backends of the tables that are kept in RocksDB, by name."""
    if not config.stage.reads_rows:
        return {}
    from .tables.rocks._backend import RocksBackend
    from .tables.rocks._rows import KINDS

    make = functools.partial(
        RocksBackend, directory=config.root / "config", files=files, now_ms=clock_ms
    )
    return {
        kind.name: make(
            kind,
            transfer=config.transfer_offsets if kind.holds_offsets else config.transfer_metadata,
            at_once=config.persist_metadata_at_once,
        )
        for kind in KINDS
    }
