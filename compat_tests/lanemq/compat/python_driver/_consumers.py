"""The commands of consumers that are handed messages, or poll for them."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from lanemq.sdk import (
    ConcurrentListener,
    ConsumeFrom,
    LitePullConsumer,
    LitePullOptions,
    MessageModel,
    OrderlyListener,
    Outcome,
    PushOptions,
    ReceivedMessage,
    StagedConcurrentListener,
    open_lite_pull_consumer,
    open_push_consumer,
)

from ._session import Command, Session
from ._shapes import Arguments, client_options, delivered, expression


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
            seen = delivered(message)
            await session.write({**event, "message": seen})
        return outcome

    broadcasting = arguments.get("broadcasting", False)
    options = PushOptions(
        message_model=MessageModel.BROADCASTING if broadcasting else MessageModel.CLUSTERING,
        consume_from=ConsumeFrom.FIRST_OFFSET,
        offset_persist_interval_s=1.0,
        max_reconsume_times=arguments.get("max_reconsume_times", 16),
        offsets_dir=Path("offsets"),
        client=client_options(arguments),
    )
    listener: ConcurrentListener | OrderlyListener | StagedConcurrentListener
    if stages:
        listener = StagedConcurrentListener(handle, stages)
    else:
        listener = OrderlyListener(handle) if orderly else ConcurrentListener(handle)
    opening = open_push_consumer(
        arguments["group"],
        name_servers=arguments["name_server"],
        subscriptions={arguments["topic"]: expression(arguments)},
        listener=listener,
        options=options,
    )
    await session.open(arguments["name"], opening)
    return True


async def _open_lite_puller(session: Session, arguments: Arguments) -> object:
    options = LitePullOptions(
        auto_commit=False, consume_from=ConsumeFrom.FIRST_OFFSET, client=client_options(arguments)
    )

    @asynccontextmanager
    async def opening() -> AsyncIterator[LitePullConsumer]:
        async with open_lite_pull_consumer(
            arguments["group"], name_servers=arguments["name_server"], options=options
        ) as consumer:
            await consumer.subscribe(arguments["topic"], expression(arguments))
            yield consumer

    await session.open(arguments["name"], opening())
    return True


async def _poll(session: Session, arguments: Arguments) -> object:
    consumer: LitePullConsumer = session.get(arguments["puller"])
    polled = await consumer.poll(arguments["timeout_ms"] / 1000)
    return [delivered(message) for message in polled]


async def _commit(session: Session, arguments: Arguments) -> object:
    consumer: LitePullConsumer = session.get(arguments["puller"])
    await consumer.commit()
    return True


COMMANDS: dict[str, Command] = {
    "open_consumer": _open_consumer,
    "open_lite_puller": _open_lite_puller,
    "poll": _poll,
    "commit": _commit,
}
