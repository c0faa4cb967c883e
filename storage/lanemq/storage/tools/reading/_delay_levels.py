"""The delays of a broker's levels, as its schedule queues show them.

A unit of a schedule queue has the time of delivery where others have the hash of the tags, and
the record says when it was stored: the difference is the delay of the queue's level.
Source: RocketMQ 4.9.8, ScheduleMessageService.computeDeliverTimestamp.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final, final

from lanemq.wire import SystemTopic

from ..._config import DELAY_LEVELS, parse_delay_levels
from ..._layouts import BLANK_SIZE, Unit
from ...log._records import record_at
from ...queues.rocks._queue_rows import QueueRows
from ._directory import StoreDirectory
from ._units import RowsUnits, Units

DEFAULTS: Final = parse_delay_levels(DELAY_LEVELS)
SAMPLED_UNITS: Final = 64
DAYS_MAX_MS: Final = 400 * 86_400_000


@final
@dataclass(frozen=True, slots=True)
class DelayLevels:
    """The delays of levels 1, 2, ... in milliseconds, and their source."""

    delays_ms: tuple[int, ...]
    known: frozenset[int] | None
    """Levels known from the store, while others have the default; None if all are from the broker's
    settings."""

    def is_known(self, level: int) -> bool:
        """Return whether a level's delay is known, rather than the default."""
        return self.known is None or level in self.known


def find_delay_levels(store: StoreDirectory, rows: QueueRows | None) -> DelayLevels:
    """Find the delays by the broker's settings, else by the schedule queues in files and in
    RocksDB, else the defaults. Raises ``OSError``."""
    if store.settings.delays_ms is not None:
        return DelayLevels(store.settings.delays_ms, None)
    topic: str = SystemTopic.SCHEDULE
    queues = {queue.queue_id for queue in store.queues() if queue.topic == topic}
    in_rows: set[int] = set()
    if rows is not None:
        in_rows = {queue_id for name, queue_id in rows.stored_queues() if name == topic}
    found: dict[int, int] = {}
    for queue_id in sorted(queues | in_rows):
        sources: list[Units] = []
        if queue_id in queues:
            sources.append(store.queue(topic, queue_id))
        if rows is not None and queue_id in in_rows:
            sources.append(RowsUnits(rows, topic, queue_id))
        delay_ms = _delay_of(store, chain.from_iterable(map(_sample, sources)))
        for source in sources:
            source.close()
        if delay_ms is not None:
            found[queue_id + 1] = delay_ms
    levels = range(1, max(len(DEFAULTS), *found, 1) + 1)
    delays = [found.get(level, DEFAULTS[min(level, len(DEFAULTS)) - 1]) for level in levels]
    return DelayLevels(tuple(delays), frozenset(found))


def _sample(units: Units) -> Iterator[Unit]:
    end = units.written_end()
    for _, unit in units.units(max(0, end - SAMPLED_UNITS), end):
        if 0 < unit.size_bytes < BLANK_SIZE:
            yield unit


def _delay_of(store: StoreDirectory, units: Iterable[Unit]) -> int | None:
    """Return the delay that most units have; None where none leads to its record."""
    said: Counter[int] = Counter()
    for unit in units:
        record = record_at(store.log, unit.log_position)
        if record is None or record.topic != SystemTopic.SCHEDULE:
            continue
        delay_ms = unit.tags_code - record.store_timestamp_ms
        if 0 <= delay_ms <= DAYS_MAX_MS:
            said[delay_ms] += 1
    return said.most_common(1)[0][0] if said else None
