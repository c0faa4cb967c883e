"""``lanemq bench million-queues``."""

import functools
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from .._command import folder_option, json_option, machine_line, report, run_bench
from .._results import QueuesBench
from ._queues import MODES, SAMPLE, QueuesPlan, bench_queues

QUEUE_FIGURES = {
    "made_s": "made in, s",
    "disk_mib": "disk, MiB",
    "start_s": "start after a stop, s",
    "rss_mib": "resident then, MiB",
    "read_s": f"{SAMPLE} queues read in, s",
    "read_rss_mib": "resident then, MiB",
    "stop_s": "stop, s",
    "start_after_kill_s": "start after SIGKILL, s",
    "rss_after_kill_mib": "resident then, MiB",
}


@click.command("million-queues")
@click.option("--queues", default=QueuesPlan().queues, show_default=True, type=click.IntRange(1))
@click.option(
    "--queues-per-topic",
    default=QueuesPlan().queues_per_topic,
    show_default=True,
    type=click.IntRange(1),
)
@click.option(
    "--mode",
    "modes",
    multiple=True,
    type=click.Choice(list(MODES)),
    help="Where the queues are; may be repeated.  [default: both]",
)
@folder_option("Where the stores are made; files need 4 KiB and two inodes for each queue.")
@json_option
def million_queues(
    queues: int, queues_per_topic: int, modes: tuple[str, ...], folder: Path | None, as_json: bool
) -> None:
    """Start a broker that has a million queues, in RocksDB and in files."""
    plan = QueuesPlan(
        queues=queues,
        queues_per_topic=queues_per_topic,
        modes=modes or QueuesPlan().modes,
        folder=folder,
    )
    result = run_bench(functools.partial(bench_queues, plan, Console(stderr=True).print))
    report(result, show_queues_bench, as_json=as_json)


def show_queues_bench(console: Console, result: QueuesBench) -> None:
    """Print the figures of each mode side by side."""
    console.print(machine_line(result.machine))
    table = Table(f"{result.queues:,} queues", *result.modes)
    for name, title in QUEUE_FIGURES.items():
        table.add_row(title, *(f"{getattr(mode, name):,.1f}" for mode in result.modes.values()))
    console.print(table)
