"""Reconciliation: brokers complete abandoned migrations and update stale views by themselves.

Tools die, answers are lost, brokers are away. What one broker has written down is enough for it
to find out from the others what became of a migration, and to take the steps that are left:

- a source that is sealed asks the destination: it is opened, found open, or was called off
- a destination that does not know its place asks the brokers of the queue whether one does
- whoever else has heard of a destination asks its broker what became of it
- an open segment that another broker's follows was superseded while its broker was away
- one whose messages a destination took meanwhile is sealed: what came later is there
- copies of others' segments follow what name servers list

Source: RocketMQ 5.0.0-PREVIEW has nothing like it.
"""

from typing import Final, final

import trio

from lanemq.local import get_logger
from lanemq.wire import Refused, RequestCode
from lanemq.wire.logical import (
    Chain,
    LogicalQueues,
    MigrateLogicalQueue,
    Segment,
    SegmentKey,
    SegmentState,
)

from ....logical.rules._gate import Key
from ....logical.rules._mapping import TopicMapping
from ....logical.rules._migration import Move
from ....logical.rules._view import destinations, is_settled, merged, rivals, unlisted, with_expired
from ...settings._config import BrokerConfig
from ..state._state import LogicalState
from ..state._view import LogicalView, hosts
from ._deleted_topics import DeletedTopics
from ._migrate import Migrations
from ._outcomes import Outcomes
from ._start import Heard
from ._superseded_segments import SupersededSegments

LOGGER = get_logger("lanemq.proxy.broker.logical", by_peers=True)

UNHEARD_S: Final = 60.0
"""Seconds after which a broker that name servers do not list, and that does not answer, will not
come back by itself: brokers register every 30 s at the latest."""
VIEWS_EVERY: Final = 10
"""Number of looks between questions to name servers; migrations are looked at every time."""


