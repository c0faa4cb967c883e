"""Queue selectors: the queue of a key is the one a Java producer would take."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.sdk import (
    HashSelector,
    Message,
    MessageQueue,
    RefusedByBroker,
    WrongUse,
    select_randomly,
)
from lanemq.testkit.sdk.clients import producer_of
from lanemq.testkit.sdk.cluster import FakeCluster
from lanemq.wire import RequestCode

SEND = RequestCode.SEND_MESSAGE_V2
MESSAGE = Message(topic="T", body=b"x")


def queues_of(count: int) -> list[MessageQueue]:
    return [MessageQueue("T", "broker-a", n) for n in range(count)]


# String.hashCode, Integer.hashCode and Long.hashCode of a JDK.
@pytest.mark.parametrize(
    ("key", "java_hash_code"),
    [
        ("", 0),
        ("order-1", -1207111310),
        ("hello", 99162322),
        ("polygenelubricants", -2147483648),
        ("grün", 3185949),
        (7, 7),
        (-1, -1),
        (-2147483648, -2147483648),
        (2147483648, -2147483648),
        (123456789012345, -2045923535),
        (-3000000000, -1294967297),
    ],
)
def test_a_key_goes_where_java_would_send_it(key: str | int, java_hash_code: int) -> None:
    for count in (1, 2, 3, 4, 7, 16, 1000):
        chosen = HashSelector(key)(queues_of(count), MESSAGE)
        assert chosen.queue_id == abs(java_hash_code) % count


@given(key=st.text() | st.integers(-(2**63), 2**63 - 1), count=st.integers(1, 64))
def test_every_key_has_a_queue_and_always_the_same(key: str | int, count: int) -> None:
    queues = queues_of(count)
    assert HashSelector(key)(queues, MESSAGE) is HashSelector(key)(queues, MESSAGE)
    assert HashSelector(key)(queues, MESSAGE) in queues


def test_a_number_that_no_java_number_holds_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit 64 bits"):
        HashSelector(1 << 63)


async def test_messages_of_one_key_keep_to_one_queue(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.add_broker()
    cluster.create_topic("T", 4)
    async with producer_of(cluster) as producer:
        queues = await producer.publish_queues("T")
        for key in ("order-1", "order-2", 77):
            expected = HashSelector(key)(queues, MESSAGE)
            one = await producer.send(MESSAGE, queue_key=key)
            batch = await producer.send_batch([MESSAGE, MESSAGE], queue_key=key)
            many = await producer.send_batches([MESSAGE] * 5, queue=HashSelector(key))
            await producer.send_oneway(MESSAGE, queue_key=key)
            await wait_all_tasks_blocked()
            assert {one.queue, batch.queue, *(result.queue for result in many)} == {expected}
        assert len(cluster.bodies("T")) == 3 * 9


async def test_a_selector_is_shown_queues_and_message(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 4)
    shown = []

    def last(queues: object, message: Message) -> MessageQueue:
        assert isinstance(queues, tuple)
        shown.append((len(queues), message))
        queue = queues[-1]
        assert isinstance(queue, MessageQueue)
        return queue

    async with producer_of(cluster) as producer:
        result = await producer.send(MESSAGE, queue=last)
        counts = Counter(
            [(await producer.send(MESSAGE, queue=select_randomly)).queue for _ in range(200)]
        )
        with pytest.raises(WrongUse, match="not one of the queues"):
            await producer.send(MESSAGE, queue=lambda queues, _: MessageQueue("T", "broker-a", 9))
        with pytest.raises(WrongUse, match="not both"):
            await producer.send(MESSAGE, queue=last, queue_key="k")
    assert result.queue.queue_id == 3
    assert shown == [(4, MESSAGE)]
    assert len(counts) == 4


async def test_a_selected_queue_is_not_left_for_another(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.add_broker()
    cluster.create_topic("T", 1)
    for broker in cluster.brokers:
        broker.refuse(SEND, 1, 1, 1)
    async with producer_of(cluster) as producer:
        with pytest.raises(RefusedByBroker):
            await producer.send(MESSAGE, queue_key="k")
    assert sum(broker.count(SEND) for broker in cluster.brokers) == 1
