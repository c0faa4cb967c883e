"""The judgement on the tables under ``config``."""

from collections.abc import Iterator, Set
from typing import Final

from lanemq.wire import SystemTopic

from ..._config import Stage
from ..reading._directory import StoreDirectory
from ..reading._metadata import (
    TABLES,
    TableContents,
    has_table_database,
    read_json_table,
    read_rocks_table,
)
from ._findings import Finding, Part, Severity

DELAYED: Final = frozenset({SystemTopic.SCHEDULE})
WITHOUT: Final = {
    "topics": "a broker starts without the topics that were in it",
    "groups": "a broker starts without the settings of groups that were in it",
    "consumerOffsets": "no group has committed an offset yet, or they are lost, and groups begin as"
    " new ones",
    "delayOffsets": "no delayed message was delivered yet, or those that were and are still there"
    " are delivered once more",
}
"""The consequence of a table's total absence, by the table's name."""


def judge_tables(
    store: StoreDirectory,
    stage: Stage,
    tables: dict[str, TableContents],
    *,
    topics: Set[str],
) -> Iterator[Finding]:
    """Report tables that no broker can read, that it would leave out, or that are missing.

    ``topics`` are those with queues: a store without any has just begun, and may lack all tables.
    """
    for table in tables.values():
        about = topics & DELAYED if table.kind.rocks is None else topics
        if table.source == "none" and about:
            yield Finding(
                kind=f"{table.kind.name}-missing",
                severity=Severity.NOTE,
                part=Part.TABLES,
                what=f"there is no config/{table.kind.file}: {WITHOUT[table.kind.name]}",
            )
    for table in tables.values():
        if table.problem:
            yield Finding(
                kind="table-unreadable",
                severity=Severity.PROBLEM,
                part=Part.TABLES,
                what=table.problem,
                way_on="put a backup of it in its place; no broker starts, or it starts without"
                " what was in it",
            )
    if (store.config / "rdb/CURRENT").exists():
        yield Finding(
            kind="config-v2",
            severity=Severity.PROBLEM,
            part=Part.TABLES,
            what="config/rdb holds tables of Apache's configManagerVersion=v2, which nothing here"
            " reads",
            way_on="go on with that broker, or export them with Apache's tools; lanemq's start is"
            " refused, unless configManagerVersion=v1 tells it to go on with the other tables",
        )
    for kind in TABLES:
        if stage.has_files or not has_table_database(store.config, kind):
            continue
        kept, json = read_rocks_table(store.config, kind), read_json_table(store.config, kind)
        lacking = len(json.entries.keys() - kept.entries.keys())
        if kept.version is None and not kept.problem and lacking:
            yield Finding(
                kind="never-merged",
                severity=Severity.NOTE,
                part=Part.TABLES,
                what=f"config/{kind.file} was never taken over into RocksDB: it has {lacking}"
                f" entries that config/{kept.path.name} has not",
                way_on="lanemq takes them over at its next start with storeType=defaultRocksDB;"
                " Apache 5.3.3 does not, and groups begin at their initial position",
                count=lacking,
            )
