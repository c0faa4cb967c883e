"""The task behind double writing: rows for what dispatch made visible, and for what is older.

It first fills in what is older than all that RocksDB has (where that is wanted), then what came
after, both from the log and at a limited rate, and from then on writes what is handed over.
"""

from collections.abc import Iterator
from typing import Final, final

import trio

from lanemq.local import get_logger

from ...derive._sequence import add_damaged_offset, sequences_of
from ...derive._units import Derivation
from ...log._damage import KnownDamage, walk_over_damage
from ...log._records import Record
from ...log._segments import Segments
from ._writer import BATCH_ROWS, RocksIndex

LOGGER = get_logger(__name__)
INTERVAL_S: Final = 0.1
MOST_ROWS: Final = 2 * BATCH_ROWS
"""The most records in a batch, where the next messages of a queue have to tell what is damaged."""


@final
class RocksFollower:
    """The task, which runs while the store is open. ``rate`` counts messages per second."""

    def __init__(
        self,
        index: RocksIndex,
        segments: Segments,
        derivation: Derivation,
        *,
        rate: int,
        damage: KnownDamage,
    ) -> None:
        self.index = index
        self._segments = segments
        self._derivation = derivation
        self._rate = rate
        self._sequences = sequences_of(
            [index], lambda unit, _slot: add_damaged_offset(damage, unit)
        )

    async def run(self) -> None:
        """Write rows until cancelled. Raises ``OSError``."""
        await self._catch_up()
        while True:
            await self.index.sleep(INTERVAL_S)
            await self.index.write_all()

    async def _catch_up(self) -> None:
        index = self.index
        since = index.filled if index.is_filling else index.watermark
        started_s, taken, offered = trio.current_time(), 0, index.offered
        while not index.is_live:
            taken += self.catch_up_some()
            # New messages must not keep it from ever reaching the end.
            allowed_s = (taken - (index.offered - offered)) / self._rate
            await trio.sleep(max(0.0, started_s + allowed_s - trio.current_time()))
        if taken:
            LOGGER.info("RocksDB has followed the log from %d to %d", since, index.watermark)

    def catch_up_some(self) -> int:
        """Write a batch of what is missing; returns how many records that took."""
        index, log_begin = self.index, self._segments.begin
        if index.is_filling:
            begin, end = max(index.filled, log_begin), index.begin
        else:
            begin, end = max(index.watermark, log_begin), index.offered_end
        was_filling, sequences = index.is_filling, self._sequences
        count, rows, reached = 0, 0, max(begin, end)

        def batch() -> Iterator[Record]:
            nonlocal count, reached
            for record in walk_over_damage(self._segments, begin, end):
                yield record
                count += 1
                if max(count, rows) >= (MOST_ROWS if sequences.is_undecided else BATCH_ROWS):
                    reached = record.end
                    return

        for unit in sequences.confirmed(self._derivation.walk(batch())):
            index.put(unit)
            rows += 1
        index.reached(reached)
        if index.is_live or index.is_filling is not was_filling:
            sequences.forget()  # what comes next lies elsewhere in the log
        return count
