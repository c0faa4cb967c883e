"""A check of the Python that Spark's executors run: its version, its packages, its lanemq."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES: Final = ("lanemq", "numpy", "pyarrow", "pyspark", "rocksdict")
"""The distributions that tasks import."""
TASKS_MAX: Final = 256
"""Tasks of the check: more than one for each core of an executor finds every executor."""


@final
@dataclass(frozen=True, slots=True)
class Worker:
    """The Python of an executor."""

    host: str
    python: str
    """The path of its interpreter there."""
    version: str
    packages: dict[str, str]
    """Distribution -> version; those that are not installed are missing."""
    problems: tuple[str, ...]
    """Reasons why jobs would fail there, each with the way on; empty if they would not."""


def doctor(spark: "SparkSession") -> list[Worker]:
    """Ask the executors of a session for their Python and packages; one row for each pair of a
    host and an interpreter, sorted.

    Raises Spark's error if no Python starts there at all.
    """
    context = spark.sparkContext
    count = min(max(2 * context.defaultParallelism, 1), TASKS_MAX)
    probe = _probe()
    told = context.parallelize(range(count), count).mapPartitions(probe).distinct().collect()
    return sorted(
        (_judged(**json.loads(one)) for one in told), key=lambda one: (one.host, one.python)
    )


def _probe() -> Callable[[Iterable[int]], Iterator[str]]:
    # Made here: Spark sends a function of this module by its name, which a worker without
    # lanemq cannot look up, but one that is made in a function whole.
    names = PACKAGES

    def probe(_: Iterable[int]) -> Iterator[str]:
        import importlib.metadata as metadata
        import json
        import platform
        import socket
        import sys

        found = {}
        for name in names:
            try:
                found[name] = metadata.version(name)
            except metadata.PackageNotFoundError:
                continue
        try:
            import lanemq.spark  # noqa: F401 - whether it can be

            why = ""
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
        yield json.dumps(
            {
                "host": socket.gethostname(),
                "python": sys.executable,
                "version": platform.python_version(),
                "packages": found,
                "failure": why,
            },
            sort_keys=True,
        )

    return probe


def _judged(host: str, python: str, version: str, packages: dict[str, str], failure: str) -> Worker:
    problems = []
    if failure:
        problems.append(
            f"{failure}: install lanemq[spark] for {python} on {host}, or send an environment"
            " along (docs/spark.md, On a cluster), or let PYSPARK_PYTHON name a Python that has it"
        )
    here = _own_version()
    there = packages.get("lanemq")
    if not failure and here and there and here != there:
        problems.append(f"lanemq {there} on {host}, and {here} here: install the same version")
    return Worker(host, python, version, packages, tuple(problems))


def _own_version() -> str | None:
    try:
        return version("lanemq")
    except PackageNotFoundError:  # run from an archive of --py-files
        return None
