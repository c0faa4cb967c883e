"""``lanemq bench spark``: jobs of Spark on a store, beside loops and writes without it."""

import importlib.util
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import click
import msgspec
from rich.console import Console
from rich.table import Table

from lanemq.storage.bulk import convert_to_rocksdb
from lanemq.storage.tools import LogScan, look_into

from .._command import folder_option, json_option, machine_line, rate_cells, report, run_bench
from .._results import Machine, this_machine
from ..stores._store_maker import make_store
from ._session import count, count_apart, kept_to, messages_of, warm_session
from ._topic import JAVA, SPARK, TopicPlan, bench_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOP: Final = "a loop over records, in Python"
COUNT: Final = "store to a count"
COUNT_ALONE: Final = "store to a count, kept to one processor"
MEMORY: Final = "Arrow batches in memory to Parquet"
PARQUET: Final = "store to Parquet"
CONVERT: Final = "queues from the log, one process"
BUILD: Final = "queues from the log"
TOPIC_MESSAGES: Final = 200_000
"""The most messages in the topic: all of it goes to a consumer in half a minute."""
RATIOS: Final = {
    "store to a count, to a loop in Python": (COUNT, LOOP),
    "store to Parquet, to batches in memory": (PARQUET, MEMORY),
    "queues from the log, to one process": (BUILD, CONVERT),
    "topic through a broker, to the Java push consumer": (SPARK, JAVA),
    "two cores, to one": (COUNT, COUNT_ALONE),
}
"""Ratio -> measure, and the one it is divided by."""


class SparkBench(msgspec.Struct, frozen=True):
    """The JSON of ``lanemq bench spark``."""

    machine: Machine
    messages: int
    record_bytes: int
    rounds: int
    samples: dict[str, list[float]]
    """Measure -> messages per second, one for each round. Everything keeps to two processors,
    Spark has two cores, unless its name says otherwise; sessions are warm, and the store is in the
    page cache."""
    ratios: dict[str, float]
    """The median of one measure over that of another."""
    missing: dict[str, str]
    """The measures that could not be taken -> why."""


