"""The commands of the SDK's driver, each a few calls of lanemq.sdk.

``python -m lanemq.compat._python_commands`` runs the driver.
"""

from base64 import b64decode
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio
from msgspec.structs import replace

from lanemq.sdk import (
    ClientOptions,
    ConcurrentListener,
    ConsumeFrom,
    Expression,
    LitePullConsumer,
    LitePullOptions,
    Message,
    MessageModel,
    MessageQueue,
    OrderlyListener,
    Outcome,
    Producer,
    ProducerOptions,
    PushOptions,
    ReceivedMessage,
    SendResult,
    SendStatus,
    Sql,
    StagedConcurrentListener,
    open_lite_pull_consumer,
    open_producer,
    open_push_consumer,
)
from lanemq.sdk._group_calls import GroupCalls
from lanemq.sdk._queue_calls import FOUND, NO_MATCH, NOT_FOUND, OFFSET_ILLEGAL, PullTerms
from lanemq.sdk.admin import AdminClient, open_admin
from lanemq.wire import MASTER_ID, StoredMessage, SubscriptionData

from ._messages import Outgoing, Pulled, Received, Sent
from ._python_driver import Command, Session, serve

SEND_S = 15.0  # many clients share a small machine
JAVA_STATUS = {
    SendStatus.OK: "SEND_OK",
    SendStatus.FLUSH_DISK_TIMEOUT: "FLUSH_DISK_TIMEOUT",
    SendStatus.FLUSH_SLAVE_TIMEOUT: "FLUSH_SLAVE_TIMEOUT",
    SendStatus.SLAVE_NOT_AVAILABLE: "SLAVE_NOT_AVAILABLE",
}
PULL_STATUS = {
    FOUND: "FOUND",
    NOT_FOUND: "NO_NEW_MSG",
    NO_MATCH: "NO_MATCHED_MSG",
    OFFSET_ILLEGAL: "OFFSET_ILLEGAL",
}
PULL_S = 10.0
Arguments = dict[str, Any]


@dataclass(frozen=True, slots=True)
class OpenProducer:
    """A producer, and the administrator's client for its queries."""

    producer: Producer
    admin: AdminClient


@dataclass(frozen=True, slots=True)
class OpenPuller:
    """A consumer, of which the harness uses what it is made of: one request at a time."""

    consumer: LitePullConsumer

    @property
    def calls(self) -> GroupCalls:
        """The requests of its group."""
        return self.consumer._open.calls


def _client(arguments: Arguments) -> ClientOptions:
    return ClientOptions(instance=arguments["name"], heartbeat_interval_s=2.0, route_refresh_s=1.0)


def _message(described: Arguments) -> Message:
    out = Outgoing(**{**described, "body": b64decode(described["body"])})
    return Message(
        topic=out.topic,
        body=out.body,
        tags=out.tags or "",
        keys=tuple((out.keys or "").split()),
        properties=out.properties,
        flag=out.flag,
        delay_level=out.delay_level,
    )


def _sent(result: SendResult) -> Sent:
    return Sent(
        status=JAVA_STATUS[result.status],
        message_id=result.message_id,
        offset_id=result.offset_id,
        queue_id=result.queue.queue_id,
        queue_offset=result.queue_offset,
        broker_name=result.queue.broker_name,
        origin_broker=None if result.origin is None else result.origin.broker_name,
        origin_queue_id=None if result.origin is None else result.origin.queue_id,
    )


def _received(stored: StoredMessage, topic: str | None = None) -> Received:
    properties = dict(stored.properties)
    return Received(
        topic=topic or stored.topic,
        body=stored.decompressed_body(),
        flag=stored.flag,
        properties=properties,
        queue_id=stored.queue_id,
        queue_offset=stored.queue_offset,
        reconsume_times=stored.reconsume_times,
        message_id=properties.get("UNIQ_KEY") or stored.offset_id,
        offset_id=stored.offset_id,
        born_timestamp_ms=stored.born_timestamp_ms,
        store_timestamp_ms=stored.store_timestamp_ms,
        tags=properties.get("TAGS"),
        keys=properties.get("KEYS"),
    )


