"""``lanemq store convert``."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from lanemq.local import print_line

from ..bulk import Conversion, convert_to_files, convert_to_rocksdb
from ..tools import BrokerSettings, look_into
from ._calls import in_commands
from ._command import (
    count_text,
    finish,
    jobs_option,
    json_option,
    progress_bars,
    store_command,
)

NEXT = {
    "rocksdb": "`lanemq store diff-consume-queue {root}` compares the two; with"
    " storeType=defaultRocksDB a broker goes on with RocksDB alone",
    "files": "with storeType=default a broker goes on with the files",
}
TABLES = (
    "; the tables that are in RocksDB are written as JSON by `lanemq store export-metadata {root}"
    " --in-place`"
)
DAMAGED_MAX = 20
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
    help="Make all of it again from the log, whatever the other index says.",
)
@click.option(
    "--queue-file-bytes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Size of queue files, if there are none yet: mappedFileSizeConsumeQueue."
    "  [default: 6000000]",
)
@jobs_option("Processes at a time that make rows of a million units in queue files, or more.")
@json_option
def convert(
    root: Path,
    settings: BrokerSettings,
    target: str,
    from_log: bool,
    queue_file_bytes: int | None,
    jobs: int,
    as_json: bool,
) -> None:
    """Give a store at rest the queues it lacks: in RocksDB, or in files.

    Taken from the other index, or from the log where that is damaged. What is there and right
    stays; neither the log nor the index it is taken from is changed. The result is built beside
    the store, compared with the log and with what can be read now, and then put in place. What it
    replaces stays in DIR/converted-TIME until lanemq has started on the store after a clean stop.
    A conversion that was killed is simply run again.

    Exit status: 0, or 1 where messages of the log got no place, or 2 where it could not be done.
    """
    store = look_into(root, settings=settings)  # before a lock file is made where there is no store
    run: Callable[..., Conversion] = partial(convert_to_rocksdb, jobs=jobs)
    if target == "files":
        run = partial(convert_to_files, queue_file_bytes=queue_file_bytes)
    with progress_bars(hidden=as_json) as progress:
        done = run(root, settings=settings, from_log=from_log, progress=progress)
    tables = TABLES if target == "files" and store.has_rocksdb_tables else ""
    way_on = (NEXT[target] + tables).format(root=root)
    is_sound = not (done.unplaced or done.damaged)
    finish(done, partial(_show, root=root, way_on=way_on), as_json=as_json, is_sound=is_sound)


def _show(done: Conversion, *, root: Path, way_on: str) -> None:
    name = NAMES[done.to]
    if done.units:
        speed = f", {done.units / done.seconds:,.0f} a second" if done.seconds > 1 else ""
        print_line(
            f"{count_text(done.units, 'message')} of {count_text(done.queues, 'queue')} added to"
            f" {name} in {done.seconds:.1f} s{speed}: {done.units_copied:,} by the other index,"
            f" {done.units_from_log:,} by the log"
        )
    else:
        print_line(f"{name} had everything already, up to the end of the log at {done.log_end}")
    if done.blank_units:
        slots = count_text(done.blank_units, "slot")
        print_line(f"{slots} of messages that are gone keep the others in their places")
    if done.kept is not None:
        print_line(f"what was replaced is in {done.kept}, until lanemq has started on the result")
    for note in done.notes:
        print_line(f"note: {in_commands(note, root)}")
    if done.unplaced:
        total = sum(loss.count for loss in done.unplaced)
        print_line(f"problem: {count_text(total, 'message')} of the log could not be given a place")
        for loss in done.unplaced[:3]:
            print_line(f"    {loss}")
        print_line(f"    -> `lanemq store verify {root}` tells more")
    for damaged in done.damaged[:DAMAGED_MAX]:
        print_line(f"problem: {damaged}")
    if done.damaged:
        messages = count_text(len(done.damaged), "message")
        print_line(
            f"    -> {messages} got no place, or cannot be served there; all others are converted."
            f" `lanemq store dump {root} --from-log` prints them, to be sent again; another copy of"
            " the log file brings them back"
        )
    print_line(way_on)
