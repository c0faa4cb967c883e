"""A block of a RocksDB's table that cannot be read: named, and made again, wherever it lies."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from lanemq.storage import StoreConfig, StoreCorrupted, StoreType, open_store
from lanemq.storage.cli import store
from lanemq.storage.tools import Severity, inspect_store, repair_store, verify_store
from lanemq.testkit.storage.stores import Recorded

ROCKSDB_STORE = "rocksdb-5.3.3-clean"


def tables(root: Path) -> list[Path]:
    return sorted((root / "consumequeue").glob("*.sst"))


def damage(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("part", [0, 0.4])
def test_it_is_a_finding_and_a_repair_mends_it(
    recorded: Recorded, number: int, part: float
) -> None:
    root = recorded(ROCKSDB_STORE)
    paths = tables(root)
    path = paths[number % len(paths)]
    damage(path, int(part * path.stat().st_size))
    for look in (inspect_store, verify_store):
        faults = [found for found in look(root).findings if found.kind == "rocksdb-unreadable"]
        for found in faults:
            assert found.severity is Severity.PROBLEM
            assert str(root / "consumequeue") in found.what
            assert "/lanemq-" not in found.what
            assert "`repair_store`" in found.way_on
    assert faults
    report = repair_store(root)
    assert report.after is not None
    assert not [found for found in report.after.findings if found.severity is Severity.PROBLEM]


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--from-log"]])
@pytest.mark.parametrize("part", [0, 0.4])
def test_a_conversion_to_files_takes_the_log_instead_and_says_so(
    recorded: Recorded, part: float, options: list[str]
) -> None:
    root = recorded(ROCKSDB_STORE)
    for path in tables(root):
        damage(path, int(part * path.stat().st_size))
    result = CliRunner().invoke(store, ["convert", str(root), "--to", "files", *options])
    assert result.exit_code == 0, result.output
    assert "note: the log is read instead of RocksDB" in result.output
    assert ".sst" in result.output
    found = verify_store(root).findings
    problems = [finding.kind for finding in found if finding.severity is Severity.PROBLEM]
    assert set(problems) == {"rocksdb-unreadable"}


def test_a_conversion_to_rocksdb_that_needs_it_names_the_file_and_the_way_on(
    recorded: Recorded,
) -> None:
    root = recorded(ROCKSDB_STORE)
    for path in tables(root):
        damage(path, 0)
    result = CliRunner().invoke(store, ["convert", str(root), "--to", "rocksdb"])
    assert result.exit_code == 2
    assert ".sst" in result.output
    assert "lanemq store repair" in result.output


async def test_a_start_that_needs_it_names_the_file_and_the_way_on(recorded: Recorded) -> None:
    root = recorded(ROCKSDB_STORE)
    for path in tables(root):
        damage(path, 0)
    config = StoreConfig(
        root=root,
        store_type=StoreType.ROCKSDB,
        commit_log_file_bytes=1 << 20,
        consume_queue_file_bytes=12_000,
        max_hash_slots=500,
        max_index_entries=2000,
    )
    with pytest.raises(StoreCorrupted, match=r"\.sst .*`repair_store`") as refused:
        async with open_store(config):
            pass
    assert refused.value.root == root
