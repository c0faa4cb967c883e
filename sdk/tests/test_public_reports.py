"""Public reports about other clients are tried with the SDK.

Each test names the report that it tries; docs/interop.md lists them.
"""

from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import (
    ConcurrentListener,
    ConsumeFrom,
    LanemqError,
    Message,
    OrderlyListener,
    Outcome,
    PushOptions,
    ReceivedMessage,
)
from lanemq.testkit.sdk.clients import producer_of, push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster, Peer
from lanemq.wire import PullSysFlag, RequestCode
from lanemq.wire.frame import Frame
from lanemq.wire.headers import PullMessage, UpdateConsumerOffset

FIRST = PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET)
LAST = PushOptions(consume_from=ConsumeFrom.LAST_OFFSET)
ASK, LOCK, END = (
    RequestCode.QUERY_CONSUMER_OFFSET,
    RequestCode.LOCK_BATCH_MQ,
    RequestCode.GET_MAX_OFFSET,
)

Listener = ConcurrentListener | OrderlyListener


class Inbox:
    """Takes everything, in the time that it takes."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.takes_s = 0.0

    async def __call__(self, messages: Sequence[ReceivedMessage]) -> Outcome | None:
        await trio.sleep(self.takes_s)
        self.bodies += [message.body for message in messages]
        return None


def listeners(inbox: Inbox) -> tuple[Listener, ...]:
    return ConcurrentListener(inbox), OrderlyListener(inbox)


def fill(cluster: FakeCluster, first: int, end: int) -> list[bytes]:
    bodies = [b"%d" % number for number in range(first, end)]
    for body in bodies:
        cluster.broker.put("T", 0, body)
    return bodies


@pytest.mark.parametrize("lock_failures", [0, 2])
async def test_an_orderly_queue_whose_offset_cannot_be_asked_is_not_read_from_its_beginning(
    cluster: FakeCluster, autojump_clock: MockClock, lock_failures: int
) -> None:
    """apache/rocketmq 1825: the look-up after the lock failed, and the queue began at its first."""
    fill(cluster, 0, 10)
    cluster.broker.offsets["cg", "T", 0] = 7
    cluster.broker.refuse(ASK, *[1] * 5)
    cluster.broker.refuse(LOCK, *[1] * lock_failures)
    inbox = Inbox()
    async with push_consumer_of(cluster, OrderlyListener(inbox), FIRST):
        await trio.sleep(120)
    assert inbox.bodies == [b"7", b"8", b"9"]


@pytest.mark.parametrize("kind", [0, 1], ids=["concurrent", "orderly"])
async def test_an_hour_without_a_broker_repeats_nothing(
    cluster: FakeCluster, autojump_clock: MockClock, kind: int
) -> None:
    """apache/rocketmq 2705: the consumer went back to the first offset when the network was back.

    The route loses the broker meanwhile, so the queues are given up and taken again.
    """
    sent = fill(cluster, 0, 20)
    inbox = Inbox()
    async with push_consumer_of(cluster, listeners(inbox)[kind], FIRST):
        await trio.sleep(30)
        cluster.broker.reachable = False
        cluster.broker.cut()
        await trio.sleep(3600)
        cluster.broker.refuse(ASK, *[1] * 3)
        cluster.broker.reachable = True
        await trio.sleep(120)
        sent += fill(cluster, 20, 25)
        await trio.sleep(120)
    assert sorted(inbox.bodies, key=int) == sent
    assert cluster.broker.offsets["cg", "T", 0] == 25


@pytest.mark.parametrize("kind", [0, 1], ids=["concurrent", "orderly"])
async def test_what_arrives_between_the_start_and_the_first_pull_is_not_skipped(
    cluster: FakeCluster, autojump_clock: MockClock, kind: int
) -> None:
    """apache/rocketmq 10955: a new group asked for the end of a queue twice, and began at the
    second."""
    fill(cluster, 0, 3)
    cluster.broker.refuse(LOCK, 1, 1)  # the first pull is later than the first look
    inbox = Inbox()
    async with push_consumer_of(cluster, listeners(inbox)[kind], LAST):
        sent = fill(cluster, 3, 6)
        await trio.sleep(120)
    assert sorted(inbox.bodies) == sent


async def test_an_orderly_message_that_fails_holds_up_those_behind_it(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    """apache/rocketmq-client-go 618 and 650: the next message's success finished it, too."""
    sent = fill(cluster, 0, 5)
    seen: list[bytes] = []

    async def fail_one(messages: Sequence[ReceivedMessage]) -> Outcome | None:
        (message,) = messages
        seen.append(message.body)
        fails = message.body == b"1" and seen.count(b"1") < 4
        return Outcome.SUSPEND_CURRENT_QUEUE if fails else None

    async with push_consumer_of(cluster, OrderlyListener(fail_one), FIRST):
        await trio.sleep(1.5)
        assert cluster.broker.offsets.get(("cg", "T", 0), 0) <= 1
        await trio.sleep(60)
    assert seen == [b"0", b"1", b"1", b"1", *sent[1:]]
    assert cluster.broker.offsets["cg", "T", 0] == 5


