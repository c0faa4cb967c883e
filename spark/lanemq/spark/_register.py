"""The sources, made known to a session."""

import os
import sys
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from lanemq.local import get_logger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

LOGGER: Final = get_logger("lanemq.spark")
PYTHON: Final = "PYSPARK_PYTHON"
REGISTERED: "Final[WeakSet[SparkSession]]" = WeakSet()
"""The sessions that know the sources."""


def _choose_python(spark: "SparkSession") -> None:
    """Let workers on this machine run this Python, and say what to set for others, unless the user
    has named one."""
    if PYTHON in os.environ or spark.conf.get("spark.pyspark.python", None):
        return
    master = spark.conf.get("spark.master", None) or ""
    if not master.startswith("local"):
        if master:  # else it is a session of Spark Connect
            LOGGER.warning(
                "%s is not set, so the executors of %s run the python3 of their PATH. If that has"
                " no lanemq[spark], set it, before the session is made, to a Python there that has;"
                " lanemq.spark.jobs.doctor(spark) lists what they run",
                PYTHON,
                master,
            )
        return
    context = getattr(spark, "sparkContext", None)  # a session of Spark Connect has none
    if context is not None:
        os.environ[PYTHON] = context.pythonExec = sys.executable


def load_sources() -> "tuple[type[DataSource], ...]":
    """Import the sources, which takes a second; return them.

    Not imported above: the command line imports this package to show its help.
    """
    from .archives import ArchiveSink
    from .store import StoreSource
    from .topics import TopicSource

    return StoreSource, TopicSource, ArchiveSink


def register(spark: "SparkSession") -> None:
    """Make the sources known to a session.

    Spark looks for the source of ``df.write`` in the session that is active in the calling thread,
    not in that of the frame: the session becomes active in the thread that calls this, which any
    further thread that writes has to do too.

    Spark starts the ``python3`` of PATH as its worker unless ``PYSPARK_PYTHON`` names another. With
    a master on this machine it is set to the Python that runs this, which has the packages. On a
    cluster the workers' Python is the cluster's business: a warning says what to set.
    """
    if spark not in REGISTERED:  # Spark warns of every source that takes the place of itself
        _choose_python(spark)
        for source in load_sources():
            spark.dataSource.register(source)
        REGISTERED.add(spark)
    spark.createDataFrame([], "id int")  # what there is in public to make it the active one
