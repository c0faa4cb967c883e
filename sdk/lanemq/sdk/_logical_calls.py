"""The requests of a consumer group about a logical queue, segment by segment.

A logical queue is a chain of segments on physical queues. Offsets that go in and come out are
logical; brokers are asked for physical ones, and what they answer about a whole physical queue
is cut down to the segment.
Source: RocketMQ 5.0.0-PREVIEW, PullAPIWrapper, MQAdminImpl.
"""

from typing import Final, final

import trio
from msgspec.structs import replace

from lanemq.wire import MASTER_ID, Frame, MessageQueue, RemoteProtocolError
from lanemq.wire.logical import REDIRECT_FIELD, Chain, Redirect, Segment

from ._client import Client
from ._errors import BadAnswer, BrokerUnreachable, RefusedByBroker
from ._log import get_logger
from ._logical_progress import LogicalProgress
from ._queue_calls import (
    FOUND,
    NO_MATCH,
    NOT_FOUND,
    OFFSET_ILLEGAL,
    Pulled,
    PullTerms,
    QueueCalls,
    read_pull,
)

LOGGER = get_logger("lanemq.sdk.logical")

ROUNDS_MAX: Final = 4
"""How often one question is put to a broker, redirects included."""
NOTHING_READABLE_S: Final = 1.0
"""How long to wait before asking whether a queue without any readable segment has one."""


async def follow_redirect(client: Client, topic: str, answer: Frame, address: str) -> None:
    """Learn from an answer that says "ask elsewhere". Raises ``BadAnswer``, or what asking the
    name server for the route raises where the answer does not say where."""
    try:
        redirect = Redirect.decode(answer.body)
    except RemoteProtocolError as error:
        raise BadAnswer(address, f"a request for {topic}", str(error)) from error
    LOGGER.debug("%s redirects for %s: %s", address, topic, redirect)
    if redirect is None:
        await client.routes.refresh(topic)
    else:
        client.routes.redirected(topic, redirect)


@final
class LogicalCalls:
    """Asks the brokers of a logical queue's segments. Every call may raise any ``LanemqError``."""

    def __init__(self, client: Client, queues: QueueCalls) -> None:
        self._client = client
        self._queues = queues
        self.progress = LogicalProgress(client, queues)

    def chain(self, queue: MessageQueue) -> Chain | None:
        """The chain of ``queue``; None if that is a physical one."""
        route = self._client.routes.get(queue.topic)
        return None if route is None else route.chain(queue)

    def _known_chain(self, queue: MessageQueue) -> Chain:
        return self.chain(queue) or Chain(queue.queue_id)

    # Pulling

    async def pull(self, queue: MessageQueue, offset: int, terms: PullTerms) -> Pulled:
        """Read from logical ``offset`` on, from one segment.

        An offset that no segment has (any more) gives ``OFFSET_ILLEGAL`` with the next one that
        can be read. ``terms.commit_offset`` is left out: it would be taken for a physical one.
        """
        terms = replace(terms, commit_offset=None, of_logical_queue=True)
        for _ in range(ROUNDS_MAX):
            place = self._known_chain(queue).locate(offset)
            if place is None:  # everything is gone, and what comes next cannot be read yet
                await trio.sleep(min(terms.suspend_s, NOTHING_READABLE_S))
                await self._client.routes.refresh(queue.topic)
                return Pulled(NOT_FOUND, offset, offset, offset, MASTER_ID, [])
            segment = place.segment
            if not place.is_legal:
                return _illegal(self._known_chain(queue), place.logical_offset)
            answer, address = await self._queues.pull(
                segment.message_queue, place.queue_offset, terms
            )
            if REDIRECT_FIELD not in answer.fields:
                return _logical(read_pull(answer, address), segment, offset)
            await follow_redirect(self._client, queue.topic, answer, address)
            await self._client.introduce()  # it may be a broker that does not know the group yet
        raise RefusedByBroker(NO_MATCH, f"redirect after redirect for {queue}", address)

    # Offsets

    async def max_offset(self, queue: MessageQueue) -> int:
        """The logical offset that the next message will get, as far as can be told now."""
        is_fresh = False
        for _ in range(ROUNDS_MAX):
            chain = self._known_chain(queue)
            segment = _last_placed(chain)
            if segment is None:
                return chain.known_end
            if segment.is_sealed:
                if is_fresh:  # it is being migrated, or closed: this is its end
                    return segment.next_delta
                await self._client.routes.refresh(queue.topic)
                is_fresh = True
                continue
            found, answer = await self._queues.max_offset_of_part(segment.message_queue)
            if REDIRECT_FIELD not in answer.fields:
                return segment.to_logical(max(segment.clamp_max(found), segment.offset_delta))
            # It goes on elsewhere. The answer says no more; what is known may be older than it.
            await self._client.routes.refresh(queue.topic)
            is_fresh = True
            if _last_placed(self._known_chain(queue)) == segment:
                return segment.to_logical(max(found, segment.offset_delta))
        raise BrokerUnreachable(str(queue), "it is on the move; its end could not be found out")

    async def min_offset(self, queue: MessageQueue) -> int:
        """The oldest logical offset that there is a message for; the end where there is none."""
        chain = self._known_chain(queue)
        for segment in chain.readable:
            found = segment.clamp_min(await self._queues.min_offset(segment.message_queue))
            if segment.keeps(found):
                return segment.to_logical(found)
        return chain.known_end

    async def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The logical offset of the first message stored at ``timestamp_ms`` or later, as the
        broker of its segment finds it; the end if there is none."""
        chain = self._known_chain(queue)
        end = chain.known_end
        for segment in chain.readable:
            if segment.is_sealed and 0 < segment.last_time_ms < timestamp_ms:
                continue
            found = segment.clamp_min(
                await self._queues.offset_at(segment.message_queue, timestamp_ms)
            )
            if segment.keeps(found):
                return segment.to_logical(found)
        return end


def _last_placed(chain: Chain) -> Segment | None:
    placed = [s for s in chain if s.delta >= 0 and (s.is_readable or s.is_writable)]
    return placed[-1] if placed else None


def _illegal(chain: Chain, next_offset: int) -> Pulled:
    end = chain.end_offset
    highest = next_offset if end is None else end
    return Pulled(OFFSET_ILLEGAL, next_offset, chain.min_offset, highest, MASTER_ID, [])


def _logical(pulled: Pulled, segment: Segment, asked: int) -> Pulled:
    """What a broker said of a physical queue, as it is in the logical one."""
    low = segment.to_logical(segment.clamp_min(pulled.min_offset))
    high = segment.to_logical(max(segment.clamp_max(pulled.max_offset), segment.offset_delta))
    next_offset = segment.to_logical(
        max(segment.clamp_max(pulled.next_offset), segment.offset_delta)
    )
    code, messages = pulled.code, pulled.messages
    if code != OFFSET_ILLEGAL:  # PREVIEW says -1 where it has nothing better
        next_offset = max(next_offset, asked)
    if code == FOUND:
        messages = [message for message in messages if segment.keeps(message.queue_offset)]
        if not messages:  # all that was found lies behind the segment's end
            code = NO_MATCH
    elif next_offset == asked:
        # Illegal on the physical queue only; or PREVIEW's way to say "retry at once" for ever.
        code = NOT_FOUND
    return Pulled(
        code,
        next_offset,
        low,
        high,
        pulled.suggested_broker_id,
        messages,
        segment.message_queue,
        segment.delta - segment.offset_delta,
    )
