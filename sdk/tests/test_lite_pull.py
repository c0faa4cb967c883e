"""Polling, seeking and committing, with queues shared or assigned."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Unpack

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.sdk import (
    ClientClosed,
    ConsumeFrom,
    FlowLimits,
    LanemqError,
    LitePullConsumer,
    LitePullOptions,
    MessageModel,
    MessageQueue,
    NoRoute,
    RefusedByBroker,
    WrongUse,
)
from lanemq.sdk.opening._settings import LitePullSettings
from lanemq.testkit.sdk.clients import lite_pull_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster, Peer
from lanemq.wire import RequestCode
from lanemq.wire.bodies import ResetOffsetBody
from lanemq.wire.frame import Frame, request
from lanemq.wire.message import StageRecord

FIRST = LitePullOptions(consume_from=ConsumeFrom.FIRST_OFFSET)
MANUAL = LitePullOptions(consume_from=ConsumeFrom.FIRST_OFFSET, auto_commit=False)
Q0, Q1 = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)


def consumer_of(
    cluster: FakeCluster, options: LitePullOptions = FIRST, **settings: Unpack[LitePullSettings]
) -> AbstractAsyncContextManager[LitePullConsumer]:
    return lite_pull_consumer_of(cluster, options, **settings)


def fill(cluster: FakeCluster, count: int, queues: int = 1) -> None:
    cluster.create_topic("T", queues)
    for number in range(count):
        cluster.broker.put("T", number % queues, b"%03d" % number)


async def poll_all(consumer: LitePullConsumer) -> list[bytes]:
    bodies: list[bytes] = []
    while messages := await consumer.poll(2):
        assert len({message.queue for message in messages}) == 1
        bodies += [message.body for message in messages]
    return bodies


async def test_assigned_queues_are_read_in_order(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 100)
    async with consumer_of(cluster) as consumer:
        assert await consumer.queues_of("T") == (Q0,)
        await consumer.assign([Q0])
        assert consumer.queues == (Q0,)
        assert await poll_all(consumer) == [b"%03d" % number for number in range(100)]


async def test_a_poll_that_finds_nothing_ends_in_time(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 0)
    async with consumer_of(cluster) as consumer:
        await consumer.assign([Q0])
        start = trio.current_time()
        assert await consumer.poll(7) == []
        assert trio.current_time() == start + 7


async def test_a_poll_returns_as_soon_as_there_is_something(
    cluster: FakeCluster, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    fill(cluster, 0)

    async def later() -> None:
        await trio.sleep(3)
        cluster.broker.put("T", 0, b"x")

    async with consumer_of(cluster) as consumer:
        await consumer.assign([Q0])
        nursery.start_soon(later)
        start = trio.current_time()
        (message,) = await consumer.poll(60)
        assert message.body == b"x"
        assert trio.current_time() == pytest.approx(start + 3)


async def test_a_poll_returns_no_more_than_asked_for(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 50)
    options = LitePullOptions(consume_from=ConsumeFrom.FIRST_OFFSET, poll_messages_max=20)
    async with consumer_of(cluster, options) as consumer:
        await consumer.assign([Q0])
        sizes = []
        while messages := await consumer.poll(2):
            sizes.append(len(messages))
    assert sizes == [20, 12, 18]  # pulls bring 32 and 18


async def test_progress_is_told_when_more_is_asked_for_and_at_the_end(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 96)
    async with consumer_of(cluster) as consumer:
        await consumer.assign([Q0])
        for _ in range(2):
            await consumer.poll()
        assert cluster.broker.offsets == {}
        await trio.sleep(6)
        await consumer.poll()
        await wait_all_tasks_blocked()
        assert cluster.broker.offsets == {("lg", "T", 0): 64}
    assert cluster.broker.offsets == {("lg", "T", 0): 96}


async def test_without_auto_commit_only_commit_tells_progress(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 64)
    async with consumer_of(cluster, MANUAL) as consumer:
        await consumer.assign([Q0])
        await consumer.poll()
        assert await consumer.committed(Q0) is None
        await consumer.commit()
        assert await consumer.committed(Q0) == 32
        await trio.sleep(10)
        await consumer.poll()
    assert cluster.broker.offsets == {("lg", "T", 0): 32}


async def test_what_was_polled_before_an_error_comes_again(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 64)

    async def fail() -> None:
        async with consumer_of(cluster) as consumer:
            await consumer.assign([Q0])
            await consumer.poll()
            raise KeyError("mine")

    with pytest.raises(KeyError):
        await fail()
    async with consumer_of(cluster) as consumer:
        await consumer.assign([Q0])
        assert len(await poll_all(consumer)) == 64


async def test_seeking_goes_back_and_forth(cluster: FakeCluster, autojump_clock: MockClock) -> None:
    fill(cluster, 40)
    cluster.broker.queue("T", 0).trimmed = 5
    async with consumer_of(cluster) as consumer:
        await consumer.assign([Q0])
        assert (await consumer.poll())[0].queue_offset == 5
        consumer.seek(Q0, 30)
        assert [message.queue_offset for message in await consumer.poll()] == list(range(30, 40))
        await consumer.seek_to_begin(Q0)
        assert (await consumer.poll())[0].queue_offset == 5
        await consumer.seek_to_end(Q0)
        assert await consumer.poll(1) == []
        cluster.broker.put("T", 0, b"new")
        assert [message.body for message in await consumer.poll(1)] == [b"new"]
        await consumer.commit()
        assert await consumer.committed(Q0) == 41
        consumer.seek(Q0, 7)
        await consumer.commit()
        assert await consumer.committed(Q0) == 7


async def test_seeking_elsewhere_is_an_error(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 1)
    async with consumer_of(cluster) as consumer:
        await consumer.assign([Q0])
        with pytest.raises(WrongUse, match="not read by this consumer"):
            consumer.seek(Q1, 0)
        with pytest.raises(WrongUse, match="counts messages from 0"):
            consumer.seek(Q0, -1)


async def test_a_new_assignment_replaces_the_old(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 40, queues=2)
    async with consumer_of(cluster) as consumer:
        await consumer.assign([Q0])
        await trio.sleep(1)
        await consumer.assign([Q1])
        assert consumer.queues == (Q1,)
        messages = await consumer.poll()
        assert {message.queue for message in messages} == {Q1}


async def test_subscribers_share_the_queues(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 40, queues=4)
    async with consumer_of(cluster) as one, consumer_of(cluster) as two:
        await one.subscribe("T")
        await two.subscribe("T")
        await trio.sleep(2)
        assert (len(one.queues), len(two.queues)) == (2, 2)
        assert not set(one.queues) & set(two.queues)
        bodies = await poll_all(one) + await poll_all(two)
    assert set(bodies) == {b"%03d" % number for number in range(40)}


async def test_a_subscription_filters_by_tag(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    for number in range(20):
        cluster.broker.put("T", 0, b"%02d" % number, TAGS="AB"[number % 2])
    async with consumer_of(cluster) as consumer:
        await consumer.subscribe("T", "B")
        assert await poll_all(consumer) == [b"%02d" % number for number in range(1, 20, 2)]
    # Another look of the broker found nothing after the last B.
    assert cluster.broker.offsets == {("lg", "T", 0): 20}


async def test_pulling_pauses_while_nobody_polls(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 300)
    options = LitePullOptions(consume_from=ConsumeFrom.FIRST_OFFSET, flow=FlowLimits(messages=50))
    async with consumer_of(cluster, options) as consumer:
        await consumer.assign([Q0])
        await trio.sleep(10)
        assert cluster.broker.count(RequestCode.PULL_MESSAGE) == 2
        assert len(await poll_all(consumer)) == 300


async def test_broadcasting_keeps_progress_in_a_file(
    cluster: FakeCluster, autojump_clock: MockClock, tmp_path: Path
) -> None:
    fill(cluster, 10)
    options = LitePullOptions(
        consume_from=ConsumeFrom.FIRST_OFFSET,
        message_model=MessageModel.BROADCASTING,
        offsets_dir=tmp_path,
    )
    async with consumer_of(cluster, options) as consumer:
        await consumer.subscribe("T")
        assert len(await poll_all(consumer)) == 10
    assert cluster.broker.offsets == {}
    cluster.broker.put("T", 0, b"x")
    async with consumer_of(cluster, options) as consumer:
        await consumer.subscribe("T")
        assert await poll_all(consumer) == [b"x"]


async def test_either_subscribe_or_assign(cluster: FakeCluster, autojump_clock: MockClock) -> None:
    fill(cluster, 1)
    async with consumer_of(cluster) as consumer:
        await consumer.assign([Q0])
        with pytest.raises(WrongUse, match="`subscribe` after `assign`"):
            await consumer.subscribe("T")


async def test_an_unknown_topic_cannot_be_assigned(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    async with consumer_of(cluster) as consumer:
        with pytest.raises(NoRoute):
            await consumer.assign([Q0])


async def test_an_assignment_that_cannot_start_is_an_error(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 1)
    cluster.broker.refuse(RequestCode.QUERY_CONSUMER_OFFSET, 1)
    async with consumer_of(cluster) as consumer:
        with pytest.raises(RefusedByBroker):
            await consumer.assign([Q0])
        await consumer.assign([Q0])
        assert await poll_all(consumer) == [b"000"]


async def test_a_closed_consumer_says_so(cluster: FakeCluster) -> None:
    async with consumer_of(cluster) as consumer:
        pass
    with pytest.raises(ClientClosed):
        await consumer.poll()


@pytest.mark.parametrize("way", ["error", "break"])
async def test_iteration_left_by_an_error_commits_what_was_handled_as_a_break_does(
    cluster: FakeCluster, autojump_clock: MockClock, way: str
) -> None:
    fill(cluster, 5)

    async def handle_three() -> None:
        async with consumer_of(cluster) as consumer:
            await consumer.subscribe("T")
            async for message in consumer:
                if message.body == b"003":
                    if way == "break":
                        break
                    raise LookupError("the fourth cannot be handled")

    if way == "break":
        await handle_three()
    else:
        with pytest.raises(LookupError):
            await handle_three()
    # The message at hand when the error came was not handled; at a break it was.
    assert cluster.broker.offsets["lg", "T", 0] == (3 if way == "error" else 4)


async def test_an_error_between_two_polls_commits_the_earlier_one(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 5)

    async def handle_two() -> None:
        async with consumer_of(cluster, poll_messages_max=2) as consumer:
            await consumer.subscribe("T")
            assert [message.body for message in await consumer.poll()] == [b"000", b"001"]
            assert [message.body for message in await consumer.poll()] == [b"002", b"003"]
            raise LookupError("these two were not handled")

    with pytest.raises(LookupError):
        await handle_two()
    assert cluster.broker.offsets["lg", "T", 0] == 2


async def test_an_error_does_not_take_back_what_was_committed(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 5)

    async def commit_and_fail() -> None:
        async with consumer_of(cluster, poll_messages_max=2) as consumer:
            await consumer.subscribe("T")
            await consumer.poll()
            await consumer.commit()
            raise LookupError("after the commit")

    with pytest.raises(LookupError):
        await commit_and_fail()
    assert cluster.broker.offsets["lg", "T", 0] == 2


async def test_after_a_failed_subscription_another_one_shares_its_queues(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 0, queues=4)
    async with consumer_of(cluster, require_route=True) as one, consumer_of(cluster) as two:
        with pytest.raises(NoRoute):
            await one.subscribe("Missing")
        with pytest.raises(WrongUse, match="call `subscribe` or `assign` first"):
            await one.poll()
        await one.subscribe("T")
        await two.subscribe("T")
        await trio.sleep(30)
        assert (len(one.queues), len(two.queues)) == (2, 2)


async def test_a_subscription_that_is_cancelled_goes_on_by_itself(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 5)
    async with consumer_of(cluster) as consumer:
        cluster.broker.mute(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
        with trio.move_on_after(1):
            await consumer.subscribe("T")
        assert consumer.queues == ()
        await trio.sleep(5)
        assert len(await consumer.poll()) == 5


async def test_a_failed_assignment_leaves_the_choice(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 5)
    async with consumer_of(cluster) as consumer:
        with pytest.raises(NoRoute):
            await consumer.assign([MessageQueue("Missing", "broker-a", 0)])
        await consumer.subscribe("T")
        assert len(await consumer.poll()) == 5


def reset(cluster: FakeCluster, consumer: LitePullConsumer, offset: int) -> None:
    fields = {"group": "lg", "topic": "T", "timestamp": "0", "isForce": "true"}
    body = ResetOffsetBody({Q0: offset}).encode()
    frame = request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields, body)
    cluster.broker.tell(consumer.client_id, frame)


@pytest.mark.parametrize("slowly", [False, True])
async def test_a_commit_does_not_undo_a_reset(
    cluster: FakeCluster, autojump_clock: MockClock, slowly: bool
) -> None:
    fill(cluster, 64)
    async with consumer_of(cluster, MANUAL) as consumer:
        await consumer.subscribe("T")
        await consumer.poll()
        if slowly:
            cluster.broker.mute(RequestCode.UPDATE_CONSUMER_OFFSET)  # the commit is in between
        reset(cluster, consumer, 5)
        await trio.sleep(1)
        await consumer.commit(wait=False)
        await trio.sleep(10)
        await consumer.commit()
        assert await consumer.committed(Q0) == 5
        assert (await consumer.poll())[0].queue_offset == 5


async def test_an_error_does_not_undo_a_reset(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 64)

    async def fail_after_a_reset() -> None:
        async with consumer_of(cluster) as consumer:
            await consumer.subscribe("T")
            await consumer.poll()
            await consumer.poll()
            reset(cluster, consumer, 5)
            await trio.sleep(1)
            raise LookupError("mine")

    with pytest.raises(LookupError):
        await fail_after_a_reset()
    assert cluster.broker.offsets == {("lg", "T", 0): 5}


async def test_a_commit_does_not_undo_the_correction_of_an_illegal_offset(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 32)
    async with consumer_of(cluster, MANUAL) as consumer:
        await consumer.subscribe("T")
        assert len(await poll_all(consumer)) == 32
        fill(cluster, 32)
        cluster.broker.queue("T", 0).trimmed = 40
        await trio.sleep(60)
        await consumer.commit()
        assert await consumer.committed(Q0) == 40


async def test_progress_ends_with_the_subscription(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 64)
    async with consumer_of(cluster, MANUAL) as consumer:
        await consumer.subscribe("T")
        await consumer.poll()
        await consumer.unsubscribe("T")
        cluster.broker.offsets["lg", "T", 0] = 60  # another consumer had the queue
        await consumer.subscribe("T")
        await consumer.commit()
        assert await consumer.committed(Q0) == 60
        assert (await consumer.poll())[0].queue_offset == 60


@pytest.mark.parametrize("fails", [False, True])
async def test_another_expression_leaves_progress_as_it_is(
    cluster: FakeCluster, autojump_clock: MockClock, fails: bool
) -> None:
    fill(cluster, 64)

    async def change() -> None:
        async with consumer_of(cluster) as consumer:
            await consumer.subscribe("T")
            await consumer.poll()
            await consumer.poll()
            await consumer.subscribe("T", "A")
            if fails:
                raise LookupError("mine")

    if fails:
        with pytest.raises(LookupError):
            await change()
    else:
        await change()
    assert cluster.broker.offsets == {("lg", "T", 0): 32 if fails else 64}


class DeadStore:
    """A store that saves nothing: each call takes its time, and fails."""

    async def load_offset(self, queue: MessageQueue) -> int | None:
        return None

    async def save_offset(self, queue: MessageQueue, offset: int) -> None:
        await trio.sleep(15)
        raise LanemqError("the store is away")

    async def load(self, queue: MessageQueue, strategy: str = "") -> StageRecord | None:
        return None

    async def save(self, queue: MessageQueue, record: StageRecord, strategy: str = "") -> None:
        raise LanemqError("the store is away")


async def test_a_store_that_is_away_holds_up_no_poll_and_no_iteration(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 64)
    async with consumer_of(cluster, FIRST, offset_store=DeadStore()) as consumer:
        await consumer.assign([Q0])
        await trio.sleep(7)
        for timeout_s in (1, 1, 7, 0):  # the first two find messages
            start_s = trio.current_time()
            found = await consumer.poll(timeout_s)
            assert trio.current_time() - start_s == (0 if found else timeout_s)
        await consumer.commit(wait=False)
        assert trio.current_time() == start_s
        for number in range(2):
            cluster.broker.put("T", 0, b"%d" % number)
        await anext(aiter(consumer))
        await trio.sleep(7)
        start_s = trio.current_time()
        await anext(aiter(consumer))
        assert trio.current_time() == start_s


async def test_a_commit_that_a_broker_refuses_is_an_error(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 5)
    async with consumer_of(cluster, MANUAL) as consumer:
        await consumer.assign([Q0])
        await consumer.poll()
        cluster.broker.refuse(RequestCode.UPDATE_CONSUMER_OFFSET, 1)
        with pytest.raises(RefusedByBroker):
            await consumer.commit()
        await consumer.commit()
        assert await consumer.committed(Q0) == 5


async def test_a_commit_that_is_not_kept_is_an_error_and_the_end_of_the_block_none(
    cluster: FakeCluster, autojump_clock: MockClock, tmp_path: Path
) -> None:
    fill(cluster, 5)
    (tmp_path / "file").touch()
    for options in (
        LitePullOptions(consume_from=ConsumeFrom.FIRST_OFFSET, offset_store=DeadStore()),
        LitePullOptions(
            consume_from=ConsumeFrom.FIRST_OFFSET,
            message_model=MessageModel.BROADCASTING,
            offsets_dir=tmp_path / "file",
        ),
    ):
        async with consumer_of(cluster, options) as consumer:
            await consumer.subscribe("T")
            await consumer.poll()
            with pytest.raises(LanemqError, match=r"the store is away|cannot write the offsets"):
                await consumer.commit()


@pytest.mark.parametrize("way", ["seek", "subscribe"])
async def test_what_changes_while_the_consumer_closes_is_no_error(
    cluster: FakeCluster, autojump_clock: MockClock, nursery: trio.Nursery, way: str
) -> None:
    fill(cluster, 1)
    real = cluster.broker.handlers[RequestCode.UPDATE_CONSUMER_OFFSET]
    outcomes: list[str] = []

    async def change() -> None:
        try:
            if way == "seek":
                consumer.seek(Q0, 0)
            else:
                await consumer.subscribe("T", "a || b")
        except ClientClosed:
            outcomes.append("closed")
        else:
            outcomes.append("done")

    def handle(frame: Frame, peer: Peer) -> Frame | None:
        nursery.start_soon(change)
        return real(frame, peer)

    async with consumer_of(cluster) as consumer:
        await consumer.subscribe("T")
        assert await consumer.poll()
        cluster.broker.handlers[RequestCode.UPDATE_CONSUMER_OFFSET] = handle
    await wait_all_tasks_blocked()
    assert "done" in outcomes
