"""With a namespace brokers see longer names, and applications their own."""

from collections.abc import Sequence

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from lanemq.sdk import (
    ClientOptions,
    ConcurrentListener,
    ConsumeFrom,
    InvalidName,
    LitePullOptions,
    Message,
    MessageModel,
    MessageQueue,
    Outcome,
    ProducerOptions,
    PushOptions,
    ReceivedMessage,
)
from lanemq.sdk._namespace import in_namespace, out_of_namespace, queue_in, queue_out
from lanemq.testkit.sdk.clients import lite_pull_consumer_of, producer_of, push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster
from lanemq.wire import RequestCode
from lanemq.wire.bodies import ConsumeMessageDirectlyResultBody
from lanemq.wire.frame import request
from lanemq.wire.headers import SendMessage

CLIENT = ClientOptions(namespace="shop")
Q0, Q1 = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)
NAMES = st.text("abcXYZ019_-", min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("T", "shop%T"),
        ("shop%T", "shop%T"),
        ("%RETRY%g", "%RETRY%shop%g"),
        ("%RETRY%shop%g", "%RETRY%shop%g"),
        ("%DLQ%g", "%DLQ%shop%g"),
        ("TBW102", "TBW102"),
        ("RMQ_SYS_TRACE_TOPIC", "RMQ_SYS_TRACE_TOPIC"),
        ("SCHEDULE_TOPIC_XXXX", "SCHEDULE_TOPIC_XXXX"),
        ("CID_RMQ_SYS_x", "CID_RMQ_SYS_x"),
        ("DefaultCluster_REPLY_TOPIC", "DefaultCluster_REPLY_TOPIC"),
        ("other%T", "shop%other%T"),
        ("", ""),
    ],
)
def test_names_get_their_namespace_once(name: str, full: str) -> None:
    assert in_namespace("shop", name) == full
    assert in_namespace("", name) == name


@given(NAMES, NAMES, st.sampled_from(["", "%RETRY%", "%DLQ%"]))
def test_what_goes_in_comes_out(namespace: str, name: str, prefix: str) -> None:
    full = in_namespace(namespace, prefix + name)
    assert out_of_namespace(namespace, full) == prefix + name
    assert in_namespace(namespace, full) == full
    assert out_of_namespace(namespace, f"elsewhere%{name}") == f"elsewhere%{name}" or (
        namespace == "elsewhere"
    )
    queue = MessageQueue(prefix + name, "b", 3)
    assert queue_out(namespace, queue_in(namespace, queue)) == queue


@pytest.mark.parametrize("bad", ["a%b", "%", "a b", "ü"])
def test_a_namespace_is_a_name(bad: str) -> None:
    with pytest.raises(ValueError, match=r"ClientOptions\.namespace"):
        ClientOptions(namespace=bad)


