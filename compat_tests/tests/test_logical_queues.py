"""Logical queues of lanemq under the real client of 5.0.0-PREVIEW, and under the SDK."""

import secrets
from functools import partial
from pathlib import Path

import pytest
import trio

from lanemq.compat import Cell, Outgoing, open_client, running
from lanemq.compat._errors import CommandRefused
from lanemq.compat.cells._producers import Producer
from lanemq.compat.clients._messages import Sent
from lanemq.compat.logical._bench import (
    JAVA,
    OLD,
    Bench,
    bench,
    bodies,
    fill,
    places,
    read,
    servers,
)
from lanemq.compat.logical._brokers import (
    LOGICAL_BROKER,
    PREVIEW,
    BrokersCluster,
    Operator,
    add_broker,
    row,
    several_brokers,
)
from lanemq.compat.logical._load import Attempt
from lanemq.compat.servers._waiting import PATIENT_S, until
from lanemq.sdk import NoRoute, RefusedByBroker
from lanemq.sdk.admin import AdminClient, MigrationRefused, open_admin
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.headers import GetRouteInfo
from lanemq.wire.logical import Chain, SegmentState, check_chain

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.usefixtures("java")]

CLIENTS = [JAVA, OLD, "python"]
SMALL_LOG = {
    "mappedFileSizeCommitLog": "262144",
    "fileReservedTime": "0",
    "deleteWhen": "",
    "cleanResourceInterval": "500",
}
"""Files that are old at once; they go when they are told to, and at no hour of the day."""


async def test_without_the_warm_up_the_java_client_is_served_as_one_of_old(
    tmp_path: Path,
) -> None:
    async with bench(f"{JAVA}-cold", tmp_path) as at:
        code, none = RequestCode.UPDATE_NAMESRV_CONFIG, b"serveLogicalQueueToJava=none\n"
        answer = await at.cluster.control.ask(at.cluster.name_server, code, {}, none)
        assert answer.code == ResponseCode.SUCCESS
        topic = await at.topic()
        async with at.cell.producer() as producer, at.cell.consumer(topic) as consumer:
            sent = []
            for turn, broker in enumerate(("broker2", "broker1", "broker2")):
                for number in range(turn * 40, turn * 40 + 40):
                    sent.append(b"%d" % number)
                    await producer.send(
                        Outgoing(topic, sent[-1]), mode=("sync", "async")[number % 2]
                    )
                await at.migrate(topic, 0, broker)
            await consumer.receive(120)
            assert sorted(consumer.bodies) == sorted(sent)


@pytest.mark.parametrize("client", CLIENTS)
async def test_through_three_segments(client: str, tmp_path: Path) -> None:
    async with bench(client, tmp_path) as at:
        topic = await at.topic()
        async with at.cell.producer() as producer, at.cell.puller(topic) as puller:
            assert await puller.queues() == [0, 1, 2, 3]
            await fill(producer, topic, range(50))
            await fill(producer, topic, range(50, 101), mode="async" if client == JAVA else "sync")
            assert places(await at.migrate(topic, 0, "broker2")) == [
                ("broker1/0", 0, 0, 101, "ReadOnly"),
                ("broker2/2", 101, 0, -1, "Normal"),
            ]
            await fill(producer, topic, range(101, 201))
            assert await read(puller, 0, 201) == bodies(range(201))
            assert places(await at.migrate(topic, 0, "broker1"))[2] == (
                *("broker1/2", 201, 0),
                *(-1, "Normal"),
            )
            await fill(producer, topic, range(201, 251))
            assert await read(puller, 0, 251) == bodies(range(251))
            assert (await puller.offset("min", 0), await puller.offset("max", 0)) == (0, 251)
            batch = [Outgoing(topic, b"%d" % number) for number in range(3)]
            sent = await producer.send_batch(batch)
            assert sent.broker_name == LOGICAL_BROKER


