"""A lanemq broker goes to RocksDB and back while real clients send and consume all the time.

Each change of stage is one restart. One broker goes all the way and is asked to stop each time;
for every change of stage there is another broker that is killed before it. All of them run at
once, with the same client processes, because clients take up to half a minute to notice.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
import trio

from lanemq.compat import (
    Cell,
    Cluster,
    CommandRefused,
    Committed,
    Delivery,
    Driver,
    Outgoing,
    ServerFailed,
    StoreStand,
    StoreView,
    free_port,
    lanemq_name_server,
    open_client,
    running,
)
from lanemq.storage import Stage

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.usefixtures("java", "go")]

CLIENTS = ("java-4.9.7", "java-5.3.3", "go-2.1.0", "python")
ORDERLY = ("java-4.9.7", "python")
# What has a pull waiting at a killed broker waits for its own time-out, 30 s; the Go client does
# so after a stop, too, at Apache's brokers as at ours.
AWAKE_AFTER_STOP = ("java-4.9.7", "java-5.3.3", "python")
AWAKE_AFTER_KILL = ("java-5.3.3", "python")
# A broker that has just started has no list of the group's members for the Go client, which then
# gives up its queues, and forgets all of their offsets but one that it has not reported yet. It
# takes them back from the start where its question for an offset fails.
STEADY = ("java-4.9.7", "java-5.3.3", "python")
REMEMBERED_S = 50.0
"""A pause within which the SDK surely knows what it had read of a queue whose lock has ended with
the connection, and could not commit: it remembers that for a minute. A busy machine may take longer
for a restart."""
JOURNEY = (Stage.FILES, Stage.BOTH, Stage.ROCKSDB, Stage.BOTH, Stage.FILES)
TOPIC, QUEUES = "live", 4
SETTINGS = {"flushConsumerOffsetInterval": "300"}
PERSISTED_S = 5.0
"""An offset that the broker has known for so long is on its disk, whatever happens to it."""
GOING_ON = 10
"""Messages of each sender that each group must get before the next restart."""
BETWEEN_SENDS_S = 0.1
WAIT_S = 180.0

Offsets = dict[tuple[str, int], int]
"""Group and queue id -> committed offset."""


class Group:
    """A consumer group with one consumer, and what it was handed."""

    def __init__(self, persisted: Callable[[int], int]) -> None:
        self._persisted = persisted
        """Returns the offset up to which the group's progress in a queue is on the disk."""
        self.back: list[str] = []
        """Messages that came again from behind what was on the disk."""
        self.bodies: set[bytes] = set()
        self.offsets: dict[int, list[int]] = defaultdict(list)
        """Queue id -> offsets in the order in which they came."""
        self.longest_pause_s = 0.0
        """The longest time in which no message came."""
        self._last_s = math.inf
        self._came = trio.Event()

    def deliver(self, delivery: Delivery) -> None:
        """Take note of one call of the listener."""
        message = delivery.message
        self.longest_pause_s = max(self.longest_pause_s, delivery.at_s - self._last_s)
        self._last_s = delivery.at_s
        offsets, persisted = self.offsets[message.queue_id], self._persisted(message.queue_id)
        if message.queue_offset < persisted and message.queue_offset in offsets:
            self.back.append(f"{message.queue_id}: {message.queue_offset} after {persisted}")
        self.bodies.add(message.body)
        offsets.append(message.queue_offset)
        self._came.set()
        self._came = trio.Event()

    async def has(self, bodies: set[bytes]) -> set[bytes]:
        """Wait until all of ``bodies`` have come; return those that have not in ``WAIT_S``."""
        with trio.move_on_after(WAIT_S):
            while bodies - self.bodies:
                await self._came.wait()
        return bodies - self.bodies

    @property
    def jumps(self) -> list[tuple[int, int, int]]:
        """Queue id, offset and the offset after it, where messages were left out at first."""
        found = []
        for queue_id, offsets in self.offsets.items():
            end = 0
            for offset in offsets:
                if offset > end:
                    found.append((queue_id, end, offset))
                end = max(end, offset + 1)
        return found

    @property
    def repeated(self) -> int:
        """The number of messages that came again."""
        return sum(len(offsets) - len(set(offsets)) for offsets in self.offsets.values())


