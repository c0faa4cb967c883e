"""The logical queues of one broker: read in memory, and durable before anyone relies on a change.

A change is made of the mapping as it is, written durably, and only then visible: nobody is sent
anywhere by a state that a crash could take back. Changes come one after another; readers and
writers of messages never wait for them.
"""

from collections.abc import Awaitable, Callable
from typing import Final, final

import trio

from lanemq.local import get_logger
from lanemq.storage import ConfigInvalid, Store, disk_problem
from lanemq.wire import RemoteProtocolError
from lanemq.wire.bodies import TopicConfig
from lanemq.wire.logical import (
    LogicalQueues,
    Segment,
    SegmentKey,
    SegmentState,
)

from ....logical.rules._gate import Gate
from ....logical.rules._journal import JOURNAL_FILE, Journal, Migration, Phase
from ....logical.rules._mapping import TopicMapping, touched
from ....logical.rules._migration import Move
from ....logical.rules._refusals import refusal
from ._counters import LogicalCounters
from ._operations import Operations
from ._segment_times import SegmentTimes
from ._stored_mappings import StoredMappings

LOGGER = get_logger("lanemq.proxy.broker.logical", by_peers=True)

_WAITING: Final = "%LOGICAL%"

Change = Callable[[TopicMapping], TopicMapping]


