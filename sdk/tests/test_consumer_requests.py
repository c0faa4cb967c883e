"""A broker's questions to a consumer are answered as the Java client answers them."""

import threading
from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import (
    ConcurrentListener,
    ConsumeFrom,
    MessageQueue,
    OrderlyListener,
    Outcome,
    PushOptions,
    ReceivedMessage,
    _tasks,
    open_push_consumer,
)
from lanemq.sdk.consumer._consumer_core import ConsumerCore
from lanemq.testkit.sdk.clients import push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import (
    ConsumeMessageDirectlyResultBody,
    ConsumerRunningInfo,
    GetConsumerStatusBody,
    LockBatchResult,
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


async def test_a_long_reset_is_read_beside_the_loop_and_a_longer_one_is_refused(
    consumer: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, decode = consumer.cluster.broker, ResetOffsetBody.decode
    readers, lengths = list[int](), list[int]()
    fields = {"topic": "T", "group": "cg", "timestamp": "0", "isForce": "true"}
    long, short = (
        ResetOffsetBody(dict.fromkeys((MessageQueue("T", "b", number) for number in some), 3))
        for some in (range(3000), range(1))
    )

    def noted(body: bytes) -> ResetOffsetBody:
        readers.append(threading.get_ident())
        return decode(body)

    async def reset(core: ConsumerCore, offsets: dict[MessageQueue, int], topic: str) -> None:
        lengths.append(len(offsets))
        done.set()

    monkeypatch.setattr(ResetOffsetBody, "decode", noted)
    monkeypatch.setattr(ConsumerCore, "reset", reset)

    async with consumer.open as running:
        code = RequestCode.RESET_CONSUMER_CLIENT_OFFSET
        for body in (long.encode(), short.encode()):
            done = trio.Event()
            broker.tell(running.client_id, request(code, fields, body, oneway=True))
            with trio.fail_after(60):
                await done.wait()
        body = b"[" * (1 + (1 << 20))
        answer = await broker.ask(running.client_id, request(code, fields, body))
        assert answer.code == ResponseCode.SYSTEM_ERROR
    assert lengths == [3000, 1]
    assert [reader == threading.get_ident() for reader in readers] == [False, True]


async def test_a_long_answer_to_a_request_for_locks_is_read_beside_the_loop(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers, decode, taken = list[int](), LockBatchResult.decode, trio.Event()

    def noted(body: bytes) -> LockBatchResult:
        readers.append(threading.get_ident())
        return decode(body)

    async def take(messages: Sequence[ReceivedMessage]) -> None:
        taken.set()

    monkeypatch.setattr(LockBatchResult, "decode", noted)
    monkeypatch.setattr(_tasks, "WIDE_BYTES", 0)
    cluster.broker.put("T", 0, b"1")
    options = PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET)
    async with push_consumer_of(cluster, OrderlyListener(take), options):
        with trio.fail_after(60):
            await taken.wait()
    assert readers
    assert threading.get_ident() not in readers


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
        gate.set()  # the old listeners return now; what they did no longer counts
        await trio.sleep(10)
    assert broker.offsets["cg", "T", 0] == broker.offsets["cg", "T", 1] == 5
    assert len(consumer.bodies) == 13


async def test_a_reset_is_completed_though_the_broker_that_asked_for_it_is_gone(
    consumer: Consumer, autojump_clock: MockClock
) -> None:
    """A queue that it had begun with was held and never read again, the next one not reset."""
    broker = consumer.cluster.broker
    async with consumer.open as running:
        await trio.sleep(1)
        consumer.bodies.clear()
        fields = {"topic": "T", "group": "cg", "timestamp": "0", "isForce": "true"}
        body = ResetOffsetBody({Q0: 3, Q1: 2}).encode()
        broker.mute(RequestCode.UPDATE_CONSUMER_OFFSET)
        broker.tell(
            running.client_id,
            request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields, body, oneway=True),
        )
        await trio.sleep(0.5)
        broker.cut()
        await trio.sleep(60)
        assert sorted(consumer.bodies) == [b"5", b"6", b"7", b"8", b"9"]
    assert broker.offsets["cg", "T", 0] == broker.offsets["cg", "T", 1] == 5


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
