"""Removal of the states of partitions that have moved to other brokers."""

import logging
from typing import Final, final

import trio
from attrs import define

from lanemq.storage import KvStates
from lanemq.storage.kv import NO_QUEUE

from ._fetching import StateFetcher
from ._partitions import Partitions

LOGGER: Final = logging.getLogger("lanemq.proxy.kv")
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
