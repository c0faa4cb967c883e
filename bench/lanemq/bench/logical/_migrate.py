"""Bench of migrations: the pauses that senders to a logical queue see.

Two brokers and a name server. Senders write to one logical queue as fast as they are answered
while it is migrated back and forth between the brokers. Java's client knows nothing of logical
queues and writes through the brokers' listeners; the SDK follows the queue itself. In the end
the queue is read from its first offset on, and compared with what was acknowledged.
"""

import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trio

from lanemq.compat import (
    PATIENT_S,
    Cluster,
    Driver,
    LogicalControl,
    logical_cluster,
    open_driver,
    running,
)
from lanemq.sdk import LitePullOptions, open_lite_pull_consumer
from lanemq.sdk.admin import AdminClient, open_admin

from .._broker import Say, client_command
from .._results import this_machine
from ..clients._sdk import SDK_CLIENT
from ._pauses import (
    NS_PER_MS,
    Account,
    Times,
    Window,
    account,
    acknowledged_in,
    decode_times,
    longest_gap_ns,
    percentile,
    pieces,
    usual_gap_ns,
)
from ._results import MigrateBench, Migrations

CLIENTS = ("java", "sdk")
QUEUES, QUEUE_ID = 4, 0
PARTS = ("here", "there", "migrating")
"""Parts of a round: the queue is where it was at the begin, at the other broker, or on the move."""
CALM_S = 0.5
"""Seconds from the first sends to the first that count."""
QUIET_S, LOST_S = 5.0, 60.0
"""Seconds without a message behind the end of a queue; the longer one where messages are
missing."""
PER_ROUND = 10
SENDER_AND_NUMBER = 16
"""Bytes of a body: who sent it, and which of its messages it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigratePlan:
    """The number of migrations, and the load during them."""

    migrations: int = 50
    threads: int = 16
    """Senders to the queue, each of which waits for its answers."""
    interval_s: float = 0.2
    """Seconds between the end of a migration and the next."""
    quiet_s: float = 3.0
    """Length of each of a round's two parts without migrations."""
    clients: Sequence[str] = CLIENTS


@dataclass(slots=True)
class _Seen:
    """The samples of one client, in milliseconds and messages per second."""

    took_ms: list[float] = field(default_factory=list)
    pauses_ms: list[float] = field(default_factory=list)
    quiet_ms: list[float] = field(default_factory=list)
    rates: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in PARTS})
    sent: dict[int, int] = field(default_factory=dict)
    failed: int = 0

    def add(self, times: Times, quiet: Sequence[Window], windows: Sequence[Window]) -> None:
        """Take in a round: its quiet parts, here and there, and a window for each migration."""
        usual_ns = min(usual_gap_ns(times, window) for window in quiet)

        def pause_ms(window: Window) -> float:
            return round(max(0.0, longest_gap_ns(times, window) - usual_ns) / NS_PER_MS, 2)

        length_ns = statistics.median(end - begin for begin, end in windows)
        self.pauses_ms += map(pause_ms, windows)
        for window in quiet:
            self.quiet_ms += map(pause_ms, pieces(window, length_ns))
        for name, spans in zip(PARTS, ([quiet[0]], [quiet[1]], windows), strict=True):
            took_s = sum(end - begin for begin, end in spans) / 1e9
            count = sum(acknowledged_in(times, window) for window in spans)
            self.rates[name].append(round(count / took_s, 1))
        self.sent |= {sender: len(stored) for sender, stored in times.items()}


async def bench_migrate(plan: MigratePlan, say: Say) -> MigrateBench:
    """Run the bench; raises ``lanemq.compat.CompatError`` where a server or the client fails."""
    machine = this_machine()
    commands = {"sdk": SDK_CLIENT}
    if "java" in plan.clients:
        commands["java"] = await trio.to_thread.run_sync(client_command)
    found = {}
    with tempfile.TemporaryDirectory(prefix="lanemq-bench-") as name:
        for client in plan.clients:
            folder = Path(name) / client
            cluster = logical_cluster(folder, settings={}, moving=False)
            async with (
                running(cluster),
                open_driver(client, commands[client], folder) as driver,
                open_admin(name_servers=cluster.name_server, timeout_s=PATIENT_S) as admin,
            ):
                found[client] = await _Bench(plan, say, client, cluster, driver, admin).run()
    return MigrateBench(machine, plan.threads, plan.migrations, found)


