"""Servers that answer clients with what no server should: nothing of it ends, holds or fills one.

The cluster is an honest one whose answers are spoiled on their way: by numbers without bounds,
bodies that are cut or deep, answers to other requests, redirects without end, frames that never
end, and requests of the server's own. A client's call ends within its deadline, by a result or
by one of lanemq's errors.
"""

import json
import random
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final

import msgspec
import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import BadAnswer, LanemqError, Message, MessageQueue, ReceivedMessage
from lanemq.sdk.admin import open_admin
from lanemq.sdk.pull import open_puller
from lanemq.testkit.fuzz._requests import body as spoiled_body
from lanemq.testkit.fuzz._requests import changed
from lanemq.testkit.fuzz._values import COUNTS, text
from lanemq.testkit.reading_time import slowness
from lanemq.testkit.sdk.clients import lite_pull_consumer_of, producer_of, push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster, Peer
from lanemq.wire import RequestCode, ResponseCode, fastjson
from lanemq.wire.bodies import BrokerData, QueueData, RouteData
from lanemq.wire.frame import Frame, encode_frame, request
from lanemq.wire.message import encode_message

CODES: Final = (*map(int, ResponseCode), -1, 9999, 2**31 - 1)
TO_CLIENTS: Final = (
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
    RequestCode.CHECK_TRANSACTION_STATE,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
    RequestCode.GET_CONSUMER_RUNNING_INFO,
    RequestCode.CONSUME_MESSAGE_DIRECTLY,
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
)
SEND_S: Final = 3.0
SCENARIO_S: Final = 20.0
"""Seconds of processor time of a scenario, on the machine for which bounds are meant."""
SCENARIO_BYTES: Final = 256 << 20


class Hostile:
    """Spoils answers, by a seed."""

    def __init__(self, seed: int, share: float) -> None:
        self.rng = random.Random(seed)
        self._share = share

    def pieces(self, reply: Frame) -> Iterator[bytes]:
        """Yield what is sent in place of an answer."""
        rng = self.rng
        if rng.random() > self._share:
            yield encode_frame(reply)
            return
        kind = rng.randrange(10)
        data = encode_frame(reply)
        if kind == 0:
            yield encode_frame(msgspec.structs.replace(reply, opaque=rng.randrange(2**31)))
        elif kind == 1:
            yield data[: rng.randrange(len(data))]
        elif kind == 2:
            at = rng.randrange(len(data))
            yield data[:at] + rng.randbytes(1) + data[at + 1 :]
        elif kind == 3:
            yield rng.choice((b"\x7f\xff\xff\xff", b"\0\0\0\x10\0\0\0\xff", rng.randbytes(100)))
        elif kind == 4:
            yield encode_frame(msgspec.structs.replace(reply, code=rng.choice(CODES)))
        elif kind == 5:
            yield from (data, data)
        elif kind == 6:
            yield encode_frame(self._with_fields(reply))
        elif kind == 7:
            yield encode_frame(msgspec.structs.replace(reply, body=self._body(reply.body)))
        elif kind == 8:
            code, body = rng.choice(TO_CLIENTS), spoiled_body(rng)
            fields = {name: text(rng)[:1000] for name in ("consumerGroup", "topic", "group")}
            with suppress(ValueError):  # one that cannot be written
                yield encode_frame(request(code, fields, body, opaque=rng.randrange(2**31)))
            yield data

    def _with_fields(self, reply: Frame) -> Frame:
        rng, fields = self.rng, dict(reply.fields)
        for name in [*fields, "nextBeginOffset", "offset", "suggestWhichBrokerId"]:
            if rng.random() < 0.5:
                made = rng.choice((*COUNTS, "-1", "9223372036854775807", "x", ""))
                fields[name] = made
            elif rng.random() < 0.3:
                fields.pop(name, None)
        return msgspec.structs.replace(reply, fields=fields)

    def _body(self, body: bytes) -> bytes:
        rng = self.rng
        if body[:1] == b"{" and rng.random() < 0.7:
            return json.dumps(changed(fastjson.loads(body), rng)).encode()
        if body and rng.random() < 0.7:
            at = rng.randrange(len(body))
            return body[:at] + rng.randbytes(4) + body[at + 4 :]
        return spoiled_body(rng)


