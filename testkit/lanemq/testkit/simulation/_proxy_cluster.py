"""A simulated cluster with two proxies in front, and what happens to them all."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, final

import trio

from lanemq.sdk.consumer.ordered._queue_locks import LOCK_LIFE_S
from lanemq.wire.bodies import MessageQueue

from ._clients import client_host
from ._growth import AT_ONCE_MEAN_S, FIRST, LATE, QUEUES_MAX, Growth
from ._ledger import Ledger
from ._misfortunes import Misfortunes
from ._moves import Moves
from ._processes import BrokerProcess, Process
from ._proxy_process import ProxyProcess
from ._proxy_users import RUSH, RUSH_MEAN_S, Member, watch
from ._queue_lists import GROWING, MOVING, Lists

LOGGER = logging.getLogger("lanemq.simulation")
STEP_MEAN_S: Final = 2.0
PARTED_MEAN_S: Final = 6.0
"""A proxy that is silent for 7 s counts as gone at the other one."""
BEGIN_MEAN_S: Final = 1.0
"""Mean time for which each name server has heard of another broker at the very start."""
HEARD_S: Final = 0.5
"""Seconds after which a name server has heard of a broker."""
SHARE: Final = 0.5
RUSH_HOST: Final = "10.0.8.8"
MISFORTUNES: Final = (
    "pause",
    "kill_proxy",
    "kill_proxies",
    "leave_proxy",
    "kill_broker",
    "lose_power",
    "restart_name_server",
    "forget_name_servers",
    "split",
    "cut_off",
    "part",
    "grow",
    "grow_meanwhile",
    "grow_apart",
    "join",
    "move_members",
    "move_queue",
    "move_queue_meanwhile",
    "drain_meanwhile",
)
"""The misfortunes that may befall a cluster behind proxies."""
MOVES: Final = "moves"
"""A run in which queues move most of the time, and only their topic is used."""
OF_MOVES: Final = (
    *MISFORTUNES,
    *("move_queue",) * 3,
    *("move_queue_meanwhile",) * 9,
    *("drain_meanwhile",) * 6,
)


@final
class ProxyCluster(Misfortunes):
    """Two name servers, some brokers, two proxies, and clients on hosts of their own."""

    def __init__(
        self,
        rng: Random,
        nursery: trio.Nursery,
        ledgers: dict[str, Ledger],
        directory: Path,
        only: str | None = None,
    ) -> None:
        """``ledgers`` are by topic, ``directory`` is for the proxies' files."""
        self.is_of_moves = only == MOVES
        super().__init__(rng, nursery, None if self.is_of_moves else only)
        self._ledgers = ledgers
        network = self.network
        self.addresses = [server.address for server in self.name_servers]
        names = (*FIRST, LATE)
        self.brokers = {
            name: BrokerProcess(
                name,
                f"10.0.1.{number}",
                network,
                nursery,
                name_servers=";".join(self.addresses),
                rng=rng,
                auto_create_topic_enable=False,
            )
            for number, name in enumerate(names, 1)
        }
        for broker in self.brokers.values():
            broker.has_listener = False
            broker.before_kill = self._forget_locks
        self.lists = Lists()
        hosts = ["10.0.2.1", "10.0.2.2"]
        self.proxies = [
            ProxyProcess(
                f"proxy{number}",
                host,
                network,
                nursery,
                upstream=";".join(self.addresses[number - 1 :] + self.addresses[: number - 1]),
                others=[other for other in hosts if other != host],
                state_path=directory / host / "brokers.json",
                on_news=self.lists.note_orders,
            )
            for number, host in enumerate(hosts, 1)
        ]
        self.growth = Growth(network, ";".join(self.addresses), self.brokers, rng)
        self.moves = Moves(network, self.proxies, rng)
        self.members: list[Member] = []
        self._nursery = nursery

    @property
    def up(self) -> list[BrokerProcess]:
        """The brokers that have joined."""
        return [broker for broker in self.brokers.values() if self.growth.has_joined(broker.name)]

    async def start(self) -> None:
        """Start all but the broker that joins later. Both proxies begin the log of orders at once,
        while each name server has heard of another broker."""
        for server in self.name_servers:
            await server.start()
        brokers = [self.brokers[name] for name in FIRST]
        pairs = self._heard_apart(brokers)
        async with trio.open_nursery() as nursery:
            for broker in brokers:
                nursery.start_soon(broker.start)
            await trio.sleep(HEARD_S)
            for proxy in self.rng.sample(self.proxies, len(self.proxies)):
                nursery.start_soon(proxy.start)
                await trio.sleep(self.rng.expovariate(1 / AT_ONCE_MEAN_S))
            await self._away(BEGIN_MEAN_S)
            for pair in pairs:
                self.network.join(*pair)
        await self.growth.create()

    def _heard_apart(self, brokers: Sequence[BrokerProcess]) -> list[tuple[str, str]]:
        """Let only one name server hear of each of two brokers; returns the hosts that are parted
        for it."""
        servers = self.name_servers[::-1]
        pairs = [(one.host, server.host) for one, server in zip(brokers, servers, strict=True)]
        for pair in pairs:
            self.network.part(*pair)
        return pairs

    def _forget_locks(self, broker: BrokerProcess) -> None:
        """Note which locks a broker that is killed had lent: it knows nothing of them when it is
        back, and a client trusts each until it could not renew it for a while."""
        context = broker.running.context
        for topic, ledger in self._ledgers.items():
            for group in {member.group for member in self.members if member.topic == topic}:
                names = [(name, n) for name in self.brokers for n in range(QUEUES_MAX)]
                for name, number in names:  # it may stand in for others
                    queue = MessageQueue(topic, name, number)
                    if context.locks.lent(group, queue, context.now_s()) is not None:
                        ledger.may_share(group, queue, trio.current_time() + LOCK_LIFE_S)

    async def step(self, growing: trio.Nursery) -> None:
        """Let one thing happen, and time pass. What grows may take longer."""
        name = self._drawn(OF_MOVES if self.is_of_moves else MISFORTUNES)
        LOGGER.info("%.3f s: %s", trio.current_time(), name)
        if name == "grow_meanwhile":
            growing.start_soon(self._grow)
            return
        if name == "move_queue_meanwhile":
            growing.start_soon(self._move_queue)
            return
        if name == "drain_meanwhile":
            growing.start_soon(self._drain)
            return
        happen: Callable[[], Awaitable[None]] = getattr(self, f"_{name}")
        await happen()
        await self._pause()

    async def _pause(self) -> None:
        await self._away(STEP_MEAN_S)

    # Proxies

    async def _kill_proxy(self) -> None:
        proxy = self.rng.choice(self.proxies)
        await proxy.kill()
        await self._away()
        await proxy.start()

    async def _kill_proxies(self) -> None:
        """Kill both, and start them one after the other: nothing is left but what the cluster
        has."""
        for proxy in self.proxies:
            await proxy.kill()
        for proxy in self.rng.sample(self.proxies, len(self.proxies)):
            await self._away()
            await proxy.start()

    async def _leave_proxy(self) -> None:
        proxy = self.rng.choice(self.proxies)
        await proxy.leave()
        await self._away()
        await proxy.start()

    # The cluster

    async def _kill_broker(self) -> None:
        await self._restart_broker(self.rng.choice(self.up), "kill")

    async def _lose_power(self) -> None:
        await self._restart_broker(self.rng.choice(self.up), "power")

    # The network

    async def _split(self) -> None:
        """Part one proxy, one name server and some brokers from the others; clients reach all."""
        sides: tuple[list[str], list[str]] = (
            [self.proxies[0].host, self.name_servers[0].host],
            [self.proxies[1].host, self.name_servers[1].host],
        )
        has_brokers = self.rng.random() < SHARE
        for broker in self.up if has_brokers else ():
            self.rng.choice(sides).append(broker.host)
        await self._parted([(one, other) for one in sides[0] for other in sides[1]], PARTED_MEAN_S)

    async def _cut_off(self) -> None:
        """Part a proxy from all name servers, or from the other proxy, or from both."""
        proxy = self.rng.choice(self.proxies)
        servers = [server.host for server in self.name_servers]
        others = [other.host for other in self.proxies if other is not proxy]
        hosts = self.rng.choice([servers, others, servers + others])
        await self._parted([(proxy.host, host) for host in hosts], PARTED_MEAN_S)

    async def _part(self) -> None:
        processes: list[Process] = [*self.up, *self.name_servers, *self.proxies]
        hosts = [process.host for process in processes]
        hosts += [client_host(number) for number in range(len(self.members))]
        one, other = self.rng.sample(hosts, 2)
        await self._parted([(one, other)], PARTED_MEAN_S)

    # Topics and members

    async def _grow(self) -> None:
        await self._while_asked(self.growth.grow)

    async def _join(self) -> None:
        """Let a broker join whose name sorts between those of others; the next time it grows."""
        has_joined = self.growth.has_joined(LATE)
        await self._while_asked(self.growth.grow if has_joined else self.growth.join)

    async def _grow_apart(self) -> None:
        """Let a topic grow at two brokers, each of which only one name server hears of."""
        brokers = self.rng.sample(self.up, 2)
        pairs = self._heard_apart(brokers)
        names = [broker.name for broker in brokers]
        await self._while_asked(partial(self.growth.grow_at, GROWING, names))
        await self._away()
        for pair in pairs:
            self.network.join(*pair)

    async def _while_asked(self, grow: Callable[[], Awaitable[None]]) -> None:
        """Let a topic grow while both proxies are asked for its route."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(grow)
            for proxy in self.proxies:
                rush = partial(watch, mean_s=RUSH_MEAN_S, times=RUSH)
                looks = Random(self.rng.getrandbits(64))
                nursery.start_soon(rush, self.network, RUSH_HOST, proxy, self.lists, looks)

    async def _move_queue(self) -> None:
        queues = len(self.lists.of(MOVING))
        await self.moves.move([broker.name for broker in self.up], queues)

    async def _drain(self) -> None:
        """Have another broker stand in for one, so that locks of its queues go over. What it has
        to be written goes on there."""
        await self.moves.drain(self.rng.choice(self.up).name)

    async def _move_members(self) -> None:
        """Restart some members, each by way of a proxy or directly, as its group may."""
        for member in self.rng.sample(self.members, 2):
            member.move()
