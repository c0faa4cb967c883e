"""Resets of groups that have no offset in some queue: refused in words that help, or done."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
import trio

from lanemq.sdk import (
    ConsumeFrom,
    LitePullConsumer,
    Message,
    MessageQueue,
    ReceivedMessage,
    RefusedByBroker,
    open_lite_pull_consumer,
    open_producer,
    open_push_consumer,
)
from lanemq.sdk.admin import (
    AdminClient,
    ResetOffsets,
    Rollback,
    open_admin,
    reset_offsets_by_time,
)
from lanemq.testkit.servers import PATIENT_PRODUCER, PATIENT_S
from lanemq.wire.bodies import TopicConfig
from lanemq.wire.message import StageRecord, stage_group

pytestmark = pytest.mark.slow  # a server

END = -1


async def send(name_server: str, topic: str) -> None:
    async with open_producer(
        "reset-producers", name_servers=name_server, options=PATIENT_PRODUCER
    ) as producer:
        await producer.send(Message(topic=topic, body=b"x"))


async def refusal(admin: AdminClient, group: str, topic: str) -> str:
    with pytest.raises(RefusedByBroker) as caught:
        await reset_offsets_by_time(admin, group, topic, END)
    return str(caught.value)


async def test_a_group_that_has_just_been_started_is_to_be_given_some_seconds(
    name_server: str,
) -> None:
    topic, group = "ResetEarly", "reset-early"
    await send(name_server, topic)

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        await trio.sleep_forever()

    async with (
        open_admin(name_servers=name_server, timeout_s=PATIENT_S) as admin,
        open_push_consumer(
            group,
            name_servers=name_server,
            subscriptions={topic: "*"},
            listener=handle,
            offset_persist_interval_s=3600,  # it stays as it is at the start
            shutdown_grace_s=0.1,
        ),
    ):
        text = await refusal(admin, group, topic)
    assert f"group {group} has no offset yet in some queue of {topic}" in text
    assert "try again in ten seconds" in text
    assert "THe consumer group" not in text


async def poll_one(consumer: LitePullConsumer) -> None:
    with trio.fail_after(60):
        while not await consumer.poll():
            pass


@asynccontextmanager
async def resets_by(admin: AdminClient, address: str, *, brokers: bool) -> AsyncIterator[None]:
    """A broker that resets groups without members as 5.x do, or leaves them to tools as 4.x."""
    setting = "useServerSideResetOffset"
    await admin.update_config(address, {setting: "true" if brokers else "false"})
    try:
        yield
    finally:
        with trio.CancelScope(shield=True):
            await admin.update_config(address, {setting: "true"})


@pytest.mark.parametrize("by_brokers", [True, False])
async def test_a_stopped_group_is_reset_in_every_queue(name_server: str, by_brokers: bool) -> None:
    """It has had messages of one of them only."""
    topic, group = f"ResetStopped{by_brokers}", f"reset-stopped-{by_brokers}"
    await send(name_server, topic)
    async with open_lite_pull_consumer(
        group, name_servers=name_server, consume_from=ConsumeFrom.FIRST_OFFSET
    ) as consumer:
        await consumer.subscribe(topic)
        await poll_one(consumer)
    async with open_admin(name_servers=name_server, timeout_s=PATIENT_S) as admin:
        (address,) = await admin.masters("DefaultCluster")
        async with resets_by(admin, address, brokers=by_brokers):
            done = await reset_offsets_by_time(admin, group, topic, 0)
        assert done.online is None
        assert done.offline is not None
        assert done.by_brokers is by_brokers
        assert {row.queue.queue_id: row.rollback_offset for row in done.offline} == dict.fromkeys(
            range(4), 0
        )
        assert sum(row.broker_offset for row in done.offline) == 1
        assert sum(row.consumer_offset for row in done.offline) == 1


async def five_messages(admin: AdminClient, name_server: str, topic: str) -> MessageQueue:
    """A topic of one queue with five messages."""
    (address,) = await admin.masters("DefaultCluster")
    await admin.put_topic(address, TopicConfig(topic, 1, 1))
    for _ in range(5):
        await send(name_server, topic)
    (queue,) = (await admin.topic_offsets(address, topic)).offset_table
    return queue


@pytest.mark.parametrize("by_brokers", [True, False])
@pytest.mark.parametrize(
    ("time_ms", "force", "target", "offset"),
    [(0, True, 0, 0), (0, False, 0, 0), (END, True, 5, 5), (END, False, 5, 3)],
)
async def test_stages_of_a_stopped_group_begin_anew_where_it_goes(
    name_server: str, by_brokers: bool, time_ms: int, force: bool, target: int, offset: int
) -> None:
    topic = f"ResetStages{by_brokers}{time_ms}{force}"
    group = f"reset-stages-{by_brokers}-{time_ms}-{force}"
    kept = StageRecord(3, 3, settled=True)
    async with open_admin(name_servers=name_server, timeout_s=PATIENT_S) as admin:
        (address,) = await admin.masters("DefaultCluster")
        queue = await five_messages(admin, name_server, topic)
        await admin.put_offset(address, stage_group(group), queue, kept.pack())
        await admin.put_offset(address, group, queue, 3)
        async with resets_by(admin, address, brokers=by_brokers):
            done = await reset_offsets_by_time(admin, group, topic, time_ms, force=force)
        assert done == ResetOffsets(
            None, [Rollback(queue, 5, 3, target, offset)], by_brokers=by_brokers
        )
        assert await admin.group_offset(address, group, queue) == offset
        number = await admin.group_offset(address, stage_group(group), queue)
        assert number is not None
        moved = StageRecord(offset, 0, settled=True)
        assert StageRecord.unpack(number) == (kept if offset == 3 else moved)


async def test_members_restart_their_stages_themselves(name_server: str) -> None:
    topic, group = "ResetMembers", "reset-members"
    kept = StageRecord(3, 3, settled=True)
    async with open_admin(name_servers=name_server, timeout_s=PATIENT_S) as admin:
        (address,) = await admin.masters("DefaultCluster")
        queue = await five_messages(admin, name_server, topic)
        await admin.put_offset(address, stage_group(group), queue, kept.pack())
        await admin.put_offset(address, group, queue, 3)
        async with open_lite_pull_consumer(group, name_servers=name_server) as consumer:
            await consumer.subscribe(topic)
            await poll_one(consumer)
            done = await reset_offsets_by_time(admin, group, topic, 0)
            number = await admin.group_offset(address, stage_group(group), queue)
        assert done == ResetOffsets({queue: 0}, None)
        assert number == kept.pack()


async def test_a_group_that_nobody_knows_is_not_made(name_server: str) -> None:
    topic = "ResetUnknown"
    await send(name_server, topic)
    async with open_admin(name_servers=name_server, timeout_s=PATIENT_S) as admin:
        text = await refusal(admin, "reset-typo", topic)
        assert "group reset-typo has no offset in ResetUnknown" in text
        assert "check the name of the group" in text