@pytest.fixture
def spoil(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, float], None]:
    """``spoil(seed, share)``: so much of all answers is spoiled from now on."""

    def begin(seed: int, share: float) -> None:
        hostile = Hostile(seed, share)

        def post(peer: Peer, frame: Frame) -> None:
            for piece in hostile.pieces(frame):
                peer._outgoing += piece
            peer._more.set()

        monkeypatch.setattr(Peer, "post", post)
        monkeypatch.setattr(Peer, "answered", lambda peer, frame: None)

    return begin


@contextmanager
def bounded() -> Iterator[None]:
    """Assert that the block takes no more memory and processor time than a scenario may."""
    tracemalloc.start()
    begun_s = time.thread_time()
    try:
        yield
        took_s, (_, peak_bytes) = time.thread_time() - begun_s, tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes <= SCENARIO_BYTES
    assert took_s <= SCENARIO_S * slowness()


async def within(seconds: float, call: Callable[[], Awaitable[object]]) -> None:
    """Assert that a call ends in time, by a result or by an error of lanemq's."""
    with trio.fail_after(seconds), suppress(LanemqError):
        await call()


SEEDS: Final = range(4)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("share", [0.3, 1.0])
async def test_a_producer_survives_what_servers_answer(
    cluster: FakeCluster,
    autojump_clock: MockClock,
    spoil: Callable[[int, float], None],
    seed: int,
    share: float,
) -> None:
    cluster.create_topic("T", 4)
    spoil(seed, share)
    with bounded():
        async with producer_of(cluster, send_timeout_s=SEND_S) as producer:
            for number in range(20):
                message = Message(topic="T", body=b"%d" % number)
                await within(SEND_S + 0.5, partial(producer.send, message))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("share", [0.3, 1.0])
async def test_a_push_consumer_survives_what_servers_answer(
    cluster: FakeCluster,
    autojump_clock: MockClock,
    spoil: Callable[[int, float], None],
    seed: int,
    share: float,
) -> None:
    cluster.create_topic("T", 4)
    for number in range(100):
        cluster.brokers[0].put("T", number % 4, b"%d" % number)

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        assert all(message.topic for message in messages)

    async def consume() -> None:
        async with push_consumer_of(cluster, handle):
            await trio.sleep(120)

    spoil(seed, share)
    with bounded():
        await within(300, consume)


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_lite_pull_consumer_survives_what_servers_answer(
    cluster: FakeCluster,
    autojump_clock: MockClock,
    spoil: Callable[[int, float], None],
    seed: int,
) -> None:
    cluster.create_topic("T", 4)
    for number in range(100):
        cluster.brokers[0].put("T", number % 4, b"%d" % number)

    async def consume() -> None:
        async with lite_pull_consumer_of(cluster) as consumer:
            await consumer.subscribe("T")
            for _ in range(20):
                await within(5.5, lambda: consumer.poll(5.0))

    spoil(seed, 0.5)
    with bounded():
        await within(300, consume)


QUEUES: Final = {
    "very many queues": [QueueData("broker-a", 2 * 10**9, 2 * 10**9, 6)],
    "negative numbers": [QueueData("broker-a", -1, -(2**31), 6)],
    "very many brokers": [QueueData(f"broker-{number}", 2048, 2048, 6) for number in range(5000)],
    "one broker many times": [QueueData("broker-a", 2048, 2048, 6)] * 5000,
}


@pytest.mark.parametrize("kind", QUEUES)
async def test_a_route_of_any_size_is_used_in_bounds(
    cluster: FakeCluster, autojump_clock: MockClock, kind: str
) -> None:
    cluster.create_topic("T", 1)
    address = cluster.brokers[0].address
    names = sorted({queues.broker_name for queues in QUEUES[kind]})
    brokers = tuple(BrokerData("c", name, {0: address}) for name in names)
    body = RouteData(tuple(QUEUES[kind]), brokers).encode()
    for node in cluster.nodes.values():
        node.handlers[RequestCode.GET_ROUTEINFO_BY_TOPIC] = lambda frame, _: frame.reply(body=body)
    with bounded():
        async with producer_of(cluster, send_timeout_s=SEND_S) as producer:
            for _ in range(3):
                await within(SEND_S + 0.5, partial(producer.send, Message(topic="T", body=b"x")))


