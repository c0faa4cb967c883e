"""A broker with very many queues starts in time, and the bench of it measures what it says."""

import json
from pathlib import Path

import msgspec
import pytest
import trio
from click.testing import CliRunner
from rich.console import Console

from lanemq.bench._results import QueuesBench, processor_s, resident_mib
from lanemq.bench.cli import bench
from lanemq.bench.stores._queue_maker import queues_of
from lanemq.bench.stores._queues import START_S, QueuesPlan, make_in_child, read_some
from lanemq.bench.stores._queues_command import show_queues_bench
from lanemq.compat import StoreStand
from lanemq.storage import Stage

START_MAX_S = 30.0
"""Processor time, since other work beside the test takes none of it; alone, a start computes all
the while."""
RSS_MAX_MIB = 200.0
"""Queues in RocksDB cost no memory until somebody asks for them."""


def test_every_queue_is_named_once() -> None:
    assert list(queues_of(5, 2)) == [
        ("topic-000000", 0),
        ("topic-000000", 1),
        ("topic-000001", 0),
        ("topic-000001", 1),
        ("topic-000002", 0),
    ]


@pytest.mark.slow
def test_the_bench_prints_a_table_or_one_json_object(tmp_path: Path) -> None:
    small = ["million-queues", "--queues", "60", "--queues-per-topic", "7"]
    folder = ["--folder", str(tmp_path)]
    printed = CliRunner().invoke(bench, [*small, *folder, "--json"], catch_exceptions=False)
    result = json.loads(printed.stdout)
    assert (result["queues"], result["queues_per_topic"]) == (60, 7)
    assert list(result["modes"]) == ["rocksdb", "files"]
    for mode in result["modes"].values():
        assert all(value > 0 for value in mode.values())
    assert list(tmp_path.iterdir()) == []
    console = Console(record=True, width=100)
    show_queues_bench(console, msgspec.convert(result, QueuesBench))
    text = console.export_text()
    assert "60 queues" in text
    assert "start after SIGKILL, s" in text


@pytest.mark.slow
async def test_a_million_queues_start_in_half_a_minute(tmp_path: Path) -> None:
    plan = QueuesPlan()
    assert plan.queues == 1_000_000
    stand = StoreStand(tmp_path, settings={})
    await make_in_child(stand.store, Stage.ROCKSDB, plan)
    broker = stand.broker("lanemq", Stage.ROCKSDB)
    broker.start_s = START_S
    await broker.start()
    try:
        assert processor_s(broker.pid) <= START_MAX_S
        await read_some(stand.address, plan)
        assert resident_mib([broker.pid]) <= RSS_MAX_MIB
    finally:
        with trio.CancelScope(shield=True):
            await broker.kill()
