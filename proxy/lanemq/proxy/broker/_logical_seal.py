"""Sealing: the end of a segment is found, and never moves again (414).

First no writer is let in any more; then those that are in are waited for, and the disk. What is
published then is durable, and so is every message before it. If that takes too long, or fails,
or the broker stops, the segment is as open as before.

Source: RocketMQ 5.0.0-PREVIEW, AdminBrokerProcessor (sealLogicalQueueRouteData).
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import trio

from lanemq.storage import StoreUnwritable
from lanemq.wire import Frame, RequestCode
from lanemq.wire.logical import SealLogicalQueue, Segment, SegmentState

from .._dispatch import Handlers
from .._session import Session
from ..logical import IN_PROGRESS, refusal
from ._context import BrokerContext
from ._logical_mapping import decoded, existing

LOGGER = logging.getLogger("lanemq.proxy.broker.logical")

TIMEOUT: Final = "seal timeout"
ALREADY_SEALED: Final = "message queue already sealed"


@asynccontextmanager
async def sealing(broker: BrokerContext, segment: Segment) -> AsyncIterator[Segment]:
    """Keep an own open segment closed for the length of the block, which publishes it sealed.

    Gives the segment as it is to be published. Raises ``Refused`` (seal timeout, or what the
    disk says); the segment is open again then.
    """
    logical, counters = broker.logical, broker.logical.counters
    key = segment.topic, segment.queue_id
    await _mostly_flushed(broker)
    started_s = trio.current_time()
    if logical.gate.is_closed(key):
        raise refusal(IN_PROGRESS)
    with logical.gate.closed(key):
        counters.in_flight_at_seal_max = max(
            counters.in_flight_at_seal_max, logical.gate.in_flight(key)
        )
        try:
            await _at_rest(broker, segment)
        except BaseException:
            counters.seals_failed += 1
            raise
        yield as_sealed(broker, segment)
        took_ms = round((trio.current_time() - started_s) * 1000)
        counters.seals += 1
        counters.seal_ms_max = max(counters.seal_ms_max, took_ms)
        LOGGER.info("%s sealed in %d ms", segment, took_ms)


async def _mostly_flushed(broker: BrokerContext) -> None:
    """Have the disk take what there is while writers still go on: then they wait for less."""
    timeout_s = broker.config.logical_queue_seal_timeout / 1000
    with trio.move_on_after(timeout_s), suppress(StoreUnwritable):  # the seal will meet it again
        await broker.store.flushed(broker.store.max_position)


async def _at_rest(broker: BrokerContext, segment: Segment) -> None:
    """Wait until nobody writes to a closed queue, and all that it has is durable."""
    key = segment.topic, segment.queue_id
    timeout_s = broker.config.logical_queue_seal_timeout / 1000
    with trio.move_on_after(timeout_s) as waiting:
        await broker.logical.gate.idle(key)
        try:
            await broker.store.flushed(broker.store.max_position)
        except StoreUnwritable as error:
            raise refusal(f"the queue cannot be sealed: {error}") from error
    if waiting.cancelled_caught:
        raise refusal(TIMEOUT)


def as_sealed(broker: BrokerContext, segment: Segment, *, offset_max: int | None = None) -> Segment:
    """An own segment with its end: that of its queue, or the one that is given."""
    topic, queue_id = segment.topic, segment.queue_id
    store = broker.store
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
    if broker.logical.is_removed(sealed):
        return sealed.with_state(SegmentState.EXPIRED)
    return sealed


def register(handlers: Handlers, broker: BrokerContext) -> None:
    """SEAL_TOPIC_LOGICAL_QUEUE (414), which leaves a logical queue without an open end."""
    logical = broker.logical

    async def seal(frame: Frame, session: Session) -> Frame:
        asked = decoded(SealLogicalQueue, frame)
        topic, queue_id, index = asked.topic, asked.queue_id, asked.logical_index
        existing(broker, topic)
        async with logical.operation(topic, index, ("seal", queue_id)):
            segment = open_segment(topic, queue_id, index)
            if segment.is_sealed:
                return frame.reply(body=segment.encode(), remark=ALREADY_SEALED)
            async with sealing(broker, segment) as sealed:
                await logical.change(topic, lambda mapping: mapping.put(sealed))
        logical.note_expired(sealed)
        await broker.announced()
        return frame.reply(body=sealed.encode())

    def open_segment(topic: str, queue_id: int, index: int) -> Segment:
        """The segment to seal; the last one that is sealed where none is open."""
        mapping = logical.get(topic)
        if mapping is None or index not in mapping.chains:
            raise refusal("logical queue not exist")
        own = [s for s in mapping.of_queue(queue_id) if s.logical_index == index]
        if not own:
            raise refusal("message queue not exist")
        return next((segment for segment in own if segment.is_writable), own[-1])

    handlers.add(RequestCode.SEAL_TOPIC_LOGICAL_QUEUE, seal)
