"""Compressed bodies are unpacked beside the event loops, and no further than a consumer allows.

What is counted are the bytes that each thread unpacks: a few kilobytes hold megabytes.
"""

import asyncio
import pickle
import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, Final

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import (
    BodyNotRestored,
    Compression,
    ConcurrentListener,
    ConsumeFrom,
    KeyOrderedListener,
    LitePullConsumer,
    LitePullOptions,
    Message,
    MessageQueue,
    OrderlyListener,
    Outcome,
    ReceivedMessage,
    WrongValue,
)
from lanemq.sdk._unpacking import QUICK_BYTES
from lanemq.sdk.aio._listener_tasks import unpack_in_tasks
from lanemq.sdk.consumer.pool._outside_calls import OutsideCall
from lanemq.sdk.pull import open_puller
from lanemq.testkit.sdk.clients import lite_pull_consumer_of, producer_of, push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster
from lanemq.testkit.sdk.pools import messages_of
from lanemq.wire import RequestCode, SysFlag, Version
from lanemq.wire.frame import request
from lanemq.wire.message import StoredMessage, compress_body

LONG: Final = bytes(3 << 20)
SHORT: Final = bytes(6000)
FIRST: Final = ConsumeFrom.FIRST_OFFSET
LISTENERS: Final[dict[str, Callable[[Any], Any]]] = {
    "concurrent": ConcurrentListener,
    "orderly": OrderlyListener,
    "by key": lambda handle: KeyOrderedListener(handle, key=lambda message: message.keys),
}


class Unpacked:
    """The bytes that the threads unpack."""

    def __init__(self) -> None:
        self.bytes: dict[int, list[int]] = {}

    @property
    def here(self) -> list[int]:
        """Those of the calling thread, body by body."""
        return self.bytes.get(threading.get_ident(), [])

    @property
    def all(self) -> list[int]:
        return [size for sizes in self.bytes.values() for size in sizes]


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> Unpacked:
    seen, unpack = Unpacked(), StoredMessage.decompressed_body

    def noted(message: StoredMessage, **limits: int) -> bytes:
        own = seen.bytes.setdefault(threading.get_ident(), [])
        if not message.sys_flag & SysFlag.COMPRESSED:
            return unpack(message, **limits)
        own.append(limits.get("max_bytes", 64 << 20))  # as much as it may cost
        own[-1] = len(body := unpack(message, **limits))
        return body

    monkeypatch.setattr(StoredMessage, "decompressed_body", noted)
    return seen


async def fill(
    cluster: FakeCluster, *bodies: bytes, kind: Compression = Compression.ZLIB, tags: str = ""
) -> None:
    """Send messages to the only queue of topic T."""
    cluster.create_topic("T", queues=1)
    cluster.broker.version = Version.V5_0_0
    async with producer_of(cluster, compression=kind) as producer:
        for body in bodies:
            await producer.send(Message(topic="T", body=body, tags=tags))


def packed(count: int, body: bytes = LONG, limit: int = 16 << 20) -> list[ReceivedMessage]:
    """Return messages that no consumer has looked at."""
    data, messages = compress_body(body), messages_of(count)
    for message in messages:
        stored = message.stored
        values = {name: getattr(stored, name) for name in stored.__struct_fields__}
        values |= {"body": data, "sys_flag": SysFlag.COMPRESSED}
        message.__init__(StoredMessage(**values), message.queue, body_bytes_max=limit)
    return messages


@pytest.mark.parametrize("kind", Compression)
@pytest.mark.parametrize("listener", LISTENERS)
async def test_a_listener_gets_long_bodies_that_no_turn_of_the_loop_unpacked(
    cluster: FakeCluster, unpacked: Unpacked, kind: Compression, listener: str
) -> None:
    await fill(cluster, LONG, SHORT, LONG, kind=kind)
    got, all_came = list[bytes](), trio.Event()

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        got.extend(message.body for message in messages)
        if len(got) == 3:
            all_came.set()

    async with push_consumer_of(cluster, LISTENERS[listener](handle), consume_from=FIRST):
        await all_came.wait()
    assert sorted(got) == [SHORT, LONG, LONG]
    assert max(unpacked.here) <= QUICK_BYTES
    assert sorted(unpacked.all)[-2:] == [len(LONG)] * 2  # once for each


