"""lanemq's keys and etcd's, measured in turn by the same Go program.

Both servers stay up for all rounds, and take turns in being first. Both make every write durable
before they answer it (``flushDiskType=SYNC_FLUSH``; etcd knows nothing else), and both are a
single node. The program has one connection to a server, shared by 1 or 64 clients that each wait
for an answer before they ask again. A compare-and-set replaces a key of the client's own.
"""

import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

import trio

from lanemq.compat import (
    PATIENT_S,
    Daemon,
    Driver,
    ServerFailed,
    built,
    free_port,
    lanemq_cluster,
    missing_tools,
    open_driver,
    run_tool,
    running,
)
from lanemq.sdk.admin import open_admin

from .._results import median_ratios, this_machine
from ._results import KV_MEASURES, KvBench
from ._size import measure_size

OURS, THEIRS = "lanemq", "etcd"
SETTINGS: Final = {"flushDiskType": "SYNC_FLUSH", "syncFlushTimeout": "60000"}
ETCD_CLIENT: Final = "v3.5.21"
GO_MODULE: Final = (
    "module lanemq/bench/kv\n\ngo 1.22\n\nrequire go.etcd.io/etcd/client/v3 " + ETCD_CLIENT + "\n"
)
SOURCES: Final = ("kv.go", "etcd.go", "lanemq.go")
KEYS: Final = 10_000
VALUE_BYTES: Final = 100
NO_ETCD: Final = "there is no etcd on PATH (Debian and Ubuntu: apt-get install etcd-server)"
HEALTHY: Final = b'"health":"true"'

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class KvPlan:
    """The plan of a bench of keys."""

    rounds: int = 5
    seconds: float = 3.0
    warm_up_s: float = 2.0
    """Seconds of each measure before the first round, which nobody reads."""
    with_etcd: bool = False
    entries: int = 0
    """Entries of the broker whose size is measured; 0 leaves that out."""
    folder: Path | None = None
    """The folder of the servers' files; by default the one for temporary files."""


async def bench_kv(plan: KvPlan, say: Say) -> KvBench:
    """Run the bench; raises ``lanemq.compat.CompatError`` where a server or the client fails."""
    machine = this_machine()
    missing = {}
    if plan.with_etcd and shutil.which("etcd") is None:
        missing[THEIRS] = NO_ETCD
        say(f"etcd is not measured: {NO_ETCD}")
    if reason := missing_tools("go"):
        raise ServerFailed(f"the program that asks for keys is in Go: {reason}")
    command = [str(await trio.to_thread.run_sync(_build))]
    with tempfile.TemporaryDirectory(prefix="lanemq-bench-kv-", dir=plan.folder) as name:
        folder = Path(name)
        samples, p99_us = await _compare(plan, say, folder, command, bool(missing))
        size = None
        if plan.entries:
            size = await measure_size(plan.entries, folder / "size", say)
    both = len(samples) == 2
    return KvBench(
        machine=machine,
        rounds=plan.rounds,
        samples=samples,
        p99_us=p99_us,
        ratios=median_ratios(samples, ours=OURS, theirs=THEIRS) if both else {},
        missing=missing,
        size=size,
    )


def _build() -> Path:
    """Build the Go program, if it is not there yet. Blocks."""
    home = files("lanemq.bench").joinpath("go")
    sources = {name: home.joinpath(name).read_text(encoding="utf-8") for name in SOURCES}
    sources["go.mod"] = GO_MODULE

    def make(folder: Path) -> None:
        for name, text in sources.items():
            (folder / name).write_text(text, encoding="utf-8")
        run_tool(["go", "build", "-mod=mod", "-o", "kv", "."], folder=folder)

    recipe = [part for item in sorted(sources.items()) for part in item]
    return built("go", "bench-kv", recipe, make) / "kv"


Figures = dict[str, dict[str, list[float]]]


async def _compare(
    plan: KvPlan, say: Say, folder: Path, command: list[str], without_etcd: bool
) -> tuple[Figures, Figures]:
    async with AsyncExitStack() as stack:
        addresses = {OURS: await stack.enter_async_context(_lanemq(folder / "lanemq"))}
        if plan.with_etcd and not without_etcd:
            addresses[THEIRS] = await stack.enter_async_context(_etcd(folder / "etcd"))
        driver = await stack.enter_async_context(open_driver("kv", command, folder))
        for server in addresses:
            await _ask(driver, server, addresses[server], "fill", 16, 0.0)
            for measure in KV_MEASURES:
                await _measure(driver, server, addresses[server], measure, plan.warm_up_s)
        rates: Figures = {name: {one: [] for one in KV_MEASURES} for name in addresses}
        p99_us: Figures = {name: {one: [] for one in KV_MEASURES} for name in addresses}
        for number in range(plan.rounds):
            for measure in KV_MEASURES:
                for server in addresses if number % 2 == 0 else reversed(addresses):
                    rate, slow_us = await _measure(
                        driver, server, addresses[server], measure, plan.seconds
                    )
                    rates[server][measure].append(rate)
                    p99_us[server][measure].append(slow_us)
                    say(f"round {number + 1}: {server}: {measure} {rate:,.0f}/s")
        return rates, p99_us


async def _measure(
    driver: Driver, server: str, address: str, measure: str, seconds: float
) -> tuple[float, float]:
    """Return operations per second, and the 99th percentile in microseconds."""
    operation, _, clients = measure.partition("_")
    answer = await _ask(driver, server, address, operation, int(clients), seconds)
    rate = float(answer["operations"]) / float(answer["seconds"])
    return round(rate, 1), round(float(answer["p99_us"]), 1)


async def _ask(
    driver: Driver, server: str, address: str, operation: str, clients: int, seconds: float
) -> dict[str, float]:
    found: dict[str, float] = await driver.call(
        "measure",
        server=server,
        address=address,
        operation=operation,
        clients=clients,
        seconds=seconds,
        keys=KEYS,
        value_bytes=VALUE_BYTES,
    )
    return found


@asynccontextmanager
async def _lanemq(folder: Path) -> AsyncIterator[str]:
    cluster = lanemq_cluster(folder, settings=SETTINGS)
    async with (
        running(cluster),
        open_admin(name_servers=cluster.name_server, timeout_s=PATIENT_S) as admin,
    ):
        (broker,) = (await admin.cluster()).broker_addr_table.values()
        yield broker.broker_addrs[0]


@asynccontextmanager
async def _etcd(folder: Path) -> AsyncIterator[str]:
    port, peer_port = free_port(), free_port()
    clients, peers = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
    command = [
        *("etcd", "--name", "bench", "--data-dir", str(folder / "data"), "--log-level", "error"),
        *("--listen-client-urls", clients, "--advertise-client-urls", clients),
        *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers),
        *("--initial-cluster", f"bench={peers}"),
    ]

    async def is_healthy() -> bool:
        try:
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                await stream.send_all(b"GET /health HTTP/1.0\r\n\r\n")
                data = b""
                async for piece in stream:
                    data += piece
                return HEALTHY in data
        except (OSError, trio.BrokenResourceError):
            return False

    daemon = Daemon("etcd", command, folder=folder, ready=is_healthy)
    await daemon.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        with trio.CancelScope(shield=True):
            await daemon.kill()
