"""``lanemq compat demo``: a minute that shows a message going through, both ways.

Starts ``lanemq serve`` on free ports, lets the SDK and an unmodified Java client send to each
other, and shows what arrived. Then a queue is consumed in stages, small state is kept in the
broker, and a queue moves to another broker while clients work on it. Spark, where it is installed,
reads the store. At the end a broker of an Apache cluster is drained behind ``lanemq proxy``, and
stopped for good, while a Java client of 2014 goes on. Without a JDK and Maven the SDK is the only
client, visibly.
"""

import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import trio
from rich.console import Console
from rich.table import Table

from lanemq.sdk import (
    ConcurrentListener,
    ConsumeFrom,
    Message,
    PushOptions,
    ReceivedMessage,
    open_producer,
    open_push_consumer,
)

from .._errors import PeersMissing
from ..cells._cell import Cell
from ..clients._driver import Driver, open_driver
from ..clients._families import open_client
from ..clients._messages import Outgoing
from ..peers._drivers import java_driver
from ..peers._programs import missing_tools, peers_required
from ..servers._clusters import DEFAULT_LOGS, Cluster, lanemq_cluster, running
from ..servers._waiting import PATIENT_CLIENT, PATIENT_PRODUCER
from ._drain import Beside
from ._kv import keep_state, show_kept
from ._migration import move_under, show_moved
from ._spark import read_by_spark, show_read
from ._stages import consume_in_stages, show_staged

JAVA_VERSION = "4.9.7"
JAVA = f"Java {JAVA_VERSION}"
ARRIVE_S = 60.0
MESSAGES = (
    Outgoing("", b"hello", "TagA", "order-1", 0, {"from": "demo"}),
    Outgoing("", "Grüße, 消息, 📨".encode(), "TagB", None, 0, {"größe": "über"}),
    Outgoing("", b"a compressible line\n" * 1000),
)
Seen = dict[bytes, tuple[str | None, dict[str, str]]]
"""The messages that arrived: body -> tags, and those properties that the sender chose."""


@dataclass(frozen=True, slots=True)
class Passage:
    """One line of the table."""

    sender: str
    receiver: str
    arrived: int
    seconds: float
    verdict: str


async def run_demo(console: Console) -> int:
    """Run the demo, print the table, return the exit status: 1 if anything differed."""
    missing = missing_tools("java")
    if missing and peers_required():
        raise PeersMissing(missing)
    command = None
    if not missing:
        with console.status(f"fetching the Java client {JAVA_VERSION} (only the first time)"):
            command = await trio.to_thread.run_sync(java_driver, JAVA_VERSION)
    with tempfile.TemporaryDirectory(prefix="lanemq-demo-") as name:
        beside = Beside(Path(name) / "apache", is_possible=command is not None)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(beside.run)
            is_fine = await _parts(console, Path(name), command)
            if command is not None:
                console.print("an Apache broker is drained behind a proxy meanwhile ...")
        is_fine &= beside.show(console)
    if missing:
        console.print(f"[yellow]without Java: {missing}")
        console.print("[yellow]not shown: an Apache broker that is drained behind lanemq proxy")
    return int(not is_fine)


async def _parts(console: Console, folder: Path, command: Sequence[str] | None) -> bool:
    """Show all that needs no Apache broker; returns whether nothing differed."""
    if command is None:
        client, driver = "Python SDK", open_client("python", folder)
    else:
        client, driver = JAVA, open_driver(f"java-{JAVA_VERSION}", command, folder)
    async with driver as driven:
        async with running(lanemq_cluster(folder), logs=DEFAULT_LOGS) as cluster:
            broker = cluster.broker
            console.print(f"lanemq serve: ready after {broker.ready_after_s:.2f} s")
            console.print(f"name server {cluster.name_server}, store {cluster.store}")
            passages = [await _python_to_python(cluster)]
            if command is not None:
                passages += await _with_java(cluster, driven)
            staged = await consume_in_stages(cluster)
            kept = await keep_state(cluster)
        status = await broker.stop()
        _show(console, passages)
        show_staged(console, staged)
        show_kept(console, kept)
        moved = await move_under(client, driven, folder / "migration", logs=DEFAULT_LOGS)
        show_moved(console, moved)
    read = await read_by_spark(cluster.store)
    show_read(console, read)
    console.print(f"lanemq stopped, exit status {status}")
    is_fine = all(passage.verdict == "equal" for passage in passages)
    is_fine &= (
        read.is_fine and staged.verdict == "kept" and all(is_right for _, is_right in kept.values())
    )
    return status == 0 and is_fine and moved.verdict == "unnoticed"


