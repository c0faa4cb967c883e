"""A broker's questions to a consumer are answered as the Java client answers them."""

from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import (
    ConcurrentListener,
    ConsumeFrom,
    MessageQueue,
    Outcome,
    PushOptions,
    ReceivedMessage,
    open_push_consumer,
)
from lanemq.testkit.sdk.clients import push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster
from lanemq.wire import RequestCode
from lanemq.wire.bodies import (
    ConsumeMessageDirectlyResultBody,
    ConsumerRunningInfo,
    GetConsumerStatusBody,
    ResetOffsetBody,
)
from lanemq.wire.frame import request

Q0, Q1 = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)


class Consumer:
    """A consumer of two queues with five messages each, at work."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.bodies: list[bytes] = []
        self.outcome: Outcome | None = None
        cluster.create_topic("T", 2)
        for number in range(10):
            cluster.broker.put("T", number % 2, b"%d" % number)
        self.open = push_consumer_of(
            cluster,
            ConcurrentListener(self.handle),
            PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET),
        )

    async def handle(self, messages: Sequence[ReceivedMessage]) -> Outcome | None:
        self.bodies += [message.body for message in messages]
        if messages[0].body == b"bad":
            raise ValueError("not for me")
        return self.outcome


@pytest.fixture
def consumer(cluster: FakeCluster) -> Consumer:
    return Consumer(cluster)


async def test_a_reset_goes_back_in_the_queues_it_names(
    consumer: Consumer, autojump_clock: MockClock
) -> None:
    broker = consumer.cluster.broker
    async with consumer.open as running:
        await trio.sleep(1)
        assert len(consumer.bodies) == 10
        consumer.bodies.clear()
        fields = {"topic": "T", "group": "cg", "timestamp": "0", "isForce": "true"}
        body = ResetOffsetBody({Q0: 3}).encode()
        broker.tell(
            running.client_id,
            request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields, body, oneway=True),
        )
        await trio.sleep(1)
        assert sorted(consumer.bodies) == [b"6", b"8"]
    assert broker.offsets["cg", "T", 0] == broker.offsets["cg", "T", 1] == 5


async def test_a_reset_counts_even_while_listeners_run(
    consumer: Consumer, autojump_clock: MockClock
) -> None:
    broker, gate = consumer.cluster.broker, trio.Event()
    listener = consumer.handle

    async def slow(messages: Sequence[ReceivedMessage]) -> None:
        await listener(messages)
        await gate.wait()

    async with open_push_consumer(
        "cg",
        name_servers=consumer.cluster.name_servers,
        subscriptions={"T": "*"},
        listener=ConcurrentListener(slow),
        options=PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET),
        dial=consumer.cluster.dial,
    ) as running:
        await trio.sleep(1)
        fields = {"topic": "T", "group": "cg", "timestamp": "0", "isForce": "true"}
        frame = request(
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
            fields,
            ResetOffsetBody({Q0: 5, Q1: 2}).encode(),
            oneway=True,
        )
        broker.tell(running.client_id, frame)
        await trio.sleep(1)
        assert broker.offsets == {("cg", "T", 0): 5, ("cg", "T", 1): 2}
        gate.set()  # the old listeners return now; what they did does not count any more
        await trio.sleep(10)
    assert broker.offsets["cg", "T", 0] == broker.offsets["cg", "T", 1] == 5
    assert len(consumer.bodies) == 13


async def test_the_offsets_in_memory_are_told(
    consumer: Consumer, autojump_clock: MockClock
) -> None:
    async with consumer.open as running:
        await trio.sleep(1)
        answer = await consumer.cluster.broker.ask(
            running.client_id,
            request(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, {"topic": "T", "group": "cg"}),
        )
    assert GetConsumerStatusBody.decode(answer.body).message_queue_table == {Q0: 5, Q1: 5}


async def test_running_info_tells_queues_subscriptions_and_rates(
    consumer: Consumer, autojump_clock: MockClock
) -> None:
    async with consumer.open as running:
        await trio.sleep(20)
        answer = await consumer.cluster.broker.ask(
            running.client_id,
            request(
                RequestCode.GET_CONSUMER_RUNNING_INFO,
                {"consumerGroup": "cg", "clientId": running.client_id},
            ),
        )
        info = ConsumerRunningInfo.decode(answer.body)
        assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
        assert info.properties["PROP_NAMESERVER_ADDR"] == "10.0.0.1:9876"
        assert info.properties["PROP_CLIENT_VERSION"] == "V4_9_8"
        assert info.properties["PROP_THREADPOOL_CORE_SIZE"] == "20"
        assert {s.topic for s in info.subscription_set} == {"T", "%RETRY%cg"}
        assert info.mq_table[Q0].commit_offset == 5
        assert info.mq_table[Q0].last_pull_timestamp > info.mq_table[Q0].last_consume_timestamp > 0
        assert info.status_table["T"].consume_ok_tps == pytest.approx(10 / 20, rel=0.05)
        assert info.status_table["T"].consume_failed_msgs == 0


@pytest.mark.parametrize(
    ("body", "outcome", "expected", "remark"),
    [
        (b"x", None, "CR_SUCCESS", None),
        (b"x", Outcome.RETRY, "CR_LATER", None),
        (b"bad", None, "CR_THROW_EXCEPTION", "ValueError: not for me"),
    ],
)
async def test_a_message_handed_over_is_consumed_directly(
    consumer: Consumer,
    autojump_clock: MockClock,
    body: bytes,
    outcome: Outcome | None,
    expected: str,
    remark: str | None,
) -> None:
    broker = consumer.cluster.broker
    offset = broker.put("Other", 0, body)
    record = broker.queue("Other", 0).records[offset]
    async with consumer.open as running:
        await trio.sleep(1)
        consumer.bodies.clear()
        consumer.outcome = outcome
        fields = {"consumerGroup": "cg", "clientId": running.client_id, "brokerName": "broker-a"}
        answer = await broker.ask(
            running.client_id, request(RequestCode.CONSUME_MESSAGE_DIRECTLY, fields, record)
        )
    result = ConsumeMessageDirectlyResultBody.decode(answer.body)
    assert (result.consume_result, result.remark) == (expected, remark)
    assert (result.order, result.auto_commit) == (False, True)
    assert consumer.bodies == [body]
    assert broker.count(RequestCode.CONSUMER_SEND_MSG_BACK) == 0


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "other", "clientId": "x"}),
        (RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, {"topic": "T", "group": "other"}),
        (RequestCode.CONSUME_MESSAGE_DIRECTLY, {"consumerGroup": "other"}),
    ],
)
async def test_a_request_for_another_group_is_refused(
    consumer: Consumer, autojump_clock: MockClock, code: RequestCode, fields: dict[str, str]
) -> None:
    async with consumer.open as running:
        await trio.sleep(1)
        answer = await consumer.cluster.broker.ask(running.client_id, request(code, fields))
    assert answer.code == 1
    assert "other" in (answer.remark or "")
