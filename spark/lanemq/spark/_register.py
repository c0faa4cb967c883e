"""The sources, made known to a session."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"


def register(spark: "SparkSession") -> None:
    """Make the sources known to a session, and let it push filters down to them.

    Spark looks for the source of ``df.write`` in the session that is active in the calling thread,
    not in that of the frame: the session becomes active in the thread that calls this, which any
    further thread that writes has to do too.
    """
    # Loaded here: the command line imports this package to show its help.
    from .store import StoreSource
    from .topics import TopicSource

    spark.conf.set(PUSHDOWN, "true")
    for source in (StoreSource, TopicSource):
        spark.dataSource.register(source)
    spark.createDataFrame([], "id int")  # what there is in public to make it the active one