@pytest.mark.parametrize("client", CLIENTS)
async def test_queues_of_none_and_of_one_message(client: str, tmp_path: Path) -> None:
    async with bench(client, tmp_path) as at:
        topic = await at.topic(queues=1)
        async with at.cell.producer() as producer, at.cell.puller(topic) as puller:
            assert places(await at.migrate(topic, 0, "broker2")) == [
                ("broker1/0", 0, 0, 0, "Expired"),
                ("broker2/1", 0, 0, -1, "Normal"),
            ]
            await fill(producer, topic, range(1))
            assert places(await at.migrate(topic, 0, "broker1")) == [
                ("broker1/0", 0, 0, 0, "Expired"),
                ("broker2/1", 0, 0, 1, "ReadOnly"),
                ("broker1/1", 1, 0, -1, "Normal"),
            ]
            await fill(producer, topic, range(1, 3))
            assert await read(puller, 0, 3) == bodies(range(3))


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_consumer_that_waits_has_the_message_within_a_second(
    client: str, tmp_path: Path
) -> None:
    """A broadcasting consumer: a clustering one of PREVIEW has no logical queues of its own."""
    async with bench(client, tmp_path) as at:
        topic = await at.topic(queues=1)
        async with (
            at.cell.producer() as producer,
            at.cell.consumer(topic, broadcasting=True) as consumer,
        ):
            await fill(producer, topic, range(101))
            await consumer.receive(101)
            took_s = []
            for attempt in range(20):  # a machine that does something else just now proves nothing
                await at.migrate(topic, 0, ("broker2", "broker1")[attempt % 2])
                begun_s, number = trio.current_time(), 101 + attempt
                await fill(producer, topic, range(number, number + 1))
                messages = await consumer.receive(number + 1)
                took_s.append(trio.current_time() - begun_s)
                assert messages[-1].queue_offset == number
                if took_s[-1] < 1:
                    break
            assert min(took_s) < 1


@pytest.mark.parametrize("client", CLIENTS)
async def test_clustering_consumers_go_on_while_queues_move(client: str, tmp_path: Path) -> None:
    """With a coordinator in the route, which PREVIEW's own servers never had."""
    async with bench(client, tmp_path) as at:
        topic, group = await at.topic(queues=1), at.cell.name("group")
        async with at.cell.producer() as producer:
            async with at.cell.consumer(topic, group=group) as consumer:
                for turn, broker in enumerate(("broker2", "broker1", "broker2")):
                    await fill(producer, topic, range(turn * 40, turn * 40 + 40))
                    await at.migrate(topic, 0, broker)
                await consumer.receive(120)
                assert sorted(map(int, consumer.bodies)) == list(range(120))

                async def committed() -> bool:
                    try:
                        found = (await at.admin.progress(group, topic=topic)).offset_table
                    except NoRoute:
                        return False  # the name server is told of the group's retries by and by
                    return sum(progress.consumer_offset for progress in found.values()) == 120

                await until(committed)  # we hear of a delivery before the client has its answer
            await fill(producer, topic, range(120, 130))
            found = (await at.admin.progress(group, topic=topic)).offset_table
            assert set(found) == {MessageQueue(topic, LOGICAL_BROKER, n) for n in range(2)}
            progress = found[MessageQueue(topic, LOGICAL_BROKER, 0)]
            assert (progress.broker_offset, progress.consumer_offset) == (130, 120)
            async with at.cell.consumer(topic, group=group) as consumer:
                await consumer.receive(10)
                assert sorted(map(int, consumer.bodies)) == list(range(120, 130))


async def test_retention_expires_segments_and_a_queue_comes_back(
    tmp_path: Path,
) -> None:
    """Both clients at once: a broker begins to clean a minute after its start."""
    async with (
        servers(tmp_path, settings=SMALL_LOG) as cluster,
        open_admin(name_servers=cluster.name_server, timeout_s=PATIENT_S) as admin,
        trio.open_nursery() as nursery,
    ):
        for client in CLIENTS:
            nursery.start_soon(_back_after_expiry, client, tmp_path, cluster, admin)


