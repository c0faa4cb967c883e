"""Logical queues that move in the midst of a batch of a stream; nothing here needs a session."""

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
import trio

from lanemq.compat import logical_cluster, running
from lanemq.sdk import Message, open_producer
from lanemq.sdk.admin import AdminClient, open_admin
from lanemq.testkit.servers import PATIENT_S, until
from lanemq.testkit.spark import PATIENT, require_packages

require_packages()

from pyspark.sql.streaming.datasource import ReadAllAvailable  # noqa: E402
from pyspark.sql.types import IntegerType, LongType, StructType  # noqa: E402

from lanemq.spark.topics import TopicSource, _cluster  # noqa: E402

pytestmark = pytest.mark.slow
TOPIC: Final = "Moved"
QUEUES: Final = 4
SENT: Final = 200
PULLED_BYTES: Final = 1000
"""A task asks again after some messages: queues move between."""
SCHEMA: Final = (
    StructType()
    .add("queue", IntegerType())
    .add("queueOffset", LongType())
    .add("logicalQueue", IntegerType())
)
Row = tuple[int, int, int]
Result = TypeVar("Result")


def rows(batches: Iterator[Any]) -> list[Row]:
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def first_rows(batches: Iterator[Any]) -> list[Row]:
    return rows(iter([next(batches)]))


def expected(begin: int, end: int) -> list[Row]:
    """Rows of the messages with numbers from ``begin`` to ``end``: number n is in queue n % 4."""
    return sorted((n % QUEUES, n // QUEUES, n % QUEUES) for n in range(begin, end))


def test_a_batch_that_was_planned_is_read_whole_and_once_wherever_its_queues_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_cluster, "PULLED_BYTES", PULLED_BYTES)
    cluster = logical_cluster(tmp_path, moving=False)

    async def fill(numbers: range) -> None:
        async with open_producer(
            "filler", name_servers=cluster.name_server, options=PATIENT
        ) as producer:
            queues = {one.queue_id: one for one in await producer.publish_queues(TOPIC)}
            for number in numbers:
                message = Message(topic=TOPIC, body=b"%d" % number)
                await producer.send(message, queue=queues[number % QUEUES])

    async def move(admin: AdminClient, index: int) -> None:
        """Move a queue to the broker where it is not."""
        chains = await admin.routed_logical_queues(TOPIC)
        assert chains is not None
        there = "broker-b" if chains[index][-1].broker_name == "broker-a" else "broker-a"
        await admin.migrate_logical_queue(TOPIC, index, there)

        async def is_told() -> bool:
            routed = await admin.routed_logical_queues(TOPIC)
            return routed is not None and routed[index][-1].broker_name == there

        await until(is_told)  # a broker waits for a name server that is slow, but not for long

    async def use(admin: AdminClient) -> None:
        options = {"nameserver": cluster.name_server, "subscribe": TOPIC}
        source = TopicSource({**options, "startingOffsets": "earliest"})
        stream = source.streamReader(SCHEMA)
        start = await in_thread(stream.initialOffset)
        end = await in_thread(lambda: stream.latestOffset(start, ReadAllAvailable()))
        parts = await in_thread(lambda: stream.partitions(start, end))
        assert len(parts) == QUEUES
        await move(admin, 0)  # between plan and tasks
        await fill(range(SENT, SENT + 40))
        found: list[Row] = []
        for number, part in enumerate(parts):
            task = stream.read(part)
            found += await in_thread(partial(first_rows, task))
            seen = len(found)
            for _ in range(number):  # beneath a task, also there and back
                await move(admin, number)
            found += await in_thread(partial(rows, task))
            assert len(found) > seen, "the task had read all of it before its queue moved"
        assert sorted(found) == expected(0, SENT)
        again = await in_thread(lambda: [row for part in parts for row in rows(stream.read(part))])
        assert again == found  # as a query that is started again reads it
        later = await in_thread(lambda: stream.latestOffset(end, ReadAllAvailable()))
        more = await in_thread(
            lambda: [
                row for part in stream.partitions(end, later) for row in rows(stream.read(part))
            ]
        )
        assert sorted(more) == expected(SENT, SENT + 40)

    async def main() -> None:
        async with (
            running(cluster),
            open_admin(name_servers=cluster.name_server, timeout_s=PATIENT_S) as admin,
        ):
            await cluster.control.create_topic(TOPIC, QUEUES)
            await fill(range(SENT))
            await use(admin)

    trio.run(main)


def in_thread(run: Callable[[], Result]) -> Awaitable[Result]:
    """Run what a process of Spark's does: it asks servers in a trio of its own."""
    return trio.to_thread.run_sync(run)
