"""The tables under ``config``: topics, groups, and the offsets of consumers and of delay levels.

What a file has beyond what is known here stays in it. A change of a topic or a group is written
at once; offsets are written by the store's task. Source: RocketMQ 4.9.8, TopicConfigManager,
SubscriptionGroupManager, ConsumerOffsetManager, ScheduleMessageService.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeVar, final

from lanemq.wire import (
    DataVersion,
    RemoteProtocolError,
    SubscriptionGroupConfig,
    TopicConfig,
)

from ._document import Document
from ._errors import ConfigInvalid
from ._files import Files

DATA_VERSION = "dataVersion"
OFFSET_TABLE = "offsetTable"
GROUP_TOPIC_MAP = "groupTopicMap"
SEPARATOR = "@"

Config = TypeVar("Config", TopicConfig, SubscriptionGroupConfig)


class _Table:
    """What the tables share: the file, its other members, and the version of the data."""

    def __init__(self, files: Files, path: Path, clock_ms: Callable[[], int]) -> None:
        self.document = Document(files, path)
        self._clock_ms = clock_ms
        self._rest: dict[str, Any] = {}
        self._dirty = False
        self.data_version = DataVersion()

    def _load(self, member: str, *, after_crash: bool) -> dict[str, Any]:
        """The member that is the table; the others are kept."""
        members: dict[str, Any] = self.document.load(after_crash=after_crash)
        table = members.pop(member, None)
        table = {} if table is None else table
        version = members.pop(DATA_VERSION, None)
        self._rest = members
        try:
            if version is not None:
                self.data_version = DataVersion.from_json(version)
        except RemoteProtocolError as error:
            raise self._invalid(DATA_VERSION, error) from error
        if not isinstance(table, dict):
            raise self._invalid(member, "it is no object")
        return table

    def _invalid(self, where: str, why: object) -> ConfigInvalid:
        return ConfigInvalid(f"{self.document.path}, {where}: {why}")

    def _changed(self) -> None:
        self.data_version = self.data_version.next(self._clock_ms())
        self._dirty = True

    def _members(self) -> dict[str, object]:
        raise AssertionError("every table says what its members are")

    def persist(self) -> None:
        """Write the file if anything changed. Raises ``OSError``; the change is kept then."""
        if self._dirty:
            self.document.write(self._rest | {DATA_VERSION: self.data_version} | self._members())
            self._dirty = False


class _ConfigTable(_Table, Generic[Config]):
    """Name -> configuration."""

    _member: str
    _decode: Callable[[object], Config]

    def __init__(self, files: Files, path: Path, clock_ms: Callable[[], int]) -> None:
        super().__init__(files, path, clock_ms)
        self._configs: dict[str, Config] = {}

    def load(self, *, after_crash: bool) -> None:
        """Raises ``ConfigInvalid`` naming file and entry."""
        table = self._load(self._member, after_crash=after_crash)
        for name, value in table.items():
            try:
                self._configs[name] = type(self)._decode(value)
            except RemoteProtocolError as error:
                raise self._invalid(name, error) from error

    @property
    def configs(self) -> Mapping[str, Config]:
        """The table itself, to be looked at."""
        return MappingProxyType(self._configs)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._configs)

    def get(self, name: str) -> Config | None:
        return self._configs.get(name)

    def _put(self, name: str, config: Config) -> None:
        self._configs[name] = config
        self._changed()
        self.persist()

    def remove(self, name: str) -> bool:
        """Whether it was there. Raises ``OSError`` where the file cannot be written."""
        if self._configs.pop(name, None) is None:
            return False
        self._changed()
        self.persist()
        return True

    def _members(self) -> dict[str, object]:
        return {self._member: dict(self._configs)}


@final
class TopicTable(_ConfigTable[TopicConfig]):
    """``config/topics.json``."""

    _member = "topicConfigTable"
    _decode = TopicConfig.from_json

    def put(self, config: TopicConfig) -> None:
        """Add or replace a topic. Raises ``OSError`` where the file cannot be written."""
        self._put(config.topic_name, config)

    def member(self, name: str) -> object | None:
        """What the file has beside the table under ``name``; None where there is nothing."""
        return self._rest.get(name)

    async def put_member(
        self, name: str, value: object, configs: Iterable[TopicConfig] = ()
    ) -> None:
        """Replace what the file has under ``name``, and topics with it, durably and in one write.

        ``value`` is JSON and must not be changed any more. Raises ``OSError``; then all is as it
        was before.
        """
        old_value, new = self._rest.get(name), list(configs)
        old = {config.topic_name: self._configs.get(config.topic_name) for config in new}
        self._rest[name] = value
        self._configs.update((config.topic_name, config) for config in new)
        self._changed()
        try:
            self.persist()
            await self.document.sync()
        except OSError:
            for topic, config in old.items():
                if config is None:
                    self._configs.pop(topic, None)
                else:
                    self._configs[topic] = config
            if old_value is None:
                self._rest.pop(name, None)
            else:
                self._rest[name] = old_value
            self._changed()
            with suppress(OSError):  # the next change tries again
                self.persist()
            raise


@final
class GroupTable(_ConfigTable[SubscriptionGroupConfig]):
    """``config/subscriptionGroup.json``."""

    _member = "subscriptionGroupTable"
    _decode = SubscriptionGroupConfig.from_json

    def put(self, config: SubscriptionGroupConfig) -> None:
        """Add or replace a group. Raises ``OSError`` where the file cannot be written."""
        self._put(config.group_name, config)


@final
class OffsetTable(_Table):
    """``config/consumerOffset.json``: where each group resumes; offsets count messages."""

    def __init__(self, files: Files, path: Path, clock_ms: Callable[[], int]) -> None:
        super().__init__(files, path, clock_ms)
        self._groups: dict[str, dict[str, dict[int, int]]] = {}
        self._others: dict[str, Any] = {}  # entries whose name is not topic@group

    def load(self, *, after_crash: bool) -> None:
        """Raises ``ConfigInvalid`` naming file and entry."""
        for name, queues in self._load(OFFSET_TABLE, after_crash=after_crash).items():
            topic, separator, group = name.partition(SEPARATOR)
            if not separator or SEPARATOR in group:
                self._others[name] = queues
                continue
            try:
                offsets = {int(queue_id): int(offset) for queue_id, offset in queues.items()}
            except (AttributeError, TypeError, ValueError) as error:
                raise self._invalid(name, error) from error
            self._groups.setdefault(group, {})[topic] = offsets

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        queues = self.queues(group, topic)
        return queues.get(queue_id)

    def queues(self, group: str, topic: str) -> Mapping[int, int]:
        """Queue id -> offset."""
        return self._groups.get(group, {}).get(topic, {})

    def put(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Store as given, even backwards."""
        self._groups.setdefault(group, {}).setdefault(topic, {})[queue_id] = offset
        self._dirty = True

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(self._groups)

    def topics_of(self, group: str) -> tuple[str, ...]:
        return tuple(self._groups.get(group, ()))

    def groups_of(self, topic: str) -> tuple[str, ...]:
        return tuple(group for group, topics in self._groups.items() if topic in topics)

    def remove(self, group: str, topic: str) -> None:
        """Forget what a group consumed of a topic."""
        topics = self._groups.get(group, {})
        if topics.pop(topic, None) is not None:
            self._dirty = True
        if not topics:
            self._groups.pop(group, None)

    def remove_group(self, group: str) -> None:
        if self._groups.pop(group, None) is not None:
            self._dirty = True

    def remove_topic(self, topic: str) -> None:
        for group in self.groups_of(topic):
            self.remove(group, topic)

    def as_table(self) -> dict[str, dict[int, int]]:
        """``topic@group`` -> queue id -> offset, as brokers hand it out."""
        return {
            f"{topic}{SEPARATOR}{group}": dict(queues)
            for group, topics in self._groups.items()
            for topic, queues in topics.items()
        }

    def persist(self) -> None:
        if self._dirty:
            # One step per write: 5.x takes over only what has a version above its own.
            self.data_version = self.data_version.next(self._clock_ms())
        super().persist()

    def _members(self) -> dict[str, object]:
        members: dict[str, object] = {OFFSET_TABLE: self._others | self.as_table()}
        if GROUP_TOPIC_MAP in self._rest:  # 5.x writes it, and only to be looked at
            members[GROUP_TOPIC_MAP] = {
                group: list(topics) for group, topics in self._groups.items()
            }
        return members