@final
class LogicalState:
    """The state: mappings, gate and journal. ``changed`` is called with a topic and its queues to
    wake."""

    def __init__(
        self,
        store: Store,
        *,
        broker_name: str,
        address: str,
        now_s: Callable[[], float],
        changed: Callable[[str, set[int]], None],
        brokers: int = 1,
    ) -> None:
        self.broker_name = broker_name
        self.address = address
        self.mappings: dict[str, TopicMapping] = {}
        """Topic -> mapping; a missing topic has no logical queues."""
        self.in_use = trio.Event()
        """Event that is set once there is a mapping; until then there is nothing to look after."""
        self.next_change = trio.Event()
        """Event that is set with the next change of any mapping, and another one from then on."""
        self.gate = Gate()
        self.journal = Journal()
        self.counters = LogicalCounters()
        self.times = SegmentTimes(now_s)
        self._operations = Operations()
        self.operation = self._operations.hold
        """Holds a logical queue exclusively; see ``Operations.hold``."""
        self.untold: dict[SegmentKey, Move] = {}
        """Others' segments that an operator has superseded, and whose brokers may not know it."""
        self.brokers: dict[str, int] = {}
        """Topic -> number of brokers at which older clients see its logical queues; 0 for one of
        which this broker only got a part, until it hears of it."""
        self.brokers_heard: dict[str, int] = {}
        """The same according to name servers."""
        self.emptied: set[str] = set()
        """Topics that no longer have logical queues, which name servers have to be told."""
        self.java_settings: dict[str, str] = {}
        """Name server -> topics whose logical queues it shows to Java clients."""
        self.look_again: Callable[[str], Awaitable[None]] = _nothing
        """Finds the outcome of a topic's migrations. Set by ``LogicalParts``, as ``forgotten``."""
        self.why_it_stays: Callable[[str, int], str] = lambda topic, index: ""
        """Returns the reason why a logical queue cannot go from here now; empty where it can:
        states of keys have to arrive before they go on. Set by ``Broker``."""
        self.forgotten: Callable[[], Awaitable[None]] = _nothing
        """Makes it last that a topic was deleted."""
        self._brokers_set = brokers
        self._topics = store.tables.topics
        self._kept = StoredMappings(self._topics)
        self._store = store
        self._document = store.document(JOURNAL_FILE)
        self._changed = changed
        self._keeping = trio.Lock()
        self._load()

    # Reading

    def get(self, topic: str) -> TopicMapping | None:
        """Return the mapping of a topic; None where it has no logical queues."""
        return self.mappings.get(topic)

    def queues(self, topic: str) -> LogicalQueues | None:
        """Return everything known of a topic, in the form told to others."""
        mapping = self.mappings.get(topic)
        return None if mapping is None else mapping.queues

    def known_queues(self) -> dict[str, LogicalQueues]:
        """Return everything known of every topic; the own segments are registered."""
        emptied = {topic: LogicalQueues() for topic in sorted(self.emptied)}
        return emptied | {topic: mapping.queues for topic, mapping in self.mappings.items()}

    def is_removed(self, segment: Segment) -> bool:
        """Return whether no message of an own sealed segment is left in the log.

        A message without a unit in the index does not tell: it may be damaged, or a crash may have
        taken it, and the messages before it are there.
        """
        return segment.offset_max <= self._store.bounds(segment.topic, segment.queue_id)[0]

    def is_new(self, segment: Segment) -> bool:
        """Return whether clients may not know an own segment yet."""
        return self.times.is_new(segment)

    def end_offset(self, topic: str, queue_id: int) -> int:
        """Return the offset that the next message of a message queue gets."""
        return self._store.bounds(topic, queue_id)[1]

    # Changes

    async def change(
        self, topic: str, change: Change, *, config: Callable[[], TopicConfig] | None = None
    ) -> TopicMapping:
        """Apply ``change`` to a topic's mapping (an empty one where there is none).

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
                    if not before.queues:
                        await self._keep_brokers(topic, self._brokers_of_new(new))
                    await self._kept.write(self.mappings | {topic: new}, settings)
                self.mappings[topic] = new
                self.in_use.set()
                self.emptied.discard(topic)
                self.times.note(new, before)
                self._changed(topic, touched(before, new))
                this_change, self.next_change = self.next_change, trio.Event()
                this_change.set()
        return new

    async def forget(self, topic: str) -> None:
        """Remove the logical queues of a topic. Raises ``Refused`` as ``change``."""
        async with self._keeping:
            old = self.mappings.get(topic)
            self.brokers_heard.pop(topic, None)  # of a topic that is no longer
            if old is not None:
                rest = {name: value for name, value in self.mappings.items() if name != topic}
                with trio.CancelScope(shield=True):
                    await self._kept.write(rest, None)
                del self.mappings[topic]
                self.brokers.pop(topic, None)
                self.emptied.add(topic)
                self._changed(topic, set(old.queue_ids))
        await self.forgotten()

    def _brokers_of_new(self, mapping: TopicMapping) -> int:
        """Return the number of brokers for a topic's first logical queues; where these began
        elsewhere, what name servers tell, or 0 until they have."""
        begins = any(s.state is SegmentState.NORMAL and not s.delta for s in mapping.own())
        return self._brokers_set if begins else self.brokers_heard.get(mapping.topic, 0)

    async def take_over_brokers(self, topic: str) -> None:
        """Keep the number of brokers that name servers tell for a topic: all brokers must tell the
        same.

        Raises ``Refused`` where it cannot be written.
        """
        heard = self.brokers_heard.get(topic)
        if heard and topic in self.mappings and heard != self.brokers.get(topic, 1):
            async with self._keeping:
                with trio.CancelScope(shield=True):
                    await self._keep_brokers(topic, heard)
                self._changed(topic, set())

    async def _keep_brokers(self, topic: str, brokers: int) -> None:
        known = self.brokers | {topic: brokers}
        await self._kept.write_brokers(known)
        self.brokers = known

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
            raise refusal(f"the journal cannot be written: {disk_problem(error)}") from error

    async def remove_migration(self, topic: str, index: int) -> None:
        """Remove a finished migration from the journal; it may come back after a crash."""
        if self.journal.remove(topic, index):
            try:
                await self._keep_journal()
            except OSError as error:
                LOGGER.warning("the journal of migrations cannot be written: %s", error)

    async def _keep_journal(self) -> None:
        with trio.CancelScope(shield=True):
            self._document.write(self.journal.to_json())
            await self._document.sync()

    def is_busy(self, topic: str) -> bool:
        """Return whether any logical queue of a topic is being migrated."""
        mapping = self.mappings.get(topic)
        return self._operations.has(topic) or (
            mapping is not None
            and any(segment.state is SegmentState.WRITE_ONLY for segment in mapping)
        )

    def alarm(self, segment: Segment, text: str) -> None:
        """Tell the operator of a problem that no retry can repair."""
        if self.counters.alarms.get(segment.key) != text:
            LOGGER.critical("%s: %s", segment, text)
            self.counters.alarms[segment.key] = text

    # The start

    def _load(self) -> None:
        try:
            kept, brokers = self._kept.load()
            self.journal.load(self._document.load(after_crash=True))
        except RemoteProtocolError as error:
            raise ConfigInvalid(f"the mapping of logical queues: {error}") from error
        self.brokers = brokers
        for topic, queues in kept.items():
            if (
                self._topics.get(topic) is None
            ):  # a crash came between the two halves of its deletion
                self.emptied.add(topic)
                continue
            known = LogicalQueues.of(map(self._readdressed, queues.segments))
            self.mappings[topic] = mapping = TopicMapping(topic, self.broker_name, known)
            self.in_use.set()
            self.times.note(mapping, None)
            for segment in mapping.own():
                self._check(segment)
                is_open_past = segment.is_forced and segment.is_writable
                source = mapping.before(segment) if is_open_past else None
                if source is not None and not mapping.is_own(source):
                    self.untold[source.key] = Move(source, segment)
        for migration in self.journal.all():
            self._check_migration(migration)

    def _readdressed(self, segment: Segment) -> Segment:
        """Return an own segment with the broker's present address."""
        is_own = segment.broker_name == self.broker_name
        return segment.with_address(self.address) if is_own else segment

    def _check(self, segment: Segment) -> None:
        """Check that a log which lost its end does not give its offsets to other messages."""
        end = self.end_offset(segment.topic, segment.queue_id)
        needed = segment.offset_max if segment.is_sealed else segment.offset_delta
        if end < needed and segment.state is not SegmentState.EXPIRED:
            self.alarm(segment, f"its queue ends at {end}: messages up to {needed} are lost")

    def _check_migration(self, migration: Migration) -> None:
        """Reopen a segment that was being sealed at a crash, unless the mapping has it sealed.

        One that was prepared stays, although the mapping may have its destination no more: its
        outcome is found out.
        """
        topic, index = migration.queue
        mapping = self.mappings.get(topic)
        source = mapping and mapping.find(migration.source.key)
        if migration.phase is Phase.PREPARED and source is not None and source.is_sealed:
            return
        target = mapping and mapping.find(migration.target.key)
        if target is None or target.delta < 0:
            LOGGER.warning("the migration of %s was interrupted; it stays open", migration.source)
            self.journal.remove(topic, index)
        elif migration.phase is Phase.SEALING:
            self.journal.put(
                Migration(migration.source, target, Phase.PREPARED, migration.started_ms)
            )


def waiting_queue(topic: str) -> str:
    """Return the queue for parking a pull that only a change of the mapping can answer."""
    return _WAITING + topic


async def _nothing(*_: str) -> None:
    """Do nothing: the default callback."""
