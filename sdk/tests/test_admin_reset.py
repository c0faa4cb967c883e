"""Resets of groups that have no offset in some queue: refused in words that help, or done."""

from collections.abc import Sequence

import pytest
import trio

from lanemq.sdk import (
    ConsumeFrom,
    LitePullConsumer,
    Message,
    ReceivedMessage,
    RefusedByBroker,
    open_lite_pull_consumer,
    open_producer,
    open_push_consumer,
)
from lanemq.sdk.admin import AdminClient, open_admin, reset_offsets_by_time
from lanemq.testkit.servers import PATIENT_PRODUCER, PATIENT_S

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


async def test_a_stopped_group_is_reset_in_every_queue(name_server: str) -> None:
    """It has had messages of one of them only."""
    topic, group = "ResetStopped", "reset-stopped"
    await send(name_server, topic)
    async with open_lite_pull_consumer(
        group, name_servers=name_server, consume_from=ConsumeFrom.FIRST_OFFSET
    ) as consumer:
        await consumer.subscribe(topic)
        await poll_one(consumer)
    async with open_admin(name_servers=name_server, timeout_s=PATIENT_S) as admin:
        done = await reset_offsets_by_time(admin, group, topic, 0)
        assert done.online is None
        assert done.offline is not None
        assert {row.queue.queue_id: row.rollback_offset for row in done.offline} == dict.fromkeys(
            range(4), 0
        )


async def test_a_group_that_nobody_knows_is_not_made(name_server: str) -> None:
    topic = "ResetUnknown"
    await send(name_server, topic)
    async with open_admin(name_servers=name_server, timeout_s=PATIENT_S) as admin:
        text = await refusal(admin, "reset-typo", topic)
        assert "group reset-typo has no offset in ResetUnknown" in text
        assert "check the name of the group" in text
