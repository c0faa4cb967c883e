"""Clients at work at once see one store, while its broker is killed again and again."""

import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from lanemq.proxy.broker.kv import _register
from lanemq.proxy.nameserver import NameServerConfig, open_nameserver
from lanemq.sdk import LanemqError
from lanemq.sdk.kv import Entry, KeyValueStore, NoNamespace, open_kv_store
from lanemq.storage.kv import KvState, read_entry
from lanemq.storage.tools import verify_kv
from lanemq.testing import open_test_server
from lanemq.testkit.proxy.linearizable import NOT_KNOWN, Operation, is_linearizable
from lanemq.testkit.proxy.processes import server_process

KEYS = [b"a", b"b", b"c"]
KILLS = 12
CONFIG = """
flushIntervalConsumeQueue = 100
flushConsumeQueueThoroughInterval = 300
mappedFileSizeCommitLog = 1048576
mappedFileSizeConsumeQueue = 20000
logicalListenPort = -1
"""


class History:
    """The requests of every client, with their answers."""

    def __init__(self) -> None:
        self.of: dict[bytes, list[Operation]] = {key: [] for key in KEYS}
        self.answered = 0

    async def note(
        self,
        key: bytes,
        kind: str,
        ask: Callable[[], Awaitable[object]],
        *,
        value: bytes = b"",
        version: int = 0,
    ) -> None:
        """Ask, and keep what comes of it."""
        begin_s = trio.current_time()
        try:
            answer = await ask()
        except NoNamespace:
            return
        except (LanemqError, trio.Cancelled) as error:
            if kind != "get":
                lost = Operation(begin_s, math.inf, kind, NOT_KNOWN, value, version)
                self.of[key].append(lost)
            if isinstance(error, trio.Cancelled):
                raise
            return
        done = Operation(begin_s, trio.current_time(), kind, answer, value, version)
        self.of[key].append(done)
        self.answered += 1

    @property
    def is_linearizable(self) -> bool:
        """Whether each key's history has an explanation."""
        return all(map(is_linearizable, self.of.values()))


async def work(store: KeyValueStore, history: History, name: int) -> None:
    """Ask for keys at random, without an end."""
    rng = random.Random(name)
    number = 0
    while True:
        number += 1
        key, value = rng.choice(KEYS), b"%d-%d" % (name, number)
        version = rng.randrange(4)

        async def get(key: bytes = key) -> object:
            entry = await store.get(key)
            return None if entry is None else (entry.version, entry.value)

        async def cas(key: bytes = key, value: bytes = value, version: int = version) -> object:
            return (await store.compare_and_set(key, value, version=version)).done

        chosen = rng.random()
        if chosen < 0.4:
            await history.note(key, "get", get)
        elif chosen < 0.6:
            await history.note(key, "put", partial(store.put, key, value), value=value)
        elif chosen < 0.75:
            await history.note(key, "delete", partial(store.delete, key))
        else:
            await history.note(key, "cas", cas, value=value, version=version)


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
    history = History()
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
    history = History()
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
    history = History()
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
