"""``lanemq store convert``."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from ..bulk import Conversion, convert_to_files, convert_to_rocksdb
from ..tools import look_into
from ._command import count_text, json_option, print_json, progress_bars, store_command

NEXT = {
    "rocksdb": "`lanemq store diff-consume-queue {root}` compares the two; with"
    " storeType=defaultRocksDB a broker goes on with RocksDB alone",
    "files": "with storeType=default a broker goes on with the files; the tables that are in"
    " RocksDB are written as JSON by `lanemq store export-metadata {root} --in-place`",
}
NAMES = {"rocksdb": "RocksDB", "files": "the queue files"}


@click.command()
@store_command
@click.option(
    "--to",
    "target",
    type=click.Choice(["rocksdb", "files"]),
    required=True,
    help="The index to make complete.",
)
@click.option(
    "--from-log",
    is_flag=True,
    help="Make all of it anew from the log, whatever the other index says.",
)
@click.option(
    "--queue-file-bytes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Size of queue files, if there are none yet: mappedFileSizeConsumeQueue."
    "  [default: 6000000]",
)
@json_option
def convert(
    root: Path,
    commit_log: Path | None,
    target: str,
    from_log: bool,
    queue_file_bytes: int | None,
    as_json: bool,
) -> None:
    """Give a store at rest the queues it lacks: in RocksDB, or in files.

    Taken from the other index, or from the log where that is damaged. What is there and right
    stays. Nothing else is changed: neither the log nor the index it is taken from. A conversion
    that was killed is run again, and goes on where it was.

    Exit status: 0, or 2 where it could not be done.
    """
    look_into(root, commit_log=commit_log)  # before a lock file is made where there is no store
    run: Callable[..., Conversion] = convert_to_rocksdb
    if target == "files":
        run = partial(convert_to_files, queue_file_bytes=queue_file_bytes)
    with progress_bars(hidden=as_json) as progress:
        done = run(root, commit_log=commit_log, from_log=from_log, progress=progress)
    if as_json:
        print_json(done)
    else:
        _show(done, root)


def _show(done: Conversion, root: Path) -> None:
    name = NAMES[done.to]
    if done.units:
        speed = f", {done.units / done.seconds:,.0f} a second" if done.seconds > 1 else ""
        click.echo(
            f"{count_text(done.units, 'message')} of {count_text(done.queues, 'queue')} added to"
            f" {name} in {done.seconds:.1f} s{speed}: {done.units_copied:,} by the other index,"
            f" {done.units_from_log:,} by the log"
        )
    else:
        click.echo(f"{name} had everything already, up to the end of the log at {done.log_end}")
    if done.blank_units:
        slots = count_text(done.blank_units, "slot")
        click.echo(f"{slots} of messages that are gone keep the others in their places")
    if done.moved_aside is not None:
        click.echo(f"what could not be opened is in {done.moved_aside}")
    for note in done.notes:
        click.echo(f"note: {note}")
    click.echo(NEXT[done.to].format(root=root))
