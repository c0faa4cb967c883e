# ruff: noqa: ANN401 - codecs take values of any type
"""Codecs and interceptors: each way out and in, each error at its place."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import (
    ConcurrentListener,
    ConsumeFrom,
    DecodeErrors,
    DecodingFailed,
    JsonCodec,
    Message,
    MessageRejected,
    OrderlyListener,
    ReceivedMessage,
    TextCodec,
    WrongUse,
    WrongValue,
    open_lite_pull_consumer,
)
from lanemq.sdk._codecs import as_codec
from lanemq.testkit.sdk.clients import producer_of, push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster, clock_ms

FIRST = ConsumeFrom.FIRST_OFFSET


class Point(msgspec.Struct):
    x: int


@dataclasses.dataclass
class Pair:
    a: int
    b: str


class Model:
    """As a pydantic model, whose package is not needed."""

    def __init__(self, x: int) -> None:
        self.x = x

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and other.x == self.x

    __hash__ = None  # type: ignore[assignment]

    def model_dump_json(self) -> str:
        return json.dumps({"x": self.x})

    @classmethod
    def model_validate_json(cls, data: bytes) -> "Model":
        return cls(json.loads(data)["x"])


class Rot1:
    """An application's own."""

    def encode(self, value: str) -> bytes:
        return bytes(byte + 1 for byte in value.encode())

    def decode(self, body: bytes) -> str:
        return bytes(byte - 1 for byte in body).decode()


CASES: list[tuple[Any, Any, Any]] = [
    ("bytes", b"b", 1),
    (bytes, b"b", "text"),
    ("text", "grüß", b"b"),
    (str, "grüß", 5),
    (TextCodec("latin-1"), "grüß", "\u4e2d"),
    ("json", {"a": [1, None]}, object()),
    ("msgpack", {"a": [1, b"x"]}, object()),
    (Point, Point(3), object()),
    (Pair, Pair(1, "b"), object()),
    (JsonCodec(list[Point]), [Point(1)], object()),
    (Model, Model(4), {"x": 4}),
    (Rot1(), "abc", 5),
]


@pytest.mark.parametrize(("codec", "value", "bad"), CASES)
async def test_values_come_through_and_errors_are_the_caller_s(
    cluster: FakeCluster, autojump_clock: MockClock, codec: Any, value: Any, bad: Any
) -> None:
    seen: list[Any] = []

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        seen.extend(message.value for message in messages)

    async with producer_of(cluster, codec=codec) as producer:
        await producer.send(Message(topic="T", body=value))
        await producer.send_batch([Message(topic="T", body=value)])
        await producer.send_oneway(Message(topic="T", body=value))
        for send in (producer.send, producer.send_oneway):
            with pytest.raises(MessageRejected, match="body"):
                await send(Message(topic="T", body=bad))
    async with push_consumer_of(cluster, handle, codec=codec, consume_from=FIRST):
        await trio.sleep(5)
    assert seen == [value] * 3
    async with open_lite_pull_consumer(
        "readers",
        name_servers=cluster.name_servers,
        dial=cluster.dial,
        clock_ms=clock_ms,
        codec=codec,
        consume_from=FIRST,
    ) as consumer:
        await consumer.subscribe("T")
        (message, *_) = await consumer.poll(5)
        assert message.value == value


@pytest.mark.parametrize("codec", ["jsn", 5, int, Rot1, object()])
def test_what_is_no_codec_is_refused(codec: Any) -> None:
    with pytest.raises(WrongValue, match="codec"):
        as_codec(codec)


@pytest.mark.parametrize("kind", [ConcurrentListener, OrderlyListener])
@pytest.mark.parametrize("errors", DecodeErrors)
async def test_bodies_that_cannot_be_decoded_have_the_fate_that_is_wanted(
    cluster: FakeCluster, autojump_clock: MockClock, kind: Any, errors: DecodeErrors
) -> None:
    for body in (b"1", b"{", b"3", b"\xff", b"5"):
        cluster.broker.put("T", 0, body)
    seen: list[Any] = []

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        for message in messages:
            try:
                seen.append(message.value)
            except DecodingFailed:
                seen.append(message.body)

    listener = kind(handle, batch_messages=5)
    if kind is OrderlyListener:
        listener = dataclasses.replace(listener, max_reconsume_times=1)
    async with push_consumer_of(
        cluster,
        listener,
        codec="json",
        decode_errors=errors,
        max_reconsume_times=1,
        consume_from=FIRST,
    ):
        await trio.sleep(100)
    dead = cluster.bodies("%DLQ%cg")
    if errors is DecodeErrors.RAISE:
        assert (seen, dead) == ([1, b"{", 3, b"\xff", 5], [])
    elif errors is DecodeErrors.DEAD_LETTER:
        assert (seen, dead) == ([1, 3, 5], [b"{", b"\xff"])
        reasons = [m.properties["DLQ_REASON"] for m in cluster.broker.messages("%DLQ%cg")]
        assert all("cannot be decoded" in reason for reason in reasons)
    else:
        assert {b"{", b"\xff"} <= set(dead)
    assert cluster.broker.offsets["cg", "T", 0] == 5


async def test_interceptors_alter_in_their_order_before_and_after_the_codec(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    def add(letter: str) -> Any:
        def alter(message: Message) -> Message:
            return msgspec.structs.replace(message, body=message.body + letter)

        return alter

    def add_in(letter: str) -> Any:
        def alter(message: ReceivedMessage) -> ReceivedMessage:
            return message.altered(
                value=message.value + letter, properties={**message.properties, letter: "1"}
            )

        return alter

    seen: list[tuple[str, bytes, Any]] = []

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        for message in messages:
            seen.append((message.value, message.body, dict(message.user_properties)))

    async with producer_of(cluster, codec="text", interceptors=(add("a"), add("b"))) as producer:
        await producer.send(Message(topic="T", body="x"))
    async with push_consumer_of(
        cluster, handle, codec="text", interceptors=(add_in("c"), add_in("d")), consume_from=FIRST
    ):
        await trio.sleep(5)
    assert seen == [("xabcd", b"xab", {"c": "1", "d": "1"})]


async def test_errors_of_interceptors_are_the_caller_s_and_the_listener_s(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    def fail(message: Any) -> Any:
        raise ZeroDivisionError("as wished")

    for wrong, error in (
        (fail, ZeroDivisionError),
        (lambda _: None, WrongUse),
        (lambda m: msgspec.structs.replace(m, topic="Other"), MessageRejected),
    ):
        async with producer_of(cluster, interceptors=(wrong,)) as producer:  # type: ignore[arg-type]
            with pytest.raises(error):
                await producer.send(Message(topic="T", body=b"x"))
    assert cluster.bodies("T") == []
    cluster.broker.put("T", 0, b"x")

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        raise AssertionError("it is not called")

    async with push_consumer_of(
        cluster, handle, interceptors=(fail,), max_reconsume_times=0, consume_from=FIRST
    ):
        await trio.sleep(30)
    (letter,) = cluster.broker.messages("%DLQ%cg")
    assert letter.properties["DLQ_REASON"] == "ZeroDivisionError: as wished"
