"""The misfortunes of any simulated cluster, with proxies in front or without."""

from collections.abc import Sequence
from random import Random
from typing import Final, Literal

import trio

from ._network import Network
from ._processes import BrokerProcess, NameServerProcess

AWAY_MEAN_S: Final = 3.0


class Misfortunes:
    """The misfortunes of two name servers, brokers and the network between all hosts."""

    def __init__(self, rng: Random, nursery: trio.Nursery, only: str | None) -> None:
        """``only`` names the one thing that happens, where it is not whatever comes."""
        self.rng = rng
        self._only = only
        self.network = Network(rng)
        self.name_servers = [
            NameServerProcess(f"ns{n}", f"10.0.0.{n}", self.network, nursery) for n in (1, 2)
        ]
        self.misfortunes: dict[str, int] = {}

    def _drawn(self, names: Sequence[str]) -> str:
        """Draw what happens next, and count it."""
        name = self._only or self.rng.choice(names)
        self.misfortunes[name] = self.misfortunes.get(name, 0) + 1
        return name

    async def _away(self, mean_s: float = AWAY_MEAN_S) -> None:
        await trio.sleep(self.rng.expovariate(1 / mean_s))

    async def _restart_broker(self, broker: BrokerProcess, how: Literal["kill", "power"]) -> None:
        await broker.kill()
        await self._away()
        await broker.restart(how)

    async def _restart_name_server(self) -> None:
        server = self.rng.choice(self.name_servers)
        await server.kill()
        await self._away()
        await server.start()

    async def _forget_name_servers(self) -> None:
        """All name servers are killed, and start again one after the other; they know nothing."""
        for server in self.name_servers:
            await server.kill()
        for server in self.name_servers:
            await self._away()
            await server.start()

    async def _parted(self, pairs: Sequence[tuple[str, str]], mean_s: float = AWAY_MEAN_S) -> None:
        """Part hosts for a while."""
        for pair in pairs:
            self.network.part(*pair)
        await self._away(mean_s)
        for pair in pairs:
            self.network.join(*pair)
