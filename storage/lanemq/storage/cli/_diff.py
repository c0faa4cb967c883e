"""``lanemq store diff-consume-queue``."""

import sys
from pathlib import Path

import click

from lanemq.local import print_line

from ..queues.rocks._diff_report import PlacedUnit, QueueDiff
from ..tools import BrokerSettings, StoreDiff, diff_store
from ._command import (
    EXIT_PROBLEM,
    count_text,
    json_option,
    print_json,
    progress_bars,
    store_command,
)
from ._moment import MOMENT

SHOWN = 20


@click.command("diff-consume-queue")
@store_command
@click.option("-t", "--topic", help="Only this topic, every queue of it.")
@click.option(
    "--check-from",
    "check_from_ms",
    type=MOMENT,
    default=0,
    help="Differences in messages stored before this time do not count.",
)
@json_option
def diff_consume_queue(
    root: Path,
    settings: BrokerSettings,
    topic: str | None,
    check_from_ms: int,
    as_json: bool,
) -> None:
    """Compare the queues in RocksDB with those in files, before the store goes on with RocksDB
    alone.

    With --topic every queue is shown, else those that differ.

    Exit status: 0 a switch to storeType=defaultRocksDB loses nothing, 1 it would, 2 the two
    could not be compared.
    """
    with progress_bars(hidden=as_json) as progress:
        found = diff_store(
            root,
            topic=topic,
            check_from_ms=check_from_ms,
            commit_log=settings.commit_log,
            progress=progress,
        )
    safe = found.report.is_safe_to_switch
    if as_json:
        print_json(_value(found))
    else:
        _show(found, every=topic is not None)
    sys.exit(0 if safe else EXIT_PROBLEM)


def _show(found: StoreDiff, *, every: bool) -> None:
    report = found.report
    differing = [queue for queue in report.queues if not queue.is_safe_to_switch]
    shown = report.queues if every else differing[:SHOWN]
    if shown:
        width = max(5, *(len(queue.topic) for queue in shown)) + 2
        print_line(
            f"{'topic':<{width}}{'queue':>6}{'files':>22}{'rocksdb':>22}{'group at':>10}  compared"
        )
    for queue in shown:
        committed = "" if queue.committed is None else f"{queue.committed}"
        print_line(
            f"{queue.topic:<{width}}{queue.queue_id:>6}"
            f"{_range(queue.files_min, queue.files_end):>22}"
            f"{_range(queue.rows_min, queue.rows_end):>22}{committed:>10}  {verdict(queue)}"
        )
    if len(differing) > len(shown):
        print_line(f"and {len(differing) - len(shown)} more; --json lists them")
    print_line(
        f"{count_text(len(report.queues), 'queue')} compared,"
        f" {len(differing)} of them not safe to switch"
    )
    ahead = sum(queue.rows_end > queue.files_end for queue in report.queues)
    if ahead:
        print_line(
            f"in {count_text(ahead, 'queue')} RocksDB has newer messages than the files, which is"
            " how it is in stage 3"
        )
    if not differing:
        print_line("RocksDB has all that the files have: storeType=defaultRocksDB loses nothing")
        return
    print_line(
        "RocksDB lacks messages that the files have. Go on with rocksdbCQDoubleWriteEnable=true,"
        f" for lanemq fills in what is missing; or `lanemq store convert {found.root} --to"
        " rocksdb`"
    )


def _range(begin: int, end: int) -> str:
    return f"{begin} to {end}" if begin < end else "none"


def verdict(queue: QueueDiff) -> str:
    """Return the result for one queue in a few words."""
    difference = queue.difference or queue.older_difference
    if difference is not None:
        if difference.rows is None:
            return f"missing from offset {difference.queue_offset} on"
        return f"differs at offset {difference.queue_offset}: {_unit(difference.rows)}"
    if queue.kv_starts_at is not None:
        late = f"begins at {queue.kv_starts_at}"
        return f"{late}, which is soon enough" if queue.is_safe_to_switch else f"{late}, too late"
    return "the same"


def _unit(unit: PlacedUnit) -> str:
    return f"position {unit.log_position}, {unit.size_bytes} bytes"


def _value(found: StoreDiff) -> dict[str, object]:
    return {
        "root": found.root,
        "stage": found.stage,
        "files_end": found.files_end,
        "watermark": found.watermark,
        "is_ready": found.report.is_ready,
        "is_safe_to_switch": found.report.is_safe_to_switch,
        "queues": [
            {
                "topic": queue.topic,
                "queue_id": queue.queue_id,
                "files": [queue.files_min, queue.files_end],
                "rocksdb": [queue.rows_min, queue.rows_end],
                "committed": queue.committed,
                "checked_from": queue.checked_from,
                "first_missing": queue.first_missing,
                "kv_starts_at": queue.kv_starts_at,
                "is_ready": queue.is_ready,
                "is_safe_to_switch": queue.is_safe_to_switch,
                "verdict": verdict(queue),
            }
            for queue in found.report.queues
        ],
    }
