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
from itertools import chain, groupby
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
from ._cluster import RETRY_PAUSE_S, Cluster, queue_name
from ._copies import copy_of
from ._replayed import ReplayProgress

BATCH_BYTES: Final = 256 << 10
BATCH_MESSAGES: Final = 256
NOTED_BATCHES: Final = 16
"""Batches after which the place to look from is moved on."""
SEND_TIMEOUT_S: Final = 10.0
LOCK_WAIT_S: Final = 90.0
"""Longer than a broker keeps the lock of an attempt that is gone (60 s)."""


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

    def progress(self, queues: int) -> list[ReplayProgress]:
        """Return how far the first ``queues`` queues have come, those of which something was sent.

        Raises ``SourceError``.
        """
        return self.cluster.run(partial(self._progress, queues=queues))

    async def _progress(self, admin: AdminClient, queues: int) -> list[ReplayProgress]:
        found = []
        for number, target in enumerate((await self._targets(admin))[:queues]):
            one = ReplayProgress(self.name, number)
            await one.look(admin, *target)
            await one.note(admin, *target)  # tasks have to look from there on only
            if one.done >= 0:
                found.append(one)
        return found

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
                progress = ReplayProgress(self.name, queue)
                queue_replay = _QueueReplay(self, admin, producer, targets[queue], progress)
                done.append(await queue_replay.send(of_queue))
        return done


@final
@dataclass
class _QueueReplay:
    """The messages of one old queue."""

    replay: Replay
    admin: AdminClient
    producer: Producer
    target: Target
    progress: ReplayProgress
    waiting: list[tuple[int, Message, int]] = field(default_factory=list)
    """Old offset, message, and bytes."""
    attempt: str = field(default_factory=lambda: f"replay@{uuid.uuid4().hex}")
    """The name of this attempt, by which it has the lock."""

    async def send(self, rows: Iterator[Any]) -> Replayed:
        """Send what is not there yet, once no other attempt sends."""
        await self._until_alone()
        await self._look()
        there, rows = await self._passed(rows)
        sent = left_out = batches = size = 0
        for row in rows:
            if row["queueOffset"] <= self.progress.done:
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
                # The progress may have grown by a look.
                known = self.waiting[-1][0] if self.waiting else self.progress.done
                if row["queueOffset"] > known:
                    self.waiting.append((row["queueOffset"], message, size_bytes))
                    size += size_bytes
        if self.waiting:
            sent += await self._send_waiting()
        await self._note()
        await self._unlock()
        return Replayed(self.progress.number, sent, there, left_out)

    async def _passed(self, rows: Iterator[Any]) -> tuple[int, Iterator[Any]]:
        """Pass over rows up to the last that is there; return their number, and the others.

        Raises ``SourceError`` if the last is another one than was sent: then the others of them
        have not been sent either.
        """
        there, newest = 0, None
        rest: Iterator[Any] = iter(())
        for row in rows:
            if row["queueOffset"] > self.progress.done:
                rest = chain((row,), rows)
                break
            there, newest = there + 1, row
        if newest is not None and not self.progress.is_of(newest):
            await self._unlock()
            raise self.progress.of_another(self.replay.topic)
        return there, rest

    async def _unlock(self) -> None:
        address, queue = self.target
        await self.admin.unlock_queues(address, self.progress.group, self.attempt, [queue])

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
            " `name`"
        )

    async def _is_alone(self) -> bool:
        """Take or renew the lock on the target; return whether it is this attempt's."""
        address, queue = self.target
        group = self.progress.group
        return bool(await self.admin.lock_queues(address, group, self.attempt, [queue]))

    def _message(self, row: Any) -> tuple[Message, int]:  # noqa: ANN401 - a row of Spark
        message = copy_of(row, self.replay.topic, self.progress.mark)
        texts = dict(row["properties"] or ())
        size_bytes = len(row["body"]) + sum(map(len, chain(texts, texts.values()))) + 200
        return message, size_bytes

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
                self.progress.done = self.waiting[-1][0]
                self.progress.since = max(self.progress.since, result.queue_offset)
                self.progress.end = result.queue_offset + len(messages)
            self._forget_known()
        return count

    def _forget_known(self) -> None:
        self.waiting = [one for one in self.waiting if one[0] > self.progress.done]

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
        return await self.admin.max_offset(address, queue) > self.progress.end

    async def _look(self) -> None:
        await self.progress.look(self.admin, *self.target)

    async def _note(self) -> None:
        await self.progress.note(self.admin, *self.target)
