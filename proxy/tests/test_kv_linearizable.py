"""Clients at work at once see one store, while its broker is killed again and again."""

import random
from contextlib import nullcontext, suppress
from itertools import product
from pathlib import Path

import pytest
import trio

from lanemq.proxy.nameserver import NameServerConfig, open_nameserver
from lanemq.proxy.sessions.keys import _pages
from lanemq.sdk import LanemqError
from lanemq.sdk.admin import open_admin
from lanemq.sdk.kv import Entry, open_kv_store
from lanemq.storage.kv import KvState, read_entry
from lanemq.storage.tools import verify_kv
from lanemq.testing import open_test_server
from lanemq.testkit.kv_histories._cluster import open_cluster
from lanemq.testkit.kv_histories._rounds import KINDS
from lanemq.testkit.proxy.kv_brokers import CONFIG, Brokers
from lanemq.testkit.proxy.kv_history import History, answered, clients
from lanemq.testkit.proxy.processes import server_process
from lanemq.testkit.servers import PATIENT_S

KEYS = [b"a", b"b", b"c"]
KILLS = 12
MOVES = 12


async def test_clients_of_a_running_broker_see_one_store() -> None:
    history = History(KEYS)
    async with open_test_server() as server, clients(server.name_servers, history):
        with trio.fail_after(60):
            await answered(history, 300)
    assert history.is_linearizable


async def test_a_broker_that_answers_from_the_past_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broken build: a read may be answered with what an earlier one found."""
    kept: dict[bytes, Entry | None] = {}
    real = read_entry

    def stale(state: KvState, key: bytes) -> Entry | None:
        if key in kept and len(kept) == len(KEYS):
            return kept.pop(key)
        kept[key] = real(state, key)
        return kept[key]

    monkeypatch.setattr(_pages, "read_entry", stale)
    history = History(KEYS)
    async with open_test_server() as server, clients(server.name_servers, history):
        with trio.fail_after(60):
            await answered(history, 300)
    assert not history.is_linearizable


@pytest.mark.slow
async def test_a_broker_that_is_killed_under_load_stays_linearizable(tmp_path: Path) -> None:
    """And its state is what its log makes, to the last byte, after each kill."""
    rng = random.Random(1)
    (tmp_path / "broker.conf").write_text(CONFIG)
    config = NameServerConfig(
        bind_address="127.0.0.1", listen_port=0, kv_config_path=tmp_path / "kv.json"
    )
    history = History(KEYS)
    async with open_nameserver(config) as name_server:
        command = ["broker", "-c", "broker.conf", "-n", name_server.address, "--name", "b"]
        command += ["--host", "127.0.0.1", "--port", "0", "--data", "store"]
        async with clients(name_server.address, history, broker="b"):
            for _ in range(KILLS):
                async with server_process(command, directory=tmp_path):
                    with trio.fail_after(120):
                        await answered(history, history.answered + rng.randint(1, 60))
                report = verify_kv(tmp_path / "store")
                assert report.is_sound, report.findings
                for one in report.namespaces:
                    assert one.replayed_hash == one.hash
    assert history.answered >= KILLS
    assert history.is_linearizable


async def all_open(address: str) -> None:
    """Wait until both partitions take reads."""
    async with open_kv_store(name_servers=address, timeout_s=60.0) as store:
        await store.statuses()


@pytest.mark.slow
async def test_partitions_that_move_between_brokers_stay_linearizable(tmp_path: Path) -> None:
    """While both brokers are killed again and again, in the middle of moves too."""
    rng = random.Random(2)
    config = NameServerConfig(
        bind_address="127.0.0.1", listen_port=0, kv_config_path=tmp_path / "kv.json"
    )
    history = History(KEYS)
    async with (
        open_nameserver(config) as name_server,
        open_admin(name_servers=name_server.address, timeout_s=PATIENT_S) as admin,
        trio.open_nursery() as nursery,
    ):
        brokers = Brokers(tmp_path, name_server.address, nursery)
        for name in ("a", "b"):
            await brokers.start(name)
        async with open_kv_store(name_servers=name_server.address, timeout_s=60.0) as store:
            await store.create(2, ["a", "b"])
        async with clients(name_server.address, history):
            for _ in range(MOVES):
                partition, name = rng.randrange(2), rng.choice("ab")
                with trio.move_on_after(rng.random()) if rng.random() < 0.5 else nullcontext():
                    try:
                        await admin.migrate_logical_queue("%KV%default", partition, name)
                    except LanemqError:  # it is there, on its way, or its broker was killed
                        with suppress(LanemqError):
                            await admin.resume_migration("%KV%default", partition)
                if rng.random() < 0.5:
                    await brokers.kill(rng.choice("ab"))
                with trio.fail_after(120):
                    await answered(history, history.answered + rng.randint(1, 30))
            await all_open(name_server.address)
            for partition, name in product(range(2), "ab"):  # whatever was cut above
                with suppress(LanemqError):  # it is there
                    await admin.migrate_logical_queue("%KV%default", partition, name)
        queues = await admin.routed_logical_queues("%KV%default")
        nursery.cancel_scope.cancel()
    assert queues is not None
    assert len(queues.segments) > 3  # there were moves
    assert history.is_linearizable
    for name in ("a", "b"):
        report = verify_kv(tmp_path / name / "store")
        assert report.is_sound, report.findings


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["deletions", "imports"])
async def test_deletions_and_imports_beside_kills_and_damage_stay_linearizable(
    tmp_path: Path, kind: str
) -> None:
    """``make kv-histories`` has more of these."""
    async with open_cluster(tmp_path, seed=3) as cluster:
        assert await KINDS[kind](cluster, random.Random(3), "1", misfortunes=3)
        assert cluster.counts["kills"]
        assert await cluster.end() == []
