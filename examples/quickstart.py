"""Send ten messages and consume them.

lanemq serve                     # in another terminal
python examples/quickstart.py    # or: quickstart.py HOST:PORT of a name server
"""

import sys
from collections.abc import Sequence

import trio

from lanemq.sdk import (
    ConcurrentListener,
    ConsumeFrom,
    Message,
    ReceivedMessage,
    open_producer,
    open_push_consumer,
)

NAME_SERVERS = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
TOPIC = "QuickstartTopic"


async def main() -> None:
    missing = {f"hello {number}".encode() for number in range(10)}
    all_there = trio.Event()

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        for message in messages:
            print(f"received {message.body.decode()!r} with tag {message.tags}")
            missing.discard(message.body)
        if not missing:
            all_there.set()

    async with open_producer("quickstart-producer", name_servers=NAME_SERVERS) as producer:
        for body in sorted(missing):
            result = await producer.send(Message(topic=TOPIC, body=body, tags="Greeting"))
            print(f"sent {body.decode()!r} to queue {result.queue.queue_id}: {result.status.name}")

    async with open_push_consumer(
        "quickstart-consumer",
        name_servers=NAME_SERVERS,
        subscriptions={TOPIC: "Greeting"},
        listener=ConcurrentListener(handle),
        consume_from=ConsumeFrom.FIRST_OFFSET,
    ):
        with trio.fail_after(60):
            await all_there.wait()
    print("all ten are there")


if __name__ == "__main__":
    trio.run(main)
