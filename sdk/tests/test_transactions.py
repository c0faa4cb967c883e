"""Transactions: half first, then the local transaction, then its end; and the broker's checks."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.sdk import (
    Message,
    MessageRejected,
    Producer,
    ReceivedMessage,
    RefusedByBroker,
    SendStatus,
    TransactionProducer,
    TransactionState,
    open_transaction_producer,
)
from lanemq.testkit.sdk.cluster import FakeCluster, Peer, clock_ms
from lanemq.testkit.sdk.producers import FakeProducers, FakeTransactions
from lanemq.wire import RequestCode
from lanemq.wire.frame import Frame
from lanemq.wire.headers import EndTransaction

SEND, END = RequestCode.SEND_MESSAGE_V2, RequestCode.END_TRANSACTION
HEART_BEAT = RequestCode.HEART_BEAT
MESSAGE = Message(topic="T", body=b"paid", tags="A", keys=("order-1",))
COMMIT, ROLLBACK, UNKNOWN = TransactionState


async def never(message: ReceivedMessage) -> TransactionState:
    raise AssertionError("nobody should ask")


def returning(state: TransactionState) -> Callable[[Message, str], Awaitable[TransactionState]]:
    async def execute(message: Message, transaction_id: str) -> TransactionState:
        return state

    return execute


@pytest.fixture
def transactions(cluster: FakeCluster) -> FakeTransactions:
    cluster.create_topic("T", 4)
    return FakeTransactions(FakeProducers(cluster.broker))


def producer_of(
    cluster: FakeCluster, check: Callable[[ReceivedMessage], Awaitable[TransactionState]] = never
) -> AbstractAsyncContextManager[TransactionProducer]:
    return open_transaction_producer(
        "pg", check=check, name_servers=cluster.name_servers, dial=cluster.dial, clock_ms=clock_ms
    )


async def settled(transactions: FakeTransactions, count: int) -> EndTransaction:
    """The last of ``count`` ends, when all that was sent has arrived."""
    await wait_all_tasks_blocked()
    assert len(transactions.ended) == count
    return transactions.ended[-1]


async def test_a_message_is_delivered_after_its_transaction_and_not_before(
    cluster: FakeCluster, transactions: FakeTransactions, autojump_clock: MockClock
) -> None:
    seen = []

    async def execute(message: Message, transaction_id: str) -> TransactionState:
        assert cluster.broker.messages("T") == []
        assert transactions.half(0).properties["UNIQ_KEY"] == transaction_id
        seen.append((message, transaction_id))
        return COMMIT

    async with producer_of(cluster) as producer:
        result = await producer.send_in_transaction(MESSAGE, execute)
        end = await settled(transactions, 1)
    assert seen == [(MESSAGE, result.transaction_id)]
    assert (result.state, result.sent.status) == (COMMIT, SendStatus.OK)
    assert cluster.bodies("T") == [b"paid"]
    assert (end.producer_group, end.topic, end.msg_id) == ("pg", "T", result.transaction_id)
    assert (end.commit_or_rollback, end.from_transaction_check) == (8, False)
    assert end.transaction_id == result.transaction_id


async def test_the_group_is_known_before_the_half_message_arrives(
    cluster: FakeCluster, transactions: FakeTransactions, autojump_clock: MockClock
) -> None:
    async with producer_of(cluster) as producer:
        await producer.send_in_transaction(MESSAGE, returning(COMMIT))
        codes = [frame.code for frame in cluster.broker.requests]
        assert codes.index(HEART_BEAT) < codes.index(SEND)
        await producer.send_in_transaction(MESSAGE, returning(COMMIT))
        assert cluster.broker.count(HEART_BEAT) == 1
        cluster.broker.cut()
        await trio.sleep(1)
        await producer.send_in_transaction(MESSAGE, returning(COMMIT))
        assert cluster.broker.count(HEART_BEAT) == 2


@pytest.mark.parametrize(("state", "flag"), [(ROLLBACK, 12), (UNKNOWN, 0)])
async def test_what_is_not_committed_is_not_delivered(
    cluster: FakeCluster,
    transactions: FakeTransactions,
    autojump_clock: MockClock,
    state: TransactionState,
    flag: int,
) -> None:
    async with producer_of(cluster) as producer:
        result = await producer.send_in_transaction(MESSAGE, returning(state))
        assert (await settled(transactions, 1)).commit_or_rollback == flag
    assert result.state is state
    assert cluster.bodies("T") == []


async def test_an_exception_leaves_the_state_open_and_comes_out(
    cluster: FakeCluster, transactions: FakeTransactions, autojump_clock: MockClock
) -> None:
    async def execute(message: Message, transaction_id: str) -> TransactionState:
        raise LookupError("no such order")

    async with producer_of(cluster) as producer:
        with pytest.raises(LookupError, match="no such order"):
            await producer.send_in_transaction(MESSAGE, execute)
        assert (await settled(transactions, 1)).commit_or_rollback == 0
    assert transactions.remarks == ["LookupError: no such order"]


async def test_nothing_is_executed_when_the_half_message_was_not_taken(
    cluster: FakeCluster, transactions: FakeTransactions, autojump_clock: MockClock
) -> None:
    async def execute(message: Message, transaction_id: str) -> TransactionState:
        raise AssertionError("must not run")

    cluster.broker.refuse(SEND, 13)
    async with producer_of(cluster) as producer:
        with pytest.raises(RefusedByBroker, match="injected"):
            await producer.send_in_transaction(MESSAGE, execute)
        for delayed in ({"delay_level": 1}, {"delay_s": 1}, {"deliver_at_ms": 1}):
            with pytest.raises(MessageRejected, match="cannot be delayed"):
                await producer.send_in_transaction(
                    Message(topic="T", body=b"", **delayed),  # type: ignore[arg-type]
                    execute,
                )
    assert transactions.ended == []


async def test_a_half_message_that_is_less_safe_than_wanted_is_rolled_back(
    cluster: FakeCluster, transactions: FakeTransactions, autojump_clock: MockClock
) -> None:
    async def execute(message: Message, transaction_id: str) -> TransactionState:
        raise AssertionError("must not run")

    send = cluster.broker.handlers[SEND]

    def slowly(frame: Frame, peer: Peer) -> Frame:
        answer = send(frame, peer)
        assert answer is not None
        return frame.reply(10, answer.fields)

    cluster.broker.handlers[SEND] = slowly
    async with producer_of(cluster) as producer:
        result = await producer.send_in_transaction(MESSAGE, execute)
        assert (await settled(transactions, 1)).commit_or_rollback == 12
    assert (result.state, result.sent.status) == (ROLLBACK, SendStatus.FLUSH_DISK_TIMEOUT)


@pytest.mark.parametrize(("state", "flag"), [(COMMIT, 8), (ROLLBACK, 12), (UNKNOWN, 0)])
async def test_a_check_is_answered_with_what_the_listener_says(
    cluster: FakeCluster,
    transactions: FakeTransactions,
    autojump_clock: MockClock,
    state: TransactionState,
    flag: int,
) -> None:
    asked: list[ReceivedMessage] = []

    async def check(message: ReceivedMessage) -> TransactionState:
        asked.append(message)
        return state

    async with producer_of(cluster, check) as producer:
        result = await producer.send_in_transaction(MESSAGE, returning(UNKNOWN))
        await settled(transactions, 1)
        transactions.check(0)
        end = await settled(transactions, 2)
    (message,) = asked
    assert message.message_id == result.transaction_id == end.msg_id == end.transaction_id
    assert (message.body, message.tags, message.keys) == (b"paid", "A", ("order-1",))
    assert (end.commit_or_rollback, end.from_transaction_check) == (flag, True)
    assert cluster.bodies("T") == ([b"paid"] if state is COMMIT else [])


async def test_a_check_that_fails_or_says_nonsense_counts_as_unknown(
    cluster: FakeCluster,
    transactions: FakeTransactions,
    autojump_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers = iter([ValueError("no database"), None])

    async def check(message: ReceivedMessage) -> TransactionState:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[return-value]

    async with producer_of(cluster, check) as producer:
        await producer.send_in_transaction(MESSAGE, returning(UNKNOWN))
        await settled(transactions, 1)
        for count in (2, 3):
            transactions.check(0)
            assert (await settled(transactions, count)).commit_or_rollback == 0
    assert transactions.remarks[1:] == ["ValueError: no database", None]
    assert "is not a TransactionState" in caplog.text


async def test_a_producer_opened_again_that_sends_nothing_answers_checks(
    cluster: FakeCluster, transactions: FakeTransactions, autojump_clock: MockClock
) -> None:
    """At Apache a message nobody answers for is dropped after 15 checks."""

    async def found(message: ReceivedMessage) -> TransactionState:
        return COMMIT

    async with producer_of(cluster) as producer:
        await producer.send_in_transaction(MESSAGE, returning(UNKNOWN))
    transactions.producers.groups.clear()
    async with producer_of(cluster, found):
        transactions.check(0)
        await settled(transactions, 2)
    assert cluster.bodies("T") == [b"paid"]


async def test_named_topics_say_which_brokers_may_ask(
    cluster: FakeCluster, transactions: FakeTransactions, autojump_clock: MockClock
) -> None:
    other = cluster.add_broker()
    async with open_transaction_producer(
        "pg", check=never, topics=["T"], name_servers=cluster.name_servers, dial=cluster.dial
    ) as producer:
        assert cluster.broker.producers == {"pg": {producer.client_id}}
        assert other.producers == {}


async def test_brokers_that_come_later_can_ask_too(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    """The name server is away at first, a broker is added later: neither needs a send."""
    (name_server,) = cluster.name_server_nodes
    name_server.reachable = False
    async with producer_of(cluster) as producer:
        assert cluster.broker.producers == {}
        name_server.reachable = True
        await trio.sleep(20)
        assert cluster.broker.producers == {"pg": {producer.client_id}}
        other = cluster.add_broker()
        await trio.sleep(61)
        assert other.producers == {"pg": {producer.client_id}}


async def test_ordinary_messages_go_through_the_same_producer(
    cluster: FakeCluster, transactions: FakeTransactions, autojump_clock: MockClock
) -> None:
    async with producer_of(cluster) as producer:
        await producer.send(MESSAGE)
        assert isinstance(producer, Producer)
    assert cluster.bodies("T") == [b"paid"]
    assert transactions.ended == []


async def test_a_broker_without_transactions_says_so_before_anything_is_done(
    no_transactions_server: str,
) -> None:
    async def execute(message: Message, transaction_id: str) -> TransactionState:
        raise AssertionError("must not run")

    async with open_transaction_producer(
        "pg", check=never, name_servers=no_transactions_server
    ) as producer:
        with pytest.raises(RefusedByBroker, match="transaction"):
            await producer.send_in_transaction(MESSAGE, execute)
