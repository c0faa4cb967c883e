"""The bases of the partitions of one broker, written from the rows that are here.

A partition that arrives has its base with its rows. One that goes on here, with the rows that
stayed, gets it before it opens. One that is open without, from before there were bases or since
the log behind its base was removed, gets one beside its work: its rows are read in short turns,
and kept if nothing was written meanwhile.
"""

import errno
from collections.abc import Mapping
from time import perf_counter
from typing import Final, final

import trio
from attrs import define, field

from lanemq.local import get_logger
from lanemq.storage import KvStates, StoreError
from lanemq.storage.kv import TURN_S, KvState, read_rows
from lanemq.wire.kv import kv_topic, parse_partition

from ...logical.rules._mapping import TopicMapping
from ._partitions import Partitions
from ._remaking import Remaker
from ._sources import beginning

LOGGER: Final = get_logger("lanemq.proxy.kv", by_peers=True)
LOOK_S: Final = 2.0
"""Seconds between two looks for partitions without a base, and until the second try for one."""
WAIT_MAX_S: Final = 600.0
"""The longest time between two tries; each is twice as long as the one before."""
PAUSE_S: Final = 0.005
"""Seconds between two turns in which rows are read, where nobody waits for them."""


@final
@define(eq=False, kw_only=True, repr=False)
class BaseKeeper:
    """The writer of bases; ``run`` is its task."""

    _broker_name: str
    _mappings: Mapping[str, TopicMapping]
    _partitions: Partitions
    _remaker: Remaker
    _states: KvStates
    _waits: dict[str, tuple[float, float]] = field(init=False, factory=dict)
    """Name of a partition whose base could not be written -> the time of the next try, and how
    long after that the one behind it is."""

    async def run(self) -> None:
        """Write the bases that are missing, until cancelled."""
        await self._states.in_use.wait()
        while True:
            await trio.sleep(LOOK_S)  # a partition that has opened tells nobody
            await self.look()

    async def look(self) -> None:
        """Write bases of open partitions that have none and need one, one after another."""
        for name in list(self._states.states):
            now_s = trio.current_time()
            next_s, wait_s = self._waits.get(name, (now_s, LOOK_S))
            if next_s > now_s or not self._needs_one(name):
                continue
            try:
                is_done = await self._write(name, PAUSE_S)
            except (OSError, StoreError) as error:
                LOGGER.warning("partition %s has no base yet: %s", name, error)
                is_done = False
            self._waits.pop(name, None)
            if not is_done:
                self._waits[name] = trio.current_time() + wait_s, min(2 * wait_s, WAIT_MAX_S)

    async def keep(self, name: str) -> None:
        """Write the base of a partition that nobody writes to.

        Raises ``OSError``, ``StoreError``.
        """
        if not await self._write(name, 0):
            raise OSError(errno.EBUSY, f"partition {name} has changed, while its base was written")

    def _needs_one(self, name: str) -> bool:
        """Return whether an open partition can be made of nothing that is here but its rows, since
        its log began elsewhere."""
        state, end = self._states.states.get(name), self._partitions.end_of(name)
        if state is None or end is None or end.broker_name != self._broker_name:
            return False
        meta, mapping = state.meta, self._mappings[kv_topic(parse_partition(name)[0])]
        if meta.lost or meta.importing or end.is_forced or not self._partitions.is_open(name):
            return False
        is_whole = beginning(mapping, end) is not None
        return not is_whole and self._remaker.base_of(name, mapping, end) is None

    async def _write(self, name: str, pause_s: float) -> bool:
        """Write a base; returns False if the state has changed meanwhile.

        Raises ``OSError``, ``StoreError``.
        """
        state, bases = self._states.states[name], self._states.kept.bases
        position, place = state.meta.next, _place(state)
        cursor: bytes | None = None
        async with bases.writing(name) as base:
            while True:
                rows = read_rows(state, cursor, until_s=perf_counter() + TURN_S)
                base.put(rows.rows)
                cursor = rows.cursor
                if cursor is None:
                    break
                await trio.sleep(pause_s)
                if self._states.states.get(name) is not state or state.meta.next != position:
                    return False
            made = await base.finish()
            await self._states.flush()  # what is in the base is durable in the log before
            if self._states.states.get(name) is not state or _place(state) != place:
                return False
            await bases.keep(base, made)
        return True


def _place(state: KvState) -> tuple[int, int]:
    return state.meta.queue_id, state.meta.shift
