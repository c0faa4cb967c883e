"""Proxies in front of a cluster, for tests: at ports that are free, on loopback."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, final

import trio

from lanemq.proxy.broker import BrokerConfig
from lanemq.proxy.gateway import GatewayConfig, RunningGateway, open_gateway
from lanemq.proxy.gateway._numbers import BrokerKey
from lanemq.proxy.nameserver import NameServerConfig, open_nameserver
from lanemq.proxy.process import RunningBroker, open_broker

from .brokers import SMALL_STORE

PATIENT_S: Final = 60.0


def gateway_config(upstream: str, **settings: Any) -> GatewayConfig:  # noqa: ANN401 - of any type
    """Return the settings of a proxy; ``settings`` are its own, and come before these."""
    ports = {"bind_address": "127.0.0.1", "listen_port": 0, "broker_port": 0}
    return GatewayConfig(upstream=upstream, **{**ports, **settings})


async def until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds, which others bring about. Raises ``trio.TooSlowError``."""
    with trio.fail_after(PATIENT_S):
        while not condition():  # noqa: ASYNC110 - others decide when
            await trio.sleep(0.01)


@final
class Cluster:
    """A name server, brokers, and proxies in front of them."""

    def __init__(self, root: Path, stack: AsyncExitStack, name_server: str) -> None:
        self.root = root
        self.stack = stack
        self.name_server = name_server

    async def broker(self, name: str = "broker-a", port: int = 0) -> RunningBroker:
        """Start a broker."""
        opened = self.open_broker(name, port)
        return await self.stack.enter_async_context(opened)

    @asynccontextmanager
    async def open_broker(
        self, name: str = "broker-a", port: int = 0
    ) -> AsyncIterator[RunningBroker]:
        """Run a broker for the length of the block."""
        config = BrokerConfig(
            broker_name=name,
            bind_address="127.0.0.1",
            listen_port=port,
            namesrv_addr=self.name_server,
            store_path_root_dir=self.root / name,
            **SMALL_STORE,  # type: ignore[arg-type]
        )
        async with open_broker(config) as broker:
            yield broker

    def config(self, **settings: object) -> GatewayConfig:
        """Return the settings of a proxy."""
        return gateway_config(self.name_server, **settings)

    async def proxy(self, **settings: object) -> RunningGateway:
        """Start a proxy."""
        return await self.stack.enter_async_context(open_gateway(self.config(**settings)))


@asynccontextmanager
async def clustered(tmp_path: Path) -> AsyncIterator[Cluster]:
    """A name server, with no broker yet."""
    config = NameServerConfig(bind_address="127.0.0.1", listen_port=0)
    async with AsyncExitStack() as stack:
        name_server = await stack.enter_async_context(open_nameserver(config))
        yield Cluster(tmp_path, stack, name_server.address)


async def until_seen(proxy: RunningGateway, *names: str) -> None:
    """Wait until a proxy has ports for these brokers."""
    keys = {BrokerKey(name, 0) for name in names}
    await until(lambda: keys <= proxy.brokers.ports.keys())
