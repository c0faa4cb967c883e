"""Spark: messages as tables, stores as data.

``register(spark)`` makes the sources known to a session::

    from lanemq.spark import register

    register(spark)
    spark.read.format("rocketmq-store").load("/data/store").groupBy("topic").count().show()

Needs ``lanemq[spark]`` and a JDK 17.
"""

from ._errors import OptionInvalid, SourceError, StoreDamaged
from ._progress import progress_metrics
from ._register import register
from ._scans import ScanColumns, scan_columns

__all__ = [
    "OptionInvalid",
    "ScanColumns",
    "SourceError",
    "StoreDamaged",
    "progress_metrics",
    "register",
    "scan_columns",
]
