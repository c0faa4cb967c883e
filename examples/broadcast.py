"""Every consumer of a broadcasting group gets every message: cache invalidation and the like."""

import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial

import trio

from lanemq.sdk import (
    ClientOptions,
    ConcurrentListener,
    ConsumeFrom,
    Message,
    MessageModel,
    PushConsumer,
    PushOptions,
    ReceivedMessage,
    open_producer,
    open_push_consumer,
)

NAME_SERVERS = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
TOPIC = "BroadcastTopic"


async def main() -> None:
    missing = {(name, f"news {n}".encode()) for name in ("first", "second") for n in range(3)}
    all_there = trio.Event()

    async def handle(name: str, messages: Sequence[ReceivedMessage]) -> None:
        for message in messages:
            print(f"{name} received {message.body.decode()!r}")
            missing.discard((name, message.body))
        if not missing:
            all_there.set()

    def consumer(name: str) -> AbstractAsyncContextManager[PushConsumer]:
        return open_push_consumer(
            "broadcast-consumer",
            name_servers=NAME_SERVERS,
            subscriptions={TOPIC: "*"},
            listener=ConcurrentListener(partial(handle, name)),
            options=PushOptions(
                message_model=MessageModel.BROADCASTING,
                # Otherwise it would miss messages sent while it is still looking for its queues.
                consume_from=ConsumeFrom.FIRST_OFFSET,
                client=ClientOptions(instance=name),  # its progress file needs a name of its own
            ),
        )

    async with open_producer("broadcast-producer", name_servers=NAME_SERVERS) as producer:
        await producer.send(Message(topic=TOPIC, body=b"makes the topic"))
        async with consumer("first"), consumer("second"):
            for number in range(3):
                await producer.send(Message(topic=TOPIC, body=f"news {number}".encode()))
            with trio.fail_after(60):
                await all_there.wait()
    print("both have everything")


if __name__ == "__main__":
    trio.run(main)
