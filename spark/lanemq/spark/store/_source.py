"""The source ``rocketmq-store``."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, final

from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, In, InputPartition
from pyspark.sql.types import StructType

from .._options import PUSH_FILTERS, TRUE_OR_FALSE, Option, Options
from .._schemas import Selection, chosen
from .._table_options import options_of, table_schema
from ._files import matching
from ._index import IndexTable
from ._kv import KvTable
from ._logical import BROKER_NAME
from ._messages import MODES, PERMISSIVE, DamageTable, MessagesTable
from ._queues import LOG, ConsumeQueueTable
from ._table import Query, Table
from ._tables import GROUPS, OFFSETS, TOPICS

NAME: Final = "rocketmq-store"
TOPICS_ONLY: Final = "topics"
TABLES: Final[dict[str, Table]] = {
    "messages": MessagesTable(),
    "consume_queue": ConsumeQueueTable(),
    "index": IndexTable(),
    "topics": TOPICS,
    "groups": GROUPS,
    "offsets": OFFSETS,
    "kv": KvTable(),
    "damage": DamageTable(),
}
OPTIONS: Final = (
    Option("path"),
    Option("paths"),
    Option("table", "messages", tuple(TABLES)),
    Option("columns"),
    Option(TOPICS_ONLY),
    Option(PUSH_FILTERS, "false", TRUE_OR_FALSE),
    Option("mode", PERMISSIVE, MODES),
    Option("checkCrc", "true", TRUE_OR_FALSE),
    Option("commitLog"),
    Option(BROKER_NAME),
    Option("splitBytes"),
    Option("from", "auto", ("auto", "files", "rocksdb", LOG)),
)


class StoreSource(DataSource):
    """Store directories of RocketMQ brokers, read as tables without a broker."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str | StructType:
        return table_schema(NAME, self._columns(self._options(self.options)), self.options)

    def reader(self, schema: StructType) -> "StoreReader":
        options = self._options(options_of(self.options, schema))
        table = TABLES[options.choice("table")]
        known = {**table.columns, **table.on_demand}
        selection = Selection.of(NAME, schema, known)
        topics = options.listed(TOPICS_ONLY)
        query = Query(
            roots=_roots(options),
            options=options,
            schema=selection.schema,
            filters=(In(("topic",), tuple(topics)),) if topics else (),
        )
        kind = FilteringStoreReader if options.flag(PUSH_FILTERS) else StoreReader
        return kind(query, selection)

    def _options(self, given: Mapping[str, str]) -> Options:
        options = Options(NAME, OPTIONS, given)
        options.number("splitBytes", least=1 << 16)
        if options.choice("from") == LOG and options.choice("table") != "consume_queue":
            raise options.wrong("from", "only the table consume_queue can be made from the log")
        table = options.choice("table")
        if options.is_given(TOPICS_ONLY) and "topic" not in TABLES[table].columns:
            raise options.wrong(TOPICS_ONLY, f"the table {table} has no column topic")
        return options

    def _columns(self, options: Options) -> dict[str, str]:
        table = TABLES[options.choice("table")]
        return chosen(NAME, options.listed("columns"), table.columns, table.on_demand)


def _roots(options: Options) -> tuple[str, ...]:
    """Return the directories, those that a pattern matches among them. Raises ``SourceError``."""
    listed = options.get("paths")
    named = json.loads(listed) if listed else [options.text("path")]
    return tuple(root for one in named for root in matching(one))


class StoreReader(DataSourceReader):
    """A query of one table."""

    def __init__(self, query: Query, selection: Selection) -> None:
        self._query = query
        self._selection = selection

    def partitions(self) -> list[InputPartition]:
        return self._table.parts(self._query)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        # Spark gives one partition of nothing where there are none.
        if type(partition) is InputPartition:
            return iter(())
        return self._selection.named(self._table.batches(self._query, partition))

    @property
    def _table(self) -> Table:
        return TABLES[self._query.options.choice("table")]


@final
class FilteringStoreReader(StoreReader):
    """A query of one table, the only one of its DataFrame, with Spark's filters."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take the filters along; Spark applies them once more."""
        own = (*self._query.filters, *self._selection.filters(filters))
        self._query = replace(self._query, filters=own)
        return filters
