"""The part of the demo that reads the broker's store by Spark, without the broker."""

import importlib.util
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio
from rich.console import Console
from rich.markup import escape

from ..stores._log_walk import walk_log

LIMIT_S: Final = 300.0
COUNT: Final = """
import sys
from pyspark.sql import SparkSession
from lanemq.spark import register

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
register(spark)
messages = spark.read.format("rocketmq-store").option("columns", "topic").load(sys.argv[1])
print(messages.count())
"""


@dataclass(frozen=True, slots=True)
class ReadBySpark:
    """The outcome: rows that Spark read, and records that are there; or why it did not."""

    rows: int = 0
    records: int = 0
    missing: str = ""
    """The software that is not on this machine; empty where all is."""
    problem: str = ""

    @property
    def is_fine(self) -> bool:
        """True if nothing went wrong; a missing Spark is not a fault."""
        return bool(self.missing) or (not self.problem and self.rows == self.records > 0)


async def read_by_spark(store: Path) -> ReadBySpark:
    """Let Spark count the messages of a store that no broker has open."""
    if importlib.util.find_spec("pyspark") is None:
        return ReadBySpark(missing="lanemq[spark] is not installed")
    if shutil.which("java") is None:
        return ReadBySpark(missing="there is no java on PATH")
    with trio.move_on_after(LIMIT_S):
        done = await trio.run_process(
            [sys.executable, "-c", COUNT, str(store)],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            return ReadBySpark(problem=said[-1] if said else "it said nothing")
        return ReadBySpark(
            rows=int(done.stdout.split()[-1]), records=sum(1 for _ in walk_log(store))
        )
    return ReadBySpark(problem=f"it was not done within {LIMIT_S:.0f} s")


def show_read(console: Console, read: ReadBySpark) -> None:
    """Print the line."""
    if read.missing:
        console.print(f"[yellow]without Spark: {escape(read.missing)}", highlight=False)
    elif read.problem:
        console.print(f"[red]Spark could not read the store: {escape(read.problem)}")
    else:
        verdict = "[green]all there are[/]" if read.is_fine else f"[red]not {read.records:,}[/]"
        console.print(f"Spark read {read.rows:,} rows from the store, {verdict}")
