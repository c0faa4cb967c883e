"""Bench of several logical listeners: throughput of two for older clients, beside that of one.

Two brokers, and client processes that send through the logical listeners all at once, each with
its own connections. Once the clients see the queues at one broker, which one listener stands for;
once at several, which both listeners share. The messages go to both brokers' stores either way.
"""

import statistics
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from lanemq.compat import Cluster, Driver, logical_cluster, open_driver, running

from .._broker import Plan, Say, client_command
from .._results import processor_s, this_machine
from ._results import ListenersBench

ONE, TWO = "one", "two"
SEEN_AT: Final = {ONE: "1", TWO: "4"}
"""``logicalQueueBrokers``: with 1, all old clients of a cluster go to the same listener."""
BROKERS: Final = ("broker-a", "broker-b")
QUEUES: Final = 8
TOPIC: Final = "listeners"
THREADS: Final = 16


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the two clusters, and the clients that are connected to it."""

    cluster: Cluster
    drivers: list[Driver]

    async def rate(self, seconds: float) -> tuple[int, float]:
        """Let all clients send for so long; returns how many messages, and per second in all."""
        found: list[tuple[int, float]] = []

        async def send(driver: Driver) -> None:
            name_server = self.cluster.name_server
            answer = await driver.call(
                "send", name_server=name_server, topic=TOPIC, seconds=seconds, threads=THREADS
            )
            messages = int(answer["messages"])
            found.append((messages, messages / float(answer["seconds"])))

        async with trio.open_nursery() as nursery:
            for driver in self.drivers:
                nursery.start_soon(send, driver)
        return sum(messages for messages, _ in found), sum(rate for _, rate in found)

    def processor_s(self) -> float:
        """Return the processor time that the brokers' processes have used so far."""
        return sum(processor_s(daemon.pid) for daemon in self.cluster.daemons[1:])


async def bench_listeners(plan: Plan, clients: int, say: Say) -> ListenersBench:
    """Run the bench; raises ``lanemq.compat.CompatError`` where a server or a client fails."""
    machine = this_machine()
    command = await trio.to_thread.run_sync(client_command)
    rates: dict[str, list[float]] = {side: [] for side in SEEN_AT}
    spent_us: dict[str, list[float]] = {side: [] for side in SEEN_AT}
    with tempfile.TemporaryDirectory(prefix="lanemq-bench-") as name:
        folder = Path(name)
        for number in range(plan.rounds):
            # One cluster at a time: the other's processes would not be idle.
            for side in SEEN_AT if number % 2 == 0 else reversed(SEEN_AT):
                async with _running(folder / f"{side}-{number}", side, command, clients) as at:
                    await at.rate(plan.warm_up_s)
                    begun_s = at.processor_s()
                    messages, rate = await at.rate(plan.seconds)
                    used_s = at.processor_s() - begun_s
                rates[side].append(round(rate, 1))
                spent_us[side].append(round(used_s * 1e6 / messages, 2))
                say(f"round {number + 1}: {side}: {rate:,.0f} messages/s")
    return ListenersBench(
        machine=machine,
        rounds=plan.rounds,
        clients=clients,
        rates=rates,
        ratio=statistics.median(rates[TWO]) / statistics.median(rates[ONE]),
        processor_us=spent_us,
    )


@asynccontextmanager
async def _running(
    folder: Path, side: str, command: list[str], clients: int
) -> AsyncIterator[_Side]:
    """Run a cluster of one side, with its clients connected."""
    settings = {"logicalQueueBrokers": SEEN_AT[side]}
    cluster = logical_cluster(folder, brokers=BROKERS, settings=settings, moving=False)
    async with running(cluster), AsyncExitStack() as opened:
        await cluster.control.create_topic(TOPIC, QUEUES)
        drivers = [
            await opened.enter_async_context(open_driver(f"bench-{number}", command, folder))
            for number in range(clients)
        ]
        yield _Side(cluster, drivers)
