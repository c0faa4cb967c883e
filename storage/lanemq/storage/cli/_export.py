"""``lanemq store export-metadata``."""

from pathlib import Path

import click
import msgspec

from lanemq.local import print_json, print_line
from lanemq.wire import fastjson

from ..tools import BrokerSettings, export_in_place, export_tables, write_tables
from ._command import Failed, count_text, store_command


@click.command("export-metadata")
@store_command
@click.option(
    "--format",
    "form",
    type=click.Choice(["json"]),
    default="json",
    show_default=True,
    help="Form of the tables.",
)
@click.option(
    "--from",
    "side",
    type=click.Choice(["json", "rocksdb"]),
    help="Side to read.  [default: the one that counts in the stage the store is in]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write the files that a broker reads, instead of printing one value.",
)
@click.option(
    "--in-place",
    is_flag=True,
    help="Write the store's own JSON files from RocksDB, for a step back; the old ones become"
    " .bak. Files that were changed since the last export are left alone, unless --from rocksdb"
    " is given, too.",
)
def export_metadata(
    root: Path,
    settings: BrokerSettings,
    form: str,
    side: str | None,
    output: Path | None,
    in_place: bool,
) -> None:
    """Write topics, groups, consumer offsets and delay offsets as JSON.

    With --output they are files as a broker without RocksDB reads them: topics.json,
    subscriptionGroup.json, consumerOffset.json, delayOffset.json. Without, one strict JSON value
    with these names is printed.

    Exit status: 0, or 2 where it could not be done.
    """
    if in_place:
        if output is not None or side == "json":
            raise Failed(
                "--in-place writes the JSON files from RocksDB: leave --output and --from json out"
            )
        _, written = export_in_place(
            root, commit_log=settings.commit_log, overwrite=side == "rocksdb"
        )
        for table, path in written:
            print_line(f"{path}: {count_text(table.entries, 'entry')}, from {table.source}")
        return
    from_rocksdb = None if side is None else side == "rocksdb"
    stage, tables = export_tables(root, commit_log=settings.commit_log, from_rocksdb=from_rocksdb)
    if output is None:
        value = {table.file: table.members for table in tables}
        data = fastjson.dumps(value, standard=True)
        print_json(msgspec.json.format(data, indent=2))
        return
    for table, path in zip(tables, write_tables(tables, output), strict=True):
        print_line(f"{path}: {count_text(table.entries, 'entry')}, from {table.source}")
    print_line(f"the store is in stage {stage.stage.value}: {stage.why}")
