"""The database of consume queues: batches, reads, truncation, crashes and locks."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lanemq.storage import StoreCorrupted, StoreLocked
from lanemq.storage.queues.rocks._queue_rows import QueueBounds, QueueRows, RowSpan
from lanemq.storage.queues.rocks._rocks_units import RocksUnits
from lanemq.storage.queues.rocks._row_format import OffsetRow, UnitRow
from lanemq.storage.rocks import QueueDatabase, is_present, move_aside
from lanemq.storage.tools.reading._units import RowsUnits
from lanemq.testkit.storage.stages import copy_store

TOPIC = b"T"


def put(rows: QueueRows, offsets: range, *, topic: bytes = TOPIC, queue_id: int = 0) -> None:
    batch = rows.batch()
    for offset in offsets:
        batch.put_unit(topic, queue_id, offset, offset * 100, 100, 7, 1_000 + offset)
    batch.put_max(topic, queue_id, offsets[-1] * 100, offsets[-1])
    batch.set_watermark(offsets[-1] * 100 + 100)
    batch.write()


def row(offset: int) -> UnitRow:
    return UnitRow(offset * 100, 100, 7, 1_000 + offset)


def left_by_a_crash(rows: QueueRows, target: Path) -> QueueRows:
    """The directory of an open database, copied: what a crash leaves."""
    return QueueRows(QueueDatabase(copy_store(rows.database.directory, target)))


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[QueueRows]:
    rows = QueueRows(QueueDatabase(tmp_path / "consumequeue"))
    yield rows
    rows.close()


def test_a_new_database_is_empty(rows: QueueRows) -> None:
    assert rows.watermark() is None
    assert list(rows.queues()) == []
    assert list(rows.stored_queues()) == []
    assert rows.max_row("T", 0) is None
    assert rows.unit("T", 0, 0) is None
    assert rows.span("T", 0) is None


def test_what_a_batch_puts_is_read_at_once(rows: QueueRows) -> None:
    put(rows, range(5, 45))
    assert rows.unit("T", 0, 5) == row(5)
    assert rows.read_rows(TOPIC, 0, 5, 2) == [row(5), row(6)]
    assert rows.read_rows(TOPIC, 0, 10, 32) == [row(offset) for offset in range(10, 42)]
    assert rows.read_rows(TOPIC, 0, 40, 32) == [row(offset) for offset in range(40, 45)]
    assert len(rows.read_units(TOPIC, 0, 5, 10)) == 200
    assert rows.max_row("T", 0) == OffsetRow(4400, 44)
    assert rows.min_row("T", 0) is None
    assert rows.watermark() == 4500
    assert list(rows.queues()) == [QueueBounds("T", 0, OffsetRow(4400, 44), None)]
    assert list(rows.stored_queues()) == [("T", 0)]


@pytest.mark.parametrize("count", [1, 2, 32])
def test_a_read_ends_at_the_first_missing_row(rows: QueueRows, count: int) -> None:
    put(rows, range(3))
    put(rows, range(4, 9))
    assert rows.read_rows(TOPIC, 0, 2, count) == [row(2)]
    assert rows.read_rows(TOPIC, 0, 3, count) == []
    assert rows.next_unit(TOPIC, 0, 3) == 4
    assert rows.previous_unit(TOPIC, 0, 3) == 2
    assert rows.next_unit(TOPIC, 0, 9) is None


def test_queues_that_are_neighbours_are_not_mixed_up(rows: QueueRows) -> None:
    for topic, queue_id in ((b"T", 0), (b"T", 1), (b"U", 0), (b"T1", 0)):
        put(rows, range(2, 4), topic=topic, queue_id=queue_id)
    assert rows.next_unit(b"T", 0, 4) is None
    assert rows.previous_unit(b"T", 1, 1) is None
    assert len(rows.read(b"T", 0, 2, 32)) == 2
    assert [(found.topic, found.queue_id) for found in rows.queues()] == [
        ("T", 0),
        ("T", 1),
        ("U", 0),
        ("T1", 0),
    ]
    assert [found.queue_id for found in rows.queues("T")] == [0, 1]
    rows.delete_queue("T", 1)
    assert list(rows.stored_queues()) == [("T", 0), ("U", 0), ("T1", 0)]
    assert [found.queue_id for found in rows.queues("T")] == [0]


def test_the_newest_and_the_oldest_of_several_queues_are_put_together(rows: QueueRows) -> None:
    for queue_id in range(3):
        put(rows, range(queue_id + 1), queue_id=queue_id)
    batch = rows.batch()
    batch.put_min(TOPIC, 1, 0, 0)
    batch.put_min(TOPIC, 9, 0, 0)  # of a queue that was only asked for its messages
    batch.write()
    assert list(rows.queues("T")) == [
        QueueBounds("T", 0, OffsetRow(0, 0), None),
        QueueBounds("T", 1, OffsetRow(100, 1), OffsetRow(0, 0)),
        QueueBounds("T", 2, OffsetRow(200, 2), None),
        QueueBounds("T", 9, None, OffsetRow(0, 0)),
    ]


def test_holes_are_found_and_named(rows: QueueRows) -> None:
    put(rows, range(3, 10))
    assert rows.span("T", 0) == RowSpan(3, 9, 7, None)
    rows.delete_units("T", 0, 5, 7)
    assert rows.span("T", 0) == RowSpan(3, 9, 5, 5)
    rows.drop_expired("T", 0, 5)
    assert rows.span("T", 0) == RowSpan(7, 9, 3, None)


@pytest.mark.parametrize("log_begin", [0, 300, 301, 500, 850, 900, 901])
@pytest.mark.parametrize("hole", [(4, 5), (5, 7), (3, 4), (8, 10), (4, 9), (3, 10)])
def test_a_hole_hides_nothing_that_lies_before_it(
    rows: QueueRows, hole: tuple[int, int], log_begin: int
) -> None:
    put(rows, range(3, 10))
    rows.delete_units("T", 0, *hole)
    left = [offset for offset in range(3, 10) if not hole[0] <= offset < hole[1]]
    view = RocksUnits(rows, "T", 0, log_begin=log_begin)
    assert view.min == next((offset for offset in left if offset * 100 >= log_begin), 10)
    assert view.end == 10


def test_an_overhang_is_cut_down_to_the_last_row_that_stays(rows: QueueRows) -> None:
    put(rows, range(20))
    put(rows, range(4), queue_id=1)
    put(rows, range(30, 33), queue_id=2)
    put(rows, range(20, 22))  # the watermark is the log's end
    assert rows.truncate(1000) == 2
    assert rows.max_row("T", 0) == OffsetRow(900, 9)
    assert rows.span("T", 0) == RowSpan(0, 9, 10, None)
    assert rows.max_row("T", 1) == OffsetRow(300, 3)
    assert rows.max_row("T", 2) is None
    assert rows.span("T", 2) is None
    assert rows.watermark() == 1000


def test_a_truncation_that_meets_its_end_exactly_keeps_the_row_before(rows: QueueRows) -> None:
    """The reference looks by halves, and may stop at a lower probe than the predecessor."""
    put(rows, range(20))
    assert rows.truncate(1900) == 1
    assert rows.max_row("T", 0) == OffsetRow(1800, 18)


def test_a_truncation_behind_the_end_changes_nothing(rows: QueueRows) -> None:
    put(rows, range(20))
    assert rows.truncate(2000) == 0
    assert rows.watermark() == 2000
    assert rows.max_row("T", 0) == OffsetRow(1900, 19)


def test_what_is_flushed_survives_a_crash_and_the_rest_is_lost_as_one(
    rows: QueueRows, tmp_path: Path
) -> None:
    put(rows, range(10))
    rows.flush()
    put(rows, range(10, 20))
    crashed = left_by_a_crash(rows, tmp_path / "crashed")
    assert crashed.watermark() == 1000
    assert crashed.max_row("T", 0) == OffsetRow(900, 9)
    assert crashed.span("T", 0) == RowSpan(0, 9, 10, None)
    crashed.close()


WRITE_AND_FLUSH = """
import pathlib, sys, threading
from lanemq.storage.queues.rocks._queue_rows import QueueRows
from lanemq.storage.rocks import QueueDatabase

