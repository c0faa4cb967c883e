"""What the commands of ``lanemq bench`` share."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import click
import trio

from lanemq.compat import CompatError

from ._results import Machine

Result = TypeVar("Result")


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


def machine_line(machine: Machine) -> str:
    """Describe a machine in a line."""
    return (
        f"{machine.processors} x {machine.processor}, {machine.memory_gib} GiB, "
        f"{machine.system}, Python {machine.python}, load {machine.load_average}"
    )
