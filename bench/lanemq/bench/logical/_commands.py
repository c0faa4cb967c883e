"""``lanemq bench logical`` and ``lanemq bench migrate``."""

import functools
import statistics

import click
from rich.console import Console
from rich.table import Table

from .._broker import Plan
from .._command import compared, json_option, machine_line, report, run_bench, sending_options
from ._listeners import ONE, TWO, bench_listeners
from ._migrate import CLIENTS, MigratePlan, bench_migrate, pause_figures
from ._results import ListenersBench, LogicalBench, MigrateBench
from ._translation import DIRECT, LISTENER, bench_logical


@click.command()
@sending_options
@json_option
def logical(rounds: int, seconds: float, warm_up_s: float, as_json: bool) -> None:
    """Drive one broker directly and through its logical listener in turn.

    A ratio is the listener's median over the direct one: 1 is a translation that costs nothing.
    """
    plan = Plan(rounds=rounds, seconds=seconds, warm_up_s=warm_up_s)
    result = run_bench(functools.partial(bench_logical, plan, Console(stderr=True).print))
    report(result, show_logical_bench, as_json=as_json)


@click.command()
@click.option(
    "--clients",
    default=4,
    show_default=True,
    type=click.IntRange(min=1),
    help="Client processes that send at the same time.",
)
@sending_options
@json_option
def listeners(clients: int, rounds: int, seconds: float, warm_up_s: float, as_json: bool) -> None:
    """Drive two brokers through one logical listener, and through both, in turn.

    The ratio is the median with two listeners over that with one: above 1 they carry more.
    """
    plan = Plan(rounds=rounds, seconds=seconds, warm_up_s=warm_up_s)
    say = Console(stderr=True).print
    result = run_bench(functools.partial(bench_listeners, plan, clients, say))
    report(result, show_listeners_bench, as_json=as_json)


@click.command()
@click.option(
    "--client",
    "clients",
    multiple=True,
    type=click.Choice(list(CLIENTS)),
    help="Who writes to the queue; may be repeated.  [default: both]",
)
@click.option(
    "--migrations",
    default=MigratePlan().migrations,
    show_default=True,
    type=click.IntRange(min=1),
)
@click.option(
    "--threads",
    default=MigratePlan().threads,
    show_default=True,
    type=click.IntRange(min=1),
    help="Senders to the queue.",
)
@json_option
def migrate(clients: tuple[str, ...], migrations: int, threads: int, as_json: bool) -> None:
    """Migrate a logical queue back and forth between two brokers while it is written to."""
    plan = MigratePlan(migrations=migrations, threads=threads, clients=clients or CLIENTS)
    result = run_bench(functools.partial(bench_migrate, plan, Console(stderr=True).print))
    report(result, show_migrate_bench, as_json=as_json)


def show_logical_bench(console: Console, result: LogicalBench) -> None:
    """Print medians, ranges and ratios."""
    console.print(machine_line(result.machine))
    table = Table(
        "messages per second",
        LISTENER,
        DIRECT,
        "ratio",
        f"range: {LISTENER}",
        f"range: {DIRECT}",
        "broker's processor time per message, us",
    )
    for measure, ratio in result.ratios.items():
        rates = [result.samples[way][measure] for way in (LISTENER, DIRECT)]
        table.add_row(
            measure,
            *compared(rates, ratio),
            " / ".join(
                f"{statistics.median(result.processor_us[way][measure]):.1f}"
                for way in (LISTENER, DIRECT)
            ),
        )
    console.print(table)


def show_listeners_bench(console: Console, result: ListenersBench) -> None:
    """Print medians, ranges and the ratio."""
    console.print(machine_line(result.machine))
    table = Table(
        f"messages per second of {result.clients} clients",
        "two listeners",
        "one",
        "ratio",
        "range: two",
        "range: one",
        "brokers' processor time per message, us",
    )
    spent = (f"{statistics.median(result.processor_us[side]):.1f}" for side in (TWO, ONE))
    rates = [result.rates[side] for side in (TWO, ONE)]
    table.add_row("send", *compared(rates, result.ratio), " / ".join(spent))
    console.print(table)


def show_migrate_bench(console: Console, result: MigrateBench) -> None:
    """Print the senders' results, client by client."""
    console.print(machine_line(result.machine))
    table = Table(f"{result.migrations} migrations, {result.threads} senders", *result.clients)
    rows: dict[str, list[str]] = {}
    for seen in result.clients.values():
        for title, value in {
            "a migration takes, median": f"{statistics.median(seen.took_ms):.0f} ms",
            "longest pause: median, p99, max": _pauses(seen.pauses_ms),
            "the same without migrations": _pauses(seen.quiet_ms),
            "messages/s while migrating": f"{statistics.median(seen.rates['migrating']):,.0f}",
            "without, at one broker": f"{statistics.median(seen.rates['here']):,.0f}",
            "without, at the other": f"{statistics.median(seen.rates['there']):,.0f}",
            "ratio": f"{seen.rate_kept:.2f}",
            "acknowledged": f"{seen.sent:,}",
            "failed, and sent again": f"{seen.failed:,}",
            "lost": f"{seen.lost:,}",
            "twice": f"{seen.duplicated:,}",
            "out of order": f"{seen.out_of_order:,}",
        }.items():
            rows.setdefault(title, []).append(value)
    for title, values in rows.items():
        table.add_row(title, *values)
    console.print(table)


def _pauses(pauses_ms: list[float]) -> str:
    return " / ".join(f"{value:.0f}" for value in pause_figures(pauses_ms)) + " ms"
