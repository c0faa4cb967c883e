"""Pause a consumer, and change its concurrency at run time."""

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
TOPIC, COUNT = "PauseTopic", 40


async def main() -> None:
    running = most = done = 0
    complete = trio.Event()

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        nonlocal running, most, done
        running += 1
        most = max(most, running)
        await trio.sleep(0.05)
        running -= 1
        done += 1
        if done == COUNT:
            complete.set()

    async with (
        open_producer("pause-producer", name_servers=NAME_SERVERS) as producer,
        open_push_consumer(
            "pause-consumer",
            name_servers=NAME_SERVERS,
            subscriptions={TOPIC: "*"},
            listener=ConcurrentListener(handle, concurrency=2),
            consume_from=ConsumeFrom.FIRST_OFFSET,
        ) as consumer,
    ):
        consumer.pause()
        for number in range(COUNT):
            await producer.send(Message(topic=TOPIC, body=f"job {number}".encode()))
        await trio.sleep(1)
        print(f"paused: {done} of {COUNT} done")
        consumer.set_concurrency(10)
        consumer.resume()
        await complete.wait()
        print(f"{done} done, up to {most} at once")


if __name__ == "__main__":
    trio.run(main)