@final
class Reconciler:
    """The reconciler of one broker's logical queues; ``run`` is its task."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        deleted_topics: DeletedTopics,
        logical: LogicalState,
        migrations: Migrations,
        outcomes: Outcomes,
        superseded_segments: SupersededSegments,
        view: LogicalView,
    ) -> None:
        self._config = config
        self._deleted_topics = deleted_topics
        self._logical = logical
        self._migrations = migrations
        self._outcomes = outcomes
        self._superseded_segments = superseded_segments
        self._view = view
        self._unlisted_since: dict[str, dict[SegmentKey, float]] = {}
        """Topic -> segment whose broker does not answer -> time from which no name server listed
        it."""
        self._settled: dict[str, TopicMapping] = {}
        """Topic -> its mapping, in which nothing is left to do."""

    async def run(self) -> None:
        """Look for work periodically, until cancelled."""
        interval_s = self._config.logical_queue_reconcile_interval / 1000
        looks = 0
        await self._logical.in_use.wait()
        while True:
            await trio.sleep(interval_s)
            looks += 1
            if looks % VIEWS_EVERY == 0:
                await self._views()
            await self._complete()

    # Migrations under way

    async def _complete(self) -> None:
        away: set[str] = set()
        for migration in self._logical.journal.all():
            if migration.target.broker_name in away:
                continue
            try:
                await self._outcomes.look_at_noted(migration)
            except Refused as error:
                LOGGER.info("%s has to wait: %s", migration.target, error.remark)
                away.add(migration.target.broker_name)
        await self._look_at_all()
        away = set()
        for key, move in list(self._logical.untold.items()):
            if key.broker_name not in away and not await self._told_superseded(key, move):
                away.add(key.broker_name)

    async def _look_at_all(self) -> None:
        """Look at the topics that have changed since nothing was to do there, one in a turn."""
        mappings, settled = self._logical.mappings, dict[str, TopicMapping]()
        for topic in list(mappings):
            mapping = mappings.get(topic)
            if mapping is not None and self._settled.get(topic) is not mapping:
                await trio.lowlevel.checkpoint()
                if not is_settled(mapping):
                    await self.look(topic)
                    continue
            if mapping is not None:
                settled[topic] = mapping
        self._settled = settled

    async def _told_superseded(self, key: SegmentKey, move: Move) -> bool:
        """Tell a superseded broker, as soon as it can be reached, since it may still take
        messages; return whether it knows now."""
        code = RequestCode.MIGRATE_TOPIC_LOGICAL_QUEUE_NOTIFY
        try:
            await self._view.ask_step(code, move.source, MigrateLogicalQueue(*move))
        except Refused as error:
            LOGGER.info(
                "%s does not know yet that it was superseded: %s", move.source, error.remark
            )
            return False
        self._logical.untold.pop(key, None)
        return True

    async def look(self, topic: str) -> None:
        """Complete a topic's migrations as far as possible."""
        mapping = self._logical.mappings.get(topic)
        for own, rival in rivals(mapping, LogicalQueues()) if mapping is not None else ():
            await self._superseded_segments.close_if_superseded(own, rival)
        mapping = self._logical.mappings.get(topic)
        for chain in mapping.queues.values() if mapping is not None else ():
            assert mapping is not None
            for target in chain.all_of(SegmentState.WRITE_ONLY):
                try:
                    await self._look_at(mapping, target)
                except Refused as error:
                    LOGGER.info("%s has to wait: %s", target, error.remark)

    async def _look_at(self, mapping: TopicMapping, target: Segment) -> None:
        """Take the step that is this broker's to take for a destination that waits."""
        if mapping.is_own(target) and target.delta < 0:
            await self._find_place(mapping, target)
            return
        source = self._outcomes.source_of(mapping, target)
        if source is None:
            if not mapping.is_own(target):
                await self._ask_owner(target)
        elif mapping.is_own(target):
            await self._migrations.commit(MigrateLogicalQueue(source, target))
        else:
            await self._outcomes.find(mapping, source, target)

    async def _ask_owner(self, copy: Segment) -> None:
        """Take over what a destination's broker says of it, at a broker with no part in the
        migration.

        That is how it is, unless it waits there, too: then its source decides.
        """
        account = await self._view.chain_at(copy)
        now = account.find(copy.key)
        if now is not None and now.state is SegmentState.WRITE_ONLY:
            return

        def change(mapping: TopicMapping) -> TopicMapping:
            if mapping.find(copy.key) != copy:
                return mapping  # somebody was faster
            changed = mapping.without(copy.key) if now is None else mapping.put(now)
            return merged(changed, LogicalQueues.of(account))

        await self._logical.change(copy.topic, change)

    async def _find_place(self, mapping: TopicMapping, target: Segment) -> None:
        """Find the begin of a destination on this broker: another broker of the queue may know
        it."""
        index = target.logical_index
        view = (await self._view.of(mapping.topic)).get(index) or Chain(index)
        for host in hosts(mapping, view):
            account = await self._view.chain_at(host)
            there = account.find(target.key)
            if there is None or there.delta < 0:
                continue
            source = next((s for s in account if s.end_offset == there.delta), None)
            if source is not None and source.key != target.key:
                # With its number: that is what others know the migration by.
                placed = target.with_delta(there.delta).with_migration(there.migration)
                await self._migrations.commit(MigrateLogicalQueue(source, placed))
                LOGGER.warning("%s found its place: %d", target, there.delta)
                return

    # Views

    async def _views(self) -> None:
        for topic in list(self._logical.mappings):
            await self.view(topic)

    async def view(self, topic: str) -> Heard:
        """Take over what name servers list of a topic, and what the brokers there say."""
        mapping = self._logical.mappings.get(topic)
        if mapping is None or not mapping.queues:
            return Heard()
        view, is_unlisted = await self._view.listing_of(topic)
        if await self._deleted_topics.ended(topic, view):
            return Heard()
        unanswered: dict[Key, Segment] = {}
        try:
            await self._logical.take_over_brokers(topic)
        except Refused as error:
            LOGGER.error(
                "%s: the number of brokers at which it is seen cannot be kept: %s",
                topic,
                error.remark,
            )
        await trio.lowlevel.checkpoint()
        for own, rival in rivals(mapping, view):
            listed = view.get(own.logical_index)
            is_listed = listed is not None and listed.find(rival.key) is not None
            if not await self._superseded_segments.close_if_superseded(own, rival) and is_listed:
                unanswered[topic, own.queue_id] = rival
        await trio.lowlevel.checkpoint()
        for own, target in destinations(mapping, view):
            try:
                await self._make_way(own, target)
            except Refused as error:
                LOGGER.info("the migration to %s cannot be completed: %s", target, error.remark)
        try:
            await self._follow(topic, view)
        except Refused as error:
            LOGGER.error("%s: the state at other brokers cannot be stored: %s", topic, error.remark)
        return Heard(unanswered, is_unlisted)

    async def _follow(self, topic: str, view: LogicalQueues) -> None:
        """Update copies of others' segments to what name servers list."""
        mapping = await self._logical.change(topic, lambda mapping: merged(mapping, view))
        await trio.lowlevel.checkpoint()
        gone = await self._without_messages(topic, unlisted(mapping, view))
        if gone:
            await self._logical.change(topic, lambda mapping: with_expired(mapping, gone))

    async def _without_messages(self, topic: str, segments: list[Segment]) -> set[SegmentKey]:
        """Return which of others' segments nobody can read any more.

        Name servers list none of them, and may have just started: the broker of a segment is
        asked. If it does not answer, name servers would list it within ``UNHEARD_S``.
        """
        now_s, known = trio.current_time(), self._unlisted_since.pop(topic, {})
        gone: set[SegmentKey] = set()
        since: dict[SegmentKey, float] = {}
        for segment in segments:
            try:
                now = (await self._view.chain_at(segment)).find(segment.key)
            except Refused:
                since[segment.key] = begun_s = known.get(segment.key, now_s)
                if now_s - begun_s >= UNHEARD_S:
                    gone.add(segment.key)
            else:
                if now is None or not now.is_readable:
                    gone.add(segment.key)
        if since:
            self._unlisted_since[topic] = since
        return gone

    async def _make_way(self, own: Segment, target: Segment) -> None:
        """Continue a migration whose destination took messages while this broker was away.

        Those have no place yet. If the own segment took another one first, the messages of a
        producer that was at both would change their order.
        """
        now = (await self._view.chain_at(target)).find(target.key)
        if now is None or now.state is not SegmentState.WRITE_ONLY or now.delta >= 0:
            return
        await self._migrations.prepare(Move(own, now))
        LOGGER.warning("%s continues at %s, where clients are already", own, target)
