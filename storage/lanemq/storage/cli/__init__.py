"""``lanemq store``: tools on a store directory."""

import click

from ._calls import in_commands
from ._convert import convert
from ._diff import diff_consume_queue
from ._dump import dump
from ._export import export_metadata
from ._inspect import inspect
from ._repair import repair
from ._verify import verify
from ._verify_kv import verify_kv_command

__all__ = ["in_commands", "store"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def store() -> None:
    """Look into, check and fix a store directory, of lanemq or of Apache RocketMQ.

    No broker may have it open. All but repair, convert and export-metadata --in-place leave it as
    it is.
    """


for _command in (
    inspect,
    dump,
    verify,
    verify_kv_command,
    repair,
    export_metadata,
    diff_consume_queue,
    convert,
):
    store.add_command(_command)
