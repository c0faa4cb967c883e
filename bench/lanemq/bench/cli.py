"""``lanemq bench``: figures beside those of the software that lanemq replaces."""

import functools
import statistics

import click
from rich.console import Console
from rich.table import Table

from ._broker import Plan, bench_broker
from ._command import (
    compared,
    json_option,
    machine_line,
    rate_cells,
    report,
    run_bench,
    sending_options,
)
from ._proxy import proxy
from ._results import BrokerBench, SdkBench
from ._wire import wire
from .clients._sdk import OURS, bench_sdk
from .kv._command import kv_bench
from .logical._commands import listeners, logical, migrate
from .spark._spark import spark
from .stores._convert import convert
from .stores._queues_command import million_queues


@click.group()
def bench() -> None:
    """Measure lanemq against the software it replaces, on this machine."""


bench.add_command(wire)
bench.add_command(proxy)
bench.add_command(convert)
bench.add_command(logical)
bench.add_command(listeners)
bench.add_command(migrate)
bench.add_command(million_queues)
bench.add_command(kv_bench)
bench.add_command(spark)


@bench.command()
@click.option("--against", type=click.Choice(["apache"]), default="apache", show_default=True)
@sending_options
@json_option
def broker(against: str, rounds: int, seconds: float, warm_up_s: float, as_json: bool) -> None:
    """Drive lanemq and an Apache broker in turn with the same Java client program.

    A ratio is lanemq's median over Apache's: above 1 lanemq is better.
    """
    plan = Plan(rounds=rounds, seconds=seconds, warm_up_s=warm_up_s)
    result = run_bench(functools.partial(bench_broker, plan, Console(stderr=True).print))
    report(result, show_broker_bench, as_json=as_json)


@bench.command()
@click.option("--against", type=click.Choice(["java"]), default="java", show_default=True)
@sending_options
@json_option
def sdk(against: str, rounds: int, seconds: float, warm_up_s: float, as_json: bool) -> None:
    """Drive one Apache broker with the SDK and other clients in turn.

    A ratio is lanemq's median over the other client's: above 1 lanemq is better.
    """
    plan = Plan(rounds=rounds, seconds=seconds, warm_up_s=warm_up_s)
    result = run_bench(functools.partial(bench_sdk, plan, Console(stderr=True).print))
    report(result, show_sdk_bench, as_json=as_json)


def show_sdk_bench(console: Console, result: SdkBench) -> None:
    """Print medians, ranges and ratios as a table for each measure."""
    console.print(machine_line(result.machine))
    heads = ("messages per second", "client", "median", "range", "lanemq's ratio to it")
    table = Table(*heads, "us of its process", "Java's to it")
    spends = result.processor_ratios
    for measure in result.samples[OURS]:
        for client, samples in result.samples.items():
            rates = samples[measure]
            ratio = "" if client == OURS else f"{result.ratios[client][measure]:.2f}"
            table.add_row(
                measure,
                client,
                *rate_cells(rates),
                ratio,
                f"{statistics.median(result.processor_us[client][measure]):.1f}",
                f"{spends[client][measure]:.2f}" if client in spends else "",
            )
    console.print(table)
    for client, reason in result.missing.items():
        console.print(f"{client}: {reason}")
    staged = result.staged
    for way, rates in staged.rates.items():
        console.print(
            f"{way} listener: {statistics.median(rates):,.0f} messages/s, "
            f"{statistics.median(staged.processor_us[way]):.1f} us of its process each"
        )
    console.print(
        f"what stages cost: {staged.overhead:.1%}; the proposal's example of six seconds: "
        f"{statistics.median(staged.example_s):.3f} s"
    )


def show_broker_bench(console: Console, result: BrokerBench) -> None:
    """Print medians, ratios, start-up and memory as tables."""
    ours, theirs = result.samples
    console.print(machine_line(result.machine))
    table = Table("messages per second", ours, theirs, "ratio", "range of ours", "range of theirs")
    for measure, ratio in result.ratios.items():
        rates = [result.samples[server][measure] for server in (ours, theirs)]
        table.add_row(
            measure,
            *compared(rates, ratio),
        )
    console.print(table)
    for server in (ours, theirs):
        console.print(
            f"{server}: start-up {result.start_s[server]:.2f} s, resident "
            f"{result.rss_mib[server]:.0f} MiB after {result.messages_stored:,} messages; "
            f"acl_16 is {result.acl_to_plain[server]:.2f} of send_16"
        )
