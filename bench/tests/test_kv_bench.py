"""The bench of keys: its arithmetic, its tables, and a short run."""

import json
import os
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from rich.console import Console

from lanemq.bench._results import Machine
from lanemq.bench.cli import bench
from lanemq.bench.kv import _kv
from lanemq.bench.kv._command import show_kv_bench
from lanemq.bench.kv._kv import NO_ETCD
from lanemq.bench.kv._results import KV_MEASURES, KvBench, KvSize
from lanemq.bench.kv._size import WRITES, key_of, measure_size, write_snapshot
from lanemq.compat import BuildFailed
from lanemq.testkit.peers import require_tools
from lanemq.wire.kv import SnapshotReader

RSS_MAX_MIB = 500.0
RESULT = KvBench(
    machine=Machine("a processor", 2, 7.7, "Linux", "3.11", 0.1),
    rounds=3,
    samples={
        "lanemq": {measure: [3000.0, 2000.0, 1000.0] for measure in KV_MEASURES},
        "etcd": {measure: [1000.0, 500.0, 1600.0] for measure in KV_MEASURES},
    },
    p99_us={
        "lanemq": {measure: [700.0, 800.0, 900.0] for measure in KV_MEASURES},
        "etcd": {measure: [1500.0, 1500.0, 1500.0] for measure in KV_MEASURES},
    },
    processor_us={
        "lanemq": {measure: [60.0, 61.0, 70.0] for measure in KV_MEASURES},
        "etcd": {measure: [120.0, 122.0, 150.0] for measure in KV_MEASURES},
    },
    processor_ratios=dict.fromkeys(KV_MEASURES, 2.05),
    ratios=dict.fromkeys(KV_MEASURES, 2.0),
    missing={},
    size=KvSize(
        10_000_000, 200_000.0, 250_000.0, 300.0, 400.0, 0.8, 2.0, 1500.0, 2.34, 1.23, 9_876
    ),
)


def shown(result: KvBench) -> str:
    console = Console(width=200, force_terminal=False)
    with console.capture() as capture:
        show_kv_bench(console, result)
    return capture.get()


def test_the_json_has_the_members_every_bench_reports() -> None:
    printed = json.loads(msgspec.json.encode(RESULT))
    assert set(printed) >= {"machine", "rounds", "samples", "ratios", "missing"}
    assert list(printed["ratios"]) == ["put_1", "put_64", "get_1", "get_64", "cas_1", "cas_64"]


def test_people_see_medians_ratios_percentiles_and_size() -> None:
    text = shown(RESULT)
    for part in (
        "2,000",
        "1,000 - 3,000",
        "2.00",
        "800",
        "1,500",
        "10,000,000 entries",
        "0.80",
        "2.34",
        "9,876",
    ):
        assert part in text, part


def test_where_etcd_is_missing_that_is_said_and_there_are_no_ratios() -> None:
    alone = msgspec.structs.replace(
        RESULT,
        samples={"lanemq": RESULT.samples["lanemq"]},
        ratios={},
        processor_us={"lanemq": RESULT.processor_us["lanemq"]},
        processor_ratios={},
        missing={"etcd": NO_ETCD.format("no network")},
        size=None,
    )
    text = shown(alone)
    assert "etcd was not measured: there is no etcd on PATH" in text
    assert "2,000" in text


def test_the_snapshot_has_the_entries_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "snapshot"
    write_snapshot(path, 12_345)
    with path.open("rb") as file:
        keys = [entry.key for block in SnapshotReader(file.read).blocks() for entry in block]
    assert keys == [key_of(number) for number in range(12_345)] == sorted(keys)


@pytest.mark.peers
@pytest.mark.slow
def test_blocking_clients_measure_the_same(tmp_path: Path) -> None:
    arguments = ["kv", "--against", "etcd", "--client", "python", "--folder", str(tmp_path)]
    options = ["--rounds", "1", "--seconds", "1", "--warm-up", "0.1", "--json"]
    result = CliRunner().invoke(bench, [*arguments, *options], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert printed["missing"] == {}
    assert set(printed["ratios"]) == set(KV_MEASURES)
    for rows in printed["samples"].values():
        assert set(rows) == set(KV_MEASURES)
        assert all(rates[0] > 0 for rates in rows.values())


@pytest.mark.peers
@pytest.mark.slow
def test_a_short_run_measures_everything(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Beside etcd on PATH, or the one that is built; and without one that can be."""
    require_tools("go")
    arguments = ["kv", "--against", "etcd", "--rounds", "1", "--seconds", "1", "--warm-up", "0.1"]
    options = ["--folder", str(tmp_path), "--json"]
    result = CliRunner().invoke(bench, [*arguments, *options], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    for rows in (printed["samples"], printed["processor_us"]):
        assert set(rows) == {"lanemq", "etcd"}
        assert set(rows["lanemq"]) == set(rows["etcd"]) == set(KV_MEASURES)
    assert all(rates[0] > 0 for rates in printed["samples"]["lanemq"].values())
    assert set(printed["ratios"]) == set(KV_MEASURES)
    assert printed["missing"] == {}
    assert list(tmp_path.iterdir()) == []
    folders = os.environ["PATH"].split(os.pathsep)
    without = [folder for folder in folders if not (Path(folder) / "etcd").exists()]
    monkeypatch.setenv("PATH", os.pathsep.join(without))

    def no_build() -> Path:
        raise BuildFailed(["go", "build"], 1, "no network")

    monkeypatch.setattr(_kv, "_build_etcd", no_build)
    result = CliRunner().invoke(bench, [*arguments, *options], catch_exceptions=False)
    printed = json.loads(result.stdout)
    assert (printed["ratios"], printed["processor_ratios"]) == ({}, {})
    assert "no network" in printed["missing"]["etcd"]


@pytest.mark.slow
async def test_a_hundred_thousand_entries_come_and_go(tmp_path: Path) -> None:
    size = await measure_size(100_000, tmp_path / "size", print)
    assert size.entries == 100_000
    assert min(size.import_per_s, size.export_per_s, size.page_ms, size.disk_mib) > 0
    assert size.page_ms <= size.page_p99_ms
    assert 0 < size.rss_mib <= RSS_MAX_MIB
    assert size.rss_read_mib <= RSS_MAX_MIB
    assert size.start_s > 0
    # The import's records, a hundred or more, are durable by then. A broker that looks at its
    # history just then adds a few of its own.
    assert 0 < size.redone < WRITES + 20
