"""Ten laptops for the first ten, twenty tablets for the next twenty, nothing for the rest.

Who is among the first ten has to be right; in which order the ten are served does not matter.
So the first ten are served at once, then the next twenty at once.

lanemq serve                 # in another terminal
python examples/staged.py    # or: staged.py HOST:PORT of a name server
"""

import sys
from collections import Counter
from collections.abc import Sequence

import trio

from lanemq.sdk import (
    ConsumeFrom,
    ListenerContext,
    Message,
    ReceivedMessage,
    StagedConcurrentListener,
    open_producer,
    open_push_consumer,
)

NAME_SERVERS = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
TOPIC = "PrizeDraw"
STAGES = [10, 20]
PRIZES = ["laptop", "tablet", "nothing"]
ENTRIES = 40


async def main() -> None:
    prizes: Counter[str] = Counter()
    all_served = trio.Event()

    async def handle(messages: Sequence[ReceivedMessage], context: ListenerContext) -> None:
        # The stage says which prize it is, also after a restart; only a retry topic has none.
        prize = PRIZES[context.stage.index] if context.stage else "a look by somebody"
        await trio.sleep(0.1)  # tell the warehouse
        print(f"{messages[0].body.decode()}: {prize}")
        prizes[prize] += 1
        if prizes.total() == ENTRIES:
            all_served.set()

    async with (
        open_producer("prize-producer", name_servers=NAME_SERVERS) as producer,
        producer.staged("spring draw", STAGES) as stage,  # one queue, stored stage by stage
    ):
        for number in range(ENTRIES):
            await stage.send(Message(topic=TOPIC, body=b"entry %d" % number))

    async with open_push_consumer(
        "prize-consumer",
        name_servers=NAME_SERVERS,
        subscriptions={TOPIC: "*"},
        listener=StagedConcurrentListener(handle, STAGES),
        consume_from=ConsumeFrom.FIRST_OFFSET,
    ):
        started_s = trio.current_time()
        with trio.fail_after(60):
            await all_served.wait()
        print(f"{ENTRIES} entries served in {trio.current_time() - started_s:.1f} s")
    print(dict(prizes))


if __name__ == "__main__":
    trio.run(main)
