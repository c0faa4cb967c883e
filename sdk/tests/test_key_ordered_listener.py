"""A key-ordered listener keeps the order of each key, and nothing else waits."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import (
    AbandonMessage,
    ConsumeFrom,
    KeyOrderedListener,
    Outcome,
    PushOptions,
    ReceivedMessage,
    Retry,
    WrongUse,
    WrongValue,
    blocking,
)
from lanemq.testkit.sdk.clients import push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster

FIRST = PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET)


def key_of(message: ReceivedMessage) -> str | None:
    """The letter of bodies like a1, b7."""
    return message.body[:1].decode()


class Log:
    """The calls of a listener; ``fails`` are answers by body, ``takes_s`` times by key."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, tuple[bytes, ...]]] = []
        self.order: defaultdict[bytes, list[bytes]] = defaultdict(list)
        self.running: set[bytes] = set()
        self.most = 0
        self.takes_s: dict[bytes, float] = {}
        self.fails: dict[bytes, list[Outcome | Retry | Exception]] = {}

    async def __call__(self, messages: Sequence[ReceivedMessage]) -> Outcome | Retry | None:
        bodies = tuple(message.body for message in messages)
        (key,) = {body[:1] for body in bodies}
        self.calls.append((trio.current_time(), bodies))
        assert key not in self.running, "one call of a key at a time"
        self.running.add(key)
        self.most = max(self.most, len(self.running))
        try:
            await trio.sleep(self.takes_s.get(key, 1.0))
            answers = self.fails.get(bodies[0])
            if answers:
                answer = answers.pop(0)
                if isinstance(answer, Exception):
                    raise answer
                return answer
            self.order[key] += bodies
            return None
        finally:
            self.running.remove(key)


def put(cluster: FakeCluster, *bodies: str, queue_id: int = 0) -> None:
    for body in bodies:
        cluster.broker.put("T", queue_id, body.encode())


