"""Conversions to RocksDB that several processes share: their rows are those that one makes."""

import json
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.context import BaseContext
from pathlib import Path

import pytest
from click.testing import CliRunner

from lanemq.storage.bulk import ResultRefused, convert_to_rocksdb
from lanemq.storage.bulk.checks._survey import survey
from lanemq.storage.bulk.rows import _shared_units
from lanemq.storage.bulk.rows._shared_units import SharedUnits, divided
from lanemq.storage.bulk.units._file_units import Share
from lanemq.storage.bulk.units._sorted_table import SortedTable
from lanemq.storage.cli import store
from lanemq.storage.queues.rocks._queue_rows import QueueRows
from lanemq.storage.queues.rocks._row_format import UNIT_VALUE_BYTES, QueueKeys
from lanemq.storage.rocks import QueueDatabase
from lanemq.storage.tools import look_into
from lanemq.testkit.storage.stages import Stand, assert_rows_agree
from lanemq.testkit.storage.turns import Turns, share_always, take_turns

FILES, ROCKSDB = 1, 3


def files_below(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


async def test_parts_of_all_queues_become_all_rows(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_turns(monkeypatch)
    await stand.run(FILES, 500)
    done = convert_to_rocksdb(stand.root, jobs=2)
    assert (done.units_copied, done.units_from_log, done.queues) == (500, 0, 2)
    assert_rows_agree(stand.config(ROCKSDB))
    async with stand.open(ROCKSDB) as store:
        assert stand.bodies(store) == list(range(0, 500, 2))


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2, 3])
async def test_the_command_has_as_many_processes_as_it_is_told_make_the_rows(
    stand: Stand, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    start = ProcessPoolExecutor.__init__

    def noted(
        pool: ProcessPoolExecutor, count: int, context: BaseContext, begin: Callable[[], None]
    ) -> None:
        started.append(count)
        start(pool, count, context, begin)

    share_always(monkeypatch)
    monkeypatch.setattr(ProcessPoolExecutor, "__init__", noted)
    await stand.run(FILES, 500)
    arguments = ["convert", str(stand.root), "--to", "rocksdb", "--jobs", str(jobs), "--json"]
    done = CliRunner().invoke(store, arguments)
    assert done.exit_code == 0, done.output
    assert (
        json.loads(done.stdout)["unitsCopied" if "unitsCopied" in done.stdout else "units_copied"]
        == 500
    )
    assert started == [jobs - 1] * (jobs > 1)
    assert_rows_agree(stand.config(ROCKSDB))


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["zeros", "short", "gone", "shifted", "garbage"])
async def test_damaged_queue_files_are_made_up_for_from_the_log(
    stand: Stand, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_turns(monkeypatch)
    await stand.run(FILES, 400)
    path = sorted((stand.root / "consumequeue" / "T" / "1").iterdir())[2]
    data = path.read_bytes()
    changed = {
        "zeros": data[:60] + bytes(40) + data[100:],
        "short": data[:60],
        "shifted": data[20:] + data[:20],
        "garbage": b"\x55" * len(data),
    }
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(changed[damage])
    done = convert_to_rocksdb(stand.root, jobs=2)
    assert done.units_from_log > 0
    assert done.units_copied > 0
    assert_rows_agree(stand.config(ROCKSDB))


async def test_rows_that_got_lost_on_the_way_are_missed_before_anything_is_replaced(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lossy:
        def __init__(self, path: Path) -> None:
            self._table = SortedTable(path)

        def __getattr__(self, name: str) -> object:
            return getattr(self._table, name)

        def put(self, keys: QueueKeys, first_offset: int, values: bytes) -> None:
            self._table.put(keys, first_offset + 1, values[UNIT_VALUE_BYTES:])

    take_turns(monkeypatch)
    await stand.run(FILES, 100)
    before = files_below(stand.root / "consumequeue")
    monkeypatch.setattr(_shared_units, "SortedTable", Lossy)
    with pytest.raises(ResultRefused):
        convert_to_rocksdb(stand.root, jobs=2)
    assert files_below(stand.root / "consumequeue") == before


@pytest.mark.parametrize("offset", [0, 24, 49])
async def test_a_row_that_is_not_its_unit_is_found(stand: Stand, offset: int) -> None:
    await stand.run(FILES, 100)
    convert_to_rocksdb(stand.root)
    database = QueueDatabase(stand.root / "consumequeue")
    rows = QueueRows(database)
    with pytest.MonkeyPatch.context() as patch:
        take_turns(patch)
        found = survey(look_into(stand.root), None, is_clean=True)
        shared = SharedUnits(found, Turns(2), stand.root / "unused")  # type: ignore[arg-type]
        assert shared.are_same(rows, found.queues)
        rows.delete_units("T", 1, offset, offset + 1)
        rows.flush()
        assert not shared.are_same(rows, found.queues)
    rows.close()


def units(shares: Iterable[Share]) -> list[tuple[str, int, int]]:
    return [
        (share.topic, share.queue_id, at)
        for share in shares
        for at in range(share.begin, share.end)
    ]


def test_shares_are_divided_in_their_order_and_into_parts_of_one_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    share_always(monkeypatch, parts=8)
    shares = [
        Share("A", 0, 7, 60),
        Share("A", 1, 0, 0),
        Share("A", 2, 5, 6),
        Share("B", 0, 3, 300),
    ]
    parts = list(divided(shares))
    assert units(share for part in parts for share in part) == units(shares)
    sizes = [len(units(part)) for part in parts]
    assert len(sizes) == 8
    assert max(sizes) - min(sizes[:-1]) == 0
    assert all(share.begin < share.end for part in parts for share in part)


def test_few_units_are_one_part() -> None:
    assert list(divided([Share("A", 0, 5, 60), Share("A", 1, 0, 9)])) == [
        [Share("A", 0, 5, 60), Share("A", 1, 0, 9)]
    ]
    assert list(divided([])) == []
