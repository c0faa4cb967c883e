"""Bench of the logical listener: the cost of translation for clients without logical queues.

One broker and its logical listener, driven by the same Java client in turn: once with a plain
topic, which the client is sent to the broker's own port for, and once with a topic of logical
queues, which it is sent to the listener for. Both topics have as many queues, in the same store.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import trio

from lanemq.compat import (
    Cluster,
    Control,
    Driver,
    LogicalControl,
    logical_cluster,
    open_driver,
    running,
)

from .._broker import STORED, Plan, Say, client_command
from .._results import median_ratios, processor_s, this_machine
from ._results import LogicalBench

LOGICAL_MEASURES = ("send_1", "send_16", "send_64", "consume")
DIRECT, LISTENER = "direct", "listener"
WAYS = (LISTENER, DIRECT)
"""The two ways: the one through the listener is ours; the ratio is its rate over the direct one."""
BROKER = "broker-a"


async def bench_logical(plan: Plan, say: Say) -> LogicalBench:
    """Run the bench; raises ``lanemq.compat.CompatError`` where a server or the client fails."""
    machine = this_machine()
    command = await trio.to_thread.run_sync(client_command)
    with tempfile.TemporaryDirectory(prefix="lanemq-bench-") as name:
        folder = Path(name)
        cluster = logical_cluster(folder / "lanemq", brokers=[BROKER], settings={}, moving=False)
        async with (
            running(cluster),
            open_driver("bench", command, folder) as driver,
        ):
            await _make_topics(cluster)
            bench = _Bench(driver, cluster.name_server, plan)
            for way in WAYS:
                say(f"{way}: storing {STORED} messages")
                await bench.fill(way)
            for way in WAYS:
                for measure in LOGICAL_MEASURES:
                    _, rate = await bench.measure(way, measure, "warm-up")
                    say(f"{way}: {measure} warming up, {rate:,.0f} messages/s")
            samples, processor_us = _table(), _table()
            for number in range(plan.rounds):
                for measure in LOGICAL_MEASURES:
                    for way in WAYS if number % 2 == 0 else reversed(WAYS):
                        begun_s = processor_s(cluster.broker.pid)
                        messages, rate = await bench.measure(way, measure, f"round-{number}")
                        spent_s = processor_s(cluster.broker.pid) - begun_s
                        samples[way][measure].append(rate)
                        processor_us[way][measure].append(round(spent_s * 1e6 / messages, 2))
                        say(f"round {number + 1}: {way}: {measure} {rate:,.0f} messages/s")
    return LogicalBench(
        machine=machine,
        rounds=plan.rounds,
        samples=samples,
        ratios=median_ratios(samples, ours=LISTENER, theirs=DIRECT),
        processor_us=processor_us,
    )


def _table() -> dict[str, dict[str, list[float]]]:
    return {way: {measure: [] for measure in LOGICAL_MEASURES} for way in WAYS}


async def _make_topics(cluster: Cluster) -> None:
    logical = cluster.control
    assert isinstance(logical, LogicalControl)
    plain = Control(cluster.name_server)
    for kind in ("send", "consume"):
        await plain.create_topic(f"{kind}-{DIRECT}")
        await logical.create_topic(f"{kind}-{LISTENER}")


@dataclass(frozen=True, slots=True)
class _Bench:
    driver: Driver
    name_server: str
    plan: Plan

    async def fill(self, way: str) -> None:
        await self._rate("fill", topic=f"consume-{way}", count=STORED)

    async def measure(self, way: str, measure: str, label: str) -> tuple[int, float]:
        """Take one measurement: the number of messages, and messages per second."""
        if measure == "consume":
            group = f"bench-{way}-{label}"
            return await self._rate("consume", topic=f"consume-{way}", group=group, count=STORED)
        seconds = self.plan.warm_up_s if label == "warm-up" else self.plan.seconds
        threads = int(measure.removeprefix("send_"))
        return await self._rate("send", topic=f"send-{way}", seconds=seconds, threads=threads)

    async def _rate(self, command: str, **arguments: object) -> tuple[int, float]:
        answer = await self.driver.call(command, name_server=self.name_server, **arguments)
        messages = int(answer["messages"])
        return messages, round(messages / float(answer["seconds"]), 1)
