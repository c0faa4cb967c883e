"""One run: a cluster, its users, random misfortunes, and at the end the books."""

import logging
from dataclasses import dataclass
from random import Random
from typing import Final, final

import trio
from trio.testing import MockClock

from ._clients import OLD, QUICK, Reader, Sender
from ._ledger import Ledger, Violated
from ._network import Network
from ._operator import Operator
from ._processes import BrokerProcess, NameServerProcess, Process

LOGGER = logging.getLogger("lanemq.simulation")
BROKERS: Final = 3
QUEUES: Final = 2
LOGICAL_SHARE: Final = 0.8
"""So many of the runs have logical queues; the others show the brokers alone."""
STEP_MEAN_S: Final = 2.0
AWAY_MEAN_S: Final = 3.0
STEP_OF_MIGRATION_S: Final = 0.02
CALM_S: Final = 900.0
"""How long a cluster in which nothing happens any more may take to deliver everything."""


@dataclass(frozen=True)
class Report:
    """What a run did."""

    seed: int
    steps: int
    simulated_s: float
    acknowledged: int
    failed_sends: int
    delivered: int
    migrations: int
    interrupted: int
    misfortunes: dict[str, int]


@final
class Cluster:
    """Two name servers, some brokers, and clients on hosts of their own."""

    def __init__(self, rng: Random, nursery: trio.Nursery) -> None:
        self.rng = rng
        self.network = Network(rng)
        self.name_servers = [
            NameServerProcess(f"ns{n}", f"10.0.0.{n}", self.network, nursery) for n in (1, 2)
        ]
        addresses = ";".join(server.address for server in self.name_servers)
        self.addresses = addresses
        self.brokers = [
            BrokerProcess(
                f"broker{n}",
                f"10.0.1.{n}",
                self.network,
                nursery,
                name_servers=addresses,
                rng=rng,
                auto_create_topic_enable=False,
            )
            for n in range(1, BROKERS + 1)
        ]
        self.operator: Operator | None = None
        """Moves queues, where they are logical ones."""
        self.misfortunes: dict[str, int] = {}

    async def start(self) -> None:
        for process in (*self.name_servers, *self.brokers):
            await process.start()

    async def step(self) -> None:
        """Let one thing happen, and time pass."""
        misfortunes = [
            self._nothing,
            self._kill,
            self._lose_power,
            self._part,
            self._restart_name_server,
        ]
        if self.operator is not None:
            misfortunes.append(self._kill_in_a_migration)
        happen = self.rng.choice(misfortunes)
        name = happen.__name__.lstrip("_")
        self.misfortunes[name] = self.misfortunes.get(name, 0) + 1
        await happen()
        await trio.sleep(self.rng.expovariate(1 / STEP_MEAN_S))

    async def _nothing(self) -> None:
        await trio.sleep(self.rng.expovariate(1 / STEP_MEAN_S))

    async def _kill(self) -> None:
        broker = self.rng.choice(self.brokers)
        await broker.kill()
        await trio.sleep(self.rng.expovariate(1 / AWAY_MEAN_S))
        await broker.restart("kill")

    async def _lose_power(self) -> None:
        broker = self.rng.choice(self.brokers)
        await broker.kill()
        await trio.sleep(self.rng.expovariate(1 / AWAY_MEAN_S))
        await broker.restart("power")

    async def _kill_in_a_migration(self) -> None:
        assert self.operator is not None
        broker = self.rng.choice(self.brokers)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.operator.move_a_queue)
            await trio.sleep(self.rng.expovariate(1 / STEP_OF_MIGRATION_S))
            await broker.kill()
        await trio.sleep(self.rng.expovariate(1 / AWAY_MEAN_S))
        await broker.restart(self.rng.choice(("kill", "power")))

    async def _part(self) -> None:
        processes: list[Process] = [*self.brokers, *self.name_servers]
        hosts = [process.host for process in processes] + [client_host(n) for n in range(10)]
        one, other = self.rng.sample(hosts, 2)
        self.network.part(one, other)
        await trio.sleep(self.rng.expovariate(1 / AWAY_MEAN_S))
        self.network.join(one, other)

    async def _restart_name_server(self) -> None:
        server = self.rng.choice(self.name_servers)
        await server.kill()
        await trio.sleep(self.rng.expovariate(1 / AWAY_MEAN_S))
        await server.start()


def client_host(number: int) -> str:
    return f"10.0.9.{number}"


async def _run(seed: int, steps: int) -> Report:
    rng = Random(seed)
    ledger = Ledger()
    is_logical = rng.random() < LOGICAL_SHARE
    async with trio.open_nursery() as nursery:
        cluster = Cluster(rng, nursery)
        await cluster.start()
        operator = Operator(
            cluster.network, cluster.addresses, cluster.brokers, Random(rng.getrandbits(64))
        )
        await operator.create_topic(QUEUES, is_logical=is_logical)
        if is_logical:
            cluster.operator = operator
        senders = _senders(cluster, ledger)
        for reader in _readers(cluster, ledger):
            nursery.start_soon(reader.run)
        async with trio.open_nursery() as sending:
            for sender in senders:
                sending.start_soon(sender.run)
            async with trio.open_nursery() as moving:
                if is_logical:
                    moving.start_soon(operator.move_queues)
                for _ in range(steps):
                    await cluster.step()
                moving.cancel_scope.cancel()
            cluster.network.join()
            if is_logical:
                await operator.settled()
            for sender in senders:
                sender.enough = True
        for group in GROUPS:
            await _delivered(ledger, group)
        if is_logical:
            await operator.check_ends()
        simulated_s = trio.current_time()
        nursery.cancel_scope.cancel()
    ledger.check_places()
    ledger.check_order()
    for group in GROUPS:
        if group.endswith("orderly"):
            ledger.check_delivered_order(group)
    return Report(
        seed,
        steps,
        simulated_s,
        len(ledger.acknowledged),
        ledger.failed_sends,
        sum(map(len, ledger.delivered.values())),
        operator.migrations,
        operator.interrupted,
        cluster.misfortunes,
    )


GROUPS: Final = ("concurrent", "orderly", "old-concurrent", "old-orderly")
"""The old ones' members know nothing of logical queues."""


def _senders(cluster: Cluster, ledger: Ledger) -> list[Sender]:
    return [
        Sender(
            name,
            client_host(number),
            cluster.network,
            cluster.addresses,
            ledger,
            Random(cluster.rng.getrandbits(64)),
            OLD if name.startswith("old") else QUICK,
        )
        for number, name in enumerate(("sender", "old-sender"))
    ]


def _readers(cluster: Cluster, ledger: Ledger) -> list[Reader]:
    return [
        Reader(
            group,
            client_host(2 + number),
            cluster.network,
            cluster.addresses,
            ledger,
            OLD if group.startswith("old") else QUICK,
            is_orderly=group.endswith("orderly"),
        )
        for number, group in enumerate((*GROUPS, *GROUPS))
    ]


async def _delivered(ledger: Ledger, group: str) -> None:
    with trio.move_on_after(CALM_S):
        await ledger.all_delivered(group)
        return
    missing = sorted(ledger.missing(group))
    raise Violated(f"{len(missing)} acknowledged messages never reached {group}: {missing[:10]}")


def simulate(seed: int, steps: int) -> Report:
    """Run the cluster of a seed for so many steps.

    The same seed gives the same run where Python's hashes are fixed (``PYTHONHASHSEED``).
    Raises ``Violated`` where a promise was broken.
    """
    return trio.run(_run, seed, steps, clock=MockClock(autojump_threshold=0))
