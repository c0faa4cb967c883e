"""pyrocketmq as ``java/Bench.java`` is the Java client: the same commands, the same JSON lines.

pyrocketmq drives the Java client through JPype. Run with the folder of its jars as argument, by
a Python that has both packages; so this imports nothing of lanemq.
"""

import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import jpype
import jpype.imports

BODY = random.Random(1).randbytes(256)
CONSUME_S = 80.0
PRODUCERS: dict[str, Any] = {}


def producer(name_server: str) -> Any:  # noqa: ANN401 - pyrocketmq has no types
    if name_server not in PRODUCERS:
        from pyrocketmq.client.producer import Producer

        made = Producer("bench_producer")
        made.setNamesrvAddr(name_server)
        made.setSendMsgTimeout(10000)
        made.start()
        PRODUCERS[name_server] = made
    return PRODUCERS[name_server]


def measured(messages: int, begun_s: float, ended_s: float) -> dict[str, float]:
    return {"messages": messages, "seconds": ended_s - begun_s}


def send(name_server: str, topic: str, threads: int, seconds: float) -> dict[str, float]:
    """Send from ``threads`` threads, each one message after the other, for ``seconds``."""
    from pyrocketmq.common.message import Message

    sending = producer(name_server)
    sending.send(Message(topic=topic, body=BODY))
    counts: list[int] = []

    def one_after_the_other() -> None:
        sent = 0
        while not sent or time.perf_counter() < end_s:  # once at least, however late this is
            sending.send(Message(topic=topic, body=BODY))
            sent += 1
        counts.append(sent)

    begun_s = time.perf_counter()
    end_s = begun_s + seconds
    running = [threading.Thread(target=one_after_the_other) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if len(counts) < threads:
        raise RuntimeError(f"{threads - len(counts)} of {threads} threads failed")
    return measured(sum(counts), begun_s, time.perf_counter())


def consume(name_server: str, topic: str, group: str, count: int) -> dict[str, float]:
    """Read ``count`` messages with a new group; the time runs from the first to the last of
    them."""
    from org.apache.rocketmq.common.consumer import (
        ConsumeFromWhere,
    )
    from pyrocketmq.client.consumer.consumer import (
        PushConsumer,
    )
    from pyrocketmq.client.consumer.listener import (
        ConsumeConcurrentlyStatus,
        MessageListenerConcurrently,
    )

    lock, done = threading.Lock(), threading.Event()
    seen, times = [0], [0.0, 0.0]

    class Listener(MessageListenerConcurrently):  # type: ignore[misc] # it has no types
        def _consumeMessage(self, messages, context):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, N802
            with lock:
                if not seen[0]:
                    times[0] = time.perf_counter()
                seen[0] += len(messages)
                if seen[0] >= count and not done.is_set():
                    times[1] = time.perf_counter()
                    done.set()
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    consumer = PushConsumer(group)
    consumer.setNamesrvAddr(name_server)
    consumer.setInstanceName(group)
    consumer.this.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    consumer.subscribe(topic, "*")
    consumer.registerMessageListener(Listener())
    consumer.start()
    complete = done.wait(CONSUME_S)
    consumer.shutdown()
    if not complete:
        raise RuntimeError(f"{seen[0]} of {count} messages came")
    return measured(count, *times)


COMMANDS: dict[str, Callable[..., dict[str, float]]] = {"send": send, "consume": consume}


def main() -> None:
    wire = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Java prints must not get between the lines
    options = [
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in ("java.nio", "sun.nio.ch", "java.lang", "java.util")
    ]
    home = f"-Duser.home={os.environ['HOME']}"
    logging = "-Drocketmq.client.logUseSlf4j=false"
    jpype.startJVM(*options, home, logging, "-Xmx512m", classpath=[f"{sys.argv[1]}/*"])
    for line in sys.stdin:
        request = json.loads(line)
        number, command = request.pop("id"), request.pop("command")
        try:
            answer = {"id": number, "result": COMMANDS[command](**request)}
        except Exception as error:  # the caller has to know
            answer = {"id": number, "error": type(error).__name__, "code": -1}
            answer["message"] = str(error)
        wire.write(json.dumps(answer) + "\n")
        wire.flush()
    os._exit(0)  # the JVM's threads would keep it


if __name__ == "__main__":
    main()