async def test_a_producer_sends_to_topics_of_its_namespace(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("shop%T", 2)
    async with producer_of(cluster, ProducerOptions(client=CLIENT)) as producer:
        assert await producer.publish_queues("T") == (Q0, Q1)
        result = await producer.send(Message(topic="T", body=b"x"))
        assert result.queue.topic == "T"
        assert (await producer.send(Message(topic="T", body=b"x"), queue=Q1)).queue == Q1
        seen: list[Sequence[MessageQueue]] = []

        def choose(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
            seen.append(queues)
            return queues[0]

        assert (await producer.send(Message(topic="T", body=b"x"), queue=choose)).queue == Q0
        assert list(seen[0]) == [Q0, Q1]
        await producer.send_oneway(Message(topic="T", body=b"x"))
        await producer.send_batch([Message(topic="T", body=b"x")] * 2)
        async with producer.staged("key", [2]) as stage:
            await stage.send(Message(topic="T", body=b"x"))
            assert stage.queue is not None
            assert stage.queue.topic == "T"
        with pytest.raises(InvalidName, match="belongs to topic"):
            await producer.send(
                Message(topic="T", body=b"x"), queue=MessageQueue("U", "broker-a", 0)
            )
        await trio.sleep(31)
        assert set(cluster.broker.producers) == {"shop%pg"}
    assert len(cluster.bodies("shop%T")) == 7
    for frame in cluster.broker.requests:
        if frame.code == RequestCode.SEND_MESSAGE_V2:
            header = SendMessage.from_letters(frame.fields)
            assert (header.topic, header.producer_group) == ("shop%T", "shop%pg")


async def test_a_topic_that_does_not_exist_is_made_in_the_namespace(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    async with producer_of(cluster, ProducerOptions(client=CLIENT)) as producer:
        assert (await producer.send(Message(topic="New", body=b"x"))).queue.topic == "New"
    assert "shop%New" in cluster.broker.topics


async def test_a_listener_sees_its_own_names_also_of_what_comes_again(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("shop%T", 2)
    cluster.create_topic("T", 2)
    cluster.broker.put("T", 0, b"not ours")
    cluster.broker.put("shop%T", 0, b"once")
    cluster.broker.put("shop%T", 1, b"twice")
    seen: list[tuple[str, bytes, MessageQueue]] = []

    async def handle(messages: Sequence[ReceivedMessage]) -> Outcome:
        (message,) = messages
        seen.append((message.topic, message.body, message.queue))
        again = message.body == b"twice" and message.reconsume_times == 0
        return Outcome.RETRY if again else Outcome.SUCCESS

    async with push_consumer_of(
        cluster,
        ConcurrentListener(handle),
        PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET, client=CLIENT),
    ) as consumer:
        await trio.sleep(60)
        assert set(seen) == {
            ("T", b"once", Q0),
            ("T", b"twice", Q1),
            ("T", b"twice", MessageQueue("%RETRY%cg", "broker-a", 0)),
        }
        assert consumer.committed_offset(Q1) == 1
        assert set(consumer.queues) == {Q0, Q1, MessageQueue("%RETRY%cg", "broker-a", 0)}
        consumer.pause([Q0])
        assert consumer.paused == (Q0,)
        cluster.broker.put("shop%T", 0, b"paused")
        await trio.sleep(20)
        assert len(seen) == 3
        consumer.resume([Q0])
        await trio.sleep(1)
        assert len(seen) == 4
        record = cluster.broker.queue("shop%T", 0).records[0]
        answer = await cluster.broker.ask(
            consumer.client_id,
            request(
                RequestCode.CONSUME_MESSAGE_DIRECTLY,
                {
                    "consumerGroup": "shop%cg",
                    "clientId": consumer.client_id,
                    "msgId": "x",
                    "brokerName": "broker-a",
                },
                record,
            ),
        )
        result = ConsumeMessageDirectlyResultBody.decode(answer.body)
        assert result.consume_result == "CR_SUCCESS"
        assert seen[-1] == ("T", b"once", Q0)
    assert cluster.broker.offsets["shop%cg", "shop%T", 0] == 2
    assert cluster.broker.offsets["shop%cg", "%RETRY%shop%cg", 0] == 1


async def test_what_a_copy_sends_back_keeps_its_full_topic(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("shop%T", 1)
    cluster.create_topic("%RETRY%shop%cg", 1)
    cluster.broker.put("shop%T", 0, b"x")
    cluster.broker.refuse(RequestCode.CONSUMER_SEND_MSG_BACK, 1)
    topics: list[tuple[str, str]] = []

    async def handle(messages: Sequence[ReceivedMessage]) -> Outcome:
        topics.append((messages[0].topic, messages[0].full_topic))
        return Outcome.RETRY if len(topics) == 1 else Outcome.SUCCESS

    async with push_consumer_of(
        cluster,
        ConcurrentListener(handle),
        PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET, client=CLIENT),
    ):
        await trio.sleep(60)
    assert topics == [("T", "shop%T")] * 2


async def test_a_reader_speaks_of_queues_by_its_own_names(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("shop%T", 2)
    for number in range(10):
        cluster.broker.put("shop%T", number % 2, b"%d" % number)
    options = LitePullOptions(
        consume_from=ConsumeFrom.FIRST_OFFSET, client=CLIENT, auto_commit=False
    )
    async with lite_pull_consumer_of(cluster, options) as consumer:
        assert await consumer.queues_of("T") == (Q0, Q1)
        await consumer.assign([Q0])
        assert consumer.queues == (Q0,)
        messages = await consumer.poll()
        assert {(message.topic, message.queue) for message in messages} == {("T", Q0)}
        await consumer.commit()
        assert await consumer.committed(Q0) == 5
        await consumer.commit({Q0: 3})
        assert cluster.broker.offsets == {("shop%lg", "shop%T", 0): 3}
        await consumer.seek_to_begin(Q0)
        assert len(await consumer.poll()) == 5
        await consumer.seek_to_end(Q0)
        consumer.seek(Q0, 4)
        assert [message.body for message in await consumer.poll()] == [b"8"]
        assert set(await consumer.offsets_for_times({Q0: 0, Q1: 0})) == {Q0, Q1}
        consumer.pause([Q0])
        assert consumer.paused == (Q0,)
        consumer.resume()
    async with lite_pull_consumer_of(cluster, options, group="lg2") as consumer:
        await consumer.subscribe("T")
        assert consumer.queues == (Q0, Q1)
        await consumer.unsubscribe("T")
        assert not consumer.queues


async def test_a_broadcasting_group_keeps_its_file_under_its_full_name(
    cluster: FakeCluster, autojump_clock: MockClock, tmp_path: object
) -> None:
    cluster.create_topic("shop%T", 1)
    cluster.broker.put("shop%T", 0, b"x")
    options = PushOptions(
        message_model=MessageModel.BROADCASTING,
        consume_from=ConsumeFrom.FIRST_OFFSET,
        offsets_dir=tmp_path,  # type: ignore[arg-type]
        client=CLIENT,
    )

    async def handle(messages: object) -> None:
        pass

    async with push_consumer_of(cluster, ConcurrentListener(handle), options):
        await trio.sleep(1)
    assert (options.offsets_dir / "default" / "shop%cg.json").exists()
