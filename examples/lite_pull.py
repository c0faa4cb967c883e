"""Read a topic at your own pace, and commit your own progress."""

import sys

import trio

from lanemq.sdk import (
    ConsumeFrom,
    Message,
    open_lite_pull_consumer,
    open_producer,
)

NAME_SERVERS = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
TOPIC, COUNT = "LitePullTopic", 20


async def main() -> None:
    async with open_producer("lite-pull-producer", name_servers=NAME_SERVERS) as producer:
        for number in range(COUNT):
            await producer.send(Message(topic=TOPIC, body=f"line {number}".encode()))

    async with open_lite_pull_consumer(
        "lite-pull-consumer",
        name_servers=NAME_SERVERS,
        consume_from=ConsumeFrom.FIRST_OFFSET,
        auto_commit=False,
    ) as consumer:
        queues = await consumer.queues_of(TOPIC)
        await consumer.assign(queues)
        seen = 0
        while seen < COUNT:
            for message in await consumer.poll():  # [] where nothing comes for a while
                print(f"queue {message.queue.queue_id}, offset {message.queue_offset}:", end=" ")
                print(message.body.decode())
                seen += 1
            await consumer.commit()
        for queue in queues:
            print(f"queue {queue.queue_id} is read up to {await consumer.committed(queue)}")

        await consumer.seek_to_begin(queues[0])  # once more from the start
        again = await consumer.poll(timeout_s=30)
        print(f"{len(again)} messages of queue {queues[0].queue_id} again")


if __name__ == "__main__":
    trio.run(main)
