"""The part of the demo that moves a queue to another broker while clients work on it.

Two brokers, one set of logical queues. A producer and an orderly consumer, which need not know
anything of all this, write and read one queue; it goes to the other broker, and back.
"""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import trio
from rich.console import Console
from rich.table import Table

from lanemq.sdk.admin import open_admin

from .._errors import ScenarioFailed
from ..cells._cell import Cell
from ..clients._driver import Driver
from ..clients._messages import Outgoing
from ..servers._clusters import running
from ..servers._logical import BROKERS, LogicalControl, logical_cluster
from ..servers._waiting import PATIENT_S

TOPIC = "demo-moving"
QUEUES, QUEUE_ID = 4, 0
REST_S = 0.7
"""Pause before, between and after the migrations."""
ARRIVE_S = 60.0


@dataclass(frozen=True, slots=True)
class Moved:
    """The migration that the demo shows: a queue goes to another broker and back."""

    client: str
    brokers: tuple[str, ...]
    """The brokers that had the queue, one after the other, as the brokers say."""
    sent: int
    """Acknowledged messages."""
    numbers: tuple[int, ...]
    """Numbers of the messages that the consumer got; they were sent as 0, 1, 2 ..."""
    offsets: tuple[int, ...]
    """Their offsets in the queue, as the consumer sees them."""
    queues: tuple[tuple[int, ...], tuple[int, ...]]
    """The ids of the topic's queues, before and after."""
    longest_s: float
    """The longest that a send took."""

    @property
    def lost(self) -> int:
        """Messages that were acknowledged and did not arrive."""
        return self.sent - len(set(self.numbers))

    @property
    def twice(self) -> int:
        """Messages that arrived again."""
        return sum(count - 1 for count in Counter(self.numbers).values())

    @property
    def verdict(self) -> str:
        """The word "unnoticed", or what was noticed."""
        whole = tuple(range(self.sent))
        noticed = {
            f"{self.lost} messages lost": self.lost > 0,
            f"{self.twice} messages twice": self.twice > 0,
            "another order": self.numbers != tuple(sorted(self.numbers)),
            "offsets with holes": not self.twice and self.offsets != whole,
            "other queues": self.queues[0] != self.queues[1],
            "it stayed where it was": self.brokers != (*BROKERS, BROKERS[0]),
        }
        return ", ".join(what for what, is_so in noticed.items() if is_so) or "unnoticed"


async def move_under(client: str, driver: Driver, folder: Path, *, logs: Path) -> Moved:
    """Let a client send and consume while its queue moves; ``client`` is its name for people."""
    cluster = logical_cluster(folder, moving=False)
    async with running(cluster, logs=logs):
        control = cluster.control
        assert isinstance(control, LogicalControl)
        await control.create_topic(TOPIC, QUEUES)
        cell = Cell("demo_migration", driver, cluster)
        longest_s, sent, stopping, brokers = 0.0, 0, False, []

        async def send() -> None:
            nonlocal longest_s, sent
            while not stopping:
                begun_s = trio.current_time()
                await producer.send(Outgoing(TOPIC, b"%d" % sent), queue_id=QUEUE_ID)
                longest_s = max(longest_s, trio.current_time() - begun_s)
                sent += 1

        async with (
            open_admin(name_servers=cluster.name_server, timeout_s=PATIENT_S) as admin,
            cell.producer() as producer,
            cell.puller(TOPIC) as puller,
            cell.consumer(TOPIC, orderly=True) as consumer,
        ):
            before = tuple(sorted(await puller.queues()))
            await producer.send(Outgoing(TOPIC, b"0"), queue_id=QUEUE_ID)
            sent = 1
            await consumer.receive(1)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send)
                await trio.sleep(REST_S)
                brokers.append(await control.writable_at(admin, TOPIC, QUEUE_ID) or "nowhere")
                for destination in reversed(BROKERS):
                    await admin.migrate_logical_queue(TOPIC, QUEUE_ID, destination)
                    await trio.sleep(REST_S)
                    with trio.move_on_after(ARRIVE_S):  # brokers tell the name server by and by
                        while True:
                            broker = await control.writable_at(admin, TOPIC, QUEUE_ID)
                            if broker == destination:
                                break
                            await trio.sleep(0.05)
                    brokers.append(broker or "nowhere")
                stopping = True
            after = tuple(sorted(await puller.queues()))
            wanted = sent
            with suppress(ScenarioFailed):  # the table shows what came
                await consumer.until(
                    f"{wanted} messages",
                    lambda: len(set(consumer.bodies)) >= wanted,
                    within_s=ARRIVE_S,
                )
            received = consumer.consumed
    return Moved(
        client,
        tuple(brokers),
        sent,
        tuple(int(message.body) for message in received),
        tuple(message.queue_offset for message in received),
        (before, after),
        longest_s,
    )


def show_moved(console: Console, moved: Moved) -> None:
    """Print the events as a table."""
    table = Table("a queue that moves", moved.client)
    rows = {
        "written at": " -> ".join(moved.brokers),
        "sent and acknowledged": f"{moved.sent}, the slowest in {moved.longest_s * 1000:.0f} ms",
        "consumed": f"{len(moved.numbers)} (lost {moved.lost}, twice {moved.twice})",
        "order": "kept" if moved.numbers == tuple(sorted(moved.numbers)) else "[red]changed[/]",
        "queues before and after": " and ".join(str(list(queues)) for queues in moved.queues),
        "the client's view": moved.verdict,
    }
    for title, value in rows.items():
        table.add_row(title, value)
    console.print(table)
