"""Single pulls: requests of a consumer group about one queue, without a consumer that goes on.

For tools that want one answer of a broker at a time, and its code; applications use
`lanemq.sdk.open_lite_pull_consumer`. On trio only.

Source: RocketMQ 4.9.8, DefaultMQPullConsumer.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Unpack, final

from lanemq.wire.bodies import MASTER_ID, MessageQueue, SubscriptionData

from ._lite_pull import LitePullConsumer, open_lite_pull_consumer
from ._messages import ReceivedMessage
from ._options import LitePullOptions
from ._pull_status import PULL_STATUS, PullStatus
from ._unpacking import unpack
from ._values import check_seconds, check_whole
from .consumer.requests._queue_calls import PullTerms
from .net._discovery import NameServersLike
from .net._link import Dial
from .net._remoting import dial_tcp
from .opening._settings import LitePullSettings

__all__ = ["PullResult", "PullStatus", "Puller", "open_puller"]


@dataclass(frozen=True, slots=True)
class PullResult:
    """The result of a pull. Offsets count messages."""

    status: PullStatus
    next_offset: int
    messages: list[ReceivedMessage]
    """Those that match; the broker looks only at the hash codes of tags."""


@final
class Puller:
    """Requests of one group, each about one queue; made by ``open_puller``.

    Every method may raise any ``LanemqError``.
    """

    def __init__(self, consumer: LitePullConsumer) -> None:
        self._consumer = consumer
        self._calls = consumer._open.calls

    async def queues_of(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return all queues of ``topic`` that can be read, sorted. Raises ``NoRoute``."""
        return await self._consumer.queues_of(topic)

    async def pull(
        self, queue: MessageQueue, offset: int, *, tags: str, max_count: int, timeout_s: float
    ) -> PullResult:
        """Read from ``offset`` on; the broker answers at once, also where it finds nothing.

        ``tags`` is ``"*"``, ``"A"`` or ``"A || B"``.
        """
        check_seconds("timeout_s", timeout_s)
        check_whole("max_count", max_count, least=1)
        wanted = SubscriptionData.of_tags(queue.topic, tags)
        terms = PullTerms(
            subscription=wanted,
            post_subscription=True,
            commit_offset=None,
            broker_id=MASTER_ID,
            batch=max_count,
            suspend_s=0.0,
            timeout_s=timeout_s,
        )
        pulled = await self._calls.of(queue).pull(queue, offset, terms)
        limit = self._consumer._options.body_bytes_max
        messages = [
            ReceivedMessage(stored, queue, "", pulled.origin, pulled.shift, limit)
            for stored in pulled.messages
            if not wanted.tags_set or stored.tags in wanted.tags_set
        ]
        await unpack(messages)
        return PullResult(PULL_STATUS[pulled.code], pulled.next_offset, messages)

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the oldest offset that there is a message for; 0 for a queue never written."""
        return await self._calls.of(queue).min_offset(queue)

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the next message will get."""
        return await self._calls.of(queue).max_offset(queue)

    async def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return an offset next to the first message stored at ``timestamp_ms`` or later."""
        return await self._calls.of(queue).offset_at(queue, timestamp_ms)

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Store the group's progress at the broker: ``offset`` is the next to be read."""
        await self._calls.commit_offset(queue, offset, wait=True)

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the offset that the group committed last; None if it never did."""
        return await self._consumer.committed(queue)


@asynccontextmanager
async def open_puller(
    group: str,
    *,
    name_servers: NameServersLike = None,
    options: LitePullOptions | None = None,
    dial: Dial = dial_tcp,
    **settings: Unpack[LitePullSettings],
) -> AsyncIterator[Puller]:
    """Open the requests of a group, which reads nothing by itself. No namespaces.

    Raises ``InvalidName``.
    """
    async with open_lite_pull_consumer(
        group, name_servers=name_servers, options=options, dial=dial, **settings
    ) as consumer:
        yield Puller(consumer)
