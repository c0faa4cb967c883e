"""Directories that Spark writes for a job."""

from typing import TYPE_CHECKING

from .._errors import SourceError
from .._uris import shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def require_new(spark: "SparkSession", output: str | None) -> None:
    """Raise ``SourceError`` if a directory that Spark is to write is there already.

    Spark refuses it when it writes, which is behind hours of counting and comparing. Whatever its
    Hadoop cannot look at is left to the write.
    """
    from py4j.protocol import Py4JJavaError

    if output is None:
        return
    context = spark.sparkContext
    try:
        path = context._jvm.org.apache.hadoop.fs.Path(output)  # type: ignore[union-attr] # None in workers alone
        is_there = path.getFileSystem(context._jsc.hadoopConfiguration()).exists(path)
    except Py4JJavaError:
        return
    if is_there:
        raise SourceError(f"{shown(output)} already exists: name a directory that does not")