async def _back_after_expiry(
    client: str, folder: Path, cluster: BrokersCluster, admin: AdminClient
) -> None:
    async with open_client(client, folder) as driver:
        at = Bench(cluster, Cell("expiry", driver, cluster), admin)
        topic, filler = await at.topic(queues=1), await at.cell.topic(queues=1)
        async with at.cell.producer() as producer, at.cell.puller(topic) as puller:
            await fill(producer, topic, range(101))
            await at.migrate(topic, 0, "broker2")
            await fill(producer, topic, range(101, 201))
            # The other queue has its middle at the broker that will clean.
            await fill(producer, topic, range(101), index=1)
            await at.migrate(topic, 1, "broker1")
            await fill(producer, topic, range(101, 201), index=1)
            await at.migrate(topic, 1, "broker2")
            await fill(producer, topic, range(201, 251), index=1)
            for _ in range(40):  # so that the file with the first messages is not the last
                await producer.send(Outgoing(filler, secrets.token_bytes(25_000)))
            await admin.delete_expired_log(cluster.addresses["broker1"])

            async def expired() -> bool:
                parts = (await at.chain(topic, 0))[0], (await at.chain(topic, 1))[1]
                return all(segment.state is SegmentState.EXPIRED for segment in parts)

            await until(expired, within_s=240)

            async def passed_over() -> bool:  # the client looks at its route every second
                pulled = await puller.pull(0, 50)
                return (pulled.status, pulled.next_offset) == ("OFFSET_ILLEGAL", 101)

            await until(passed_over)
            assert await puller.offset("min", 0) == 101
            assert places(await at.migrate(topic, 0, "broker1"))[-1] == (
                *("broker1/0", 201, 101),
                *(-1, "Normal"),
            )
            await fill(producer, topic, range(201, 251))
            assert await read(puller, 101, 251) == bodies(range(101, 251))
            # Over the hole in the middle to all of the rest.
            rest = await read(puller, 0, 251, index=1)
            assert rest == bodies(range(101), range(201, 251))


async def test_the_shape_of_a_preview_tool_is_read_once(tmp_path: Path) -> None:
    """A queue that can still be read gets a second segment, as that release's command does it."""
    async with (
        servers(tmp_path, settings={"logicalQueueReuseReadable": "true"}) as cluster,
        open_client(JAVA, tmp_path) as driver,
        open_admin(name_servers=cluster.name_server, timeout_s=PATIENT_S) as admin,
    ):
        at = Bench(cluster, Cell("shape", driver, cluster), admin)
        topic, operator = await at.topic(queues=1), Operator(driver, cluster)
        async with at.cell.producer() as producer, at.cell.puller(topic) as puller:
            for number in range(40):
                await producer.send(
                    Outgoing(topic, b"%d" % number, tags="AB"[number % 2]), queue_id=0
                )
            await operator.migrate(topic, 0, "broker1", "broker2")
            for number in range(40, 60):
                await producer.send(
                    Outgoing(topic, b"%d" % number, tags="AB"[number % 2]), queue_id=0
                )
            chain = await operator.chain("broker2", topic, 0)
            to_make = {"topic": topic, "queue_id": 0, "index": 0, "state": "WriteOnly"}
            after = await operator.ask("reuse", "broker1", **to_make)
            done = await operator.ask("prepare", "broker2", source=chain[-1], destination=after)
            done = await operator.ask("commit", "broker1", **done)
            await operator.ask("notify", "broker2", **done)
            for number in range(60, 100):
                await producer.send(
                    Outgoing(topic, b"%d" % number, tags="AB"[number % 2]), queue_id=0
                )
            assert row(done["destination"])[:3] == ("broker1/0", 60, 40)
            assert await read(puller, 0, 100) == bodies(range(100))
            assert await read(puller, 0, 100, tags="B") == bodies(range(1, 100, 2))


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_filter_goes_past_old_segments_that_have_nothing_for_it(
    client: str, tmp_path: Path
) -> None:
    """From the beginning, and from behind the last wanted message of a segment."""
    moves = {20: "broker2", 40: "broker1"}
    async with bench(client, tmp_path) as at:
        topic = await at.topic(queues=1)
        async with (
            at.cell.producer() as producer,
            at.cell.puller(topic) as puller,
            at.cell.consumer(topic, tags="B") as consumer,
        ):
            for number in range(60):
                if number in moves:
                    await at.migrate(topic, 0, moves[number])
                tags = "B" if number in (30, 59) else "A"
                await producer.send(Outgoing(topic, b"%d" % number, tags=tags), queue_id=0)
            await consumer.receive(2)
            assert sorted(consumer.bodies) == [b"30", b"59"]
            assert await read(puller, 0, 60, tags="B") == [b"30", b"59"]


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_broker_leaves_and_a_new_one_gets_queues(client: str, tmp_path: Path) -> None:
    async with bench(client, tmp_path) as at:
        topic = await at.topic()
        async with at.cell.producer() as producer, at.cell.puller(topic) as puller:
            for index in (2, 3):
                await fill(producer, topic, range(101), index=index)
                assert places(await at.migrate(topic, index, "broker1"))[-1][:3] == (
                    f"broker1/{index}",
                    *(101, 0),
                )
            add_broker(at.cluster, "broker3")
            await at.cluster.start()
            for index in (2, 3):
                await fill(producer, topic, range(101, 201), index=index)
                assert places(await at.migrate(topic, index, "broker3"))[-1] == (
                    f"broker3/{index - 2}",
                    *(201, 0, -1, "Normal"),
                )
                # The Java client takes no address from a redirect: a broker that is new to it
                # exists from its next look at the route on.
                await until(partial(taken, producer, topic, 201, index=index))
                await fill(producer, topic, range(202, 211), index=index)
            assert await puller.queues() == [0, 1, 2, 3]


