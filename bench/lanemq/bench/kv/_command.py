"""``lanemq bench kv``."""

import functools
import statistics
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from .._command import (
    compared,
    folder_option,
    json_option,
    machine_line,
    rate_cells,
    report,
    run_bench,
    sending_options,
)
from ._kv import GO, OURS, PYTHON, THEIRS, KvPlan, bench_kv
from ._results import KV_MEASURES, KvBench, KvSize


@click.command("kv")
@click.option("--against", type=click.Choice([THEIRS]), help="Measure that as well, in turn.")
@click.option(
    "--client",
    type=click.Choice([GO, PYTHON]),
    default=GO,
    show_default=True,
    help="Ask by one program in Go, or by blocking clients of Python: the SDK's and etcd3.",
)
@click.option(
    "--entries",
    default=0,
    type=click.IntRange(min=0),
    help="Import, read and export so many entries of 100 bytes, too.",
)
@folder_option("Where the servers keep their files.")
@sending_options
@json_option
def kv_bench(
    against: str | None,
    client: str,
    entries: int,
    folder: Path | None,
    rounds: int,
    seconds: float,
    warm_up_s: float,
    as_json: bool,
) -> None:
    """Put, get, and compare and set keys, beside etcd on the same disk.

    Both make every write durable before they answer it. A ratio is lanemq's median over etcd's,
    of processor times etcd's over lanemq's: above 1 lanemq is better.
    """
    plan = KvPlan(
        rounds=rounds,
        seconds=seconds,
        warm_up_s=warm_up_s,
        with_etcd=against == THEIRS,
        client=client,
        entries=entries,
        folder=folder,
    )
    result = run_bench(functools.partial(bench_kv, plan, Console(stderr=True).print))
    report(result, show_kv_bench, as_json=as_json)


def show_kv_bench(console: Console, result: KvBench) -> None:
    """Print medians, ratios and percentiles, and what very many entries need."""
    console.print(machine_line(result.machine))
    console.print(_rates(result))
    for server, reason in result.missing.items():
        console.print(f"{server} was not measured: {reason}")
    if result.size is not None:
        console.print(_size(result.size))


def _rates(result: KvBench) -> Table:
    ours, theirs = result.samples[OURS], result.samples.get(THEIRS)
    if theirs is None:
        alone = Table("operations per second", OURS, "range", "p99, us", "processor, us each")
        for measure in KV_MEASURES:
            slow, used = _p99(result, OURS, measure), _used(result, OURS, measure)
            alone.add_row(measure, *rate_cells(ours[measure]), slow, used)
        return alone
    table = Table(
        "operations per second",
        OURS,
        THEIRS,
        "ratio",
        "range of ours",
        "range of theirs",
        "p99 of ours, us",
        "p99 of theirs, us",
        "processor, us each: ours",
        "theirs",
        "ratio",
    )
    for measure in KV_MEASURES:
        cells = compared([ours[measure], theirs[measure]], result.ratios[measure])
        both = [_p99(result, server, measure) for server in (OURS, THEIRS)]
        both += [_used(result, server, measure) for server in (OURS, THEIRS)]
        table.add_row(measure, *cells, *both, f"{result.processor_ratios[measure]:.2f}")
    return table


def _p99(result: KvBench, server: str, measure: str) -> str:
    return f"{statistics.median(result.p99_us[server][measure]):,.0f}"


def _used(result: KvBench, server: str, measure: str) -> str:
    return f"{statistics.median(result.processor_us[server][measure]):,.0f}"


def _size(size: KvSize) -> Table:
    table = Table(f"{size.entries:,} entries of 100 bytes", "")
    table.add_row("import, entries per second", f"{size.import_per_s:,.0f}")
    table.add_row("export, entries per second", f"{size.export_per_s:,.0f}")
    table.add_row("resident after the import, MiB", f"{size.rss_mib:,.0f}")
    table.add_row("resident after the export, MiB", f"{size.rss_read_mib:,.0f}")
    table.add_row("a page of 100, ms: median, p99", f"{size.page_ms:.2f}, {size.page_p99_ms:.2f}")
    table.add_row("disk, MiB", f"{size.disk_mib:,.0f}")
    table.add_row("start after a kill, s", f"{size.start_s:.2f}")
    table.add_row("its processor time, s", f"{size.start_processor_s:.2f}")
    table.add_row("records redone by it", f"{size.redone:,}")
    return table