def _delivered(message: ReceivedMessage) -> Received:
    """A message as a consumer got it: of a logical queue, if it was read from one."""
    queue = message.queue
    return replace(
        _received(message.stored, message.topic),
        queue_id=queue.queue_id,
        queue_offset=message.queue_offset,
        broker_name=queue.broker_name,
    )


async def _open_producer(session: Session, arguments: Arguments) -> object:
    limit = arguments.get("max_message_bytes", ProducerOptions().message_bytes_max)
    options = ProducerOptions(
        send_timeout_s=SEND_S, message_bytes_max=limit, client=_client(arguments)
    )

    @asynccontextmanager
    async def opening() -> AsyncIterator[OpenProducer]:
        address = arguments["name_server"]
        async with (
            open_producer(arguments["group"], name_servers=address, options=options) as producer,
            open_admin(name_servers=address) as admin,
        ):
            yield OpenProducer(producer, admin)

    await session.open(arguments["name"], opening())
    return True


async def _close(session: Session, arguments: Arguments) -> object:
    await session.close(arguments["name"])
    return True


async def _send(session: Session, arguments: Arguments) -> object:
    producer: Producer = session.get(arguments["producer"]).producer
    message = _message(arguments["message"])
    queue = None
    if "queue_id" in arguments:
        queues = await producer.publish_queues(message.topic)
        queue = next(queue for queue in queues if queue.queue_id == arguments["queue_id"])
    if arguments["mode"] == "oneway":
        await producer.send_oneway(message, queue=queue)
        return None
    return _sent(await producer.send(message, queue=queue))


async def _send_batch(session: Session, arguments: Arguments) -> object:
    producer: Producer = session.get(arguments["producer"]).producer
    return _sent(await producer.send_batch([_message(one) for one in arguments["messages"]]))


async def _query_by_key(session: Session, arguments: Arguments) -> object:
    admin: AdminClient = session.get(arguments["producer"]).admin
    found = await admin.messages_by_key(
        arguments["topic"],
        arguments["key"],
        max_count=arguments["max_count"],
        begin_ms=arguments["begin_ms"],
        end_ms=arguments["end_ms"],
    )
    return [_received(message) for message in found]


async def _query_by_unique_key(session: Session, arguments: Arguments) -> object:
    admin: AdminClient = session.get(arguments["producer"]).admin
    found = await admin.messages_by_unique_key(arguments["topic"], arguments["message_id"])
    if not found:
        raise LookupError("no message with that unique key")
    return _received(found[0])


async def _view_message(session: Session, arguments: Arguments) -> object:
    admin: AdminClient = session.get(arguments["producer"]).admin
    found = await admin.message(arguments["offset_id"])
    if found is None:
        raise LookupError("no message at that offset id")
    return _received(found)


def _expression(arguments: Arguments) -> Expression:
    return Sql(arguments["sql"]) if "sql" in arguments else str(arguments["tags"])


async def _open_consumer(session: Session, arguments: Arguments) -> object:
    orderly, stages = arguments.get("orderly", False), arguments.get("stages")
    failed = Outcome.SUSPEND_CURRENT_QUEUE if orderly or stages else Outcome.RETRY
    attempts: Counter[bytes] = Counter()
    failures = arguments.get("fail_first", 0)

    async def handle(messages: Sequence[ReceivedMessage]) -> Outcome:
        outcome = Outcome.SUCCESS
        for message in messages:
            attempts[message.body] += 1
            succeeded = attempts[message.body] > failures
            if not succeeded:
                outcome = failed
            event = {"event": "message", "consumer": arguments["name"], "succeeded": succeeded}
            seen = _delivered(message)
            await session.write({**event, "message": seen})
        return outcome

    broadcasting = arguments.get("broadcasting", False)
    options = PushOptions(
        message_model=MessageModel.BROADCASTING if broadcasting else MessageModel.CLUSTERING,
        consume_from=ConsumeFrom.FIRST_OFFSET,
        offset_persist_interval_s=1.0,
        max_reconsume_times=arguments.get("max_reconsume_times", 16),
        offsets_dir=Path("offsets"),
        client=_client(arguments),
    )
    listener: ConcurrentListener | OrderlyListener | StagedConcurrentListener
    if stages:
        listener = StagedConcurrentListener(handle, stages)
    else:
        listener = OrderlyListener(handle) if orderly else ConcurrentListener(handle)
    opening = open_push_consumer(
        arguments["group"],
        name_servers=arguments["name_server"],
        subscriptions={arguments["topic"]: _expression(arguments)},
        listener=listener,
        options=options,
    )
    await session.open(arguments["name"], opening)
    return True


