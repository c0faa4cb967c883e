"""Logical queues of lanemq in processes: ends badly, and loses nothing."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import trio

from lanemq.compat.logical._bench import servers, until_logical
from lanemq.compat.logical._brokers import BrokersCluster
from lanemq.compat.servers._waiting import PATIENT_CLIENT, PATIENT_S, until
from lanemq.sdk import (
    ClientOptions,
    ConcurrentListener,
    ConsumeFrom,
    Message,
    Outcome,
    ProducerOptions,
    PushOptions,
    ReceivedMessage,
    open_producer,
    open_push_consumer,
)
from lanemq.sdk.admin import AdminClient, open_admin
from lanemq.testkit.sdk.admin import carry_progress_from
from lanemq.wire.bodies import TopicConfig
from lanemq.wire.logical import SegmentState

pytestmark = [pytest.mark.slow]

TOPIC: Final = "proofs"
INTERVAL: Final = "logicalQueueReconcileInterval"
QUICK: Final = {INTERVAL: "300"}
NEVER: Final = {INTERVAL: "3600000"}
"""Brokers complete no migration by themselves."""
SOON: Final = ClientOptions(
    route_refresh_s=1.0, call_timeout_s=PATIENT_S, remoting=PATIENT_CLIENT.remoting
)
MESSAGES: Final = 200


@asynccontextmanager
async def opened(
    folder: Path, settings: dict[str, str] = QUICK
) -> AsyncIterator[tuple[BrokersCluster, AdminClient]]:
    """Two brokers with one logical queue each."""
    async with (
        servers(folder, settings=settings) as cluster,
        open_admin(name_servers=cluster.name_server, timeout_s=PATIENT_S) as admin,
    ):
        config = TopicConfig(TOPIC, read_queue_nums=1, write_queue_nums=1)
        for index, address in enumerate(cluster.addresses.values()):
            await admin.put_topic(address, config)
            await admin.map_queue(address, TOPIC, 0, index)

        await until_logical(admin, TOPIC, 2)
        yield cluster, admin


async def send(cluster: BrokersCluster, numbers: range) -> None:
    """Send to logical queue 0."""
    options = ProducerOptions(send_timeout_s=PATIENT_S, client=SOON)
    async with open_producer("p", name_servers=cluster.name_server, options=options) as producer:
        queues = sorted(await producer.publish_queues(TOPIC))
        for number in numbers:
            await producer.send(Message(topic=TOPIC, body=b"%d" % number), queue=queues[0])


async def test_a_source_that_was_killed_while_its_migration_was_called_off_takes_messages_again(
    tmp_path: Path,
) -> None:
    # A source that looked once more before it died would have completed its migration.
    async with opened(tmp_path, NEVER) as (cluster, admin):
        await send(cluster, range(10))
        queues = await admin.routed_logical_queues(TOPIC)
        assert queues is not None
        source = queues[0].normal
        assert source is not None
        there = cluster.addresses["broker2"]
        target = await admin.create_queue(there, TOPIC, 0, SegmentState.WRITE_ONLY)
        await admin.prepare_migration(
            cluster.addresses["broker1"], source, target.with_address(there)
        )
        await cluster.brokers["broker1"].kill()
        await admin.abort_migration(TOPIC, 0)
        (settings,) = cluster.brokers["broker1"].folder.glob("*.conf")
        never, quick = (f"{INTERVAL}={some[INTERVAL]}\n" for some in (NEVER, QUICK))
        settings.write_text(settings.read_text().replace(never, quick))
        await cluster.brokers["broker1"].start()

        async def one_end() -> bool:
            found = await admin.routed_logical_queues(TOPIC)
            end = found[0].normal if found else None
            return end is not None and (end.broker_name, end.delta) == ("broker1", 10)

        await until(one_end)
        await send(cluster, range(10, 20))


async def test_a_group_that_was_offline_while_its_broker_was_drained_and_forgotten_skips_nothing(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as (cluster, admin):
        await send(cluster, range(10))
        await consumed(cluster, {b"%d" % number for number in range(10)})
        await admin.migrate_logical_queue(TOPIC, 0, "broker2")
        assert not (await carry_progress_from(admin, "broker1")).offsets
        await send(cluster, range(10, 10 + MESSAGES))
        await cluster.brokers["broker1"].kill()
        await admin.forget_broker("broker1")
        wanted = {b"%d" % number for number in range(10, 10 + MESSAGES)}
        assert await consumed(cluster, wanted) == wanted


async def consumed(cluster: BrokersCluster, wanted: set[bytes]) -> set[bytes]:
    """Consume as a group that begins at the end, until all of ``wanted`` have come."""
    seen: set[bytes] = set()
    enough = trio.Event()

    async def note(messages: Sequence[ReceivedMessage]) -> Outcome:
        seen.update(message.body for message in messages)
        if wanted <= seen:
            enough.set()
        return Outcome.SUCCESS

    first = b"0" in wanted
    options = PushOptions(
        consume_from=ConsumeFrom.FIRST_OFFSET if first else ConsumeFrom.LAST_OFFSET, client=SOON
    )
    async with open_push_consumer(
        "g",
        name_servers=cluster.name_server,
        subscriptions={TOPIC: "*"},
        listener=ConcurrentListener(note),
        options=options,
    ):
        with trio.fail_after(180):
            await enough.wait()
    return seen