async def one_by_one(consumer: LitePullConsumer, count: int) -> list[ReceivedMessage]:
    return [await anext(consumer) for _ in range(count)]


async def in_polls(consumer: LitePullConsumer, count: int) -> list[ReceivedMessage]:
    got: list[ReceivedMessage] = []
    while len(got) < count:
        got += await consumer.poll()
    return got


async def in_loans(consumer: LitePullConsumer, count: int) -> list[ReceivedMessage]:
    """Read as an iteration of the faces for asyncio and threads does."""
    got: list[ReceivedMessage] = []
    while len(got) < count:
        lent = await consumer._lend()
        while (message := lent.next(0.0)) is not None:
            got.append(message)
    return got


@pytest.mark.parametrize("read", [one_by_one, in_polls, in_loans])
async def test_a_reader_gets_long_bodies_that_no_turn_of_the_loop_unpacked(
    cluster: FakeCluster, unpacked: Unpacked, read: Callable[..., Any]
) -> None:
    await fill(cluster, LONG, SHORT, LONG, b"plain")
    async with lite_pull_consumer_of(cluster, consume_from=FIRST) as consumer:
        await consumer.subscribe("T")
        got = await read(consumer, 4)
        assert [message.body for message in got] == [LONG, SHORT, LONG, b"plain"]
    assert max(unpacked.here) <= QUICK_BYTES


async def test_a_poll_returns_no_more_than_it_may_unpack(cluster: FakeCluster) -> None:
    bodies = [bytes([number]) * 700_000 for number in range(8)]
    await fill(cluster, *bodies)
    async with lite_pull_consumer_of(
        cluster, consume_from=FIRST, body_bytes_max=1 << 20
    ) as consumer:
        await consumer.subscribe("T")
        polls = [await consumer.poll() for _ in range(4)]
        assert [[message.body for message in got] for got in polls] == [
            bodies[at : at + 2] for at in range(0, 8, 2)
        ]
        assert not await consumer.poll(0)


async def test_tasks_of_asyncio_get_long_bodies_that_their_loop_did_not_unpack(
    unpacked: Unpacked,
) -> None:
    messages = packed(3)

    def in_asyncio() -> list[int]:
        asyncio.run(unpack_in_tasks(messages))
        return unpacked.here

    on_the_loop = await trio.to_thread.run_sync(in_asyncio)
    assert max(on_the_loop) <= QUICK_BYTES
    assert [len(message.body) for message in messages] == [len(LONG)] * 3
    assert not unpacked.here  # they were ready


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("codec", [None, "bytes"])
async def test_a_body_that_is_too_long_makes_a_dead_letter_at_once(
    cluster: FakeCluster,
    autojump_clock: MockClock,
    unpacked: Unpacked,
    listener: str,
    codec: str | None,
) -> None:
    await fill(cluster, SHORT + b"a", bytes(20_000), SHORT + b"b")
    got, errors = list[bytes](), list[BodyNotRestored]()

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        for message in messages:
            try:
                got.append(message.body)
            except BodyNotRestored as error:
                errors.append(error)
                raise

    async with push_consumer_of(
        cluster,
        LISTENERS[listener](handle),
        consume_from=FIRST,
        body_bytes_max=8000,
        codec=codec,
    ):
        await trio.sleep(30)
    assert sorted(got) == [SHORT + b"a", SHORT + b"b"]
    (letter,) = cluster.broker.messages("%DLQ%cg")
    assert letter.decompressed_body() == bytes(20_000)
    reason = letter.properties["DLQ_REASON"]
    assert "offset 1," in reason
    assert "of T, queue 0 at broker-a" in reason
    assert "more than body_bytes_max, 8000 bytes: open the consumer with a greater one" in reason
    if codec is None:
        (error,) = errors
        assert (error.queue, error.queue_offset) == (MessageQueue("T", "broker-a", 0), 1)
        assert pickle.loads(pickle.dumps(error)) == error
    assert max(unpacked.here) <= 20_000


