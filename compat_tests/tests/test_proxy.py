"""``lanemq proxy`` before real Apache brokers, under unmodified clients: moves, kills, growth."""

import os
import shutil
import signal
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Final

import pytest
import trio

from lanemq.compat import Cell, Cluster, Outgoing, open_client
from lanemq.compat._errors import CommandRefused
from lanemq.compat._soak import SoakPlan, soak
from lanemq.compat.cells._consumers import Consumer
from lanemq.compat.cells._producers import Producer
from lanemq.compat.clients._driver import Driver
from lanemq.compat.servers._apache import apache_broker
from lanemq.compat.servers._clusters import LANEMQ, apache_test_settings
from lanemq.compat.servers._daemon import Daemon
from lanemq.compat.servers._mqadmin import open_mqadmin
from lanemq.compat.servers._ports import free_port
from lanemq.compat.servers._proxy import Site, site
from lanemq.compat.servers._waiting import PATIENT_S, until
from lanemq.sdk import LanemqError, NoRoute, RefusedByBroker
from lanemq.sdk.admin import AdminClient, open_admin
from lanemq.testkit.cases import first
from lanemq.wire.bodies import MessageQueue, TopicConfig

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.usefixtures("java")]

OLDEST: Final = "java-3.2.6"
BROKERS: Final = 2
WORKERS: Final = 2
QUEUES: Final = 4
HANDOVERS: Final = 4
PAUSE_S: Final = 0.01
GROWING: Final = "Growing"
FEW: Final = 2
Queue = tuple[str, int]


def cell_of(at: Site, driver: Driver, *name_servers: str) -> Cell:
    """Return a cell whose clients know these name servers, or proxies."""
    cluster = Cluster(
        "apache-5.3.3",
        ";".join(name_servers),
        at.upstream.folder,
        at.upstream.daemons,
        made_control=at.upstream.control,
    )
    return Cell("proxy", driver, cluster)


@dataclass
class Load:
    """A producer that numbers its messages."""

    topic: str
    sent: list[bytes] = field(default_factory=list)
    places: dict[bytes, tuple[tuple[str, int], int]] = field(default_factory=dict)
    """Body -> its queue, and its offset there."""
    refused: list[str] = field(default_factory=list)
    is_over: bool = False

    async def run(self, producer: Producer) -> None:
        number = 0
        while not self.is_over:
            body = b"%d" % number
            number += 1
            try:
                sent = await producer.send(Outgoing(self.topic, body))
            except CommandRefused as error:
                self.refused.append(str(error))
            else:
                self.sent.append(body)
                self.places[body] = (sent.broker_name, sent.queue_id), sent.queue_offset
            await trio.sleep(PAUSE_S)

    async def more(self, count: int = 60) -> None:
        known = len(self.sent)
        with trio.fail_after(180):
            while len(self.sent) < known + count:  # noqa: ASYNC110 - the load tells nobody
                await trio.sleep(PAUSE_S)


def handled(consumers: Sequence[Consumer]) -> Counter[bytes]:
    return Counter(body for consumer in consumers for body in consumer.bodies)


async def all_handled(consumers: Sequence[Consumer], sent: Sequence[bytes]) -> Counter[bytes]:
    """Wait until every message is handled; return how often each was."""
    with trio.move_on_after(180):
        while not set(sent) <= handled(consumers).keys():  # noqa: ASYNC110 - several consumers
            await trio.sleep(0.05)
    found = handled(consumers)
    assert not set(sent) - found.keys(), "lost"
    return found


