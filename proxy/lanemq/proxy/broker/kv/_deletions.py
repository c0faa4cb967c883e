"""Removal of what a deleted namespace leaves at a broker: its queues, its mapping, its states.

The record that deletes a partition is in its log, and its state says so. That is durable before
anything is removed, and the rows go last: whatever a crash leaves, the next start goes on with it.
"""

from collections.abc import Awaitable, Callable
from typing import Final, Self, final

import trio
from attrs import define, field

from lanemq.local import get_logger
from lanemq.storage import KvStates, StoreError
from lanemq.wire import KV_PREFIX, Refused
from lanemq.wire.kv import kv_namespace, kv_topic, parse_partition, partition_name

from ..context._context import BrokerContext
from ..logical.state._state import LogicalState
from ._claims import Claims
from ._partitions import Partitions

LOGGER: Final = get_logger("lanemq.proxy.kv", by_peers=True)
AGAIN_S: Final = 0.5
"""Seconds until the next try after an error, or while a partition is being moved."""
LOOK_S: Final = 2.0
"""Seconds between two looks for logs of namespaces that were deleted elsewhere."""


@final
@define(eq=False, kw_only=True, repr=False)
class Deletions:
    """The deletions at one broker; ``run`` is its task."""

    _announce_all: Callable[[], None]
    _announced: Callable[[], Awaitable[None]]
    _claims: Claims
    _delete_topic: Callable[[str], None]
    _logical: LogicalState
    _partitions: Partitions
    _states: KvStates
    _news: trio.Event = field(init=False, factory=trio.Event)

    @classmethod
    def of(
        cls, broker: BrokerContext, claims: Claims, partitions: Partitions, states: KvStates
    ) -> Self:
        """Return those of ``broker``, which follow what is applied."""
        made = cls(
            announce_all=broker.announce_all,
            announced=broker.announced,
            claims=claims,
            delete_topic=broker.delete_topic,
            logical=broker.logical,
            partitions=partitions,
            states=states,
        )
        states.on_applied.append(lambda name, _: made.applied(name))
        return made

    def applied(self, name: str) -> None:
        """Note that records of a partition were applied, of which one may have deleted it."""
        state = self._states.states.get(name)
        if state is not None and state.meta.deleted:
            self._news.set()

    async def run(self) -> None:
        """Remove what deleted namespaces leave, until cancelled."""
        while True:
            self._news = trio.Event()
            is_done = await self.remove()
            with trio.move_on_after(LOOK_S if is_done else AGAIN_S):
                await self._news.wait()

    async def remove(self) -> bool:
        """Remove all that can be removed now; returns whether nothing failed."""
        is_done = True
        for namespace in sorted(self._deleted()):
            try:
                await self._remove(namespace)
            except (OSError, StoreError, Refused) as error:
                why = error.remark if isinstance(error, Refused) else error
                LOGGER.warning("namespace %s cannot be removed yet: %s", namespace, why)
                is_done = False
        return is_done

    def _deleted(self) -> set[str]:
        """Return the namespaces of which everything at this broker is deleted."""
        states = self._states.states
        deleted = {name for name, state in states.items() if state.meta.deleted}
        ends = {
            partition_name(namespace, index)
            for topic, mapping in self._logical.mappings.items()
            if (namespace := kv_namespace(topic))
            for index in mapping.queues
        }
        alive = {
            parse_partition(name)[0]
            for name in (ends | states.keys()) - deleted
            if self._partitions.ends_here(name)
        }
        return ({parse_partition(name)[0] for name in deleted} - alive) | set(self._left_overs())

    def _left_overs(self) -> list[str]:
        """Return deleted namespaces of whose logs only parts are here, that went on elsewhere."""
        return [
            namespace
            for topic, mapping in self._logical.mappings.items()
            if topic.startswith(KV_PREFIX)
            and (namespace := kv_namespace(topic))
            and not any(segment.is_writable for segment in mapping.own())
            and self._claims.is_deleted(namespace)
        ]

    async def _remove(self, namespace: str) -> None:
        """Remove a namespace from this broker. Raises ``Refused``, ``OSError``, ``StoreError``."""
        topic = kv_topic(namespace)
        if self._logical.is_busy(topic):
            return
        names = [n for n in self._states.states if parse_partition(n)[0] == namespace]
        metas = [self._states.states[name].meta for name in names]
        await self._states.flush()
        for name in list(self._states.kept.bases.known):
            if parse_partition(name)[0] == namespace:  # or a later namespace could be made of it
                await self._states.kept.bases.remove(name)
        self._delete_topic(topic)
        await self._logical.forget(topic)
        for name in names:
            self._states.kept.drop(name)
            self._partitions.followed.discard(name)
            self._partitions.waits_for.pop(name, None)
        with self._partitions.removing(names):
            await self._states.flush()  # or the rows could come back beside a later namespace
            self._announce_all()
            await self._announced()
        LOGGER.info("namespace %s of keys is deleted", namespace)
        if metas:
            count = max(meta.partitions for meta in metas) or 1
            identity = next((meta.identity for meta in metas if meta.identity), "")
            self._claims.deleted(namespace, identity, count)
