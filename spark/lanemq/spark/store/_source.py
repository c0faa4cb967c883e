"""The source ``rocketmq-store``."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final, final

from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from .._options import TRUE_OR_FALSE, Option, Options
from .._schemas import arrow_schema, chosen, ddl
from ._index import IndexTable
from ._kv import KvTable
from ._logical import BROKER_NAME
from ._messages import MODES, PERMISSIVE, DamageTable, MessagesTable
from ._queues import LOG, ConsumeQueueTable
from ._table import Query, Table
from ._tables import GROUPS, OFFSETS, TOPICS

NAME: Final = "rocketmq-store"
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

    def schema(self) -> str:
        return ddl(self._columns(self._options()))

    def reader(self, schema: StructType) -> "StoreReader":
        options = self._options()
        table = TABLES[options.choice("table")]
        known = {**table.columns, **table.on_demand}
        query = Query(
            roots=_roots(options), options=options, schema=arrow_schema(NAME, schema, known)
        )
        return StoreReader(query)

    def _options(self) -> Options:
        options = Options(NAME, OPTIONS, self.options)
        options.number("splitBytes", least=1 << 16)
        if options.choice("from") == LOG and options.choice("table") != "consume_queue":
            raise options.wrong("from", "only the table consume_queue can be made from the log")
        return options

    def _columns(self, options: Options) -> dict[str, str]:
        table = TABLES[options.choice("table")]
        return chosen(NAME, options.listed("columns"), table.columns, table.on_demand)


def _roots(options: Options) -> tuple[str, ...]:
    listed = options.get("paths")
    if listed:
        return tuple(json.loads(listed))
    return (options.text("path"),)


@final
class StoreReader(DataSourceReader):
    """A query of one table."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._filters: tuple[Filter, ...] = ()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take the filters along; Spark applies them once more."""
        self._filters = tuple(filters)
        return filters

    def partitions(self) -> list[InputPartition]:
        return self._table.parts(self._asked)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        # Spark gives one partition of nothing where there are none.
        if type(partition) is InputPartition:
            return iter(())
        return self._table.batches(self._asked, partition)

    @property
    def _table(self) -> Table:
        return TABLES[self._query.options.choice("table")]

    @property
    def _asked(self) -> Query:
        query = self._query
        return Query(
            roots=query.roots, options=query.options, schema=query.schema, filters=self._filters
        )
