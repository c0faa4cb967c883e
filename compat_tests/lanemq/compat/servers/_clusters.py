"""Clusters to test against: a name server and a broker each, from one maker or mixed.

    async with running(lanemq_cluster(folder)) as cluster:
        ... cluster.name_server ...

Every cluster lives in its folder (configuration, store, logs) on free ports of 127.0.0.1.
"""

import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from ._apache import (
    CLUSTER_NAME,
    SMALL_FILES,
    TEST_STORE,
    apache_broker,
    apache_name_server,
)
from ._control import Control
from ._daemon import Daemon
from ._ports import free_port

SHORT_DELAYS = "1s " * 17 + "1s"
"""``messageDelayLevel`` of the clusters here: every retry comes after a second."""

SHORT_TRANSACTIONS = {
    "transactionTimeOut": "1000",
    "transactionCheckInterval": "1000",
    "transactionCheckMax": "8",
}
"""Keys of the clusters here: producers are asked every second, and eight times at most."""

TEST_SETTINGS = {**SMALL_FILES, **SHORT_TRANSACTIONS, "messageDelayLevel": SHORT_DELAYS}
"""broker.conf of lanemq in tests."""

DEFAULT_LOGS: Final = Path("compat-logs")
"""The folder for logs of failures, in the current directory."""

LANEMQ = (sys.executable, "-c", "from lanemq.proxy.cli import main; main()")


@dataclass(slots=True)
class Cluster:
    """Daemons in the order they start, and how clients find them."""

    name: str
    name_server: str
    folder: Path
    daemons: list[Daemon]
    short_delays: bool = True
    """True if its delay levels are ``SHORT_DELAYS``."""
    made_control: Control | None = None
    """Asks this cluster, where it needs to be asked in a way of its own."""
    beside: Callable[[], Awaitable[None]] | None = None
    """A task that goes on while the cluster runs, and is cancelled when it is to stop."""

    @property
    def maker(self) -> str:
        """The name of the servers that store the messages, which a proxy may stand before."""
        return self.name.rpartition(":")[2].removesuffix("x2")

    @property
    def control(self) -> Control:
        """Questions to this cluster."""
        return self.made_control or Control(self.name_server)

    @property
    def broker(self) -> Daemon:
        """The process that stores the messages."""
        return self.daemons[-1]

    @property
    def store(self) -> Path:
        """The broker's store directory."""
        return self.folder / "store"

    async def start(self) -> None:
        """Start everything that is not running, waiting for each; stop it all on failure."""
        try:
            for daemon in self.daemons:
                if not daemon.is_running:
                    await daemon.start()
        except BaseException:
            with trio.CancelScope(shield=True):
                await self.kill()
            raise

    async def stop(self) -> None:
        """Stop everything in reverse order with SIGTERM."""
        for daemon in reversed(self.daemons):
            if daemon.is_running:
                await daemon.stop()

    async def kill(self) -> None:
        """End everything with SIGKILL."""
        for daemon in reversed(self.daemons):
            await daemon.kill()

    def keep_logs(self, destination: Path) -> None:
        """Copy the logs of all daemons into ``destination / name``."""
        for daemon in self.daemons:
            daemon.keep_log(destination / self.name)


@asynccontextmanager
async def running(
    cluster: Cluster, *, logs: Path | None = None, graceful: bool = True
) -> AsyncIterator[Cluster]:
    """Start a cluster and stop it afterwards; on an error keep its logs in ``logs``.

    Not ``graceful`` ends it with SIGKILL, which saves the ten seconds an Apache broker takes
    to stop, where nobody looks at the store again.
    """
    try:
        await cluster.start()
        if cluster.beside is None:
            yield cluster
        else:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(cluster.beside)
                yield cluster
                nursery.cancel_scope.cancel()
    except BaseException:
        if logs is not None:
            cluster.keep_logs(logs)
        with trio.CancelScope(shield=True):
            await cluster.kill()
        raise
    with trio.CancelScope(shield=True):
        await (cluster.stop() if graceful else cluster.kill())


