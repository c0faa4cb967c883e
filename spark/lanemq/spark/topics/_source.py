"""The source ``rocketmq``."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, final

from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from lanemq.sdk.admin import AdminClient

from .._errors import OptionInvalid, SourceError
from .._options import PUSH_FILTERS, Options
from .._schemas import MESSAGES, MESSAGES_ON_DEMAND, Selection, chosen
from .._table_options import options_of, table_schema
from ._offsets import (
    EARLIEST,
    LATEST,
    Known,
    QueueRange,
    crossed,
    lost_ends,
    lost_starts,
    ranges,
    split,
)
from ._plan import NAME, OPTIONS, Plan, narrowed
from ._read import BROKER, LOGGER, RangePart, RangeReader
from ._sink import SINK_OPTIONS, SinkPlan, TopicStreamWriter, TopicWriter
from ._stream import TopicStreamReader

STREAM_OPTIONS: Final = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "groupId",
)
"""Options that a batch leaves out: a table has those of both."""
ON_DEMAND: Final = {**MESSAGES_ON_DEMAND, BROKER: "string"}


class TopicSource(DataSource):
    """Topics of a RocketMQ cluster, of lanemq or Apache, read from its brokers."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str | StructType:
        options = self._options(self.options)
        Plan.of(options, default_start=EARLIEST)
        columns = chosen(NAME, options.listed("columns"), MESSAGES, ON_DEMAND)
        return table_schema(NAME, columns, self.options)

    def reader(self, schema: StructType) -> "TopicReader":
        options = self._options(options_of(self.options, schema))
        plan = Plan.of(options, default_start=EARLIEST)
        for name, word in (("startingOffsets", LATEST), ("endingOffsets", EARLIEST)):
            if (options.get(name) or "").strip().lower() == word:
                raise options.wrong(name, "nothing is read so; only a stream can start at latest")
        if of_streams := [name for name in STREAM_OPTIONS if options.is_given(name)]:
            LOGGER.warning("rocketmq: options without effect on a batch: %s", ", ".join(of_streams))
        least = options.number("minPartitions", least=1) or 1
        kind = FilteringTopicReader if options.flag(PUSH_FILTERS) else TopicReader
        return kind(plan, range_reader(options, plan, schema), least)

    def streamReader(self, schema: StructType) -> TopicStreamReader:  # noqa: N802 - Spark's name
        options = self._options(options_of(self.options, schema))
        for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
            if options.is_given(name) and options.text(name).strip().lower() != LATEST:
                raise options.wrong(name, "a stream has no end")
        if options.flag(PUSH_FILTERS):
            raise options.wrong(PUSH_FILTERS, "Spark gives a stream no filters")
        most = options.number("maxOffsetsPerTrigger", least=1)
        fewest = options.number("minOffsetsPerTrigger", least=1)
        if fewest is None and options.is_given("maxTriggerDelay"):
            raise options.wrong("maxTriggerDelay", "it needs minOffsetsPerTrigger")
        if fewest is not None and most is not None and fewest > most:
            raise options.wrong("minOffsetsPerTrigger", f"maxOffsetsPerTrigger={most} is less")
        plan = Plan.of(options, default_start=LATEST)
        return TopicStreamReader(
            plan,
            range_reader(options, plan, schema),
            least=options.number("minPartitions", least=1) or 1,
            most=most,
            fewest=fewest,
            longest_delay_s=options.duration_s("maxTriggerDelay"),
            group=options.get("groupId"),
        )

    def writer(self, schema: StructType, overwrite: bool) -> TopicWriter:
        return TopicWriter(self._sink(schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> TopicStreamWriter:  # noqa: N802 - pyspark's name
        return TopicStreamWriter(self._sink(schema, overwrite))

    def _sink(self, schema: StructType, overwrite: bool) -> SinkPlan:
        if overwrite:
            raise OptionInvalid("rocketmq: messages are only added: write with mode append")
        given = options_of(self.options, schema)
        return SinkPlan.of(Options(NAME, SINK_OPTIONS, given, others=OPTIONS), schema)

    def _options(self, given: Mapping[str, str]) -> Options:
        return Options(NAME, OPTIONS, given, others=SINK_OPTIONS)


def queue_bounds(options: Mapping[str, str]) -> Known:
    """Return the queues that options of the source name, each with the offsets that there are.

    Raises ``SourceError``.
    """
    plan = Plan.of(Options(NAME, OPTIONS, options), default_start=EARLIEST)
    return plan.cluster.run(plan.known)


def range_reader(options: Options, plan: Plan, schema: StructType) -> RangeReader:
    """Return how ranges are read, by the options."""
    return RangeReader(
        cluster=plan.cluster,
        expression=plan.expression,
        fail_on_data_loss=options.flag("failOnDataLoss"),
        since=plan.since,
        selection=Selection.of(NAME, schema, {**MESSAGES, **ON_DEMAND}),
    )


class TopicReader(DataSourceReader):
    """A query of one batch."""

    def __init__(self, plan: Plan, reader: RangeReader, least: int) -> None:
        self._plan = plan
        self._reader = reader
        self._least = least

    def partitions(self) -> list[InputPartition]:
        found = self._plan.cluster.run(self._ranges)
        return [RangePart(one) for one in split(found, self._least)]

    async def _ranges(self, admin: AdminClient) -> list[QueueRange]:
        known = await self._plan.checked(admin)
        start, end = await self._plan.start(admin, known), await self._plan.end(admin, known)
        self._reader.check_offsets([*lost_starts(start, known), *lost_ends(start, end, known)])
        if (one := crossed(start, end, known)) is not None:
            raise SourceError(
                f"rocketmq: queue {one.queue} of {one.topic} would be read from offset {one.begin}"
                f" to before {one.end}: the start is behind the end, by startingOffsets and"
                " endingOffsets or the times in their place"
            )
        found = ranges(start, end)
        return [part for one in found if (part := narrowed(one, self._reader.filters))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._reader.read_part(partition)


@final
class FilteringTopicReader(TopicReader):
    """A query of one batch, the only one of its DataFrame, with Spark's filters."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take the filters along; Spark applies them once more."""
        own = self._reader.selection.filters(filters)
        self._reader = replace(self._reader, filters=own)
        return filters