@pytest.mark.parametrize(
    ("client", "orderly"), first(1, [(OLDEST, True), (OLDEST, False), ("java-4.9.7", True)])
)
async def test_members_of_a_group_move_over_one_by_one_and_back(
    client: str, orderly: bool, tmp_path: Path
) -> None:
    async with (
        site(tmp_path, settle_s=5) as at,  # whose order is the cluster's
        open_client(client, tmp_path) as driver,
        open_client(client, tmp_path) as other,
        trio.open_nursery() as nursery,
    ):
        direct, proxied = [at.upstream.name_server], at.addresses
        topic = "Moving"
        await at.upstream.control.create_topic(topic, QUEUES)
        load, consumers = Load(topic), list[Consumer]()

        @asynccontextmanager
        async def member(of: Driver, where: Sequence[str]) -> AsyncIterator[None]:
            cell = cell_of(at, of, *where)
            async with cell.consumer(topic, group="moving", orderly=orderly) as consumer:
                consumers.append(consumer)
                yield

        async with AsyncExitStack() as first, AsyncExitStack() as second:
            producer = cell_of(at, driver, *proxied).producer()
            async with producer as sender:
                nursery.start_soon(load.run, sender)
                await first.enter_async_context(member(driver, direct))
                await second.enter_async_context(member(other, direct))
                await load.more()
                for where in (proxied, direct):
                    for stack, of in ((first, driver), (second, other)):
                        await stack.aclose()
                        await stack.enter_async_context(member(of, where))
                        await load.more()
                load.is_over = True
                found = await all_handled(consumers, load.sent)
        assert not load.refused
        repeated = {body for body, count in found.items() if count > 1}
        # What a member had begun when it left is handled again, as it is without a proxy: in order,
        # one message of each queue.
        most = HANDOVERS * 2 * QUEUES if orderly else len(load.sent) // 4
        assert len(repeated) <= most, sorted(repeated)
        if orderly:
            for consumer in consumers:
                by_queue = defaultdict(list)
                for body in consumer.bodies:
                    queue, offset = load.places[body]
                    by_queue[queue].append(offset)
                for offsets in by_queue.values():
                    assert offsets == sorted(offsets)


@pytest.mark.parametrize(
    ("client", "version"),
    first(2, [(OLDEST, "4.9.7"), ("java-5.3.3", "5.3.3"), ("java-4.9.7", "5.3.3")]),
)
async def test_queues_move_between_brokers_while_clients_go_on(
    client: str, version: str, tmp_path: Path
) -> None:
    async with (
        site(tmp_path, proxies=2, settle_s=0, moves=True, version=version) as at,
        open_client(client, tmp_path) as driver,
        open_admin(name_servers=at.addresses[0], timeout_s=PATIENT_S) as admin,
        trio.open_nursery() as nursery,
    ):
        topic = "Migrating"
        await at.upstream.control.create_topic(topic, FEW)
        cell, load = cell_of(at, driver, *at.addresses), Load(topic)
        async with (
            cell.consumer(topic, group="migrating", orderly=True) as consumer,
            cell.producer() as sender,
        ):
            nursery.start_soon(load.run, sender)
            await load.more()
            route = await admin.route(topic)
            names = sorted(one.broker_name for one in route.broker_datas)
            for index, broker in ((1, names[1]), (FEW, names[0]), (1, names[0])):
                with trio.fail_after(150):
                    while (
                        found := await admin.move_queue(at.addresses[0], topic, index, broker)
                    ).state == "moving":
                        pass
                assert found.broker_name == broker
                await load.more()
            load.is_over = True
            counts = await all_handled([consumer], load.sent)
            assert not load.refused
            assert set(counts.values()) == {1}, "handled twice"
            by_queue = defaultdict(list)
            for body in consumer.bodies:
                queue, offset = load.places[body]
                by_queue[queue].append(offset)
            assert len(by_queue) == BROKERS * FEW
            for offsets in by_queue.values():
                assert offsets == list(range(len(offsets)))


async def administer(at: Site, *words: str) -> str:
    """Run an administrator's command at a proxy, and return what it shows."""
    command = [*LANEMQ, "admin", *words, "-n", at.addresses[0], "--timeout", str(PATIENT_S)]
    done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    return done.stdout.decode()


@pytest.mark.parametrize(
    ("client", "version", "is_killed", "workers"),
    first(1, [(OLDEST, "4.9.7", False, 2), ("java-4.9.7", "5.3.3", True, 1)]),
)
async def test_a_broker_is_drained_and_gone_while_clients_go_on(
    client: str, version: str, is_killed: bool, workers: int, tmp_path: Path
) -> None:
    """Nobody notices: the queues are the same, each message is handled once and in order."""
    async with (
        site(tmp_path, proxies=2, settle_s=0, moves=True, workers=workers, version=version) as at,
        open_client(client, tmp_path) as driver,
        open_admin(name_servers=at.addresses[0], timeout_s=PATIENT_S) as admin,
        trio.open_nursery() as nursery,
    ):
        await at.upstream.control.create_topic(GROWING, FEW)
        cell, load = cell_of(at, driver, *at.addresses), Load(GROWING)
        async with (
            cell.consumer(GROWING, group="drained", orderly=True) as consumer,
            cell.producer() as sender,
        ):
            nursery.start_soon(load.run, sender)
            await load.more()
            before = await queues_of(at.addresses[0])
            kept = await log_broker(admin)
            names = sorted({name for name, _ in before})
            (gone,) = set(names) - {kept}
            with trio.fail_after(400):
                shown = await administer(at, "drainBroker", "-b", gone)
            assert f"{kept} stands in for {gone}" in shown
            assert f"{gone} can be switched off now" in shown or "has not read" in shown, shown
            assert await told_permission(at, gone) == "4"  # for topics that are made later
            await load.more()
            daemon = at.upstream.daemons[1 + names.index(gone)]
            await (daemon.kill() if is_killed else daemon.stop())
            await load.more(200)
            await until(lambda: is_unlisted(at, gone), within_s=200)
            await load.more(200)
            counts = await all_handled([consumer], list(load.sent))
            assert not load.refused
            assert set(counts.values()) == {1}, "handled twice"
            for proxy in at.proxies:  # they find the queues of a broker that they never saw
                await proxy.stop()
                await proxy.start()
                await load.more()

            async def is_whole() -> bool:
                return [await told_queues(one) for one in at.addresses] == [before, before]

            await until(is_whole)
            await load.more()
            load.is_over = True
            await all_handled([consumer], load.sent)
        by_queue = defaultdict(list)
        for body in dict.fromkeys(consumer.bodies):
            if body in load.places:  # the answer to a send may be lost with a proxy
                queue, offset = load.places[body]
                by_queue[queue].append(offset)
        assert set(by_queue) == set(before)
        for offsets in by_queue.values():
            assert offsets == sorted(offsets)


