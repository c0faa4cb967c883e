"""Progress of a loop over messages, whichever face it runs in.

A loop in a thread or an asyncio task is lent a batch; the fake loop here takes it as theirs do.
"""

import math
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from trio.testing import MockClock

from lanemq.sdk import (
    ConsumeFrom,
    LitePullConsumer,
    LitePullOptions,
    MessageQueue,
    ReceivedMessage,
)
from lanemq.testkit.sdk.clients import lite_pull_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster

FIRST = LitePullOptions(consume_from=ConsumeFrom.FIRST_OFFSET)
Q0, Q1 = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)

Read = Callable[[LitePullConsumer], AsyncIterator[ReceivedMessage]]
Deed = Callable[[LitePullConsumer], Awaitable[None]]


class Lent:
    """The loop of a face that lends."""

    def __init__(self, consumer: LitePullConsumer) -> None:
        self._consumer = consumer

    def __aiter__(self) -> "Lent":
        return self

    async def __anext__(self) -> ReceivedMessage:
        loan = self._consumer._buffer.lent
        message = None if loan is None else loan.next(-math.inf)
        while message is None:
            message = (await self._consumer._lend()).next(-math.inf)
        return message


async def pause(consumer: LitePullConsumer) -> None:
    consumer.pause([Q0])


async def resume_after_pause(consumer: LitePullConsumer) -> None:
    consumer.pause()
    consumer.resume()


async def seek_elsewhere(consumer: LitePullConsumer) -> None:
    consumer.seek(Q1, 0)


async def subscribe_elsewhere(consumer: LitePullConsumer) -> None:
    await consumer.subscribe("Other")


async def change_the_expression(consumer: LitePullConsumer) -> None:
    await consumer.subscribe("T", "* ")


async def unsubscribe_elsewhere(consumer: LitePullConsumer) -> None:
    await consumer.subscribe("Other")
    await consumer.unsubscribe("Other")


READS = pytest.mark.parametrize("read", [aiter, Lent], ids=["own", "lent"])


def fill(cluster: FakeCluster) -> None:
    cluster.create_topic("T", 2)
    cluster.create_topic("Other", 1)
    for number in range(5):
        cluster.broker.put("T", 0, b"%03d" % number)


@READS
@pytest.mark.parametrize(
    "deed",
    [
        pause,
        resume_after_pause,
        seek_elsewhere,
        subscribe_elsewhere,
        unsubscribe_elsewhere,
        change_the_expression,
    ],
)
async def test_what_is_done_in_a_loop_does_not_count_the_message_at_hand(
    cluster: FakeCluster, autojump_clock: MockClock, read: Read, deed: Deed
) -> None:
    fill(cluster)

    async def handle_two() -> None:
        async with lite_pull_consumer_of(cluster, FIRST) as consumer:
            await consumer.subscribe("T")
            async for message in read(consumer):
                if message.body == b"002":
                    await deed(consumer)
                    raise LookupError("the third cannot be handled")

    with pytest.raises(LookupError):
        await handle_two()
    assert cluster.broker.offsets["lg", "T", 0] == 2


@READS
async def test_what_is_at_hand_counts_when_a_loop_that_paused_goes_on(
    cluster: FakeCluster, autojump_clock: MockClock, read: Read
) -> None:
    fill(cluster)
    bodies: list[bytes] = []
    async with lite_pull_consumer_of(cluster, FIRST) as consumer:
        await consumer.subscribe("T")
        async for message in read(consumer):
            bodies.append(message.body)
            consumer.pause()
            consumer.resume()
            if message.body == b"003":
                break
    assert bodies == [b"000", b"001", b"002", b"003"]
    assert cluster.broker.offsets["lg", "T", 0] == 4


@READS
async def test_what_was_committed_in_a_loop_stays_so_when_it_pauses(
    cluster: FakeCluster, autojump_clock: MockClock, read: Read
) -> None:
    fill(cluster)

    async def handle_three() -> None:
        async with lite_pull_consumer_of(cluster, FIRST) as consumer:
            await consumer.subscribe("T")
            async for message in read(consumer):
                if message.body == b"002":
                    await consumer.commit()
                    consumer.pause()
                    raise LookupError("after the commit")

    with pytest.raises(LookupError):
        await handle_three()
    assert cluster.broker.offsets["lg", "T", 0] == 3


@READS
async def test_what_is_at_hand_of_a_topic_counts_when_that_topic_is_given_up(
    cluster: FakeCluster, autojump_clock: MockClock, read: Read
) -> None:
    fill(cluster)
    async with lite_pull_consumer_of(cluster, FIRST) as consumer:
        await consumer.subscribe("T")
        async for message in read(consumer):
            if message.body == b"002":
                await consumer.unsubscribe("T")
                break
    assert cluster.broker.offsets["lg", "T", 0] == 3


async def test_giving_up_a_topic_leaves_polled_messages_of_others_uncounted(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster)

    async def handle_two() -> None:
        async with lite_pull_consumer_of(cluster, FIRST, poll_messages_max=2) as consumer:
            await consumer.subscribe("T")
            await consumer.subscribe("Other")
            await consumer.poll()
            assert [message.body for message in await consumer.poll()] == [b"002", b"003"]
            await consumer.unsubscribe("Other")
            raise LookupError("these two were not handled")

    with pytest.raises(LookupError):
        await handle_two()
    assert cluster.broker.offsets["lg", "T", 0] == 2


@READS
async def test_the_position_in_a_loop_is_behind_the_message_at_hand(
    cluster: FakeCluster, autojump_clock: MockClock, read: Read
) -> None:
    fill(cluster)

    async def handle_two() -> None:
        async with lite_pull_consumer_of(cluster, FIRST) as consumer:
            await consumer.subscribe("T")
            async for message in read(consumer):
                assert consumer.position(Q0) == message.queue_offset + 1
                assert (await consumer.lag())[Q0] == 4 - message.queue_offset
                if message.body == b"002":
                    raise LookupError("the third cannot be handled")

    with pytest.raises(LookupError):
        await handle_two()
    assert cluster.broker.offsets["lg", "T", 0] == 2
