"""The SDK's other faces as ``_sdk_client`` is the one on trio: the same sends, the same reading.

Run as ``python -m lanemq.bench.clients._faces_client blocking`` or ``… aio``.
"""

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import lanemq.sdk.aio
import lanemq.sdk.blocking
from lanemq.sdk import ConsumeFrom, Message, PushOptions, ReceivedMessage

from ._sdk_client import BODY, CONSUME_S, OPTIONS, Measured, measured, serve

FIRST: Final = PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET)
GROUP: Final = "bench_producer"


class Counter:
    """Counts the messages of a consumer, and notes the times of the first and of the last."""

    def __init__(self, count: int, done: Callable[[], object]) -> None:
        self._count, self._done = count, done
        self._lock = threading.Lock()
        self.seen = 0
        self.first_s = self.last_s = 0.0

    def add(self, messages: int) -> None:
        """Count some more."""
        with self._lock:
            self.first_s = self.first_s or time.perf_counter()
            before = self.seen
            self.seen += messages
            if before < self._count <= self.seen:
                self.last_s = time.perf_counter()
                self._done()

    def result(self) -> Measured:
        """Return what was measured. Raises ``RuntimeError`` where messages are missing."""
        if self.seen < self._count:
            raise RuntimeError(f"{self.seen} of {self._count} messages came")
        return measured(self._count, self.first_s, self.last_s)


def send_blocking(*, name_server: str, topic: str, threads: int, seconds: float) -> Measured:
    """Send from ``threads`` threads, each one message after the other, for ``seconds``."""
    sent = [0] * threads
    with lanemq.sdk.blocking.open_producer(
        GROUP, name_servers=name_server, options=OPTIONS
    ) as producer:

        def one_after_the_other(number: int, end_s: float) -> None:
            while True:  # once at least, however late this is
                producer.send(Message(topic=topic, body=BODY))
                sent[number] += 1
                if time.perf_counter() >= end_s:
                    return

        producer.send(Message(topic=topic, body=BODY))  # Java's is connected as well
        begun_s = time.perf_counter()
        workers = [
            threading.Thread(target=one_after_the_other, args=(number, begun_s + seconds))
            for number in range(threads)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return measured(sum(sent), begun_s, time.perf_counter())


def consume_blocking(*, name_server: str, topic: str, group: str, count: int) -> Measured:
    """Read ``count`` messages with a new group; the time runs from the first to the last."""
    done = threading.Event()
    counter = Counter(count, done.set)

    def handle(messages: Sequence[ReceivedMessage]) -> None:
        counter.add(len(messages))

    with lanemq.sdk.blocking.open_push_consumer(
        group,
        name_servers=name_server,
        subscriptions={topic: "*"},
        listener=lanemq.sdk.blocking.ConcurrentListener(handle),
        options=FIRST,
    ):
        done.wait(CONSUME_S)
    return counter.result()


async def send_aio(*, name_server: str, topic: str, threads: int, seconds: float) -> Measured:
    """Send from ``threads`` tasks, each one message after the other, for ``seconds``."""
    sent = 0
    async with lanemq.sdk.aio.open_producer(
        GROUP, name_servers=name_server, options=OPTIONS
    ) as producer:

        async def one_after_the_other(end_s: float) -> None:
            nonlocal sent
            while True:
                await producer.send(Message(topic=topic, body=BODY))
                sent += 1
                if time.perf_counter() >= end_s:
                    return

        await producer.send(Message(topic=topic, body=BODY))
        begun_s = time.perf_counter()
        await asyncio.gather(*(one_after_the_other(begun_s + seconds) for _ in range(threads)))
        return measured(sent, begun_s, time.perf_counter())


async def consume_aio(*, name_server: str, topic: str, group: str, count: int) -> Measured:
    """Read ``count`` messages with a new group; the time runs from the first to the last."""
    done = asyncio.Event()
    counter = Counter(count, done.set)

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        counter.add(len(messages))

    async with lanemq.sdk.aio.open_push_consumer(
        group,
        name_servers=name_server,
        subscriptions={topic: "*"},
        listener=lanemq.sdk.aio.ConcurrentListener(handle),
        options=FIRST,
    ):
        with suppress(TimeoutError):  # the result says what is missing
            await asyncio.wait_for(done.wait(), CONSUME_S)
    return counter.result()


def on_asyncio(
    command: Callable[..., Coroutine[None, None, Measured]], **arguments: object
) -> Measured:
    """Run one of the commands on asyncio."""
    return asyncio.run(command(**arguments))


FACES: Final[Mapping[str, Mapping[str, Callable[..., Measured]]]] = {
    "blocking": {"send": send_blocking, "consume": consume_blocking},
    "aio": {"send": partial(on_asyncio, send_aio), "consume": partial(on_asyncio, consume_aio)},
}

if __name__ == "__main__":
    serve(FACES[sys.argv[1]])
