"""The sources, made known to a session."""

import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

PYTHON: Final = "PYSPARK_PYTHON"


def _use_this_python(spark: "SparkSession") -> None:
    """Let workers run this Python, unless the user has named one."""
    if PYTHON in os.environ or spark.conf.get("spark.pyspark.python", None):
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
    cluster the workers' Python is the cluster's business: see docs/spark.md.
    """
    if (spark.conf.get("spark.master", "") or "").startswith("local"):
        _use_this_python(spark)
    for source in load_sources():
        spark.dataSource.register(source)
    spark.createDataFrame([], "id int")  # what there is in public to make it the active one
