"""The outcomes of migrations, as their source finds them out and acts on them.

A sealed source may not know whether its destination was opened: an answer was lost, a tool died.
It asks the destination's broker, and then opens the destination, or itself again where the
migration was called off. Source: RocketMQ 5.0.0-PREVIEW has nothing like it.
"""

from typing import final

from attrs import define

from lanemq.local import get_logger
from lanemq.wire import Refused, RequestCode
from lanemq.wire.logical import Chain, LogicalQueues, MigrateLogicalQueue, Segment, SegmentState

from ....logical.rules._journal import Migration, Phase
from ....logical.rules._mapping import TopicMapping
from ....logical.rules._migration import is_closed_end, took_place
from ....logical.rules._view import merged, reopened, went_on, without_destination
from ..state._progress import LogicalProgress
from ..state._state import LogicalState
from ..state._view import LogicalView

LOGGER = get_logger("lanemq.proxy.broker.logical", by_peers=True)


@final
@define(eq=False, kw_only=True, repr=False)
class Outcomes:
    """The migrations of which this broker has the source."""

    _logical: LogicalState
    _logical_progress: LogicalProgress
    _view: LogicalView

    async def look_at_noted(self, migration: Migration) -> None:
        """Remove a migration that is over from the journal.

        One that was called off is decided here if the mapping has its destination no more: the
        message queue can be another migration's destination before this one's source knows.
        """
        mapping = self._logical.mappings.get(migration.source.topic)
        is_there = self._logical.journal.get(*migration.queue) is migration
        if not is_there or migration.phase is not Phase.PREPARED or mapping is None:
            return
        chain = mapping.chain(migration.source.logical_index)
        target, source = chain.find(migration.target.key), chain.find(migration.source.key)
        if target is not None and target.state is SegmentState.WRITE_ONLY:
            return  # ``look`` finds it there
        if target is None and source is not None and _ends_at(chain, source):
            await self.find(mapping, source, migration.target)
        else:
            await self._logical.remove_migration(*migration.queue)

    async def find(self, mapping: TopicMapping, source: Segment, target: Segment) -> None:
        """Decide a migration at its source: open the destination, or learn that it is open, or
        gone."""
        index = target.logical_index
        noted = self._logical.journal.get(target.topic, index)
        if noted is not None and noted.target.key != target.key:
            noted = None
        account = await self._view.chain_at(target)
        now = account.find(target.key)
        is_open = took_place(target, account)
        if not is_open and (now is None or now.state is SegmentState.EXPIRED):
            listed = (await self._view.of(target.topic)).get(index, Chain(index))
            if not went_on(listed, source, target):
                await self._go_on_here(source, target, noted)
                return
            account = listed
        elif not is_open:
            code = RequestCode.MIGRATE_TOPIC_LOGICAL_QUEUE_COMMIT
            progress = self._logical_progress.of(mapping, source)
            move = MigrateLogicalQueue(source, target, progress)
            done = await self._view.ask_step(code, target, move)
            if done is None or done.destination is None:
                return
            now = done.destination
            LOGGER.warning("%s was opened by its source", now)
        others = LogicalQueues.of(account)

        def change(mapping: TopicMapping) -> TopicMapping:
            known = without_destination(mapping, target) if now is None else mapping.put(now)
            return merged(known, others)

        await self._logical.change(target.topic, change)
        await self._remove(noted)

    async def _remove(self, noted: Migration | None) -> None:
        """Remove a migration from the journal, unless another one is there by now."""
        if noted is not None and self._logical.journal.get(*noted.queue) is noted:
            await self._logical.remove_migration(*noted.queue)

    def source_of(self, mapping: TopicMapping, target: Segment) -> Segment | None:
        """Return the own segment from which a queue went on."""
        noted = self._logical.journal.get(target.topic, target.logical_index)
        if noted is not None and noted.target.key == target.key:
            return mapping.find(noted.source.key)
        return mapping.source_of(target)

    async def _go_on_here(self, source: Segment, target: Segment, noted: Migration | None) -> None:
        """Reopen the source of a migration that was called off."""
        again = source

        def change(mapping: TopicMapping) -> TopicMapping:
            nonlocal again
            chain = mapping.chain(source.logical_index)
            there = chain.find(target.key)
            is_as_it_was = _ends_at(chain, source) if there is None else there == target
            if chain.find(source.key) != source or not is_as_it_was:
                return mapping  # somebody was faster
            changed, again = reopened(mapping, source, target)
            return changed

        await self._logical.change(source.topic, change)
        await self._remove(noted)
        if again is source:
            return
        LOGGER.warning("the migration to %s was called off: %s goes on", target, again)
        try:  # so that it can send on producers that had heard of it
            code = RequestCode.MIGRATE_TOPIC_LOGICAL_QUEUE_NOTIFY
            await self._view.ask_step(code, target, MigrateLogicalQueue(target, again))
        except Refused as error:
            LOGGER.info("%s was not told: %s", target, error.remark)


def _ends_at(chain: Chain, source: Segment) -> bool:
    """Return whether a queue has no end but ``source``, which is sealed."""
    return is_closed_end(chain, source) and chain.write_only is None