@final
class DelayOffsetTable(_Table):
    """``config/delayOffset.json``: the next unit to deliver of each delay level's queue."""

    def __init__(self, files: Files, path: Path, clock_ms: Callable[[], int]) -> None:
        super().__init__(files, path, clock_ms)
        self._offsets: dict[int, int] = {}

    def load(self, *, after_crash: bool) -> None:
        """Raises ``ConfigInvalid`` naming the file."""
        table = self._load(OFFSET_TABLE, after_crash=after_crash)
        try:
            self._offsets = {int(level): int(offset) for level, offset in table.items()}
        except (TypeError, ValueError) as error:
            raise self._invalid(OFFSET_TABLE, error) from error

    def get(self, level: int) -> int:
        """0 for a level that never delivered."""
        return self._offsets.get(level, 0)

    def put(self, level: int, offset: int) -> None:
        self._offsets[level] = offset
        self._dirty = True

    def as_table(self) -> dict[int, int]:
        """Level -> offset."""
        return dict(self._offsets)

    def persist(self) -> None:
        if self._dirty:
            self.data_version = self.data_version.next(self._clock_ms())
        super().persist()

    def _members(self) -> dict[str, object]:
        return {OFFSET_TABLE: dict(sorted(self._offsets.items()))}


@final
class ConfigTables:
    """All of them, as ``Store.tables``."""

    def __init__(self, files: Files, directory: Path, clock_ms: Callable[[], int]) -> None:
        self.topics = TopicTable(files, directory / "topics.json", clock_ms)
        self.groups = GroupTable(files, directory / "subscriptionGroup.json", clock_ms)
        self.consumer_offsets = OffsetTable(files, directory / "consumerOffset.json", clock_ms)
        self.delay_offsets = DelayOffsetTable(files, directory / "delayOffset.json", clock_ms)

    @property
    def all(self) -> tuple[TopicTable, GroupTable, OffsetTable, DelayOffsetTable]:
        return self.topics, self.groups, self.consumer_offsets, self.delay_offsets

    def load(self, *, after_crash: bool) -> None:
        """Read all files. Raises ``ConfigInvalid``."""
        for table in self.all:
            table.load(after_crash=after_crash)

    def persist(self) -> None:
        """Write what changed. Raises ``OSError``."""
        for table in self.all:
            table.persist()

    async def sync(self) -> None:
        """Return once all that was written is durable. Raises ``OSError``."""
        for table in self.all:
            await table.document.sync()
