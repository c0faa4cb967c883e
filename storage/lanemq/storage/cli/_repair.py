"""``lanemq store repair``."""

import sys
from pathlib import Path

import click

from ..tools import repair_store
from ._command import (
    EXIT_PROBLEM,
    PROCESSORS,
    json_option,
    print_findings,
    print_json,
    progress_bars,
    store_command,
)


@click.command()
@store_command
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--all", "everything", is_flag=True, help="Make everything anew, sound or not.")
@click.option(
    "--queue-file-bytes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Size of queue files, if none is left to tell: mappedFileSizeConsumeQueue."
    "  [default: 6000000]",
)
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    default=PROCESSORS,
    help="Processes that check at a time.  [default: one per processor]",
)
@json_option
def repair(
    root: Path,
    commit_log: Path | None,
    dry_run: bool,
    everything: bool,
    queue_file_bytes: int | None,
    jobs: int,
    as_json: bool,
) -> None:
    """Make anew what is derived from the log, where it is wrong.

    Queues in files, queues in RocksDB and the key index are built beside, from the log, and put
    in place; what they replace is kept in DIR/repair-TIME. The log is never changed, but for
    remains of a write behind its last record, which are cut off, and kept there too. A repair
    that was interrupted is simply run again.

    Exit status: 0 the store is sound now (or nothing is to be done), 1 problems are left that
    need another copy of the log, 2 the repair could not be done.
    """
    with progress_bars(hidden=as_json) as progress:
        report = repair_store(
            root,
            commit_log=commit_log,
            dry_run=dry_run,
            everything=everything,
            queue_file_bytes=queue_file_bytes,
            jobs=jobs,
            progress=progress,
        )
    sound = report.is_sound
    if as_json:
        print_json(report)
    else:
        if not report.actions:
            click.echo("nothing to mend")
        for action in report.actions:
            click.echo(f"{'would' if report.is_dry else 'done:'} {action.what}")
        if report.is_dry:
            print_findings(report.before.findings, root)
        else:
            if report.backup is not None:
                click.echo(f"what was there before is in {report.backup}")
            found = (report.after or report.before).findings
            print_findings(found, root)
            click.echo("the store is sound" if sound else "problems are left")
    if report.is_dry:
        sound = report.before.is_sound or bool(report.actions)
    sys.exit(0 if sound else EXIT_PROBLEM)
