"""The job ``restore``: a new store from an archive, which brokers of Apache and lanemq read."""

import json
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import trio

from lanemq.local import make_directories, replace_file
from lanemq.storage import StoreConfig, StoreError, open_store
from lanemq.wire import HostAddress
from lanemq.wire.bodies import TopicConfig
from lanemq.wire.message import encode_properties

from .._errors import SourceError
from .._uris import new_store
from ..store import LogRecord, LogWriter
from ._compare import archive
from ._count import known_counts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOG_FILE_BYTES: Final = 1 << 30
"""Apache's mappedFileSizeCommitLog, unless it is set: its brokers take files of that size only."""
QUEUE_FILE_BYTES: Final = 6_000_000
"""Apache's mappedFileSizeConsumeQueue, unless it is set."""
QUEUE: Final = ("topic", "queue")
NEEDED: Final = (
    *(*QUEUE, "queueOffset", "body", "properties", "flag", "sysFlag", "reconsumeTimes"),
    *("bornTimestamp", "bornHost", "storeTimestamp", "storeHost"),
)


@final
@dataclass(frozen=True, slots=True)
class Restored:
    """The result: messages by topic in the new store."""

    store: str
    messages: int
    topics: dict[str, int]
    log_bytes: int
    renumbered: int
    """Messages that have another offset than in the archive."""
    left_out: int
    """Messages without a body in the archive, for it was damaged."""


def restore(
    spark: "SparkSession",
    source: str,
    store: str,
    *,
    topics: Sequence[str] = (),
    broker: str | None = None,
    renumber: bool = False,
    log_file_bytes: int = LOG_FILE_BYTES,
    queue_file_bytes: int = QUEUE_FILE_BYTES,
) -> Restored:
    """Make the store of a broker from an archive: log, queues, index and topics.

    ``store`` is a local path that must not exist. Messages keep offsets, times, hosts, keys and
    properties; bodies are not compressed. They come in the order of their store times. ``broker``
    chooses the broker whose queues are meant; an archive of several needs it. A queue of which
    offsets lack, or bodies, is refused, since a broker has no queue with holes, unless
    ``renumber`` is given: then its messages follow each other from its first offset on. Raises
    ``SourceError``; there is no store then.
    """
    new_store(store)  # before anything is counted
    if topics:
        known_counts(spark, source, topics)
    found = archive(spark, source)
    if broker is not None:
        found = found.where(found.broker == broker)
    if topics:
        found = found.where(found.topic.isin(*topics))
    return restore_rows(
        found,
        store,
        renumber=renumber,
        log_file_bytes=log_file_bytes,
        queue_file_bytes=queue_file_bytes,
    )


def restore_rows(
    messages: "DataFrame",
    store: str,
    *,
    renumber: bool = False,
    log_file_bytes: int = LOG_FILE_BYTES,
    queue_file_bytes: int = QUEUE_FILE_BYTES,
) -> Restored:
    """Make a store of rows with the columns of messages; see ``restore``."""
    target = new_store(store)
    if missing := [name for name in NEEDED if name not in messages.columns]:
        raise SourceError(f"the messages have no column {', '.join(missing)}")
    left_out = _checked(messages, renumber=renumber)
    building = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}")
    try:
        writer = LogWriter(building / "commitlog", log_file_bytes)
        rows = _ordered(messages).toLocalIterator(prefetchPartitions=True)
        written, ends, moved = _write(rows, writer)
        writer.close()
        _write_topics(building, ends)
        trio.run(_index, building, log_file_bytes, queue_file_bytes)
        make_directories(target.parent)
        building.rename(target)
    except (StoreError, OSError) as error:
        raise SourceError(f"{store}: {error}".replace(str(building), str(target))) from error
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return Restored(
        str(target), sum(written.values()), written, writer.position, moved, sum(left_out.values())
    )


