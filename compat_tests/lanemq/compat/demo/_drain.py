"""The part of the demo that drains an Apache broker behind a proxy while clients work.

Two brokers of Apache, and ``lanemq proxy --logical --moves`` before them. An unmodified Java client
of 2014 writes and reads all queues of a topic; one of the brokers is drained, and stopped for good.
It goes on beside the other parts, since pulls that brokers hold have to end for it, which takes a
quarter of a minute.
"""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import trio
from rich.console import Console
from rich.table import Table

from lanemq.sdk import LanemqError
from lanemq.sdk.admin import AdminClient, open_admin

from .._errors import CommandRefused, CompatError, ScenarioFailed, ServerFailed
from ..cells._cell import Cell
from ..clients._families import open_client
from ..clients._messages import Outgoing
from ..servers._clusters import LANEMQ, Cluster
from ..servers._proxy import site
from ..servers._waiting import PATIENT_S, until

TOPIC: Final = "demo-drained"
QUEUES: Final = 1
"""At each broker."""
CLIENT: Final = "java-3.2.6"
SERVER: Final = "5.3.3"
PAUSE_S: Final = 0.02
MORE: Final = 50
"""Messages that are sent before the drain, between it and the end of the broker, and after that."""
ARRIVE_S: Final = 60.0
LOGS: Final = "LANEMQ_LOGS"


@dataclass(frozen=True, slots=True)
class Drained:
    """The drain that the demo shows."""

    kept: str
    gone: str
    """The broker that was drained and stopped."""
    sent: int
    """Acknowledged messages."""
    refused: int
    """Sends that failed."""
    received: tuple[int, ...]
    """The numbers of the messages that the consumer got; they were sent as 0, 1, 2 ..."""
    queues: tuple[tuple[str, ...], tuple[str, ...]]
    """The topic's queues, before and after."""
    longest_s: float
    """The longest that a send took."""

    @property
    def lost(self) -> int:
        """Messages that were acknowledged and did not arrive."""
        return self.sent - len(set(self.received))

    @property
    def twice(self) -> int:
        """Messages that arrived again."""
        return sum(count - 1 for count in Counter(self.received).values())

    @property
    def verdict(self) -> str:
        """The word "unnoticed", or what was noticed."""
        noticed = {
            f"{self.refused} sends failed": self.refused > 0,
            f"{self.lost} messages lost": self.lost > 0,
            f"{self.twice} messages twice": self.twice > 0,
            "other queues": self.queues[0] != self.queues[1],
        }
        return ", ".join(what for what, is_so in noticed.items() if is_so) or "unnoticed"


@dataclass
class _Load:
    """A producer that numbers its messages."""

    sent: int = 0
    refused: int = 0
    longest_s: float = 0.0
    is_over: bool = False

    async def run(self, cell: Cell, started: trio.Event) -> None:
        async with cell.producer() as producer:
            started.set()
            while not self.is_over:
                begun_s = trio.current_time()
                try:
                    await producer.send(Outgoing(TOPIC, b"%d" % self.sent))
                except CommandRefused:
                    self.refused += 1
                else:
                    self.sent += 1
                self.longest_s = max(self.longest_s, trio.current_time() - begun_s)
                await trio.sleep(PAUSE_S)

    async def more(self) -> None:
        wanted = self.sent + MORE
        with trio.fail_after(ARRIVE_S):
            while self.sent < wanted:  # noqa: ASYNC110 - the load tells nobody
                await trio.sleep(PAUSE_S)


async def drain_under(folder: Path) -> Drained:
    """Drain a broker while a client sends and consumes. Raises ``CompatError``."""
    async with (
        site(folder, settle_s=0, moves=True, version=SERVER) as at,
        open_client(CLIENT, folder) as driver,
        open_admin(name_servers=at.addresses[0], timeout_s=ARRIVE_S) as admin,
    ):
        upstream = at.upstream
        await upstream.control.create_topic(TOPIC, QUEUES)
        cluster = Cluster("demo", at.addresses[0], upstream.folder, upstream.daemons)
        cell, load, started = Cell("demo_drain", driver, cluster), _Load(), trio.Event()
        async with cell.consumer(TOPIC, group="demo-drained") as consumer:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(load.run, cell, started)
                await started.wait()
                await load.more()
                before = await _queues(admin)
                (kept,) = set((await admin.values(LOGS)).values())
                names = sorted((await admin.cluster()).broker_addr_table)
                (gone,) = set(names) - {kept}
                await _drain(at.addresses[0], gone)
                await load.more()
                await upstream.daemons[1 + names.index(gone)].stop()

                async def is_gone() -> bool:
                    return gone not in (await admin.cluster()).broker_addr_table

                await until(is_gone)
                await load.more()
                after = await _queues(admin)
                load.is_over = True
            with suppress(ScenarioFailed):  # the table shows what came
                await consumer.until(
                    f"{load.sent} messages",
                    lambda: len(set(consumer.bodies)) >= load.sent,
                    within_s=ARRIVE_S,
                )
            received = tuple(int(body) for body in consumer.bodies)
    return Drained(kept, gone, load.sent, load.refused, received, (before, after), load.longest_s)


@final
class Beside:
    """The drain, which goes on beside the other parts of the demo."""

    def __init__(self, folder: Path, *, is_possible: bool) -> None:
        self._folder = folder
        self._is_possible = is_possible
        self._drained: Drained | None = None
        self._error = ""

    async def run(self) -> None:
        """Drain a broker, where Java is there."""
        if not self._is_possible:
            return
        try:
            self._drained = await drain_under(self._folder)
        except (CompatError, LanemqError, trio.TooSlowError) as error:
            self._error = f"{type(error).__name__}: {error}"

    def show(self, console: Console) -> bool:
        """Print what came of it; returns whether it went unnoticed, or was not possible."""
        if self._drained is not None:
            show_drained(console, self._drained)
            return self._drained.verdict == "unnoticed"
        if self._error:
            console.print(f"[red]no Apache broker was drained: {self._error}")
        return not self._error


async def _queues(admin: AdminClient) -> tuple[str, ...]:
    route = await admin.route(TOPIC)
    return tuple(
        sorted(
            f"{one.broker_name} {number}"
            for one in route.queue_datas
            for number in range(min(one.read_queue_nums, one.write_queue_nums))
        )
    )


async def _drain(address: str, broker: str) -> None:
    command = [*LANEMQ, "admin", "drainBroker", "-n", address, "-b", broker]
    command += ["--timeout", str(PATIENT_S)]
    done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
    if done.returncode:
        raise ServerFailed(f"drainBroker: {done.stderr.decode().strip()}")


def show_drained(console: Console, drained: Drained) -> None:
    """Print the events as a table."""
    table = Table("an Apache broker that is drained", f"Java {CLIENT.removeprefix('java-')}")
    rows = {
        f"brokers of {SERVER}": f"{drained.kept}, {drained.gone} -> {drained.kept}",
        "sent and acknowledged": f"{drained.sent}, the slowest in "
        f"{drained.longest_s * 1000:.0f} ms; {drained.refused} failed",
        "consumed": f"{len(drained.received)} (lost {drained.lost}, twice {drained.twice})",
        "queues before and after": " and ".join(", ".join(one) for one in drained.queues),
        "the client's view": drained.verdict,
    }
    for title, value in rows.items():
        table.add_row(title, value)
    console.print(table)
