"""Options, reports and tables shared by the commands of ``lanemq bench``."""

import statistics
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import click
import msgspec
import trio
from rich.console import Console

from lanemq.compat import CompatError

from ._broker import Plan
from ._results import Machine

Result = TypeVar("Result")
Command = TypeVar("Command", bound=Callable[..., object])

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def folder_option(help_text: str) -> Callable[[Command], Command]:
    """Return the option that says where a bench keeps its stores, which may be large."""
    return click.option(
        "--folder", type=click.Path(path_type=Path, exists=True, file_okay=False), help=help_text
    )


def sending_options(command: Command) -> Command:
    """Options of the benches that fill a ``Plan``: the number of rounds and their lengths."""
    for option in (
        click.option(
            "--warm-up",
            "warm_up_s",
            default=Plan().warm_up_s,
            show_default=True,
            type=click.FloatRange(min=0.1),
            help="Length of each sending measurement before the first round.",
        ),
        click.option(
            "--seconds",
            default=Plan().seconds,
            show_default=True,
            type=click.FloatRange(min=0.1),
            help="Length of each sending measurement.",
        ),
        click.option("--rounds", default=5, show_default=True, type=click.IntRange(min=1)),
    ):
        command = option(command)
    return command


def report(result: Result, show: Callable[[Console, Result], object], *, as_json: bool) -> None:
    """Print a bench's results, for machines or for people."""
    if as_json:
        click.echo(msgspec.json.encode(result).decode())
    else:
        show(Console(), result)


def run_bench(measure: Callable[[], Awaitable[Result]]) -> Result:
    """Run a bench; what its servers and clients could not do is one line for people."""
    try:
        return trio.run(measure)
    except CompatError as error:
        failure: BaseException = error
    except ExceptionGroup as group:
        expected, unexpected = group.split(CompatError)
        if expected is None or unexpected is not None:
            raise
        failure = expected
        while isinstance(failure, ExceptionGroup):
            failure = failure.exceptions[0]
    notes = getattr(failure, "__notes__", ())
    raise click.ClickException("; ".join([str(failure), *notes]))


def rate_cells(rates: Sequence[float]) -> tuple[str, str]:
    """Cells of a table: the median of the rounds, and their range."""
    return f"{statistics.median(rates):,.0f}", f"{min(rates):,.0f} - {max(rates):,.0f}"


def compared(rates: Sequence[Sequence[float]], ratio: float) -> Iterator[str]:
    """Cells of a table: the median of each, the ratio, and the range of each."""
    medians, ranges = zip(*map(rate_cells, rates), strict=True)
    yield from (*medians, f"{ratio:.2f}", *ranges)


def machine_line(machine: Machine) -> str:
    """Describe a machine in a line."""
    return (
        f"{machine.processors} x {machine.processor}, {machine.memory_gib} GiB, "
        f"{machine.system}, Python {machine.python}, load {machine.load_average}"
    )