def _checked(messages: "DataFrame", *, renumber: bool) -> dict[tuple[str, int], int]:
    """Return the messages without a body by queue. Raises ``SourceError`` if messages have one
    place, lack, or cannot be written."""
    from pyspark.sql import functions

    queues = messages.groupBy(*QUEUE).agg(
        functions.count("*").alias("rows"),
        functions.count("body").alias("bodies"),
        functions.count_distinct("queueOffset").alias("offsets"),
        functions.min("queueOffset").alias("first"),
        functions.max("queueOffset").alias("last"),
    )
    rows = queues.orderBy(*QUEUE).collect()
    if not rows:
        raise SourceError("there are no messages to restore")
    for row in rows:
        name = f"queue {row['queue']} of {row['topic']}"
        if row["offsets"] < row["rows"]:
            raise SourceError(
                f"{name} has an offset twice: the messages are of several brokers, or some are"
                " there twice. Name the broker that is meant (`broker`)"
            )
        lacking = row["last"] - row["first"] + 1 - row["bodies"]
        if lacking and not renumber:
            raise SourceError(
                f"{name} lacks {lacking:,} messages between offsets {row['first']} and"
                f" {row['last']}, and a broker has no queue with holes: `renumber` closes them,"
                " by which messages behind get other offsets"
            )
    return {(row["topic"], row["queue"]): row["rows"] - row["bodies"] for row in rows}


def _ordered(messages: "DataFrame") -> "DataFrame":
    """Return rows by store time, those of a queue in its order: clocks go back now and then."""
    from pyspark.sql import Window, functions

    before = Window.partitionBy(*QUEUE).orderBy("queueOffset")
    at = functions.max("storeTimestamp").over(before.rowsBetween(Window.unboundedPreceding, 0))
    columns = [name for name in NEEDED if not name.endswith("Timestamp")]
    times = [
        functions.unix_millis(name).alias(name) for name in ("bornTimestamp", "storeTimestamp")
    ]
    first = functions.min("queueOffset").over(Window.partitionBy(*QUEUE)).alias("first")
    whole = messages.where("body is not null").withColumn("at", at)
    sorted_rows = whole.select(*columns, *times, "at", first).orderBy("at", *QUEUE, "queueOffset")
    return sorted_rows.drop("at")


def _write(
    rows: Iterator[Any], writer: LogWriter
) -> tuple[dict[str, int], dict[tuple[str, int], int], int]:
    """Write rows; return messages by topic, ends by queue, and the messages that were moved."""
    written: dict[str, int] = {}
    ends: dict[tuple[str, int], int] = {}
    moved = 0
    for row in rows:
        place = row["topic"], row["queue"]
        offset = ends.get(place, row["first"])
        moved += offset != row["queueOffset"]
        ends[place] = offset + 1
        written[row["topic"]] = written.get(row["topic"], 0) + 1
        writer.put(
            LogRecord(
                *place,
                offset,
                row["flag"],
                row["sysFlag"],
                row["bornTimestamp"],
                _host(row["bornHost"]),
                row["storeTimestamp"],
                _host(row["storeHost"]),
                row["reconsumeTimes"],
                bytes(row["body"]),
                encode_properties(row["properties"] or {}),
            )
        )
    return dict(sorted(written.items())), ends, moved


@lru_cache(maxsize=4096)
def _host(text: str) -> HostAddress:
    return HostAddress.parse(text)


def _write_topics(root: Path, ends: dict[tuple[str, int], int]) -> None:
    """Write the table of topics: readable and writable, with as many queues as have messages."""
    queues: dict[str, int] = {}
    for topic, queue in ends:
        queues[topic] = max(queues.get(topic, 0), queue + 1)
    topics = {
        topic: TopicConfig(topic, read_queue_nums=count, write_queue_nums=count).to_json()
        for topic, count in sorted(queues.items())
    }
    version = {"timestamp": int(time.time() * 1000), "counter": 1, "stateVersion": 0}
    table = {"dataVersion": version, "topicConfigTable": topics}
    replace_file(root / "config" / "topics.json", json.dumps(table, indent=1).encode())


async def _index(root: Path, log_file_bytes: int, queue_file_bytes: int) -> None:
    """Let a start of the store make its queues, index and checkpoint of the log."""
    config = StoreConfig(
        root=root,
        commit_log_file_bytes=log_file_bytes,
        consume_queue_file_bytes=queue_file_bytes,
        kv_enabled=False,
        timers_enabled=False,
    )
    async with open_store(config):
        pass
