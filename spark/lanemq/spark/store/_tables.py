"""The tables ``topics``, ``groups`` and ``offsets``, from JSON or RocksDB."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from lanemq.storage.tools import ExportedTable, export_tables

from .._filters import filtered
from ._local import CONFIG, CONSUME_QUEUE, commit_log, local_store
from ._table import Query, Table

Rows = Iterator[dict[str, Any]]


@final
@dataclass(frozen=True)
class TablesPart(InputPartition):
    """The tables of one store, which are small."""

    root: str


@final
class _ConfigTable:
    """A table of the store's configuration, whose rows ``rows_of`` makes of its JSON members."""

    on_demand: Final[dict[str, str]] = {}

    def __init__(
        self, name: str, columns: dict[str, str], rows_of: Callable[[dict[str, Any]], Rows]
    ) -> None:
        self._name = name
        self.columns = columns
        self._rows_of = rows_of

    def parts(self, query: Query) -> list[InputPartition]:
        return [TablesPart(root) for root in query.roots]

    def batches(self, query: Query, part: TablesPart) -> Iterator[Any]:
        """Give the rows as one batch. Raises ``SourceError``, also where a broker has the store
        open."""
        chosen = query.options.choice("from")
        from_rocksdb = None if chosen == "auto" else chosen == "rocksdb"
        with local_store(part.root, CONFIG, CONSUME_QUEUE) as directory:
            _, tables = export_tables(
                directory,
                commit_log=commit_log(query, part.root),
                from_rocksdb=from_rocksdb,
                needs_log=False,
            )
        for table in tables:
            if table.name == self._name:
                yield self._batch(query, table)

    def _batch(self, query: Query, table: ExportedTable) -> Any:  # noqa: ANN401 - pyarrow has no types
        rows = [{**row, "source": table.source} for row in self._rows_of(table.members)]
        columns = {name: [row.get(name) for row in rows] for name in self.columns}
        types = {"boolean": pa.bool_(), "int": pa.int32(), "bigint": pa.int64()}
        text = pa.map_(pa.string(), pa.string())
        arrays = {
            name: pa.array(values, types.get(kind, text if "map" in kind else pa.string()))
            for (name, kind), values in zip(self.columns.items(), columns.values(), strict=True)
        }
        return filtered(query.filters, arrays, query.schema)


def _topics(members: dict[str, Any]) -> Rows:
    for name, topic in members["topicConfigTable"].items():
        yield {
            "topic": name,
            "readQueueNums": topic.get("readQueueNums"),
            "writeQueueNums": topic.get("writeQueueNums"),
            "perm": topic.get("perm"),
            "topicSysFlag": topic.get("topicSysFlag"),
            "order": topic.get("order"),
            "attributes": _texts(topic.get("attributes")),
        }


def _groups(members: dict[str, Any]) -> Rows:
    for name, group in members["subscriptionGroupTable"].items():
        yield {
            "group": name,
            "consumeEnable": group.get("consumeEnable"),
            "consumeBroadcastEnable": group.get("consumeBroadcastEnable"),
            "consumeMessageOrderly": group.get("consumeMessageOrderly"),
            "retryQueueNums": group.get("retryQueueNums"),
            "retryMaxTimes": group.get("retryMaxTimes"),
            "brokerId": group.get("brokerId"),
            "attributes": _texts(group.get("attributes")),
        }


def _offsets(members: dict[str, Any]) -> Rows:
    for name, queues in members["offsetTable"].items():
        topic, at, group = name.partition("@")
        if at and "@" not in group and isinstance(queues, dict):
            for queue, offset in queues.items():
                yield {"group": group, "topic": topic, "queue": int(queue), "offset": int(offset)}


def _texts(attributes: Any) -> list[tuple[str, str]]:  # noqa: ANN401 - structs of each table
    return [(str(name), str(value)) for name, value in (attributes or {}).items()]


TOPICS: Final[Table] = _ConfigTable(
    "topics",
    {
        "topic": "string",
        "readQueueNums": "int",
        "writeQueueNums": "int",
        "perm": "int",
        "topicSysFlag": "int",
        "order": "boolean",
        "attributes": "map<string,string>",
        "source": "string",
    },
    _topics,
)
GROUPS: Final[Table] = _ConfigTable(
    "groups",
    {
        "group": "string",
        "consumeEnable": "boolean",
        "consumeBroadcastEnable": "boolean",
        "consumeMessageOrderly": "boolean",
        "retryQueueNums": "int",
        "retryMaxTimes": "int",
        "brokerId": "bigint",
        "attributes": "map<string,string>",
        "source": "string",
    },
    _groups,
)
OFFSETS: Final[Table] = _ConfigTable(
    "consumerOffsets",
    {
        "group": "string",
        "topic": "string",
        "queue": "int",
        "offset": "bigint",
        "source": "string",
    },
    _offsets,
)
