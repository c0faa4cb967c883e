"""Consume the steps of each order in their order, several orders at once.

lanemq serve                  # in another terminal
python examples/orderly.py    # or: orderly.py HOST:PORT of a name server
"""

import sys
from collections import defaultdict
from collections.abc import Sequence

import trio

from lanemq.sdk import (
    ConsumeFrom,
    Message,
    OrderlyListener,
    Outcome,
    ReceivedMessage,
    open_producer,
    open_push_consumer,
)

NAME_SERVERS = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
TOPIC = "OrderSteps"
ORDERS = [b"order 1", b"order 2", b"order 3"]
STEPS = [b"created", b"paid", b"shipped"]


async def main() -> None:
    seen: defaultdict[bytes, list[bytes]] = defaultdict(list)
    all_there = trio.Event()

    async def handle(messages: Sequence[ReceivedMessage]) -> Outcome:
        for message in messages:
            order, _, step = message.body.partition(b": ")
            if step == b"paid" and message.reconsume_times == 0:
                print(f"{message.body.decode()}: the bank does not answer, again in a moment")
                return Outcome.SUSPEND_CURRENT_QUEUE  # "shipped" waits as well
            print(message.body.decode())
            seen[order].append(step)
        if sum(map(len, seen.values())) == len(ORDERS) * len(STEPS):
            all_there.set()
        return Outcome.SUCCESS

    async with open_producer("order-producer", name_servers=NAME_SERVERS) as producer:
        queues = await producer.publish_queues(TOPIC)
        for step in STEPS:
            for number, order in enumerate(ORDERS):
                # All steps of an order go to one queue: there is no order between queues.
                queue = queues[number % len(queues)]
                await producer.send(Message(topic=TOPIC, body=order + b": " + step), queue=queue)

    async with open_push_consumer(
        "order-consumer",
        name_servers=NAME_SERVERS,
        subscriptions={TOPIC: "*"},
        listener=OrderlyListener(handle),
        consume_from=ConsumeFrom.FIRST_OFFSET,
    ):
        with trio.fail_after(60):
            await all_there.wait()
    assert all(steps == STEPS for steps in seen.values())
    print("every order went step by step")


if __name__ == "__main__":
    trio.run(main)
