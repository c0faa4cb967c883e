"""The usual mistakes: each is refused at once, by an error that says what to write instead."""

# ruff: noqa: ANN401 - mistakes are of any type

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import (
    ConcurrentListener,
    ConsumeFrom,
    FlowLimits,
    InvalidName,
    LanemqError,
    LitePullOptions,
    Message,
    MessageRejected,
    OrderlyListener,
    ProducerOptions,
    PushOptions,
    ReceivedMessage,
    RemotingOptions,
    RequestTimedOut,
    TransactionState,
    WrongUse,
    WrongValue,
    aio,
    blocking,
    open_lite_pull_consumer,
    open_producer,
    open_push_consumer,
    open_transaction_producer,
)
from lanemq.testkit.sdk.clients import push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster
from lanemq.wire import RequestCode

NOWHERE = "127.0.0.1:1"
ANY: Any = None
ANY_NUMBER: Any = 5
HALF: Any = 1.5


async def coroutine(messages: Sequence[ReceivedMessage]) -> None:
    pass


def plain(messages: Sequence[ReceivedMessage]) -> None:
    pass


async def test_a_function_will_do_for_a_listener(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    heard, got = list[bytes](), trio.Event()
    cluster.broker.put("T", 0, b"x")

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        heard.extend(message.body for message in messages)
        got.set()

    async with open_push_consumer(
        "g",
        name_servers=cluster.name_servers,
        subscriptions={"T": "*"},
        listener=handle,
        consume_from=ConsumeFrom.FIRST_OFFSET,
        dial=cluster.dial,
    ):
        await got.wait()
    assert heard == [b"x"]
    blocking.open_push_consumer("g", subscriptions={"T": "*"}, listener=plain)
    aio.open_push_consumer("g", subscriptions={"T": "*"}, listener=coroutine)


@pytest.mark.parametrize("listener", [plain, ConcurrentListener(plain)])  # type: ignore[arg-type]
async def test_a_plain_function_is_refused_on_trio_and_asyncio(listener: Any) -> None:
    says = r"'plain' is a plain function: write `async def`.*lanemq.sdk.blocking"
    with pytest.raises(WrongUse, match=says):
        await open_push_consumer("g", subscriptions={"T": "*"}, listener=listener).__aenter__()
    with pytest.raises(WrongUse, match=says):
        aio.open_push_consumer("g", subscriptions={"T": "*"}, listener=listener)


def test_a_listener_of_trio_is_refused_by_the_blocking_face() -> None:
    with pytest.raises(WrongUse, match=r"sdk\.blocking import ConcurrentListener`"):
        blocking.open_push_consumer(
            "g",
            subscriptions={"T": "*"},
            listener=ConcurrentListener(coroutine),  # type: ignore[arg-type]
        )
    with pytest.raises(WrongUse, match="takes plain ones"):
        blocking.open_push_consumer(
            "g",
            subscriptions={"T": "*"},
            listener=coroutine,  # type: ignore[arg-type]
        )


@pytest.mark.parametrize("name", ["ConcurrentListener", "OrderlyListener"])
async def test_a_listener_of_threads_is_refused_on_trio_and_asyncio(name: str) -> None:
    listener: Any = getattr(blocking, name)(plain)
    says = rf"is that of lanemq\.sdk\.blocking.*`from lanemq\.sdk import {name}`"
    with pytest.raises(WrongUse, match=says):
        await open_push_consumer("g", subscriptions={"T": "*"}, listener=listener).__aenter__()
    with pytest.raises(WrongUse, match=says):
        aio.open_push_consumer("g", subscriptions={"T": "*"}, listener=listener)


@pytest.mark.parametrize("listener", [None, "print"])
async def test_what_is_no_listener_is_refused(listener: Any) -> None:
    with pytest.raises(WrongUse, match="listener must be one of ConcurrentListener"):
        await open_push_consumer("g", subscriptions={"T": "*"}, listener=listener).__aenter__()


@pytest.mark.parametrize(
    ("subscriptions", "says"),
    [
        ("Orders", r"\{'Orders': '\*'\}"),
        (["Orders"], r"\{'Orders': '\*'\}"),
        ({}, "at least one"),
        ({"Orders": None}, "'A || B' or"),
        ({"Orders": ["A", "B"]}, "'A || B' or"),
    ],
)
async def test_subscriptions_map_topics_to_expressions(subscriptions: Any, says: str) -> None:
    with pytest.raises(LanemqError) as refused:
        await open_push_consumer("g", subscriptions=subscriptions, listener=coroutine).__aenter__()
    assert says.replace("\\", "") in str(refused.value)
    with pytest.raises(LanemqError):
        aio.open_push_consumer("g", subscriptions=subscriptions, listener=coroutine)


@pytest.mark.parametrize(
    ("message", "kind", "says"),
    [
        (Message(topic="T", body="text"), MessageRejected, r"body\.encode\(\)"),
        (Message(topic="T", body={"a": 1}), MessageRejected, "dict.*json.dumps"),
        (Message(topic="T", body=None), MessageRejected, "NoneType"),
        (Message(topic=ANY, body=b"x"), InvalidName, "not None"),
        (Message(topic="T", body=b"x", properties={"n": ANY_NUMBER}), MessageRejected, "'n': '5'"),
    ],
)
async def test_messages_are_bytes_and_texts(
    cluster: FakeCluster, autojump_clock: MockClock, message: Message, kind: Any, says: str
) -> None:
    async with open_producer("pg", name_servers=NOWHERE, dial=cluster.dial) as producer:
        with pytest.raises(kind, match=says):
            await producer.send(message)
        with pytest.raises(kind, match=says):
            await producer.send_batch([message])


async def test_options_of_another_kind_are_refused() -> None:
    says = r"options must be ProducerOptions\(…\), not PushOptions"
    with pytest.raises(WrongUse, match=says):
        await open_producer("pg", options=PushOptions()).__aenter__()  # type: ignore[arg-type]
    with pytest.raises(WrongUse, match=says):
        aio.open_producer("pg", options=PushOptions())  # type: ignore[arg-type]
    with pytest.raises(WrongUse, match="options must be LitePullOptions"):
        blocking.open_lite_pull_consumer("g", options=ProducerOptions())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"compression": "lz4"},
            "ProducerOptions.compression must be one of Compression.ZLIB, Compression.LZ4, ",
        ),
        ({"retries": "3"}, "ProducerOptions.retries must be a whole number, not '3'"),
        ({"retries": 1.5}, "ProducerOptions.retries must be a whole number, not 1.5"),
        ({"retries": -1}, "ProducerOptions.retries must be at least 0, not -1"),
        ({"compress_from_bytes": -1}, "ProducerOptions.compress_from_bytes must be at least 0"),
        ({"send_timeout_s": None}, "ProducerOptions.send_timeout_s must be a number, not None"),
        ({"hooks": print}, "ProducerOptions.hooks must be a tuple of hooks, not <built-in"),
    ],
)
def test_values_of_another_kind_are_refused_by_name(given: Any, says: str) -> None:
    with pytest.raises(WrongUse) as caught:
        ProducerOptions(**given)
    assert str(caught.value).startswith(says)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"consume_from": "FIRST_OFFSET"},
            r"consume_from must be one of ConsumeFrom\.LAST_OFFSET,",
        ),
        ({"message_model": "x"}, r"message_model must be one of MessageModel\.\w+, .*, not 'x'"),
        ({"flow": 3}, r"flow must be FlowLimits\(…\), not 3"),
        ({"flow": None}, r"flow must be FlowLimits\(…\), not None"),
        ({"client": 3}, r"client must be ClientOptions\(…\), not 3"),
        ({"allocate": 5}, "allocate must be a function, not 5"),
        ({"on_queues_changed": 5}, "on_queues_changed must be a function, not 5"),
        ({"on_statistics": 5}, "on_statistics must be a function, not 5"),
        ({"statistics_interval_s": 0}, "statistics_interval_s must be"),
        ({"pull_batch": 1.5}, "pull_batch must be a whole number, not 1.5"),
        ({"consume_from_timestamp_ms": "now"}, "consume_from_timestamp_ms must be a whole number"),
    ],
)
def test_settings_of_consumers_are_refused_by_name_at_opening(given: Any, says: str) -> None:
    for face in (aio, blocking):
        with pytest.raises(ValueError, match=rf"^PushOptions\.{says}"):
            face.open_push_consumer(
                "g", subscriptions={"T": "*"}, listener=ConcurrentListener(coroutine), **given
            )
        with pytest.raises(WrongValue, match=rf"^LitePullOptions\.{says}"):
            face.open_lite_pull_consumer("g", **given)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ConcurrentListener(coroutine, concurrency=HALF), "ConcurrentListener.concurrency"),
        (lambda: blocking.ConcurrentListener(plain, HALF), "ConcurrentListener.concurrency"),
        (lambda: OrderlyListener(coroutine, batch_messages=HALF), "OrderlyListener.batch_messages"),
        (lambda: OrderlyListener(coroutine, on_lock_loss=ANY), "OrderlyListener.on_lock_loss"),
        (lambda: FlowLimits(messages=HALF), "FlowLimits.messages"),
        (lambda: RemotingOptions(frame_bytes_max=HALF), "RemotingOptions.frame_bytes_max"),
    ],
)
def test_values_of_listeners_and_limits_are_refused_by_name(
    make: Callable[[], object], says: str
) -> None:
    with pytest.raises(ValueError, match=rf"^{re.escape(says)} must be "):
        make()


