"""Messages, results and errors as values: pickled, copied, compared and shown."""

import copy
import pickle

import pytest
from trio.testing import MockClock

from lanemq.sdk import (
    BadAnswer,
    BrokerUnreachable,
    ClientClosed,
    ConsumeFrom,
    InvalidName,
    LanemqError,
    Message,
    MessageRejected,
    NoReply,
    NoRoute,
    RefusedByBroker,
    RequestTimedOut,
    StagedSendFailed,
    WrongUse,
    open_lite_pull_consumer,
    open_producer,
)
from lanemq.testkit.sdk.cluster import FakeCluster, clock_ms

MESSAGE = Message(topic="T", body=b"x", tags="A", keys=("k",), properties={"a": "1"})
ERRORS = [
    BrokerUnreachable("10.0.0.1:1", "it is away"),
    RequestTimedOut("10.0.0.1:1", 310, 3.0),
    RefusedByBroker(2, "busy", "10.0.0.1:1"),
    BadAnswer("10.0.0.1:1", "a send", "no msgId"),
    NoRoute("T", "it does not exist"),
    NoReply("T", 3.0),
    StagedSendFailed(1, ((MESSAGE, NoRoute("T", "gone")),)),
    MessageRejected("too long"),
    InvalidName("a blank"),
    WrongUse("not now"),
    ClientClosed("producer"),
    LanemqError("anything"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_survive_a_process_pool(error: LanemqError) -> None:
    error.add_note("3 attempts")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is type(error)
        assert (again, hash(again), str(again)) == (error, hash(error), str(error))
        assert vars(again) == vars(error)
        assert again.retriable == error.retriable
    assert error != BrokerUnreachable("10.0.0.2:1", "it is away")


def test_messages_can_be_pickled_copied_and_compared() -> None:
    for message in (MESSAGE, Message(topic="T", body=b"x")):
        for again in (pickle.loads(pickle.dumps(message)), copy.copy(message)):
            assert again == message
        assert copy.deepcopy(message) == message
    assert Message(topic="T", body=b"y") != MESSAGE


def test_a_long_body_is_shortened_where_a_message_is_shown() -> None:
    assert repr(Message(topic="T", body=b"x", tags="A")) == (
        "Message(topic='T', body=b'x', tags='A')"
    )
    shown = repr(Message(topic="T", body=bytes(100_000)))
    assert len(shown) < 300
    assert "100000 bytes" in shown


async def test_what_was_received_survives_a_process_pool(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("shop%T", 1)
    options = {"name_servers": cluster.name_servers, "namespace": "shop"}
    async with open_producer("pg", dial=cluster.dial, **options) as producer:  # type: ignore[arg-type]
        sent = [
            await producer.send(
                Message(topic="T", body=body, properties={"colour": "red"}, tags="A")
            )
            for body in (b"a", b"b")
        ]
        assert pickle.loads(pickle.dumps(sent[0])) == sent[0] != sent[1]
        assert repr(producer).startswith(f"<Producer of group 'shop%pg', {producer.client_id}")
    async with open_lite_pull_consumer(
        "g",
        consume_from=ConsumeFrom.FIRST_OFFSET,
        dial=cluster.dial,
        clock_ms=clock_ms,
        **options,  # type: ignore[arg-type]
    ) as consumer:
        await consumer.subscribe("T")
        first, second = await consumer.poll()
        assert "1 queues" in repr(consumer)
    assert "closed" in repr(consumer)
    assert dict(first.user_properties) == {"colour": "red"}
    first.retries_in_place = 2
    for again in (pickle.loads(pickle.dumps(first)), copy.copy(first), copy.deepcopy(first)):
        assert again == first != second
        assert hash(again) == hash(first)
        for name in ("body", "properties", "topic", "full_topic", "queue", "reconsume_times"):
            assert getattr(again, name) == getattr(first, name), name
