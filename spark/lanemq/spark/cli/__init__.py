"""``lanemq spark``: jobs on a cluster of Spark, or on this machine."""

import click

from ._archives import export, lag, replay, report
from ._kv import kv
from ._stores import build, convert, diff, verify


@click.group()
def spark() -> None:
    """Jobs on stores, by Apache Spark."""


for _command in (build, convert, diff, export, kv, lag, replay, report, verify):
    spark.add_command(_command)
