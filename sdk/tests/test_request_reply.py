"""Request and reply: each request gets its own, or none in time."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import (
    ConcurrentListener,
    ConsumeFrom,
    Message,
    MessageRejected,
    NoReply,
    Producer,
    PushConsumer,
    PushOptions,
    ReceivedMessage,
    RequestTimedOut,
    reply_to,
)
from lanemq.testkit.sdk.clients import producer_of, push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster
from lanemq.testkit.sdk.producers import FakeProducers, FakeReplies
from lanemq.wire import RequestCode

REPLY = RequestCode.SEND_REPLY_MESSAGE_V2
HEART_BEAT = RequestCode.HEART_BEAT


@pytest.fixture
def replies(cluster: FakeCluster) -> FakeReplies:
    cluster.create_topic("T", 4)
    return FakeReplies(FakeProducers(cluster.broker))


def replier(cluster: FakeCluster, producer: Producer) -> AbstractAsyncContextManager[PushConsumer]:
    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        for message in messages:
            await producer.send(reply_to(message, message.body.upper()))

    return push_consumer_of(
        cluster, ConcurrentListener(handle), PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET)
    )


async def test_each_request_gets_its_own_reply(
    cluster: FakeCluster, replies: FakeReplies, autojump_clock: MockClock
) -> None:
    got: dict[bytes, bytes] = {}

    async def ask(producer: Producer, body: bytes) -> None:
        reply = await producer.request(Message(topic="T", body=body), timeout_s=10)
        got[body] = reply.body
        assert reply.topic == "c_REPLY_TOPIC"

    async with (
        producer_of(cluster) as asking,
        producer_of(cluster, group="answering") as answering,
        replier(cluster, answering),
        trio.open_nursery() as nursery,
    ):
        for number in range(20):
            nursery.start_soon(ask, asking, f"question {number}".encode())
    assert got == {body: body.upper() for body in got}
    assert len(got) == 20
    assert replies.codes == [0] * 20


async def test_a_long_reply_is_compressed_on_its_way(
    cluster: FakeCluster, replies: FakeReplies, autojump_clock: MockClock
) -> None:
    body = b"long " * 10_000
    async with (
        producer_of(cluster) as asking,
        producer_of(cluster, group="answering") as answering,
        replier(cluster, answering),
    ):
        assert (await asking.request(Message(topic="T", body=body))).body == body.upper()
    reply = next(frame for frame in cluster.broker.requests if frame.code == REPLY)
    assert len(reply.body) < 1000


async def test_the_request_says_who_asks_and_how_long(
    cluster: FakeCluster, replies: FakeReplies, autojump_clock: MockClock
) -> None:
    async with producer_of(cluster) as producer:
        message = Message(topic="T", body=b"?", properties={"mine": "1"})
        start_s = trio.current_time()
        with pytest.raises(NoReply, match=r"no reply came within 1\.5 s"):
            await producer.request(message, timeout_s=1.5)
        assert trio.current_time() - start_s == pytest.approx(1.5)
        codes = [frame.code for frame in cluster.broker.requests]
        assert codes.index(HEART_BEAT) < codes.index(RequestCode.SEND_MESSAGE_V2)
        (stored,) = cluster.broker.messages("T")
        properties = stored.properties
        assert properties["REPLY_TO_CLIENT"] == producer.client_id
        assert (properties["TTL"], properties["mine"]) == ("1500", "1")
        assert len(properties["CORRELATION_ID"]) == 36


async def test_a_request_that_could_not_be_sent_in_time_says_so(
    cluster: FakeCluster, replies: FakeReplies, autojump_clock: MockClock
) -> None:
    async with producer_of(cluster) as producer:
        cluster.broker.mute(RequestCode.SEND_MESSAGE_V2, 9)
        with pytest.raises(RequestTimedOut):
            await producer.request(Message(topic="T", body=b"?"), timeout_s=2)


async def test_a_reply_that_comes_too_late_is_acknowledged_and_dropped(
    cluster: FakeCluster,
    replies: FakeReplies,
    autojump_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with producer_of(cluster) as asking, producer_of(cluster, group="answering") as answering:
        with pytest.raises(NoReply):
            await asking.request(Message(topic="T", body=b"?"), timeout_s=1)
        async with replier(cluster, answering):
            await trio.sleep(1)
    assert replies.codes == [0]
    assert "nobody waits for" in caplog.text


async def test_only_requests_can_be_replied_to(
    cluster: FakeCluster, replies: FakeReplies, autojump_clock: MockClock
) -> None:
    said = []

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        for message in messages:
            try:
                reply_to(message, b"")
            except MessageRejected as error:
                said.append(str(error))

    cluster.broker.own_properties.clear()
    async with (
        producer_of(cluster) as producer,
        push_consumer_of(cluster, ConcurrentListener(handle)),
    ):
        await producer.send(Message(topic="T", body=b"a statement"))
        with pytest.raises(NoReply):
            await producer.request(Message(topic="T", body=b"a question"), timeout_s=1)
    assert "is not a request" in said[0]
    assert "has no property CLUSTER" in said[1]
