"""The commands of a pull consumer: one request at a time, of one queue."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from lanemq.sdk import (
    LitePullConsumer,
    LitePullOptions,
    MessageQueue,
    ReceivedMessage,
    open_lite_pull_consumer,
)
from lanemq.sdk.consumer._group_calls import GroupCalls
from lanemq.sdk.consumer._queue_calls import FOUND, NO_MATCH, NOT_FOUND, OFFSET_ILLEGAL, PullTerms
from lanemq.wire.bodies import MASTER_ID, SubscriptionData

from ..clients._messages import Pulled
from ._session import Command, Session
from ._shapes import Arguments, client_options, delivered

PULL_STATUS = {
    FOUND: "FOUND",
    NOT_FOUND: "NO_NEW_MSG",
    NO_MATCH: "NO_MATCHED_MSG",
    OFFSET_ILLEGAL: "OFFSET_ILLEGAL",
}
PULL_S = 10.0


@dataclass(frozen=True, slots=True)
class OpenPuller:
    """A consumer whose parts the harness uses directly: one request at a time."""

    consumer: LitePullConsumer

    @property
    def calls(self) -> GroupCalls:
        """The requests of its group."""
        return self.consumer._open.calls


async def _open_puller(session: Session, arguments: Arguments) -> object:
    address, group = arguments["name_server"], arguments["group"]
    options = LitePullOptions(auto_commit=False, client=client_options(arguments))

    @asynccontextmanager
    async def opening() -> AsyncIterator[OpenPuller]:
        async with open_lite_pull_consumer(
            group, name_servers=address, options=options
        ) as consumer:
            yield OpenPuller(consumer)

    await session.open(arguments["name"], opening())
    return True


async def _queues(session: Session, arguments: Arguments) -> object:
    puller: OpenPuller = session.get(arguments["puller"])
    return sorted(q.queue_id for q in await puller.consumer.queues_of(arguments["topic"]))


async def _queue(session: Session, arguments: Arguments) -> tuple[OpenPuller, MessageQueue]:
    puller: OpenPuller = session.get(arguments["puller"])
    queues = await puller.consumer.queues_of(arguments["topic"])
    return puller, next(queue for queue in queues if queue.queue_id == arguments["queue_id"])


async def _pull(session: Session, arguments: Arguments) -> object:
    puller, queue = await _queue(session, arguments)
    calls, tags = puller.calls, arguments["tags"]
    wanted = SubscriptionData.of_tags(queue.topic, tags)
    terms = PullTerms(
        subscription=wanted,
        post_subscription=True,
        commit_offset=None,
        broker_id=MASTER_ID,
        batch=arguments["max_count"],
        suspend_s=0.0,
        timeout_s=PULL_S,
    )
    pulled = await calls.of(queue).pull(queue, arguments["queue_offset"], terms)
    found = [
        delivered(ReceivedMessage(stored, queue, "", pulled.origin, pulled.shift))
        for stored in pulled.messages
        if not wanted.tags_set or stored.tags in wanted.tags_set
    ]
    return Pulled(
        status=PULL_STATUS[pulled.code],
        next_offset=pulled.next_offset,
        min_offset=await calls.of(queue).min_offset(queue),
        max_offset=await calls.of(queue).max_offset(queue),
        messages=found,
    )


async def _min_offset(session: Session, arguments: Arguments) -> object:
    puller, queue = await _queue(session, arguments)
    return await puller.calls.of(queue).min_offset(queue)


async def _max_offset(session: Session, arguments: Arguments) -> object:
    puller, queue = await _queue(session, arguments)
    return await puller.calls.of(queue).max_offset(queue)


async def _search_offset(session: Session, arguments: Arguments) -> object:
    puller, queue = await _queue(session, arguments)
    return await puller.calls.of(queue).offset_at(queue, arguments["timestamp_ms"])


async def _commit_offset(session: Session, arguments: Arguments) -> object:
    puller, queue = await _queue(session, arguments)
    await puller.calls.commit_offset(queue, arguments["queue_offset"], wait=True)
    return True


async def _committed_offset(session: Session, arguments: Arguments) -> object:
    puller, queue = await _queue(session, arguments)
    committed = await puller.consumer.committed(queue)
    return -1 if committed is None else committed


COMMANDS: dict[str, Command] = {
    "open_puller": _open_puller,
    "queues": _queues,
    "pull": _pull,
    "min_offset": _min_offset,
    "max_offset": _max_offset,
    "search_offset": _search_offset,
    "commit_offset": _commit_offset,
    "committed_offset": _committed_offset,
}
