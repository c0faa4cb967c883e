"""lanemq's keys and etcd's, measured in turn by the same program, in Go or in Python.

Both servers stay up for all rounds, and take turns in being first. Both make every write durable
before they answer it (``flushDiskType=SYNC_FLUSH``; etcd knows nothing else), and both are a
single node. etcd is the one on PATH, or else it is built from the Go module proxy. The program has
one connection to a server, shared by 1 or 64 clients that each wait for an answer before they ask
again. A compare-and-set replaces a key of the client's own. In Python the clients are threads:
those of the SDK's blocking face, and of etcd3.
"""

import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Final

import trio

from lanemq.compat import (
    PATIENT_S,
    BuildFailed,
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

from .._results import median_ratios, processor_s, this_machine
from ._results import KV_MEASURES, KvBench
from ._size import measure_size

OURS, THEIRS = "lanemq", "etcd"
SETTINGS: Final = {"flushDiskType": "SYNC_FLUSH", "syncFlushTimeout": "60000"}
ETCD_CLIENT: Final = "v3.5.21"
GO_MODULE: Final = (
    "module lanemq/bench/kv\n\ngo 1.22\n\nrequire go.etcd.io/etcd/client/v3 " + ETCD_CLIENT + "\n"
)
SOURCES: Final = ("kv.go", "etcd.go", "lanemq.go")
GO, PYTHON = "go", "python"
ETCD3: Final = ("etcd3==0.12.0", "protobuf==3.20.3", "grpcio", "six", "tenacity")
"""The blocking client of Python, and what it stands on; its messages are of protobuf 3."""
KEYS: Final = 10_000
VALUE_BYTES: Final = 100
ETCD: Final = "v3.5.21"
ETCD_MODULE: Final = (
    "module lanemq/bench/etcd\n\ngo 1.22\n\nrequire go.etcd.io/etcd/server/v3 " + ETCD + "\n"
)
ETCD_MAIN: Final = """package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
"""
NO_ETCD: Final = "there is no etcd on PATH, and it could not be built: {}"
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
    client: str = GO
    """The language of the program that asks: ``GO``, or ``PYTHON`` for blocking clients."""
    entries: int = 0
    """Entries of the broker whose size is measured; 0 leaves that out."""
    folder: Path | None = None
    """The folder of the servers' files; by default the one for temporary files."""


async def bench_kv(plan: KvPlan, say: Say) -> KvBench:
    """Run the bench; raises ``lanemq.compat.CompatError`` where a server or the client fails."""
    machine = this_machine()
    missing = {}
    if plan.client == GO and (reason := missing_tools("go")):
        raise ServerFailed(f"the program that asks for keys is in Go: {reason}")
    etcd: str | None = None
    if plan.with_etcd:
        try:
            etcd = shutil.which("etcd") or str(await trio.to_thread.run_sync(_build_etcd))
        except BuildFailed as error:
            missing[THEIRS] = NO_ETCD.format(error)
            say(f"etcd is not measured: {missing[THEIRS]}")
    program = await trio.to_thread.run_sync(_build if plan.client == GO else _build_blocking)
    with tempfile.TemporaryDirectory(prefix="lanemq-bench-kv-", dir=plan.folder) as name:
        folder = Path(name)
        figures = await _compare(plan, say, folder, program, etcd)
        size = None
        if plan.entries:
            size = await measure_size(plan.entries, folder / "size", say)
    both = len(figures.rates) == 2
    used = figures.processor_us
    return KvBench(
        machine=machine,
        rounds=plan.rounds,
        samples=figures.rates,
        p99_us=figures.p99_us,
        processor_us=used,
        processor_ratios=median_ratios(used, ours=THEIRS, theirs=OURS) if both else {},
        ratios=median_ratios(figures.rates, ours=OURS, theirs=THEIRS) if both else {},
        missing=missing,
        size=size,
    )


@dataclass(frozen=True, slots=True)
class _Program:
    """A program that asks for keys."""

    command: list[str]
    environment: dict[str, str]


def _build() -> _Program:
    """Build the Go program, if it is not there yet. Blocks."""
    home = files("lanemq.bench").joinpath("go")
    sources = {name: home.joinpath(name).read_text(encoding="utf-8") for name in SOURCES}
    sources["go.mod"] = GO_MODULE

    def make(folder: Path) -> None:
        for name, text in sources.items():
            (folder / name).write_text(text, encoding="utf-8")
        run_tool(["go", "build", "-mod=mod", "-o", "kv", "."], folder=folder)

    recipe = [part for item in sorted(sources.items()) for part in item]
    return _Program([str(built("go", "bench-kv", recipe, make) / "kv")], {})


def _build_blocking() -> _Program:
    """Fetch etcd3, if it is not there yet. Blocks. Raises ``BuildFailed``."""

    def make(folder: Path) -> None:
        install = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps")
        run_tool([sys.executable, *install, "--target=.", *ETCD3], folder=folder)

    place = built("python", "etcd3", [*ETCD3, sys.version], make)
    command = [sys.executable, "-m", "lanemq.bench.kv._blocking_client"]
    return _Program(command, {"PYTHONPATH": str(place)})


def _build_etcd() -> Path:
    """Build etcd from the Go module proxy, if it is not there yet. Blocks. Raises
    ``BuildFailed``."""

    def make(folder: Path) -> None:
        (folder / "go.mod").write_text(ETCD_MODULE, encoding="utf-8")
        (folder / "main.go").write_text(ETCD_MAIN, encoding="utf-8")
        run_tool(["go", "build", "-mod=mod", "-o", "etcd", "."], folder=folder)

    return built("go", "bench-etcd", [ETCD_MODULE, ETCD_MAIN], make) / "etcd"


@dataclass(frozen=True, slots=True)
class _Server:
    """A server that runs."""

    address: str
    process_id: int


_Rows = dict[str, dict[str, list[float]]]


@dataclass(slots=True)
class _Figures:
    """Server -> measure -> a number for each round, of each kind."""

    rates: _Rows = field(default_factory=dict)
    p99_us: _Rows = field(default_factory=dict)
    processor_us: _Rows = field(default_factory=dict)

    def add(self, server: str, measure: str, figures: tuple[float, float, float]) -> None:
        rows = (self.rates, self.p99_us, self.processor_us)
        for kept, number in zip(rows, figures, strict=True):
            kept.setdefault(server, {}).setdefault(measure, []).append(number)


async def _compare(
    plan: KvPlan, say: Say, folder: Path, program: _Program, etcd: str | None
) -> _Figures:
    async with AsyncExitStack() as stack:
        servers = {OURS: await stack.enter_async_context(_lanemq(folder / "lanemq", plan.client))}
        if etcd is not None:
            servers[THEIRS] = await stack.enter_async_context(_etcd(etcd, folder / "etcd"))
        driver = await stack.enter_async_context(
            open_driver("kv", program.command, folder, environment=program.environment)
        )
        for name, server in servers.items():
            await _ask(driver, name, server.address, "fill", 16, 0.0)
            for measure in KV_MEASURES:
                await _measure(driver, name, server, measure, plan.warm_up_s)
        found = _Figures()
        for number in range(plan.rounds):
            for measure in KV_MEASURES:
                for name in servers if number % 2 == 0 else reversed(servers):
                    figures = await _measure(driver, name, servers[name], measure, plan.seconds)
                    found.add(name, measure, figures)
                    say(
                        f"round {number + 1}: {name}: {measure} {figures[0]:,.0f}/s, "
                        f"{figures[2]:,.0f} us of processor time each"
                    )
        return found


async def _measure(
    driver: Driver, name: str, server: _Server, measure: str, seconds: float
) -> tuple[float, float, float]:
    """Return operations per second, the 99th percentile, and the server's processor time for an
    operation, both in microseconds."""
    operation, _, clients = measure.partition("_")
    before_s = processor_s(server.process_id)
    answer = await _ask(driver, name, server.address, operation, int(clients), seconds)
    used_s, operations = processor_s(server.process_id) - before_s, float(answer["operations"])
    return (
        round(operations / float(answer["seconds"]), 1),
        round(float(answer["p99_us"]), 1),
        round(used_s * 1e6 / max(operations, 1), 1),
    )


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
async def _lanemq(folder: Path, client: str) -> AsyncIterator[_Server]:
    cluster = lanemq_cluster(folder, settings=SETTINGS)
    async with (
        running(cluster),
        open_admin(name_servers=cluster.name_server, timeout_s=PATIENT_S) as admin,
    ):
        (broker,) = (await admin.cluster()).broker_addr_table.values()
        (daemon,) = cluster.daemons
        address = broker.broker_addrs[0] if client == GO else cluster.name_server
        yield _Server(address, daemon.pid)


@asynccontextmanager
async def _etcd(program: str, folder: Path) -> AsyncIterator[_Server]:
    port, peer_port = free_port(), free_port()
    clients, peers = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
    command = [
        *(program, "--name", "bench", "--data-dir", str(folder / "data"), "--log-level", "error"),
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
        yield _Server(f"127.0.0.1:{port}", daemon.pid)
    finally:
        with trio.CancelScope(shield=True):
            await daemon.kill()