async def test_a_reader_sees_which_body_is_too_long_and_goes_on(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    await fill(cluster, bytes(20_000), SHORT)
    async with lite_pull_consumer_of(cluster, consume_from=FIRST, body_bytes_max=8000) as consumer:
        await consumer.subscribe("T")
        long, short = await in_polls(consumer, 2)
        for _ in range(2):
            with pytest.raises(BodyNotRestored, match=r"of T, queue 0 .* offset 0, .*_bytes_max"):
                _ = long.body
        assert short.body == SHORT


async def test_a_damaged_body_is_looked_at_once(unpacked: Unpacked) -> None:
    (message,) = packed(1, b"x" * 100)
    stored = message.stored
    values = {name: getattr(stored, name) for name in stored.__struct_fields__}
    message = ReceivedMessage(StoredMessage(**values | {"body": b"no zlib"}), message.queue)
    for _ in range(3):
        with pytest.raises(BodyNotRestored, match="cannot be restored: broken compressed body"):
            _ = message.body
    assert len(unpacked.all) == 1


def test_calls_outside_of_the_core_abandon_the_message_of_a_body_that_is_too_long() -> None:
    messages = packed(2, limit=1000)
    batch: Any = SimpleNamespace(messages=messages)
    consumer: Any = None
    call = OutsideCall(consumer, batch, tuple(messages))
    with pytest.raises(BodyNotRestored) as failure:
        _ = messages[1].body
    call.error = failure.value
    outcome: Any = call.outcome()
    assert outcome.of(messages) == messages[1:]


async def test_a_message_that_comes_again_is_not_kept_unpacked(
    cluster: FakeCluster, unpacked: Unpacked
) -> None:
    await fill(cluster, LONG)
    got, kept, again = list[ReceivedMessage](), list[int](), trio.Event()

    async def handle(messages: Sequence[ReceivedMessage]) -> Outcome:
        kept.extend(message._unpacked_bytes for message in got)
        got.extend(messages)
        assert messages[0].body == LONG
        if len(got) == 2:
            kept.append(got[0]._unpacked_bytes)
            again.set()
        return Outcome.RETRY

    listener = OrderlyListener(handle, suspend_s=0.01)
    async with push_consumer_of(cluster, listener, consume_from=FIRST):
        await again.wait()
    assert got[0] is got[1]
    assert unpacked.all.count(len(LONG)) == 2  # once for each call
    assert got[0].body == LONG


async def test_a_single_pull_gets_bodies_unpacked_beside_the_loop(
    cluster: FakeCluster, unpacked: Unpacked
) -> None:
    await fill(cluster, LONG)
    async with open_puller("g", name_servers=cluster.name_servers, dial=cluster.dial) as puller:
        (queue,) = await puller.queues_of("T")
        pulled = await puller.pull(queue, 0, tags="*", max_count=1, timeout_s=5)
        assert pulled.messages[0].body == LONG
    assert max(unpacked.here) <= QUICK_BYTES


async def test_a_listener_that_an_operator_calls_gets_its_body_unpacked_beside_the_loop(
    cluster: FakeCluster, unpacked: Unpacked
) -> None:
    await fill(cluster, LONG)
    cluster.create_topic("Other")
    (record,) = cluster.broker.queue("T", 0).records
    got = list[bytes]()

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        got.extend(message.body for message in messages)

    async with push_consumer_of(
        cluster, handle, consume_from=FIRST, subscriptions={"Other": "*"}
    ) as consumer:
        fields = {"consumerGroup": "cg", "clientId": consumer.client_id, "brokerName": "broker-a"}
        call = request(RequestCode.CONSUME_MESSAGE_DIRECTLY, fields, body=record)
        await cluster.broker.ask(consumer.client_id, call)
    assert got == [LONG]
    assert max(unpacked.here) <= QUICK_BYTES


def test_the_limit_goes_with_a_message() -> None:
    (message,) = packed(1, limit=1000)
    with pytest.raises(BodyNotRestored, match="1000 bytes"):
        _ = pickle.loads(pickle.dumps(message)).body
    with pytest.raises(WrongValue, match="body_bytes_max must be positive"):
        LitePullOptions(body_bytes_max=0)