async def test_redirects_without_end_do_not_hold_a_consumer(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 4)
    broker, asked = cluster.brokers[0], 0

    def moved(frame: Frame, peer: Peer) -> Frame:
        nonlocal asked
        asked += 1
        fields = {"suggestWhichBrokerId": str(asked % 9), "nextBeginOffset": str(asked)}
        fields |= {"minOffset": "0", "maxOffset": "9223372036854775807"}
        return frame.reply(ResponseCode.PULL_OFFSET_MOVED, fields)

    broker.handlers[RequestCode.PULL_MESSAGE] = moved
    broker.waiters.pop(RequestCode.PULL_MESSAGE, None)

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        raise AssertionError("there are no messages")

    with bounded():
        async with push_consumer_of(cluster, handle):
            await trio.sleep(30)
    assert asked < 4000


@pytest.fixture
def many(cluster: FakeCluster) -> Callable[[int], None]:
    """``many(pulls)``: the next answers with a message have it 5000 times."""
    broker, left = cluster.brokers[0], 0
    honest = broker.waiters[RequestCode.PULL_MESSAGE]

    async def pull(frame: Frame, peer: Peer) -> Frame | None:
        nonlocal left
        reply = await honest(frame, peer)
        if not left or reply is None or not reply.body:
            return reply
        left -= 1
        return msgspec.structs.replace(reply, body=reply.body * 5000)

    def begin(pulls: int) -> None:
        nonlocal left
        left = pulls

    broker.waiters[RequestCode.PULL_MESSAGE] = pull
    cluster.create_topic("T", 1)
    broker.put("T", 0, b"x")
    return begin


async def test_clearly_more_messages_than_asked_for_are_no_answer_to_a_pull(
    cluster: FakeCluster, autojump_clock: MockClock, many: Callable[[int], None]
) -> None:
    queue, address = MessageQueue("T", "broker-a", 0), cluster.brokers[0].address
    many(3)
    async with (
        open_puller("g", name_servers=cluster.name_servers, dial=cluster.dial) as puller,
        open_admin(name_servers=cluster.name_servers, dial=cluster.dial) as admin,
    ):
        await puller.queues_of("T")
        with pytest.raises(BadAnswer, match="where 32 were asked for"):
            await puller.pull(queue, 0, tags="*", max_count=32, timeout_s=5.0)
        with pytest.raises(BadAnswer, match="where 32 were asked for"):
            await admin.pull(address, queue, 0)
        with pytest.raises(BadAnswer, match="where 32 were asked for"):
            await admin.pull_records(address, queue, 0)
        assert len((await admin.pull(address, queue, 0)).messages) == 1
        many(1)  # it is whoever asks that says what is too much
        pulled = await puller.pull(queue, 0, tags="*", max_count=5000, timeout_s=5.0)
        assert len(pulled.messages) == 5000


async def test_a_consumer_goes_on_behind_an_answer_of_too_many_messages(
    cluster: FakeCluster, autojump_clock: MockClock, many: Callable[[int], None]
) -> None:
    seen: list[bytes] = []

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        seen.extend(message.body for message in messages)

    async with push_consumer_of(cluster, handle):
        await trio.sleep(30)
        many(2)
        cluster.brokers[0].put("T", 0, b"y")
        await trio.sleep(60)
    assert seen == [b"y"]


@pytest.mark.parametrize("unique", [False, True])
async def test_an_answer_to_a_query_is_looked_at_in_short_turns(
    cluster: FakeCluster, autojump_clock: MockClock, unique: bool
) -> None:
    cluster.create_topic("T", 1)
    broker, me, turns, count = cluster.brokers[0], trio.lowlevel.current_task(), 0, 5000
    broker.put("T", 0, b"other")
    broker.put("T", 0, b"x", KEYS="k", UNIQ_KEY="k")
    other, wanted = map(encode_message, broker.messages("T"))
    body = (other * 9 + wanted) * (count // 10)
    broker.handlers[RequestCode.QUERY_MESSAGE] = lambda frame, _: frame.reply(body=body)

    class Turns(trio.abc.Instrument):
        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            nonlocal turns
            turns += task is me

    async with open_admin(name_servers=cluster.name_servers, dial=cluster.dial) as admin:
        trio.lowlevel.add_instrument(instrument := Turns())
        found = await admin.query(broker.address, "T", "k", unique=unique)
        trio.lowlevel.remove_instrument(instrument)
    assert [message.body for message in found] == [b"x"] * (count // 10)
    assert turns >= len(body) // (32 << 10) - 1, "all in one turn"
