"""Keep the events of each order in their order: one key, one queue."""

import sys
from collections import defaultdict
from collections.abc import Sequence

import trio

from lanemq.sdk import (
    ConsumeFrom,
    Message,
    OrderlyListener,
    ReceivedMessage,
    open_producer,
    open_push_consumer,
)

NAME_SERVERS = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
TOPIC = "OrderedTopic"
STEPS = ("created", "paid", "packed", "sent")


async def main() -> None:
    orders = [f"order-{number}" for number in range(10)]
    async with open_producer("ordered-producer", name_servers=NAME_SERVERS) as producer:
        for step in STEPS:
            for order in orders:
                message = Message(topic=TOPIC, body=step.encode(), keys=(order,))
                await producer.send(message, queue_key=order)

    seen: dict[str, list[str]] = defaultdict(list)
    complete = trio.Event()

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        for message in messages:
            seen[message.keys[0]].append(message.body.decode())
        if sum(map(len, seen.values())) == len(orders) * len(STEPS):
            complete.set()

    async with open_push_consumer(
        "ordered-consumer",
        name_servers=NAME_SERVERS,
        subscriptions={TOPIC: "*"},
        listener=OrderlyListener(handle),
        consume_from=ConsumeFrom.FIRST_OFFSET,
    ):
        with trio.fail_after(60):
            await complete.wait()
    for order in orders:
        print(order, *seen[order])
    assert all(tuple(steps) == STEPS for steps in seen.values())
    print("every order in order")


if __name__ == "__main__":
    trio.run(main)