@dataclass(frozen=True, slots=True)
class _Bench:
    """One client on a cluster of its own."""

    plan: MigratePlan
    say: Say
    client: str
    cluster: Cluster
    driver: Driver
    admin: AdminClient
    topic: str = "bench-migrate"

    async def run(self) -> Migrations:
        """Warm up, do all rounds, and read the queue."""
        await self.cluster.control.create_topic(self.topic, QUEUES)
        seen, done, first = _Seen(), 0, 0
        self.say(f"{self.client}: warming up")
        await self._round(_Seen(), first, 2, into=seen.sent)
        while done < self.plan.migrations:
            first += self.plan.threads
            count = min(PER_ROUND, self.plan.migrations - done)
            await self._round(seen, first, count, into=seen.sent)
            done += count
            self.say(
                f"{self.client}: {done} migrations, {seen.rates['here'][-1]:,.0f} and "
                f"{seen.rates['there'][-1]:,.0f} messages/s before and "
                f"{seen.rates['migrating'][-1]:,.0f} meanwhile, longest pauses "
                f"{max(seen.quiet_ms):.0f} ms before and {max(seen.pauses_ms):.0f} ms meanwhile"
            )
        sent = sum(seen.sent.values())
        self.say(f"{self.client}: reading {sent:,} messages")
        result = await self._account(seen.sent)
        here, there, migrating = (statistics.median(seen.rates[name]) for name in PARTS)
        return Migrations(
            took_ms=seen.took_ms,
            pauses_ms=seen.pauses_ms,
            quiet_ms=seen.quiet_ms,
            rates=seen.rates,
            rate_kept=round(migrating / statistics.mean((here, there)), 3),
            sent=sent,
            failed=seen.failed,
            lost=result.lost,
            duplicated=result.duplicated,
            out_of_order=result.out_of_order,
        )

    async def _round(self, seen: _Seen, first: int, count: int, *, into: dict[int, int]) -> None:
        """Run ``count`` migrations, with a quiet window before the first one and another behind it.

        Then the queue is at the other broker, for whose messages a client that goes through the
        first one's listener has further to go. Senders are numbered from ``first`` on.
        """
        times_file = self.cluster.folder / f"times-{first}"
        windows: list[Window] = []
        async with self._load(seen, first, times_file):
            await trio.sleep(CALM_S)
            quiet = [await self._quiet()]
            for number in range(count):
                if number == 1:
                    quiet.append(await self._quiet())
                begun = time.monotonic_ns()
                await self._migrate()
                seen.took_ms.append(round((time.monotonic_ns() - begun) / NS_PER_MS, 2))
                await trio.sleep(self.plan.interval_s)
                windows.append((begun, time.monotonic_ns()))
            if count == 1:
                quiet.append(await self._quiet())
        times = decode_times(times_file.read_bytes())
        seen.add(times, quiet, windows)
        into |= {sender: len(stored) for sender, stored in times.items()}

    async def _quiet(self) -> Window:
        begun = time.monotonic_ns()
        await trio.sleep(self.plan.quiet_s)
        return begun, time.monotonic_ns()

    @asynccontextmanager
    async def _load(self, seen: _Seen, first: int, times_file: Path) -> AsyncIterator[None]:
        stop = times_file.with_suffix(".stop")

        async def load() -> None:
            answer = await self.driver.call(
                "load",
                name_server=self.cluster.name_server,
                topic=self.topic,
                queue_id=QUEUE_ID,
                threads=self.plan.threads,
                first=first,
                until=str(stop),
                times=str(times_file),
            )
            seen.failed += int(answer["failed"])

        begun = trio.Path(f"{times_file}.begun")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(load)
            while not await begun.exists():  # noqa: ASYNC110 - the client's process makes it
                await trio.sleep(0.02)
            yield
            stop.touch()

    async def _migrate(self) -> None:
        control = self.cluster.control
        assert isinstance(control, LogicalControl)
        broker = await control.writable_at(self.admin, self.topic, QUEUE_ID)
        (other,) = set(control.brokers) - {broker}
        await self.admin.migrate_logical_queue(self.topic, QUEUE_ID, other)

    async def _account(self, sent: dict[int, int]) -> Account:
        """Read the queue, up to where it ends now."""
        found: list[tuple[int, int]] = []
        async with open_lite_pull_consumer(
            "bench-account",
            name_servers=self.cluster.name_server,
            options=LitePullOptions(pull_batch=256, poll_messages_max=1024),
        ) as consumer:
            queue = next(
                queue
                for queue in await consumer.queues_of(self.topic)
                if queue.queue_id == QUEUE_ID
            )
            await consumer.assign([queue])
            await consumer.seek_to_begin(queue)
            # Failed sends may have stored more: the end is reached when nothing comes any more.
            waited_s, result = 0.0, account(sent, found)
            while waited_s < (LOST_S if result.lost else QUIET_S):
                messages = await consumer.poll(timeout_s=QUIET_S)
                for message in messages:
                    head = message.body[:SENDER_AND_NUMBER]
                    found.append((int.from_bytes(head[:8], "big"), int.from_bytes(head[8:], "big")))
                waited_s = 0.0 if messages else waited_s + QUIET_S
                if not messages:
                    result = account(sent, found)
        return result


def pause_figures(pauses_ms: Sequence[float]) -> tuple[float, float, float]:
    """Median, 99th percentile and maximum."""
    return statistics.median(pauses_ms), percentile(pauses_ms, 0.99), max(pauses_ms)
