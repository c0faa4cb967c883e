"""The executors of a cluster, before and while a job runs there."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from lanemq.local import print_line

from .._errors import SourceError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

WAIT_S: Final = 15.0
"""Seconds without an executor after which a job that waits for one says so: a standalone cluster
starts one in three or four, YARN in ten."""
LOOK_S: Final = 1.0


@final
@dataclass
class Shortage:
    """The time for which jobs have had no executor; it knows no clock."""

    since_s: float | None = None
    is_reported: bool = False

    def look(self, now_s: float, *, executors: int, jobs: int) -> float | None:
        """Take what is there now; return the seconds without an executor once in each shortage
        that lasts ``WAIT_S``."""
        if executors or not jobs:
            self.since_s, self.is_reported = None, False
            return None
        if self.since_s is None:
            self.since_s = now_s
        waited_s = now_s - self.since_s
        if self.is_reported or waited_s < WAIT_S:
            return None
        self.is_reported = True
        return waited_s


@contextmanager
def watched_executors(spark: "SparkSession", *, check: bool) -> Iterator[None]:
    """Say on stderr when a job gets no executor in the block, since Spark waits without a word.

    ``check``: raise ``SourceError`` first if an executor cannot run jobs; a task that cannot start
    is tried for minutes, and its cause gets lost on the way. On this machine there is no doubt.
    """
    context = spark.sparkContext
    if (context.master or "").startswith("local"):
        yield
        return
    over = threading.Event()
    watch = threading.Thread(target=_watch, args=(context, over), daemon=True)
    watch.start()
    try:
        if check:
            _check(spark)
        yield
    finally:
        over.set()
        watch.join()


def _check(spark: "SparkSession") -> None:
    from ..jobs import doctor

    for worker in doctor(spark):
        if worker.problems:
            raise SourceError(worker.problems[0])


def _watch(context: "SparkContext", over: threading.Event) -> None:
    from py4j.protocol import Py4JError

    shortage = Shortage()
    while not over.wait(LOOK_S):
        try:
            jobs = len(context.statusTracker().getActiveJobsIds())
            # The driver has a block manager, too. PySpark has no function for them.
            executors = context._jsc.sc().getExecutorMemoryStatus().size() - 1
            waited_s = shortage.look(time.monotonic(), executors=executors, jobs=jobs)
            if waited_s is not None:
                memory = context.getConf().get("spark.executor.memory", "1g")
                text = without_executors(context.master, waited_s, memory or "1g")
                print_line(text, err=True, whole=True)
                sys.stderr.flush()
        except (Py4JError, OSError):  # Spark has gone, which the job itself reports
            return


def without_executors(master: str | None, waited_s: float, memory: str) -> str:
    """Return the warning that a job has no executor."""
    return (
        f"the job waits: {master} has given it no executor for {waited_s:.0f} s. Either no worker"
        " runs, or other applications, as a notebook, have all cores (spark.cores.max limits"
        f" them), or no worker has {memory} of memory for an executor (spark.executor.memory)."
        " The page of Spark's master shows which; the job begins when one is free"
    )
