"""A name server, brokers and logical listeners under requests that are almost right."""

import re
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, final

import trio

from lanemq.wire import HostAddress

from ..proxy.accounts import KINDS
from ..proxy.brokers import Client
from ..proxy.peers import Peer
from ..proxy.processes import ServerProcess, server_process
from ._intruders import Guarded, guarded_broker, intrude
from ._requests import sequences

PEERS: Final = 6
LISTEN_S: Final = 0.3
"""Seconds that a peer reads the answers it gets."""
ANSWER_S: Final = 10.0
"""An honest client's request must be answered within this time, however busy the machine is."""
LOOK_S: Final = 1.0
PROBE_TOPIC: Final = "fuzz-probe"
HELD: Final = re.compile(r"(.*) kept everybody waiting for (\d+) ms")
TRACEBACK: Final = "Traceback (most recent call last)"
KEPT_CONNECTIONS: Final = 50


@final
@dataclass
class Findings:
    """The faults that were found, and how much was tried."""

    requests: int = 0
    connections: int = 0
    peak_bytes: int = 0
    longest_ms: int = 0
    wrong: list[str] = field(default_factory=list)
    recent: dict[int, deque[list[bytes]]] = field(default_factory=dict)
    """Bytes that the last connections of each peer were sent."""

    def add(self, what: str) -> None:
        """Note something wrong, once."""
        if what not in self.wrong:
            self.wrong.append(what)


@asynccontextmanager
async def _servers(root: Path) -> AsyncIterator[tuple[dict[str, ServerProcess], list[Guarded]]]:
    """Run a name server, a broker without accounts, and one for each kind of them."""
    inside = root / "servers"
    inside.mkdir(exist_ok=True)
    host = ("--host", "127.0.0.1", "--log-level", "warning")
    async with AsyncExitStack() as stack:
        namesrv = await stack.enter_async_context(
            server_process(["namesrv", *host, "--port", "0", "--data", "namesrv"], directory=inside)
        )
        broker = await stack.enter_async_context(
            server_process(
                [
                    *("broker", *host, "--port", "0", "--data", "store", "--name", "broker"),
                    *("-n", namesrv.facts["namesrv"]),
                ],
                directory=inside,
            )
        )
        guarded = [
            await stack.enter_async_context(
                guarded_broker(inside, kind, namesrv.address("namesrv"))
            )
            for kind in KINDS
        ]
        servers = {"namesrv": namesrv, "broker": broker}
        yield servers | {f"guarded-{one.kind}": one.process for one in guarded}, guarded


async def _attack(number: int, seed: str, addresses: list[HostAddress], findings: Findings) -> None:
    """Play one peer: one connection after the other, each with some requests."""
    kept = findings.recent[number] = deque(maxlen=KEPT_CONNECTIONS)
    for count, requests in enumerate(sequences(seed)):
        address = addresses[(number + count) % len(addresses)]
        kept.append(requests)
        try:
            stream = await trio.open_tcp_stream(address.host, address.port)
        except OSError:
            await trio.sleep(LISTEN_S)  # whether it has gone is looked for elsewhere
            continue
        findings.connections += 1
        findings.requests += len(requests)
        async with stream:
            try:
                with trio.move_on_after(LISTEN_S):
                    for data in requests:
                        await stream.send_all(data)
                    if count % 5:  # else nothing is read
                        while await stream.receive_some():
                            pass
            except trio.BrokenResourceError:
                continue


async def _probe(broker: ServerProcess, findings: Findings) -> None:
    """Play an honest client; the content of its answers matters less than their coming."""
    while True:
        try:
            async with await trio.open_tcp_stream(*broker.address()) as stream:
                client = Client(Peer(stream))
                for _ in range(20):
                    with trio.fail_after(ANSWER_S):
                        await client.send(PROBE_TOPIC)
                        await client.pull(PROBE_TOPIC)
                    await trio.sleep(LISTEN_S)
        except trio.TooSlowError:
            findings.add(f"an honest client was not answered within {ANSWER_S:g} s")
        except (OSError, EOFError, trio.BrokenResourceError) as error:
            if broker.is_running:
                findings.add(f"an honest client lost its connection: {error!r}")
            return


async def _look(
    servers: dict[str, ServerProcess], findings: Findings, limit_bytes: int, turn_ms: int
) -> None:
    """Look after the servers until one of them has gone."""
    while all(server.is_running for server in servers.values()):
        _measure(servers, findings, limit_bytes, turn_ms)
        await trio.sleep(LOOK_S)
    for name, server in servers.items():
        if not server.is_running:
            findings.add(f"{name} ended with status {server.process.returncode}")


def _measure(
    servers: dict[str, ServerProcess], findings: Findings, limit_bytes: int, turn_ms: int
) -> None:
    for name, server in servers.items():
        findings.peak_bytes = max(findings.peak_bytes, server.peak_bytes)
        if server.peak_bytes > limit_bytes:
            findings.add(f"{name} had more than {limit_bytes >> 20} MiB in memory")
        log = server.log_text
        if TRACEBACK in log:
            begin = log.index(TRACEBACK)
            findings.add(f"{name} logged a traceback:\n{log[max(0, begin - 300) : begin + 3000]}")
        for who, held_ms in HELD.findall(log):
            findings.longest_ms = max(findings.longest_ms, int(held_ms))
            if int(held_ms) > turn_ms:
                findings.add(f"{name}: {who[-200:]} kept everybody waiting for {held_ms} ms")


async def _end(servers: dict[str, ServerProcess], findings: Findings) -> None:
    for name, server in servers.items():
        if (status := await server.stop()) != 0:
            findings.add(f"{name} stopped with status {status}")


async def run(root: Path, *, seed: int, seconds: float, limit_bytes: int, turn_ms: int) -> Findings:
    """Attack servers in ``root`` for ``seconds``; the same seed sends the same to them."""
    findings = Findings()
    (root / "outside").mkdir()
    started_s = time.monotonic()
    async with _servers(root) as (servers, guarded):
        broker = servers["broker"]
        addresses = [
            servers["namesrv"].address("namesrv"),
            broker.address(),
            broker.address(),
            broker.address("logical_listener"),
        ]
        with trio.move_on_after(seconds):
            async with trio.open_nursery() as nursery:
                for number in range(PEERS):
                    nursery.start_soon(_attack, number, f"{seed}-{number}", addresses, findings)
                for one in guarded:
                    nursery.start_soon(intrude, one, f"{seed}-{one.kind}", findings.add)
                nursery.start_soon(_probe, broker, findings)
                await _look(servers, findings, limit_bytes, turn_ms)
                nursery.cancel_scope.cancel()
        if all(server.is_running for server in servers.values()):
            _measure(servers, findings, limit_bytes, turn_ms)
            await _end(servers, findings)
    if time.monotonic() - started_s >= seconds:
        async with _servers(root) as (servers, _):  # what was kept can be started with
            await _end(servers, findings)
    _look_around(root, findings)
    return findings


def _look_around(root: Path, findings: Findings) -> None:
    """Check that nothing is where no server was told to write."""
    expected = {
        root: {"outside", "servers"},
        root / "outside": set[str](),
        root / "servers": {"namesrv", "store", "namesrv.log", "broker.log"}
        | {f"guarded-{kind}" for kind in KINDS},
    }
    for kind in KINDS:
        expected[root / "servers" / f"guarded-{kind}"] = {
            "broker.conf",
            "broker.log",
            "home",
            "store",
        }
    for directory, names in expected.items():
        if strangers := {path.name for path in directory.iterdir()} - names:
            findings.add(f"written beside the servers' directories: {strangers} in {directory}")
