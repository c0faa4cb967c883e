"""The offsets of consumers and of delay levels; the store's task writes them.

Source: RocketMQ 4.9.8, ConsumerOffsetManager, ScheduleMessageService.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, final

from lanemq.wire import fastjson

from ._table import ENTRY_LEVELS, Backend, Table

OFFSET_MEMBER = "offsetTable"
GROUP_TOPIC_MAP = "groupTopicMap"
SEPARATOR = "@"
TOPIC_PLACES: Final = 8
"""Places of a group's topic, beside one for each of its queues."""


@final
class OffsetTable(Table):
    """``config/consumerOffset.json``, or ``config/consumerOffsets`` in RocksDB.

    Where each group resumes; offsets count messages.
    """

    def __init__(self, backend: Backend, clock_ms: Callable[[], int]) -> None:
        super().__init__(backend, clock_ms)
        self._groups: dict[str, dict[str, dict[int, int]]] = {}
        self._of_topics: dict[str, dict[str, None]] = {}
        """The groups of each topic, so that a question about one does not go through all groups."""
        self._places: dict[str, int] = {}
        self.places = 0
        """Size of all offsets: one for each, and ``TOPIC_PLACES`` for each topic of a group."""
        self._unnamed: dict[str, Any] = {}  # entries whose name is not topic@group
        self._texts: dict[str, dict[str, bytes]] = {}
        """The members of the file, in the order of ``_groups``; of those that never
        were encoded, their places."""
        self._unnamed_texts: list[bytes] = []
        self._topics_texts: dict[str, bytes] = {}
        """The members of ``GROUP_TOPIC_MAP``, in the same order."""

    def load(self, *, after_crash: bool) -> None:
        """Read the table. Raises ``ConfigInvalid`` naming file and entry."""
        for name, queues in self._load(after_crash=after_crash).items():
            topic, separator, group = name.partition(SEPARATOR)
            if not separator or SEPARATOR in group:
                self._unnamed[name] = queues
                continue
            try:
                offsets = {int(queue_id): int(offset) for queue_id, offset in queues.items()}
            except (AttributeError, TypeError, ValueError) as error:
                raise self._invalid(name, error) from error
            there = self._add(group, topic)
            self._count(group, len(offsets.keys() - there.keys()))
            there.update(offsets)
        if self.backend.writes_all:  # encoded now, not in a later turn of the loop
            kept = ((name, value) for name, value in self._unnamed.items() if value is not None)
            self._unnamed_texts = [_member(name, value) for name, value in kept]
            self._encode_all()
            self.others_written()
            self._dirty = False

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        queues = self.queues(group, topic)
        return queues.get(queue_id)

    def queues(self, group: str, topic: str) -> Mapping[int, int]:
        """Return queue id -> offset."""
        return self._groups.get(group, {}).get(topic, {})

    def put(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Keep an offset as given, even backwards."""
        queues = self._groups.get(group, {}).get(topic)
        if queues is None:
            queues = self._add(group, topic)
        elif (group, topic) in self._waiting:  # the write in progress has it as it was
            self._encode((group, topic))
            del self._waiting[group, topic]
        if queue_id not in queues:
            self._count(group, 1)
        queues[queue_id] = offset
        self._note(group, topic)

    def _add(self, group: str, topic: str) -> dict[int, int]:
        topics = self._groups.setdefault(group, {})
        if topic not in topics:
            topics[topic] = {}
            self._count(group, TOPIC_PLACES)
        self._of_topics.setdefault(topic, {})[group] = None
        if self.backend.writes_all:
            self._texts.setdefault(group, {}).setdefault(topic, b"")
            self._note(group, topic)
            self._note_topics(group)
        return topics[topic]

    def _count(self, group: str, places: int) -> None:
        self.places += places
        self._places[group] = self._places.get(group, 0) + places

    def places_of(self, group: str) -> int:
        """Return what a group has of ``places``."""
        return self._places.get(group, 0)

    def _note(self, group: str, topic: str) -> None:
        if self.backend.writes_all:
            self._stale[group, topic] = None
            self._dirty = True
        else:
            self._touch(f"{topic}{SEPARATOR}{group}")

    def _note_topics(self, group: str) -> None:
        if self.backend.writes_all and GROUP_TOPIC_MAP in self._others:
            self._topics_texts.setdefault(group, b"")
            self._stale[group, None] = None

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(self._groups)

    def topics_of(self, group: str) -> tuple[str, ...]:
        return tuple(self._groups.get(group, ()))

    def groups_of(self, topic: str) -> tuple[str, ...]:
        return tuple(self._of_topics.get(topic, ()))

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics in which any group has offsets."""
        return tuple(self._of_topics)

    def remove(self, group: str, topic: str) -> None:
        """Remove the offsets of a group in a topic."""
        topics = self._groups.get(group, {})
        queues = topics.pop(topic, None)
        if queues is None:
            return
        self._count(group, -TOPIC_PLACES - len(queues))
        del self._of_topics[topic][group]
        if not self._of_topics[topic]:
            del self._of_topics[topic]
        self._note(group, topic)
        self._note_topics(group)
        self._texts.get(group, {}).pop(topic, None)
        if not topics:
            for table in (self._groups, self._texts, self._topics_texts, self._places):
                table.pop(group, None)

    def remove_group(self, group: str) -> None:
        for topic in self.topics_of(group):
            self.remove(group, topic)

    def remove_topic(self, topic: str) -> None:
        for group in self.groups_of(topic):
            self.remove(group, topic)

    def as_table(self) -> dict[str, dict[int, int]]:
        """Return ``topic@group`` -> queue id -> offset, as brokers hand it out."""
        return {name: dict(queues) for name, queues in self._named()}

    def _before_write(self) -> None:
        if self.backend.steps_version:
            self._step()  # one step per write: 5.x takes over only what has a version above its own

    def entries(self) -> object:
        named = chain.from_iterable(map(dict.values, self._texts.values()))
        texts = filter(None, chain(self._unnamed_texts, named))
        return fastjson.WrittenObject(texts, levels=ENTRY_LEVELS)

    def _named(self) -> Iterator[tuple[str, dict[int, int]]]:
        for group, topics in self._groups.items():
            for topic, queues in topics.items():
                yield f"{topic}{SEPARATOR}{group}", queues

    def _encode(self, key: tuple[str, str | None]) -> int:
        group, topic = key
        topics = self._groups.get(group, {})
        if topic is None:
            if not topics:
                return 0
            text = self._topics_texts[group] = _member(group, list(topics))
            return len(text)
        queues = topics.get(topic)
        if queues is None:
            return 0
        text = self._texts[group][topic] = _member(f"{topic}{SEPARATOR}{group}", queues)
        return len(text)

    def values(self) -> Mapping[Any, object]:
        return self._unnamed | self.as_table()

    def entry(self, name: str) -> object | None:
        topic, _, group = name.partition(SEPARATOR)
        return self._groups.get(group, {}).get(topic)

    def others(self) -> dict[str, object]:
        others = super().others()
        if GROUP_TOPIC_MAP in others:  # 5.x writes it for people to read only
            others[GROUP_TOPIC_MAP] = {
                group: list(topics) for group, topics in self._groups.items()
            }
        return others

    def others_written(self) -> dict[str, object]:
        others = super().others_written()
        if GROUP_TOPIC_MAP in others:
            members = filter(None, self._topics_texts.values())
            others[GROUP_TOPIC_MAP] = fastjson.WrittenObject(members, levels=ENTRY_LEVELS)
        return others


@final
class DelayOffsetTable(Table):
    """``config/delayOffset.json``: the next unit to deliver of each delay level's queue."""

    def __init__(self, backend: Backend, clock_ms: Callable[[], int]) -> None:
        super().__init__(backend, clock_ms)
        self._offsets: dict[int, int] = {}

    def load(self, *, after_crash: bool) -> None:
        """Read the table. Raises ``ConfigInvalid`` naming the file."""
        table = self._load(after_crash=after_crash)
        try:
            self._offsets = {int(level): int(offset) for level, offset in table.items()}
        except (TypeError, ValueError) as error:
            raise self._invalid(OFFSET_MEMBER, error) from error

    def get(self, level: int) -> int:
        """Return the offset of a level; 0 for one that never delivered."""
        return self._offsets.get(level, 0)

    def put(self, level: int, offset: int) -> None:
        self._offsets[level] = offset
        self._dirty = True

    def as_table(self) -> dict[int, int]:
        """Return level -> offset."""
        return dict(self._offsets)

    def _before_write(self) -> None:
        self._step()

    def entries(self) -> Mapping[Any, object]:
        return dict(sorted(self._offsets.items()))

    def values(self) -> Mapping[Any, object]:
        return self.entries()

    def entry(self, name: str) -> object | None:
        return self._offsets.get(int(name))


def _member(name: str, value: object) -> bytes:
    return fastjson.dump_named(name, value, levels=ENTRY_LEVELS)