class Traffic:
    """A sender and a group of every client on one broker."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, list[bytes]] = {client: [] for client in CLIENTS}
        self.refused: dict[str, str] = {}
        """Client -> the last thing its sender was told instead."""
        self.groups: dict[str, Group] = {}
        self.stopped = False

    async def send(self, cell: Cell) -> None:
        """Send numbered messages, each until it is acknowledged, until ``stopped``."""
        acknowledged = self.acknowledged[cell.client]
        async with cell.producer() as producer:
            while not self.stopped:
                body = self._body(cell.client, len(acknowledged))
                queue_id = len(acknowledged) % QUEUES
                try:
                    await producer.send(Outgoing(TOPIC, body), queue_id=queue_id)
                except CommandRefused as refused:  # the broker is being restarted
                    self.refused[cell.client] = str(refused)
                    await trio.sleep(0.2)
                else:
                    acknowledged.append(body)
                    await trio.sleep(BETWEEN_SENDS_S)

    @staticmethod
    def _body(client: str, number: int) -> bytes:
        return b"%s %d" % (client.encode(), number)

    async def goes_on(self, clients: Sequence[str] = CLIENTS) -> None:
        """Wait until groups have messages of every sender that are sent from now on."""
        coming = {
            self._body(client, len(bodies) + number)
            for client, bodies in self.acknowledged.items()
            for number in range(GOING_ON)
        }
        await self._have(clients, coming)

    async def comes_to_its_end(self) -> None:
        """Stop sending and wait until every group has all that was acknowledged."""
        self.stopped = True
        await self._have(CLIENTS, {b for bodies in self.acknowledged.values() for b in bodies})

    async def _have(self, clients: Sequence[str], bodies: set[bytes]) -> None:
        for client in clients:
            missing = await self.groups[client].has(bodies)
            assert not missing, f"{client} lacks {sorted(missing)[:5]}, refused: {self.refused}"


class OffsetWatch:
    """Asks a broker again and again how far its groups are, and sees whether one goes back."""

    def __init__(self, stand: StoreStand) -> None:
        self._stand = stand
        self._seen: list[tuple[float, Offsets]] = []
        self._killed_s = -1.0
        self.steady: set[str] = set()
        """The groups that commit no offset before one that they have committed."""
        self.backwards: list[str] = []

    async def run(self) -> None:
        while True:
            asked_s = trio.current_time()
            try:
                committed = await self._stand.committed()
            except (OSError, ServerFailed):
                pass  # it is being restarted
            else:
                if asked_s > self._killed_s:
                    self._note(committed)
            await trio.sleep(0.1)

    def _note(self, committed: Committed) -> None:
        now = {
            (group, queue_id): offset
            for (group, topic), queues in committed.items()
            for queue_id, offset in queues.items()
            if topic == TOPIC
        }
        last = self._seen[-1][1] if self._seen else {}
        self.backwards += [
            f"{place}: {offset} became {now.get(place)}"
            for place, offset in last.items()
            if place[0] in self.steady and now.get(place, -1) < offset
        ]
        self._seen.append((trio.current_time(), now))

    async def knows_of_all_queues(self) -> None:
        """Wait until every group's offset in every queue has been on the disk for sure."""
        with trio.fail_after(WAIT_S):
            while len(self._on_disk()) < len(CLIENTS) * QUEUES:  # noqa: ASYNC110
                await trio.sleep(0.1)

    def forget(self) -> None:
        """Forget what may not have been on the disk when the broker died."""
        self._seen = [(trio.current_time() - PERSISTED_S, self._on_disk())]
        self._killed_s = trio.current_time()

    def persisted(self, group: str, queue_id: int) -> int:
        """Return the offset of a group in a queue that is on the disk for sure; 0: none."""
        return self._on_disk().get((group, queue_id), 0)

    def _on_disk(self) -> Offsets:
        limit = trio.current_time() - PERSISTED_S
        return next((offsets for at, offsets in reversed(self._seen) if at <= limit), {})