@pytest.mark.parametrize("client", CLIENTS)
async def test_migrations_under_load_lose_nothing_and_keep_the_order(
    client: str, tmp_path: Path
) -> None:
    async with bench(client, tmp_path) as at:
        topic = await at.topic(queues=1)
        sent: list[Attempt] = []
        refused: list[Attempt] = []
        moves: list[tuple[float, float]] = []
        done = trio.Event()

        async def produce(producer: Producer, name: int) -> None:
            number = 0
            modes = ("sync", "async") if client == JAVA else ("sync",)
            while not done.is_set():
                body = b"%d:%d" % (name, number)
                mode, begun_s = modes[number % len(modes)], trio.current_time()
                try:
                    result = await producer.send(Outgoing(topic, body), mode=mode, queue_id=0)
                except CommandRefused as error:
                    # Of sends that are redirected at once the Java client repeats the first.
                    if client != JAVA or "redirect" not in str(error):
                        raise
                    refused.append(Attempt(body, begun_s, trio.current_time(), None, str(error)))
                    continue
                sent.append(Attempt(body, begun_s, trio.current_time(), result.queue_offset))
                number += 1

        async def move(destination: str) -> None:
            """Migrate, and wait until senders know the places of what they send again."""
            begun_s = trio.current_time()
            await at.migrate(topic, 0, destination)
            ended_s = trio.current_time()

            async def placed() -> bool:
                later = (one for one in reversed(sent) if one.begun_s >= ended_s)
                return len([one for one in later if one.offset != -1]) >= 8

            await until(placed)
            moves.append((begun_s, trio.current_time()))

        async with at.cell.producer() as producer, at.cell.puller(topic) as puller:
            async with trio.open_nursery() as nursery:
                for name in range(8):
                    nursery.start_soon(produce, producer, name)
                for turn in range(20):
                    await move(f"broker{2 - turn % 2}")
                    await trio.sleep(0.1)
                done.set()
            chain = await at.chain(topic, 0)
            assert not check_chain(chain)
            stored = await read(puller, 0, len(sent))
        for one in sent:
            if one.offset is not None and one.offset >= 0:
                assert stored[one.offset] == one.body
            elif client != JAVA:  # which looks at its route now and then only
                assert one.meets(moves)
        assert sorted(stored) == sorted(one.body for one in sent)
        for name in range(8):
            own = [int(b.split(b":")[1]) for b in stored if b.startswith(b"%d:" % name)]
            assert own == list(range(len(own)))
        assert all(one.meets(moves) for one in refused)


