"""lanemq's proxy and Apache's, before the same Apache broker, beside clients that go direct.

All are up for all rounds and take turns in being first. The Java client program is the one of
``lanemq bench broker``, of 4.9.7, which Apache's proxy takes.
"""

import functools
import statistics
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import click
import msgspec
import trio
from rich.console import Console
from rich.table import Table

from lanemq.compat import (
    Cluster,
    Daemon,
    Driver,
    apache_cluster,
    apache_proxy,
    free_port,
    lanemq_proxy,
    open_driver,
    running,
)

from ._broker import APACHE_VERSION, STORED, Plan, Say, client_command
from ._command import json_option, machine_line, rate_cells, report, run_bench, sending_options
from ._results import Machine, median_ratios, processor_s, resident_mib, this_machine

DIRECT: Final = "direct"
OURS: Final = "lanemq"
THEIRS: Final = "apache-proxy"
MEASURES: Final = ("send_1", "send_16", "send_64", "consume")
SEND_TOPIC: Final = "bench-send"
CONSUME_TOPIC: Final = "bench-consume"


class ProxyBench(msgspec.Struct, frozen=True):
    """The JSON of ``lanemq bench proxy``."""

    machine: Machine
    rounds: int
    samples: dict[str, dict[str, list[float]]]
    """"direct", "lanemq" and "apache-proxy" -> measure -> messages per second, one per round."""
    ratios: dict[str, dict[str, float]]
    """"to_direct", "apache_to_direct" and "to_apache" -> measure -> a quotient of medians."""
    added_ms: dict[str, float]
    """Proxy -> milliseconds that it adds to a send at one thread, by the medians."""
    processor_us: dict[str, dict[str, list[float]]]
    """Proxy -> measure -> its processor time per message, in microseconds."""
    rss_mib: dict[str, float]


class _Bench:
    def __init__(self, driver: Driver, plan: Plan, sides: Mapping[str, Cluster]) -> None:
        self.driver, self.plan, self.sides = driver, plan, sides

    async def rate(self, side: str, measure: str, label: str) -> tuple[float, int]:
        """Take one measurement; returns messages per second, and how many there were."""
        name_server = self.sides[side].name_server
        seconds = self.plan.warm_up_s if label == "warm-up" else self.plan.seconds
        if measure == "consume":
            answer = await self.driver.call(
                "consume",
                name_server=name_server,
                topic=CONSUME_TOPIC,
                group=f"bench-{side}-{label}",
                count=STORED,
            )
        else:
            answer = await self.driver.call(
                "send",
                name_server=name_server,
                topic=SEND_TOPIC,
                seconds=seconds,
                threads=int(measure.partition("_")[2]),
            )
        messages = int(answer["messages"])
        return round(messages / float(answer["seconds"]), 1), messages


async def bench_proxy(plan: Plan, say: Say) -> ProxyBench:
    """Run the bench; raises ``lanemq.compat.CompatError`` where a server or the client fails."""
    machine = this_machine()
    command = await trio.to_thread.run_sync(client_command)
    with tempfile.TemporaryDirectory(prefix="lanemq-bench-") as name:
        folder = Path(name)
        direct = await trio.to_thread.run_sync(
            lambda: apache_cluster(
                APACHE_VERSION, folder / "apache", settings={}, heap="1g", light=False
            )
        )
        ports = {OURS: free_port(), THEIRS: free_port(1)}
        proxies = {
            OURS: lanemq_proxy(folder / OURS, upstream=direct.name_server, port=ports[OURS]),
            THEIRS: await trio.to_thread.run_sync(_apache_proxy, folder, ports[THEIRS], direct),
        }
        sides = {DIRECT: direct} | {
            side: replace(direct, name_server=f"127.0.0.1:{port}") for side, port in ports.items()
        }
        behind = replace(direct, daemons=[*direct.daemons, *proxies.values()])
        async with (
            running(behind, graceful=False),
            open_driver("bench", command, folder) as driver,
        ):
            for topic in (SEND_TOPIC, CONSUME_TOPIC):
                await direct.control.create_topic(topic)
            bench = _Bench(driver, plan, sides)
            say(f"storing {STORED} messages")
            await driver.call(
                "fill", name_server=direct.name_server, topic=CONSUME_TOPIC, count=STORED
            )
            return await _measure(bench, proxies, say, machine)


