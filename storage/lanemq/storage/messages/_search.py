"""The search for messages by key, in steps between which others may have their turn."""

from collections.abc import Generator
from typing import Final, final

from ..index._index import Index
from ..index._keys import has_key
from ..log._records import Record, check_record, record_at
from ._messages import QueryResult
from ._reader import Reader

QUERY_COUNT_MAX: Final = 64
QUERY_BYTES_MAX: Final = 4 << 20
"""Most bytes of a search's messages, but for a single one that is longer."""
QUERY_RECORDS_MAX: Final = 10_000
"""Most records that a search looks at: keys with the hash of another are no reason to read all."""
QUERY_STEP_RECORDS: Final = 32
QUERY_STEP_BYTES: Final = 1 << 20
"""Records, and bytes, that one step of a search reads."""


@final
class KeySearch:
    """Searches the index, and the records that it names."""

    def __init__(self, index: Index | None, reader: Reader) -> None:
        self._index = index
        self._reader = reader

    @property
    def is_behind(self) -> bool:
        """True if so many keys wait for the index that the senders of more have to wait, too.

        Far beyond that ``Store.put`` raises ``StoreUnwritable``."""
        return self._index is not None and self._index.waiting.is_behind

    async def caught_up(self) -> None:
        """Wait until the index is no longer behind, or cannot be written."""
        if self._index is not None:
            await self._index.waiting.caught_up()

    def whole(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int
    ) -> QueryResult:
        """Search in one go."""
        steps = self.steps(topic, key, max_count, begin_ms, end_ms)
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                result: QueryResult = stop.value
                return result

    def steps(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int
    ) -> Generator[None, None, QueryResult]:
        """Search in steps, each of which looks at some entries or reads some bytes."""
        records: list[bytes] = []
        damaged: list[int] = []
        if self._index is None:
            return QueryResult(records, 0, 0)
        limit = min(max_count, QUERY_COUNT_MAX)
        found_bytes = read_bytes = looked_at = 0
        for position in self._index.positions(topic, key, begin_ms, end_ms):
            if position is None:
                yield
                continue
            if len(records) >= limit or looked_at >= QUERY_RECORDS_MAX:
                break
            looked_at += 1
            record = self._reader.look_at(position)
            if isinstance(record, bytes):
                found = check_record(record, 0, position, len(record), check_crc=False)
                if _has_key(found, topic, key, begin_ms, end_ms):
                    found_bytes += len(record)
                    if records and found_bytes > QUERY_BYTES_MAX:
                        break
                    records.append(record)
                read_bytes += len(record)
            elif record is not None and _has_key(
                record_at(self._reader.segments, position), topic, key, begin_ms, end_ms
            ):
                damaged.append(position)
            if looked_at % QUERY_STEP_RECORDS == 0 or read_bytes >= QUERY_STEP_BYTES:
                read_bytes = 0
                yield
        return QueryResult(records, *self._index.newest, damaged)


def _has_key(record: object, topic: str, key: str, begin_ms: int, end_ms: int) -> bool:
    return (
        isinstance(record, Record)
        and record.topic == topic
        and begin_ms <= record.store_timestamp_ms <= end_ms
        and has_key(record.properties, key)
    )
