"""``lanemq store inspect``."""

from functools import partial
from heapq import nlargest
from itertools import groupby
from pathlib import Path

import click

from lanemq.local import print_line

from ..tools import BrokerSettings, Inspection, QueueSummary, Severity, inspect_store
from ._command import (
    count_text,
    finish,
    json_option,
    print_findings,
    size_text,
    store_command,
    time_text,
)

STAGES = {
    1: "1, queues in files",
    2: "2, queues in files and in RocksDB; the files are read",
    3: "3, queues and tables in RocksDB",
}
LISTED_QUEUES = 8
LISTED_TOPICS = 50
LABEL = 14


@click.command()
@store_command
@click.option("--queues", "all_queues", is_flag=True, help="List every topic and every queue.")
@json_option
def inspect(root: Path, settings: BrokerSettings, all_queues: bool, as_json: bool) -> None:
    """Say what a store holds, what is wrong with it, and what to do next.

    Quick, for it reads the tail of the log only: verify checks everything.

    Exit status: 0, or 1 where there are problems, or 2 where it could not be looked into.
    """
    found = inspect_store(root, settings=settings)
    is_sound = all(finding.severity is not Severity.PROBLEM for finding in found.findings)
    finish(found, partial(_show, all_queues=all_queues), as_json=as_json, is_sound=is_sound)


def _show(found: Inspection, *, all_queues: bool) -> None:
    _head(found)
    _topics(found.queues, all_queues=all_queues)
    _groups(found)
    print_line()
    if found.findings:
        print_findings(found.findings, found.root)
    else:
        print_line(
            f"nothing is wrong at first sight; `lanemq store verify {found.root}` checks all of it"
        )


def _line(label: str, text: str) -> None:
    print_line(f"{label:<{LABEL}}{text}")


def _head(found: Inspection) -> None:
    log = found.log
    print_line(f"store {found.root}")
    ended = "closed cleanly" if found.is_clean else "not closed: killed, or copied while it ran"
    process = f" (process {found.abort_text})" if found.abort_text else ""
    _line("last run", f"{ended}{process}; newest message {time_text(log.last_store_timestamp_ms)}")
    files = count_text(log.files, "file") + f" of {size_text(log.file_bytes)}"
    spare = f", {log.spare_files} of them still empty" if log.spare_files else ""
    _line(
        "log",
        f"positions {log.begin} to {log.end}, {size_text(log.end - log.begin)},"
        f" about {count_text(log.records_estimate, 'record')}, {files}{spare}",
    )
    sure = "" if found.stage.is_sure else ", as far as can be told"
    _line("stage", f"{STAGES[found.stage.stage]} ({found.stage.why}{sure})")
    marks = [
        f"{name} {'to the end' if mark >= log.end else f'to {mark}, {log.end - mark} bytes short'}"
        for name, mark in found.watermarks.items()
    ]
    _line("indexed", "; ".join(marks))
    index = found.index
    _line(
        "key index",
        f"{count_text(index.entries, 'entry')} in {count_text(index.files, 'file')}"
        + (f", newest {time_text(index.newest_timestamp_ms)}" if index.entries else ""),
    )
    _line(
        "tables",
        ", ".join(
            f"{table.name} {table.entries} ({table.source})"
            for table in found.tables
            if table.source != "none"
        )
        or "none",
    )
    used = sorted(found.disk_bytes.items(), key=lambda item: -item[1])
    total = size_text(sum(found.disk_bytes.values()))
    _line("disk", f"{total}: " + ", ".join(f"{part} {size_text(size)}" for part, size in used))


def _topics(queues: list[QueueSummary], *, all_queues: bool) -> None:
    if not queues:
        return
    topics = {topic: list(group) for topic, group in groupby(queues, lambda queue: queue.topic)}
    totals = {topic: sum(queue.messages for queue in topics[topic]) for topic in topics}
    listed = list(topics)
    if len(listed) > LISTED_TOPICS and not all_queues:
        listed = sorted(nlargest(LISTED_TOPICS, topics, key=totals.__getitem__))
    width = max(5, *map(len, listed)) + 2
    print_line()
    print_line(f"{'topic':<{width}}{'messages':>12}  queue: first offset to end")
    for topic in listed:
        members = topics[topic]
        shown = members if all_queues else members[:LISTED_QUEUES]
        parts = [f"{queue.queue_id}: {queue.min} to {queue.end}" for queue in shown]
        if len(members) > len(shown):
            parts.append(f"and {len(members) - len(shown)} more")
        print_line(f"{topic:<{width}}{totals[topic]:>12,}  {', '.join(parts)}")
    if len(listed) < len(topics):
        print_line(
            f"and {len(topics) - len(listed)} topics with fewer messages; --queues lists all"
        )


def _groups(found: Inspection) -> None:
    if not found.groups:
        return
    width = max(5, *(len(group.group) for group in found.groups)) + 2
    topics = max(5, *(len(group.topic) for group in found.groups)) + 2
    print_line()
    print_line(f"{'group':<{width}}{'topic':<{topics}}{'lag':>10}  queue: next offset")
    for group in found.groups:
        offsets = [f"{number}: {offset}" for number, offset in group.offsets.items()]
        if len(offsets) > LISTED_QUEUES:
            offsets[LISTED_QUEUES:] = [f"and {len(offsets) - LISTED_QUEUES} more"]
        print_line(
            f"{group.group:<{width}}{group.topic:<{topics}}{group.lag:>10,}  {', '.join(offsets)}"
        )
