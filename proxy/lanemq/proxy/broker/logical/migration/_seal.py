"""Sealing (414): fixes the end of a segment for ever.

First no writer is let in any more; then those that are in are waited for, and the disk. What is
published then is durable, and so is every message before it. If that takes too long, or fails,
or the broker stops, the segment is as open as before.

Source: RocketMQ 5.0.0-PREVIEW, AdminBrokerProcessor (sealLogicalQueueRouteData).
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, Self, final

import trio
from attrs import define

from lanemq.local import get_logger
from lanemq.storage import Store, StoreUnwritable
from lanemq.wire import RequestCode
from lanemq.wire.frame import Frame
from lanemq.wire.logical import MIGRATION_IN_PROGRESS, SealLogicalQueue, Segment, SegmentState

from ....logical.rules._refusals import refusal
from ....net._dispatch import Handlers
from ....net._session import Session
from ...context._context import BrokerContext
from ...settings._config import BrokerConfig
from ...state._topics import Topics
from ..state._state import LogicalState
from ._requests import decoded, existing, require_no_partitions

LOGGER = get_logger("lanemq.proxy.broker.logical", by_peers=True)

TIMEOUT: Final = "seal timeout"
ALREADY_SEALED: Final = "message queue already sealed"


@final
class Seals:
    """The sealing of one broker's segments."""

    def __init__(self, *, config: BrokerConfig, logical: LogicalState, store: Store) -> None:
        self._config = config
        self._logical = logical
        self._store = store

    @asynccontextmanager
    async def sealing(self, segment: Segment) -> AsyncIterator[Segment]:
        """Keep an own open segment closed for the length of the block, which publishes it sealed.

        Gives the segment as it is to be published; one that is sealed already as it is. Raises
        ``Refused`` (seal timeout, or what the disk says); the segment is open again then.
        """
        if segment.is_sealed:
            yield segment
            return
        logical, counters = self._logical, self._logical.counters
        key = segment.topic, segment.queue_id
        await self._mostly_flushed()
        started_s = trio.current_time()
        if logical.gate.is_closed(key):
            raise refusal(MIGRATION_IN_PROGRESS)
        with logical.gate.closed(key):
            counters.in_flight_at_seal_max = max(
                counters.in_flight_at_seal_max, logical.gate.in_flight(key)
            )
            try:
                await self._at_rest(segment)
            except BaseException:  # a caller that gives up is a seal that failed, too
                counters.seals_failed += 1
                raise
            yield self.as_sealed(segment)
            took_ms = round((trio.current_time() - started_s) * 1000)
            counters.seals += 1
            counters.seal_ms_max = max(counters.seal_ms_max, took_ms)
            LOGGER.info("%s sealed in %d ms", segment, took_ms)

    async def _mostly_flushed(self) -> None:
        """Flush while writers still go on, so that they have less to wait for."""
        timeout_s = self._config.logical_queue_seal_timeout / 1000
        # A disk that fails will fail the seal, too.
        with trio.move_on_after(timeout_s), suppress(StoreUnwritable):
            await self._store.flushed(self._store.max_position)

    async def _at_rest(self, segment: Segment) -> None:
        """Wait until a closed queue has no writers, and its messages are durable."""
        key = segment.topic, segment.queue_id
        timeout_s = self._config.logical_queue_seal_timeout / 1000
        with trio.move_on_after(timeout_s) as waiting:
            await self._logical.gate.idle(key)
            try:
                await self._store.flushed(self._store.max_position)
            except StoreUnwritable as error:
                raise refusal(f"the queue cannot be sealed: {error}") from error
        if waiting.cancelled_caught:
            raise refusal(TIMEOUT)

    def as_sealed(self, segment: Segment, *, offset_max: int | None = None) -> Segment:
        """Return an own segment sealed at its queue's end, or at the given one."""
        topic, queue_id = segment.topic, segment.queue_id
        store = self._store
        begin, end = store.bounds(topic, queue_id)
        if offset_max is not None:
            end = offset_max
        end = max(end, segment.offset_delta)
        first = segment.clamp_min(begin)
        sealed = segment.sealed(
            end,
            first_time_ms=max(0, store.store_time_ms(topic, queue_id, first)),
            last_time_ms=max(0, store.store_time_ms(topic, queue_id, end - 1)),
        )
        if self._logical.is_removed(sealed):
            return sealed.with_state(SegmentState.EXPIRED)
        return sealed


@define(eq=False, kw_only=True, repr=False)
class SealingRequests:
    """The base of requests that may close segments, and tell the name servers of it."""

    _announced: Callable[[], Awaitable[None]]
    _logical: LogicalState
    _seals: Seals
    _topics: Topics

    @classmethod
    def of(cls, broker: BrokerContext, seals: Seals) -> Self:
        """Return the requests to ``broker``."""
        return cls(
            announced=broker.announced,
            logical=broker.logical,
            seals=seals,
            topics=broker.topics,
        )


@final
class SealRequests(SealingRequests):
    """The request to seal a segment."""

    async def seal(self, frame: Frame, session: Session) -> Frame:
        """Leave a logical queue without an open end."""
        asked = decoded(SealLogicalQueue, frame)
        topic, queue_id, index = asked.topic, asked.queue_id, asked.logical_index
        existing(self._topics, topic)
        require_no_partitions(topic)
        async with self._logical.operation(topic, index, ("seal", queue_id)):
            segment = self._open_segment(topic, queue_id, index)
            if segment.state is SegmentState.WRITE_ONLY:
                raise refusal(
                    f"logical queue {index} is being migrated to message queue {queue_id}: "
                    "resume that, or abort it"
                )
            if segment.is_sealed:
                return frame.reply(body=segment.encode(), remark=ALREADY_SEALED)
            async with self._seals.sealing(segment) as sealed:
                await self._logical.change(topic, lambda mapping: mapping.put(sealed))
        await self._announced()
        return frame.reply(body=sealed.encode())

    def _open_segment(self, topic: str, queue_id: int, index: int) -> Segment:
        """Return the segment to seal; the last sealed one where none is open."""
        mapping = self._logical.get(topic)
        if mapping is None or index not in mapping.queues:
            raise refusal("logical queue not exist")
        own = [s for s in mapping.of_queue(queue_id) if s.logical_index == index]
        if not own:
            raise refusal("message queue not exist")
        return next((segment for segment in own if segment.is_writable), own[-1])


def register(handlers: Handlers, broker: BrokerContext, *, seals: Seals) -> None:
    """Register SEAL_TOPIC_LOGICAL_QUEUE (414)."""
    requests = SealRequests.of(broker, seals)
    handlers.add(RequestCode.SEAL_TOPIC_LOGICAL_QUEUE, requests.seal)
