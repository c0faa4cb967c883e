"""The task behind double writing: rows for what dispatch made visible, and for what is older.

It first fills in what is older than all that RocksDB has (where that is wanted), then what came
after, both from the log and at a limited rate, and from then on writes what is handed over.
"""

import logging
from itertools import islice
from typing import Final, final

import trio

from ._redo import walk_over_damage
from ._rocks_index import BATCH_ROWS, RocksIndex
from ._segments import Segments

LOGGER = logging.getLogger(__name__)
INTERVAL_S: Final = 0.1


@final
class RocksFollower:
    """Runs while the store is open. ``rate`` counts messages per second."""

    def __init__(self, index: RocksIndex, segments: Segments, *, rate: int) -> None:
        self.index = index
        self._segments = segments
        self._rate = rate

    async def run(self) -> None:
        """Never ends. Raises ``OSError``."""
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
            # What arrives meanwhile must not keep it from ever arriving at the end.
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
        records = list(islice(walk_over_damage(self._segments, begin, end), BATCH_ROWS))
        for record in records:
            index.writer.take(record)
        reached = records[-1].end if len(records) == BATCH_ROWS else max(begin, end)
        index.reached(reached)
        return len(records)