def apache_test_settings() -> dict[str, str]:
    """Return the keys of broker.conf of Apache's brokers in tests."""
    return {
        **TEST_STORE,
        **SHORT_TRANSACTIONS,
        "transactionOpBatchInterval": "100",  # how far behind 5.x notes what has ended
        "messageDelayLevel": SHORT_DELAYS,
    }


def apache_cluster(
    version: str,
    folder: Path,
    *,
    settings: Mapping[str, str] | None = None,
    heap: str = "384m",
    light: bool = True,
) -> Cluster:
    """Describe an Apache cluster of one release. Fetches it first if needed, so it blocks.

    ``settings`` are keys of broker.conf in place of the small files and short delays that
    tests want; ``heap`` and ``light`` are as for ``apache_broker``.
    """
    name_server_port, port = free_port(), free_port(1, -2)
    name_server = f"127.0.0.1:{name_server_port}"
    folder.mkdir(parents=True, exist_ok=True)
    settings = apache_test_settings() if settings is None else settings
    daemons = [
        apache_name_server(version, folder, port=name_server_port, tls=not light),
        apache_broker(
            version,
            folder,
            port=port,
            name_server=name_server,
            store=folder / "store",
            settings=settings,
            heap=heap,
            light=light,
        ),
    ]
    return Cluster(f"apache-{version}", name_server, folder, daemons)


def lanemq_cluster(
    folder: Path,
    *,
    settings: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
) -> Cluster:
    """Describe ``lanemq serve``: name server and broker in one process.

    ``settings`` are keys of broker.conf in place of the small files and short delays that
    tests want. With ``tls`` the cluster is asked over TLS.
    """
    name_server_port, port = free_port(), free_port(1, -2)
    name_server = f"127.0.0.1:{name_server_port}"
    settings = {"logicalListenPort": "0", **(TEST_SETTINGS if settings is None else settings)}
    configuration = _lanemq_configuration(folder, settings)
    command = [
        *(*LANEMQ, "serve", "--host", "127.0.0.1", "--port", str(name_server_port)),
        *("--broker-port", str(port), "--data", str(folder / "store"), "-c", str(configuration)),
    ]
    control = Control(name_server, tls=tls)
    ready = _registered(control, port)
    daemon = Daemon("lanemq-serve", command, folder=folder, ready=ready)
    return Cluster("lanemq", name_server, folder, [daemon], made_control=control)


def lanemq_name_server(folder: Path, *, port: int) -> Daemon:
    """Describe ``lanemq namesrv`` alone."""
    command = [*LANEMQ, "namesrv", "--host", "127.0.0.1", "--port", str(port)]
    ready = Control(f"127.0.0.1:{port}").answers
    return Daemon("lanemq-namesrv", command, folder=folder, ready=ready)


def lanemq_broker(
    folder: Path,
    *,
    port: int,
    name_server: str | None,
    name: str = "broker-a",
    store: Path | None = None,
    settings: Mapping[str, str] = TEST_SETTINGS,
) -> Daemon:
    """Describe ``lanemq broker`` alone, registered at ``name_server`` if there is one."""
    placed = {
        "brokerClusterName": CLUSTER_NAME,
        "brokerName": name,
        "brokerId": "0",
        "brokerIP1": "127.0.0.1",
        "listenPort": str(port),
        "storePathRootDir": str(store or folder / "store"),
        "logicalListenPort": "0",
        **settings,
    }
    configuration = _lanemq_configuration(folder, placed)
    command = [*LANEMQ, "broker", "-c", str(configuration)]
    if name_server is not None:
        command += ["-n", name_server]
    registered = None if name_server is None else _registered(Control(name_server), port)

    async def ready() -> bool:
        # The name server may still have the old registration of a broker that was killed.
        answers = await Control(f"127.0.0.1:{port}").answers()
        return answers and (registered is None or await registered())

    return Daemon(f"lanemq-{name}", command, folder=folder, ready=ready)


def _lanemq_configuration(folder: Path, settings: Mapping[str, str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    configuration = folder / "lanemq-broker.conf"
    configuration.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return configuration


def _registered(control: Control, port: int) -> Callable[[], Awaitable[bool]]:
    async def ready() -> bool:
        return await control.knows(f"127.0.0.1:{port}")

    return ready
