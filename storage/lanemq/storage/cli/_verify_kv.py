"""``lanemq store verify-kv``."""

from pathlib import Path

import click

from lanemq.local import print_line

from ..tools import BrokerSettings, KvReport, verify_kv
from ._command import (
    count_text,
    finish,
    json_option,
    print_findings,
    progress_bars,
    store_command,
)


@click.command("verify-kv")
@store_command
@json_option
def verify_kv_command(root: Path, settings: BrokerSettings, as_json: bool) -> None:
    """Check keys and values: replay their log, and compare the hash of the state.

    Where the log no longer goes back to the first record, the rows of the state are
    checked against its own sums alone.

    Exit status: 0 the states are sound, 1 there are problems, 2 they could not be checked.
    """
    with progress_bars(hidden=as_json) as progress:
        report = verify_kv(root, settings=settings, progress=progress)
    finish(report, show_kv_report, as_json=as_json, is_sound=report.is_sound)


def show_kv_report(report: KvReport) -> None:
    """Print the report for people."""
    for one in report.namespaces:
        how = "equal to a replay of the log" if one.replayed_hash == one.hash else "not replayed"
        if one.replayed_hash not in (None, one.hash):
            how = "not what the log makes"
        print_line(
            f"namespace {one.namespace}: {count_text(one.entries, 'entry')} from "
            f"{count_text(one.records, 'record')}, hash {one.hash}, {how}"
        )
    if not report.namespaces:
        print_line("there are no keys and values")
    print_findings(report.findings, report.root)
