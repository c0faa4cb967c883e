"""Messages of an archive, sent again: each queue in its order, and each message once.

Every message names, in the property ``REPLAYED``, the replay, its old queue and its old offset.
Messages of one old queue go to one queue, one after the other, so the last that is there tells
how far a replay has come: nothing but the topic itself has to be kept. A consumer group holds, for
each queue, an offset from which on to look; and its lock on the target queue lets one attempt send
at a time, for Spark may begin another one while a task continues at an executor that it gave up.
"""

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple, final

import trio

from lanemq.sdk import (
    BrokerUnreachable,
    ClientOptions,
    LanemqError,
    Message,
    Producer,
    ProducerOptions,
    RequestTimedOut,
    open_producer,
)
from lanemq.sdk.admin import AdminClient, queues_of
from lanemq.wire import LocalProtocolError
from lanemq.wire.bodies import MessageQueue

from .._errors import SourceError
from ..records import RecordColumns, decode_records, walk_sizes
from ._cluster import RETRY_PAUSE_S, Cluster, put_offset, queue_name, read_chunk
from ._offsets import QueueRange
from ._own_properties import own_properties

REPLAYED: Final = "REPLAYED"
BATCH_BYTES: Final = 256 << 10
BATCH_MESSAGES: Final = 256
NOTED_BATCHES: Final = 16
"""Batches after which the place to look from is moved on."""
SEND_TIMEOUT_S: Final = 10.0
LOCK_WAIT_S: Final = 90.0
"""Longer than a broker keeps the lock of an attempt that is gone (60 s)."""
COLUMNS: Final = ("queue", "queueOffset", "body", "keys", "tags", "properties", "flag")


class Replayed(NamedTuple):
    """The result of replaying a part of an old queue."""

    queue: int
    sent: int
    there: int
    """Messages that an earlier attempt had sent."""
    left_out: int
    """Messages without a body, for it was damaged."""


class Target(NamedTuple):
    """The queue that an old queue's messages go to, and the address of its broker."""

    address: str
    queue: MessageQueue


@final
@dataclass(frozen=True)
class Replay:
    """A replay into one topic; goes to any process."""

    cluster: Cluster
    topic: str
    name: str
    """The name by which its messages are recognized; the same for every attempt."""

    def targets(self) -> list[Target]:
        """Return the topic's queues in order. Raises ``SourceError``."""
        return self.cluster.run(self._targets)

    async def _targets(self, admin: AdminClient) -> list[Target]:
        route = await admin.route(self.topic)
        return [Target(*one) for one in queues_of(route, self.topic)]

    def run(self, rows: Iterable[Any]) -> list[Replayed]:
        """Send rows of ``COLUMNS``, sorted by queue and offset. Raises ``SourceError``."""
        return trio.run(partial(self._run, iter(rows), self.targets()))

    async def _run(self, rows: Iterator[Any], targets: list[Target]) -> list[Replayed]:
        cluster, done = self.cluster, list[Replayed]()
        options = ProducerOptions(
            retries=0,
            send_timeout_s=SEND_TIMEOUT_S,
            client=ClientOptions(
                credentials=cluster.credentials, tls=cluster.tls_context(), logical_queues=False
            ),
        )
        async with (
            cluster.open() as admin,
            open_producer(
                "spark_replay", name_servers=cluster.name_server, options=options
            ) as producer,
        ):
            for queue, of_queue in groupby(rows, itemgetter("queue")):
                queue_replay = _QueueReplay(self, admin, producer, queue, targets[queue])
                done.append(await queue_replay.send(of_queue))
        return done


