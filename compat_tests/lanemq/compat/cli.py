"""``lanemq compat`` and ``lanemq-compat`` (``_entry``): the matrix from the command line."""

import functools
import sys
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import click
import msgspec
import trio
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from lanemq.local import own_directory, print_json
from lanemq.local.cli import CommandFailed

from ._errors import CompatError
from ._pauses import measure
from ._soak import SoakPlan, soak
from .clients._families import CLIENTS
from .demo._demo import run_demo
from .matrix._matrix import JOBS, Selection, run_cells, run_matrix
from .matrix._report_file import added_to, write_report
from .matrix._results import CellResult, Report
from .matrix._show import show_matrix
from .peers._programs import missing_tools
from .scenarios import SCENARIOS
from .servers._clusters import DEFAULT_LOGS, Cluster
from .servers._named import SERVER_NAMES, needs_java


def _split(_context: click.Context, _option: click.Parameter, value: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (value or "").split(",") if name.strip())


@click.group()
def compat() -> None:
    """Run real RocketMQ clients against real servers and compare."""


@compat.command()
@click.option("--clients", callback=_split, help="Comma-separated; all of them unless given.")
@click.option("--servers", callback=_split, help="Comma-separated; all of them unless given.")
@click.option("--scenarios", callback=_split, help="Comma-separated; all of them unless given.")
@click.option("--report", type=click.Path(path_type=Path), help="Write .json or .html here.")
@click.option(
    "--add", is_flag=True, help="Keep all other cells of the report, a .json of a server."
)
@click.option("--target", metavar="NAMESRV", help="Use this running cluster, start no server.")
@click.option("--jobs", default=JOBS, show_default=True, help="Cells under way at once.")
@click.option(
    "--logs",
    type=click.Path(path_type=Path),
    help=f"Where logs of failures go.  [default: {DEFAULT_LOGS}]",
)
def run(
    clients: tuple[str, ...],
    servers: tuple[str, ...],
    scenarios: tuple[str, ...],
    report: Path | None,
    add: bool,
    target: str | None,
    jobs: int,
    logs: Path | None,
) -> None:
    """Run scenarios over clients and servers and print the matrix.

    Exits with status 1 if a cell failed. With --target topics and groups with names of their
    own are made on the cluster and left there.
    """
    try:
        selection = Selection.of(clients=clients, servers=servers, scenarios=scenarios)
    except CompatError as error:
        raise CommandFailed(str(error)) from None
    if target and servers:
        raise click.UsageError("--target is the server: leave --servers out")
    if add and (report is None or len(servers) != 1):
        raise click.UsageError("--add needs --report, and one of --servers")
    try:
        kept = own_directory(DEFAULT_LOGS) if logs is None else logs
    except OSError as error:
        raise CommandFailed(f"{error.filename}: {error.strerror}") from None
    begun = datetime.now(UTC).replace(microsecond=0)
    console = Console()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    # Progress is for people: it goes to stderr, and only if that is a terminal.
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as progress:
        total = selection.cells_per_server * (1 if target else len(selection.servers))
        task = progress.add_task("starting", total=total)

        def on_result(result: CellResult) -> None:
            label = f"{result.server}: {result.client} {result.scenario}"
            progress.update(task, advance=1, description=label)

        if target:
            cluster = Cluster("target", target, kept, [])
            running = functools.partial(run_cells, cluster)
        else:
            running = functools.partial(run_matrix)
        cells = trio.run(
            functools.partial(running, selection, jobs=jobs, logs=kept, on_result=on_result)
        )
    show_matrix(console, cells)
    if report is not None:
        found = Report(begun, version("lanemq"), cells)
        write_report(report, added_to(report, found) if add else found)
        console.print(f"report: {report}")
    sys.exit(any(cell.outcome == "failed" for cell in cells))


@compat.command(name="list")
def list_names() -> None:
    """List clients, servers and scenarios."""
    console = Console()
    clients = Table("client", "needs", "here")
    for family in CLIENTS.values():
        clients.add_row(family.name, family.needs or "", family.missing() or "yes")
    servers = Table("server", "needs", "here")
    for name in SERVER_NAMES:
        needs = "java" if needs_java(name) else ""
        servers.add_row(name, needs, (missing_tools(needs) if needs else None) or "yes")
    scenarios = Table("scenario", "what happens")
    for scenario in SCENARIOS.values():
        scenarios.add_row(scenario.name, scenario.title)
    for table in (clients, servers, scenarios):
        console.print(table)


@compat.command(name="soak")
@click.option("--minutes", default=30.0, show_default=True, help="How long the load goes on.")
@click.option("--every", "every_s", default=60.0, show_default=True, help="Seconds between kills.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON value.")
def soak_proxies(minutes: float, every_s: float, as_json: bool) -> None:
    """Load two proxies before two Apache brokers, of which one is killed every minute.

    Exits with status 1 if an acknowledged message is lost, or handled out of order.
    """
    console = Console(stderr=True)
    plan = SoakPlan(seconds=minutes * 60, every_s=every_s)
    if plan.every_s <= plan.down_s:
        raise click.UsageError(f"--every: more than {plan.down_s:g} seconds, the time of a restart")
    with tempfile.TemporaryDirectory(prefix="lanemq-soak-") as folder:
        try:
            result = trio.run(functools.partial(soak, plan, Path(folder), console.print))
        except CompatError as error:
            raise CommandFailed(str(error)) from None
    if as_json:
        print_json(msgspec.json.format(msgspec.json.encode(result), indent=2))
    else:
        Console().print(
            f"{result.sent} messages acknowledged in {result.seconds:.0f} s, {len(result.kills)} "
            f"kills: {len(result.lost)} lost, {len(result.out_of_order)} out of order, "
            f"{result.repeated} handled again, {result.refused} sends refused, longest pause "
            f"{result.longest_pause_s:.1f} s"
        )
    sys.exit(not result.is_good)


@compat.command(name="pauses")
@click.option("--server", default="5.3.3", show_default=True, help="Version of the brokers.")
@click.option("--topics", default=8, show_default=True, help="Topics of which a queue moves.")
@click.option("--moves", default=6, show_default=True, help="Times that each of them moves.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON value.")
def pauses_of_moves(server: str, topics: int, moves: int, as_json: bool) -> None:
    """Measure for how long a queue is not written while it moves behind a proxy."""
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="lanemq-pauses-") as folder:
        run = functools.partial(measure, server, topics, moves, Path(folder), console.print)
        try:
            found = trio.run(run)
        except CompatError as error:
            raise CommandFailed(str(error)) from None
    if as_json:
        print_json(msgspec.json.format(msgspec.json.encode(found), indent=2))
        return
    out = Console()
    out.print(found.line("first", found.first))
    out.print(found.line("later", found.later))
    out.print(
        f"between: {found.sends} sends, 50th {found.usual_p50 * 1000:.1f} ms, "
        f"99th {found.usual_p99 * 1000:.1f} ms"
    )


@compat.command()
def demo() -> None:
    """Start lanemq, pass messages between Python and Java, show what happened."""
    try:
        sys.exit(trio.run(run_demo, Console()))
    except CompatError as error:
        raise CommandFailed(str(error)) from None
