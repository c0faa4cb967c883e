"""Clients at work at once see one store, while its broker is killed again and again."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext, suppress
from itertools import product
from pathlib import Path

import pytest
import trio

from lanemq.proxy.broker.kv import _register
from lanemq.proxy.nameserver import NameServerConfig, open_nameserver
from lanemq.sdk import LanemqError
from lanemq.sdk.admin import open_admin
from lanemq.sdk.kv import Entry, open_kv_store
from lanemq.storage.kv import KvState, read_entry
from lanemq.storage.tools import verify_kv
from lanemq.testing import open_test_server
from lanemq.testkit.proxy.kv_history import History, work
from lanemq.testkit.proxy.processes import server_process

KEYS = [b"a", b"b", b"c"]
KILLS = 12
MOVES = 12
CONFIG = """
flushIntervalConsumeQueue = 100
flushConsumeQueueThoroughInterval = 300
mappedFileSizeCommitLog = 1048576
mappedFileSizeConsumeQueue = 20000
logicalListenPort = -1
"""


@asynccontextmanager
async def clients(
    name_server: str, history: History, count: int = 4, *, broker: str | None = None
) -> AsyncIterator[None]:
    """Let so many clients work for the length of the block."""
    async with trio.open_nursery() as nursery:

        async def run(name: int) -> None:
            async with open_kv_store(
                name_servers=name_server, broker=broker, timeout_s=60.0
            ) as store:
                await work(store, history, name)

        for name in range(count):
            nursery.start_soon(run, name)
        yield
        nursery.cancel_scope.cancel()


async def answered(history: History, count: int) -> None:
    """Wait until so many calls have been answered."""
    while history.answered < count:  # noqa: ASYNC110 - the clients have nobody to tell
        await trio.sleep(0.005)


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

    monkeypatch.setattr(_register, "read_entry", stale)
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


class Brokers:
    """Processes of brokers that can be killed, and come back."""

    def __init__(self, root: Path, name_server: str, nursery: trio.Nursery) -> None:
        self._root = root
        self._name_server = name_server
        self._nursery = nursery
        self._killed: dict[str, trio.Event] = {}
        self._gone: dict[str, trio.Event] = {}

    async def start(self, name: str) -> None:
        """Start a broker; returns once it is ready."""
        killed = self._killed[name] = trio.Event()
        gone = self._gone[name] = trio.Event()
        await self._nursery.start(self._run, name, killed, gone)

    async def kill(self, name: str) -> None:
        """Kill a broker with SIGKILL, and start it again."""
        self._killed[name].set()
        await self._gone[name].wait()
        await self.start(name)

    async def _run(
        self,
        name: str,
        killed: trio.Event,
        gone: trio.Event,
        task_status: trio.TaskStatus[None],
    ) -> None:
        directory = self._root / name
        directory.mkdir(exist_ok=True)
        (directory / "broker.conf").write_text(CONFIG)
        command = ["broker", "-c", "broker.conf", "-n", self._name_server, "--name", name]
        command += ["--host", "127.0.0.1", "--port", "0", "--data", "store"]
        async with server_process(command, directory=directory):
            task_status.started()
            await killed.wait()
        gone.set()


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
        open_admin(name_servers=name_server.address) as admin,
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
