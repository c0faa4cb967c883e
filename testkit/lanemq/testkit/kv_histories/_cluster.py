"""A cluster with keys that fares badly: its brokers are real processes."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext, suppress
from itertools import product
from pathlib import Path
from typing import Final, final

import trio

from lanemq.proxy.nameserver import NameServerConfig, open_nameserver
from lanemq.sdk import LanemqError
from lanemq.sdk.admin import AdminClient, open_admin
from lanemq.sdk.kv import open_kv_store
from lanemq.storage.tools import verify_kv

from ..proxy.kv_brokers import Brokers
from . import stepped

BROKERS: Final = "ab"
PARTITIONS: Final = 2
HOUR_MS: Final = 3_600_000
WAIT_S: Final = 180.0
"""Seconds after which something hangs; far more than a start takes on a busy machine."""
_LEFT: Final = ("LOCK", "LOG", "LOG.old")
"""Files of RocksDB that have nothing of the state."""


@final
class Cluster:
    """Two brokers, a name server, and what has happened to them."""

    def __init__(
        self, root: Path, address: str, admin: AdminClient, nursery: trio.Nursery, seed: int
    ) -> None:
        self.address = address
        self.counts = dict.fromkeys(("kills", "moves", "damaged", "clock steps"), 0)
        """The number of times that each happened."""
        self._root = root
        self._admin = admin
        self._rng = random.Random(seed)
        self._brokers = Brokers(root, address, nursery, module=stepped.__name__)
        self._ahead_ms = dict.fromkeys(BROKERS, 0)

    async def start(self) -> None:
        """Start both brokers."""
        for name in BROKERS:
            await self._brokers.start(name)

    async def create(self, namespace: str) -> None:
        """Make a namespace with a partition at each broker, whatever happens meanwhile."""
        async with open_kv_store(
            name_servers=self.address, namespace=namespace, timeout_s=WAIT_S
        ) as store:
            await store.create(PARTITIONS, list(BROKERS))

    async def all_open(self, namespace: str) -> None:
        """Wait until all partitions take reads."""
        async with open_kv_store(
            name_servers=self.address, namespace=namespace, timeout_s=WAIT_S
        ) as store:
            await store.statuses()

    async def misfortune(self, namespace: str, *, moves: bool = True) -> None:
        """Let something happen to the brokers, or to partitions of a namespace."""
        name, chosen = self._rng.choice(BROKERS), self._rng.random()
        if chosen < 0.2 and moves:
            await self._move(namespace, self._rng.randrange(PARTITIONS), name)
        elif chosen < 0.3:
            self._step_clock(name)
        elif chosen < 0.45:
            self.counts["damaged"] += 1
            await self._kill(name, damaged=True)
        elif chosen < 0.55:
            async with trio.open_nursery() as nursery:
                for one in BROKERS:
                    nursery.start_soon(self._kill, one)
        else:
            await self._kill(name)

    async def bring_moves_to_an_end(self, namespace: str) -> None:
        """Ask again for whatever was cut off."""
        for partition, name in product(range(PARTITIONS), BROKERS):
            with suppress(LanemqError):  # it is there
                await self._admin.migrate_logical_queue(f"%KV%{namespace}", partition, name)

    async def end(self) -> list[str]:
        """Kill both for good; returns what is wrong in their stores."""
        for name in BROKERS:
            await self._brokers.stop(name)
        reports = [verify_kv(self._brokers.store_of(name)) for name in BROKERS]
        return [str(one) for report in reports if not report.is_sound for one in report.findings]

    async def _kill(self, name: str, *, damaged: bool = False) -> None:
        self.counts["kills"] += 1
        await self._brokers.kill(name, self._damage if damaged else None)

    async def _move(self, namespace: str, partition: int, name: str) -> None:
        """Move a partition; half of the moves are cut off at some point."""
        topic = f"%KV%{namespace}"
        is_cut = self._rng.random() < 0.5
        with trio.move_on_after(self._rng.random()) if is_cut else nullcontext():
            try:
                await self._admin.migrate_logical_queue(topic, partition, name)
                self.counts["moves"] += 1
            except LanemqError:  # it is there, on its way, or its broker was killed
                with suppress(LanemqError):
                    await self._admin.resume_migration(topic, partition)

    def _step_clock(self, name: str) -> None:
        """Set a broker's clock an hour ahead or back, or right again."""
        self.counts["clock steps"] += 1
        ahead_ms = self._rng.choice((HOUR_MS, -HOUR_MS, 0, 0))
        (self._root / name / stepped.CLOCK).write_text(
            f"{ahead_ms:<{stepped.NUMBER_BYTES}}", encoding="ascii"
        )

    def _damage(self, store: Path) -> None:
        """Change bytes of a file of the keys' database."""
        files = [
            path
            for path in sorted((store / "kv" / "rocksdb").glob("*"))
            if path.is_file() and path.name not in _LEFT and path.stat().st_size
        ]
        if not files:
            return
        path = self._rng.choice(files)
        data = bytearray(path.read_bytes())
        for _ in range(self._rng.randint(1, 8)):
            data[self._rng.randrange(len(data))] ^= self._rng.randint(1, 255)
        path.write_bytes(data)


@asynccontextmanager
async def open_cluster(root: Path, seed: int) -> AsyncIterator[Cluster]:
    """Run a cluster below ``root``."""
    config = NameServerConfig(
        bind_address="127.0.0.1", listen_port=0, kv_config_path=root / "kv.json"
    )
    async with (
        open_nameserver(config) as name_server,
        open_admin(name_servers=name_server.address, timeout_s=10.0) as admin,
        trio.open_nursery() as nursery,
    ):
        cluster = Cluster(root, name_server.address, admin, nursery, seed)
        await cluster.start()
        yield cluster
        nursery.cancel_scope.cancel()
