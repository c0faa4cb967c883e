"""Work in pieces that are not rows, each done by a task of its own.

Rows that are not columns either go as Spark's ``Row``: its functions over Arrow batches need
pandas, which nothing else here does.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Result = TypeVar("Result")


def in_tasks(spark: "SparkSession", work: Sequence[Callable[[], Result]]) -> list[Result]:
    """Do each piece of work in a task, and return the results in the order of the work.

    Work and results go between processes. Whatever a task raises, Spark tries it again.
    """
    if not work:
        return []
    return spark.sparkContext.parallelize(work, len(work)).map(_done).collect()


def _done(work: Callable[[], Result]) -> Result:
    return work()