async def log_broker(admin: AdminClient) -> str:
    """Wait until the proxies have noted where their logs are, and return the broker."""
    found = set[str]()

    async def noted() -> bool:
        found.update((await admin.values("LANEMQ_LOGS")).values())
        return bool(found)

    await until(noted)
    (kept,) = found
    return kept


async def told_permission(at: Site, broker: str) -> str:
    async with open_admin(name_servers=at.upstream.name_server, timeout_s=PATIENT_S) as admin:
        found = (await admin.cluster()).broker_addr_table[broker]
        return (await admin.config(found.broker_addrs[0]))["brokerPermission"]


async def is_unlisted(at: Site, broker: str) -> bool:
    async with open_admin(name_servers=at.upstream.name_server, timeout_s=PATIENT_S) as admin:
        return broker not in (await admin.cluster()).broker_addr_table


@pytest.mark.parametrize("client", first(1, [OLDEST, "java-5.3.3"]))
async def test_a_killed_proxy_loses_nothing_and_the_other_goes_on(
    client: str, tmp_path: Path
) -> None:
    async with (
        site(tmp_path, proxies=2) as at,
        open_client(client, tmp_path) as driver,
        trio.open_nursery() as nursery,
    ):
        topic = "Killed"
        await at.upstream.control.create_topic(topic, QUEUES)
        cell, load = cell_of(at, driver, *at.addresses), Load(topic)
        async with cell.consumer(topic, group="killed") as consumer, cell.producer() as sender:
            nursery.start_soon(load.run, sender)
            await load.more()
            proxy = at.proxies[0]
            await proxy.kill()
            await load.more()
            await proxy.start()
            await load.more()
            load.is_over = True
            await all_handled([consumer], load.sent)
        # A sender that may choose a queue finds the other proxy within its retries.
        assert not load.refused


@pytest.mark.parametrize("client", first(1, ["java-5.3.3", OLDEST]))
async def test_clients_of_a_worker_that_is_killed_go_on_at_another(
    client: str, tmp_path: Path
) -> None:
    async with (
        site(tmp_path, workers=WORKERS) as at,
        open_client(client, tmp_path) as driver,
        open_admin(name_servers=at.addresses[0], timeout_s=PATIENT_S) as admin,
        trio.open_nursery() as nursery,
    ):
        topic, (address,) = "Shared", at.addresses
        await at.upstream.control.create_topic(topic, QUEUES)
        cell, load = cell_of(at, driver, address), Load(topic)

        async def pids() -> list[int]:
            """Return the processes of both workers: one leaves the other out that answers late."""
            found = list[int]()

            async def told() -> bool:
                try:
                    workers = (await admin.proxy_status(address)).workers
                except LanemqError:  # the one that was asked is killed just now
                    return False
                found[:] = [worker.pid for worker in workers if not worker.problem]
                return len(found) == WORKERS

            await until(told)
            return found

        async with cell.consumer(topic, group="shared") as consumer, cell.producer() as sender:
            nursery.start_soon(load.run, sender)
            await load.more()
            for number in range(WORKERS):
                before = await pids()
                os.kill(before[number], signal.SIGKILL)
                await load.more()

                async def replaced(before: Sequence[int] = before) -> bool:
                    return len(set(await pids()) - set(before)) == 1

                await until(replaced)
                await load.more()
            load.is_over = True
            await all_handled([consumer], load.sent)
        # The address is there all the time: a send that is cut off finds it within its retries.
        assert not load.refused


