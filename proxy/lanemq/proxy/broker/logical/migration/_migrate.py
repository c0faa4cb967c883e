"""The three steps of a migration, requested by tools (417, 418, 419).

Source: RocketMQ 5.0.0-PREVIEW, AdminBrokerProcessor; MigrateTopicLogicalQueueCommand, which asks
for them.
"""

from collections.abc import Awaitable, Callable
from typing import final

from attrs import define

from lanemq.local import get_logger
from lanemq.wire import RequestCode
from lanemq.wire.frame import Frame
from lanemq.wire.logical import LogicalQueues, MigrateLogicalQueue, Segment, SegmentState

from ....logical.rules._journal import Migration, Phase
from ....logical.rules._mapping import TopicMapping
from ....logical.rules._migration import Move, begin_prepare, committed, notified, prepared
from ....logical.rules._refusals import NOT_ENABLED, refusal
from ....logical.rules._view import rivals
from ....net._dispatch import Handlers
from ....net._session import Session
from ....net.limits._names import check_name
from ...context._context import BrokerContext
from ...state._topics import Topics
from ..state._progress import LogicalProgress
from ..state._state import LogicalState
from ..state._view import LogicalView
from ._requests import decoded, existing
from ._seal import Seals
from ._sources import Sources

LOGGER = get_logger("lanemq.proxy.broker.logical", by_peers=True)


@final
@define(eq=False, kw_only=True, repr=False)
class Migrations:
    """The steps of migrations from and to one broker."""

    _logical: LogicalState
    _logical_progress: LogicalProgress
    _now_ms: Callable[[], int]
    _seals: Seals
    _sources: Sources
    _view: LogicalView

    async def prepare(self, asked: Move) -> Move:
        """Seal the source, which continues at the target from then on; see ``begin_prepare``.

        Raises ``Refused``; then the source is open, or another migration has it.
        """
        logical, topic, index = self._logical, asked.source.topic, asked.source.logical_index
        name = "prepare", asked.source.key, asked.target.key
        async with logical.operation(topic, index, name):
            mapping = logical.mappings[topic]
            source, done = begin_prepare(mapping, asked)
            if done is not None:
                return done
            noted = logical.journal.get(topic, index)
            last = 0 if noted is None else noted.target.migration or 0
            why = logical.why_it_stays(topic, index)
            if why:
                raise refusal(why)
            if source.is_sealed:
                end, _, is_open = await self._view.known_end(topic, index)
                if is_open or end > source.next_delta:
                    raise refusal(f"message queue {source.queue_id} not normal state")
            started_ms = self._now_ms()
            await logical.note(Migration(source, asked.target, Phase.SEALING, started_ms))
            try:
                async with self._seals.sealing(source) as sealed:
                    move = Move(sealed, asked.target)

                    def change(mapping: TopicMapping) -> TopicMapping:
                        nonlocal move
                        changed, move = prepared(mapping, sealed, asked.target, last_migration=last)
                        return changed

                    await logical.change(topic, change)
            except BaseException:  # a cancelled caller, too, leaves nothing prepared
                logical.journal.remove(topic, index)  # on the disk, it says that it never happened
                raise
            await logical.note(Migration(move.source, move.target, Phase.PREPARED, started_ms))
        LOGGER.info("%s continues at %s", *move)
        return move

    async def commit(self, asked: MigrateLogicalQueue) -> Segment:
        """Open the destination at its first logical offset; see ``committed``.

        Raises ``Refused``.
        """
        assert asked.destination is not None
        logical, target = self._logical, asked.destination
        topic, index = target.topic, target.logical_index
        async with logical.operation(topic, index, ("commit", target.key)):
            source, known_end_, last = asked.source, 0, 0
            is_forced = source is None or not source.is_sealed
            if is_forced:
                source, known_end_, last = await self._sources.gone_past(
                    source, target, is_gone=bool(asked.source_is_gone)
                )
                target = target.with_migration(None)
            is_past = is_forced and (source is None or source.broker_name != target.broker_name)
            opened = target

            def change(mapping: TopicMapping) -> TopicMapping:
                nonlocal opened
                changed, opened = committed(
                    mapping,
                    source,
                    target,
                    known_end=known_end_,
                    last_migration=last,
                    is_forced=is_past,
                )
                return changed

            mapping = logical.mappings[topic]
            if change(mapping) != mapping:
                progress = asked.progress
                if source is not None and not is_forced and target.migration is None:
                    target, progress = await self._sources.as_prepared(mapping, source, target)
                elif progress is None:
                    progress = await self._sources.progress(mapping, source, target)
                change(mapping)
                await self._logical_progress.keep(opened, progress)
            await logical.change(topic, change)
            self._logical_progress.opened(opened)
            if is_past and source is not None:
                kept = logical.mappings[topic].find(source.key)
                logical.untold[source.key] = Move(kept or source, opened)
        LOGGER.info("%s is open", opened)
        return opened

    async def notify(self, asked: Move) -> None:
        """Take note of a migration, and complete what is left of it here."""
        logical, target = self._logical, asked.target
        await logical.change(target.topic, lambda mapping: notified(mapping, asked))
        known = logical.mappings[target.topic].chain(target.logical_index).find(target.key)
        if known is not None and known.state is not SegmentState.WRITE_ONLY:
            await logical.remove_migration(target.topic, target.logical_index)
        is_rival = bool(rivals(logical.mappings[target.topic], LogicalQueues()))
        # It may have been called off, or this broker was superseded and is as open as it was.
        if is_rival or SegmentState.EXPIRED in (asked.source.state, target.state):
            await logical.look_again(target.topic)


