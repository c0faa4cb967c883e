"""``lanemq bench convert``: conversions of a store at rest, in units per second."""

import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click
import msgspec
from rich.console import Console
from rich.table import Table

from lanemq.storage.bulk import Conversion, convert_to_files, convert_to_rocksdb

from .._command import folder_option, json_option, machine_line, rate_cells, report
from .._results import Machine, this_machine
from ._store_maker import make_store

PROCESSORS: Final = os.cpu_count() or 1
TO_ROCKSDB: Final = "files to rocksdb"
TO_FILES: Final = "rocksdb to files"
LOG_TO_ROCKSDB: Final = "log to rocksdb"
LOG_TO_FILES: Final = "log to files"


class ConvertBench(msgspec.Struct, frozen=True):
    """The JSON of ``lanemq bench convert``."""

    machine: Machine
    messages: int
    queues: int
    record_bytes: int
    rounds: int
    jobs: int
    """Processes of a conversion, where several can share it."""
    samples: dict[str, list[float]]
    """Conversion -> units per second, one for each round."""
    processor_us: dict[str, float]
    """Conversion -> processor time per unit in microseconds, the median of the rounds."""


def measure(
    *,
    messages: int,
    queues: int,
    body_bytes: int,
    rounds: int,
    jobs: int = 1,
    folder: Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> ConvertBench:
    """Make a store in ``folder`` and convert it to and fro, by ``jobs`` processes where several
    can share the work. Raises ``OSError``."""
    machine = this_machine()
    samples: dict[str, list[float]] = {}
    processor: dict[str, list[float]] = {}

    def timed(name: str, run: Callable[[], Conversion]) -> None:
        started_s = _processor_s()
        done = run()
        used_s = _processor_s() - started_s
        if done.units != messages:
            raise click.ClickException(f"{name}: {done.units} units instead of {messages}")
        samples.setdefault(name, []).append(round(done.units / done.seconds))
        processor.setdefault(name, []).append(used_s / done.units * 1e6)
        progress(f"{name}: {done.units / done.seconds:,.0f} units per second")

    with tempfile.TemporaryDirectory(prefix="lanemq-bench-", dir=folder) as name:
        root = Path(name) / "store"
        progress(f"making a store of {messages:,} messages")
        record_bytes = make_store(root, messages=messages, queues=queues, body_bytes=body_bytes)
        for _ in range(rounds):
            _remove_files(root)
            timed(LOG_TO_FILES, lambda: convert_to_files(root, from_log=True))
            timed(TO_ROCKSDB, lambda: convert_to_rocksdb(root, jobs=jobs))
            _remove_files(root)
            timed(TO_FILES, lambda: convert_to_files(root))
            timed(LOG_TO_ROCKSDB, lambda: convert_to_rocksdb(root, from_log=True))
            _remove_database(root)
    return ConvertBench(
        machine=machine,
        messages=messages,
        queues=queues,
        record_bytes=record_bytes,
        rounds=rounds,
        jobs=jobs,
        samples=samples,
        processor_us={
            name: round(statistics.median(times), 3) for name, times in processor.items()
        },
    )


def _processor_s() -> float:
    """Return the processor time of this process, and of those that it had and that ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _remove_files(root: Path) -> None:
    for path in (root / "consumequeue").glob("*/*/*"):
        path.unlink()


def _remove_database(root: Path) -> None:
    for path in (root / "consumequeue").iterdir():
        if path.is_file():
            path.unlink()


@click.command()
@click.option("--messages", default=4_000_000, show_default=True, type=click.IntRange(min=1))
@click.option("--queues", default=8, show_default=True, type=click.IntRange(min=1))
@click.option("--body-bytes", default=100, show_default=True, type=click.IntRange(min=0))
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(min=1))
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    default=PROCESSORS,
    help="Processes of a conversion, where several can share it.  [default: one per processor]",
)
@folder_option("Where the store is made; the log alone has some 250 bytes for each message.")
@json_option
def convert(
    messages: int,
    queues: int,
    body_bytes: int,
    rounds: int,
    jobs: int,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Convert the queues of a store at rest between files and RocksDB."""
    result = measure(
        messages=messages,
        queues=queues,
        body_bytes=body_bytes,
        rounds=rounds,
        jobs=jobs,
        folder=folder,
        progress=Console(stderr=True).print,
    )
    report(result, _show, as_json=as_json)


def _show(console: Console, result: ConvertBench) -> None:
    console.print(machine_line(result.machine))
    console.print(f"{result.messages:,} messages of {result.record_bytes} bytes")
    table = Table("conversion", "units per second", "range", "processor us per unit")
    for name, rates in result.samples.items():
        table.add_row(
            name,
            *rate_cells(rates),
            f"{result.processor_us[name]:.2f}",
        )
    console.print(table)
