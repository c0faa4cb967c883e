"""Index files of any ``maxHashSlotNum`` and ``maxIndexNum`` are found out, never guessed."""

import random
import shutil
from pathlib import Path

import pytest

from lanemq.storage.disk._real_files import RealFiles
from lanemq.storage.index._index import Index
from lanemq.storage.tools import Part, Severity, inspect_store, verify_store
from lanemq.storage.tools.reading._index_files import index_paths
from lanemq.storage.tools.reading._index_sizes import IndexSizes, index_sizes
from lanemq.testkit.storage.stages import Stand, new_message
from lanemq.wire.message import encode_properties


def write_index(directory: Path, slots: int, entries: int, count: int, first: int) -> list[Path]:
    index = Index(
        RealFiles(),
        directory,
        slots=slots,
        entries=entries,
        clock_ms=lambda: 1_700_000_000_000,
        on_full=lambda _: None,
    )
    position = first
    for number in range(count):
        properties = encode_properties({"UNIQ_KEY": f"KEY{number}", "KEYS": f"k{number % 5}"})
        index.submit([("T", position, 1_700_000_000_000 + number, 0, properties)])
        position += 211 + number % 7
    index.drain()
    index.write_out()
    index.close()
    return index_paths(directory)


@pytest.mark.parametrize("seed", range(30))
def test_the_sizes_come_out_of_the_files(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    slots, entries = rng.randint(1, 3000), rng.randint(3, 3000)
    first = rng.choice((0, 0, 1_000_000))
    paths = write_index(tmp_path, slots, entries, rng.randint(2, 400), first)
    assert index_sizes(paths) == IndexSizes(slots, entries)


def test_one_message_is_enough(tmp_path: Path) -> None:
    index = Index(
        RealFiles(), tmp_path, slots=70, entries=40, clock_ms=lambda: 1, on_full=lambda _: None
    )
    index.submit([("T", 0, 1, 0, encode_properties({"KEYS": "k"}))])
    index.drain()
    index.write_out()
    index.close()
    assert index_sizes(index_paths(tmp_path)) == IndexSizes(70, 40)


def test_what_cannot_be_told_is_not_guessed_and_settings_tell(tmp_path: Path) -> None:
    (tmp_path / "20260101000000000").write_bytes(bytes(40 + 4 * 9 + 20 * 11))
    paths = index_paths(tmp_path)
    assert index_sizes(paths) is None
    assert index_sizes(paths, IndexSizes(9, 11)) == IndexSizes(9, 11)
    assert index_sizes(paths, IndexSizes(9, 12)) is None


async def test_an_index_without_an_entry_is_no_problem_where_no_message_has_a_key(
    tmp_path: Path,
) -> None:
    stand = Stand(tmp_path / "store")
    async with stand.open(1) as store:
        for number in range(3):
            message = new_message(number)
            message.properties = b""
            store.put(message)
        store.commit()
    shutil.rmtree(stand.root / "index", ignore_errors=True)
    (stand.root / "index").mkdir()
    (stand.root / "index/20261121044455208").write_bytes(bytes(40 + 4 * 7 + 20 * 400))
    for findings in (verify_store(stand.root).findings, inspect_store(stand.root).findings):
        assert {finding.part for finding in findings} == {Part.TABLES}  # no broker wrote any
        assert {finding.severity for finding in findings} == {Severity.NOTE}
    await stand.run(1, 1, first=3)
    shutil.rmtree(stand.root / "index")
    (stand.root / "index").mkdir()
    (stand.root / "index/20261121044455208").write_bytes(bytes(40 + 4 * 7 + 20 * 400))
    assert {finding.kind for finding in verify_store(stand.root).problems} >= {"index-sizes"}