async def test_one_of_two_migrations_wins_and_one_that_was_begun_is_called_off(
    tmp_path: Path,
) -> None:
    async with bench("python", tmp_path, brokers=3) as at:
        topic = await at.topic(queues=1)
        results: list[object] = []

        async def move(destination: str) -> None:
            try:
                results.append(await at.migrate(topic, 0, destination))
            except (MigrationRefused, RefusedByBroker) as error:
                results.append(error)

        async with at.cell.producer() as producer, trio.open_nursery() as nursery:
            await fill(producer, topic, range(10))
            nursery.start_soon(move, "broker2")
            nursery.start_soon(move, "broker3")
        refusals = [r for r in results if not isinstance(r, Chain)]
        assert len(refusals) == 1
        said = str(refusals[0])
        assert "migration in progress" in said or "not normal state" in said
        begun = await at.admin.create_queue(
            at.cluster.addresses["broker1"], topic, 0, SegmentState.WRITE_ONLY
        )
        done = await at.admin.abort_migration(topic, 0)
        called_off = done.chain.find(begun.key)
        assert called_off is None or called_off.is_sealed
        with pytest.raises(MigrationRefused, match="not being migrated"):
            await at.admin.resume_migration(topic, 0)
        async with at.cell.producer() as producer, at.cell.puller(topic) as puller:
            await fill(producer, topic, range(10, 20))
            assert await read(puller, 0, 20) == bodies(range(20))


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_source_is_down_and_comes_back(client: str, tmp_path: Path) -> None:
    async with bench(client, tmp_path) as at:
        topic = await at.topic(queues=1)
        async with at.cell.producer() as producer, at.cell.puller(topic) as puller:
            await fill(producer, topic, range(150))
            source, address = at.cluster.brokers["broker1"], at.cluster.addresses["broker2"]
            begun = await at.admin.create_queue(address, topic, 0, SegmentState.WRITE_ONLY)
            await source.kill()
            with pytest.raises(MigrationRefused):
                await at.migrate(topic, 0, "broker2")

            async def shown() -> bool:  # it was hidden while the source was there
                return (await at.chain(topic, 0)).write_only is not None

            await until(shown)
            sent: Sent | None = None

            async def sent_there() -> bool:
                nonlocal sent
                try:
                    sent = await producer.send(Outgoing(topic, b"early"), queue_id=0)
                except CommandRefused:  # the client still goes to who is not there
                    return False
                return True

            await until(sent_there)
            assert sent is not None
            # Only who goes to the brokers itself can tell where it was.
            origin = None if client == OLD else "broker2"
            assert (sent.queue_offset, sent.origin_broker) == (-1, origin)
            done = await at.admin.migrate_logical_queue(topic, 0, "broker2", force_delta=200)
            assert done.chain[-1].key == begun.key
            late = 0

            async def sees_the_end() -> bool:  # clients look at their routes every second
                nonlocal sent, late
                sent, late = await producer.send(Outgoing(topic, b"late"), queue_id=0), late + 1
                return sent.queue_offset != -1

            await until(sees_the_end)
            assert sent.queue_offset == 200 + late
            await source.start()

            async def sealed() -> bool:
                states = [segment.state.value for segment in await at.chain(topic, 0)]
                return states == ["ReadOnly", "Normal"]

            await until(sealed)
            assert await read(puller, 0, 150) == bodies(range(150))
            assert await read(puller, 200, 201 + late) == [b"early", *late * [b"late"]]
            assert await sealed()


async def test_restarts_change_nothing_and_nobody_sees_physical_queues(
    tmp_path: Path,
) -> None:
    async with bench(JAVA, tmp_path) as at:
        topic = await at.topic()
        async with at.cell.producer() as producer:
            await fill(producer, topic, range(10))
        await at.migrate(topic, 0, "broker2")
        before = await at.admin.routed_logical_queues(topic)
        seen: set[bool] = set()
        done = trio.Event()

        async def watch() -> None:
            while not done.is_set():
                seen.add(await _has_logical_queues(at, topic))
                await trio.sleep(0.05)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            for broker in at.cluster.brokers.values():
                await broker.kill()
                await broker.start()
            done.set()
        assert seen == {True}
        await at.cluster.daemons[0].kill()
        await at.cluster.daemons[0].start()

        async def as_before() -> bool:
            try:
                return await at.admin.routed_logical_queues(topic) == before
            except RefusedByBroker as error:  # rather none than half of it
                if error.code != ResponseCode.TOPIC_NOT_EXIST:
                    raise
                return False

        await until(as_before)


async def _has_logical_queues(at: Bench, topic: str) -> bool:
    fields = GetRouteInfo(topic, sys_flag=64).to_fields()
    code = RequestCode.GET_ROUTEINFO_BY_TOPIC
    answer = await at.cluster.control.ask(at.cluster.name_server, code, fields)
    return b"logicalQueuesInfo" in answer.body


@pytest.mark.parametrize("client", CLIENTS)
async def test_more_and_fewer_logical_queues(client: str, tmp_path: Path) -> None:
    async with bench(client, tmp_path) as at:
        topic = await at.topic(queues=1)
        address = at.cluster.addresses["broker2"]
        async with at.cell.producer() as producer, at.cell.puller(topic) as puller:
            await fill(producer, topic, range(5), index=1)
            sealed = await at.admin.seal(address, (await at.chain(topic, 1))[0])
            assert sealed.next_delta == 5

            async def shown() -> bool:  # brokers that begin a segment ask the name server, too
                return (await at.chain(topic, 1)).normal is None

            await until(shown)
            with pytest.raises(CommandRefused) as refusal:
                await producer.send(Outgoing(topic, b"late"), queue_id=1)
            assert refusal.value.code in (16, None)
            again = await at.admin.create_queue(address, topic, 1, SegmentState.NORMAL, delta=5)
            assert again.delta == 5
            await until(partial(taken, producer, topic, 5, index=1))
            await fill(producer, topic, range(6, 8), index=1)
            pulled = await puller.pull(1, 0)
            assert [m.body for m in pulled.messages] == bodies(range(5))


