"""The redo of a partition's log, in turns of the loop, from the first record not in its state."""

from collections import deque
from time import perf_counter
from typing import Final, Protocol, final

import trio

from lanemq.local import get_logger

from ._damage import Damage
from ._outcomes import LogRecord, Outcome
from ._partition_states import PartitionStates
from ._turn import TURN_S, taken

LOGGER: Final = get_logger(__name__)
SLICE: Final = 256
"""Records that a redo reads at once."""
HELD_S: Final = 0.002
"""Seconds until another look whether a flush still holds back what is applied."""


class Followed(Protocol):
    """The states of a store, as far as a redo needs them."""

    is_held: bool

    @property
    def wants_flush(self) -> bool: ...

    async def flush(self) -> None: ...

    def tell(self, name: str, outcomes: list[tuple[int, Outcome]]) -> None: ...


@final
class Redo:
    """Brings the states of one store up to the ends of their logs."""

    def __init__(self, kept: PartitionStates, damage: Damage, *, followed: Followed) -> None:
        self._kept = kept
        self._damage = damage
        self._followed = followed

    async def catch_up(self) -> None:
        """Apply what is in the logs and not in the states; see ``KvStates.catch_up``."""
        failed: OSError | None = None
        for name in sorted(self._kept.behind):
            if self._damage.is_there:
                break
            state = self._kept.states.get(name)
            if state is None:  # forgotten, while another one was brought up to its end
                continue
            state.remember(rows=True)
            try:
                count = await self._catch_up(name)
            except OSError as error:
                LOGGER.error("namespace %s cannot follow its log: %s", name, error)
                failed = failed or error
                continue
            finally:
                state.remember(rows=False)
            LOGGER.info("namespace %s has followed its log: %d records", name, count)
        if failed is not None:
            raise failed

    async def _catch_up(self, name: str) -> int:
        """Apply the records that a state has not; returns how many."""
        count, records = 0, deque[LogRecord]()
        while name in self._kept.behind:
            if self._followed.is_held:
                await trio.sleep(HELD_S)
                continue
            count += self._catch_up_some(name, records)
            if self._followed.wants_flush:
                await self._followed.flush()
            await trio.lowlevel.checkpoint()
        return count

    def _catch_up_some(self, name: str, records: deque[LogRecord]) -> int:
        """Apply a turn's worth of ``records``, which are read where there are none; returns how
        many."""
        state, log = self._kept.states[name], self._kept.queues.logs[name]
        _, end = log.bounds()
        if not records or records[0].position != state.meta.next:
            records.clear()
            records += log.read(state.meta.next, max(0, min(SLICE, end - state.meta.next)))
        count = len(records)
        try:
            if records:
                until_s = perf_counter() + TURN_S
                state.redo(taken(until_s, records, lambda: state.is_enough))
                state.write()
        except OSError:
            state.roll_back()
            raise
        if count:
            self._followed.tell(name, [])
        if state.meta.next == end:
            self._kept.caught_up(name)
        return count - len(records)
