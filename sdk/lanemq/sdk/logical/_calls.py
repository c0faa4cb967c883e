"""The requests of a consumer group about a logical queue, segment by segment.

A logical queue is a chain of segments on physical queues. Offsets that go in and come out are
logical; brokers are asked for physical ones, and what they answer about a whole physical queue
is cut down to the segment.
Source: RocketMQ 5.0.0-PREVIEW, PullAPIWrapper, MQAdminImpl.
"""

from collections.abc import Callable, Hashable
from typing import Final, final

import trio
from msgspec.structs import replace

from lanemq.wire import RemoteProtocolError
from lanemq.wire.bodies import MASTER_ID, MessageQueue
from lanemq.wire.frame import Frame
from lanemq.wire.logical import (
    NOTHING_READABLE_S,
    REDIRECT_FIELD,
    Ask,
    Asked,
    Boundary,
    Chain,
    Confirmed,
    Conversation,
    GoesOn,
    LookAgain,
    LookForReader,
    Moving,
    NothingYet,
    PullAsk,
    PullFrom,
    PullOutcome,
    PullReply,
    PullStep,
    ReaderAt,
    ReaderPositions,
    Redirect,
    Redirected,
    Reply,
    SearchByTime,
    Segment,
    Step,
    Taken,
    Told,
    converse,
    max_offset,
    min_offset,
    translate,
)

from .._errors import BadAnswer, BrokerUnreachable, LanemqError, RefusedByBroker
from ..consumer.requests._queue_calls import (
    FOUND,
    NO_MATCH,
    NOT_FOUND,
    OFFSET_ILLEGAL,
    Pulled,
    PullTerms,
    QueueCalls,
    read_pull,
)
from ..net._client import Client
from ..observe._log import get_logger
from ._progress import ProgressCalls

LOGGER = get_logger("lanemq.sdk.logical")

QUEUES_MAX: Final = 100_000
"""Queues whose places are remembered, at most; more than any consumer has."""


async def follow_redirect(client: Client, topic: str, answer: Frame, address: str) -> None:
    """Learn from an answer that says "ask elsewhere". Raises ``BadAnswer``, or what asking the
    name server for the route raises where the answer does not say where."""
    try:
        redirect = Redirect.decode(answer.body)
    except RemoteProtocolError as error:
        raise BadAnswer(address, f"a request for {topic}", str(error)) from error
    LOGGER.debug("%s redirects for %s: %s", address, topic, redirect)
    await client.routes.redirected(topic, redirect)