async def _open_puller(session: Session, arguments: Arguments) -> object:
    address, group = arguments["name_server"], arguments["group"]
    options = LitePullOptions(auto_commit=False, client=_client(arguments))

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
    pulled = await calls.pull(queue, arguments["queue_offset"], terms)
    found = [
        _delivered(ReceivedMessage(stored, queue, "", pulled.origin, pulled.shift))
        for stored in pulled.messages
        if not wanted.tags_set or stored.tags in wanted.tags_set
    ]
    return Pulled(
        status=PULL_STATUS[pulled.code],
        next_offset=pulled.next_offset,
        min_offset=await calls.min_offset(queue),
        max_offset=await calls.max_offset(queue),
        messages=found,
    )


async def _min_offset(session: Session, arguments: Arguments) -> object:
    puller, queue = await _queue(session, arguments)
    return await puller.calls.min_offset(queue)


async def _max_offset(session: Session, arguments: Arguments) -> object:
    puller, queue = await _queue(session, arguments)
    return await puller.calls.max_offset(queue)


async def _search_offset(session: Session, arguments: Arguments) -> object:
    puller, queue = await _queue(session, arguments)
    return await puller.calls.offset_at(queue, arguments["timestamp_ms"])


async def _commit_offset(session: Session, arguments: Arguments) -> object:
    puller, queue = await _queue(session, arguments)
    await puller.calls.commit_offset(queue, arguments["queue_offset"], wait=True)
    return True


async def _committed_offset(session: Session, arguments: Arguments) -> object:
    puller, queue = await _queue(session, arguments)
    committed = await puller.consumer.committed(queue)
    return -1 if committed is None else committed


async def _open_lite_puller(session: Session, arguments: Arguments) -> object:
    options = LitePullOptions(
        auto_commit=False, consume_from=ConsumeFrom.FIRST_OFFSET, client=_client(arguments)
    )

    @asynccontextmanager
    async def opening() -> AsyncIterator[LitePullConsumer]:
        async with open_lite_pull_consumer(
            arguments["group"], name_servers=arguments["name_server"], options=options
        ) as consumer:
            await consumer.subscribe(arguments["topic"], _expression(arguments))
            yield consumer

    await session.open(arguments["name"], opening())
    return True


async def _poll(session: Session, arguments: Arguments) -> object:
    consumer: LitePullConsumer = session.get(arguments["puller"])
    polled = await consumer.poll(arguments["timeout_ms"] / 1000)
    return [_delivered(message) for message in polled]


async def _commit(session: Session, arguments: Arguments) -> object:
    consumer: LitePullConsumer = session.get(arguments["puller"])
    await consumer.commit()
    return True


COMMANDS: dict[str, Command] = {
    "open_producer": _open_producer,
    "close_producer": _close,
    "send": _send,
    "send_batch": _send_batch,
    "query_by_key": _query_by_key,
    "query_by_unique_key": _query_by_unique_key,
    "view_message": _view_message,
    "open_consumer": _open_consumer,
    "close_consumer": _close,
    "open_puller": _open_puller,
    "close_puller": _close,
    "queues": _queues,
    "pull": _pull,
    "min_offset": _min_offset,
    "max_offset": _max_offset,
    "search_offset": _search_offset,
    "commit_offset": _commit_offset,
    "committed_offset": _committed_offset,
    "open_lite_puller": _open_lite_puller,
    "close_lite_puller": _close,
    "poll": _poll,
    "commit": _commit,
}

if __name__ == "__main__":
    trio.run(serve, COMMANDS)
