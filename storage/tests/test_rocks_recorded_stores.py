"""Queues that real brokers of 5.3.3 kept in RocksDB: every row says what the log says."""

import tarfile
from pathlib import Path

import pytest

from lanemq.storage._config import DELAY_LEVELS, parse_delay_levels
from lanemq.storage.disk._real_files import RealFiles
from lanemq.storage.log._records import LogWalk, Record
from lanemq.storage.log._segments import Segments
from lanemq.storage.queues._tags import TagsCodes
from lanemq.storage.queues.rocks._queue_rows import QueueRows
from lanemq.storage.queues.rocks._row_format import OffsetRow, UnitRow
from lanemq.storage.rocks import QueueDatabase
from lanemq.testkit.storage.stores import STORES

LOG_FILE_BYTES = 1 << 20
CLEAN = ["dualwrite-5.3.3-clean", "rocksdb-5.3.3-clean"]
KILLED = "dualwrite-5.3.3-killed"


def unpack(name: str, target: Path) -> Path:
    with tarfile.open(STORES / f"{name}.tar.gz") as archive:
        archive.extractall(target, filter="data")
    return target / name


def records_of(root: Path) -> list[Record]:
    segments = Segments(RealFiles(), root / "commitlog", LOG_FILE_BYTES)
    segments.load()
    return [record for record in LogWalk(segments, 0, check_crc=True) if record.is_queued]


@pytest.mark.parametrize("name", CLEAN)
def test_the_rows_of_a_real_broker_are_those_of_its_log(name: str, tmp_path: Path) -> None:
    root = unpack(name, tmp_path)
    tags = TagsCodes(parse_delay_levels(DELAY_LEVELS))
    expected: dict[tuple[str, int], dict[int, UnitRow]] = {}
    records = records_of(root)
    for record in records:
        code = tags.code(record.topic, record.properties, record.store_timestamp_ms)
        unit = UnitRow(record.position, record.size_bytes, code, record.store_timestamp_ms)
        expected.setdefault((record.topic, record.queue_id), {})[record.queue_offset] = unit
    rows = QueueRows(QueueDatabase(root / "consumequeue"))
    assert rows.watermark() == records[-1].end
    assert sorted(rows.stored_queues()) == sorted(expected)
    for (topic, queue_id), units in expected.items():
        found = rows.read_rows(topic.encode(), queue_id, 0, len(units) + 1)
        assert dict(enumerate(found)) == units
        last = len(units) - 1
        assert rows.max_row(topic, queue_id) == OffsetRow(units[last].log_position, last)
    assert sum(len(units) for units in expected.values()) == len(records)
    rows.close()


def test_a_killed_broker_left_no_row_of_what_it_wrote_twice(tmp_path: Path) -> None:
    """Nothing is flushed by time there, and nothing is logged ahead."""
    root = unpack(KILLED, tmp_path)
    assert records_of(root)
    rows = QueueRows(QueueDatabase(root / "consumequeue"))
    assert list(rows.stored_queues()) == []
    assert rows.watermark() is None
    rows.close()
