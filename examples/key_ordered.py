"""Serve each customer's messages in their order, all customers of a queue at once.

An orderly listener keeps the order of a whole queue, a concurrent one none at all. This program
gives the same messages to each kind of listener and prints how long it takes.

lanemq serve                      # in another terminal
python examples/key_ordered.py    # or: key_ordered.py HOST:PORT of a name server
"""

import random
import sys
from collections import defaultdict
from collections.abc import Sequence

import trio

from lanemq.sdk import (
    ConcurrentListener,
    ConsumeFrom,
    KeyOrderedListener,
    Message,
    OrderlyListener,
    ReceivedMessage,
    open_producer,
    open_push_consumer,
)

NAME_SERVERS = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
TOPIC = "CustomerSteps"
CUSTOMERS, STEPS = 50, 10
WORK_S = 0.01


def customer_of(message: ReceivedMessage) -> str:
    return message.keys[0]


class Service:
    """A listener's function that notes what came in which order."""

    def __init__(self) -> None:
        self.steps: defaultdict[str, list[int]] = defaultdict(list)
        self.done = trio.Event()

    async def handle(self, messages: Sequence[ReceivedMessage]) -> None:
        for message in messages:
            await trio.sleep(random.uniform(0, 2 * WORK_S))
            self.steps[customer_of(message)].append(int(message.body))
        if sum(map(len, self.steps.values())) == CUSTOMERS * STEPS:
            self.done.set()

    @property
    def kept_order(self) -> bool:
        return all(steps == sorted(steps) for steps in self.steps.values())


async def serve(kind: str) -> bool:
    """Print how long a listener takes; return whether it kept the order of each customer."""
    service = Service()
    listener: OrderlyListener | KeyOrderedListener | ConcurrentListener
    if kind == "orderly":
        listener = OrderlyListener(service.handle)
    elif kind == "by key":
        listener = KeyOrderedListener(service.handle, key=customer_of)
    else:
        listener = ConcurrentListener(service.handle)
    async with open_push_consumer(
        "customers-" + kind.replace(" ", "-"),
        name_servers=NAME_SERVERS,
        subscriptions={TOPIC: "*"},
        listener=listener,
        consume_from=ConsumeFrom.FIRST_OFFSET,
    ):
        started_s = trio.current_time()
        with trio.fail_after(60):
            await service.done.wait()
        spent_s = trio.current_time() - started_s
    order = "in order" if service.kept_order else "order lost"
    print(f"{kind}: {CUSTOMERS * STEPS / spent_s:.0f} messages/s, {order}")
    return service.kept_order


async def main() -> None:
    async with open_producer("customer-producer", name_servers=NAME_SERVERS) as producer:
        for step in range(STEPS):
            for customer in range(CUSTOMERS):
                key = f"customer-{customer}"
                message = Message(topic=TOPIC, body=b"%d" % step, keys=(key,))
                await producer.send(message, queue_key=key)  # a key's messages: one queue
    kept = {kind: await serve(kind) for kind in ("orderly", "by key", "concurrent")}
    if kept["orderly"] and kept["by key"]:
        print("two of them kept every customer's order")


if __name__ == "__main__":
    trio.run(main)
