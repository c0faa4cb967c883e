"""Removal of topics that were deleted while this broker was away, or could not be reached.

Brokers that a deletion reaches count it. One that comes back with a part of the topic asks those
that had a part of it too: if a topic of that name is there that was made after more deletions, or
if it was deleted at all of them, its own part is one of the deleted topic, and goes as well. That
the topic is missing at some brokers proves nothing: it may have been deleted at these alone.
"""

from collections.abc import Callable
from typing import Final, Self, final

import trio
from attrs import define, field

from lanemq.local import get_logger
from lanemq.wire import ProtocolError, Refused, RequestCode
from lanemq.wire.frame import request
from lanemq.wire.logical import ClaimedLogicalIndices, ClaimLogicalIndices, LogicalQueues

from ...cluster._peers import Peers
from ...context._context import BrokerContext
from ..state._state import LogicalState
from ._indices import LogicalIndices

LOGGER = get_logger("lanemq.proxy.broker.logical", by_peers=True)

ASK_S: Final = 2.0


@final
@define(eq=False, kw_only=True, repr=False)
class DeletedTopics:
    """Finds the topics of this broker that were deleted elsewhere, and removes them here."""

    _broker_name: str
    _delete_topic: Callable[[str], None]
    _indices: LogicalIndices
    _logical: LogicalState
    _peers: Peers
    _alive: set[str] = field(factory=set, init=False)
    """Topics of which another broker has said that they are alive."""

    @classmethod
    def of(cls, broker: BrokerContext, indices: LogicalIndices) -> Self:
        """Return the one of ``broker``."""
        return cls(
            broker_name=broker.config.broker_name,
            delete_topic=broker.delete_topic,
            indices=indices,
            logical=broker.logical,
            peers=broker.peers,
        )

    async def ended(self, topic: str, view: LogicalQueues) -> bool:
        """Delete a topic if it is a deleted one; return whether it was.

        ``view`` is what name servers list of it.
        """
        kept, own_name = self._indices.of(topic), self._broker_name
        if kept is None or not kept.claims:
            return False  # it got its part without a claim: nothing can be compared
        names = {segment.broker_name for segment in view.segments}
        if topic in self._alive and own_name in names:
            return False  # a deletion would have taken it off the name servers
        deletions = await self._deletions(topic, kept, (names | set(kept.brokers)) - {own_name})
        if deletions is None:
            return False
        LOGGER.warning("topic %s was deleted while this broker was away: its part goes, too", topic)
        try:
            await self._end(topic, deletions)
        except Refused as error:
            LOGGER.error("%s cannot be deleted yet: %s", topic, error.remark)
            return False
        return True

    async def _deletions(
        self, topic: str, kept: ClaimedLogicalIndices, names: set[str]
    ) -> int | None:
        """Return how often the topic was deleted, if that was more often than is known here."""
        said: list[ClaimedLogicalIndices] = []
        silent: list[str] = []

        async def ask(name: str) -> None:
            try:
                said.append(await self._ask(name, topic))
            except (Refused, ProtocolError) as error:
                LOGGER.debug("%s does not say whether %s was deleted: %s", name, topic, error)
                silent.append(name)

        async with trio.open_nursery() as nursery:
            for name in sorted(names):
                nursery.start_soon(ask, name)
        alive = [one.deletions for one in said if one.claims]
        if alive and max(alive) <= kept.deletions:
            self._alive.add(topic)
            return None
        deletions = max((one.deletions for one in said), default=0)
        if deletions <= kept.deletions:
            return None
        if not alive:
            if any(one.deletions <= kept.deletions for one in said):
                return None
            for name in silent:
                if await self._peers.is_listed(name):
                    return None  # it may have the topic
        return deletions

    async def _ask(self, name: str, topic: str) -> ClaimedLogicalIndices:
        asked = request(RequestCode.CLAIM_LOGICAL_INDICES, {}, ClaimLogicalIndices(topic).encode())
        answer = await self._peers.call(name, None, asked, ASK_S)
        if answer.code != 0:
            raise Refused(answer.code, answer.remark or "")
        return ClaimedLogicalIndices.decode(answer.body)

    async def _end(self, topic: str, deletions: int) -> None:
        self._delete_topic(topic)
        self._indices.forget(topic, deletions)
        for migration in self._logical.journal.all():
            if migration.source.topic == topic:
                await self._logical.remove_migration(*migration.queue)
        await self._logical.forget(topic)
