"""``lanemq proxy`` in front of an Apache cluster of one broker or two."""

import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, final

import trio

from .._errors import ServerFailed
from ._apache import APACHE_VERSIONS, apache_broker
from ._clusters import DEFAULT_LOGS, LANEMQ, Cluster, apache_cluster, apache_test_settings, running
from ._control import Control
from ._daemon import Daemon
from ._ports import free_port
from ._waiting import until

PROXY_PREFIX: Final = "lanemq-proxy:"
SECOND_BROKER: Final = "broker-b"
SITE_BROKERS: Final = 2
NO_TOPIC: Final = "NoSuchTopic"
"""The brokers of a ``Site``."""
PROXY_SERVERS: Final = (
    *(f"{PROXY_PREFIX}apache-{version}" for version in APACHE_VERSIONS),
    f"{PROXY_PREFIX}apache-5.3.3x2",
)


@final
class OneBrokerControl(Control):
    """Makes each topic at one broker, at both in turn.

    Scenarios tell queues by their numbers alone. Groups and their retry topics are everywhere.
    """

    def __init__(self, name_server: str) -> None:
        super().__init__(name_server)
        self._made = 0

    async def masters_for(self, topic: str) -> list[str]:
        """Return the addresses of the masters that a new topic is made at."""
        masters = await self.masters()
        self._made += 1
        return [masters[self._made % len(masters)]]


def lanemq_proxy(
    folder: Path,
    *,
    upstream: str,
    port: int,
    peers: Sequence[str] = (),
    leave_s: int = 0,
    settle_s: int | None = None,
    moves: bool = False,
    workers: int = 1,
    tls_config: Path | None = None,
    tls: ssl.SSLContext | None = None,
) -> Daemon:
    """Describe ``lanemq proxy`` at ``127.0.0.1:port``; its ports for brokers are any free ones.

    There is room for six brokers, added ones among them.

    With ``settle_s`` it keeps the order of queues, with ``moves`` these can move besides.
    ``tls_config`` is its file of settings for TLS, and ``tls`` is spoken when it is asked whether
    it is ready.
    """
    command = [
        *LANEMQ,
        "proxy",
        *("--upstream", upstream),
        *("--host", "127.0.0.1"),
        *("--port", str(port)),
        *("--broker-port", str(free_port(1, -2, *range(10, 60, 10)))),
        *("--data", str(folder)),
        *("--leave-seconds", str(leave_s)),
        *("--http-port", "-1"),
        *(() if settle_s is None else ("--logical", "--settle-seconds", str(settle_s))),
        *(("--moves",) if moves else ()),
        *("--workers", str(workers)),
        *(argument for peer in peers for argument in ("--peer", peer)),
        *(("--tls-config", str(tls_config)) if tls_config else ()),
    ]
    ready = Control(f"127.0.0.1:{port}", tls=tls).answers
    return Daemon(f"lanemq-proxy-{port}", command, folder=folder, ready=ready)


@asynccontextmanager
async def behind_proxy(
    cluster: Cluster, *, tls_config: Path | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Cluster]:
    """Run a proxy in front of a cluster that runs; yields the cluster as its clients see it."""
    port = free_port()
    proxy = lanemq_proxy(
        cluster.folder / "proxy",
        upstream=cluster.name_server,
        port=port,
        tls_config=tls_config,
        tls=tls,
    )
    await proxy.start()
    try:
        name_server = f"127.0.0.1:{port}"
        yield replace(cluster, name_server=name_server, made_control=Control(name_server, tls=tls))
    finally:
        with trio.CancelScope(shield=True):
            proxy.keep_log(DEFAULT_LOGS / "proxy")
            await proxy.kill()


@final
@dataclass(frozen=True, slots=True)
class Site:
    """Two Apache brokers, and proxies in front of them."""

    upstream: Cluster
    proxies: list[Daemon]
    addresses: list[str]
    """The route ports of the proxies."""

    async def agree(self) -> None:
        """Wait until all proxies tell clients the same addresses, since they know one another then,
        and routes."""

        async def told() -> bool:
            controls = [Control(one) for one in self.addresses]
            answers = [await one.masters() for one in controls]
            try:
                for one in controls:
                    await one.masters_of(NO_TOPIC)
            except ServerFailed:  # the order of queues is not known yet
                return False
            return all(len(one) == SITE_BROKERS and one == answers[0] for one in answers)

        await until(told)


@asynccontextmanager
async def site(
    folder: Path,
    *,
    proxies: int = 1,
    leave_s: int = 0,
    settle_s: int | None = None,
    moves: bool = False,
    workers: int = 1,
    version: str = "5.3.3",
) -> AsyncIterator[Site]:
    """Run two Apache brokers, and proxies in front of them that know one another."""
    upstream = await trio.to_thread.run_sync(apache_cluster, version, folder)
    upstream.daemons.append(second_broker(version, upstream, apache_test_settings()))
    ports = [free_port() for _ in range(proxies)]
    addresses = [f"127.0.0.1:{port}" for port in ports]
    started = [
        lanemq_proxy(
            folder / f"proxy{port}",
            upstream=upstream.name_server,
            port=port,
            peers=[one for one in addresses if not one.endswith(f":{port}")],
            leave_s=leave_s,
            settle_s=settle_s,
            moves=moves,
            workers=workers,
        )
        for port in ports
    ]
    async with running(upstream, logs=DEFAULT_LOGS, graceful=False):
        try:
            for proxy in started:
                await proxy.start()
            found = Site(upstream, started, addresses)
            await found.agree()
            yield found
        finally:
            with trio.CancelScope(shield=True):
                for proxy in started:
                    proxy.keep_log(DEFAULT_LOGS / "proxy")
                    await proxy.kill()


def second_broker(version: str, cluster: Cluster, settings: Mapping[str, str]) -> Daemon:
    """Describe another broker of an Apache cluster, ``SECOND_BROKER``."""
    folder = cluster.folder / SECOND_BROKER
    return apache_broker(
        version,
        folder,
        port=free_port(1, -2),
        name_server=cluster.name_server,
        store=folder / "store",
        name=SECOND_BROKER,
        settings=settings,
    )


def proxy_cluster(name: str, folder: Path) -> Cluster:
    """Describe the cluster of one of ``PROXY_SERVERS``: clients know the proxy alone."""
    version = name.removeprefix(f"{PROXY_PREFIX}apache-").removesuffix("x2")
    upstream = apache_cluster(version, folder)
    daemons = list(upstream.daemons)
    if name.endswith("x2"):
        settings = {**apache_test_settings(), "autoCreateTopicEnable": "false"}
        daemons.append(second_broker(version, upstream, settings))
    port = free_port()
    daemons.append(lanemq_proxy(folder / "proxy", upstream=upstream.name_server, port=port))
    name_server = f"127.0.0.1:{port}"
    return Cluster(name, name_server, folder, daemons, made_control=OneBrokerControl(name_server))