@pytest.mark.parametrize("client", first(1, [OLDEST, "java-5.3.3"]))
async def test_a_rolling_restart_fails_no_send_and_repeats_nothing_in_order(
    client: str, tmp_path: Path
) -> None:
    async with (
        site(tmp_path, proxies=2, leave_s=35) as at,
        open_client(client, tmp_path) as driver,
        trio.open_nursery() as nursery,
    ):
        topic = "Rolling"
        await at.upstream.control.create_topic(topic, QUEUES)
        cell, load = cell_of(at, driver, *at.addresses), Load(topic)
        async with (
            cell.consumer(topic, group="rolling", orderly=True) as consumer,
            cell.producer() as sender,
        ):
            nursery.start_soon(load.run, sender)
            await load.more()
            for proxy in at.proxies:
                await proxy.stop()
                await load.more()
                await proxy.start()
                await at.agree()
            load.is_over = True
            found = await all_handled([consumer], load.sent)
        assert not load.refused
        assert set(found.values()) == {1}


async def test_a_mixed_load_loses_nothing_while_proxies_and_brokers_are_killed(
    tmp_path: Path,
) -> None:
    """A short one: ``lanemq-compat soak`` goes on for half an hour."""
    result = await soak(SoakPlan(seconds=60, every_s=15), tmp_path, print)
    assert not result.lost
    assert not result.out_of_order
    assert result.sent > 100
    assert result.kills


# Topics that grow


async def queues_of(proxy: str) -> list[Queue]:
    """Return the queues that clients are told, in the order in which they sort them."""
    async with open_admin(name_servers=proxy, timeout_s=PATIENT_S) as admin:
        route = await admin.route(GROWING)
    return sorted(
        (one.broker_name, number)
        for one in route.queue_datas
        for number in range(one.read_queue_nums)
    )


async def told_queues(proxy: str) -> list[Queue]:
    """Do as ``queues_of``; none are told by a proxy that has yet to read the order, or to find the
    port of a broker that is gone."""
    try:
        return await queues_of(proxy)
    except RefusedByBroker:
        return []


async def has_order(at: Site) -> bool:
    """Return whether the proxies' log has an order of the topic's queues. Up to then the cluster's
    counts, and a proxy that took no record in two seconds does without for five."""

    def find() -> bool:
        for path in at.upstream.folder.rglob("store/commitlog/*"):
            with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as log:
                if log.find(b"topic/" + GROWING.encode()) >= 0:
                    return True
        return False

    await until_all_see(at, len(await told_queues(at.addresses[0])))  # has them look for one
    return await trio.to_thread.run_sync(find)


async def grow(at: Site, broker: str, queues: int) -> None:
    """Set the number of queues at one broker, as ``updateTopic -b`` does, once they have an
    order."""
    await until(lambda: has_order(at))
    async with open_admin(name_servers=at.upstream.name_server, timeout_s=PATIENT_S) as admin:
        address = await admin.address_of(broker)
        await admin.put_topic(address, TopicConfig(GROWING, queues, queues))


async def until_all_see(at: Site, count: int) -> list[Queue]:
    """Wait until all proxies tell so many queues, and return them; they are the same."""
    with trio.fail_after(180):
        while True:
            found = [await told_queues(one) for one in at.addresses]
            if all(len(one) == count for one in found):
                break
            await trio.sleep(0.2)
    assert all(one == found[0] for one in found)
    return found[0]


async def until_sent_to(load: Load, queues: set[Queue]) -> None:
    with trio.fail_after(180):
        while not queues <= {place for place, _ in load.places.values()}:  # noqa: ASYNC110 - the load tells nobody
            await trio.sleep(0.1)


