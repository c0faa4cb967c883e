"""The commands of a producer: send, transactions, requests, and a producer's queries."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from msgspec.structs import replace

from lanemq.sdk import (
    ConcurrentListener,
    ConsumeFrom,
    Message,
    Producer,
    ProducerOptions,
    PushOptions,
    ReceivedMessage,
    TransactionProducer,
    TransactionState,
    open_producer,
    open_push_consumer,
    open_transaction_producer,
    reply_to,
)
from lanemq.sdk.admin import AdminClient, open_admin

from ..clients._messages import Reply
from ._session import Command, Session
from ._shapes import CALL_S, SEND_S, Arguments, client_options, delivered, outgoing, received, sent


@dataclass(frozen=True, slots=True)
class OpenProducer:
    """A producer, and the administrator's client for its queries."""

    producer: Producer
    admin: AdminClient


async def _open_producer(session: Session, arguments: Arguments) -> object:
    limit = arguments.get("max_message_bytes", ProducerOptions().message_bytes_max)
    options = ProducerOptions(
        send_timeout_s=SEND_S, message_bytes_max=limit, client=client_options(arguments)
    )

    @asynccontextmanager
    async def opening() -> AsyncIterator[OpenProducer]:
        address = arguments["name_server"]
        async with (
            open_producer(arguments["group"], name_servers=address, options=options) as producer,
            open_admin(name_servers=address, timeout_s=CALL_S) as admin,
        ):
            yield OpenProducer(producer, admin)

    await session.open(arguments["name"], opening())
    return True


async def _send(session: Session, arguments: Arguments) -> object:
    producer: Producer = session.get(arguments["producer"]).producer
    message = outgoing(arguments["message"])
    queue = None
    if "queue_id" in arguments:
        queues = await producer.publish_queues(message.topic)
        queue = next(queue for queue in queues if queue.queue_id == arguments["queue_id"])
    if arguments["mode"] == "oneway":
        await producer.send_oneway(message, queue=queue)
        return None
    return sent(await producer.send(message, queue=queue))


async def _send_batch(session: Session, arguments: Arguments) -> object:
    producer: Producer = session.get(arguments["producer"]).producer
    return sent(await producer.send_batch([outgoing(one) for one in arguments["messages"]]))


async def _request(session: Session, arguments: Arguments) -> object:
    producer: Producer = session.get(arguments["producer"]).producer
    reply = await producer.request(
        outgoing(arguments["message"]), timeout_s=arguments["timeout_ms"] / 1000
    )
    return Reply(reply.body, dict(reply.properties))


async def _open_replier(session: Session, arguments: Arguments) -> object:
    """Return a consumer that replies with the request in capitals."""
    address, group = arguments["name_server"], arguments["group"]

    @asynccontextmanager
    async def opening() -> AsyncIterator[None]:
        options = ProducerOptions(send_timeout_s=SEND_S, client=client_options(arguments))
        async with open_producer(
            f"{group}_replies", name_servers=address, options=options
        ) as producer:

            async def handle(messages: Sequence[ReceivedMessage]) -> None:
                for message in messages:
                    await producer.send(reply_to(message, message.body.upper()))

            async with open_push_consumer(
                group,
                name_servers=address,
                subscriptions={arguments["topic"]: "*"},
                listener=ConcurrentListener(handle),
                options=PushOptions(
                    consume_from=ConsumeFrom.FIRST_OFFSET, client=client_options(arguments)
                ),
            ):
                yield

    await session.open(arguments["name"], opening())
    return True


async def _open_transaction_producer(session: Session, arguments: Arguments) -> object:
    asked: Counter[bytes] = Counter()

    async def check(message: ReceivedMessage) -> TransactionState:
        states = message.properties["checks"].split(",")
        number = asked[message.body]
        asked[message.body] += 1
        event = {"event": "message", "consumer": arguments["name"], "succeeded": True}
        await session.write({**event, "message": delivered(message)})
        return TransactionState[states[min(number, len(states) - 1)].upper()]

    opening = open_transaction_producer(
        arguments["group"],
        check=check,
        name_servers=arguments["name_server"],
        options=ProducerOptions(send_timeout_s=SEND_S, client=client_options(arguments)),
    )
    await session.open(arguments["name"], opening)
    return True


async def _send_in_transaction(session: Session, arguments: Arguments) -> object:
    producer: TransactionProducer = session.get(arguments["producer"])

    async def execute(message: Message, transaction_id: str) -> TransactionState:
        assert message.properties is not None
        return TransactionState[message.properties["local"].upper()]

    result = await producer.send_in_transaction(outgoing(arguments["message"]), execute)
    return replace(sent(result.sent), transaction_id=result.transaction_id)


async def _query_by_key(session: Session, arguments: Arguments) -> object:
    admin: AdminClient = session.get(arguments["producer"]).admin
    found = await admin.messages_by_key(
        arguments["topic"],
        arguments["key"],
        max_count=arguments["max_count"],
        begin_ms=arguments["begin_ms"],
        end_ms=arguments["end_ms"],
    )
    return [received(message) for message in found]


async def _query_by_unique_key(session: Session, arguments: Arguments) -> object:
    admin: AdminClient = session.get(arguments["producer"]).admin
    found = await admin.messages_by_unique_key(arguments["topic"], arguments["message_id"])
    if not found:
        raise LookupError("no message with that unique key")
    return received(found[0])


async def _view_message(session: Session, arguments: Arguments) -> object:
    admin: AdminClient = session.get(arguments["producer"]).admin
    found = await admin.message(arguments["offset_id"])
    if found is None:
        raise LookupError("no message at that offset id")
    return received(found)


COMMANDS: dict[str, Command] = {
    "open_producer": _open_producer,
    "send": _send,
    "send_batch": _send_batch,
    "request": _request,
    "open_replier": _open_replier,
    "open_transaction_producer": _open_transaction_producer,
    "send_in_transaction": _send_in_transaction,
    "query_by_key": _query_by_key,
    "query_by_unique_key": _query_by_unique_key,
    "view_message": _view_message,
}
