"""The offsets of consumers and of delay levels; the store's task writes them.

Source: RocketMQ 4.9.8, ConsumerOffsetManager, ScheduleMessageService.
"""

from collections.abc import Callable, Mapping
from typing import Any, final

from ._table import Backend, Table

OFFSET_MEMBER = "offsetTable"
GROUP_TOPIC_MAP = "groupTopicMap"
SEPARATOR = "@"


@final
class OffsetTable(Table):
    """``config/consumerOffset.json``, or ``config/consumerOffsets`` in RocksDB.

    Where each group resumes; offsets count messages.
    """

    def __init__(self, backend: Backend, clock_ms: Callable[[], int]) -> None:
        super().__init__(backend, clock_ms)
        self._groups: dict[str, dict[str, dict[int, int]]] = {}
        self._unnamed: dict[str, Any] = {}  # entries whose name is not topic@group

    def load(self, *, after_crash: bool) -> None:
        """Raises ``ConfigInvalid`` naming file and entry."""
        for name, queues in self._load(after_crash=after_crash).items():
            topic, separator, group = name.partition(SEPARATOR)
            if not separator or SEPARATOR in group:
                self._unnamed[name] = queues
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
        self._touch(f"{topic}{SEPARATOR}{group}")

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
            self._touch(f"{topic}{SEPARATOR}{group}")
        if not topics:
            self._groups.pop(group, None)

    def remove_group(self, group: str) -> None:
        for topic in self.topics_of(group):
            self.remove(group, topic)

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
        if self._dirty and self.backend.steps_version:
            self._step()  # one step per write: 5.x takes over only what has a version above its own
        super().persist()

    def entries(self) -> Mapping[Any, object]:
        return self._unnamed | self.as_table()

    def entry(self, name: str) -> object | None:
        topic, _, group = name.partition(SEPARATOR)
        return self._groups.get(group, {}).get(topic)

    def others(self) -> dict[str, object]:
        others = super().others()
        if GROUP_TOPIC_MAP in others:  # 5.x writes it, and only to be looked at
            others[GROUP_TOPIC_MAP] = {
                group: list(topics) for group, topics in self._groups.items()
            }
        return others


@final
class DelayOffsetTable(Table):
    """``config/delayOffset.json``: the next unit to deliver of each delay level's queue."""

    def __init__(self, backend: Backend, clock_ms: Callable[[], int]) -> None:
        super().__init__(backend, clock_ms)
        self._offsets: dict[int, int] = {}

    def load(self, *, after_crash: bool) -> None:
        """Raises ``ConfigInvalid`` naming the file."""
        table = self._load(after_crash=after_crash)
        try:
            self._offsets = {int(level): int(offset) for level, offset in table.items()}
        except (TypeError, ValueError) as error:
            raise self._invalid(OFFSET_MEMBER, error) from error

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
            self._step()
        super().persist()

    def entries(self) -> Mapping[Any, object]:
        return dict(sorted(self._offsets.items()))

    def entry(self, name: str) -> object | None:
        return self._offsets.get(int(name))
