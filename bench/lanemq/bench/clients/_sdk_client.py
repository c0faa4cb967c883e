"""The SDK as ``java/Bench.java`` is the Java client: the same commands, the same JSON lines.

Run as ``python -m lanemq.bench.clients._sdk_client``.
"""

import random
import struct
import sys
import time
from array import array
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import trio

from lanemq.sdk import (
    ConcurrentListener,
    ConsumeFrom,
    LanemqError,
    Message,
    ProducerOptions,
    PushOptions,
    ReceivedMessage,
    StagedConcurrentListener,
    open_producer,
    open_push_consumer,
)

BODY = random.Random(1).randbytes(256)
OPTIONS = ProducerOptions(send_timeout_s=10)
CONSUME_S = 80.0

Measured = dict[str, float]


def measured(messages: int, begun_s: float, ended_s: float) -> Measured:
    return {"messages": messages, "seconds": ended_s - begun_s}


async def send(*, name_server: str, topic: str, threads: int, seconds: float) -> Measured:
    """Send from ``threads`` tasks, each one message after the other, for ``seconds``."""
    sent = 0

    async def one_after_the_other(end_s: float) -> None:
        nonlocal sent
        while True:  # once at least, however late this is
            await producer.send(Message(topic=topic, body=BODY))
            sent += 1
            if time.perf_counter() >= end_s:
                return

    async with open_producer(
        "bench_producer", name_servers=name_server, options=OPTIONS
    ) as producer:
        await producer.send(Message(topic=topic, body=BODY))  # Java's is connected as well
        begun_s = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for _ in range(threads):
                nursery.start_soon(one_after_the_other, begun_s + seconds)
        return measured(sent, begun_s, time.perf_counter())


async def consume(
    *, name_server: str, topic: str, group: str, count: int, stages: list[int] | None = None
) -> Measured:
    """Read ``count`` messages with a new group; the time runs from the first to the last of them.

    With ``stages`` the listener is a staged one.
    """
    seen = 0
    first_s = last_s = 0.0
    processor_s = 0.0  # of this process, up to the first message and then from it to the last
    done = trio.Event()

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        nonlocal seen, first_s, last_s, processor_s
        if not seen:
            first_s, processor_s = time.perf_counter(), time.process_time()
        seen += len(messages)
        if seen >= count and not done.is_set():
            last_s, processor_s = time.perf_counter(), time.process_time() - processor_s
            done.set()

    async with open_push_consumer(
        group,
        name_servers=name_server,
        subscriptions={topic: "*"},
        listener=ConcurrentListener(handle)
        if stages is None
        else StagedConcurrentListener(handle, stages),
        options=PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET),
    ):
        with trio.move_on_after(CONSUME_S):
            await done.wait()
    if seen < count:
        raise RuntimeError(f"{seen} of {count} messages came")
    return measured(count, first_s, last_s) | {"processor_s": processor_s}


async def stages(
    *, name_server: str, topic: str, group: str, stages: list[int], takes_s: float
) -> Measured:
    """Read a new topic with one queue in stages; as many messages are sent before.

    Each takes so long. The time runs from when the first is begun to when the last has ended.
    Fails where a stage begins before the one before it has ended.
    """
    count, ended = sum(stages), 0
    first_s = last_s = 0.0
    done = trio.Event()
    begins = [sum(stages[:number]) for number in range(len(stages))]

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        nonlocal ended, first_s, last_s
        (message,) = messages
        first_s = first_s or time.perf_counter()
        before = max(begin for begin in begins if begin <= message.queue_offset)
        if ended < before:
            raise RuntimeError(f"{message} was begun when {ended} of {before} had ended")
        await trio.sleep(takes_s)
        ended += 1
        if ended == count:
            last_s = time.perf_counter()
            done.set()

    async with open_producer(
        "bench_producer", name_servers=name_server, options=OPTIONS
    ) as producer:
        for number in range(count):
            await producer.send(Message(topic=topic, body=b"%d" % number))
    async with open_push_consumer(
        group,
        name_servers=name_server,
        subscriptions={topic: "*"},
        listener=StagedConcurrentListener(handle, stages),
        options=PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET),
    ):
        with trio.move_on_after(CONSUME_S):
            await done.wait()
    if ended < count:
        raise RuntimeError(f"{ended} of {count} messages came")
    return measured(count, first_s, last_s)


async def load(
    *,
    name_server: str,
    topic: str,
    queue_id: int,
    threads: int,
    first: int,
    until: str,
    times: str,
) -> Measured:
    """Tasks send to one queue until the file ``until`` is there; the same again where one failed.

    ``times`` gets when messages were stored: for each task its number, how many, and these. Beside
    it the file ``times + ".begun"`` is made once each task has had a message stored.
    """
    stop, failed, stopping = trio.Path(until), 0, False
    stored = [array("q") for _ in range(threads)]

    async def one_after_the_other(number: int, acknowledged: "array[int]") -> None:
        nonlocal failed
        while not stopping:
            body = struct.pack(">qq", number, len(acknowledged)) + BODY[16:]
            try:
                await producer.send(Message(topic=topic, body=body), queue=queue)
            except LanemqError as error:
                failed += 1
                print(error, file=sys.stderr)
                continue
            acknowledged.append(time.monotonic_ns())

    async with open_producer(
        "bench_producer", name_servers=name_server, options=OPTIONS
    ) as producer:
        queues = await producer.publish_queues(topic)
        queue = next(queue for queue in queues if queue.queue_id == queue_id)
        begun_s = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for task, acknowledged in enumerate(stored):
                nursery.start_soon(one_after_the_other, first + task, acknowledged)
            while not await stop.exists():
                if all(stored):
                    await trio.Path(f"{times}.begun").touch()
                await trio.sleep(0.02)
            stopping = True
        ended_s = time.perf_counter()
    flat = array("q")
    for task, acknowledged in enumerate(stored):
        flat.extend([first + task, len(acknowledged)])
        flat.extend(acknowledged)
    if sys.byteorder == "little":
        flat.byteswap()
    await trio.Path(times).write_bytes(flat.tobytes())
    return measured(sum(map(len, stored)), begun_s, ended_s) | {"failed": failed}


Command = Callable[..., Measured]


def on_trio(command: Callable[..., Awaitable[Measured]]) -> Command:
    """Return a function that runs a command on trio."""
    return lambda **arguments: trio.run(partial(command, **arguments))


COMMANDS: Mapping[str, Command] = {
    command.__name__: on_trio(command) for command in (send, consume, stages, load)
}


def answer(line: bytes, commands: Mapping[str, Command] = COMMANDS) -> dict[str, Any]:
    """Carry out the command of one line."""
    request: dict[str, Any] = msgspec.json.decode(line)
    number, command = request.pop("id"), request.pop("command")
    try:
        return {"id": number, "result": commands[command](**request)}
    except Exception as error:  # the caller has to know
        return {
            "id": number,
            "error": type(error).__name__,
            "code": -1,
            "message": f"{error} {getattr(error, '__notes__', '')}",
        }


def serve(commands: Mapping[str, Command] = COMMANDS) -> None:
    """Carry out the commands of all lines of the standard input."""
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(msgspec.json.encode(answer(line, commands)) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    serve()