@final
class LogicalCalls:
    """Asks the brokers of a logical queue's segments. Every call may raise any ``LanemqError``."""

    def __init__(self, client: Client, queues: QueueCalls) -> None:
        self._client = client
        self._queues = queues
        self._progress = ProgressCalls(client, queues)
        self._places: ReaderPositions[MessageQueue] = ReaderPositions(QUEUES_MAX)

    def chain(self, queue: MessageQueue) -> Chain | None:
        """Return the chain of ``queue``; None if that is a physical one."""
        route = self._client.routes.get(queue.topic)
        return None if route is None else route.chain(queue)

    def _known_chain(self, queue: MessageQueue) -> Chain:
        return self.chain(queue) or Chain(queue.queue_id)

    # Progress

    async def committed_offset(self, queue: MessageQueue) -> int | None:
        """Return the logical offset where the group resumes, or None if it never committed."""
        return await self._progress.committed_offset(queue)

    async def commit_offset(self, queue: MessageQueue, offset: int, *, wait: bool) -> None:
        """Store the group's progress; unless ``wait``, without an answer."""
        reached = self._places.reached(queue, offset)
        if reached is not None:
            offset = reached.worth(offset, self._known_chain(queue))
        await self._progress.commit_offset(queue, offset, wait=wait, reached=reached)

    def keeper(self, queue: MessageQueue) -> str:
        """Return the address of the broker that keeps progress now. Raises
        ``BrokerUnreachable``."""
        return self._progress.keeping(queue).address

    def progress_key(self, queue: MessageQueue) -> Hashable:
        """Return the name under which progress is kept: it moves along with the queue."""
        try:
            return self._progress.keeping(queue).queue
        except LanemqError:
            return None  # the commit will say what is wrong

    # Pulling

    async def pull(self, queue: MessageQueue, offset: int, terms: PullTerms) -> Pulled:
        """Read from logical ``offset`` on, from one segment.

        An offset that no segment has (any more) gives ``OFFSET_ILLEGAL`` with the next one that
        can be read, and so does one that was reached behind the place at which the queue has gone
        on elsewhere: other messages are there now. ``terms.commit_offset`` is left out: it would be
        taken for a physical one.
        """
        routes = self._client.routes
        conversation = PullFrom(queue, offset, self._places).steps(self._known_chain(queue))
        try:
            step = next(conversation)
            while True:
                reply: PullReply
                match step:
                    case PullAsk(located):
                        answer, address = await self._queues.pull_answer(
                            located.segment.message_queue,
                            located.queue_offset,
                            replace(terms, commit_offset=None, meant=located.segment.meant),
                        )
                        reply = Taken()
                        if REDIRECT_FIELD in answer.fields:
                            await follow_redirect(self._client, queue.topic, answer, address)
                            # It may be a broker that does not know the group yet.
                            await self._client.introduce()
                            reply = Redirected(self._known_chain(queue))
                    case PullStep.CONFIRM:
                        is_told = await routes.confirm(queue.topic, queue.queue_id)
                        reply = Confirmed(self._known_chain(queue), is_told)
                    case LookForReader():
                        reply = ReaderAt(None)
                step = conversation.send(reply)
        except StopIteration as end:
            outcome: PullOutcome = end.value
        match outcome:
            case PullAsk(located):
                told = read_pull(answer, address, terms.batch)
                pulled = _logical(told, located.segment, offset)
                self._places.note(queue, located.segment, pulled.next_offset)
                return pulled
            case GoesOn(begin, chain):
                return _illegal(chain, offset, begin)
            case NothingYet(_, is_redirected) if not is_redirected:
                return await self._nothing_yet(queue, offset, terms)
        raise RefusedByBroker(NO_MATCH, f"redirect after redirect for {queue}", address)

    async def _nothing_yet(self, queue: MessageQueue, offset: int, terms: PullTerms) -> Pulled:
        await trio.sleep(min(terms.suspend_s, NOTHING_READABLE_S))
        await self._client.routes.refresh(queue.topic)
        return Pulled(NOT_FOUND, offset, offset, offset, MASTER_ID, [])

    # Offsets

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the logical offset that the next message will get, as far as can be told now."""
        return await self._outcome(queue, max_offset)

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the oldest logical offset that there is a message for; the end where there is
        none."""
        return await self._outcome(queue, min_offset)

    async def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the logical offset of the first message stored at ``timestamp_ms`` or later; the
        end if there is none."""
        return await self._outcome(queue, SearchByTime(timestamp_ms, Boundary.LOWER).steps)

    async def _outcome(
        self, queue: MessageQueue, steps: Callable[[Chain], Conversation[int]]
    ) -> int:
        """Hold a conversation with the brokers of a logical queue."""

        async def answer(step: Step) -> Reply:
            if isinstance(step, LookAgain):
                await self._client.routes.refresh(queue.topic)
                return self._known_chain(queue)
            return await self._told(step)

        try:
            return await converse(steps(self._known_chain(queue)), answer)
        except Moving as error:
            raise BrokerUnreachable(str(queue), error.remark) from error

    async def _told(self, step: Ask) -> Told:
        """Ask the broker of a segment."""
        queue = step.segment.message_queue
        match step.asked:
            case Asked.MIN_OFFSET:
                return Told(await self._queues.min_offset(queue))
            case Asked.MAX_OFFSET:
                end, answer = await self._queues.max_offset_of_part(queue)
                return Told(end, REDIRECT_FIELD in answer.fields)
            case Asked.OFFSET_AT:
                boundary = step.boundary.value or None
                return Told(await self._queues.offset_at(queue, step.timestamp_ms, boundary))
            case Asked.EARLIEST_TIME:
                raise AssertionError("clients have no use for the time of the first message")


def _illegal(chain: Chain, asked: int, go_on_at: int) -> Pulled:
    seen = translate.nothing_at(go_on_at, chain)
    return Pulled(
        OFFSET_ILLEGAL,
        seen.next_offset,
        seen.min_offset,
        seen.max_offset,
        MASTER_ID,
        [],
        is_gap=seen.next_offset > asked,
    )


def _logical(pulled: Pulled, segment: Segment, asked: int) -> Pulled:
    """Translate a broker's answer about a physical queue to the logical one."""
    told = translate.Numbers(pulled.next_offset, pulled.min_offset, pulled.max_offset)
    code, messages = pulled.code, pulled.messages
    if code == FOUND:
        messages = [message for message in messages if segment.keeps(message.queue_offset)]
        if not messages:  # all that was found lies behind the segment's end
            code = NO_MATCH
    code, seen = translate.pulled(code, told, segment, asked)
    return Pulled(
        code,
        seen.next_offset,
        seen.min_offset,
        seen.max_offset,
        pulled.suggested_broker_id,
        messages,
        segment.message_queue,
        segment.shift,
        is_gap=code == OFFSET_ILLEGAL and seen.next_offset > asked,
    )
