"""Sessions of Spark for measurements, and a count on a number of processors.

``python -m lanemq.bench.spark._session STORE CORES ROUNDS`` counts the messages of a store in a
process of its own, which keeps to that number of processors with all that it starts: Spark's
``local[1]`` is one task at a time, but a JVM and a Python beside each other. Prints the messages
and seconds of each round as JSON.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS: Final = {
    "spark.driver.memory": "4g",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""The settings that docs/spark.md advises for much data: two row groups of Parquet, of 128 MiB
each, and what they are made of, leave little of Spark's default of 1 GiB."""
WARM_UPS: Final = 12
"""Runs before those that count: a JVM compiles what it runs often."""


@contextmanager
def kept_to(cores: int) -> Iterator[None]:
    """Keep this process, and those it starts, to ``cores`` processors, where the system can."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:cores])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


# A data frame; pyspark need not be installed.
def messages_of(spark: "SparkSession", root: Path, **options: str) -> Any:  # noqa: ANN401
    return spark.read.format("rocketmq-store").options(**options).load(str(root))


def count(spark: "SparkSession", root: Path) -> int:
    """Count the messages of a store."""
    return int(messages_of(spark, root, columns="queue").count())


@contextmanager
def warm_session(cores: int, root: Path) -> "Iterator[SparkSession]":
    """Open a session on ``cores`` cores that has read the store before."""
    from pyspark.sql import SparkSession

    from lanemq.spark import register

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{cores}]").appName("lanemq bench")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    try:
        for _ in range(WARM_UPS):
            count(spark, root)
        yield spark
    finally:
        spark.stop()


def count_apart(root: Path, *, cores: int, rounds: int) -> list[tuple[int, float]]:
    """Count in a process on ``cores`` processors: messages and seconds of each round.

    Raises ``OSError`` where it fails.
    """
    command = [sys.executable, "-m", __name__, str(root), str(cores), str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"a count on {cores} processors failed: {done.stderr[-500:]}")
    return [(found, seconds) for found, seconds in json.loads(done.stdout)]


def main(root: Path, cores: int, rounds: int) -> None:
    found = []
    with kept_to(cores), warm_session(cores, root) as spark:
        for _ in range(rounds):
            begun_s = time.perf_counter()
            found.append((count(spark, root), time.perf_counter() - begun_s))
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