async def taken(producer: Producer, topic: str, number: int, *, index: int) -> bool:
    """Send a message; False where the client does not know yet who would take it."""
    try:
        await fill(producer, topic, range(number, number + 1), index=index)
    except CommandRefused:
        return False
    return True


async def test_the_administrators_requests_of_the_java_client(tmp_path: Path) -> None:
    async with bench(JAVA, tmp_path) as at:
        topic = at.cell.name("topic")
        operator = Operator(at.cell.driver, at.cluster)
        await at.cluster.control.create_topic(topic, 2)
        assert await operator.ask("query", "broker1", topic=topic) is None
        await operator.make(topic, queues=2)
        async with at.cell.producer() as producer:
            await fill(producer, topic, range(3))
            made = await operator.migrate(topic, 0, "broker1", "broker2")
            assert row(made) == ("broker2/2", 3, 0, -1, "Normal")
            await fill(producer, topic, range(3, 6))
        (segment,) = await operator.chain("broker1", topic, 1)
        sealed = await operator.ask("seal", "broker1", segment=segment)
        assert row(sealed) == ("broker1/1", 0, 0, 0, "Expired")
        assert await operator.ask("seal", "broker1", segment=segment) == sealed
        reuse = {"topic": topic, "queue_id": 1, "index": 1, "state": "Normal"}
        # Readers may have the route of a moment ago, in which the sealed segment is there.
        with pytest.raises(CommandRefused, match="may be known to clients"):
            await operator.ask("reuse", "broker1", **reuse)
        create = {"topic": topic, "index": 9, "state": "Normal"}
        assert row(await operator.ask("create", "broker1", **create))[1:] == (0, 0, -1, "Normal")
        with pytest.raises(CommandRefused, match="still 3 message queues"):
            await operator.ask("delete", "broker1", topic=topic)
        with pytest.raises(CommandRefused, match="topic not exist"):
            await operator.ask("update", "broker1", topic="nowhere", queue_id=0, index=0)


async def test_our_tools_read_and_migrate_on_servers_of_preview(tmp_path: Path) -> None:
    cluster = await trio.to_thread.run_sync(several_brokers, f"apache-{PREVIEW}", tmp_path)
    async with (
        running(cluster, logs=Path("compat-logs"), graceful=False),
        open_client("python", tmp_path) as driver,
        open_admin(name_servers=cluster.name_server, timeout_s=PATIENT_S) as admin,
    ):
        at = Bench(cluster, Cell("ours", driver, cluster), admin)
        topic = await at.topic(queues=1)
        async with at.cell.producer() as producer, at.cell.puller(topic) as puller:
            await fill(producer, topic, range(20))
            # Apache's broker answers a send before its consume queue has the message.
            await puller.until_readable(0, 20)
            chain = await at.migrate(topic, 0, "broker2")
            assert places(chain) == [
                ("broker1/0", 0, 0, 20, "ReadOnly"),
                ("broker2/1", 20, 0, -1, "Normal"),
            ]
            await fill(producer, topic, range(20, 30))
            await puller.until_readable(0, 30)
            assert await read(puller, 0, 30) == bodies(range(30))
            assert await puller.offset("max", 0) == 30


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_topic_without_logical_queues_is_none_the_worse(
    client: str, tmp_path: Path
) -> None:
    async with bench(client, tmp_path) as at:
        topic = at.cell.name("topic")
        await at.cluster.control.create_topic(topic, 1)
        assert not await _has_logical_queues(at, topic)
        async with at.cell.producer() as producer, at.cell.consumer(topic) as consumer:
            for number in range(5):
                await producer.send(Outgoing(topic, b"%d" % number))
            await consumer.receive(5)


async def test_a_filter_of_the_java_client_filters_nothing(tmp_path: Path) -> None:
    async with bench(JAVA, tmp_path) as at:
        topic = await at.topic()
        fields = GetRouteInfo(topic, sys_flag=64, logical_queue_ids_filter="[1]").to_fields()
        code = RequestCode.GET_ROUTEINFO_BY_TOPIC
        answer = await at.cluster.control.ask(at.cluster.name_server, code, fields)
        assert all(b'"%d":[' % index in answer.body for index in range(4))
