"""Send a request and wait for its reply. Apache's brokers know this from 4.6 on."""

import sys
from collections.abc import Sequence

import trio

from lanemq.sdk import (
    ConcurrentListener,
    Message,
    NoReply,
    ReceivedMessage,
    open_producer,
    open_push_consumer,
    reply_to,
)

NAME_SERVERS = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
TOPIC = "RequestTopic"


async def main() -> None:
    async with (
        open_producer("asking", name_servers=NAME_SERVERS) as asking,
        open_producer("answering", name_servers=NAME_SERVERS) as answering,
    ):

        async def handle(messages: Sequence[ReceivedMessage]) -> None:
            for message in messages:
                total = sum(map(int, message.body.split()))
                await answering.send(reply_to(message, str(total).encode()))

        async with open_push_consumer(
            "calculators",
            name_servers=NAME_SERVERS,
            subscriptions={TOPIC: "*"},
            listener=ConcurrentListener(handle),
        ):
            for question in (b"1 2 3", b"20 22"):
                try:
                    reply = await asking.request(Message(topic=TOPIC, body=question), timeout_s=30)
                except NoReply as error:
                    print(error)
                else:
                    print(f"the sum of {question.decode()} is {reply.body.decode()}")


if __name__ == "__main__":
    trio.run(main)