@pytest.mark.parametrize("gives", [None, "queues", [1]])
async def test_a_division_that_gives_no_queues_is_logged(
    cluster: FakeCluster,
    autojump_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
    gives: Any,
) -> None:
    cluster.create_topic("T")
    async with open_lite_pull_consumer(
        "g", name_servers=cluster.name_servers, dial=cluster.dial, allocate=lambda *_: gives
    ) as consumer:
        await consumer.subscribe("T")
        assert await consumer.poll(1) == []
    assert "the queues of T cannot be divided" in caplog.text
    assert f"`allocate` must return a list of queues, not {gives!r}" in caplog.text


async def test_plain_functions_of_transactions_are_refused(cluster: FakeCluster) -> None:
    def plainly(*_: object) -> TransactionState:
        return TransactionState.COMMIT

    async def check(_: ReceivedMessage) -> TransactionState:
        return TransactionState.UNKNOWN

    wrong: Any = plainly
    with pytest.raises(WrongUse, match=r"check '.*plainly' is a plain function: write `async def`"):
        async with open_transaction_producer("g", check=wrong, name_servers=cluster.name_servers):
            pass
    async with open_transaction_producer(
        "g", check=check, name_servers=cluster.name_servers, dial=cluster.dial
    ) as producer:
        with pytest.raises(WrongUse, match=r"the local transaction '.*plainly' is a plain"):
            await producer.send_in_transaction(Message(topic="T", body=b"x"), wrong)
    assert RequestCode.SEND_MESSAGE_V2 not in {frame.code for frame in cluster.broker.requests}