@pytest.mark.parametrize(
    ("client", "version"),
    first(1, [("java-3.2.6", "5.3.3"), ("java-3.2.6", "4.9.7"), ("java-4.9.7", "5.3.3")]),
)
async def test_queues_are_added_at_the_end_and_used_while_proxies_are_killed(
    client: str, version: str, tmp_path: Path
) -> None:
    """A broker's topic grows, a broker joins between the others, and a proxy is killed: the list
    that clients have only grows at its end, all is read once its order is asked for, and progress
    is at the brokers."""
    async with (
        site(tmp_path, proxies=2, settle_s=0, version=version) as at,
        open_client(client, tmp_path) as driver,
        trio.open_nursery() as nursery,
    ):
        await at.upstream.control.create_topic(GROWING, FEW)
        cell, load = cell_of(at, driver, *at.addresses), Load(GROWING)
        first = await until_all_see(at, 2 * FEW)
        async with (
            cell.consumer(GROWING, group="growing", orderly=True) as consumer,
            cell.producer() as sender,
        ):
            nursery.start_soon(load.run, sender)
            await load.more()
            names = sorted({name for name, _ in first})
            await grow(at, names[0], 2 * FEW)
            second = await until_all_see(at, 3 * FEW)
            assert second[: len(first)] == first
            await until_sent_to(load, set(second))
            await at.proxies[0].kill()
            await at.proxies[0].start()
            joined = apache_broker(
                version,
                tmp_path / "joined",
                port=free_port(1, -2),
                name_server=at.upstream.name_server,
                store=tmp_path / "joined" / "store",
                name=f"{names[0]}-1",
                settings=apache_test_settings(),
            )
            await joined.start()
            try:
                await grow(at, f"{names[0]}-1", FEW)
                third = await until_all_see(at, 4 * FEW)
                assert third[: len(second)] == second
                await until_sent_to(load, set(third))
                await load.more()
                load.is_over = True
                found = await all_handled([consumer], load.sent)
            finally:
                with trio.CancelScope(shield=True):
                    await joined.kill()
        by_queue = defaultdict(list)
        for body in set(consumer.bodies) & load.places.keys():
            # The answer to a send may be lost with the proxy: its message has no known place.
            queue, offset = load.places[body]
            by_queue[queue].append(offset)
        assert set(by_queue) == set(third)
        repeated = sum(count - 1 for count in found.values())
        # A rebalance at Apache repeats what was begun.
        assert repeated <= 4 * len(third), repeated


@pytest.mark.parametrize(
    ("client", "version"), first(1, [("java-5.3.3", "5.3.3"), (OLDEST, "4.9.7")])
)
async def test_tools_see_and_reset_queues_that_were_added(
    client: str, version: str, tmp_path: Path
) -> None:
    async with (
        site(tmp_path, settle_s=0, version=version) as at,
        open_client(client, tmp_path) as driver,
        open_mqadmin(version, tmp_path / "mqadmin") as shell,
    ):
        await at.upstream.control.create_topic(GROWING, FEW)
        names = sorted({name for name, _ in await until_all_see(at, 2 * FEW)})
        await grow(at, names[0], 2 * FEW)
        queues = await until_all_see(at, 3 * FEW)
        added = queues[-1][0]
        cell, servers = cell_of(at, driver, *at.addresses), ("-n", at.addresses[0])
        async with (
            cell.consumer(GROWING, group="growing") as consumer,
            cell.producer() as sender,
        ):
            sent: dict[bytes, Queue] = {}
            while set(sent.values()) != set(queues):
                body = b"%d" % len(sent)
                one = await sender.send(Outgoing(GROWING, body, keys=f"k{len(sent)}"))
                sent[body] = one.broker_name, one.queue_id
            await all_handled([consumer], list(sent))
            told = await shell.run("topicStatus", *servers, "-t", GROWING)
            rows = Counter(line.split()[0] for line in told.out.splitlines() if line.strip())
            assert [rows[one] for one in (*names, added)] == [FEW, FEW, FEW], told.out + told.err

            async def is_committed() -> bool:
                told = await shell.run("consumerProgress", *servers, "-g", "growing")
                rows = [line.split() for line in told.out.splitlines()]
                counted = [row for row in rows if row and row[0] == GROWING]
                return len(counted) == 3 * FEW and "Diff Total: 0" in told.out

            await until(is_committed)
            late = next(body for body, queue in sent.items() if queue[0] == added)
            key = f"k{late.decode()}"
            told = await shell.run("queryMsgByKey", *servers, "-t", GROWING, "-k", key)
            assert len(told.out.strip().splitlines()) == 2, told.out + told.err
            before = handled([consumer])
            told = await shell.run(
                "resetOffsetByTime", *servers, "-g", "growing", "-t", GROWING, "-s", "0"
            )
            assert added in told.out, told.out + told.err
            with trio.fail_after(180):
                while not all(handled([consumer])[body] > before[body] for body in sent):  # noqa: ASYNC110 - one consumer
                    await trio.sleep(0.1)


