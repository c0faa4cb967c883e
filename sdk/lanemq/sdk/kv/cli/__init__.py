"""``lanemq kv``: keys and values on the command line."""

import click

from ._files import export_command, import_command
from ._keys import cas, create, delete, get, put
from ._long import lock, watch
from ._whole import hash_command, scan, status

__all__ = ["kv"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def kv() -> None:
    """Keep keys and values at a broker of lanemq.

    Keys and values are bytes: as they are typed, or with --hex or --base64. Exit status: 0 done,
    1 there is no such key, a condition did not hold, or a lock was not free; 2 it could not be
    done, and one line says why.
    """


for _command in (
    create,
    get,
    put,
    delete,
    cas,
    scan,
    watch,
    lock,
    export_command,
    import_command,
    hash_command,
    status,
):
    kv.add_command(_command)