@final
@dataclass
class _QueueReplay:
    """The messages of one old queue."""

    replay: Replay
    admin: AdminClient
    producer: Producer
    number: int
    target: Target
    done: int = -1
    """The greatest old offset that is in the topic."""
    since: int = 0
    """An offset of the target queue; what is before it is known."""
    end: int = 0
    """The end of the target queue as far as this attempt knows it."""
    waiting: list[tuple[int, Message, int]] = field(default_factory=list)
    """Old offset, message, and bytes."""
    attempt: str = field(default_factory=lambda: f"replay@{uuid.uuid4().hex}")
    """The name of this attempt, by which it has the lock."""

    @property
    def group(self) -> str:
        """The group that keeps the place to look from."""
        return f"{self.replay.name}_{self.number}"

    async def send(self, rows: Iterator[Any]) -> Replayed:
        """Send what is not there yet, once no other attempt sends."""
        await self._until_alone()
        await self._look()
        sent = there = left_out = batches = 0
        size = 0
        for row in rows:
            if row["queueOffset"] <= self.done:
                there += 1
            elif row["body"] is None:
                left_out += 1
            else:
                message, size_bytes = self._message(row)
                if self.waiting and (
                    size + size_bytes > BATCH_BYTES or len(self.waiting) == BATCH_MESSAGES
                ):
                    sent += await self._send_waiting()
                    size = 0
                    batches += 1
                    if batches % NOTED_BATCHES == 0:
                        await self._note()
                known = self.waiting[-1][0] if self.waiting else self.done  # more, after a look
                if row["queueOffset"] > known:
                    self.waiting.append((row["queueOffset"], message, size_bytes))
                    size += size_bytes
        if self.waiting:
            sent += await self._send_waiting()
        await self._note()
        address, target = self.target
        await self.admin.unlock_queues(address, self.group, self.attempt, [target])
        return Replayed(self.number, sent, there, left_out)

    async def _until_alone(self) -> None:
        """Wait until no other attempt sends to the queue. Raises ``SourceError``."""
        end_s = trio.current_time() + LOCK_WAIT_S
        while trio.current_time() < end_s:
            if await self._is_alone():
                return
            await trio.sleep(RETRY_PAUSE_S)
        queue = self.target.queue
        raise SourceError(
            f"rocketmq: another run of the replay {self.replay.name} sends to queue"
            f" {queue_name(queue)} of {queue.topic}: wait for its end, or give this one another"
            " --name"
        )

    async def _is_alone(self) -> bool:
        """Take or renew the lock on the target; return whether it is this attempt's."""
        address, queue = self.target
        return bool(await self.admin.lock_queues(address, self.group, self.attempt, [queue]))

    def _message(self, row: Any) -> tuple[Message, int]:  # noqa: ANN401 - a row of Spark
        old = dict(row["properties"] or ())
        properties = own_properties(old)
        properties[REPLAYED] = f"{self._mark}{row['queueOffset']}"
        message = Message(
            topic=self.replay.topic,
            body=bytes(row["body"]),
            tags=row["tags"] or "",
            keys=tuple((row["keys"] or "").split()),
            properties=properties,
            flag=row["flag"] or 0,
        )
        size_bytes = len(row["body"]) + sum(len(one) + len(two) for one, two in old.items()) + 200
        return message, size_bytes

    @property
    def _mark(self) -> str:
        return f"{self.replay.name}/{self.number}/"

    async def _send_waiting(self) -> int:
        """Send what waits as one request; returns how many messages that were."""
        count, left = len(self.waiting), self.replay.cluster.retries
        while self.waiting:
            messages = [message for _, message, _ in self.waiting]
            queue = self.target.queue
            try:
                if await self._has_changed():
                    await self._look()
                    self._forget_known()
                    continue
                if len(messages) == 1:
                    result = await self.producer.send(messages[0], queue=queue)
                else:
                    result = await self.producer.send_batch(messages, queue=queue)
            except (BrokerUnreachable, RequestTimedOut) as error:
                if not left:
                    raise SourceError(f"rocketmq: {error}") from error
                left -= 1
                await trio.sleep(RETRY_PAUSE_S)
                await self._look()  # nobody knows whether the broker has it
            except (LanemqError, LocalProtocolError) as error:
                raise SourceError(f"rocketmq: a message could not be sent: {error}") from error
            else:
                self.done = self.waiting[-1][0]
                self.since = max(self.since, result.queue_offset)
                self.end = result.queue_offset + len(messages)
            self._forget_known()
        return count

    def _forget_known(self) -> None:
        self.waiting = [one for one in self.waiting if one[0] > self.done]

    async def _has_changed(self) -> bool:
        """Renew the lock; return whether others have sent to the queue meanwhile.

        Another attempt may have had the lock, if a broker was restarted or this process stood
        still. Raises ``SourceError`` if it has it now.
        """
        address, queue = self.target
        if not await self._is_alone():
            raise SourceError(
                f"rocketmq: another attempt of the replay {self.replay.name} sends to queue"
                f" {queue_name(queue)} of {queue.topic} now; this one has ended"
            )
        return await self.admin.max_offset(address, queue) > self.end

    async def _look(self) -> None:
        """Find how far the replay has come, from the target queue."""
        admin = self.admin
        address, queue = self.target
        if self.done < 0:
            first = max(0, await admin.min_offset(address, queue))
            self.since = max(first, await admin.group_offset(address, self.group, queue) or 0)
        self.end = await admin.max_offset(address, queue)
        at = self.since
        while at < self.end:
            wanted = QueueRange(queue.topic, queue_name(queue), at, self.end)
            chunk = await read_chunk(admin, wanted, "*", with_places=False)
            self._find(chunk.records)
            if chunk.next_offset <= at:
                raise SourceError(
                    f"rocketmq: queue {queue_name(queue)} of {queue.topic} cannot be read from"
                    f" {at} on, so nobody knows how far the replay has come"
                )
            at = chunk.next_offset

    def _find(self, data: bytes) -> None:
        starts, _ = walk_sizes(data, 0, len(data))
        columns = RecordColumns(decode_records(data, starts))
        marks = columns.properties.get(REPLAYED).to_pylist()
        offsets = columns.records.fields["queue_offset"].tolist()
        for mark, offset in zip(marks, offsets, strict=True):
            if mark is not None and mark.startswith(self._mark):
                found = int(mark.removeprefix(self._mark))
                if found > self.done:
                    self.done, self.since = found, offset

    async def _note(self) -> None:
        """Keep the place to look from: the last message, or one before it."""
        if self.done >= 0:
            address, queue = self.target
            await put_offset(self.admin, address, self.group, queue, self.since)