@pytest.mark.parametrize(
    ("client", "version"), first(1, [(OLDEST, "4.9.7"), ("java-5.3.3", "5.3.3")])
)
async def test_members_who_go_direct_are_told_once_queues_were_added(
    client: str, version: str, tmp_path: Path
) -> None:
    async with (
        site(tmp_path, settle_s=0, version=version) as at,
        open_client(client, tmp_path) as driver,
        open_admin(name_servers=at.addresses[0], timeout_s=PATIENT_S) as admin,
    ):
        await at.upstream.control.create_topic(GROWING, FEW)
        names = sorted({name for name, _ in await until_all_see(at, 2 * FEW)})
        await grow(at, names[0], 2 * FEW)
        await until_all_see(at, 3 * FEW)

        async def is_told(direct: int, proxied: int) -> bool:
            told = (await admin.proxy_status(at.addresses[0])).direct_groups
            return [(one.direct, one.proxied) for one in told] == [(direct, proxied)]

        through = cell_of(at, driver, *at.addresses)
        around = cell_of(at, driver, at.upstream.name_server)
        async with AsyncExitStack() as alone:
            await alone.enter_async_context(around.consumer(GROWING, group="mixed"))
            await until(lambda: is_told(1, 0), within_s=180)
            async with through.consumer(GROWING, group="mixed"):
                await until(lambda: is_told(1, 1), within_s=180)
                await alone.aclose()

                async def is_over() -> bool:
                    return not (await admin.proxy_status(at.addresses[0])).direct_groups

                await until(is_over, within_s=180)


@pytest.mark.parametrize("client", first(1, ["java-4.9.7", "java-5.3.3"]))
async def test_transactions_end_in_queues_that_were_added(client: str, tmp_path: Path) -> None:
    async with (
        site(tmp_path, proxies=2, settle_s=0) as at,
        open_client(client, tmp_path) as driver,
    ):
        await at.upstream.control.create_topic(GROWING, FEW)
        names = sorted({name for name, _ in await until_all_see(at, 2 * FEW)})
        await grow(at, names[0], 2 * FEW)
        queues = await until_all_see(at, 3 * FEW)
        cell = cell_of(at, driver, *at.addresses)
        async with (
            cell.consumer(GROWING, group="growing") as consumer,
            cell.transaction_producer(group="ends") as sender,
        ):
            sent: list[bytes] = []
            for local in ("commit", "unknown"):  # and then the broker asks
                places = set[Queue]()
                while places != set(queues):
                    body = f"{local}{len(sent)}".encode()
                    message = Outgoing(GROWING, body)
                    one = await sender.send_in_transaction(message, local=local, checks=["commit"])
                    sent.append(body)
                    places.add((one.broker_name, one.queue_id))
            await all_handled([consumer], sent)


@pytest.mark.parametrize("client", first(1, [OLDEST, "java-4.9.7"]))
async def test_messages_of_queues_that_were_added_come_again_when_they_fail(
    client: str, tmp_path: Path
) -> None:
    """The oldest clients send a message back to the address in it, later ones by the broker."""
    async with site(tmp_path, settle_s=0) as at, open_client(client, tmp_path) as driver:
        await at.upstream.control.create_topic(GROWING, FEW)
        names = sorted({name for name, _ in await until_all_see(at, 2 * FEW)})
        await grow(at, names[0], 2 * FEW)
        queues = await until_all_see(at, 3 * FEW)
        cell = cell_of(at, driver, *at.addresses)
        async with (
            cell.consumer(GROWING, group="failing", fail_first=1) as consumer,
            cell.producer() as sender,
        ):
            sent: dict[bytes, Queue] = {}
            while set(sent.values()) != set(queues):
                body = b"%d" % len(sent)
                one = await sender.send(Outgoing(GROWING, body))
                sent[body] = one.broker_name, one.queue_id
            await all_handled([consumer], list(sent))  # those that failed do not count
        again = Counter(delivery.message.body for delivery in consumer.deliveries)
        assert all(again[body] >= 2 for body in sent)


async def put_queues(admin: AdminClient, topic: str, broker: str, queues: int) -> None:
    await admin.put_topic(await admin.address_of(broker), TopicConfig(topic, queues, queues))


def more_of(at: Site, name: str, folder: str, *, version: str = "5.3.3", **settings: str) -> Daemon:
    """Describe one more broker of the cluster, ready when it answers."""
    root = at.upstream.folder / folder
    return apache_broker(
        version,
        root,
        port=free_port(1, -2),
        name_server=None,
        store=root / "store",
        name=name,
        settings={
            **apache_test_settings(),
            "namesrvAddr": at.upstream.name_server,
            **settings,
        },
    )


