"""The source ``rocketmq``."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final, final

from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from lanemq.sdk.admin import AdminClient

from .._errors import OptionInvalid
from .._options import Options
from .._schemas import MESSAGES, MESSAGES_ON_DEMAND, arrow_schema, chosen, ddl
from ._offsets import EARLIEST, LATEST, QueueRange, ranges, split
from ._plan import NAME, OPTIONS, Plan, narrowed
from ._read import BROKER, RangePart, RangeReader
from ._sink import SINK_OPTIONS, SinkPlan, TopicStreamWriter, TopicWriter
from ._stream import TopicStreamReader

ON_DEMAND: Final = {**MESSAGES_ON_DEMAND, BROKER: "string"}


class TopicSource(DataSource):
    """Topics of a RocketMQ cluster, of lanemq or Apache, read from its brokers."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        options = Options(NAME, OPTIONS, self.options)
        Plan.of(options, default_start=EARLIEST)
        return ddl(chosen(NAME, options.listed("columns"), MESSAGES, ON_DEMAND))

    def reader(self, schema: StructType) -> "TopicReader":
        options = Options(NAME, OPTIONS, self.options)
        plan = Plan.of(options, default_start=EARLIEST)
        least = options.number("minPartitions", least=1) or 1
        return TopicReader(plan, range_reader(options, plan, schema), least)

    def streamReader(self, schema: StructType) -> TopicStreamReader:  # noqa: N802 - Spark's name
        options = Options(NAME, OPTIONS, self.options)
        if options.get("endingOffsets") != LATEST:
            raise options.wrong("endingOffsets", "a stream has no end")
        plan = Plan.of(options, default_start=LATEST)
        return TopicStreamReader(
            plan,
            range_reader(options, plan, schema),
            least=options.number("minPartitions", least=1) or 1,
            most=options.number("maxOffsetsPerTrigger", least=1),
            group=options.get("groupId"),
        )

    def writer(self, schema: StructType, overwrite: bool) -> TopicWriter:
        return TopicWriter(self._sink(schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> TopicStreamWriter:  # noqa: N802 - pyspark's name
        return TopicStreamWriter(self._sink(schema, overwrite))

    def _sink(self, schema: StructType, overwrite: bool) -> SinkPlan:
        if overwrite:
            raise OptionInvalid("rocketmq: messages are only added: write with mode append")
        return SinkPlan.of(Options(NAME, SINK_OPTIONS, self.options), schema)


def range_reader(options: Options, plan: Plan, schema: StructType) -> RangeReader:
    """Return how ranges are read, by the options."""
    return RangeReader(
        cluster=plan.cluster,
        expression=options.text("filterExpression"),
        fail_on_data_loss=options.flag("failOnDataLoss"),
        since=plan.since,
        schema=arrow_schema(NAME, schema, {**MESSAGES, **ON_DEMAND}),
    )


@final
class TopicReader(DataSourceReader):
    """A query of one batch."""

    def __init__(self, plan: Plan, reader: RangeReader, least: int) -> None:
        self._plan = plan
        self._reader = reader
        self._least = least

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take the filters along; Spark applies them once more."""
        self._reader = replace(self._reader, filters=tuple(filters))
        return filters

    def partitions(self) -> list[InputPartition]:
        found = self._plan.cluster.run(self._ranges)
        return [RangePart(one) for one in split(found, self._least)]

    async def _ranges(self, admin: AdminClient) -> list[QueueRange]:
        known = await self._plan.known(admin)
        found = ranges(await self._plan.start(admin, known), self._plan.end(known))
        return [part for one in found if (part := narrowed(one, self._reader.filters))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._reader.read_part(partition)
