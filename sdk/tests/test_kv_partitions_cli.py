"""``lanemq kv`` for a namespace over partitions."""

import importlib
import json
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner, Result

from lanemq.sdk._tasks import open_quiet_nursery
from lanemq.sdk.kv import KeyValueStore, open_kv_store
from lanemq.sdk.kv.cli import kv
from lanemq.testkit.sdk.kv import FakePartition, KvCluster
from lanemq.wire.kv import LoadedEntry, SnapshotHeader, SnapshotReader, SnapshotWriter, partition_of

Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Commands against two brokers in memory, whose keys outlast them."""
    namespaces: dict[str, dict[int, FakePartition]] = {}

    @asynccontextmanager
    async def opened(**settings: Any) -> AsyncIterator[KeyValueStore]:  # noqa: ANN401
        async with open_quiet_nursery() as nursery:
            cluster = KvCluster(nursery, brokers=2)
            cluster.namespaces = namespaces
            for broker in cluster.kv_brokers:
                broker.page_entries_max = 5
            for name, parts in namespaces.items():
                for part in parts.values():
                    part.arrived = trio.Event()
                cluster.publish(name)
            settings["name_servers"] = cluster.name_servers
            async with open_kv_store(**settings, dial=cluster.dial) as store:
                yield store
            nursery.cancel_scope.cancel()

    module = importlib.import_module("lanemq.sdk.kv.cli._command")
    monkeypatch.setattr(module, "open_kv_store", opened)

    def invoke(*arguments: str, status: int = 0) -> Result:
        result = CliRunner().invoke(kv, [arguments[0], "-n", "in memory:1", *arguments[1:]])
        assert result.exit_code == status, (result.output, result.exception)
        return result

    return invoke


def create(run: Run, partitions: int, namespace: str = "default") -> None:
    brokers = ("--broker", "broker-a", "--broker", "broker-b")
    run("create", "--partitions", str(partitions), *brokers, "--namespace", namespace)


def fill(run: Run, count: int = 20) -> list[str]:
    keys = [f"k{number:02}" for number in range(count)]
    for key in keys:
        run("put", key, f"v-{key}")
    return keys


def test_partitions_are_made_and_shown(run: Run) -> None:
    create(run, 3)
    create(run, 3)
    keys = fill(run)
    found = json.loads(run("status", "--json").stdout)
    assert (found["entries"], found["partitions"], found["position"]) == (
        20,
        3,
        26,
    )  # each create is a record
    each = found["by_partition"]
    assert [one["broker"] for one in each] == ["broker-a", "broker-b", "broker-a"]
    assert [one["entries"] for one in each] == [
        sum(partition_of(key.encode(), 3) == number for key in keys) for number in range(3)
    ]
    lines = run("status").stdout.splitlines()
    assert "entries:      20" in lines
    names = "partition broker entries bytes position lag leases state"
    assert lines[-4].split() == names.split()
    assert lines[-3].split()[:2] == ["0", "broker-a"]
    assert lines[-2].split()[-1] == "open"
    refused = run("create", "--partitions", "4", "--broker", "broker-a", status=2)
    assert "has 3 partitions, and not 4" in refused.stderr
    assert "65 is not in the range" in run("create", "--partitions", "65", status=2).stderr


def test_scan_hash_and_watch(run: Run) -> None:
    create(run, 3)
    keys = fill(run)
    assert run("scan", "k", "--keys-only").stdout.split() == keys
    assert run("scan", "k", "--keys-only", "--limit", "7").stdout.split() == keys[:7]
    mine = [key for key in keys if partition_of(key.encode(), 3) == 1]
    assert run("scan", "--keys-only", "--partition", "1").stdout.split() == mine
    first, *parts = run("hash").stdout.splitlines()
    found = json.loads(run("hash", "--json").stdout)
    assert first == f"{found['hash']} 23"
    assert parts == [
        f"partition {one['partition']}: {one['hash']} {one['position']}"
        for one in found["by_partition"]
    ]
    changes = run("watch", "--position", "0,0,0", "--count", "20").stdout.splitlines()
    assert sorted(line.split()[2] for line in changes) == keys
    assert "1/1 put" in "\n".join(changes)
    (line,) = run("watch", "--json", "--position", "0,0,0", "--count", "1").stdout.splitlines()
    assert json.loads(line)["partition"] in range(3)
    assert "3 partitions" in run("watch", "--position", "4", status=2).stderr
    assert "not a position" in run("watch", "--position", "4,x", status=2).stderr
    assert "not a position" in run("watch", "--position", 5000 * "9", status=2).stderr


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (3, 4)])
def test_an_export_goes_into_another_number_of_partitions(
    run: Run, tmp_path: Path, before: int, after: int
) -> None:
    create(run, before)
    keys = fill(run)
    run("put", keys[3], "again")
    file = tmp_path / "snapshot"
    position = 21 + before  # each partition begins with a record of its own
    assert f"20 entries at position {position}" in run("export", str(file)).stdout
    assert [path.name for path in tmp_path.iterdir()] == ["snapshot"]
    with file.open("rb") as opened:
        header = SnapshotReader(opened.read).header
    assert sum(header.positions) == (position if before > 1 else 0)
    assert len(header.positions) == (before if before > 1 else 0)
    create(run, after, "copy")
    run("import", "--namespace", "copy", str(file))
    status = json.loads(run("status", "--json", "--namespace", "copy").stdout)
    assert (status["entries"], status["partitions"]) == (20, after)

    def entries(namespace: str) -> list[dict[str, object]]:
        lines = run("scan", "--json", "--namespace", namespace).stdout.splitlines()
        found: list[dict[str, object]] = [json.loads(line) for line in lines]
        own = {"modified", "revision"}
        return [{k: v for k, v in one.items() if k not in own} for one in found]

    assert entries("copy") == entries("default")
    assert "is not empty" in run("import", "--namespace", "copy", str(file), status=2).stderr
    run("import", "--replace", "--namespace", "copy", str(file))


def test_a_snapshot_of_one_partition_has_the_bytes_that_it_always_had() -> None:
    written = bytearray()
    header = SnapshotHeader(namespace="n", position=3, clock_ms=4)
    writer = SnapshotWriter(written.extend, header)
    writer.add([LoadedEntry(b"k", b"v", 1, 2, 3)])
    writer.finish()
    assert bytes(written).startswith(
        b"lanekvs\x01\x00\x00\x00\x21\x83\xa9namespace\xa1n\xa8position\x03\xa8clock_ms\x04"
    )


def test_a_signal_ends_the_wait_for_a_lock(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    create(run, 1)
    run("put", "l", "somebody")

    async def wait(*_: object) -> None:
        signal.raise_signal(signal.SIGTERM)
        await trio.sleep_forever()

    queue = importlib.import_module("lanemq.sdk.kv._lock_queue").LockQueue
    monkeypatch.setattr(queue, "until_gone", wait)
    run("lock", "l", "--", "true", status=128 + signal.SIGTERM)
    assert run("get", "l").stdout == "somebody\n"