async def _python_to_python(cluster: Cluster) -> Passage:
    topic = "demo-python"
    async with _python_receiver(cluster, topic) as seen:
        return await _passage("Python SDK", "Python SDK", topic, cluster, seen)


async def _with_java(cluster: Cluster, driver: Driver) -> list[Passage]:
    cell = Cell("demo", driver, cluster)

    async with _python_receiver(cluster, "demo-from-java") as seen, cell.producer() as producer:
        begun = trio.current_time()
        for message in _addressed("demo-from-java"):
            await producer.send(message)
        to_python = await _arrival(JAVA, "Python SDK", begun, seen)

    await cluster.control.create_topic("demo-to-java")
    async with cell.consumer("demo-to-java", group="demo-java") as consumer:

        def seen_by_java() -> Seen:
            return {m.body: (m.tags, _chosen(m.properties)) for m in consumer.consumed}

        to_java = await _passage("Python SDK", JAVA, "demo-to-java", cluster, seen_by_java)
    return [to_python, to_java]


async def _passage(
    sender: str, receiver: str, topic: str, cluster: Cluster, seen: Callable[[], Seen]
) -> Passage:
    """Send with the SDK and wait for the messages at the receiver."""
    begun = trio.current_time()
    async with open_producer(
        "demo-producer", name_servers=cluster.name_server, options=PATIENT_PRODUCER
    ) as producer:
        for message in _addressed(topic):
            await producer.send(
                Message(
                    topic=topic,
                    body=message.body,
                    tags=message.tags or "",
                    keys=tuple((message.keys or "").split()),
                    properties=message.properties,
                )
            )
    return await _arrival(sender, receiver, begun, seen)


async def _arrival(sender: str, receiver: str, begun_s: float, seen: Callable[[], Seen]) -> Passage:
    expected = {message.body: (message.tags, message.properties) for message in MESSAGES}
    with trio.move_on_after(ARRIVE_S):
        # A person is waiting, not a processor: looking twenty times a second is enough.
        while len(seen()) < len(expected):  # noqa: ASYNC110
            await trio.sleep(0.05)
    verdict = "equal" if seen() == expected else f"differs: {seen()!r}"
    return Passage(sender, receiver, len(seen()), trio.current_time() - begun_s, verdict)


@asynccontextmanager
async def _python_receiver(cluster: Cluster, topic: str) -> AsyncIterator[Callable[[], Seen]]:
    await cluster.control.create_topic(topic)
    seen: Seen = {}

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        for message in messages:
            seen[message.body] = (message.tags or None, _chosen(message.properties))

    async with open_push_consumer(
        f"{topic}-group",
        name_servers=cluster.name_server,
        subscriptions={topic: "*"},
        listener=ConcurrentListener(handle),
        options=PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET, client=PATIENT_CLIENT),
    ):
        yield lambda: seen


def _addressed(topic: str) -> list[Outgoing]:
    return [
        Outgoing(topic, message.body, message.tags, message.keys, 0, message.properties)
        for message in MESSAGES
    ]


def _chosen(properties: Mapping[str, str]) -> dict[str, str]:
    names = {name for message in MESSAGES for name in message.properties}
    return {name: value for name, value in properties.items() if name in names}


def _show(console: Console, passages: list[Passage]) -> None:
    table = Table("sent by", "received by", "messages", "took", "bodies, tags, properties")
    for passage in passages:
        colour = "green" if passage.verdict == "equal" else "red"
        table.add_row(
            passage.sender,
            passage.receiver,
            f"{passage.arrived} of {len(MESSAGES)}",
            f"{passage.seconds:.2f} s",
            f"[{colour}]{passage.verdict}[/]",
        )
    console.print(table)