@pytest.mark.parametrize("client", first(1, [OLDEST, "java-4.9.7"]))
async def test_queues_that_were_added_are_read_at_a_slave_once_their_master_is_lost(
    client: str, tmp_path: Path
) -> None:
    """Another topic's queues are seen at the same added broker, whose own has a master alone."""
    other = "Other"
    async with (
        site(tmp_path, settle_s=0) as at,
        open_client(client, tmp_path) as driver,
        open_admin(name_servers=at.upstream.name_server, timeout_s=PATIENT_S) as admin,
        open_admin(name_servers=at.addresses[0], timeout_s=PATIENT_S) as seen,
    ):
        names = sorted((await admin.cluster()).broker_addr_table)
        more = [
            more_of(at, "broker-z", "last"),
            more_of(
                at, names[0], "slave", brokerId="1", brokerRole="SLAVE", slaveReadEnable="true"
            ),
        ]
        async with trio.open_nursery() as starting:
            for daemon in more:
                starting.start_soon(daemon.start)
        try:
            await until(partial(has_brokers, admin, 3))
            for topic, brokers in ((GROWING, names), (other, ["broker-z"])):
                for broker in brokers:
                    await put_queues(admin, topic, broker, FEW)
                await until(partial(has_queues, seen, topic, len(brokers) * FEW))
            await put_queues(admin, GROWING, names[0], 2 * FEW)
            await put_queues(admin, other, names[1], FEW)
            await until_all_see(at, 3 * FEW)
            await until(partial(has_queues, seen, other, 2 * FEW))
            cell, load = cell_of(at, driver, *at.addresses), Load(GROWING)
            async with cell.producer() as sender, trio.open_nursery() as nursery:
                nursery.start_soon(load.run, sender)
                await load.more()
                load.is_over = True
            added = {place for place, _ in load.places.values() if place[0] not in names}
            assert len(added) == FEW
            await until(partial(has_all, admin, names[0], load), within_s=120)
            await at.upstream.daemons[1].kill()

            async def is_lost() -> bool:
                return 0 not in (await admin.cluster()).broker_addr_table[names[0]].broker_addrs

            await until(is_lost, within_s=180)
            async with cell.consumer(GROWING, group="late") as consumer:
                await all_handled([consumer], load.sent)
            async with cell.producer() as sender:
                used = {(await sender.send(Outgoing(other, b"x"))).broker_name for _ in range(8)}
            assert used == {"broker-z", *(name for name, _ in added)}
        finally:
            with trio.CancelScope(shield=True):
                for daemon in more:
                    await daemon.kill()


@pytest.mark.parametrize("client", first(1, ["java-4.9.7", OLDEST]))
async def test_a_moved_queue_is_read_on_at_a_slave_once_its_first_master_is_lost(
    client: str, tmp_path: Path
) -> None:
    """Its old part is read at the slave, the open one at the master of another broker, which keeps
    the progress."""
    group = "late"
    async with (
        site(tmp_path, settle_s=0, moves=True, version="4.9.7") as at,
        open_client(client, tmp_path) as driver,
        open_admin(name_servers=at.upstream.name_server, timeout_s=PATIENT_S) as direct,
        open_admin(name_servers=at.addresses[0], timeout_s=PATIENT_S) as admin,
    ):
        names = sorted((await direct.cluster()).broker_addr_table)
        kept = await log_broker(admin)
        (lost,) = set(names) - {kept}
        settings = {"brokerId": "1", "brokerRole": "SLAVE", "slaveReadEnable": "true"}
        slave = more_of(at, lost, "slave", version="4.9.7", **settings)
        await slave.start()
        try:
            await at.upstream.control.create_topic(GROWING, FEW)
            queues = await until_all_see(at, BROKERS * FEW)
            cell, load = cell_of(at, driver, *at.addresses), Load(GROWING)
            async with cell.producer() as sender, trio.open_nursery() as nursery:
                nursery.start_soon(load.run, sender)
                await load.more()
                index = queues.index((lost, 0))
                with trio.fail_after(150):
                    while (
                        found := await admin.move_queue(at.addresses[0], GROWING, index, kept)
                    ).state == "moving":
                        pass
                await load.more()
                load.is_over = True
            await until(partial(has_ends, direct, lost, load, FEW), within_s=120)
            await at.upstream.daemons[1 + names.index(lost)].kill()

            async def is_lost() -> bool:
                return 0 not in (await direct.cluster()).broker_addr_table[lost].broker_addrs

            await until(is_lost, within_s=180)
            async with cell.consumer(GROWING, group=group) as consumer:
                counts = await all_handled([consumer], load.sent)
            assert set(counts.values()) == {1}, "handled twice"
            assert not load.refused
            last = max(offset for place, offset in load.places.values() if place == (lost, 0))
            assert last >= found.begin > 0
            address = (await direct.cluster()).broker_addr_table[kept].broker_addrs[0]

            async def is_kept() -> bool:
                told = (await direct.offset_table(address)).get(f"{GROWING}@{group}", {})
                return told.get(found.queue_id) == last + 1 - found.begin

            await until(is_kept)
        finally:
            with trio.CancelScope(shield=True):
                await slave.kill()


