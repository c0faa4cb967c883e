"""Messages reach the listener, progress reaches the broker, and nothing is lost on the way."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import (
    ConcurrentListener,
    ConsumeFrom,
    FlowLimits,
    InvalidName,
    MessageModel,
    MessageQueue,
    Outcome,
    PushConsumer,
    PushOptions,
    ReceivedMessage,
)
from lanemq.testkit.sdk.clients import push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster, clock_ms
from lanemq.wire import RequestCode

FIRST = PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET)
PULL = RequestCode.PULL_MESSAGE
SEND_BACK = RequestCode.CONSUMER_SEND_MSG_BACK

Handle = Callable[[Sequence[ReceivedMessage]], Awaitable[Outcome | None]]


class Inbox:
    """A listener that keeps what it gets, and when."""

    def __init__(self) -> None:
        self.messages: list[ReceivedMessage] = []
        self.times_s: list[float] = []
        self.batches: list[int] = []

    async def __call__(self, messages: Sequence[ReceivedMessage]) -> Outcome | None:
        self.messages += messages
        self.times_s += [trio.current_time()] * len(messages)
        self.batches.append(len(messages))
        return None

    @property
    def bodies(self) -> list[bytes]:
        return sorted(message.body for message in self.messages)


def consumer_of(
    cluster: FakeCluster,
    handle: Handle,
    options: PushOptions = FIRST,
    *,
    subscriptions: Mapping[str, str] = {"T": "*"},
    group: str = "cg",
    concurrency: int = 20,
    batch_messages: int = 1,
) -> AbstractAsyncContextManager[PushConsumer]:
    return push_consumer_of(
        cluster,
        ConcurrentListener(handle, concurrency, batch_messages),
        options,
        group=group,
        subscriptions=subscriptions,
    )


def offsets(cluster: FakeCluster, topic: str = "T", group: str = "cg") -> dict[int, int]:
    return {
        queue_id: offset
        for (name, stored_topic, queue_id), offset in cluster.broker.offsets.items()
        if (name, stored_topic) == (group, topic)
    }


async def test_every_message_is_consumed_once_and_progress_is_kept(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 4)
    for number in range(100):
        cluster.broker.put("T", number % 4, b"%03d" % number)
    inbox = Inbox()
    async with consumer_of(cluster, inbox) as consumer:
        await trio.sleep(1)
        assert inbox.bodies == [b"%03d" % number for number in range(100)]
        assert offsets(cluster) == {}
        await trio.sleep(5)
        assert offsets(cluster) == dict.fromkeys(range(4), 25)
        queue = MessageQueue("T", "broker-a", 0)
        assert consumer.committed_offset(queue) == 25
        cluster.broker.put("T", 0, b"late")
        await trio.sleep(0.1)
        assert inbox.messages[-1].body == b"late"
    assert offsets(cluster) == {0: 26, 1: 25, 2: 25, 3: 25}
    assert cluster.broker.requests[-1].code == RequestCode.UNREGISTER_CLIENT


async def test_a_message_says_all_about_itself(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    cluster.broker.put("T", 0, b"x", TAGS="A", KEYS="k1 k2", UNIQ_KEY="F" * 32, own="value")
    inbox = Inbox()
    async with consumer_of(cluster, inbox):
        await trio.sleep(1)
    (message,) = inbox.messages
    assert (message.topic, message.body, message.tags) == ("T", b"x", "A")
    assert (message.keys, message.message_id) == (("k1", "k2"), "F" * 32)
    assert message.queue == MessageQueue("T", "broker-a", 0)
    assert (message.queue_offset, message.reconsume_times, message.flag) == (0, 0, 0)
    assert message.properties["own"] == "value"
    assert message.born_timestamp_ms == message.store_timestamp_ms == clock_ms() - 1000
    assert message.born_host == "10.9.8.7:4711"
    assert len(message.offset_id) == 32
    assert "T, queue 0 at broker-a, offset 0" in repr(message)


async def test_only_subscribed_tags_arrive_and_the_rest_counts_as_done(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    # "Aa" and "BB" have the same hash: the broker lets both through, the client does not.
    for number, tag in enumerate(["Aa", "BB", "C", "Aa", "D", "D"]):
        cluster.broker.put("T", 0, b"%d" % number, TAGS=tag)
    inbox = Inbox()
    async with consumer_of(cluster, inbox, subscriptions={"T": "Aa || C"}):
        await trio.sleep(1)
    assert inbox.bodies == [b"0", b"2", b"3"]
    assert offsets(cluster) == {0: 6}


async def test_batches_hold_messages_of_one_queue(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 2)
    for number in range(40):
        cluster.broker.put("T", number % 2, b"%02d" % number)
    inbox = Inbox()
    async with consumer_of(cluster, inbox, batch_messages=8):
        await trio.sleep(1)
    assert sorted(inbox.batches) == [4] * 2 + [8] * 4
    assert len(set(inbox.bodies)) == 40


async def test_no_more_listeners_run_at_once_than_allowed(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 4)
    for number in range(60):
        cluster.broker.put("T", number % 4, b"x")
    running = most = 0

    async def handle(_: Sequence[ReceivedMessage]) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await trio.sleep(1)
        running -= 1

    start = trio.current_time()
    async with consumer_of(cluster, handle, concurrency=6):
        await trio.sleep(10.5)
        assert offsets(cluster)[0] > 0
    assert most == 6
    assert offsets(cluster) == dict.fromkeys(range(4), 15)
    assert trio.current_time() - start < 11


async def test_a_listener_that_never_waits_does_not_stop_the_rest(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    for _ in range(500):
        cluster.broker.put("T", 0, b"x")
    inbox = Inbox()
    async with consumer_of(cluster, inbox, concurrency=1):
        await trio.sleep(7)
        assert offsets(cluster) == {0: 500}


# Coming again


async def test_a_failure_comes_again_by_the_delay_table_until_it_succeeds(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    cluster.broker.put("T", 0, b"x", TAGS="A")
    times: list[tuple[int, float]] = []

    async def handle(messages: Sequence[ReceivedMessage]) -> Outcome:
        (message,) = messages
        times.append((message.reconsume_times, trio.current_time()))
        assert message.topic == "T"
        if message.reconsume_times == 1:
            raise RuntimeError("raising means retry, too")
        return Outcome.SUCCESS if message.reconsume_times == 3 else Outcome.RETRY

    async with consumer_of(cluster, handle, subscriptions={"T": "A"}):
        await trio.sleep(200)
        assert offsets(cluster) == {0: 1}
        assert offsets(cluster, "%RETRY%cg") == {0: 3}
    start = times[0][1]
    assert [n for n, _ in times] == [0, 1, 2, 3]
    assert [s - start for _, s in times] == pytest.approx([0, 10, 40, 100])


@pytest.mark.slow
async def test_what_never_succeeds_ends_with_the_dead_letters(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    cluster.broker.put("T", 0, b"x")
    calls = 0

    async def handle(_: Sequence[ReceivedMessage]) -> Outcome:
        nonlocal calls
        calls += 1
        return Outcome.RETRY

    options = PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET, max_reconsume_times=2)
    async with consumer_of(cluster, handle, options):
        await trio.sleep(3600)
    assert calls == 3
    assert cluster.bodies("%DLQ%cg") == [b"x"]


async def test_all_of_a_failed_batch_comes_again(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    for number in range(4):
        cluster.broker.put("T", 0, b"%d" % number)
    seen: list[bytes] = []

    async def handle(messages: Sequence[ReceivedMessage]) -> Outcome | None:
        seen.extend(message.body for message in messages)
        return Outcome.RETRY if messages[0].reconsume_times == 0 else None

    async with consumer_of(cluster, handle, batch_messages=4):
        await trio.sleep(60)
    assert Counter(seen) == dict.fromkeys([b"0", b"1", b"2", b"3"], 2)


async def test_a_stuck_listener_is_cancelled_and_its_message_comes_again(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    cluster.broker.put("T", 0, b"x")
    times: list[float] = []

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        times.append(trio.current_time())
        if messages[0].reconsume_times == 0:
            await trio.sleep_forever()

    async with consumer_of(cluster, handle):
        await trio.sleep(1000)
    assert times[1] - times[0] == pytest.approx(900 + 10)


async def test_a_send_back_that_fails_becomes_a_copy_in_the_retry_topic(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    cluster.broker.put("T", 0, b"x" * 9000, TAGS="A", UNIQ_KEY="E" * 32)
    cluster.broker.refuse(SEND_BACK, 1)
    inbox = Inbox()

    async def handle(messages: Sequence[ReceivedMessage]) -> Outcome | None:
        await inbox(messages)
        return Outcome.RETRY if messages[0].reconsume_times == 0 else None

    async with consumer_of(cluster, handle):
        await trio.sleep(5)
    first, second = inbox.messages
    assert (second.topic, second.queue.topic) == ("T", "%RETRY%cg")
    assert (second.body, second.message_id) == (first.body, first.message_id)
    assert second.properties["DELAY"] == "3"
    assert second.properties["ORIGIN_MESSAGE_ID"] == "E" * 32
    (copy,) = cluster.broker.messages("%RETRY%cg")
    assert copy.reconsume_times == 1
    sent = cluster.broker.requests[
        [frame.code for frame in cluster.broker.requests].index(RequestCode.SEND_MESSAGE_V2)
    ]
    assert (sent.fields["a"], sent.fields["j"], sent.fields["l"]) == (
        "CLIENT_INNER_PRODUCER",
        "1",
        "16",
    )


async def test_what_can_be_neither_sent_back_nor_copied_is_kept_and_tried_here(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    cluster.broker.put("T", 0, b"x")
    cluster.broker.refuse(SEND_BACK, 1)
    cluster.broker.refuse(RequestCode.SEND_MESSAGE_V2, 13)
    inbox = Inbox()

    async def handle(messages: Sequence[ReceivedMessage]) -> Outcome | None:
        await inbox(messages)
        return Outcome.RETRY if len(inbox.messages) == 1 else None

    async with consumer_of(cluster, handle):
        await trio.sleep(4)
        assert offsets(cluster) == {}
        await trio.sleep(8)
        assert offsets(cluster) == {0: 1}
    assert inbox.times_s[1] - inbox.times_s[0] == pytest.approx(5)


# Where to start


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (PushOptions(), [b"new"]),
        (FIRST, [b"2", b"3", b"new"]),
        (PushOptions(consume_from=ConsumeFrom.TIMESTAMP), [b"3", b"new"]),
    ],
)
async def test_a_new_group_starts_where_it_is_told(
    cluster: FakeCluster, autojump_clock: MockClock, options: PushOptions, expected: list[bytes]
) -> None:
    cluster.create_topic("T", 1)
    for number in range(4):
        if number == 3:
            await trio.sleep(7200)
        cluster.broker.put("T", 0, b"%d" % number)
    await trio.sleep(600)
    cluster.broker.queue("T", 0).trimmed = 2
    inbox = Inbox()
    async with consumer_of(cluster, inbox, options):
        await trio.sleep(1)
        cluster.broker.put("T", 0, b"new")
        await trio.sleep(1)
    assert inbox.bodies == expected


async def test_what_is_sent_inside_the_block_is_never_before_the_start(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 4)
    inbox = Inbox()
    async with consumer_of(cluster, inbox, PushOptions()) as consumer:
        assert len(consumer.queues) == 5
        for number in range(4):
            cluster.broker.put("T", number, b"%d" % number)
        await trio.sleep(1)
    assert inbox.bodies == [b"0", b"1", b"2", b"3"]


async def test_a_group_goes_on_where_it_stopped(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 2)
    for number in range(10):
        cluster.broker.put("T", number % 2, b"%d" % number)
    first, second = Inbox(), Inbox()
    async with consumer_of(cluster, first):
        await trio.sleep(1)
    for number in range(10, 14):
        cluster.broker.put("T", number % 2, b"%d" % number)
    async with consumer_of(cluster, second):
        await trio.sleep(1)
    assert second.bodies == [b"10", b"11", b"12", b"13"]


async def test_an_offset_that_the_broker_does_not_have_is_corrected(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    for number in range(6):
        cluster.broker.put("T", 0, b"%d" % number)
    cluster.broker.queue("T", 0).trimmed = 4
    cluster.broker.offsets["cg", "T", 0] = 1
    inbox = Inbox()
    async with consumer_of(cluster, inbox):
        await trio.sleep(3)
    assert inbox.bodies == [b"4", b"5"]
    assert offsets(cluster) == {0: 6}


async def test_nothing_is_assumed_while_offsets_cannot_be_asked(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    cluster.broker.put("T", 0, b"0")
    cluster.broker.put("T", 0, b"1")
    cluster.broker.offsets["cg", "T", 0] = 1
    cluster.broker.refuse(RequestCode.QUERY_CONSUMER_OFFSET, 1, 1, 1)
    inbox = Inbox()
    async with consumer_of(cluster, inbox):
        await trio.sleep(10)
    assert inbox.bodies == [b"1"]


# Sharing


async def test_two_consumers_share_and_one_takes_over_when_the_other_leaves(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 8)
    one, two = Inbox(), Inbox()
    async with consumer_of(cluster, one) as first:
        async with consumer_of(cluster, two) as second:
            await trio.sleep(1)
            mine = {queue for queue in first.queues if queue.topic == "T"}
            theirs = {queue for queue in second.queues if queue.topic == "T"}
            assert (len(mine), len(theirs), mine & theirs) == (4, 4, set())
            for number in range(16):
                cluster.broker.put("T", number % 8, b"%02d" % number)
            await trio.sleep(1)
            assert (len(one.messages), len(two.messages)) == (8, 8)
        await trio.sleep(0.1)  # told by the broker, not by the clock
        assert len([queue for queue in first.queues if queue.topic == "T"]) == 8
        cluster.broker.put("T", 7, b"16")
        cluster.broker.put("T", 0, b"17")
        await trio.sleep(0.1)
    assert sorted(one.bodies + two.bodies) == [b"%02d" % number for number in range(18)]


async def test_a_consumer_that_vanishes_is_replaced(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 4)
    one, two = Inbox(), Inbox()
    async with consumer_of(cluster, one) as first:
        with trio.CancelScope() as scope:
            async with consumer_of(cluster, two):
                await trio.sleep(1)
                cluster.broker.put("T", 3, b"1")
                scope.cancel()
                await trio.sleep_forever()
        await trio.sleep(0.5)
        assert len([queue for queue in first.queues if queue.topic == "T"]) == 4
    assert sorted(set(one.bodies + two.bodies)) == [b"1"]


async def test_new_queues_and_new_brokers_are_found(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    inbox = Inbox()
    async with consumer_of(cluster, inbox) as consumer:
        await trio.sleep(1)
        cluster.broker.create_topic("T", 3)
        cluster.add_broker().create_topic("T", 2)
        await trio.sleep(60)  # a heartbeat must reach the new broker as well
        assert len([queue for queue in consumer.queues if queue.topic == "T"]) == 5
        cluster.brokers[1].put("T", 1, b"new broker")
        await trio.sleep(1)
    assert inbox.bodies == [b"new broker"]


async def test_a_topic_that_appears_later_is_consumed(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    inbox = Inbox()
    async with consumer_of(cluster, inbox):
        await trio.sleep(3)
        cluster.create_topic("T", 1)
        cluster.broker.put("T", 0, b"x")
        await trio.sleep(31)
    assert inbox.bodies == [b"x"]


# Trouble


async def test_a_broker_that_forgot_its_clients_is_told_again(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 2)
    inbox = Inbox()
    async with consumer_of(cluster, inbox) as consumer:
        await trio.sleep(1)
        cluster.broker.forget_clients()
        cluster.broker.cut()
        await trio.sleep(3)
        cluster.broker.put("T", 0, b"x")
        await trio.sleep(1)
        assert inbox.bodies == [b"x"]
        assert len(consumer.queues) == 3


async def test_a_broker_that_is_away_for_a_while_is_waited_for(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    inbox = Inbox()
    async with consumer_of(cluster, inbox):
        await trio.sleep(1)
        cluster.broker.put("T", 0, b"1")
        await trio.sleep(1)
        cluster.broker.reachable = False
        cluster.broker.cut()
        await trio.sleep(120)
        cluster.broker.reachable = True
        cluster.broker.put("T", 0, b"2")
        await trio.sleep(10)
    assert inbox.bodies == [b"1", b"2"]
    assert offsets(cluster) == {0: 2}


@pytest.mark.parametrize("code", [1, 2, 16, 17, 24, 25, 26, 215])
async def test_a_refused_pull_is_tried_again(
    cluster: FakeCluster, autojump_clock: MockClock, code: int
) -> None:
    cluster.create_topic("T", 1)
    cluster.broker.put("T", 0, b"x")
    cluster.broker.refuse(PULL, *[code] * 4)
    inbox = Inbox()
    start = trio.current_time()
    async with consumer_of(cluster, inbox):
        await trio.sleep(10)
    assert inbox.bodies == [b"x"]
    # two queues pull, T's and the retry topic's
    assert inbox.times_s[0] - start == pytest.approx(0.04 if code == 215 else 2.0, abs=0.05)


async def test_a_broker_that_cannot_hold_pulls_is_not_asked_in_a_tight_loop(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    options = PushOptions(pull_suspend_s=0.001, consume_from=ConsumeFrom.FIRST_OFFSET)
    async with consumer_of(cluster, Inbox(), options):
        await trio.sleep(10)
    assert cluster.broker.count(PULL) <= 2 * 10 / 0.1 + 10


# Flow control


@pytest.mark.parametrize(
    ("flow", "expected"),
    [
        (FlowLimits(messages=50), 64),
        (FlowLimits(size_bytes=32 * 120), 64),
        (FlowLimits(span=40), 64),
    ],
)
async def test_pulling_pauses_while_too_much_is_unsettled(
    cluster: FakeCluster, autojump_clock: MockClock, flow: FlowLimits, expected: int
) -> None:
    cluster.create_topic("T", 1)
    for number in range(300):
        cluster.broker.put("T", 0, b"%03d" % number)
    gate = trio.Event()
    inbox = Inbox()

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        await inbox(messages)
        await gate.wait()

    options = PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET, flow=flow)
    async with consumer_of(cluster, handle, options, concurrency=500):
        await trio.sleep(10)
        assert len(inbox.messages) == expected
        gate.set()
        await trio.sleep(1)
        assert len(inbox.messages) == 300
    assert offsets(cluster) == {0: 300}


async def test_one_stuck_message_holds_the_offset_and_nothing_else(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    for number in range(400):
        cluster.broker.put("T", 0, b"%03d" % number)
    inbox = Inbox()

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        await inbox(messages)
        if messages[0].body == b"010":
            await trio.sleep(60)

    options = PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET, flow=FlowLimits(span=100))
    async with consumer_of(cluster, handle, options):
        await trio.sleep(30)
        assert offsets(cluster) == {0: 10}
        assert len(inbox.messages) == 400
        await trio.sleep(40)
        assert offsets(cluster) == {0: 400}


# Broadcasting


def broadcasting(folder: Path) -> PushOptions:
    return PushOptions(
        message_model=MessageModel.BROADCASTING,
        consume_from=ConsumeFrom.FIRST_OFFSET,
        offsets_dir=folder,
    )


async def test_every_consumer_of_a_broadcasting_group_gets_every_message(
    cluster: FakeCluster, autojump_clock: MockClock, tmp_path: Path
) -> None:
    cluster.create_topic("T", 3)
    one, two = Inbox(), Inbox()
    async with (
        consumer_of(cluster, one, broadcasting(tmp_path / "1")),
        consumer_of(cluster, two, broadcasting(tmp_path / "2")),
    ):
        for number in range(9):
            cluster.broker.put("T", number % 3, b"%d" % number)
        await trio.sleep(1)
    assert one.bodies == two.bodies == [b"%d" % number for number in range(9)]
    assert cluster.broker.offsets == {}
    third = Inbox()
    cluster.broker.put("T", 0, b"9")
    async with consumer_of(cluster, third, broadcasting(tmp_path / "1")):
        await trio.sleep(1)
    assert third.bodies == [b"9"]


async def test_a_broadcast_message_that_fails_is_not_delivered_again(
    cluster: FakeCluster, autojump_clock: MockClock, tmp_path: Path
) -> None:
    cluster.create_topic("T", 1)
    cluster.broker.put("T", 0, b"x")
    inbox = Inbox()

    async def handle(messages: Sequence[ReceivedMessage]) -> Outcome:
        await inbox(messages)
        return Outcome.RETRY

    async with consumer_of(cluster, handle, broadcasting(tmp_path)) as consumer:
        await trio.sleep(100)
        assert consumer.committed_offset(MessageQueue("T", "broker-a", 0)) == 1
    assert len(inbox.messages) == 1
    assert cluster.broker.count(SEND_BACK) == 0


# The end


async def test_running_listeners_finish_when_the_block_ends(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    for number in range(5):
        cluster.broker.put("T", 0, b"%d" % number)
    done: list[bytes] = []

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        await trio.sleep(3)
        done.append(messages[0].body)

    async with consumer_of(cluster, handle, concurrency=2):
        await trio.sleep(4)
    assert sorted(done) == [b"0", b"1", b"2", b"3"]
    assert offsets(cluster) == {0: 4}


async def test_a_cancellation_loses_nothing_that_was_settled(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    for number in range(10):
        cluster.broker.put("T", 0, b"%d" % number)
    done: list[bytes] = []

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        await trio.sleep(0 if messages[0].queue_offset < 7 else 100)
        done.append(messages[0].body)

    with trio.move_on_after(2):
        async with consumer_of(cluster, handle):
            await trio.sleep_forever()
    assert len(done) == 7
    assert offsets(cluster) == {0: 7}
    assert cluster.broker.members == {"cg": {}}


async def test_an_error_in_the_block_leaves_it_as_itself_and_progress_is_kept(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    cluster.broker.put("T", 0, b"x")

    async def fail() -> None:
        async with consumer_of(cluster, Inbox()):
            await trio.sleep(1)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await fail()
    assert offsets(cluster) == {0: 1}


async def test_the_end_is_bounded_when_the_broker_is_silent(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    cluster.broker.put("T", 0, b"x")
    start = 0.0
    async with consumer_of(cluster, Inbox()):
        await trio.sleep(1)
        cluster.broker.mute(RequestCode.UPDATE_CONSUMER_OFFSET, 9)
        cluster.broker.mute(RequestCode.UNREGISTER_CLIENT, 9)
        start = trio.current_time()
    assert trio.current_time() - start <= 7


# Names


@pytest.mark.parametrize(
    ("group", "subscriptions"),
    [
        ("", {"T": "*"}),
        ("DEFAULT_CONSUMER", {"T": "*"}),
        ("cg", {}),
        ("cg", {"a b": "*"}),
        ("cg", {"T": "||"}),
    ],
)
async def test_bad_names_are_refused(
    cluster: FakeCluster, group: str, subscriptions: dict[str, str]
) -> None:
    with pytest.raises(InvalidName):
        async with consumer_of(cluster, Inbox(), group=group, subscriptions=subscriptions):
            pass
