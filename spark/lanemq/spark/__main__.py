"""The jobs for ``spark-submit``, which wants a file: this one."""

from lanemq.spark.cli import spark

spark(prog_name="lanemq spark")
