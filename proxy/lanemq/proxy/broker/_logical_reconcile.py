"""Migrations that nobody completes, and views that are behind: put right by the brokers alone.

Tools die, answers are lost, brokers are away. What one broker has written down is enough for it
to find out from the others what became of a migration, and to take the steps that are left:

- a source that is sealed asks the destination: it is opened, found open, or was called off
- a destination that does not know its place asks the brokers of the queue whether one does
- an open segment that another broker's follows was superseded while its broker was away
- one whose messages a destination took meanwhile is sealed: what came later is there
- copies of others' segments follow what name servers list

Source: RocketMQ 5.0.0-PREVIEW has nothing like it.
"""

import logging
from typing import Final, final

import trio

from lanemq.wire import Refused, RequestCode
from lanemq.wire.logical import (
    Chain,
    LogicalQueues,
    MigrateLogicalQueue,
    Segment,
    SegmentState,
)

from ..logical import (
    Move,
    Phase,
    TopicMapping,
    destinations,
    is_superseded,
    merged,
    reopened,
    rivals,
    superseded_end,
    without_forgotten,
)
from ._context import BrokerContext
from ._logical_migrate import commit, prepare
from ._logical_seal import as_sealed, sealing
from ._logical_view import account_of, ask_step, view_of

LOGGER = logging.getLogger("lanemq.proxy.broker.logical")

VIEWS_EVERY: Final = 10
"""Name servers are asked every so many looks; migrations under way are looked at every time."""
START_S: Final = 5.0
"""How long a start waits to hear whether other brokers took over meanwhile."""


