"""Logical queues of lanemq under real clients, while brokers and tools die."""

import itertools
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
import trio
from msgspec.structs import replace

from lanemq.compat import Cell, Outgoing, open_client
from lanemq.compat._errors import CommandRefused
from lanemq.compat.cells._consumers import Puller
from lanemq.compat.cells._producers import Producer
from lanemq.compat.logical._bench import (
    JAVA,
    OLD,
    Bench,
    bench,
    bodies,
    client_of,
    fill,
    places,
    servers,
)
from lanemq.compat.logical._brokers import BrokersCluster
from lanemq.compat.logical._load import Load, loaded, whole
from lanemq.compat.servers._clusters import LANEMQ
from lanemq.compat.servers._waiting import PATIENT_S, until
from lanemq.sdk import RefusedByBroker
from lanemq.sdk.admin import AdminClient, MigrationRefused, open_admin
from lanemq.wire import PullSysFlag, RequestCode, ResponseCode
from lanemq.wire.headers import PullMessage
from lanemq.wire.logical import Chain, SegmentState, check_chain
from lanemq.wire.message import decode_messages

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.usefixtures("java")]

CLIENTS = [JAVA, OLD, "python"]
QUICK: Final = {"logicalQueueReconcileInterval": "300"}
"""Brokers look often at what others should have completed, and every ten times at all views."""
DELAY_S: Final = 40.0
"""Of a delayed message: more than a migration takes, however busy the machine is."""
NOTICE_S: Final = 2.0
"""Clients look at their route every second, and so do not know at once that a broker is back."""

STEPS = ("create", "prepare", "commit", "notify")
SAID = dict(zip(STEPS, (b"created", b"sealed", b"committed", b"told"), strict=True))
"""The beginning of the command's line after each step."""
VICTIMS = ("source", "destination", "tool", "command")
"""The last two are a client that hangs up, and a process that is killed."""
ALL: Final = list(itertools.product(STEPS, VICTIMS))
SOME: Final = [
    *itertools.product(STEPS, ("source",)),
    ("prepare", "destination"),
    ("commit", "tool"),
]


async def account(at: Bench, broker: str, topic: str) -> Chain:
    """Logical queue 0 as a broker tells it."""
    queues = await at.admin.logical_queues(at.cluster.addresses[broker], topic)
    assert queues is not None
    return queues[0]


async def until_moved(at: Bench, topic: str, destination: str) -> Chain:
    """Wait until brokers and name server agree that the queue ends at ``destination``."""

    async def moved() -> bool:
        chain = await at.chain(topic, 0)
        found = [places(await account(at, name, topic)) for name in at.cluster.addresses]
        return (
            found == [places(chain)] * len(found)
            and chain[-1].broker_name == destination
            and [s for s in chain if s.is_writable] == [chain[-1]]
            and chain[-1].state is SegmentState.NORMAL
        )

    await until(moved)
    for address in at.cluster.addresses.values():
        said = await at.admin.runtime(address)
        assert not [key for key in said if key.startswith("logicalQueueAlarm_")], said
    chain = await at.chain(topic, 0)
    assert not check_chain(chain)
    return chain


# Whoever dies in the middle of a migration


async def make_steps(at: Bench, topic: str, destination: str, last: str) -> None:
    """Make the requests of a migration as the tool does, up to a step, and hang up."""
    async with open_admin(name_servers=at.cluster.name_server, timeout_s=PATIENT_S) as tool:
        source = (await at.chain(topic, 0)).normal
        assert source is not None
        there, here = at.cluster.addresses[destination], at.cluster.addresses[source.broker_name]
        target = await tool.create_queue(there, topic, 0, SegmentState.WRITE_ONLY)
        target = target.with_address(there)
        if last == "create":
            return
        prepared = await tool.prepare_migration(here, source, target)
        assert prepared.source is not None
        assert prepared.destination is not None
        if last == "prepare":
            return
        done = await tool.commit_migration(there, prepared.source, prepared.destination)
        assert done.destination is not None
        if last == "commit":
            return
        await tool.notify_migration(here, prepared.source, done.destination)


