"""Stores of a few messages for tests of archives, and what commands say of them."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import pyarrow as pa
import trio
from click.testing import CliRunner
from pyspark.sql.pandas.types import from_arrow_schema

from lanemq.spark import cli
from lanemq.spark.archives import open_archive
from lanemq.spark.archives._sink import ArchiveWriter, Written
from lanemq.storage import NewMessage, StoreConfig, open_store
from lanemq.wire.message import encode_properties

from .storage.stores import HOST

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIRST: Final = datetime(2026, 1, 1, 22, tzinfo=UTC)
ROWS: Final = pa.schema(
    [
        ("broker", pa.string()),
        ("topic", pa.string()),
        ("queue", pa.int32()),
        ("queueOffset", pa.int64()),
        ("msgId", pa.string()),
        ("storeTimestamp", pa.timestamp("us", "Europe/Berlin")),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("day", pa.date32()),
    ]
)
LOG_BYTES: Final = 1 << 20
KEPT: Final = (
    *("topic", "queue", "queueOffset", "msgId", "keys", "tags", "body", "properties"),
    *("bornTimestamp", "storeTimestamp", "bornHost", "storeHost", "reconsumeTimes", "flag"),
)


def fill(root: Path, begin: int, end: int) -> None:
    """Add messages to a store, which is closed cleanly."""

    async def put() -> None:
        config = StoreConfig(root=root, commit_log_file_bytes=LOG_BYTES, kv_enabled=False)
        async with open_store(config) as store:
            for number in range(begin, end):
                properties = {"UNIQ_KEY": f"U{number}", "KEYS": f"k{number % 7} all", "TAGS": "t"}
                message = NewMessage(
                    topic=("orders", "%RETRY%billing")[number % 5 == 0],
                    queue_id=number % 3,
                    body=b"body %d" % number * (number % 40),
                    properties=encode_properties({**properties, "n": str(number)}),
                    born_timestamp_ms=1_700_000_000_000 + number,
                    born_host=HOST,
                    store_host=HOST,
                    flag=number % 4,
                )
                store.put(message)
                store.commit()

    trio.run(put)


def kept(rows: "DataFrame") -> list[str]:
    """Return what an archive keeps of messages, to be compared."""
    return sorted(str(row) for row in rows.select(*KEPT).collect())


def messages(spark: "SparkSession", store: Path) -> "DataFrame":
    """Return the messages of a store."""
    return spark.read.format("rocketmq-store").load(str(store))


def run(*arguments: object, code: int = 0) -> Any:  # noqa: ANN401 - JSON of any shape
    """Run a command of ``lanemq spark``, and return what it prints."""
    result = CliRunner().invoke(cli.spark, [*(str(one) for one in arguments), "--json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def rows_of(offsets: Sequence[int], topic: str) -> Any:  # noqa: ANN401 - pyarrow has no types
    """A message an hour, in the third microsecond of it."""
    times = [FIRST + timedelta(hours=offset, microseconds=3) for offset in offsets]
    rows = [
        {
            "broker": "a",
            "topic": topic,
            "queue": 0,
            "queueOffset": offset,
            "msgId": f"{topic} {offset}",
            "storeTimestamp": at,
            "day": at.date(),
            "properties": {"n": str(offset)},
        }
        for offset, at in zip(offsets, times, strict=True)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=ROWS)


@final
class ArchiveRun:
    """A run that has begun, and whose task has written."""

    def __init__(self, target: str, name: str, offsets: Sequence[int], topic: str = "T") -> None:
        self.name = name
        self.archive = open_archive(target)
        self.archive.prepare(from_arrow_schema(ROWS))
        self.archive.begin(name)
        self.writer = ArchiveWriter(target, name)
        self.written: Written = self.writer.write(iter([rows_of(offsets, topic)]))

    def commit(self) -> None:
        """Commit, and end the run."""
        try:
            self.writer.commit([self.written])
        finally:
            self.archive.end(self.name)


def archive_offsets(target: str, name: str, offsets: Sequence[int], topic: str = "T") -> None:
    """Archive messages of queue 0 of broker a, without Spark."""
    ArchiveRun(target, name, offsets, topic).commit()
