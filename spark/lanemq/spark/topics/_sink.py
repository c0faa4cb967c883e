"""Rows sent as messages, in each task's order."""

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, final

import trio
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from lanemq.sdk import ClientOptions, LanemqError, Message, Producer, ProducerOptions, open_producer
from lanemq.wire import LocalProtocolError

from .._errors import OptionInvalid, SourceError
from .._options import TRUE_OR_FALSE, Option, Options
from ._cluster import Cluster

SENDERS: Final = 32
SENDER_MESSAGES: Final = 64
"""Rows that wait for a sender: a task holds a bounded number of them."""
ROW_PROPERTY: Final = "SPARK_ROW"
QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"
SINK_OPTIONS: Final = (
    Option("path"),
    Option("checkpointLocation"),
    Option("nameserver"),
    Option("topic"),
    Option("producerGroup", "spark"),
    Option("retries", "3"),
    Option("sendTimeoutMs", "3000"),
    Option("accessKey"),
    Option("secretKey"),
    Option("securityToken"),
    Option("tls", "false", TRUE_OR_FALSE),
    Option("tlsTrustCertificates"),
)
SINK_COLUMNS: Final = {
    "topic": ("string",),
    "body": ("binary", "string"),
    "keys": ("string",),
    "tags": ("string",),
    "properties": ("map<string,string>",),
    "queueKey": ("string",),
    "flag": ("int",),
}


@final
@dataclass(frozen=True)
class SinkPlan:
    """The options of sending; they go to the tasks."""

    cluster: Cluster
    topic: str | None
    group: str
    timeout_s: float
    columns: tuple[str, ...]

    @staticmethod
    def of(options: Options, schema: StructType) -> "SinkPlan":
        """Read options and columns. Raises ``OptionInvalid``."""
        names = schema.fieldNames()
        _check_columns(schema)
        if "topic" not in names and not options.get("topic"):
            raise OptionInvalid("rocketmq: give the option topic, or a column topic")
        timeout_ms = options.number("sendTimeoutMs", least=1) or 1
        return SinkPlan(
            Cluster.of(options),
            options.get("topic"),
            options.text("producerGroup"),
            timeout_ms / 1000,
            tuple(names),
        )

    def send(self, batches: Iterable[Any], prefix: str | None) -> int:
        """Send all rows, and return their number once brokers have stored them.

        ``prefix`` and a row's number make the property ``SPARK_ROW``. Raises ``SourceError``.
        """
        return trio.run(partial(self._send, batches, prefix))

    async def _send(self, batches: Iterable[Any], prefix: str | None) -> int:
        cluster, count = self.cluster, 0
        options = ProducerOptions(
            retries=cluster.retries,
            send_timeout_s=self.timeout_s,
            client=ClientOptions(credentials=cluster.credentials, tls=cluster.tls_context()),
        )
        failed: list[LanemqError | LocalProtocolError] = []
        async with open_producer(
            group=self.group, name_servers=cluster.name_server, options=options
        ) as producer:
            senders = _Senders(producer, failed)
            async with trio.open_nursery() as nursery:
                await senders.open(nursery)
                for row in self._rows(batches):
                    message, key = self._message(row, prefix, count)
                    await senders.put(message, key, count)
                    count += 1
                    if failed:
                        break
                await senders.close()
        if failed:
            raise SourceError(f"rocketmq: a message could not be sent: {failed[0]}") from failed[0]
        return count

    def _rows(self, batches: Iterable[Any]) -> Iterator[dict[str, Any]]:
        for batch in batches:
            yield from batch.to_pylist()

    def _message(
        self, row: dict[str, Any], prefix: str | None, number: int
    ) -> tuple[Message, str | None]:
        body = row["body"]
        topic = row.get("topic") or self.topic
        if topic is None or body is None:
            missing = "topic" if topic is None else "body"
            raise SourceError(f"rocketmq: a row has no {missing}")
        properties = dict(row.get("properties") or ())
        if prefix is not None:
            properties[ROW_PROPERTY] = f"{prefix}/{number}"
        message = Message(
            topic=topic,
            body=body.encode() if isinstance(body, str) else bytes(body),
            tags=row.get("tags") or "",
            keys=tuple((row.get("keys") or "").split()),
            properties=properties,
            flag=row.get("flag") or 0,
        )
        return message, row.get("queueKey")


def _check_columns(schema: StructType) -> None:
    names = schema.fieldNames()
    for name in names:
        if name not in SINK_COLUMNS:
            known = ", ".join(SINK_COLUMNS)
            raise OptionInvalid(f"rocketmq: no column {name!r} can be written; those are {known}")
        given = schema[name].dataType.simpleString()
        if given not in SINK_COLUMNS[name]:
            kinds = " or ".join(SINK_COLUMNS[name])
            raise OptionInvalid(f"rocketmq: column {name!r} has to be {kinds}, not {given}")
    if "body" not in names:
        raise OptionInvalid("rocketmq: there is no column body to write")


@final
@dataclass(slots=True)
class _Senders:
    """Tasks that send side by side; messages of a key take the same one, so they stay in order."""

    producer: Producer
    failed: list[LanemqError | LocalProtocolError]
    inlets: list[trio.MemorySendChannel[tuple[Message, str | None]]] = field(default_factory=list)

    async def open(self, nursery: trio.Nursery) -> None:
        for _ in range(SENDERS):
            inlet, outlet = trio.open_memory_channel[tuple[Message, str | None]](SENDER_MESSAGES)
            self.inlets.append(inlet)
            nursery.start_soon(self._run, outlet)

    async def put(self, message: Message, key: str | None, number: int) -> None:
        sender = number if key is None else zlib.crc32(key.encode())
        await self.inlets[sender % SENDERS].send((message, key))

    async def close(self) -> None:
        for inlet in self.inlets:
            await inlet.aclose()

    async def _run(self, outlet: trio.MemoryReceiveChannel[tuple[Message, str | None]]) -> None:
        async for message, key in outlet:
            if self.failed:  # nothing of a key may overtake what failed
                continue
            try:
                await self.producer.send(message, queue_key=key)
            except (LanemqError, LocalProtocolError) as error:
                self.failed.append(error)


@dataclass
class Sent(WriterCommitMessage):
    """The number of messages that a task sent."""

    count: int


@final
class TopicWriter(DataSourceArrowWriter):
    """A write of one batch. Messages that a task has sent stay sent, also if another task fails."""

    def __init__(self, plan: SinkPlan) -> None:
        self._plan = plan

    def write(self, iterator: Iterator[Any]) -> Sent:
        return Sent(self._plan.send(iterator, None))


@final
class TopicStreamWriter(DataSourceStreamArrowWriter):
    """The writes of a stream. A batch that is repeated sends again, with the same ``SPARK_ROW``."""

    def __init__(self, plan: SinkPlan) -> None:
        self._plan = plan

    def write(self, iterator: Iterator[Any]) -> Sent:
        task = TaskContext.get()
        assert task is not None
        query, batch = task.getLocalProperty(QUERY_ID), task.getLocalProperty(BATCH_ID)
        return Sent(self._plan.send(iterator, f"{query}/{batch}/{task.partitionId()}"))
