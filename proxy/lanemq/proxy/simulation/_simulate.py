"""One run: a cluster, its users, random misfortunes, and at the end the books."""

import logging
from dataclasses import dataclass
from random import Random
from typing import Final, final

import trio
from trio.testing import MockClock

from lanemq.wire import TopicConfig

from ._clients import TOPIC, Reader, Sender
from ._ledger import Ledger, Violated
from ._network import Network
from ._processes import BrokerProcess, NameServerProcess, Process

LOGGER = logging.getLogger("lanemq.simulation")
BROKERS: Final = 3
QUEUES: Final = 2
STEP_MEAN_S: Final = 2.0
AWAY_MEAN_S: Final = 3.0
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
        self.misfortunes: dict[str, int] = {}

    async def start(self) -> None:
        for process in (*self.name_servers, *self.brokers):
            await process.start()
        for broker in self.brokers:
            broker.running.context.topics.put(
                TopicConfig(TOPIC, read_queue_nums=QUEUES, write_queue_nums=QUEUES)
            )
            await broker.running.context.store.tables.sync()

    async def step(self) -> None:
        """Let one thing happen, and time pass."""
        happen = self.rng.choice(
            [self._nothing, self._kill, self._lose_power, self._part, self._restart_name_server]
        )
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

    async def _part(self) -> None:
        processes: list[Process] = [*self.brokers, *self.name_servers]
        hosts = [process.host for process in processes] + [client_host(n) for n in range(6)]
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
    async with trio.open_nursery() as nursery:
        cluster = Cluster(rng, nursery)
        await cluster.start()
        senders = [
            Sender(
                f"sender{n}",
                client_host(n),
                cluster.network,
                cluster.addresses,
                ledger,
                Random(rng.getrandbits(64)),
            )
            for n in range(2)
        ]
        readers = [
            Reader(
                group,
                client_host(2 + n),
                cluster.network,
                cluster.addresses,
                ledger,
                is_orderly=group == "orderly",
            )
            for n, group in enumerate(("concurrent", "concurrent", "orderly", "orderly"))
        ]
        for reader in readers:
            nursery.start_soon(reader.run)
        async with trio.open_nursery() as sending:
            for sender in senders:
                sending.start_soon(sender.run)
            for _ in range(steps):
                await cluster.step()
            cluster.network.join()
            for sender in senders:
                sender.enough = True
        for group in ("concurrent", "orderly"):
            await _delivered(ledger, group)
        simulated_s = trio.current_time()
        nursery.cancel_scope.cancel()
    ledger.check_places()
    ledger.check_order()
    ledger.check_delivered_order("orderly")
    return Report(
        seed,
        steps,
        simulated_s,
        len(ledger.acknowledged),
        ledger.failed_sends,
        sum(map(len, ledger.delivered.values())),
        cluster.misfortunes,
    )


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
