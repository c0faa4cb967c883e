"""Read a topic message by message; each one counts as consumed when the next is asked for."""

import sys

import trio

from lanemq.sdk import (
    ConsumeFrom,
    Message,
    open_lite_pull_consumer,
    open_producer,
)

NAME_SERVERS = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
TOPIC, COUNT = "IterateTopic", 20


async def main() -> None:
    async with open_producer("iterate-producer", name_servers=NAME_SERVERS) as producer:
        for number in range(COUNT):
            await producer.send(Message(topic=TOPIC, body=f"line {number}".encode()))

    async with open_lite_pull_consumer(
        "iterate-consumer", name_servers=NAME_SERVERS, consume_from=ConsumeFrom.FIRST_OFFSET
    ) as consumer:
        await consumer.subscribe(TOPIC)
        seen = 0
        async for message in consumer:  # has no end of its own
            print(message.queue.queue_id, message.queue_offset, message.body.decode())
            seen += 1
            if seen == COUNT:
                break
    print(f"{seen} messages are done with, and the brokers know it")


if __name__ == "__main__":
    trio.run(main)
