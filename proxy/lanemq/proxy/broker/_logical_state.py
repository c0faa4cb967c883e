"""The logical queues of one broker: in memory for readers, on the disk before anyone relies on it.

A change is made of the mapping as it is, written durably, and only then visible: nobody is sent
anywhere by a state that a crash could take back. Changes come one after another; readers and
writers of messages never wait for them.

Source: RocketMQ 5.0.0-PREVIEW, TopicConfigManager; which writes its mapping and never reads it.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from typing import Final, final

import trio

from lanemq.storage import ConfigInvalid, Store
from lanemq.wire import MessageQueue, RemoteProtocolError, TopicConfig
from lanemq.wire.logical import (
    LOGICAL_QUEUES_MAP_MEMBER,
    LogicalQueues,
    Segment,
    SegmentKey,
    SegmentState,
    logical_queues_by_topic,
)

from ..logical import (
    IN_PROGRESS,
    JOURNAL_FILE,
    Gate,
    Journal,
    Migration,
    Phase,
    TopicMapping,
    refusal,
    touched,
)
from ._logical_counters import LogicalCounters

LOGGER = logging.getLogger("lanemq.proxy.broker.logical")

_WAITING: Final = "%LOGICAL%"

Change = Callable[[TopicMapping], TopicMapping]


@final
class _Operation:
    def __init__(self, name: Hashable) -> None:
        self.name = name
        self.done = trio.Event()


@final
class LogicalState:
    """Mappings, gate and journal. ``changed`` is called with a topic and its queues to wake."""

    def __init__(
        self,
        store: Store,
        *,
        broker_name: str,
        address: str,
        now_ms: Callable[[], int],
        changed: Callable[[str, set[int]], None],
    ) -> None:
        self.broker_name = broker_name
        self.address = address
        self.mappings: dict[str, TopicMapping] = {}
        """Topic -> mapping; a topic that is not in it has no logical queues."""
        self.in_use = trio.Event()
        """Set once there is a mapping: until then there is nothing to look after."""
        self.gate = Gate()
        self.journal = Journal()
        self.counters = LogicalCounters()
        self.expired_ms: dict[SegmentKey, int] = {}
        """Since when own segments are known to be expired."""
        self.write_only_ms: dict[SegmentKey, int] = {}
        """Since when own destinations are there that do not know their place."""
        self.emptied: set[str] = set()
        """Topics that had logical queues: name servers are told that there are none."""
        self.java_settings: dict[str, str] = {}
        """Name server -> the topics whose logical queues it tells Java clients of."""
        self.look_again: Callable[[str], Awaitable[None]] = _nothing
        """Finds out what became of the migrations of a topic. The reconciler puts its own here."""
        self._topics = store.tables.topics
        self._store = store
        self._now_ms = now_ms
        self._document = store.document(JOURNAL_FILE)
        self._changed = changed
        self._keeping = trio.Lock()
        self._operations: dict[tuple[str, int], _Operation] = {}
        self._load()

    # What is there

    def get(self, topic: str) -> TopicMapping | None:
        """The mapping of a topic; None where it has no logical queues."""
        return self.mappings.get(topic)

    def queues(self, topic: str) -> LogicalQueues | None:
        """All that is known of a topic, as it is told to others."""
        mapping = self.mappings.get(topic)
        return None if mapping is None else LogicalQueues(mapping.chains.values())

    def known_queues(self) -> dict[str, LogicalQueues]:
        """What is known of every topic; the own segments among it are registered."""
        emptied = {topic: LogicalQueues() for topic in sorted(self.emptied)}
        return emptied | {
            topic: LogicalQueues(mapping.chains.values())
            for topic, mapping in self.mappings.items()
        }

    def is_removed(self, segment: Segment) -> bool:
        """Whether the last message of an own sealed segment is not in the log any more.

        That is what the log says; its index may lag behind. What a crash took is not removed:
        the messages before it are there.
        """
        last = segment.offset_max - 1
        if last >= self.end_offset(segment.topic, segment.queue_id):
            return False
        units = self._store.units(segment.topic, segment.queue_id, last, 1)
        return not units or units[0].log_position < self._store.min_position

    def end_offset(self, topic: str, queue_id: int) -> int:
        """The offset that the next message of a message queue gets."""
        return self._store.bounds(topic, queue_id)[1]

    def own_queue(self, topic: str, queue_id: int) -> MessageQueue:
        return MessageQueue(topic, self.broker_name, queue_id)

    # Changes

    async def change(
        self, topic: str, change: Change, *, config: Callable[[], TopicConfig] | None = None
    ) -> TopicMapping:
        """Make ``change`` of a topic's mapping (of an empty one where there is none).

        What ``config`` gives is written with it. What ``change`` raises changes nothing, and
        neither does a disk that fails (``Refused``). It is not cancelled half-way.
        """
        async with self._keeping:
            old = self.mappings.get(topic)
            before = old if old is not None else TopicMapping(topic, self.broker_name)
            new = change(before)
            if new != old or config is not None:
                settings = config() if config is not None else None
                with trio.CancelScope(shield=True):
                    await self._keep(self.mappings | {topic: new}, settings)
                self.mappings[topic] = new
                self.in_use.set()
                self.emptied.discard(topic)
                self._note_destinations(new)
                self._changed(topic, touched(before, new))
        return new

    async def forget(self, topic: str) -> None:
        """The topic has no logical queues any more. Raises ``Refused`` as ``change``."""
        async with self._keeping:
            old = self.mappings.get(topic)
            if old is not None:
                rest = {name: value for name, value in self.mappings.items() if name != topic}
                with trio.CancelScope(shield=True):
                    await self._keep(rest, None)
                del self.mappings[topic]
                self.emptied.add(topic)
                self._changed(topic, set(old.queue_ids))

    async def _keep(self, mappings: dict[str, TopicMapping], config: TopicConfig | None) -> None:
        members = {
            topic: LogicalQueues(mapping.chains.values()).to_json()
            for topic, mapping in mappings.items()
        }
        configs = [config] if config is not None else []
        try:
            await self._topics.put_member(LOGICAL_QUEUES_MAP_MEMBER, members, configs)
        except OSError as error:
            raise refusal(f"the mapping cannot be written: {error}") from error

    async def note(self, migration: Migration) -> None:
        """Write a migration into the journal, durably. Raises ``Refused``."""
        before = self.journal.get(*migration.queue)
        self.journal.put(migration)
        try:
            await self._keep_journal()
        except OSError as error:
            self.journal.remove(*migration.queue)
            if before is not None:
                self.journal.put(before)
            raise refusal(f"the journal cannot be written: {error}") from error

    async def strike(self, topic: str, index: int) -> None:
        """Take a migration that is over out of the journal; it may come back after a crash."""
        if self.journal.remove(topic, index):
            try:
                await self._keep_journal()
            except OSError as error:
                LOGGER.warning("the journal of migrations cannot be written: %s", error)

    async def _keep_journal(self) -> None:
        with trio.CancelScope(shield=True):
            self._document.write(self.journal.to_json())
            await self._document.sync()

    @asynccontextmanager
    async def operation(self, topic: str, index: int, name: Hashable) -> AsyncIterator[None]:
        """Have a logical queue to oneself; for one that is waited for by the same name, wait.

        Raises ``Refused`` (migration in progress) while another one has it.
        """
        while (running := self._operations.get((topic, index))) is not None:
            if running.name != name:
                raise refusal(IN_PROGRESS)
            await running.done.wait()
        operation = self._operations[topic, index] = _Operation(name)
        try:
            yield
        finally:
            del self._operations[topic, index]
            operation.done.set()

    def is_busy(self, topic: str) -> bool:
        """Whether any logical queue of a topic is being migrated."""
        mapping = self.mappings.get(topic)
        return any(name == topic for name, _ in self._operations) or (
            mapping is not None
            and any(segment.state is SegmentState.WRITE_ONLY for segment in mapping)
        )

    def note_expired(self, *segments: Segment) -> None:
        """Remember since when own segments are expired, for as long as the broker runs."""
        for segment in segments:
            if segment.state is SegmentState.EXPIRED:
                self.expired_ms.setdefault(segment.key, self._now_ms())

    def _note_destinations(self, mapping: TopicMapping) -> None:
        """Remember since when own destinations wait for their place."""
        waiting = {s.key for s in mapping.own() if s.state is SegmentState.WRITE_ONLY}
        for key in waiting:
            self.write_only_ms.setdefault(key, self._now_ms())
        for key in list(self.write_only_ms):
            if key.topic == mapping.topic and key not in waiting:
                del self.write_only_ms[key]

    def alarm(self, segment: Segment, text: str) -> None:
        """Tell the operator of something that no repetition repairs."""
        if self.counters.alarms.get(segment.key) != text:
            LOGGER.critical("%s: %s", segment, text)
            self.counters.alarms[segment.key] = text

    # The start

    def _load(self) -> None:
        topics = self._topics
        try:
            value = topics.member(LOGICAL_QUEUES_MAP_MEMBER)
            kept = logical_queues_by_topic({LOGICAL_QUEUES_MAP_MEMBER: value}) or {}
            self.journal.load(self._document.load(after_crash=True))
        except RemoteProtocolError as error:
            raise ConfigInvalid(f"the mapping of logical queues: {error}") from error
        for topic, queues in kept.items():
            if topics.get(topic) is None:  # a crash came between the two halves of its deletion
                self.emptied.add(topic)
                continue
            segments = (self._readdressed(segment) for segment in queues.segments)
            self.mappings[topic] = mapping = TopicMapping(topic, self.broker_name, segments)
            self.in_use.set()
            self._note_destinations(mapping)
            for segment in mapping.own():
                self._check(segment)
                self.note_expired(segment)
        for migration in self.journal.all():
            self._check_migration(migration)

    def _readdressed(self, segment: Segment) -> Segment:
        """An own segment with the address of today."""
        is_own = segment.broker_name == self.broker_name
        return segment.with_address(self.address) if is_own else segment

    def _check(self, segment: Segment) -> None:
        """A log that lost its end must not get other messages at the offsets that it had."""
        end = self.end_offset(segment.topic, segment.queue_id)
        needed = segment.offset_max if segment.is_sealed else segment.offset_delta
        if end < needed and segment.state is not SegmentState.EXPIRED:
            self.alarm(segment, f"its queue ends at {end}: messages up to {needed} are lost")

    def _check_migration(self, migration: Migration) -> None:
        """What was being sealed when the broker went down is open, unless the mapping has it."""
        topic, index = migration.queue
        mapping = self.mappings.get(topic)
        target = mapping and mapping.find(migration.target.key)
        if target is None or target.delta < 0:
            LOGGER.warning("the migration of %s was interrupted; it stays open", migration.source)
            self.journal.remove(topic, index)
        elif migration.phase is Phase.SEALING:
            self.journal.put(
                Migration(migration.source, target, Phase.PREPARED, migration.started_ms)
            )


def waiting_queue(topic: str) -> str:
    """What a pull is parked on that no message, only a change of the mapping, can answer."""
    return _WAITING + topic


async def _nothing(topic: str) -> None:
    """What nobody looks after."""
