"""The messages of a range of a queue, as Arrow batches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import Filter, GreaterThanOrEqual, In, InputPartition

from lanemq.local import get_logger

from .._errors import SourceError
from .._filters import usable, wanted_rows
from .._schemas import LOGICAL_QUEUE, MESSAGES, MESSAGES_ON_DEMAND, Selection
from ..records import RecordColumns, decode_records, sound_records, walk_sizes
from ._cluster import AWAY_WITH_ROUTE, SQL_PREFIX, Chunk, Cluster, read_chunk
from ._offsets import LostOffset, QueueRange

BROKER: Final = "broker"
ALL: Final = "*"
LOGGER: Final = get_logger("lanemq.spark")
READ_ANYWAY: Final = "failOnDataLoss=false reads what is there"


@final
@dataclass(frozen=True)
class RangePart(InputPartition):
    """The range that one task reads."""

    wanted: QueueRange


@final
@dataclass(frozen=True, kw_only=True)
class RangeReader:
    """The options of reading; they go to the tasks."""

    cluster: Cluster
    expression: str
    fail_on_data_loss: bool
    since: Any
    """The earliest store time, or None."""
    selection: Selection
    filters: Sequence[Filter] = ()

    def read_part(self, partition: InputPartition) -> Iterator[Any]:
        """Iterate over the batches of a task's range; there are none in a part of another kind.

        Raises ``SourceError``.
        """
        if not isinstance(partition, RangePart):
            return iter(())
        return self.selection.named(self.read(partition.wanted))

    @property
    def schema(self) -> Any:  # noqa: ANN401 - pyarrow has no types
        """The Arrow schema of the batches, with the names of the table."""
        return self.selection.schema

    def read(self, wanted: QueueRange) -> Iterator[Any]:
        """Iterate over batches. Raises ``SourceError``."""
        filters = [*usable(self.filters, {**MESSAGES, **MESSAGES_ON_DEMAND}), *self._own_filters()]
        with_places = LOGICAL_QUEUE in self.schema.names or any(
            getattr(one, "attribute", None) == (LOGICAL_QUEUE,) for one in filters
        )
        read = partial(read_chunk, expression=self.expression, with_places=with_places)
        while wanted.begin < wanted.end:
            try:
                chunk = self.cluster.run(partial(read, wanted=wanted), away=AWAY_WITH_ROUTE)
            except SourceError as error:
                raise SourceError(f"{error}, for queue {wanted.queue} of {wanted.topic}") from error
            self._check_loss(wanted, chunk)
            if chunk.records:
                yield self._batch(wanted, chunk, filters)
            if chunk.next_offset <= wanted.begin:
                return
            wanted = wanted._replace(begin=chunk.next_offset)

    def _own_filters(self) -> list[Filter]:
        """Return the filters that a broker applies in part: tags by their hashes, times not at
        all."""
        filters: list[Filter] = []
        if self.since is not None:
            filters.append(GreaterThanOrEqual(("storeTimestamp",), self.since))
        if self.expression != ALL and not self.expression.startswith(SQL_PREFIX):
            tags = tuple(tag.strip() for tag in self.expression.split("||"))
            filters.append(In(("tags",), tags))
        return filters

    def check_offsets(self, lost: Sequence[LostOffset]) -> None:
        """Raise ``SourceError`` if offsets that were given are not there, or warn of them."""
        if lost and self.fail_on_data_loss:
            raise SourceError(f"rocketmq: {lost[0]}; {READ_ANYWAY}")
        for one in lost:
            LOGGER.warning("rocketmq: %s", one)

    def _check_loss(self, wanted: QueueRange, chunk: Chunk) -> None:
        lost = chunk.min_offset if chunk.min_offset > wanted.begin else None
        if chunk.next_offset <= wanted.begin and lost is None:
            lost = wanted.begin
        if lost is not None and self.fail_on_data_loss:
            raise SourceError(
                f"rocketmq: queue {wanted.queue} of {wanted.topic} has no messages from offset"
                f" {wanted.begin} on to {wanted.end}: its oldest is {chunk.min_offset}. Retention"
                f" removed them, or the topic was made again; {READ_ANYWAY}"
            )

    def _batch(self, wanted: QueueRange, chunk: Chunk, filters: list[Filter]) -> Any:  # noqa: ANN401 - pyarrow has no types
        data, places = chunk.records, chunk.places
        starts, end = walk_sizes(data, 0, len(data))
        records = decode_records(data, starts)
        if end != len(data) or sound_records(records, None) != len(records):
            raise SourceError(
                f"rocketmq: broker {wanted.queue.rpartition(':')[0]} answered with bytes that are"
                f" no message, for queue {wanted.queue} of {wanted.topic} at {wanted.begin}"
            )
        offsets = records.fields["queue_offset"]
        columns = RecordColumns(records.take(offsets < wanted.end), places=places)
        mask = wanted_rows(filters, columns.column)
        if mask is not None:
            rows = np.flatnonzero(mask.to_numpy(zero_copy_only=False))
            columns = RecordColumns(columns.records.take(rows), places=places)
        arrays = [self._column(wanted, columns, name) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _column(self, wanted: QueueRange, columns: RecordColumns, name: str) -> Any:  # noqa: ANN401 - pyarrow has no types
        if name == BROKER:
            return pa.repeat(wanted.queue.rpartition(":")[0], len(columns))
        return columns.column(name)