rows = QueueRows(QueueDatabase(pathlib.Path(sys.argv[1])))

def put(begin):
    batch = rows.batch()
    for offset in range(begin, begin + 50):
        batch.put_unit(b"T", 0, offset, offset * 100, 100, 7, 1_000 + offset)
    batch.put_max(b"T", 0, (begin + 49) * 100, begin + 49)
    batch.set_watermark((begin + 50) * 100)
    batch.write()

def write():
    for begin in range(50, 1_000_000, 50):
        put(begin)

put(0)
rows.flush()
print("begun", flush=True)
threading.Thread(target=write, daemon=True).start()
while True:
    rows.flush()
"""


@contextmanager
def stopped(process: subprocess.Popen[str]) -> Iterator[None]:
    """Let nothing of a process run meanwhile."""
    process.send_signal(signal.SIGSTOP)
    assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
    yield
    process.send_signal(signal.SIGCONT)


@pytest.mark.slow
def test_rows_and_watermark_agree_after_a_crash_at_any_time(tmp_path: Path) -> None:
    """Batches are written without a pause while another thread flushes."""
    directory, crashed = tmp_path / "consumequeue", tmp_path / "crashed"
    command = [sys.executable, "-c", WRITE_AND_FLUSH, str(directory)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
            for _ in range(10):
                with stopped(process):
                    shutil.copytree(directory, crashed)
                check_agreement(QueueRows(QueueDatabase(crashed)))
                shutil.rmtree(crashed)
        finally:
            process.kill()


def check_agreement(rows: QueueRows) -> None:
    span, watermark = rows.span("T", 0), rows.watermark()
    assert span is not None
    assert span.first_missing is None
    assert watermark == (span.last + 1) * 100
    assert rows.max_row("T", 0) == OffsetRow(span.last * 100, span.last)
    rows.close()


def test_a_clean_stop_keeps_everything(tmp_path: Path) -> None:
    rows = QueueRows(QueueDatabase(tmp_path))
    put(rows, range(10))
    rows.close()
    rows = QueueRows(QueueDatabase(tmp_path))
    assert rows.span("T", 0) == RowSpan(0, 9, 10, None)
    assert rows.watermark() == 1000
    rows.close()
    assert not (tmp_path / "rocksdict-config.json").exists()


@pytest.mark.slow
def test_a_flush_that_fails_says_so_and_nothing_can_be_written_any_more(tmp_path: Path) -> None:
    script = f"""
