"""Send many small messages in few requests: all of a batch are stored, or none."""

import sys

import trio

from lanemq.sdk import Message, open_producer

NAME_SERVERS = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
TOPIC = "BatchTopic"


async def main() -> None:
    messages = [
        Message(topic=TOPIC, body=f"reading {number}".encode(), keys=(f"sensor-{number % 7}",))
        for number in range(1000)
    ]
    async with open_producer("batch-producer", name_servers=NAME_SERVERS) as producer:
        for start in range(0, len(messages), 200):
            result = await producer.send_batch(messages[start : start + 200])
            print(
                f"200 messages stored in queue {result.queue.queue_id}"
                f" from offset {result.queue_offset} on"
            )


if __name__ == "__main__":
    trio.run(main)