@dataclass(frozen=True, slots=True)
class Run:
    """One broker's way through the stages, and how it ends before each change."""

    stages: Sequence[Stage]
    killed: bool

    @property
    def name(self) -> str:
        return "-".join((*(stage.name for stage in self.stages), "killed" * self.killed))

    async def under_load(self, folder: Path, drivers: Sequence[Driver]) -> None:
        """Start a name server and a broker for it, let all clients loose, and restart."""
        port = free_port()
        address = f"127.0.0.1:{port}"
        name_server = lanemq_name_server(folder / "namesrv", port=port)
        cluster = Cluster("lanemq", address, folder, [name_server])
        stand = StoreStand(folder, name_server=address)
        cells = [Cell(f"live-{self.name}", driver, cluster) for driver in drivers]
        traffic, watch = Traffic(), OffsetWatch(stand)
        async with running(cluster), trio.open_nursery() as nursery, AsyncExitStack() as consumers:
            for number, stage in enumerate(self.stages):
                is_last = number == len(self.stages) - 1
                killed = self.killed and not is_last
                async with stand.run("lanemq", stage, killed=killed, settings=SETTINGS):
                    if number == 0:
                        await cluster.control.create_topic(TOPIC, QUEUES)
                        await start_groups(cells, traffic, watch, consumers)
                        for cell in cells:
                            nursery.start_soon(traffic.send, cell)
                        nursery.start_soon(watch.run)
                        await traffic.goes_on()
                    else:
                        awake = AWAKE_AFTER_KILL if self.killed else AWAKE_AFTER_STOP
                        await traffic.goes_on(awake)
                    if stage is Stage.BOTH:
                        await stand.indexes_agree()
                    if is_last:
                        await traffic.comes_to_its_end()
                        view = await stand.view()
                        nursery.cancel_scope.cancel()
                        await consumers.aclose()
                    else:
                        await watch.knows_of_all_queues()
                if killed:
                    watch.forget()
                    if stage is Stage.ROCKSDB:  # as the broker asks for, which only a stop does
                        await stand.tool("export-metadata", "--in-place")
        check(traffic, watch, view, killed=self.killed)


async def start_groups(
    cells: Sequence[Cell], traffic: Traffic, watch: OffsetWatch, consumers: AsyncExitStack
) -> None:
    for cell in cells:
        orderly, name = cell.client in ORDERLY, cell.name("group")
        opening = cell.consumer(TOPIC, group=name, orderly=orderly)
        consumer = await consumers.enter_async_context(opening)
        group = traffic.groups[cell.client] = Group(partial(watch.persisted, name))
        if cell.client in STEADY:
            watch.steady.add(name)
        cell.driver.listen(consumer.name, group.deliver)


def check(traffic: Traffic, watch: OffsetWatch, view: StoreView, *, killed: bool) -> None:
    assert watch.backwards == []
    assert view.holes == []
    assert view.shifted == []
    for queue_id in range(QUEUES):
        slots = view.slots[TOPIC, queue_id]
        bodies = list(dict.fromkeys(message.body for _, message in sorted(slots.items())))
        for client, acknowledged in traffic.acknowledged.items():
            ours = [body for body in bodies if body.startswith(client.encode())]
            wanted = acknowledged[queue_id::QUEUES]
            assert ours[: len(wanted)] == wanted, (client, queue_id)
    for client, group in traffic.groups.items():
        if client in ORDERLY:
            assert group.jumps == [], client
        if client in STEADY:
            assert group.back == [], client
            forgets = client == "python" and group.longest_pause_s > REMEMBERED_S
            assert killed or forgets or group.repeated == 0, (client, group.longest_pause_s)


RUNS = (
    Run(JOURNEY, killed=False),
    *(Run(change, killed=True) for change in pairwise(JOURNEY)),
)


async def test_clients_lose_nothing_in_an_upgrade_and_a_return(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        drivers = [
            await stack.enter_async_context(open_client(client, tmp_path)) for client in CLIENTS
        ]
        async with trio.open_nursery() as nursery:
            for run in RUNS:
                nursery.start_soon(run.under_load, tmp_path / run.name, drivers)