async def test_topics_are_a_list_of_them(cluster: FakeCluster) -> None:
    async def check(_: ReceivedMessage) -> TransactionState:
        return TransactionState.UNKNOWN

    opened = {"topics": "Paid", "name_servers": cluster.name_servers, "dial": cluster.dial}
    wrong: Any = opened
    says = r"topics must be a list of topics, as \['Paid'\], not a text"
    with pytest.raises(WrongValue, match=says):
        await open_producer("pg", **wrong).__aenter__()
    with pytest.raises(WrongValue, match=says):
        await open_transaction_producer("pg", check=check, **wrong).__aenter__()
    with pytest.raises(ValueError, match=says), blocking.open_producer("pg", topics="Paid"):
        raise AssertionError


async def test_a_message_without_a_timer_has_nothing_to_be_recalled_by(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    async with open_producer("g", name_servers=cluster.name_servers, dial=cluster.dial) as producer:
        sent = await producer.send(Message(topic="T", body=b"x"))
        handle: Any = sent.recall_handle
        with pytest.raises(MessageRejected, match="no recall_handle: only a message with a timer"):
            await producer.recall("T", handle)


def test_each_face_says_which_one_it_takes_elsewhere() -> None:
    async def trio_face() -> None:
        async with open_producer("pg", name_servers=NOWHERE):
            raise AssertionError

    async def aio_face() -> None:
        async with aio.open_producer("pg", name_servers=NOWHERE):
            raise AssertionError

    with pytest.raises(WrongUse, match=r"runs on trio.*lanemq\.sdk\.aio"):
        asyncio.run(trio_face())
    with pytest.raises(WrongUse, match=r"runs on asyncio.*lanemq\.sdk for trio"):
        trio.run(aio_face)


async def test_a_broker_given_as_a_name_server_is_told_apart(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    says = rf"{cluster.broker.address} answers, but is not a name server, probably a broker"
    broker = cluster.broker.address
    async with open_producer("pg", name_servers=broker, dial=cluster.dial) as producer:
        with pytest.raises(WrongUse, match=says):
            await producer.send(Message(topic="T", body=b"x"))
    with pytest.raises(WrongUse, match=says):
        await open_push_consumer(
            "g",
            name_servers=broker,
            subscriptions={"T": "*"},
            listener=coroutine,
            dial=cluster.dial,
        ).__aenter__()


async def test_time_outs_name_the_request(cluster: FakeCluster, autojump_clock: MockClock) -> None:
    cluster.create_topic("T")
    cluster.broker.mute(RequestCode.SEND_MESSAGE_V2)
    async with open_producer(
        "pg", name_servers=cluster.name_servers, dial=cluster.dial, retries=0
    ) as producer:
        with pytest.raises(RequestTimedOut, match=r"did not answer SEND_MESSAGE_V2 \(310\)"):
            await producer.send(Message(topic="T", body=b"x"))
    assert "GET_ROUTEINFO_BY_TOPIC (105)" in str(RequestTimedOut("a", 105, 1))
    assert "request 4711" in str(RequestTimedOut("a", 4711, 1))


async def test_polling_without_a_subscription_is_refused(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    async with open_lite_pull_consumer(
        "g", name_servers=cluster.name_servers, options=LitePullOptions(), dial=cluster.dial
    ) as consumer:
        with pytest.raises(WrongUse, match="call `subscribe` or `assign` first"):
            await consumer.poll()
        with pytest.raises(WrongUse, match="call `subscribe` or `assign` first"):
            await anext(consumer)


async def _none() -> None: ...


async def _three(messages: Any, context: Any, more: Any) -> None: ...


async def _keyword(messages: Any, *, needed: Any) -> None: ...


@pytest.mark.parametrize("handle", [_none, _three, _keyword])
async def test_a_listener_with_other_parameters_is_refused_before_it_gets_messages(
    handle: Any,
) -> None:
    for listener in (handle, ConcurrentListener(handle), OrderlyListener(handle)):
        with pytest.raises(WrongUse, match=r"\(messages\) or \(messages, context\)"):
            await open_push_consumer("g", subscriptions={"T": "*"}, listener=listener).__aenter__()
        with pytest.raises(WrongUse, match=handle.__name__):
            aio.open_push_consumer("g", subscriptions={"T": "*"}, listener=listener)
    for plain_listener in (lambda: None, lambda a, b, c: None):
        with pytest.raises(WrongUse, match=r"\(messages\) or \(messages, context\)"):
            blocking.open_push_consumer("g", subscriptions={"T": "*"}, listener=plain_listener)


@pytest.mark.parametrize("other", [{"T": "B"}, {"T": "A", "T2": "*"}, {"T2": "*"}])
async def test_two_subscriptions_of_one_group_in_one_process_are_refused(
    cluster: FakeCluster, autojump_clock: MockClock, other: dict[str, str]
) -> None:
    cluster.create_topic("T", 4)
    listener = ConcurrentListener(coroutine)
    async with push_consumer_of(cluster, listener, subscriptions={"T": "A"}) as first:
        with pytest.raises(WrongUse, match="must subscribe alike"):
            async with push_consumer_of(cluster, listener, subscriptions=other):
                pass
        async with push_consumer_of(cluster, listener, subscriptions={"T": "A"}):
            pass
        async with push_consumer_of(cluster, listener, group="other", subscriptions=other):
            pass
        assert first.queues
    async with push_consumer_of(cluster, listener, subscriptions=other):
        pass  # the first one has left
