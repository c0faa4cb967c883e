"""A service that consumes until it is told to stop, and finishes what it has begun.

lanemq serve                   # in another terminal
python examples/service.py     # or: service.py HOST:PORT of a name server
lanemq admin sendMessage -n 127.0.0.1:9876 -t ServiceTopic -p work    # gives it something to do
kill PID                       # SIGTERM, as containers and systemd send it; Ctrl-C does the same
"""

import os
import signal
import sys
from collections.abc import Sequence

import trio

from lanemq.sdk import ConcurrentListener, ConsumeFrom, ReceivedMessage, open_push_consumer

NAME_SERVERS = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
TOPIC = "ServiceTopic"


async def handle(messages: Sequence[ReceivedMessage]) -> None:
    for message in messages:
        print(f"working on {message.body.decode()!r}", flush=True)
        await trio.sleep(1)
        print(f"done with {message.body.decode()!r}", flush=True)


async def main() -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with open_push_consumer(
            "service",
            name_servers=NAME_SERVERS,
            subscriptions={TOPIC: "*"},
            listener=ConcurrentListener(handle),
            consume_from=ConsumeFrom.FIRST_OFFSET,
            shutdown_grace_s=20,  # less than what is granted before a SIGKILL
        ):
            print(f"process {os.getpid()} is ready", flush=True)
            received = await anext(aiter(signals))
            print(f"{signal.Signals(received).name}: no new messages", flush=True)
        # By now, running listeners are done, and the brokers know the group's progress.
    print("stopped", flush=True)


if __name__ == "__main__":
    trio.run(main)
