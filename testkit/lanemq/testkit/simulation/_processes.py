"""Programs of a simulated cluster: started, killed and started again, each on a host of its own."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Final, Literal, final

import trio

from lanemq.proxy.broker import Broker, BrokerConfig
from lanemq.proxy.logical.listener import LogicalListener
from lanemq.proxy.nameserver import NameServerConfig, run_nameserver
from lanemq.proxy.net._server import Server
from lanemq.proxy.process import LogicalPorts, run_broker
from lanemq.storage import FlushMode
from lanemq.wire import HostAddress

from ..storage.disk import Crash, SimulatedFiles
from ._network import End, Network
from ._sockets import EndTransport

START_MS: Final = 1_700_000_000_000
NAME_SERVER_PORT: Final = 9876
BROKER_PORT: Final = 10911
LOGICAL_PORT: Final = 10921

SMALL_FILES: Final = {
    "mapped_file_size_commit_log": 256 << 10,
    "mapped_file_size_consume_queue": 20_000,
    "max_hash_slot_num": 500,
    "max_index_num": 2000,
}
_DEFAULTS: Final = {"logical_queue_brokers": 1, "store_path_root_dir": Path("/store")}


def clock_ms() -> int:
    """Return a time of day that goes with trio's clock."""
    return START_MS + int(trio.current_time() * 1000)


class Process:
    """A program on a host. Runs in the cluster's nursery from ``start`` to ``kill`` or ``stop``."""

    def __init__(self, name: str, host: str, network: Network, nursery: trio.Nursery) -> None:
        self.name = name
        self.host = host
        self.network = network
        self.is_up = False
        self._nursery = nursery
        self._scope = trio.CancelScope()
        self._leaving = trio.Event()
        self._ended = trio.Event()

    async def start(self) -> None:
        """Return once it listens."""
        assert not self.is_up
        self._scope, self._ended = trio.CancelScope(), trio.Event()
        self._leaving = trio.Event()
        self.is_up = True
        self.network.go_up(self.host)
        await self._nursery.start(self._run)

    async def stop(self) -> None:
        """End it as an operator does, and wait until it has ended."""
        self._scope.cancel()
        await self._ended.wait()
        self.network.go_down(self.host)

    async def leave(self) -> None:
        """Let it do what it does when it is told to stop, and wait until it has ended."""
        self._leaving.set()
        await self._ended.wait()
        self.network.go_down(self.host)

    async def kill(self) -> None:
        """Kill it, and wait until its tasks have ended."""
        self.network.go_down(self.host)
        self.killed()
        self._scope.cancel()
        await self._ended.wait()

    def killed(self) -> None:
        """The parts that die with the process."""

    async def _run(self, *, task_status: trio.TaskStatus[None]) -> None:
        try:
            with self._scope:
                try:
                    async with self.opened():
                        task_status.started()
                        await self._leaving.wait()
                except* Crash:
                    pass  # it was killed
        finally:
            self.is_up = False
            self._ended.set()

    def opened(self) -> AbstractAsyncContextManager[object]:
        """Return the running program."""
        raise AssertionError("every process says what it runs")

    @asynccontextmanager
    async def serving(self, server: Server, port: int) -> AsyncIterator[None]:
        """Serve connections to ``port``; they end with the block."""
        async with trio.open_nursery() as nursery:

            def accept(end: End, peer: HostAddress, local_port: int) -> None:
                async def serve() -> None:
                    await server.serve_transport(
                        EndTransport(end), peer=peer, local_port=local_port
                    )

                nursery.start_soon(serve)

            with self.network.listening(self.host, port, accept):
                yield
            nursery.cancel_scope.cancel()


@final
class NameServerProcess(Process):
    """A name server; what it knows dies with it."""

    running: Server
    """The server in the process, while it is up."""

    @property
    def address(self) -> str:
        return f"{self.host}:{NAME_SERVER_PORT}"

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        async with (
            run_nameserver(NameServerConfig()) as (self.running, _),
            self.serving(self.running, NAME_SERVER_PORT),
        ):
            yield


@final
class BrokerProcess(Process):
    """A broker and its disk. ``settings`` are fields of ``BrokerConfig``."""

    def __init__(
        self,
        name: str,
        host: str,
        network: Network,
        nursery: trio.Nursery,
        *,
        name_servers: str,
        rng: Random,
        **settings: object,
    ) -> None:
        super().__init__(name, host, network, nursery)
        self.has_listener = True
        """False for a broker that knows no logical queues, as Apache's."""
        self.running: Broker
        """The server in the process, while it is up."""
        self.logical_listener: LogicalListener
        """Its servers for clients that do not know logical queues, if it ``has_listener``."""
        self.before_kill: Callable[[BrokerProcess], None] | None = None
        """Looks at the process's state, before that dies with it."""
        self.files = SimulatedFiles(seed=rng.getrandbits(64), now_s=lambda: clock_ms() / 1000)
        self.config = BrokerConfig(
            broker_name=name,
            namesrv_addr=name_servers,
            flush_disk_type=FlushMode.SYNC,
            **(_DEFAULTS | SMALL_FILES | settings),  # type: ignore[arg-type]
        )

    @property
    def address(self) -> str:
        return f"{self.host}:{BROKER_PORT}"

    def killed(self) -> None:
        if self.before_kill is not None:
            self.before_kill(self)
        self.files.kill()

    async def restart(self, how: Literal["kill", "power"]) -> None:
        """Start it again on what the disk has left after a kill or a loss of power."""
        self.files = self.files.reboot(how)
        await self.start()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        async with (
            run_broker(
                self.config,
                address=HostAddress(self.host, BROKER_PORT),
                logical=self._logical_ports() if self.has_listener else None,
                files=self.files,
                clock_ms=clock_ms,
                dial=self.network.dialer(self.host),
            ) as parts,
            self.serving(parts.broker.server, BROKER_PORT),
            AsyncExitStack() as ports,
        ):
            self.running = parts.broker
            if parts.listener is not None:
                self.logical_listener = parts.listener
                numbered = (LOGICAL_PORT, *self.config.numbered_ports)
                for server, port in zip(parts.listener.servers, numbered, strict=True):
                    await ports.enter_async_context(self.serving(server, port))
            yield
        failures = self.running.context.supervisor.failures
        assert not failures, f"tasks of {self.name} have failed: {dict(failures)}"

    def _logical_ports(self) -> LogicalPorts:
        numbered = [
            LogicalPorts((), HostAddress(self.host, port)) for port in self.config.numbered_ports
        ]
        return LogicalPorts((), HostAddress(self.host, LOGICAL_PORT), numbered)
