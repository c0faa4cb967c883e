"""Removal of the states and bases of partitions that have moved to other brokers."""

from typing import Final, final

import trio
from attrs import define

from lanemq.local import get_logger
from lanemq.storage import KvStates
from lanemq.storage.kv import NO_QUEUE

from ._fetching import StateFetcher
from ._partitions import Partitions

LOGGER: Final = get_logger("lanemq.proxy.kv", by_peers=True)
ASK_AGAIN_S: Final = 2.0
"""Seconds between questions whether a partition that has left is open where it went."""


@final
@define(eq=False, kw_only=True, repr=False)
class Leftovers:
    """The states at one broker that follow no log any more; ``run`` is its task."""

    _broker_name: str
    _fetcher: StateFetcher
    _partitions: Partitions
    _states: KvStates

    async def run(self) -> None:
        """Remove states, until cancelled."""
        await self._states.in_use.wait()
        while True:
            await trio.sleep(ASK_AGAIN_S)  # another broker opens it, and tells nobody
            await self.remove_unneeded()
            await self._remove_bases()

    async def remove_unneeded(self) -> None:
        """Remove states whose partitions are open elsewhere."""
        for name, state in list(self._states.states.items()):
            end = self._partitions.end_of(name)
            if state.meta.queue_id != NO_QUEUE or end is None:
                continue
            if end.broker_name == self._broker_name or not await self._fetcher.is_open_at(
                name, end, state.meta.partitions
            ):
                continue
            if self._states.states.get(name) is state and state.meta.queue_id == NO_QUEUE:
                try:
                    self._states.kept.drop(name)
                except OSError as error:
                    LOGGER.error("rows of partition %s cannot be removed: %s", name, error)
                else:
                    LOGGER.info("partition %s is at %s now", name, end.broker_name)

    async def _remove_bases(self) -> None:
        """Remove bases of partitions that are open elsewhere, and of which no rows are here."""
        bases = self._states.kept.bases
        for name, base in list(bases.known.items()):
            end = self._partitions.end_of(name)
            if end is None or end.broker_name == self._broker_name or name in self._states.states:
                continue
            is_open = await self._fetcher.is_open_at(name, end, base.partitions)
            if is_open and bases.known.get(name) is base and name not in self._states.states:
                try:
                    await bases.remove(name)
                except OSError as error:
                    LOGGER.error("the base of partition %s cannot be removed: %s", name, error)