import pathlib, resource
from lanemq.storage.queues.rocks._queue_rows import QueueRows
from lanemq.storage.rocks import QueueDatabase
rows = QueueRows(QueueDatabase(pathlib.Path({str(tmp_path)!r})))
batch = rows.batch()
for offset in range(20_000):
    batch.put_unit(b"T", 0, offset, hash(str(offset)), 100, 0, 0)
batch.write()
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))
for use in (rows.flush, rows.flush, lambda: rows.delete_queue("T", 0), rows.close):
    try:
        use()
    except OSError as error:
        print("failed")
    else:
        print("worked")
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout.split() == ["failed"] * 4


def test_a_database_in_use_is_refused_before_anything_is_touched(rows: QueueRows) -> None:
    directory = rows.database.directory

    def state() -> dict[str, tuple[int, int]]:
        return {
            name: ((directory / name).stat().st_mtime_ns, (directory / name).stat().st_size)
            for name in os.listdir(directory)
        }

    before = state()
    with pytest.raises(StoreLocked):
        QueueDatabase(directory)
    assert state() == before
    # Our own look at the lock must not have given it up.
    put(rows, range(1))


@pytest.mark.slow
def test_a_database_that_another_process_uses_is_refused_the_same_way(rows: QueueRows) -> None:
    directory = rows.database.directory
    before = sorted(os.listdir(directory))
    script = f"""
import pathlib
from lanemq.storage import StoreLocked
from lanemq.storage.rocks import QueueDatabase
try:
    QueueDatabase(pathlib.Path({str(directory)!r}))
except StoreLocked:
    print("locked")
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout.split() == ["locked"]
    assert sorted(os.listdir(directory)) == before


def test_reading_only_leaves_no_trace_and_goes_beside_a_writer(rows: QueueRows) -> None:
    put(rows, range(10))
    rows.flush()
    directory = rows.database.directory
    before = sorted(os.listdir(directory))
    reader = QueueRows(QueueDatabase(directory, read_only=True))
    assert reader.span("T", 0) == RowSpan(0, 9, 10, None)
    reader.close()
    assert sorted(os.listdir(directory)) == before


def test_reading_only_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreCorrupted, match="no RocksDB"):
        QueueDatabase(tmp_path / "consumequeue", read_only=True)
    assert not (tmp_path / "consumequeue").exists()


def broken_database(directory: Path) -> None:
    rows = QueueRows(QueueDatabase(directory))
    put(rows, range(10))
    rows.close()
    for table in directory.glob("*.sst"):
        table.unlink()


def test_a_broken_database_is_moved_aside_and_topics_stay(tmp_path: Path) -> None:
    directory = tmp_path / "consumequeue"
    broken_database(directory)
    queue = directory / "T" / "0"
    queue.mkdir(parents=True)
    (directory / "000099.sst").mkdir()  # a topic may have any name
    with pytest.raises(StoreCorrupted):
        QueueDatabase(directory)
    target = move_aside(directory, 17)
    assert target == tmp_path / "consumequeue.bad-17"
    assert is_present(target)
    assert sorted(os.listdir(directory)) == ["000099.sst", "T"]
    rows = QueueRows(QueueDatabase(directory))
    assert list(rows.queues()) == []
    rows.close()
    assert queue.is_dir()


def test_there_is_nothing_to_move_aside_where_only_topics_are(tmp_path: Path) -> None:
    directory = tmp_path / "consumequeue"
    (directory / "T").mkdir(parents=True)
    assert move_aside(directory, 17) is None
    assert os.listdir(tmp_path) == ["consumequeue"]


def test_a_block_that_cannot_be_read_is_an_error_and_not_the_end(tmp_path: Path) -> None:
    rows = QueueRows(QueueDatabase(tmp_path))
    batch = rows.batch()
    for offset in range(20_000):
        batch.put_unit(TOPIC, 0, offset, hash(str(offset)), 100, 0, 0)
    batch.write()
    rows.close()
    table = max(tmp_path.glob("*.sst"), key=lambda path: path.stat().st_size)
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 0xFF
    table.write_bytes(data)
    rows = QueueRows(QueueDatabase(tmp_path, read_only=True))
    with pytest.raises(OSError, match="checksum"):
        sum(1 for _ in rows.items(TOPIC, 0))
    with pytest.raises(OSError, match="checksum"):
        rows.span("T", 0)
    rows.close()


@pytest.mark.parametrize("present", [{0}, {0, 2}, {1, 2, 3}, {0, 3, 4}, {4}, set(range(5))])
def test_the_first_row_from_a_position_is_found_whatever_rows_are_missing(
    rows: QueueRows, present: set[int]
) -> None:
    """A damaged message leaves no row; that tells nothing about the rows around it."""
    end = 5
    for offset in present:
        put(rows, range(offset, offset + 1))
    batch = rows.batch()
    batch.put_max(TOPIC, 0, 100 * end - 100, end - 1)
    batch.write()
    for log_begin in range(0, 100 * end + 1, 50):
        kept = [offset for offset in present if 100 * offset >= log_begin]
        assert rows.first_from("T", 0, log_begin, end) == min(kept, default=end)
        assert RocksUnits(rows, "T", 0, log_begin=log_begin).min == min(kept, default=end)
        assert RowsUnits(rows, "T", 0).first_from(log_begin, end) == min(kept, default=end)
