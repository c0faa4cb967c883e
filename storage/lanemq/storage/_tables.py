"""The tables under ``config``: topics, groups, and the offsets of consumers and of delay levels.

Source: RocketMQ 4.9.8, BrokerController.initialize.
"""

from collections.abc import Callable
from pathlib import Path
from typing import final

from ._config_tables import GROUP_MEMBER, TOPIC_MEMBER, GroupTable, TopicTable
from ._document import Document
from ._files import Files
from ._offset_tables import OFFSET_MEMBER, DelayOffsetTable, OffsetTable
from ._table import JsonBackend

__all__ = ["ConfigTables", "DelayOffsetTable", "GroupTable", "OffsetTable", "TopicTable"]


@final
class ConfigTables:
    """All of them, as ``Store.tables``."""

    def __init__(self, files: Files, directory: Path, clock_ms: Callable[[], int]) -> None:
        def kept(name: str, member: str) -> JsonBackend:
            return JsonBackend(Document(files, directory / name), member)

        self.topics = TopicTable(kept("topics.json", TOPIC_MEMBER), clock_ms)
        self.groups = GroupTable(kept("subscriptionGroup.json", GROUP_MEMBER), clock_ms)
        self.consumer_offsets = OffsetTable(kept("consumerOffset.json", OFFSET_MEMBER), clock_ms)
        self.delay_offsets = DelayOffsetTable(kept("delayOffset.json", OFFSET_MEMBER), clock_ms)

    @property
    def all(self) -> tuple[TopicTable, GroupTable, OffsetTable, DelayOffsetTable]:
        return self.topics, self.groups, self.consumer_offsets, self.delay_offsets

    def load(self, *, after_crash: bool) -> None:
        """Read all tables. Raises ``ConfigInvalid``."""
        for table in self.all:
            table.load(after_crash=after_crash)

    def persist(self) -> None:
        """Write what changed. Raises ``OSError``."""
        for table in self.all:
            table.persist()

    async def sync(self) -> None:
        """Return once all that was written is durable. Raises ``OSError``."""
        for table in self.all:
            await table.backend.sync()
