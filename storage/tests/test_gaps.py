"""Gaps in a queue, of messages that are gone from the log, hide nothing before or behind them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from lanemq.storage import Boundary, Store, StoreConfig, open_store
from lanemq.storage._config import Stage
from lanemq.storage._layouts import BLANK_UNIT, UNIT_BYTES
from lanemq.storage.queues.rocks._queue_rows import QueueRows
from lanemq.storage.rocks import QueueDatabase
from lanemq.testkit.storage.stages import Stand, new_message
from lanemq.wire.message import decode_messages

COUNT = 200
GAP = range(97, 104)  # a search that halves the queue looks there first
START_MS = 1_000_000


def make_gap(config: StoreConfig, stage: Stage) -> None:
    if stage is Stage.ROCKSDB:
        database = QueueDatabase(config.root / "consumequeue")
        QueueRows(database).delete_units("T", 0, GAP.start, GAP.stop)
        database.close()
        return
    for offset in GAP:
        at = offset * UNIT_BYTES
        start = at // config.consume_queue_file_bytes * config.consume_queue_file_bytes
        with (config.root / f"consumequeue/T/0/{start:020d}").open("r+b") as file:
            file.seek(at - start)
            file.write(BLANK_UNIT)


@pytest.fixture
def clock_ms() -> Callable[[], int]:
    ticks = iter(range(START_MS, 1 << 40))
    return lambda: next(ticks)


def readable(store: Store) -> list[int]:
    begin, end = store.bounds("T", 0)
    records: list[bytes] = []
    while begin < end:
        got = store.get("T", 0, begin, max_count=32)
        records += got.records
        assert got.next_offset > begin
        begin = got.next_offset
    return [int(found.body.rstrip(b"\0")) for found in decode_messages(b"".join(records))]


@pytest.mark.parametrize("stage", [Stage.FILES, Stage.ROCKSDB])
async def test_a_gap_hides_nothing_around_it(
    tmp_path: Path, clock_ms: Callable[[], int], stage: Stage
) -> None:
    config = Stand(tmp_path / "store").config(stage)
    async with open_store(config, clock_ms=clock_ms) as store:
        puts = [store.put(new_message(number)) for number in range(COUNT)]
        store.commit()
    make_gap(config, stage)
    times = {put.queue_offset: put.store_timestamp_ms for put in puts}
    kept = {offset: time_ms for offset, time_ms in times.items() if offset not in GAP}
    async with open_store(config, clock_ms=clock_ms) as store:
        assert readable(store) == list(kept)
        for boundary in Boundary:
            for number, time_ms in kept.items():
                found = store.offset_by_time("T", 0, time_ms, boundary=boundary)
                assert found == number or (found in GAP and number == GAP.stop)
    (config.root / "commitlog" / f"{0:020d}").unlink()  # as retention does
    begin = min(put.queue_offset for put in puts if put.log_position >= 1 << 14)
    assert begin < GAP.start
    for _ in range(2):
        async with open_store(config, clock_ms=clock_ms) as store:
            assert store.bounds("T", 0) == (begin, COUNT)
            assert readable(store) == [offset for offset in kept if offset >= begin]
            await store.clean()
            assert readable(store) == [offset for offset in kept if offset >= begin]