async def test_readers_pass_over_what_a_broker_has_lost_once_an_operator_says_so(
    tmp_path: Path,
) -> None:
    """A broker comes back with an older copy of its store than a moved queue has left there."""
    async with (
        site(tmp_path, settle_s=0, moves=True, version="4.9.7") as at,
        open_client("java-4.9.7", tmp_path) as driver,
        open_admin(name_servers=at.addresses[0], timeout_s=PATIENT_S) as admin,
    ):
        await at.upstream.control.create_topic(GROWING, FEW)
        queues = await until_all_see(at, BROKERS * FEW)
        kept, loses = sorted({name for name, _ in queues})
        moved, broker = (loses, 0), at.upstream.daemons[-1]
        store, copy = at.upstream.folder / loses / "store", tmp_path / "copy"
        cell, load = cell_of(at, driver, *at.addresses), Load(GROWING)
        async with cell.producer() as sender, trio.open_nursery() as nursery:
            nursery.start_soon(load.run, sender)
            await load.more()
            await broker.stop()
            await trio.to_thread.run_sync(shutil.copytree, store, copy)
            early = {body for body, (place, _) in load.places.items() if place == moved}
            await broker.start()
            await until_more_at(load, moved)
            with trio.fail_after(150):
                while (
                    found := await admin.move_queue(
                        at.addresses[0], GROWING, queues.index(moved), kept
                    )
                ).state == "moving":
                    pass
            await until_more_at(load, moved)
            load.is_over = True
        await broker.stop()
        await trio.to_thread.run_sync(shutil.rmtree, store)
        await trio.to_thread.run_sync(shutil.copytree, copy, store)
        await broker.start()
        places = {body: offset for body, (place, offset) in load.places.items() if place == moved}
        late = {body for body, offset in places.items() if offset >= found.begin}
        assert early
        assert late
        assert len(early) + len(late) < len(places), "nothing is lost"
        async with cell.consumer(GROWING, group="late") as consumer:
            with trio.fail_after(180):
                while not early <= handled([consumer]).keys():  # noqa: ASYNC110 - one consumer
                    await trio.sleep(0.1)
            shown = await administer(at, "passLostMessages", "-b", loses)
            assert f"{len(early)}-{found.begin - 1}" in shown, shown
            assert "readers wait there" in shown
            assert not late & handled([consumer]).keys()
            shown = await administer(at, "passLostMessages", "-b", loses, "--apply")
            assert "readers go on behind them" in shown
            await all_handled([consumer], sorted(late))


async def until_more_at(load: Load, queue: Queue, count: int = 10) -> None:
    """Wait until so many more messages are in a queue."""

    def there() -> int:
        return sum(place == queue for place, _ in load.places.values())

    known = there()
    with trio.fail_after(180):
        while there() < known + count:  # noqa: ASYNC110 - the load tells nobody
            await trio.sleep(0.1)


async def has_brokers(admin: AdminClient, count: int) -> bool:
    return len((await admin.cluster()).broker_addr_table) == count


async def has_queues(seen: AdminClient, topic: str, count: int) -> bool:
    try:
        route = await seen.route(topic)
    except (NoRoute, RefusedByBroker):  # as told_queues says
        return False
    return sum(one.read_queue_nums for one in route.queue_datas) == count


async def has_all(admin: AdminClient, broker: str, load: Load) -> bool:
    """Return whether the slave of a broker has the topic, which it hears of every ten seconds, and
    all that its master has."""
    addresses = (await admin.cluster()).broker_addr_table[broker].broker_addrs
    if 1 not in addresses:
        return False
    try:
        known = await admin.topic_config(addresses[1], load.topic)
    except RefusedByBroker:
        return False
    return known.read_queue_nums == 2 * FEW and await has_ends(admin, broker, load, 2 * FEW)


async def has_ends(admin: AdminClient, broker: str, load: Load, queues: int) -> bool:
    """Return whether the slave of a broker has all that its master has of some queues."""
    addresses = (await admin.cluster()).broker_addr_table[broker].broker_addrs
    if 1 not in addresses:
        return False
    for number in range(queues):
        queue = MessageQueue(load.topic, broker, number)
        ends = [await admin.max_offset(addresses[one], queue) for one in (0, 1)]
        if ends[0] != ends[1]:
            return False
    return True
