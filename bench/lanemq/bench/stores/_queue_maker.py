"""Make a store with very many queues, one message in each.

``python -m lanemq.bench.stores._queue_maker ROOT default|defaultRocksDB QUEUES QUEUES_PER_TOPIC``

A process of its own, so that what is measured later starts with empty memory.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import trio

from lanemq.storage import NewMessage, StoreConfig, StoreType, open_store, system_clock_ms
from lanemq.wire.bodies import TopicConfig

HOST = bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F))
BATCH = 1000
"""Messages for each write of the log."""


def queues_of(queues: int, per_topic: int) -> Iterator[tuple[str, int]]:
    """Yield topic and queue id of every queue; the last topic may have fewer."""
    for number in range(queues):
        yield f"topic-{number // per_topic:06}", number % per_topic


async def make_store(root: Path, store_type: StoreType, queues: int, per_topic: int) -> None:
    """Write ``queues`` messages of 32 bytes, each into a queue of its own."""
    config = StoreConfig(root=root, store_type=store_type)
    async with open_store(config) as store:
        for number in range(0, queues, per_topic):
            topic = f"topic-{number // per_topic:06}"
            store.tables.topics.put(TopicConfig(topic, per_topic, per_topic))
        for number, (topic, queue_id) in enumerate(queues_of(queues, per_topic), 1):
            store.put(
                NewMessage(
                    topic=topic,
                    queue_id=queue_id,
                    body=b"%032d" % number,
                    properties=b"",
                    born_timestamp_ms=system_clock_ms(),
                    born_host=HOST,
                    store_host=HOST,
                )
            )
            if number % BATCH == 0 or number == queues:
                store.commit()
                await store.search.caught_up()  # as senders do
                await trio.lowlevel.checkpoint()


if __name__ == "__main__":
    _, directory, kind, total, size = sys.argv
    trio.run(make_store, Path(directory), StoreType(kind), int(total), int(size))
