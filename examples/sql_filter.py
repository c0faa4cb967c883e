"""Let the broker deliver only messages whose properties meet a condition.

Apache's brokers need enablePropertyFilter=true in their broker.conf.
"""

import sys
from collections.abc import Sequence

import trio

from lanemq.sdk import (
    ConcurrentListener,
    ConsumeFrom,
    Message,
    ReceivedMessage,
    Sql,
    open_producer,
    open_push_consumer,
)

NAME_SERVERS = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
TOPIC = "SqlTopic"
CONDITION = Sql("price > 100 AND region IN ('eu', 'us') OR urgent IS NOT NULL")


async def main() -> None:
    orders = [
        {"price": "50", "region": "eu"},
        {"price": "150", "region": "eu"},
        {"price": "250", "region": "asia"},
        {"price": "99", "region": "us", "urgent": "yes"},
    ]
    async with open_producer("sql-producer", name_servers=NAME_SERVERS) as producer:
        for number, properties in enumerate(orders):
            body = f"order {number}".encode()
            await producer.send(Message(topic=TOPIC, body=body, properties=properties))

    wanted = trio.Event()
    seen = []

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        for message in messages:
            seen.append(message.body.decode())
            print(seen[-1], dict(message.properties))
        if len(seen) == 2:
            wanted.set()

    async with open_push_consumer(
        "sql-consumer",
        name_servers=NAME_SERVERS,
        subscriptions={TOPIC: CONDITION},
        listener=ConcurrentListener(handle),
        consume_from=ConsumeFrom.FIRST_OFFSET,
    ):
        await wanted.wait()
        await trio.sleep(1)
    print("delivered:", ", ".join(sorted(seen)))


if __name__ == "__main__":
    trio.run(main)
