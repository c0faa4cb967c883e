"""Rows sent as messages, in each task's order."""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, final

import trio
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from lanemq.local import get_logger
from lanemq.sdk import (
    ClientOptions,
    LanemqError,
    Message,
    MessageQueue,
    NoRoute,
    Producer,
    ProducerOptions,
    WrongValue,
    open_producer,
)
from lanemq.wire import LocalProtocolError
from lanemq.wire.message import Property

from .._errors import OptionInvalid, SourceError
from .._options import TRUE_OR_FALSE, Option, Options
from .._schemas import MESSAGES
from ._cluster import RETRY_PAUSE_S, Cluster
from ._own_properties import own_properties

LOGGER: Final = get_logger("lanemq.spark")
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
    Option("subscribe"),
    Option("producerGroup", "spark"),
    Option("retries", "3"),
    Option("sendTimeoutMs", "3000"),
    Option("deliveryTimeoutMs", "120000"),
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
    "queue": ("int",),
    "flag": ("int",),
}
"""The columns that are sent. Others are left out, so that rows can be written as they were read."""


@final
@dataclass(frozen=True)
class SinkPlan:
    """The options of sending; they go to the tasks."""

    cluster: Cluster
    topic: str | None
    """The topic of all rows."""
    default_topic: str | None
    """The topic of rows that name none."""
    group: str
    timeout_s: float
    """For one attempt."""
    delivery_s: float
    """For all attempts of a message, while its broker is away or busy."""

    @staticmethod
    def of(options: Options, schema: StructType) -> "SinkPlan":
        """Read options and columns. Raises ``OptionInvalid``."""
        _check_columns(schema)
        topic, default_topic = options.get("topic"), _only_one(options.listed("subscribe"))
        if "topic" not in schema.fieldNames() and not (topic or default_topic):
            raise OptionInvalid("rocketmq: give the option topic, or a column topic")
        timeout_ms = options.number("sendTimeoutMs", least=1) or 1
        delivery_ms = options.number("deliveryTimeoutMs", least=1) or 1
        return SinkPlan(
            Cluster.of(options),
            topic,
            default_topic,
            options.text("producerGroup"),
            timeout_ms / 1000,
            delivery_ms / 1000,
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
            senders = _Senders(producer, self.delivery_s, failed)
            async with trio.open_nursery() as nursery:
                await senders.open(nursery)
                for row in self._rows(batches):
                    await senders.put(self._message(row, prefix, count), count)
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

    def _message(self, row: dict[str, Any], prefix: str | None, number: int) -> "_Row":
        body = row["body"]
        topic = self.topic or row.get("topic") or self.default_topic
        if topic is None or body is None:
            missing = "topic" if topic is None else "body"
            raise SourceError(f"rocketmq: a row has no {missing}")
        properties = dict(row.get("properties") or ())
        if Property.UNIQ_KEY in properties:  # the row was read from a topic
            properties = own_properties(properties)
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
        return _Row(message, row.get("queueKey"), row.get("queue"))


def _only_one(topics: list[str]) -> str | None:
    """Return the topic of a table that is read and written."""
    return topics[0] if len(topics) == 1 else None


def _check_columns(schema: StructType) -> None:
    names = schema.fieldNames()
    unknown = [name for name in names if name not in SINK_COLUMNS and name not in MESSAGES]
    if unknown:
        LOGGER.warning(
            "rocketmq: columns that are not sent: %s; those that are sent are %s",
            ", ".join(unknown),
            ", ".join(SINK_COLUMNS),
        )
    for name in names:
        if name not in SINK_COLUMNS:
            continue
        given = schema[name].dataType.simpleString()
        if given not in SINK_COLUMNS[name]:
            kinds = " or ".join(SINK_COLUMNS[name])
            raise OptionInvalid(f"rocketmq: column {name!r} has to be {kinds}, not {given}")
    if "body" not in names:
        raise OptionInvalid("rocketmq: there is no column body to write")


class _Row(NamedTuple):
    """A row to send."""

    message: Message
    key: str | None
    queue: int | None
    """The number of the queue, counted over the topic's queues by broker and id."""

    @property
    def target(self) -> "_Numbered | None":
        return None if self.queue is None else _Numbered(self.queue)

    @property
    def order(self) -> str | None:
        """The name of the rows that have to stay in order."""
        return self.key if self.queue is None else f"{self.message.topic} {self.queue}"


@final
@dataclass(frozen=True, slots=True)
class _Numbered:
    """The queue of a number, as a selector of the producer."""

    number: int

    def __call__(self, queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        if not 0 <= self.number < len(queues):
            raise WrongValue(
                f"a row has queue {self.number}, and topic {message.topic} has {len(queues)}"
                " queues to write to, from 0 on: leave the column queue out, or make more queues"
            )
        return queues[self.number]  # they come sorted by broker and id


@final
@dataclass(slots=True)
class _Senders:
    """Tasks that send side by side; messages of a key or queue take the same one, so they stay
    in order."""

    producer: Producer
    delivery_s: float
    failed: list[LanemqError | LocalProtocolError]
    inlets: list[trio.MemorySendChannel[_Row]] = field(default_factory=list)

    async def open(self, nursery: trio.Nursery) -> None:
        for _ in range(SENDERS):
            inlet, outlet = trio.open_memory_channel[_Row](SENDER_MESSAGES)
            self.inlets.append(inlet)
            nursery.start_soon(self._run, outlet)

    async def put(self, row: _Row, number: int) -> None:
        sender = number if row.order is None else zlib.crc32(row.order.encode())
        await self.inlets[sender % SENDERS].send(row)

    async def close(self) -> None:
        for inlet in self.inlets:
            await inlet.aclose()

    async def _run(self, outlet: trio.MemoryReceiveChannel[_Row]) -> None:
        async for row in outlet:
            if self.failed:  # nothing of a key may overtake what failed
                continue
            try:
                await self._send(row)
            except (LanemqError, LocalProtocolError) as error:
                self.failed.append(error)

    async def _send(self, row: _Row) -> None:
        """Send a row, again and again while its broker is away or busy."""
        key = row.key if row.queue is None else None
        give_up = trio.current_time() + self.delivery_s
        while True:
            try:
                await self.producer.send(row.message, queue=row.target, queue_key=key)
                return
            except (LanemqError, LocalProtocolError) as error:
                is_away = getattr(error, "retriable", False) or isinstance(error, NoRoute)
                if not is_away or self.failed or trio.current_time() + RETRY_PAUSE_S > give_up:
                    raise
            await trio.sleep(RETRY_PAUSE_S)


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
