"""``lanemq kv``: keys and values on the command line."""

import click

from ._bench import bench
from ._files import export_command, import_command
from ._keys import cas, create, delete, get, put
from ._leases import lease
from ._long import elect, lock, observe, watch
from ._ranges import compact, range_command, txn
from ._whole import hash_command, namespaces, scan, status

__all__ = ["kv"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def kv() -> None:
    """Keep keys and values at a broker of lanemq.

    Keys and values are bytes: as they are typed, or with --hex or --base64. Exit status: 0 done,
    1 there is no such key or lease, a condition did not hold, or a lock was not free; 2 it could
    not be done, and one line says why.
    """


for _command in (
    create,
    get,
    put,
    delete,
    cas,
    txn,
    scan,
    range_command,
    compact,
    watch,
    lock,
    elect,
    observe,
    lease,
    export_command,
    import_command,
    hash_command,
    status,
    namespaces,
    bench,
):
    kv.add_command(_command)
