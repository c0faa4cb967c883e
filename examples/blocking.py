"""Send and consume without an event loop: plain functions, run in threads.

lanemq serve                   # in another terminal
python examples/blocking.py    # or: blocking.py HOST:PORT of a name server
"""

import sys
import threading
from collections.abc import Sequence

from lanemq.sdk.blocking import (
    ConcurrentListener,
    ConsumeFrom,
    Message,
    ReceivedMessage,
    open_lite_pull_consumer,
    open_producer,
    open_push_consumer,
)

NAME_SERVERS = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
TOPIC = "BlockingTopic"


def main() -> None:
    missing = {b"task %d" % number for number in range(10)}
    guard = threading.Lock()  # the listener runs in up to four worker threads at once
    all_there = threading.Event()

    def handle(messages: Sequence[ReceivedMessage]) -> None:
        with guard:
            for message in messages:
                print(f"{threading.current_thread().name} does {message.body.decode()}")
                missing.discard(message.body)
            if not missing:
                all_there.set()

    with open_producer("blocking-producer", name_servers=NAME_SERVERS) as producer:
        for body in sorted(missing):
            result = producer.send(Message(topic=TOPIC, body=body))
            print(f"sent {body.decode()} to queue {result.queue.queue_id}")

    with open_push_consumer(
        "blocking-listeners",
        name_servers=NAME_SERVERS,
        subscriptions={TOPIC: "*"},
        listener=ConcurrentListener(handle, concurrency=4),
        consume_from=ConsumeFrom.FIRST_OFFSET,
    ):
        assert all_there.wait(60)

    with open_lite_pull_consumer(
        "blocking-readers", name_servers=NAME_SERVERS, consume_from=ConsumeFrom.FIRST_OFFSET
    ) as consumer:
        consumer.subscribe(TOPIC)
        for number, message in enumerate(consumer, 1):
            print(f"read {message.body.decode()}")
            if number == 10:
                break
    print("all ten are done, and read")


if __name__ == "__main__":
    main()
