"""A proxy of a simulated cluster, started, killed and started again."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, final

import trio

from lanemq.proxy.gateway import GatewayConfig, RunningGateway, open_gateway

from ._network import Network
from ._processes import NAME_SERVER_PORT, Process

LEAVE_S: Final = 8
"""Clients of a run ask for routes every 5 s."""
SETTLE_S: Final = 1


@final
class ProxyProcess(Process):
    """A proxy that keeps the order of queues, and the file with the ports of brokers."""

    running: RunningGateway
    """The proxy in the process, while it is up; after it the one that was."""

    def __init__(
        self,
        name: str,
        host: str,
        network: Network,
        nursery: trio.Nursery,
        *,
        upstream: str,
        others: Sequence[str],
        state_path: Path,
        on_news: Callable[["ProxyProcess"], None],
    ) -> None:
        """``others`` are the hosts of the other proxies; ``on_news`` is called when records of the
        log of orders were applied."""
        super().__init__(name, host, network, nursery)
        self._on_news = on_news
        self.starts = 0
        """Number of times that it was started."""
        self.config = GatewayConfig(
            upstream=upstream,
            bind_address=host,
            peers=";".join(f"{other}:{NAME_SERVER_PORT}" for other in others),
            state_path=state_path,
            logical=True,
            moves=True,
            settle_seconds=SETTLE_S,
            leave_seconds=LEAVE_S,
            changes_from="10.0.9.*",  # where operators are
        )

    @property
    def address(self) -> str:
        """The address for routes."""
        return f"{self.host}:{self.config.listen_port}"

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        self.starts += 1
        dial = self.network.dialer(self.host)
        async with open_gateway(self.config, dial=dial) as self.running:
            orders = self.running.orders
            assert orders is not None
            for log in orders._keys.logs:
                log.follower.on_news.append(lambda: self._on_news(self))
            self._on_news(self)
            yield
