"""What the commands share: arguments, errors, exit status, progress, and how things are written."""

import dataclasses
import enum
import functools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from .._errors import StoreError, StoreLocked
from ..tools import Finding, Progress, Severity

EXIT_PROBLEM = 1
EXIT_FAILED = 2
PROCESSORS = os.cpu_count() or 1
IN_USE = (
    "{error}. Stop that broker first; or copy the directory (a snapshot of the disk is a good"
    " copy) and look at the copy"
)
GROUPED_FROM = 4
_F = TypeVar("_F", bound=Callable[..., None])


class Failed(click.ClickException):
    """The command could not do its work: one line, and exit status 2."""

    exit_code = EXIT_FAILED


def store_command(command: _F) -> _F:
    """Give a command the store directory, and make one line of every foreseen error."""

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> None:  # noqa: ANN401  # click passes what it parsed
        try:
            command(*args, **options)
        except StoreLocked as error:
            raise Failed(IN_USE.format(error=error)) from error
        except StoreError as error:
            raise Failed(str(error)) from error
        except OSError as error:
            where = f"{error.filename}: " if error.filename is not None else ""
            raise Failed(f"{where}{error.strerror or error}") from error

    wrapped = click.option(
        "--commit-log",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="The log, if it is not in the store: storePathCommitLog.",
    )(run)
    return click.argument("root", metavar="DIR", type=click.Path(path_type=Path))(wrapped)  # type: ignore[return-value]


json_option = click.option("--json", "as_json", is_flag=True, help="Print a JSON value.")


def print_json(value: object) -> None:
    """Write a value of the tools, indented."""
    data = msgspec.json.encode(plain(value))
    click.echo(msgspec.json.format(data, indent=2).decode())


def plain(value: object) -> object:
    """A value of the tools as JSON has it; members keep their names."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, enum.IntEnum):
        return int(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(item) for item in value]
    return value


@contextmanager
def progress_bars(*, hidden: bool) -> Iterator[Progress]:
    """Bars on the standard error, if that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
    )
    if hidden or not console.is_terminal:
        yield lambda what, done, total: None
        return
    with Bars(*columns, console=console, transient=True) as bars:
        tasks: dict[str, Any] = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield show


def size_text(size_bytes: int) -> str:
    """A number of bytes as people write it: ``507 bytes``, ``1.4 MiB``."""
    if size_bytes < 1024:
        return f"{size_bytes} bytes"
    value, units = float(size_bytes), ("KiB", "MiB", "GiB", "TiB")
    for unit in units:
        value /= 1024
        if value < 1024 or unit == units[-1]:
            break
    return f"{value:.1f} {unit}"


def count_text(count: int, word: str) -> str:
    """``1 file``, ``2 files``."""
    plural = f"{word[:-1]}ies" if word.endswith("ry") else f"{word}s"
    return f"{count:,} {word if count == 1 else plural}"


def time_text(timestamp_ms: int) -> str:
    """A time in local form, to the millisecond; ``never`` for 0."""
    if timestamp_ms <= 0:
        return "never"
    seconds, rest = divmod(timestamp_ms, 1000)
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(seconds))}.{rest:03d}"


def print_findings(findings: list[Finding], root: Path) -> None:
    """Problems first; where many queues are alike, the first of them stands for all."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        alike = (finding.severity, finding.part, finding.kind, finding.way_on)
        groups.setdefault(alike, []).append(finding)
    for group in sorted(groups.values(), key=lambda same: same[0].severity is Severity.NOTE):
        shown = group if len(group) < GROUPED_FROM else group[:1]
        for finding in shown:
            click.echo(f"{finding.severity.value}: {finding.part.value}: {finding.what}")
        rest = group[len(shown) :]
        if rest:
            where = "queues" if group[0].queue_id is not None else "places"
            total = sum(finding.count for finding in group)
            click.echo(f"    and in {len(rest)} more {where}, {total:,} in all; --json lists them")
        if group[0].way_on:
            click.echo(f"    -> {group[0].way_on.replace(' DIR', f' {root}')}")
