"""``lanemq store repair``."""

from pathlib import Path

import click

from lanemq.local import print_line

from ..tools import BrokerSettings, RepairReport, repair_store
from ._command import (
    count_text,
    finish,
    jobs_option,
    json_option,
    print_findings,
    progress_bars,
    store_command,
)

SHOWN = 20


@click.command()
@store_command
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--all", "everything", is_flag=True, help="Make everything again, sound or not.")
@click.option(
    "--allow-loss",
    is_flag=True,
    help="Also replace what leads to messages that nothing will lead to afterwards.",
)
@click.option(
    "--queue-file-bytes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Size of queue files, if none is left to tell: mappedFileSizeConsumeQueue."
    "  [default: 6000000]",
)
@jobs_option("Processes that check at a time.")
@json_option
def repair(
    root: Path,
    settings: BrokerSettings,
    dry_run: bool,
    everything: bool,
    allow_loss: bool,
    queue_file_bytes: int | None,
    jobs: int,
    as_json: bool,
) -> None:
    """Rebuild what is derived from the log, where it is wrong.

    Queues in files, queues in RocksDB and the key index are built beside, from the log, and put
    in place; what they replace is kept in DIR/repair-TIME. The log is never changed, but for
    remains of a write behind its last record, which are cut off, and kept there too. A repair
    that was interrupted is simply run again. A queue is left alone where consumers can read
    messages now that they could not read afterwards: --allow-loss takes them away.

    Exit status: 0 the store is sound now (or nothing is to be done), 1 problems are left that
    need another copy of the log, or a decision, 2 the repair could not be done.
    """
    with progress_bars(hidden=as_json) as progress:
        report = repair_store(
            root,
            settings=settings,
            dry_run=dry_run,
            everything=everything,
            allow_loss=allow_loss,
            queue_file_bytes=queue_file_bytes,
            jobs=jobs,
            progress=progress,
        )
    sound = report.is_sound
    if report.is_dry:
        sound = report.before.is_sound or bool(report.actions)
    if report.losses and not allow_loss:
        sound = False
    finish(report, _show_report, as_json=as_json, is_sound=sound)


def _show_report(report: RepairReport) -> None:
    root = report.before.root
    if not report.actions:
        print_line("nothing to fix")
    for action in report.actions:
        print_line(f"{'would' if report.is_dry else 'done:'} {action.what}")
    _show_losses(report)
    if report.is_dry:
        print_findings(report.before.findings, root)
        return
    for level in report.default_levels:
        print_line(
            f"note: nothing tells the delay of level {level}, so the default was taken;"
            " -c FILE tells a broker's messageDelayLevel"
        )
    if report.default_index_sizes is not None:
        print_line(
            "note: nothing tells the sizes of index files, so the defaults were taken;"
            " -c FILE tells a broker's maxHashSlotNum and maxIndexNum"
        )
    if report.backup is not None:
        print_line(f"what was there before is in {report.backup}")
    print_findings((report.after or report.before).findings, root)
    print_line("the store is sound" if report.is_sound else "problems are left")


def _show_losses(report: RepairReport) -> None:
    if not report.losses:
        return
    total = sum(loss.count for loss in report.losses)
    messages = count_text(total, "message")
    if report.allow_loss and not report.is_dry:
        print_line(f"taken away: {messages} that could be read before")
    elif report.is_dry:
        print_line(f"would take away {messages} that can be read now, if told to by --allow-loss")
    else:
        print_line(f"left alone, for it would take away {messages} that can be read now:")
    for loss in report.losses[:SHOWN]:
        print_line(f"    {loss}")
    if len(report.losses) > SHOWN:
        print_line(f"    and in {len(report.losses) - SHOWN} more queues; --json lists them")
    if not report.allow_loss:
        print_line(
            "    -> save them with `lanemq store dump` first, then `lanemq store repair"
            f" {report.before.root} --allow-loss`"
        )
