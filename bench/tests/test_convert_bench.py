"""The bench of conversions converts what it says it does."""

import json
from pathlib import Path

from click.testing import CliRunner

from lanemq.bench.stores._convert import convert
from lanemq.bench.stores._store_maker import make_store
from lanemq.storage.tools import verify_store

CONVERSIONS = {"files to rocksdb", "rocksdb to files", "log to rocksdb", "log to files"}


def test_the_store_that_is_converted_is_a_whole_one(tmp_path: Path) -> None:
    make_store(
        tmp_path / "store",
        messages=500,
        queues=3,
        body_bytes=10,
        log_file_bytes=1 << 14,
        queue_file_bytes=2000,
    )
    report = verify_store(tmp_path / "store")
    assert report.records == 500
    # It is made without a key index and without a broker's tables, and all else is whole.
    assert {finding.part.value for finding in report.findings} <= {"key index", "tables"}
    assert [found for found in report.problems if found.part.value != "key index"] == []


def test_each_conversion_has_a_rate_for_each_round() -> None:
    done = CliRunner().invoke(convert, ["--messages", "300", "--rounds", "1", "--json"])
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert result["jobs"] >= 1
    assert set(result["samples"]) == set(result["processor_us"]) == CONVERSIONS
    assert all(len(rates) == 1 for rates in result["samples"].values())


def test_a_table_is_printed() -> None:
    done = CliRunner().invoke(convert, ["--messages", "20", "--rounds", "1", "-j", "1"])
    assert done.exit_code == 0, done.output
    assert "files to rocksdb" in done.stdout
