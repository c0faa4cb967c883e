"""Metrics of the source ``rocketmq``, from the offsets in the progress of a streaming query.

Spark takes metrics from sources in Java alone; what it keeps of every source are the offsets of a
batch and the latest ones, which it asks for with each report.
"""

import json
from collections.abc import Mapping
from typing import Any


def progress_metrics(progress: Mapping[str, Any]) -> dict[str, float]:
    """Return how many messages a query is behind the ends of its queues, as Kafka's source does.

    ``progress`` is ``query.lastProgress``, ``event.progress`` of a ``StreamingQueryListener``, or
    the JSON of either, parsed. Returns ``avgOffsetsBehindLatest``, ``maxOffsetsBehindLatest`` and
    ``minOffsetsBehindLatest``, in messages, over the queues of all sources ``rocketmq`` of the
    query; nothing if it has none, or knows no ends yet. The ends are those of the moment in which
    the batch was planned. A queue that the query has not seen yet counts whole.

    Source: Spark 4, KafkaMicroBatchStream.metrics.
    """
    behind: list[int] = []
    for source in progress["sources"]:
        done = _offsets(source, "endOffset") or _offsets(source, "startOffset")
        for topic, queues in _offsets(source, "latestOffset").items():
            for queue, end in queues.items():
                behind.append(max(0, end - done.get(topic, {}).get(queue, 0)))
    if not behind:
        return {}
    return {
        "avgOffsetsBehindLatest": sum(behind) / len(behind),
        "maxOffsetsBehindLatest": max(behind),
        "minOffsetsBehindLatest": min(behind),
    }


def _offsets(source: Mapping[str, Any], name: str) -> dict[str, dict[str, int]]:
    """Return the offsets of a source by topic and queue; none if it is another one.

    Spark does not give the name of a source. A queue is ``BROKER:ID``, which Kafka's are not.
    """
    found = source.get(name)
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except ValueError:
            return {}
    if not isinstance(found, dict):
        return {}
    is_own = all(
        isinstance(queues, dict) and all(":" in queue for queue in queues)
        for queues in found.values()
    )
    return found if is_own else {}
