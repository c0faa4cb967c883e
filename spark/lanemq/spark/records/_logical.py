"""The logical queues of messages, by the segments of physical queues that belong to them.

A message belongs to the segment with the greatest first offset up to its own, if that segment has
not ended before. Source: RocketMQ 5.0.0-PREVIEW, LogicalQueueRouteData.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import pyarrow as pa

from lanemq.wire.logical import LogicalQueues

from ._gather import ArrowArray, Ints

OFFSET_MAX: Final = (1 << 63) - 1
Span = tuple[int, int, int]
"""First offset of a segment, the one behind its last, and the logical queue."""


@final
@dataclass(frozen=True)
class LogicalPlaces:
    """The segments of one broker; goes to any process."""

    spans: Mapping[tuple[str, int], tuple[Span, ...]]
    """Topic and physical queue -> segments, by their first offsets."""
    index: int | None = None
    """The logical queue of all messages, where they were read from it."""

    @staticmethod
    def of(queues: Mapping[str, LogicalQueues], broker_name: str) -> "LogicalPlaces":
        """Return the segments that a broker has of the logical queues of topics."""
        return LogicalPlaces(
            {
                (topic, queue_id): tuple(
                    (one.offset_delta, one.offset_max if one.is_sealed else OFFSET_MAX, index)
                    for one in segments
                    if (index := one.logical_index) >= 0
                )
                for topic, of_topic in queues.items()
                for queue_id, segments in of_topic.by_queue(broker_name).items()
            }
        )

    def column(self, topics: ArrowArray, queue_ids: Ints, offsets: Ints) -> ArrowArray:
        """Return the logical queue of each message; null where it is in none."""
        if self.index is not None:
            return pa.repeat(pa.scalar(self.index, pa.int32()), len(topics))
        found = np.full(len(topics), -1, np.int32)
        encoded = topics.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        for (topic, queue_id), spans in self.spans.items():
            if topic in names:
                rows = np.flatnonzero((codes == names.index(topic)) & (queue_ids == queue_id))
                found[rows] = _indices(spans, offsets[rows])
        return pa.array(found, mask=found < 0)


def _indices(spans: tuple[Span, ...], offsets: Ints) -> Ints:
    begins, ends, indices = np.array(spans, np.int64).reshape(-1, 3).T
    at = np.searchsorted(begins, offsets, side="right") - 1
    inside = (at >= 0) & (offsets < ends[at])
    return np.where(inside, indices[at], -1)
