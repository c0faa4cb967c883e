"""Common parts of the commands: arguments, errors, exit status, progress, and output."""

import dataclasses
import enum
import functools
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import click
import msgspec

from lanemq.local import print_json as _print_json
from lanemq.local import print_line
from lanemq.local.cli import CommandFailed
from lanemq.wire import show_text

from .._errors import RocksFault, StoreError, StoreLocked, is_full
from ..tools import (
    BrokerSettings,
    Finding,
    Progress,
    Severity,
    read_properties,
    read_settings,
)
from ._calls import in_commands

EXIT_PROBLEM = 1
EXIT_FAILED = 2
PROCESSORS = os.cpu_count() or 1
IN_USE = (
    "{error}. Stop that broker first; or copy the directory (a snapshot of the disk is a good"
    " copy) and look at the copy"
)
INTERRUPTED = "the store is as it was, or the same command finishes what was begun"
UNREADABLE = (
    ". If a file of the database is damaged: `lanemq store repair DIR` makes the queues in RocksDB"
    " again from the log"
)
GROUPED_FROM = 4
BROKER_FILE: Final = "lanemq.read_broker_file"
"""The key in a context's ``meta`` of the function that reads a broker's configuration file; the
command ``lanemq`` puts it there."""
_F = TypeVar("_F", bound=Callable[..., None])
_ReportT = TypeVar("_ReportT")


PRIVATE_UMASK: Final = 0o077
"""The umask of the tools: files they make in a store are for their user alone."""


class Failed(CommandFailed):
    """The command could not do its work: one line, and exit status 2."""

    exit_code = EXIT_FAILED


def store_command(command: _F) -> _F:
    """Add to a command the store directory and ``settings``, the broker's as far as they were
    given, and make one line of every foreseen error."""

    @functools.wraps(command)
    def run(
        *args: Any,  # noqa: ANN401  # click passes what it parsed
        commit_log: Path | None,
        config: Path | None,
        **options: Any,  # noqa: ANN401  # likewise
    ) -> None:
        mask = os.umask(PRIVATE_UMASK)
        try:
            settings = _settings_in(config) if config is not None else BrokerSettings()
            if commit_log is not None:
                settings = dataclasses.replace(settings, commit_log=commit_log)
            command(*args, settings=settings, **options)
        except StoreLocked as error:
            raise Failed(IN_USE.format(error=error)) from error
        except StoreError as error:
            raise Failed(in_commands(str(error), options["root"])) from error
        except KeyboardInterrupt:
            raise Failed(f"interrupted: {INTERRUPTED}") from None
        except RocksFault as error:
            way_on = "" if is_full(error) else UNREADABLE
            raise Failed(f"{error.filename}: {error.strerror}{way_on}") from error
        except OSError as error:
            where = f"{error.filename}: " if error.filename is not None else ""
            raise Failed(f"{where}{error.strerror or error}") from error
        finally:
            os.umask(mask)

    wrapped = click.option(
        "--commit-log",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="The log, if it is not in the store: storePathCommitLog.",
    )(run)
    wrapped = click.option(
        "-c",
        "--config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="The broker's configuration file, for what the store does not tell by itself.",
    )(wrapped)
    # It has the options, and does not return what `command` is, but something like it.
    return click.argument("root", metavar="DIR", type=click.Path(path_type=Path))(wrapped)  # type: ignore[return-value]


def _settings_in(config: Path) -> BrokerSettings:
    """Read the broker's file as the broker does, where the command was given its reader."""
    read = click.get_current_context().meta.get(BROKER_FILE, read_properties)
    return read_settings(config, read=read)


def jobs_option(what: str) -> Callable[[_F], _F]:
    """Return the option for the number of processes; ``what`` says what they do."""
    return click.option(
        "-j",
        "--jobs",
        type=click.IntRange(min=1),
        default=PROCESSORS,
        help=f"{what}  [default: one per processor]",
    )


json_option = click.option("--json", "as_json", is_flag=True, help="Print a JSON value.")


def print_json(value: object) -> None:
    """Write a value of the tools, indented."""
    data = msgspec.json.encode(plain(value))
    _print_json(msgspec.json.format(data, indent=2))


def finish(
    report: _ReportT, show: Callable[[_ReportT], None], *, as_json: bool, is_sound: bool
) -> NoReturn:
    """Print a report, as JSON or as ``show`` does for people, and end the command."""
    if as_json:
        print_json(report)
    else:
        show(report)
    sys.exit(0 if is_sound else EXIT_PROBLEM)


def plain(value: object) -> object:
    """Return a value of the tools as JSON values; members keep their names, and calls in texts
    become commands."""
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
    if isinstance(value, str):
        return in_commands(value)
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(item) for item in value]
    return value


@contextmanager
def progress_bars(*, hidden: bool) -> Iterator[Progress]:
    """Show progress bars on the standard error, if that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
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
                tasks[what] = bars.add_task(show_text(what), total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield show


def size_text(size_bytes: int) -> str:
    """Write a number of bytes for people: ``507 bytes``, ``1.4 MiB``."""
    if size_bytes < 1024:
        return f"{size_bytes} bytes"
    value, units = float(size_bytes), ("KiB", "MiB", "GiB", "TiB")
    for unit in units:
        value /= 1024
        if value < 1024 or unit == units[-1]:
            break
    return f"{value:.1f} {unit}"


def count_text(count: int, word: str) -> str:
    """Write a count with its noun: ``1 file``, ``2 files``."""
    plural = f"{word[:-1]}ies" if word.endswith("ry") else f"{word}s"
    return f"{count:,} {word if count == 1 else plural}"


def time_text(timestamp_ms: int) -> str:
    """Write a time in local form, to the millisecond; ``never`` for 0."""
    if timestamp_ms <= 0:
        return "never"
    seconds, rest = divmod(timestamp_ms, 1000)
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(seconds))}.{rest:03d}"


def print_findings(findings: list[Finding], root: Path) -> None:
    """Print findings, problems first; the first of many similar queues stands for all."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        alike = (finding.severity, finding.part, finding.kind, finding.way_on)
        groups.setdefault(alike, []).append(finding)
    for group in sorted(groups.values(), key=lambda same: same[0].severity is Severity.NOTE):
        shown = group if len(group) < GROUPED_FROM else group[:1]
        for finding in shown:
            what = in_commands(finding.what, root)
            print_line(f"{finding.severity.value}: {finding.part.value}: {what}")
        rest = group[len(shown) :]
        if rest:
            where = "queues" if group[0].queue_id is not None else "places"
            total = sum(finding.count for finding in group)
            print_line(f"    and in {len(rest)} more {where}, {total:,} in all; --json lists them")
        if group[0].way_on:
            print_line(f"    -> {in_commands(group[0].way_on, root)}")