async def test_an_unstable_network_never_commits_a_smaller_offset(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    """apache/rocketmq 2708, apache/rocketmq-client-go 832: offset 0 was committed for a queue that
    was given up before its offset was known."""
    committed: list[int] = []
    broker = cluster.broker
    update, pull = broker.handlers[RequestCode.UPDATE_CONSUMER_OFFSET], broker.waiters[11]

    def note_update(frame: Frame, peer: Peer) -> Frame | None:
        header = UpdateConsumerOffset.from_fields(frame.fields)
        if header.topic == "T":
            committed.append(header.commit_offset)
        return update(frame, peer)

    async def note_pull(frame: Frame, peer: Peer) -> Frame | None:
        header = PullMessage.from_fields(frame.fields)
        if header.topic == "T" and header.sys_flag & PullSysFlag.COMMIT_OFFSET:
            committed.append(header.commit_offset)
        return await pull(frame, peer)

    broker.handlers[RequestCode.UPDATE_CONSUMER_OFFSET] = note_update
    broker.waiters[RequestCode.PULL_MESSAGE] = note_pull
    fill(cluster, 0, 50)
    broker.offsets["cg", "T", 0] = 40
    inbox = Inbox()
    async with push_consumer_of(cluster, ConcurrentListener(inbox), FIRST):
        for _ in range(12):
            broker.refuse(ASK, 1, 1)
            broker.mute(ASK)
            async with push_consumer_of(cluster, ConcurrentListener(inbox), FIRST):
                await trio.sleep(7)
                broker.cut()
            await trio.sleep(5)
        await trio.sleep(120)
    assert set(inbox.bodies) == {b"%d" % number for number in range(40, 50)}
    assert min(committed) >= 40
    assert broker.offsets["cg", "T", 0] == 50


async def test_progress_is_the_first_message_that_is_not_finished(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    """apache/rocketmq-client-go 183: messages that finished out of order were lost or came again
    after a restart."""
    sent = fill(cluster, 0, 40)
    first: list[bytes] = []

    async def slow_ones(messages: Sequence[ReceivedMessage]) -> Outcome | None:
        (message,) = messages
        await trio.sleep(40 - int(message.body))  # the last is finished first
        first.append(message.body)
        return None

    listener = ConcurrentListener(slow_ones, concurrency=40)
    async with push_consumer_of(cluster, listener, FIRST):
        await trio.sleep(25)
        assert cluster.broker.offsets.get(("cg", "T", 0), 0) == 0
        await trio.sleep(60)
    second = Inbox()
    async with push_consumer_of(cluster, ConcurrentListener(second), FIRST):
        await trio.sleep(30)
    assert sorted(first, key=int) == sent
    assert second.bodies == []


async def test_a_message_that_cannot_be_sent_back_is_not_lost(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    """apache/rocketmq-client-cpp 208, apache/rocketmq-client-go 797: it was lost."""
    fill(cluster, 0, 1)
    seen: list[int] = []

    async def fail_twice(messages: Sequence[ReceivedMessage]) -> Outcome | None:
        seen.append(messages[0].reconsume_times)
        return Outcome.RETRY if len(seen) < 3 else None

    cluster.broker.refuse(RequestCode.CONSUMER_SEND_MSG_BACK, *[1] * 20)
    cluster.broker.refuse(RequestCode.SEND_MESSAGE_V2, *[1] * 20)
    async with push_consumer_of(cluster, ConcurrentListener(fail_twice), FIRST):
        await trio.sleep(120)
    assert len(seen) == 3
    assert cluster.broker.offsets["cg", "T", 0] == 1


async def test_an_orderly_listener_slower_than_pulls_gets_each_message_once(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    """apache/rocketmq-client-cpp 331: a pull that found nothing new fetched again what was being
    consumed."""
    inbox = Inbox()
    inbox.takes_s = 3
    sent: list[bytes] = []
    cluster.create_topic("T", 1)
    async with push_consumer_of(cluster, OrderlyListener(inbox), FIRST, pull_suspend_s=1):
        for number in range(10):
            sent += fill(cluster, number, number + 1)
            await trio.sleep(2)
        await trio.sleep(60)
    assert sorted(inbox.bodies) == sent


async def test_a_consumer_that_ends_leaves_the_producer_of_its_process_alone(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    """apache/rocketmq-client-go 705: sends failed after the consumer had been shut down."""
    cluster.create_topic("T", 1)
    async with producer_of(cluster) as producer:
        async with push_consumer_of(cluster, ConcurrentListener(Inbox()), FIRST):
            await producer.send(Message(topic="T", body=b"before"))
        await producer.send(Message(topic="T", body=b"after"))
    assert cluster.bodies("T") == [b"after", b"before"]


@pytest.mark.parametrize("timeout_s", [0.2, 1.0, 8.0])
async def test_the_timeout_of_a_send_is_the_one_that_was_set(
    cluster: FakeCluster, autojump_clock: MockClock, timeout_s: float
) -> None:
    """apache/rocketmq-client-go 1110: three seconds were in the code, whatever was set."""
    cluster.create_topic("T", 1)
    cluster.broker.mute(RequestCode.SEND_MESSAGE_V2, 10)
    async with producer_of(cluster, send_timeout_s=timeout_s) as producer:
        begun = trio.current_time()
        with pytest.raises(LanemqError):
            await producer.send(Message(topic="T", body=b"?"))
        assert trio.current_time() - begun == pytest.approx(timeout_s, abs=0.01)


@pytest.mark.parametrize("answer", ["SUCCESS", 0, False, object()])
async def test_an_answer_that_is_no_outcome_is_a_failure_that_is_counted(
    cluster: FakeCluster, autojump_clock: MockClock, answer: object
) -> None:
    """apache/rocketmq-client-python 88: such a message came again without end."""
    fill(cluster, 0, 1)
    times: list[int] = []

    async def wrong(messages: Sequence[ReceivedMessage]) -> object:
        times.append(messages[0].reconsume_times)
        return answer

    options = PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET, max_reconsume_times=2)
    async with push_consumer_of(cluster, ConcurrentListener(wrong), options):  # type: ignore[arg-type]
        await trio.sleep(300)
    assert times == [0, 1, 2]
    assert cluster.bodies("%DLQ%cg") == [b"0"]


async def test_a_property_that_a_message_does_not_have_is_no_error(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    """apache/rocketmq 8702: a look at it failed, and the message went to the dead letters."""
    fill(cluster, 0, 1)
    found: list[object] = []

    async def look(messages: Sequence[ReceivedMessage]) -> Outcome | None:
        (message,) = messages
        found.append((message.properties.get("ORIGIN_MESSAGE_ID"), message.tags, message.keys))
        return None

    async with push_consumer_of(cluster, ConcurrentListener(look), FIRST):
        await trio.sleep(30)
    assert found == [(None, "", ())]