def _apache_proxy(folder: Path, port: int, direct: Cluster) -> Daemon:
    home = folder / THEIRS
    home.mkdir()
    return apache_proxy(home, port=port, name_server=direct.name_server)


async def _measure(
    bench: _Bench, proxies: Mapping[str, Daemon], say: Say, machine: Machine
) -> ProxyBench:
    sides = list(bench.sides)
    samples = {side: {measure: list[float]() for measure in MEASURES} for side in sides}
    spent = {side: {measure: list[float]() for measure in MEASURES} for side in proxies}
    for number in range(-1, bench.plan.rounds):
        label = "warm-up" if number < 0 else f"round-{number}"
        for measure in MEASURES:
            for side in sides if number % 2 == 0 else reversed(sides):
                begun_s = processor_s(proxies[side].pid) if side in proxies else 0.0
                rate, messages = await bench.rate(side, measure, label)
                say(f"{label}: {side}: {measure} {rate:,.0f} messages/s")
                if number < 0:
                    continue
                samples[side][measure].append(rate)
                if side in proxies:
                    used_s = processor_s(proxies[side].pid) - begun_s
                    spent[side][measure].append(round(used_s * 1e6 / messages, 2))

    def send_ms(side: str) -> float:
        return 1000 / statistics.median(samples[side]["send_1"])

    return ProxyBench(
        machine=machine,
        rounds=bench.plan.rounds,
        samples=samples,
        ratios={
            "to_direct": median_ratios(samples, ours=OURS, theirs=DIRECT),
            "apache_to_direct": median_ratios(samples, ours=THEIRS, theirs=DIRECT),
            "to_apache": median_ratios(samples, ours=OURS, theirs=THEIRS),
        },
        added_ms={side: round(send_ms(side) - send_ms(DIRECT), 3) for side in proxies},
        processor_us=spent,
        rss_mib={side: resident_mib([daemon.pid]) for side, daemon in proxies.items()},
    )


@click.command()
@click.option("--against", type=click.Choice([THEIRS]), default=THEIRS, show_default=True)
@sending_options
@json_option
def proxy(against: str, rounds: int, seconds: float, warm_up_s: float, as_json: bool) -> None:
    """Drive an Apache broker direct, through lanemq's proxy and through Apache's in turn.

    A ratio to direct of 1 is a proxy that costs nothing; one to Apache's above 1 is a better one.
    """
    plan = Plan(rounds=rounds, seconds=seconds, warm_up_s=warm_up_s)
    result = run_bench(functools.partial(bench_proxy, plan, Console(stderr=True).print))
    report(result, show_proxy_bench, as_json=as_json)


def show_proxy_bench(console: Console, result: ProxyBench) -> None:
    """Print medians, ratios, latency and memory."""
    console.print(machine_line(result.machine))
    table = Table("messages per second", "way", "median", "range", "to direct", "us of the proxy")
    for measure in MEASURES:
        for side, samples in result.samples.items():
            ways = {OURS: "to_direct", THEIRS: "apache_to_direct"}
            ratio = f"{result.ratios[ways[side]][measure]:.2f}" if side in ways else ""
            spent = result.processor_us.get(side, {}).get(measure)
            table.add_row(
                measure,
                side,
                *rate_cells(samples[measure]),
                ratio,
                f"{statistics.median(spent):.0f}" if spent else "",
            )
    console.print(table)
    for side in (OURS, THEIRS):
        console.print(
            f"{side}: adds {result.added_ms[side]:.2f} ms to a send at one thread, resident "
            f"{result.rss_mib[side]:.0f} MiB"
        )
    shown = ", ".join(f"{name} {ratio:.2f}" for name, ratio in result.ratios["to_apache"].items())
    console.print(f"lanemq's over Apache's: {shown}")
