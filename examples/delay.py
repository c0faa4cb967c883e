"""Deliver a message later: a reminder, a time-out of one's own, a retry."""

import sys
import time
from collections.abc import Sequence

import trio

from lanemq.sdk import (
    ConcurrentListener,
    Message,
    MessageRejected,
    ReceivedMessage,
    open_producer,
    open_push_consumer,
)

NAME_SERVERS = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
TOPIC = "DelayTopic"


async def main() -> None:
    missing = {b"now", b"after a second", b"in two seconds"}
    all_there = trio.Event()

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        for message in messages:
            waited_s = time.time() - message.born_timestamp_ms / 1000
            print(f"{message.body.decode()!r} came after {waited_s:.1f} s")
            missing.discard(message.body)
        if not missing:
            all_there.set()

    async with (
        open_producer("delay-producer", name_servers=NAME_SERVERS) as producer,
        open_push_consumer(
            "delay-consumer",
            name_servers=NAME_SERVERS,
            subscriptions={TOPIC: "*"},
            listener=ConcurrentListener(handle),
        ),
    ):
        # Level 1 of 18, one second by default; every broker knows levels.
        await producer.send(Message(topic=TOPIC, body=b"after a second", delay_level=1))
        # Timers: lanemq's brokers deliver to the millisecond, Apache's 5.x up to a second late;
        # to others such a message is not sent.
        try:
            await producer.send(Message(topic=TOPIC, body=b"in two seconds", delay_s=2))
        except MessageRejected as error:
            print(error)
            missing.discard(b"in two seconds")
        await producer.send(Message(topic=TOPIC, body=b"now"))
        with trio.fail_after(60):
            await all_there.wait()
    print("all of them are there")


if __name__ == "__main__":
    trio.run(main)