async def kill_command(at: Bench, topic: str, destination: str, last: str) -> None:
    """Have the command migrate, and kill it when it says that it has made a step."""
    server, place = at.cluster.name_server, ("-t", topic, "-i", "0", "-b", destination)
    patient = ("--timeout", str(PATIENT_S))
    process = await trio.lowlevel.open_process(
        [*LANEMQ, "admin", "migrateTopicLogicalQueue", "-n", server, *place, *patient],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    said = b""
    assert process.stdout is not None
    with trio.fail_after(180):
        async for chunk in process.stdout:
            said += chunk
            if any(line.startswith(SAID[last]) for line in said.splitlines()):
                break
        process.send_signal(signal.SIGKILL)
        await process.wait()
        await process.stdout.aclose()
    assert SAID[last] in said


async def migrate_and_die(at: Bench, load: Load, step: str, victim: str) -> None:
    topic, began_s = load.topic, trio.current_time()
    source = (await at.chain(topic, 0))[-1].broker_name
    destination = "broker2" if source == "broker1" else "broker1"
    if victim == "command":
        await kill_command(at, topic, destination, step)
    else:
        await make_steps(at, topic, destination, step)
    begun_s = noticed_s = trio.current_time()
    if victim in ("source", "destination"):
        broker = at.cluster.brokers[source if victim == "source" else destination]
        await broker.kill()
        if victim == "source":
            await load.more()  # the destination takes them alone
        await broker.start()
        noticed_s = trio.current_time() + NOTICE_S
        if step == "create":
            await load.more(least_offset=0)  # the clients know that it is back
    left = (await account(at, destination, topic)).write_only
    if step == "create" and victim != "source" and left is not None and left.delta < 0:
        # The brokers do all that comes after. What a killed command had sent may come behind our
        # look, and then they have done it by now: ``until_moved`` sees whether they have.
        with suppress(MigrationRefused):
            await at.admin.resume_migration(topic, 0)
    await until_moved(at, topic, destination)
    await load.more(least_offset=0)  # and clients know the place of what they send
    load.moves.append((began_s, trio.current_time()))
    if victim in ("source", "destination"):
        load.outages.append((begun_s, max(noticed_s, trio.current_time())))


@pytest.mark.parametrize(("client", "deaths"), [(JAVA, SOME), (OLD, SOME), ("python", ALL)])
async def test_whoever_dies_after_any_step_the_queue_goes_on_with_all_that_it_had(
    client: str, deaths: list[tuple[str, str]], tmp_path: Path
) -> None:
    """Acknowledged messages are with the operating system, which nobody kills here."""
    async with bench(client, tmp_path, settings=QUICK) as at:
        topic = await at.topic(queues=1)
        async with at.cell.producer() as producer, at.cell.puller(topic) as puller:
            async with loaded(producer, topic) as load:
                for step, victim in deaths:
                    await migrate_and_die(at, load, step, victim)
            chain = await at.chain(topic, 0)
            assert len([s for s in chain if s.count or not s.is_sealed]) == len(deaths) + 1
            load.check(await whole(puller, len(load.acknowledged)), client)


# A source that had more than was forced


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_source_that_had_more_than_was_forced_gives_way_and_says_so(
    client: str, tmp_path: Path
) -> None:
    async with bench(client, tmp_path, settings=QUICK) as at:
        topic, new = await at.topic(queues=1), [b"new %d" % number for number in range(20)]
        async with at.cell.producer() as producer, at.cell.puller(topic) as puller:
            await fill(producer, topic, range(20))
            await at.migrate(topic, 0, "broker2")
            await fill(producer, topic, range(20, 60))
            source, address = at.cluster.brokers["broker2"], at.cluster.addresses["broker2"]
            await source.kill()

            async def gone() -> bool:  # while the name server lists it, nothing is forced
                return address not in await at.cluster.control.masters()

            await until(gone)
            with pytest.raises(RefusedByBroker, match="is below 20, where offsets end"):
                await at.admin.migrate_logical_queue(topic, 0, "broker1", force_delta=5)
            await at.admin.migrate_logical_queue(topic, 0, "broker1", force_delta=50)

            async def sent_on() -> bool:
                try:
                    await send_at(producer, topic, 50, new[:1])
                except CommandRefused:  # the client still goes to who is not there
                    return False
                return True

            await until(sent_on)
            await send_at(producer, topic, 51, new[1:10])
            await source.start()

            alarms = list[str]()

            async def gave_way() -> bool:
                chain, said = await at.chain(topic, 0), await at.admin.runtime(address)
                alarms[:] = (said[key] for key in said if key.startswith("logicalQueueAlarm_"))
                is_over = chain[1].is_sealed and chain[1].broker_name == "broker2"
                return is_over and len(alarms) > 0

            await until(gave_way)
            (alarm,) = alarms
            assert alarm.startswith("10 messages from 30 on are in no logical queue")
            await send_at(producer, topic, 60, new[10:])
            assert places(await at.chain(topic, 0)) == [
                ("broker1/0", 0, 0, 20, "ReadOnly"),
                ("broker2/1", 20, 0, 30, "ReadOnly"),
                ("broker1/1", 50, 0, -1, "Normal"),
            ]
            assert await whole(puller, 70) == bodies(range(50)) + new
        assert await of_broker(at, topic, "broker2", 1) == bodies(range(20, 60))


async def send_at(producer: Producer, topic: str, offset: int, texts: list[bytes]) -> None:
    for number, text in enumerate(texts):
        sent = await producer.send(Outgoing(topic, text), queue_id=0)
        # The Java client looks again at its next turn only.
        unknown = (-1, JAVA)
        assert (
            sent.queue_offset == offset + number
            or (sent.queue_offset, client_of(producer)) == unknown
        )


async def of_broker(at: Bench, topic: str, broker: str, queue_id: int) -> list[bytes]:
    """All messages of a queue as it really is."""
    header = PullMessage(
        consumer_group="nobody",
        topic=topic,
        queue_id=queue_id,
        queue_offset=0,
        max_msg_nums=32,
        sys_flag=PullSysFlag.SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=0,
        sub_version=0,
        subscription="*",
        expression_type="TAG",
    )
    found = list[bytes]()
    while True:
        fields = replace(header, queue_offset=len(found)).to_fields()
        address, code = at.cluster.addresses[broker], RequestCode.PULL_MESSAGE
        answer = await at.cluster.control.ask(address, code, fields)
        if answer.code != ResponseCode.SUCCESS:
            return found
        found += [message.body for message in decode_messages(answer.body)]


# A third broker that is down


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_third_broker_that_is_down_hinders_nobody_and_finds_out_later(
    client: str, tmp_path: Path
) -> None:
    async with bench(client, tmp_path, brokers=3, settings=QUICK) as at:
        topic = await at.topic(queues=1)
        async with at.cell.producer() as producer, at.cell.puller(topic) as puller:
            for turn, broker in enumerate(("broker3", "broker1")):
                await fill(producer, topic, range(turn * 10, turn * 10 + 10))
                await at.migrate(topic, 0, broker)
            third = at.cluster.brokers["broker3"]
            await third.kill()
            seen = list[bytes]()
            async with loaded(producer, topic, producers=2) as load, trio.open_nursery() as nursery:
                nursery.start_soon(follow, puller, 20, seen)
                done = await at.admin.migrate_logical_queue(topic, 0, "broker2")
                assert set(done.untold) == {"broker3"}
                assert done.chain[-1].broker_name == "broker2"
                await until_seen(load, seen)
                assert not third.is_running
                await third.start()
                await until_moved(at, topic, "broker2")
                await until_seen(load, seen)
                nursery.cancel_scope.cancel()
            everything = await whole(puller, 20 + len(load.acknowledged))
        assert everything[:20] == bodies(range(20))
        assert everything[20 : 20 + len(seen)] == seen
        load.check(everything, client, begin=20)


async def follow(puller: Puller, offset: int, seen: list[bytes]) -> None:
    """Read on and on, until cancelled."""
    while True:
        pulled = await puller.pull(0, offset)
        assert [m.queue_offset for m in pulled.messages] == list(range(offset, pulled.next_offset))
        seen += [message.body for message in pulled.messages]
        offset = pulled.next_offset
        await trio.sleep(0.05)  # these pulls do not wait at the broker


async def until_seen(load: Load, seen: list[bytes]) -> None:
    """Wait for further messages, and until they have been read."""
    await load.more(50)
    wanted = {attempt.body for attempt in load.acknowledged}

    async def all_seen() -> bool:
        return wanted <= set(seen)

    await until(all_seen)


# Delayed messages


async def test_a_delayed_message_comes_where_its_queue_goes_on(tmp_path: Path) -> None:
    """All clients at once. Half messages are none of it: lanemq's broker has no transactions."""
    level = f"{DELAY_S:.0f}s "
    settings = {"messageDelayLevel": level * 17 + level.rstrip()}
    async with (
        servers(tmp_path, settings=settings) as cluster,
        open_admin(name_servers=cluster.name_server, timeout_s=PATIENT_S) as admin,
        trio.open_nursery() as nursery,
    ):
        for client in CLIENTS:
            nursery.start_soon(_delayed, client, tmp_path, cluster, admin)


async def _delayed(client: str, folder: Path, cluster: BrokersCluster, admin: AdminClient) -> None:
    async with open_client(client, folder) as driver:
        at = Bench(cluster, Cell("delayed", driver, cluster), admin)
        topic = await at.topic(queues=1)
        async with (
            at.cell.producer() as producer,
            at.cell.puller(topic) as puller,
            at.cell.consumer(topic) as consumer,
        ):
            await fill(producer, topic, range(10))
            begun_s = trio.current_time()
            sent = await producer.send(Outgoing(topic, b"late", delay_level=1), queue_id=0)
            assert sent.status == "SEND_OK"
            chain = await at.migrate(topic, 0, "broker2")
            assert trio.current_time() - begun_s < DELAY_S
            assert places(chain)[-1] == ("broker2/1", 10, 0, -1, "Normal")
            await fill(producer, topic, range(10, 13))
            (late,) = (one for one in await consumer.receive(14) if one.body == b"late")
            assert (late.topic, late.queue_id, late.queue_offset) == (topic, 0, 13)
            assert late.message_id == sent.message_id
            assert late.store_timestamp_ms >= late.born_timestamp_ms + DELAY_S * 1000
            assert sorted(consumer.bodies) == sorted([*bodies(range(13)), b"late"])
            assert await whole(puller, 14) == [*bodies(range(13)), b"late"]
            assert await of_broker(at, topic, "broker1", 0) == bodies(range(10))
