"""Splitting into batches: nothing is lost, nothing too long, as few requests as can be."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from lanemq.sdk import Message, MessageRejected, ProducerOptions, RefusedByBroker
from lanemq.sdk.producer._batches import prepare_batches, split
from lanemq.testkit.sdk.clients import producer_of
from lanemq.testkit.sdk.cluster import FakeCluster
from lanemq.wire import RequestCode
from lanemq.wire.message import UniqueKeys, decode_batch

BATCH, SEND = RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2
OPTIONS = ProducerOptions()


@given(sizes=st.lists(st.integers(0, 50)), limit=st.integers(1, 60))
def test_parts_are_in_order_complete_and_as_long_as_can_be(sizes: list[int], limit: int) -> None:
    parts = [sizes[part] for part in split(sizes, limit)]
    assert [size for part in parts for size in part] == sizes
    for part in parts:
        assert part
        assert sum(part) <= limit or len(part) == 1
    for part, following in pairwise(parts):
        assert sum(part) + following[0] > limit


@given(
    bodies=st.lists(st.binary(max_size=300), min_size=1, max_size=30),
    batch_bytes=st.integers(50, 2000),
)
def test_what_is_prepared_is_what_was_given(bodies: list[bytes], batch_bytes: int) -> None:
    messages = [Message(topic="T", body=body, flag=n) for n, body in enumerate(bodies)]
    keys = UniqueKeys(b"\x7f\0\0\1", 1, 2)
    got: list[tuple[int, bytes]] = []
    ids: list[str] = []
    for outgoing in prepare_batches(messages, OPTIONS, keys, 0, batch_bytes=batch_bytes):
        ids += outgoing.message_id.split(",")
        if outgoing.code == BATCH:
            assert len(outgoing.body) <= batch_bytes
            got += [(entry.flag, entry.body) for entry in decode_batch(outgoing.body)]
        else:
            got.append((outgoing.flag, outgoing.body))
    assert got == list(enumerate(bodies))
    assert len(set(ids)) == len(bodies)


async def test_many_messages_go_in_few_batches_and_a_long_one_by_itself(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    bodies = [bytes([n]) * 1000 for n in range(10)]
    bodies[4] = b"long" * 2500
    messages = [Message(topic="T", body=body) for body in bodies]
    options = ProducerOptions(compress_from_bytes=1 << 20)
    async with producer_of(cluster, options) as producer:
        results = await producer.send_batches(messages, batch_bytes=4500)
        assert [result.queue_offset for result in results] == [0, 4, 5, 9]
        assert cluster.broker.count(BATCH) == 3
        assert cluster.broker.count(SEND) == 1
        (one,) = await producer.send_batches(messages)
        assert one.message_id.count(",") == 9
    assert [message.body for message in cluster.broker.messages("T")] == bodies * 2


async def test_an_error_says_how_many_were_stored(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    messages = [Message(topic="T", body=b"x" * 100) for _ in range(10)]
    async with producer_of(cluster) as producer:
        await producer.send_batches(messages[:4], batch_bytes=400)
        cluster.broker.mute(BATCH, 0)
        calls = 0
        send = cluster.broker.handlers[BATCH]

        def fail_third(frame: object, peer: object) -> object:
            nonlocal calls
            calls += 1
            if calls == 3:
                cluster.broker.refuse(BATCH, 13)
            return send(frame, peer)  # type: ignore[arg-type]

        cluster.broker.handlers[BATCH] = fail_third  # type: ignore[assignment]
        with pytest.raises(RefusedByBroker) as caught:
            await producer.send_batches(messages, batch_bytes=400)
    assert any("6 of 10 messages had been stored" in note for note in caught.value.__notes__)


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([], "at least one"),
        ([Message(topic="T", body=b""), Message(topic="U", body=b"")], "T and U: make a batch"),
        ([Message(topic="T", body=b"", delay_level=1)], "delay"),
        ([Message(topic="T", body=b"", delay_s=1)], "delay"),
        ([Message(topic="T", body=b""), Message(topic="T", body=b"", wait=False)], "`wait`"),
    ],
)
async def test_what_cannot_be_in_a_batch_is_said_before_anything_is_sent(
    cluster: FakeCluster, autojump_clock: MockClock, messages: list[Message], says: str
) -> None:
    async with producer_of(cluster) as producer:
        with pytest.raises(MessageRejected, match=says):
            await producer.send_batches(messages)
    assert cluster.dials == []