def measure(
    *,
    messages: int,
    body_bytes: int,
    rounds: int,
    folder: Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> SparkBench:
    """Make a store in ``folder``, and go over it in turn with and without Spark.

    Raises ``OSError``, and ``ClickException`` where a measure misses messages.
    """
    machine = this_machine()
    figures = _Figures(progress)
    with tempfile.TemporaryDirectory(prefix="lanemq-bench-", dir=folder) as name, kept_to(2):
        work = _Work(Path(name))
        progress(f"making a store of {messages:,} messages")
        record_bytes = make_store(work.root, messages=messages, queues=8, body_bytes=body_bytes)

        def timed(name: str, run: Callable[[], int]) -> None:
            for _ in range(rounds):
                begun_s = time.perf_counter()
                found = run()
                figures.record(name, found, messages, time.perf_counter() - begun_s)

        timed(LOOP, work.loop)
        with warm_session(2, work.root) as spark:
            timed(COUNT, lambda: count(spark, work.root))
            timed(PARQUET, lambda: work.to_parquet(spark))
            timed(BUILD, lambda: work.build(spark))
            plan = TopicPlan(
                messages=min(messages, TOPIC_MESSAGES),
                body_bytes=body_bytes,
                rounds=rounds,
                folder=work.folder,
            )
            missing = _through_a_broker(spark, plan, figures)
        for found, seconds in count_apart(work.root, cores=1, rounds=rounds):
            figures.record(COUNT_ALONE, found, messages, seconds)
        timed(CONVERT, work.convert)
        batches = work.batches()
        timed(MEMORY, lambda: work.write(batches))
    return SparkBench(
        machine, messages, record_bytes, rounds, figures.samples, figures.ratios(), missing
    )


def _through_a_broker(
    spark: "SparkSession", plan: TopicPlan, figures: "_Figures"
) -> dict[str, str]:
    """Measure a topic, where there is a Java client; returns what is missing."""
    try:
        rounds = run_bench(lambda: bench_topic(spark, plan))
    except click.ClickException as error:
        figures.progress(f"{SPARK}: {error.message}")
        return {SPARK: error.message}
    for name, found, seconds in rounds:
        figures.record(name, found, plan.messages, seconds)
    return {}


@final
@dataclass
class _Figures:
    """The rates of all rounds."""

    progress: Callable[[str], None]
    samples: dict[str, list[float]] = field(default_factory=dict)

    def record(self, name: str, found: int, wanted: int, seconds: float) -> None:
        """Add a round. Raises ``ClickException`` where it missed messages."""
        if found != wanted:
            raise click.ClickException(f"{name}: {found} messages instead of {wanted}")
        rate = wanted / seconds
        self.samples.setdefault(name, []).append(round(rate))
        self.progress(f"{name}: {rate:,.0f} messages per second")

    def ratios(self) -> dict[str, float]:
        medians = {name: statistics.median(rates) for name, rates in self.samples.items()}
        return {
            name: round(medians[one] / medians[two], 3)
            for name, (one, two) in RATIOS.items()
            if one in medians and two in medians
        }


class _Work:
    """The measured work on one store; each returns how many messages it found."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "store"
        self._out = folder / "out"

    def loop(self) -> int:
        log = look_into(self.root).log
        scan = LogScan(log, log.begin, log.written_end(), check_crc=False)
        return sum(1 for _ in scan)

    def to_parquet(self, spark: "SparkSession") -> int:
        shutil.rmtree(self._out, ignore_errors=True)
        messages_of(spark, self.root).write.parquet(str(self._out))
        from pyarrow import dataset

        return int(dataset.dataset(self._out).count_rows())

    def batches(self) -> list[Any]:
        """Return the rows that ``to_parquet`` writes, as Arrow batches in memory."""
        from pyarrow import dataset

        return list(dataset.dataset(self._out).to_table().to_batches())

    def write(self, batches: list[Any]) -> int:
        from pyarrow import parquet

        target = self._out.with_suffix(".parquet")
        with parquet.ParquetWriter(target, batches[0].schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        return int(parquet.read_metadata(target).num_rows)

    def build(self, spark: "SparkSession") -> int:
        from lanemq.spark.jobs import build

        self._forget_rows()
        return build(spark, str(self.root)).units

    def convert(self) -> int:
        self._forget_rows()
        return convert_to_rocksdb(self.root, from_log=True).units

    def _forget_rows(self) -> None:
        for path in (self.root / "consumequeue").iterdir():
            if path.is_file():
                path.unlink()
        for path in self.root.glob("converted-*"):
            shutil.rmtree(path)


@click.command()
@click.option("--messages", default=2_000_000, show_default=True, type=click.IntRange(min=1))
@click.option("--body-bytes", default=1024, show_default=True, type=click.IntRange(min=0))
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(min=1))
@folder_option("Where the store is made, and Parquet is written.")
@json_option
def spark(messages: int, body_bytes: int, rounds: int, folder: Path | None, as_json: bool) -> None:
    """Read, export and build a store by Spark on two processors, beside the same without it."""
    if importlib.util.find_spec("pyspark") is None:
        raise click.ClickException("Spark is not installed: pip install 'lanemq[spark]'")
    result = measure(
        messages=messages,
        body_bytes=body_bytes,
        rounds=rounds,
        folder=folder,
        progress=Console(stderr=True).print,
    )
    report(result, _show, as_json=as_json)


def _show(console: Console, result: SparkBench) -> None:
    console.print(machine_line(result.machine))
    table = Table("measure", "messages per second", "range")
    for name, rates in result.samples.items():
        table.add_row(name, *rate_cells(rates))
    console.print(table)
    for name, ratio in result.ratios.items():
        console.print(f"{name}: {ratio:.2f}")