@final
class Reconciler:
    """Looks after the logical queues of one broker; ``run`` is its task."""

    def __init__(self, broker: BrokerContext) -> None:
        self._broker = broker
        self._logical = broker.logical
        self._logical.look_again = self._look

    async def check_start(self) -> None:
        """Before anyone may write: hear of queues that went on elsewhere in the meantime."""
        with trio.move_on_after(START_S) as waiting:
            await self._views()
        if waiting.cancelled_caught:
            LOGGER.warning("others do not say whether they took over any logical queue")

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        interval_s = self._broker.config.logical_queue_reconcile_interval / 1000
        looks = 0
        await self._logical.in_use.wait()
        while True:
            await trio.sleep(interval_s)
            looks += 1
            if looks % VIEWS_EVERY == 0:
                await self._views()
            await self._migrations()

    # Migrations under way

    async def _migrations(self) -> None:
        for migration in self._logical.journal.all():
            known = self._logical.mappings.get(migration.source.topic)
            target = known.find(migration.target.key) if known is not None else None
            is_open = target is not None and target.state is not SegmentState.WRITE_ONLY
            if migration.phase is Phase.PREPARED and is_open:
                await self._logical.strike(*migration.queue)
        for topic in list(self._logical.mappings):
            await self._look(topic)

    async def _look(self, topic: str) -> None:
        """Complete what can be completed of a topic's migrations."""
        mapping = self._logical.mappings.get(topic)
        for chain in mapping.chains.values() if mapping is not None else ():
            assert mapping is not None
            target = chain.write_only
            if target is None:
                continue
            try:
                if mapping.is_own(target) and target.delta < 0:
                    await self._find_place(mapping, target)
                else:
                    await self._find_outcome(mapping, target)
            except Refused as error:
                LOGGER.info("%s has to wait: %s", target, error.remark)

    async def _find_outcome(self, mapping: TopicMapping, target: Segment) -> None:
        """As the source: open the destination, or learn that it is, or that it is no more."""
        source = self._source(mapping, target)
        if source is None:
            return
        if mapping.is_own(target):
            await commit(self._broker, MigrateLogicalQueue(source, target))
            return
        account = await self._account(target)
        now = account.find(target.key)
        is_known = account.find(source.key) is not None  # it was opened, and told of the source
        if now is None or (now.state is SegmentState.EXPIRED and not is_known):
            await self._go_on_here(source, target)
            return
        if now.state is SegmentState.WRITE_ONLY:
            code = RequestCode.MIGRATE_TOPIC_LOGICAL_QUEUE_COMMIT
            done = await ask_step(self._broker, code, target, Move(source, target))
            if done is None or done.destination is None:
                return
            now = done.destination
            LOGGER.warning("%s was opened by its source", now)
        others = LogicalQueues.of(account)
        await self._logical.change(target.topic, lambda mapping: merged(mapping.put(now), others))
        await self._logical.strike(target.topic, target.logical_index)

    def _source(self, mapping: TopicMapping, target: Segment) -> Segment | None:
        """The own segment that a queue went on from."""
        noted = self._logical.journal.get(target.topic, target.logical_index)
        if noted is not None and noted.target.key == target.key:
            return mapping.find(noted.source.key)
        chain = mapping.chain(target.logical_index).segments
        own = (s for s in reversed(chain) if mapping.is_own(s) and s.end_offset == target.delta)
        return next(own, None)

    async def _go_on_here(self, source: Segment, target: Segment) -> None:
        """The migration was called off: what was the source is open again."""
        again = source

        def change(mapping: TopicMapping) -> TopicMapping:
            nonlocal again
            if mapping.find(target.key) != target or mapping.find(source.key) != source:
                return mapping  # somebody was faster
            changed, again = reopened(mapping, source, target)
            return changed

        await self._logical.change(source.topic, change)
        await self._logical.strike(source.topic, source.logical_index)
        LOGGER.warning("the migration to %s was called off: %s goes on", target, again)
        try:  # so that it can send on producers that had heard of it
            code = RequestCode.MIGRATE_TOPIC_LOGICAL_QUEUE_NOTIFY
            await ask_step(self._broker, code, target, Move(target, again))
        except Refused as error:
            LOGGER.info("%s was not told: %s", target, error.remark)

    async def _find_place(self, mapping: TopicMapping, target: Segment) -> None:
        """As the destination: another broker of the queue may know where it begins."""
        index = target.logical_index
        view = (await view_of(self._broker, mapping.topic)).get(index) or Chain(index)
        for host in _hosts(mapping, view):
            account = await self._account(host)
            there = account.find(target.key)
            if there is None or there.delta < 0:
                continue
            source = next((s for s in account if s.end_offset == there.delta), None)
            if source is not None and source.key != target.key:
                await commit(
                    self._broker, MigrateLogicalQueue(source, target.with_delta(there.delta))
                )
                LOGGER.warning("%s found its place: %d", target, there.delta)
                return

    # Views

    async def _views(self) -> None:
        for topic in list(self._logical.mappings):
            mapping = self._logical.mappings.get(topic)
            if mapping is None or not mapping.chains:
                continue
            view = await view_of(self._broker, topic)
            for own, rival in rivals(mapping, view):
                try:
                    await self._settle(own, rival)
                except Refused as error:
                    LOGGER.info("%s does not say whether it took over: %s", rival, error.remark)
            for own, target in destinations(mapping, view):
                try:
                    await self._make_way(own, target)
                except Refused as error:
                    LOGGER.info("%s does not take over for good: %s", target, error.remark)
            try:
                await self._follow(topic, view)
            except Refused as error:
                LOGGER.error("%s: what others say cannot be kept: %s", topic, error.remark)

    async def _follow(self, topic: str, view: LogicalQueues) -> None:
        """Let copies of others' segments be as they are listed."""

        def change(mapping: TopicMapping) -> TopicMapping:
            return without_forgotten(merged(mapping, view), view)

        await self._logical.change(topic, change)

    async def _settle(self, own: Segment, rival: Segment) -> None:
        """Give way to another open segment of the same queue, if it is the rightful one."""
        account = await self._account(rival)
        if not is_superseded(own, rival, account):
            return
        logical, topic = self._logical, own.topic
        async with (
            logical.operation(topic, own.logical_index, ("supersede", own.key)),
            sealing(self._broker, own) as sealed,
        ):
            end, cut = superseded_end(own, account, sealed.offset_max)
            if end != sealed.offset_max:
                sealed = as_sealed(self._broker, own, offset_max=end)
            others = LogicalQueues.of(account)
            await logical.change(topic, lambda mapping: merged(mapping.put(sealed), others))
        logical.note_expired(sealed)
        LOGGER.warning("%s went on at %s while this broker was away", sealed, rival)
        if cut:
            logical.alarm(
                sealed,
                f"{cut} messages from {end} on have logical offsets that were given out again; "
                "they can only be read from the message queue itself",
            )

    async def _make_way(self, own: Segment, target: Segment) -> None:
        """Go on with a migration whose destination takes messages while this broker is away.

        Those have no place yet. If the own segment took another one first, the messages of a
        producer that was at both would change their order.
        """
        now = (await self._account(target)).find(target.key)
        if now is None or now.state is not SegmentState.WRITE_ONLY or now.delta >= 0:
            return
        await prepare(self._broker, Move(own, now))
        LOGGER.warning("%s goes on at %s, where clients are already", own, target)

    async def _account(self, host: Segment) -> Chain:
        """The logical queue of ``host`` as its broker tells it. Raises ``Refused``."""
        queues = await account_of(self._broker, host.broker_name, host.broker_address, host.topic)
        index = host.logical_index
        return (queues.get(index) if queues is not None else None) or Chain(index)


def _hosts(mapping: TopicMapping, view: Chain) -> list[Segment]:
    """A segment of each other broker that has a part in a logical queue."""
    found: dict[str, Segment] = {}
    for segment in (*view, *mapping.chain(view.index)):
        if not mapping.is_own(segment):
            found[segment.broker_name] = segment
    return list(found.values())
