"""``lanemq store verify``."""

from pathlib import Path

import click

from lanemq.local import print_line

from ..tools import BrokerSettings, VerifyReport, verify_store
from ._command import (
    count_text,
    finish,
    jobs_option,
    json_option,
    print_findings,
    progress_bars,
    size_text,
    store_command,
)


@click.command()
@store_command
@jobs_option("Processes at a time, for a log of 512 MiB or more.")
@json_option
def verify(root: Path, settings: BrokerSettings, jobs: int, as_json: bool) -> None:
    """Check a whole store: the log, and what is derived from it.

    Every record's form and checksum and its place; every unit of the queues, in files and in
    RocksDB, against the record that it belongs to, both ways; the key index likewise.

    Exit status: 0 the store is sound, 1 there are problems, 2 it could not be checked.
    """
    with progress_bars(hidden=as_json) as progress:
        report = verify_store(root, settings=settings, jobs=jobs, progress=progress)
    finish(report, show_report, as_json=as_json, is_sound=report.is_sound)


def show_report(report: VerifyReport) -> None:
    """Print the report for people."""
    log_bytes = report.log_end - report.log_begin
    speed = ""
    if report.seconds > 1:
        rate = log_bytes / report.seconds / 1e6
        units = report.records / report.seconds
        speed = f", {rate:.0f} MB/s, {units:,.0f} records/s"
    print_line(
        f"checked {size_text(log_bytes)} of log, positions {report.log_begin} to {report.log_end},"
        f" in {report.seconds:.1f} s{speed}"
    )
    agreeing = [count_text(report.file_units, "unit") + " in queue files"]
    if report.rocksdb_rows:
        agreeing.append(count_text(report.rocksdb_rows, "row") + " in RocksDB")
    agreeing.append(count_text(report.index_entries, "entry") + " of the key index")
    print_line(
        f"{count_text(report.records, 'record')}, {count_text(report.queues, 'queue')};"
        f" agreeing with them: {', '.join(agreeing)}"
    )
    print_findings(report.findings, report.root)
    problems = len(report.problems)
    print_line("the store is sound" if not problems else count_text(problems, "problem"))