@final
@define(eq=False, kw_only=True, repr=False)
class MigrationRequests:
    """The steps as tools ask for them."""

    _announced: Callable[[], Awaitable[None]]
    _logical: LogicalState
    _logical_progress: LogicalProgress
    _migrations: Migrations
    _topics: Topics

    async def prepare(self, frame: Frame, session: Session) -> Frame:
        asked = _decoded_move(frame)
        if asked.source is None or asked.destination is None:
            raise refusal("decode error")
        self._require_enabled(asked.source.topic)
        move = await self._migrations.prepare(Move(asked.source, asked.destination))
        await self._announced()
        mapping = self._logical.mappings[move.source.topic]
        progress = self._logical_progress.of(mapping, move.source)
        return frame.reply(body=MigrateLogicalQueue(move.source, move.target, progress).encode())

    async def commit(self, frame: Frame, session: Session) -> Frame:
        asked = _decoded_move(frame)
        assert asked.destination is not None
        self._require_enabled(asked.destination.topic)
        opened = await self._migrations.commit(asked)
        await self._announced()
        return frame.reply(body=MigrateLogicalQueue(asked.source, opened).encode())

    async def notify(self, frame: Frame, session: Session) -> Frame:
        asked = _decoded_move(frame)
        assert asked.destination is not None
        self._require_enabled(asked.destination.topic)
        source = asked.source if asked.source is not None else asked.destination
        await self._migrations.notify(Move(source, asked.destination))
        await self._announced()
        return frame.reply()

    def _require_enabled(self, topic: str) -> None:
        existing(self._topics, topic)
        if self._logical.get(topic) is None:
            raise refusal(NOT_ENABLED)


def _decoded_move(frame: Frame) -> MigrateLogicalQueue:
    """Raises ``Refused``, too, where the two ends are not of one topic: a logical queue would go on
    in a topic that another right is needed for."""
    asked = decoded(MigrateLogicalQueue, frame)
    if asked.destination is None:
        raise refusal("decode error")
    for segment in filter(None, (asked.source, asked.destination)):
        if segment.topic != asked.destination.topic:
            raise refusal(f"{segment} is of another topic than {asked.destination}")
        check_name("broker", segment.broker_name)
        check_name("broker's address", segment.broker_address or "")
    return asked


def register(handlers: Handlers, broker: BrokerContext, *, migrations: Migrations) -> None:
    """Register the steps: prepare goes to the source, commit to the destination, notify to all
    others."""
    requests = MigrationRequests(
        announced=broker.announced,
        logical=broker.logical,
        logical_progress=broker.logical_progress,
        migrations=migrations,
        topics=broker.topics,
    )
    handlers.add(RequestCode.MIGRATE_TOPIC_LOGICAL_QUEUE_PREPARE, requests.prepare)
    handlers.add(RequestCode.MIGRATE_TOPIC_LOGICAL_QUEUE_COMMIT, requests.commit)
    handlers.add(RequestCode.MIGRATE_TOPIC_LOGICAL_QUEUE_NOTIFY, requests.notify)
