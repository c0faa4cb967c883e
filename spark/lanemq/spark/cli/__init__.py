"""``lanemq spark``: jobs on a cluster of Spark, or on this machine."""

import click

from ._archives import export, lag, replay, report
from ._audit import audit
from ._doctor import doctor
from ._kv import kv
from ._messages import archive, compare, count, find, restore
from ._stores import build, convert, diff, verify


@click.group()
def spark() -> None:
    """Jobs on stores, by Apache Spark."""


for _command in (
    *(archive, audit, build, compare, convert, count, diff, doctor, export, find, kv, lag, replay),
    *(report, restore, verify),
):
    spark.add_command(_command)