async def test_other_keys_run_at_once_beyond_the_number_of_queues(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    put(cluster, *(f"{key}{number}" for number in range(5) for key in "abcdefghij"))
    log = Log()
    async with push_consumer_of(cluster, KeyOrderedListener(log, key=key_of), FIRST):
        await trio.sleep(6.5)  # an orderly listener takes 50 s
        assert sum(map(len, log.order.values())) == 50
    assert log.most == 10
    for key, seen in log.order.items():
        assert seen == [key + b"%d" % number for number in range(5)]
    assert cluster.broker.offsets["cg", "T", 0] == 50


@pytest.mark.parametrize(
    "answer",
    [Outcome.RETRY, Outcome.SUSPEND_CURRENT_QUEUE, RuntimeError("as wished"), Retry(suspend_s=1)],
)
async def test_a_message_that_is_retried_holds_up_its_key_alone(
    cluster: FakeCluster, autojump_clock: MockClock, answer: Outcome | Retry | Exception
) -> None:
    put(cluster, "a0", "a1", "b0", "b1", "b2")
    log = Log()
    log.fails[b"a0"] = [answer] * 5
    async with push_consumer_of(cluster, KeyOrderedListener(log, key=key_of), FIRST) as consumer:
        await trio.sleep(7)
        assert log.order == {b"b": [b"b0", b"b1", b"b2"]}
        (queue,) = (queue for queue in consumer.queues if queue.topic == "T" and not queue.queue_id)
        assert consumer.position(queue) == 0
        await trio.sleep(20)
    assert log.order[b"a"] == [b"a0", b"a1"]
    assert cluster.broker.offsets["cg", "T", 0] == 5


async def test_a_message_beyond_its_limit_goes_to_the_dead_letters_and_its_key_goes_on(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    put(cluster, "a0", "a1", "b0", "b1")
    log = Log()
    log.fails[b"a0"] = [Outcome.RETRY] * 99
    log.fails[b"b0"] = [AbandonMessage("at once")]
    listener = KeyOrderedListener(log, key=key_of, max_reconsume_times=2)
    async with push_consumer_of(cluster, listener, FIRST):
        await trio.sleep(30)
    assert sorted(cluster.bodies("%DLQ%cg")) == [b"a0", b"b0"]
    assert log.order == {b"a": [b"a1"], b"b": [b"b1"]}


async def test_pulls_pause_while_too_much_lies_above_the_first_unfinished(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    put(cluster, "a0", *(f"b{number}" for number in range(400)))
    log = Log()
    log.takes_s = {b"a": 700, b"b": 0.01}
    listener = KeyOrderedListener(log, key=key_of, above_max=50)
    async with push_consumer_of(cluster, listener, replace(FIRST, pull_batch=8)) as consumer:
        await trio.sleep(500)
        assert len(log.order[b"b"]) == 50  # and no more
        (queue,) = (queue for queue in consumer.queues if queue.topic == "T" and not queue.queue_id)
        assert consumer.position(queue) == 0
        held = consumer._core.rebalance.held[queue]
        assert held.messages.next_offset <= 1 + 50 + 8, "the queue is not pulled further"
        await trio.sleep(300)
        assert len(log.order[b"b"]) == 400
    assert cluster.broker.offsets["cg", "T", 0] == 401


async def test_a_restart_repeats_what_was_above_in_order(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    put(cluster, *(f"{key}{number}" for number in range(20) for key in "abc"))
    first, second = Log(), Log()
    first.takes_s = {b"a": 1000, b"b": 0.5, b"c": 0.1}
    with trio.move_on_after(8):  # cancelled in the middle
        async with push_consumer_of(
            cluster, KeyOrderedListener(first, key=key_of, above_max=30), FIRST
        ):
            await trio.sleep_forever()
    assert first.order[b"a"] == []
    assert len(first.order[b"b"]) + len(first.order[b"c"]) <= 30
    async with push_consumer_of(cluster, KeyOrderedListener(second, key=key_of), FIRST):
        await trio.sleep(40)
    for key in (b"a", b"b", b"c"):
        assert second.order[key] == [key + b"%d" % number for number in range(20)]


async def test_batches_have_one_key(cluster: FakeCluster, autojump_clock: MockClock) -> None:
    put(cluster, "a0", "b0", "a1", "b1", "a2", "b2", "a3")
    log = Log()
    listener = KeyOrderedListener(log, key=key_of, batch_messages=3, concurrency=1)
    log.fails[b"a0"] = [Retry(settled=1)]
    async with push_consumer_of(cluster, listener, FIRST):
        await trio.sleep(30)
    assert (b"a0", b"a1", b"a2") in {bodies for _, bodies in log.calls}
    assert (b"a1", b"a2") in {bodies for _, bodies in log.calls}
    assert log.order[b"b"] == [b"b0", b"b1", b"b2"]


async def test_a_queue_that_is_lost_and_regained_repeats_in_order(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    """Results after the loss of a lock do not count: earlier messages may be unfinished."""
    put(cluster, "a0", "b0", "b1", "a1")
    log = Log()
    log.takes_s = {b"a": 3, b"b": 10}
    async with push_consumer_of(cluster, KeyOrderedListener(log, key=key_of), FIRST) as consumer:
        await trio.sleep(1)
        (queue,) = (queue for queue in consumer.queues if queue.topic == "T" and not queue.queue_id)
        ownership = consumer._core.rebalance._ownership
        ownership._lost(queue)  # type: ignore[attr-defined]
        await trio.sleep(60)
    assert log.order[b"a"][-2:] == [b"a0", b"a1"]
    assert log.order[b"b"][-2:] == [b"b0", b"b1"]
    assert cluster.broker.offsets["cg", "T", 0] == 4


async def test_messages_without_a_key_have_no_order_and_failing_keys_keep_one(
    cluster: FakeCluster, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    put(cluster, *(f"x{number}" for number in range(5)), *(f"y{number}" for number in range(3)))
    starts: list[tuple[float, bytes]] = []

    def key(message: ReceivedMessage) -> object:
        if message.body[:1] == b"x":
            return None
        return [] if message.body == b"y1" else 1 // 0  # no key of a dictionary, and an error

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        starts.append((trio.current_time(), messages[0].body))
        await trio.sleep(1)

    async with push_consumer_of(cluster, KeyOrderedListener(handle, key=key), FIRST):
        await trio.sleep(10)
    first_s = starts[0][0]
    at_once = {body for at_s, body in starts if at_s == first_s}
    assert at_once == {b"x0", b"x1", b"x2", b"x3", b"x4", b"y0"}
    assert [body for _, body in starts if body[:1] == b"y"] == [b"y0", b"y1", b"y2"]
    y_starts_s = [at_s - first_s for at_s, body in starts if body[:1] == b"y"]
    assert y_starts_s == pytest.approx([0, 1, 2])
    assert caplog.text.count("key failed on") == 3


def test_mistakes_are_refused_where_the_listener_is_made() -> None:
    async def handle(messages: Sequence[ReceivedMessage]) -> None: ...

    async def key(message: ReceivedMessage) -> str:
        return ""

    for wrong in ({"key": key}, {"key": "keys"}, {"key": key_of, "above_max": 0}):
        with pytest.raises(ValueError, match=r"key|above_max"):
            KeyOrderedListener(handle, **wrong)
    with pytest.raises(WrongValue, match="above_max must be a whole number"):
        KeyOrderedListener(handle, key=key_of, above_max=1.5)  # type: ignore[arg-type]
    with pytest.raises(WrongUse, match=r"from lanemq\.sdk\.blocking import KeyOrderedListener"):
        blocking.open_push_consumer(
            "cg",
            name_servers="127.0.0.1:1",
            subscriptions={"T": "*"},
            listener=KeyOrderedListener(handle, key=key_of),  # type: ignore[arg-type]
        )
