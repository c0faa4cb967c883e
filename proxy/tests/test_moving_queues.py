"""Queues that move, in one process: waiting requests, leases, messages left behind."""

import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from math import inf
from types import SimpleNamespace
from typing import Any, Final, cast

import msgspec
import pytest
import trio
from msgspec.structs import replace
from trio.testing import MockClock

from lanemq.proxy.gateway._asked import ASKED_MAX, Asked
from lanemq.proxy.gateway.kv import make_keys
from lanemq.proxy.gateway.moves import LeftBehind, MovedRequests, MovingQueues
from lanemq.proxy.gateway.moves._context import MoveContext, MoveRefused
from lanemq.proxy.gateway.moves._handover import Handover
from lanemq.proxy.gateway.moves._lease import (
    LEASES,
    RENEW_S,
    TTL_S,
    URGENT_S,
    Lease,
    decode_lease,
    leases_in,
)
from lanemq.proxy.gateway.moves._lease import SURE_S as TRUSTED_S
from lanemq.proxy.gateway.moves._left import DOUBT_S, SURE_S
from lanemq.proxy.gateway.moves._left_progress import LEFT
from lanemq.proxy.gateway.moves._links import SideLinks
from lanemq.proxy.gateway.moves._lost import LostTails
from lanemq.proxy.gateway.moves._messages import Onward
from lanemq.proxy.gateway.moves._move_brokers import BrokersOfMove, check_kind, has_dispatched
from lanemq.proxy.gateway.moves._mover import Move
from lanemq.proxy.gateway.moves._numbers import Note
from lanemq.proxy.gateway.moves._offsets import answered
from lanemq.proxy.gateway.moves._queues import RELEASED_MAX, TICK_S
from lanemq.proxy.gateway.moves._resends import AGAIN_MS, ASK_S, PROPERTY, mark_of, sent_again
from lanemq.proxy.gateway.moves._serving import (
    COSTS,
    HELD_MAX,
    RAW_LOOKED_MAX,
    UNDONE_MAX,
    Held,
    Serving,
    carried_out,
)
from lanemq.proxy.gateway.moves._stands import Stand, stand_key
from lanemq.proxy.gateway.order import MovedQueue, Part, QueueOrder, QueueOrders, SeenQueue
from lanemq.sdk import RefusedByBroker, RemotingClient, RequestTimedOut
from lanemq.testkit.calls import calls_of_steps
from lanemq.testkit.proxy.upstream_log import UpstreamLog
from lanemq.testkit.reading_time import slowness, time_s
from lanemq.testkit.suspensions import suspending
from lanemq.wire import HostAddress, Permission, Refused, RequestCode, ResponseCode
from lanemq.wire.bodies import (
    ClientConnection,
    ConsumerConnection,
    LostPart,
    SubscriptionData,
    TopicConfig,
)
from lanemq.wire.frame import Frame, SerializeType, request
from lanemq.wire.message import StoredMessage, decode_messages, encode_properties, encode_record

Code = RequestCode
A: Final = "a"
B: Final = "b"
FIRST: Final = (A, 0)
HOST: Final = HostAddress("10.0.0.1", 1).packed
KEY: Final = "UNIQ_KEY"
STORED_MS: Final = "stored"


def order_of(*parts: Part, target: Part | None = None, is_sealing: bool = False) -> QueueOrder:
    """Return an order with one queue, which has moved."""
    kept = [part.place for part in parts[1:]] + ([] if target is None else [target.place])
    moved = MovedQueue(parts, target, is_sealing)
    return QueueOrder(((A, 1),), (), (moved,), tuple(kept))


MOVED: Final = order_of(Part(*FIRST, 0), Part(B, 0))


async def until(condition: Callable[[], object], seconds: float = 5.0) -> None:
    """Wait until a condition holds. Raises ``trio.TooSlowError``."""
    with trio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110 - others decide when
            await trio.sleep(0.01)


class Session:
    """A client's connection."""

    def __init__(self, host: str = "10.1.1.1") -> None:
        self.peer = HostAddress(host, 40_001)
        self.closed = False
        self.on_close: list[object] = []
        self.attributes: dict[str, object] = {}
        self.charged_bytes = 0
        self.sent: list[Frame] = []
        self.account = SimpleNamespace(add=self._charge)

    def _charge(self, count: int) -> None:
        self.charged_bytes += count

    def send_all(self, frames: Sequence[Frame]) -> None:
        self.sent += frames


@asynccontextmanager
async def moving_at(
    log: UpstreamLog, name: str = "p", seed: int = 0
) -> AsyncIterator[MovingQueues]:
    """Run what one process has of queues that move, over a log of orders."""
    async with trio.open_nursery() as nursery:
        keys = make_keys(
            [log.queue(nursery)],
            [log.snapshots.queue(nursery)],
            namespace="queues",
            rng=random.Random(f"{name}{seed}"),
        )
        orders = QueueOrders(keys, settle_s=0)
        moving = MovingQueues(orders, name, nursery=nursery, links_to=lambda _: ())
        for run in (orders.run, moving.lease.run, moving.run):
            nursery.start_soon(run)
        await moving.lease.granted.wait()
        yield moving
        nursery.cancel_scope.cancel()


@pytest.fixture
def log() -> UpstreamLog:
    return UpstreamLog(random.Random(1))


async def put(moving: MovingQueues, order: QueueOrder, topic: str = "T") -> None:
    await moving.orders.keys.put(b"topic/" + topic.encode(), order.encode())
    moving.refresh()


class Brokers:
    """Brokers with queues of messages, as a client that asks them."""

    def __init__(self) -> None:
        self.queues: dict[tuple[str, str, int], list[tuple[bytes, Mapping[str, str]]]] = {}
        self.pulls = 0
        self.pull_s = 0.0
        self.least = 0
        """The first offset that there is of any queue."""
        self.refuses: Callable[[bytes], bool] = lambda _: False
        self.hung: set[str] = set()
        """Those that answer no questions for messages."""
        self.queries: list[str] = []

    def of(self, broker: str, topic: str, queue_id: int) -> list[tuple[bytes, Mapping[str, str]]]:
        return self.queues.setdefault((broker, topic, queue_id), [])

    async def call(
        self, address: str, frame: Frame, timeout_s: float = 3.0, *, accept: object = ()
    ) -> Frame:
        await trio.sleep(0.001)
        if frame.code == Code.SEND_MESSAGE_V2:
            if self.refuses(frame.body):
                raise RefusedByBroker(ResponseCode.SYSTEM_BUSY, "not now", address)
            properties = dict(
                one.split("\x01", 1) for one in frame.fields["i"].split("\x02") if one
            )
            queue = self.of(address, frame.fields["b"], int(frame.fields["e"]))
            queue.append((frame.body, properties))
            return frame.reply()
        topic = frame.fields["topic"]
        if frame.code == Code.QUERY_MESSAGE:
            self.queries.append(address)
            if address in self.hung:
                await trio.sleep(timeout_s)
                raise RequestTimedOut(address, frame.code, timeout_s)
            return self._found(address, topic, frame)
        queue_id = int(frame.fields["queueId"])
        queue = self.of(address, topic, queue_id)
        if frame.code == Code.GET_MAX_OFFSET:
            return frame.reply(fields={"offset": str(len(queue))})
        self.pulls += 1
        await trio.sleep(self.pull_s)
        at = int(frame.fields["queueOffset"])
        if at < self.least:
            fields = {"nextBeginOffset": str(self.least)}
            return replace(frame.reply(ResponseCode.PULL_OFFSET_MOVED), fields=fields)
        found = queue[at : at + 32]
        body = b"".join(record(at + n, *one, topic, queue_id) for n, one in enumerate(found))
        return frame.reply(fields={"nextBeginOffset": str(at + len(found))}, body=body)

    def _found(self, address: str, topic: str, frame: Frame) -> Frame:
        assert frame.fields["_UNIQUE_KEY_QUERY"] == "true"
        begin_ms, end_ms = (int(frame.fields[f"{one}Timestamp"]) for one in ("begin", "end"))
        found = [
            record(at, *one, topic, queue_id)
            for (broker, its, queue_id), queue in self.queues.items()
            for at, one in enumerate(queue)
            if (broker, its, one[1].get(KEY)) == (address, topic, frame.fields["key"])
            and begin_ms <= stored_ms(one[1]) <= end_ms
        ]
        code = ResponseCode.SUCCESS if found else ResponseCode.QUERY_NOT_FOUND
        return replace(frame.reply(code), body=b"".join(found))


def stored_ms(properties: Mapping[str, str]) -> int:
    """Return when a broker has stored a message, here told by a property."""
    return int(properties.get(STORED_MS, "2"))


def record(
    offset: int, body: bytes, properties: Mapping[str, str], topic: str = "T", queue_id: int = 0
) -> bytes:
    return encode_record(
        topic=topic.encode(),
        body=body,
        properties=encode_properties(properties),
        queue_id=queue_id,
        flag=0,
        queue_offset=offset,
        log_position=offset,
        sys_flag=0,
        born_timestamp_ms=1,
        born_host=HOST,
        store_timestamp_ms=stored_ms(properties),
        store_host=HOST,
    )


def left_at(moving: MovingQueues, brokers: Brokers) -> LeftBehind:
    return LeftBehind(moving, cast(RemotingClient, brokers), lambda name: name)


async def doubt(moving: MovingQueues, topic: str = "T") -> None:
    """Write down that a process was about to send the first message, and say no more."""
    entry = f'[0,0,["{B}",0]]'.encode()
    await moving.orders.keys.put(LEFT + f"{topic}/{A}/0".encode(), entry)


async def test_of_many_processes_one_sends_again_and_a_doubt_holds_up_nothing_else(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    brokers = Brokers()
    for topic in ("S", "T", "U"):
        brokers.of(A, topic, 0).append((b"left", {}))
    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(_look, log, f"p{number}", brokers)
        async with moving_at(log, "first") as moving:
            await doubt(moving, "T")
            await moving.orders.keys.put(LEFT + b"S/a/0", b"no place")
            for topic in ("S", "T", "U"):
                await put(moving, MOVED, topic)
            begun_s = trio.current_time()
            await until(lambda: brokers.of(B, "U", 0), DOUBT_S / 2)
            await until(lambda: brokers.of(B, "T", 0), 1.5 * DOUBT_S)
            assert trio.current_time() - begun_s >= DOUBT_S
            await trio.sleep(3 * DOUBT_S)
        nursery.cancel_scope.cancel()
    assert [len(brokers.of(B, topic, 0)) for topic in ("S", "T", "U")] == [0, 1, 1]


async def _look(log: UpstreamLog, name: str, brokers: Brokers) -> None:
    async with moving_at(log, name) as moving:
        await left_at(moving, brokers).run()


async def test_a_long_search_is_done_once_and_its_end_is_written_down(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    brokers = Brokers()
    brokers.of(A, "T", 0).append((b"left", {}))
    mark = {PROPERTY: mark_of(Part(*FIRST, 0), 0)}
    brokers.of(B, "T", 0).extend([(b"x", {})] * 640 + [(b"left", mark)])
    brokers.pull_s = 1.0
    async with moving_at(log, "p") as moving, trio.open_nursery() as nursery:
        await doubt(moving)
        await put(moving, MOVED)
        nursery.start_soon(left_at(moving, brokers).run)
        key = LEFT + b"T/a/0"

        def is_written() -> bool:
            entry = moving.orders.keys.get(key)
            return entry is not None and entry.value.startswith(b"[1,-1,")

        assert 21 * brokers.pull_s > SURE_S
        await until(is_written, DOUBT_S + 21 * brokers.pull_s + SURE_S)
        assert brokers.pulls == 21
        nursery.cancel_scope.cancel()
    assert len(brokers.of(B, "T", 0)) == 641


def keyed(*keys: str) -> list[tuple[bytes, Mapping[str, str]]]:
    return [(key.encode(), {KEY: key}) for key in keys]


@pytest.mark.parametrize("is_after_a_crash", [False, True])
async def test_a_message_that_its_client_has_sent_again_is_passed_over(
    is_after_a_crash: bool, log: UpstreamLog, autojump_clock: MockClock
) -> None:
    """In the next part, in one that has ended since, or behind the same end; also where a process
    has died with the message on its way."""
    brokers = Brokers()
    brokers.of(A, "T", 0).extend(keyed("old", "0", "1", "2", "3", "4", "4"))
    brokers.of(B, "T", 0).extend(keyed("x", "0", "3"))
    brokers.of(A, "T", 1).extend(keyed("2"))
    moved = order_of(Part(*FIRST, 1), Part(B, 0, 2), Part(A, 1))
    async with moving_at(log, "p") as moving, trio.open_nursery() as nursery:
        if is_after_a_crash:
            await moving.orders.keys.put(LEFT + b"T/a/0", f'[1,0,["{A}",1]]'.encode())
        await put(moving, moved)
        left = left_at(moving, brokers)
        nursery.start_soon(left.run)

        def is_settled() -> bool:
            entry = moving.orders.keys.get(LEFT + b"T/a/0")
            return entry is not None and entry.value.startswith(b"[7,-1,")

        await until(is_settled, 2 * DOUBT_S)
        nursery.cancel_scope.cancel()
    bodies = [body for body, _ in brokers.of(A, "T", 1)]
    assert sorted(bodies) == [b"1", b"2", b"3", b"4"]  # that behind B's own end is left behind too
    assert (left.sent, left.passed_over) == (3, 4)


async def test_only_what_was_sent_at_about_the_same_time_was_sent_again(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    """An application may send one object of its client's again and again, with one key."""
    begun_ms, brokers = 10 * AGAIN_MS, Brokers()

    def at(key: str, after_ms: int) -> tuple[bytes, Mapping[str, str]]:
        return key.encode(), {KEY: key, STORED_MS: str(begun_ms + after_ms)}

    afters_ms = {"a": -AGAIN_MS - 1, "b": -AGAIN_MS, "c": AGAIN_MS, "d": AGAIN_MS + 1}
    brokers.of(A, "T", 0).extend(at(key, 0) for key in afters_ms)
    brokers.of(B, "T", 0).extend(at(*one) for one in afters_ms.items())
    async with moving_at(log, "p") as moving, trio.open_nursery() as nursery:
        await put(moving, MOVED)
        left = left_at(moving, brokers)
        nursery.start_soon(left.run)
        await until(lambda: left.sent + left.passed_over == 4)
        nursery.cancel_scope.cancel()
    assert [body for body, _ in brokers.of(B, "T", 0)[4:]] == [b"a", b"d"]


async def test_a_broker_of_a_middle_part_that_hangs_holds_up_no_message(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    """Many of them together take longer than a proxy is the one that may send."""
    brokers = Brokers()
    brokers.of(A, "T", 0).extend(keyed("0", "1", "2"))
    brokers.of(B, "T", 0).extend(keyed("1"))
    middle = [f"m{number}" for number in range(4)]
    assert len(middle) * ASK_S > SURE_S
    brokers.hung.update(middle)
    ended = [Part(name, 0, 0) for name in middle]
    async with moving_at(log, "p") as moving, trio.open_nursery() as nursery:
        await put(moving, order_of(Part(*FIRST, 0), *ended, Part(B, 0)))
        left = left_at(moving, brokers)
        nursery.start_soon(left.run)
        await until(lambda: left.sent + left.passed_over == 3, DOUBT_S)
        nursery.cancel_scope.cancel()
    assert [body for body, _ in brokers.of(B, "T", 0)] == [b"1", b"0", b"2"]
    assert [brokers.queries.count(name) for name in middle] == [1] * len(middle)


async def test_a_message_waits_for_what_the_broker_of_the_open_end_has(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    brokers = Brokers()
    brokers.of(A, "T", 0).extend(keyed("0"))
    brokers.of(B, "T", 0).extend(keyed("0"))
    brokers.hung.add(B)
    async with moving_at(log, "p") as moving, trio.open_nursery() as nursery:
        await put(moving, MOVED)
        left = left_at(moving, brokers)
        nursery.start_soon(left.run)
        await until(lambda: len(brokers.queries) > 3, DOUBT_S)
        assert (left.sent, left.passed_over) == (0, 0)
        brokers.hung.clear()
        await until(lambda: left.passed_over == 1, DOUBT_S)
        nursery.cancel_scope.cancel()
    assert not left.sent


async def test_what_only_looks_like_a_message_that_was_sent_again_is_not_passed_over(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    brokers = Brokers()
    waited = (b"late", {KEY: "1", "REAL_TOPIC": "T"})
    without: tuple[bytes, Mapping[str, str]] = (b"x", {})
    brokers.of(A, "T", 0).extend([*keyed("0"), waited, without, *keyed("2")])
    there = [(b"other", {KEY: "0"}), (b"late", {KEY: "1"}), without]
    brokers.of(B, "T", 0).extend(there)
    brokers.of(B, "T", 1).extend(keyed("2"))
    brokers.of(B, "U", 0).extend(keyed("0"))
    async with moving_at(log, "p") as moving, trio.open_nursery() as nursery:
        await put(moving, MOVED)
        left = left_at(moving, brokers)
        nursery.start_soon(left.run)
        await until(lambda: left.sent == 4)
        nursery.cancel_scope.cancel()
    assert [body for body, _ in brokers.of(B, "T", 0)[3:]] == [b"0", b"late", b"x", b"2"]


async def test_a_message_that_is_refused_is_tried_again_at_once_and_named_once(
    log: UpstreamLog, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    brokers = Brokers()
    brokers.of(A, "T", 0).extend([(b"0", {}), (b"1", {})])
    tries: list[float] = []

    def refuses(body: bytes) -> bool:
        tries.append(trio.current_time())
        return body == b"1" and len(tries) < 6

    brokers.refuses = refuses
    async with moving_at(log, "p") as moving, trio.open_nursery() as nursery:
        await put(moving, MOVED)
        nursery.start_soon(left_at(moving, brokers).run)
        with caplog.at_level(logging.WARNING):
            await until(lambda: len(brokers.of(B, "T", 0)) == 2, DOUBT_S / 2)
        nursery.cancel_scope.cancel()
    assert [body for body, _ in brokers.of(B, "T", 0)] == [b"0", b"1"]
    assert sum("from its message 1 on" in one.message for one in caplog.records) == 1


async def test_a_part_that_gets_more_and_more_holds_up_no_other_one(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    brokers = Brokers()
    late = brokers.of(A, "T", 0)
    late.append((b"0", {}))
    brokers.of(A, "U", 0).append((b"left", {}))

    def refuses(body: bytes) -> bool:
        if body != b"left":
            late.append((b"%d" % len(late), {}))
        return False

    brokers.refuses = refuses
    async with moving_at(log, "p") as moving, trio.open_nursery() as nursery:
        for topic in ("T", "U"):
            await put(moving, MOVED, topic)
        nursery.start_soon(left_at(moving, brokers).run)
        await until(lambda: brokers.of(B, "U", 0) and len(brokers.of(B, "T", 0)) > 10, DOUBT_S)
        nursery.cancel_scope.cancel()


async def test_a_part_whose_broker_has_lost_its_end_is_named_once(
    log: UpstreamLog, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    brokers = Brokers()
    kept = brokers.of(A, "T", 0)
    kept.extend([(b"x", {})] * 3)
    moved = order_of(Part(*FIRST, 5), Part(B, 0))
    async with moving_at(log, "p") as moving, trio.open_nursery() as nursery:
        await put(moving, moved)
        nursery.start_soon(left_at(moving, brokers).run)
        await trio.sleep(10)
        said = "ended at 5 when it moved on, and the broker has it up to 3 now"
        assert sum(said in one.message for one in caplog.records) == 1
        assert "seek to offset 5 of queue 0 of a," in caplog.text
        kept.extend([(b"x", {})] * 2)
        await trio.sleep(10)
        del kept[4:]
        await trio.sleep(10)
        assert sum("ended at 5" in one.message for one in caplog.records) == 2
        nursery.cancel_scope.cancel()


def lost_at(moving: MovingQueues, brokers: Brokers, *, passes: bool, away: str = "") -> LostTails:
    admin = cast(Any, Cluster())
    client = cast(RemotingClient, brokers)
    context = MoveContext(
        moving, client, admin, lambda name: None if name == away else name, list, str
    )
    return LostTails(context, A, passes=passes)


async def test_what_a_broker_has_lost_is_shown_and_passed_over_once_somebody_says_so(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    brokers = Brokers()
    kept = brokers.of(A, "T", 0)
    kept.extend([(b"x", {})] * 3)
    brokers.of(A, "U", 0).extend([(b"x", {})] * 5)
    ended = order_of(Part(*FIRST, 5), Part(B, 0))
    async with moving_at(log, "p") as moving, trio.open_nursery() as nursery:
        for topic in ("T", "U"):
            await put(moving, ended, topic)
        nursery.start_soon(left_at(moving, brokers).run)
        shown = await lost_at(moving, brokers, passes=False).run()
        assert (shown.state, shown.parts) == ("shown", (LostPart("T", 0, 0, 3, 5),))
        with pytest.raises(MoveRefused, match="no master"):
            await lost_at(moving, brokers, passes=True, away=A).run()
        assert moving.orders.of("T") == ended
        passed = await lost_at(moving, brokers, passes=True).run()
        assert (passed.state, passed.parts) == ("passed", shown.parts)
        assert moving.now("T", FIRST).parts[0] == Part(*FIRST, 5, 2)
        assert moving.now("T", FIRST).begins == (0, 5)
        assert moving.orders.of("U") == ended
        assert not (await lost_at(moving, brokers, passes=True).run()).parts
        # A message that comes in place of a lost one is behind the end.
        kept.append((b"late", {}))
        await until(lambda: [body for body, _ in brokers.of(B, "T", 0)] == [b"late"])
        del kept[1:]
        assert (await lost_at(moving, brokers, passes=True).run()).parts == (
            LostPart("T", 0, 0, 1, 3),
        )
        assert moving.now("T", FIRST).parts[0] == Part(*FIRST, 5, 4)
        nursery.cancel_scope.cancel()


async def test_a_pull_that_waits_at_what_is_lost_goes_on_at_once(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    brokers = Brokers()
    brokers.of(A, "T", 0).extend([(b"x", {})] * 3)
    async with moving_at(log) as moving:
        await put(moving, order_of(Part(*FIRST, 5), Part(B, 0)))
        session = Session()
        links = SideLinks(cast(Any, session), moving, lambda _: 0)
        frame = request(Code.PULL_MESSAGE, {}, opaque=7)
        note = Note(frame, "T", SeenQueue(*FIRST), FIRST, 0, 3, is_plain=True)
        links.ask(frame, note)
        await trio.sleep(1)
        assert not session.sent
        await lost_at(moving, brokers, passes=True).run()
        await until(lambda: session.sent, 1.0)
        (answer,) = session.sent
        assert (answer.opaque, answer.code) == (7, ResponseCode.PULL_RETRY_IMMEDIATELY)
        assert answer.fields["nextBeginOffset"] == "5"


async def test_what_is_deleted_before_it_was_sent_is_in_the_log(
    log: UpstreamLog, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    brokers = Brokers()
    brokers.of(A, "T", 0).extend([(b"%d" % n, {}) for n in range(5)])
    brokers.least = 3
    async with moving_at(log, "p") as moving, trio.open_nursery() as nursery:
        await put(moving, MOVED)
        nursery.start_soon(left_at(moving, brokers).run)
        await until(lambda: len(brokers.of(B, "T", 0)) == 2, DOUBT_S)
        nursery.cancel_scope.cancel()
    assert [body for body, _ in brokers.of(B, "T", 0)] == [b"3", b"4"]
    assert "is deleted there from message 0 to 2" in caplog.text


class Dropping:
    """The links of a client, which knows of very many pulls."""

    def __init__(self, moving: MovingQueues) -> None:
        self._moving = moving
        self.notes: dict[int, Note] = {}
        self.dropped: list[int] = []

    def ask(self, part: int, offset: int, count: int) -> None:
        for _ in range(count):
            opaque = len(self.notes)
            frame, seen = request(Code.PULL_MESSAGE, {}), SeenQueue(A, 0)
            note = Note(frame, "T", seen, FIRST, part, offset, is_plain=True)
            self.notes[opaque] = note
            self._moving.sent(cast(Any, self), opaque, note)

    def drop(self, opaque: int) -> None:
        self.dropped.append(opaque)
        self._moving.answered(cast(Any, self), opaque, self.notes[opaque])


async def test_very_many_pulls_of_a_queue_that_moves_are_looked_at_once_and_in_turns(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    """All of them were looked at in each tick, and answered in one turn."""
    number = 20 * RELEASED_MAX
    async with moving_at(log, "p") as moving:
        await put(moving, order_of(Part(*FIRST, 3), Part(B, 0), target=Part(A, 1)))
        links = Dropping(moving)
        links.ask(1, 0, number)
        await moving.orders.keys.put(
            b"topic/T", order_of(Part(*FIRST, 3), Part(B, 0, 0), Part(A, 1)).encode()
        )
        with calls_of_steps() as steps:
            moving.refresh()
            await until(lambda: len(links.dropped) == number)
        assert links.dropped == list(range(number))
        assert steps.most <= 30 * RELEASED_MAX
        links.ask(2, 0, number)
        serving = moving._serving["T", FIRST]
        serving.floor = 0  # as while something is under way
        parked: Any = RawLink({1: Code.PULL_MESSAGE})
        serving.raw[parked] = 0
        with calls_of_steps() as steps:
            moving._active.set()
            await trio.sleep(10 * TICK_S)
        assert steps.most <= 10 * RELEASED_MAX
        assert len(links.dropped) == number


def test_a_message_is_sent_again_without_a_topic_being_made_for_it() -> None:
    (stored,) = decode_messages(record(3, b"x", {"DELAY": "3", "K": "v"}))
    assert isinstance(stored, StoredMessage)
    frame = sent_again(stored, Part(*FIRST, 0), Part(B, 2))
    assert [frame.fields[name] for name in "bce"] == ["T", "T", "2"]
    assert "DELAY" not in frame.fields["i"]


async def test_a_topic_whose_order_cannot_be_read_is_refused_and_no_other_one(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    async with moving_at(log) as moving:
        await put(moving, MOVED)
        await put(moving, MOVED, "U")
        await moving.orders.keys.put(b"topic/T", b"[")
        with pytest.raises(Refused, match="cannot read") as refused:
            moving.check_lease("T")
        assert refused.value.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert moving.now("T", FIRST) == MOVED.moved[0]  # it has not gone back
        moving.check_lease("U")
        await put(moving, MOVED)
        moving.check_lease("T")
        assert moving.has_any


async def test_requests_for_a_part_that_is_gone_are_refused(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    """The log of orders was begun again, and has the queue where it first was."""
    async with moving_at(log) as moving:
        await put(moving, MOVED)
        session = Session()
        links = SideLinks(cast(Any, session), moving, lambda _: 0)
        place = SeenQueue(*FIRST)
        for opaque, offset in ((1, 0), (2, -1), (3, 0)):
            frame = request(Code.PULL_MESSAGE, {"x": "y"}, opaque=opaque)
            note = Note(replace(frame, fields={}), "T", place, FIRST, 1, offset, is_plain=True)
            links.ask(frame, note)
        await moving.orders.keys.delete(b"topic/T")
        await until(lambda: len(session.sent) == 2)  # pulls wait where nothing comes any more
        links.receive([request(Code.SEND_MESSAGE, {"queueOffset": "1"}, opaque=2).reply()])
        assert sorted(one.opaque for one in session.sent) == [1, 2, 3]
        assert {one.code for one in session.sent} == {ResponseCode.SERVICE_NOT_AVAILABLE}
        assert session.charged_bytes == 0
        moving.check_lease("T")  # all goes on


async def test_a_queue_that_fails_holds_up_neither_others_nor_the_proxy(
    log: UpstreamLog, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Frame, __: object) -> None:
        raise IndexError("a bug")

    taken: list[int] = []
    async with moving_at(log) as moving:
        sealed = order_of(Part(*FIRST), target=Part(B, 0), is_sealing=True)
        for topic in ("T", "U"):
            await put(moving, sealed, topic)
        for topic, again in (("T", fail), ("U", lambda frame, _: taken.append(frame.opaque))):
            for opaque in range(3):
                frame = request(Code.SEND_MESSAGE, {}, opaque=opaque)
                held = Held(again, lambda _: None, cast(Any, Session()), frame, 1e9)
                moving.hold(topic, FIRST, held)
        for topic in ("T", "U"):
            await put(moving, order_of(Part(*FIRST), target=Part(B, 0)), topic)
        await until(lambda: len(taken) == 3)
        assert taken == [0, 1, 2]
        await trio.sleep(1)
        moving.check_lease("T")
    assert sum("a bug" in (one.exc_text or "") for one in caplog.records) == 1
    assert [log.follower.on_news for log in moving.orders.keys.logs] == [[moving.refresh]]


def test_connections_have_shares_of_the_places_for_requests_that_wait_for_a_queue() -> None:
    serving = Serving()
    of_host = {"10.9.9.9": [Session("10.9.9.9") for _ in range(30)], "10.1.1.1": [Session()]}
    held, frame = dict.fromkeys(of_host, 0), request(Code.SEND_MESSAGE, {})

    def hold(session: Session) -> None:
        serving.hold(Held(cast(Any, None), cast(Any, None), cast(Any, session), frame, 0.0))

    def fill(session: Session) -> None:
        for _ in range(HELD_MAX):
            hold(session)
            held[session.peer.host] += 1

    for sessions in of_host.values():
        for session in sessions:
            with pytest.raises(Refused, match=r"requests wait for .*, which moves") as refused:
                fill(session)
            assert refused.value.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert session.charged_bytes <= HELD_MAX // 4 * COSTS
    assert HELD_MAX * 0.74 < held["10.9.9.9"] <= HELD_MAX * 0.75 + 1
    assert held["10.1.1.1"] > HELD_MAX * 0.04
    while serving.held:
        serving.take_held()
    assert not any(one.charged_bytes for sessions in of_host.values() for one in sessions)
    hold(of_host["10.9.9.9"][0])


async def test_what_waits_is_charged_with_its_fields_and_taken_in_order_in_many_turns(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    session, taken, batches = Session(), list[int](), list[int]()
    count = 5 * RELEASED_MAX
    open_again = order_of(Part(*FIRST), target=Part(B, 0))

    def hold(opaque: int) -> None:
        frame = request(Code.SEND_MESSAGE, {"i": "p" * 50_000}, opaque=opaque)
        held = Held(again, lambda _: None, cast(Any, session), frame, 1e9)
        moving.hold("T", FIRST, held)

    def again(frame: Frame, _: object) -> None:
        assert not moving.is_waiting("T", FIRST, sends=True)
        if not taken:
            nursery.start_soon(between_turns, taken, batches, count, come)
        taken.append(frame.opaque)

    def come() -> None:
        assert moving.is_waiting("T", FIRST, sends=True)
        hold(count + len(batches))

    async with moving_at(log) as moving, trio.open_nursery() as nursery:
        await put(moving, order_of(Part(*FIRST), target=Part(B, 0), is_sealing=True))
        for opaque in range(count):
            hold(opaque)
        assert session.charged_bytes >= count * (COSTS + 50_000)
        await put(moving, open_again)
        await until(lambda: batches and len(taken) == count + len(batches))
    assert taken == [*range(count), *range(count + 1, count + 1 + len(batches))]
    assert len(batches) > 1
    assert session.charged_bytes == 0


async def between_turns(
    taken: list[int], batches: list[int], count: int, come: Callable[[], None]
) -> None:
    """Have another one come between turns: it waits behind the others."""
    while len(taken) < count:
        if not batches or batches[-1] != len(taken):
            batches.append(len(taken))
            come()
        await trio.lowlevel.checkpoint()


async def test_what_waits_when_a_move_is_called_off_is_taken_in_order_in_many_turns(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    session, taken, batches = cast(Any, Session()), list[int](), list[int]()
    count = 5 * RELEASED_MAX

    def ask(opaque: int, queue_id: int = 0) -> object:
        fields = {"topic": "T", "queueId": str(queue_id)}
        return requests.take(request(Code.SEND_MESSAGE, fields, opaque=opaque), session)

    def take_late(frame: Frame, _: object) -> None:
        assert isinstance(requests.take(frame, session), Onward)
        if not taken:
            nursery.start_soon(between_turns, taken, batches, count, come)
        taken.append(frame.opaque)

    def come() -> None:
        assert ask(count + len(batches)) is None
        assert isinstance(ask(0, queue_id=1), Onward), "others wait for nothing"

    port = SimpleNamespace(name=A, take_late=take_late)
    called_off = QueueOrder(((A, 2),))
    async with moving_at(log) as moving, trio.open_nursery() as nursery:
        requests = MovedRequests(
            cast(Any, port),
            moving,
            cast(RemotingClient, None),
            random.Random(1),
            address=lambda name: name,
            is_listed=lambda: True,
        )
        moved = order_of(Part(*FIRST), target=Part(B, 0), is_sealing=True)
        await put(moving, msgspec.structs.replace(moved, first=called_off.first))
        for opaque in range(count):
            assert ask(opaque) is None
        await put(moving, called_off)
        await until(lambda: batches and len(taken) == count + len(batches))
        assert isinstance(ask(0), Onward)
        assert not moving.called_off
    assert taken == [*range(count), *range(count + 1, count + 1 + len(batches))]
    assert len(batches) > 1


class RawLink:
    """A link over which requests go unchanged."""

    def __init__(self, asked: dict[int, int]) -> None:
        self.notes = Asked()
        for opaque, code in asked.items():
            self.notes.add(opaque, code, 0)
        self.mark, self.waits_since = self.notes.mark, self.notes.waits_since
        self.sends_since = self.notes.sends_since
        self.is_over = False


def test_sends_that_were_under_way_are_counted() -> None:
    one: Any = RawLink({1: Code.SEND_MESSAGE, 2: Code.PULL_MESSAGE, 3: Code.HEART_BEAT})
    two: Any = RawLink({1: Code.SEND_MESSAGE_V2, 2: Code.SEND_MESSAGE})
    serving = Serving()
    serving.begin((one, two))
    assert serving.raw_sends == 2
    one.notes.add(4, Code.SEND_MESSAGE, 0)
    one.notes.take(1)
    assert not serving.forget_settled(0.0)
    assert serving.raw_sends == 1
    two.is_over = True
    assert not serving.forget_settled(0.0)
    assert serving.raw_sends == 0
    assert serving.forget_settled(1000.0) == [one]
    assert not serving.raw


def test_a_look_asks_some_of_very_many_links_in_rotation() -> None:
    links: list[Any] = [RawLink({1: Code.PULL_MESSAGE}) for _ in range(3 * RAW_LOOKED_MAX)]
    sending: Any = RawLink({1: Code.SEND_MESSAGE})
    serving = Serving()
    serving.begin((*links, sending))
    asked: list[object] = []

    def waits_since(link: RawLink, mark: int) -> bool:
        asked.append(link)
        return link.notes.waits_since(mark)

    for link in links:
        link.waits_since = partial(waits_since, link)
    sending.notes.take(1)
    for looks in range(1, 4):
        assert not serving.forget_settled(0.0)
        assert len(asked) <= looks * RAW_LOOKED_MAX
        assert serving.raw_sends == 0  # at once: other sends wait for that
    assert set(asked) == set(links)
    links[5].notes.take(1)
    for _ in range(4):
        assert not serving.forget_settled(0.0)
    assert set(serving.raw) == {*links} - {links[5]}
    assert len(serving.forget_settled(1000.0)) == len(links) - 1
    assert not serving.raw


def test_what_is_under_way_since_a_mark_is_what_was_asked_before_and_not_answered() -> None:
    random_ = random.Random(5)
    asked, model, marks = Asked(), dict[int, int](), dict[int, dict[int, int]]()
    codes = (Code.SEND_MESSAGE, Code.PULL_MESSAGE, Code.HEART_BEAT)
    for _ in range(3000):
        opaque = random_.randrange(30)
        for waiting in marks.values():
            waiting.pop(opaque, None)  # asked again, or answered
        if random_.random() < 0.5:
            model[opaque] = random_.choice(codes)
            asked.add(opaque, model[opaque], 0)
        else:
            assert asked.take(opaque)[0] == model.pop(opaque, None)
        if random_.random() < 0.1:
            marks[asked.mark()] = dict(model)
        for mark, waiting in marks.items():
            left = set(waiting.values()) - {Code.HEART_BEAT}
            assert asked.waits_since(mark) == bool(left)
            assert asked.sends_since(mark) == (Code.SEND_MESSAGE in left)
    asked.refused(SerializeType.JSON, "")
    assert not any(asked.waits_since(mark) or asked.sends_since(mark) for mark in marks)


def test_pulls_that_have_no_answer_cost_a_move_nothing() -> None:
    pulls: dict[int, int] = dict.fromkeys(range(ASKED_MAX), Code.PULL_MESSAGE)
    links: list[Any] = [RawLink(pulls) for _ in range(5)]

    def look(times: int) -> None:
        for _ in range(times):
            serving = Serving()
            serving.begin(links)
            assert not serving.forget_settled(0.0)
            assert len(serving.raw) == len(links)

    assert time_s(look, 100) < 0.1 * slowness()


async def test_a_move_does_not_wait_for_renewals_because_of_unrelated_records(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    async with moving_at(log, "p") as moving, moving_at(log, "q") as other:
        await trio.sleep(5)  # away from the first renewals
        await put(moving, order_of(Part(*FIRST), target=Part(B, 0), is_sealing=True))
        await trio.sleep(2)
        for number in range(3):
            await moving.orders.keys.put(b"other/%d" % number, b"x")
        position = moving.orders.position
        leases = partial(leases_in, moving.orders)
        await until(lambda: all(one.done >= position for one in leases()), 2.5)
        assert len(leases_in(other.orders)) == 2
        assert all(key.startswith(LEASES) for key, _ in other.orders.keys.scan(LEASES))


async def test_an_unknown_code_of_a_broker_is_passed_on() -> None:
    class Refusing:
        async def call(self, address: str, *_: object, **__: object) -> Frame:
            raise RefusedByBroker(9999, "why not", address)

    frame = request(Code.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"})
    with pytest.raises(Refused, match="why not") as refused:
        await answered(cast(RemotingClient, Refusing()), frame, MOVED.moved[0], lambda one: one)
    assert refused.value.code == 9999


async def test_resets_of_a_moved_queue_are_refused_at_added_brokers(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    async with moving_at(log) as moving:
        await put(moving, MOVED)
        port = SimpleNamespace(name="~lanemq-000")
        requests = MovedRequests(
            cast(Any, port),
            moving,
            cast(RemotingClient, None),
            random.Random(1),
            address=lambda name: name,
            is_listed=lambda: True,
        )
        session = cast(Any, Session())
        fields = {"topic": "T", "group": "g", "timestamp": "0", "isForce": "true"}
        reset = request(Code.INVOKE_BROKER_TO_RESET_OFFSET, fields)
        for named in ({}, {"queueId": "-1"}):
            requests.take(replace(reset, fields={**fields, **named}), session)
        with pytest.raises(Refused, match="have moved between brokers"):
            requests.take(replace(reset, fields={**fields, "queueId": "0"}), session)


class Told:
    """Brokers that tell an offset of their own each."""

    async def call(self, address: str, frame: Frame, *_: float, accept: object = ()) -> Frame:
        await trio.sleep(0.01)
        return frame.reply(fields={"offset": {A: "3", B: "2"}[address]})


@pytest.mark.parametrize(
    "code",
    [
        Code.QUERY_CONSUMER_OFFSET,
        Code.GET_MAX_OFFSET,
        Code.GET_MIN_OFFSET,
        Code.SEARCH_OFFSET_BY_TIMESTAMP,
    ],
)
async def test_no_offset_is_told_while_others_may_have_gone_on(
    code: RequestCode, log: UpstreamLog, autojump_clock: MockClock
) -> None:
    """A proxy that is cut off from the log sees a queue sealed, and its lease lasts yet."""
    async with moving_at(log) as moving:
        await put(moving, order_of(Part(*FIRST), target=Part(B, 0), is_sealing=True))
        port = SimpleNamespace(name=A, way=lambda name, **_: SimpleNamespace(upstream=name))
        requests = MovedRequests(
            cast(Any, port),
            moving,
            cast(RemotingClient, Told()),
            random.Random(1),
            address=lambda name: name,
            is_listed=lambda: True,
        )
        fields = {"topic": "T", "queueId": "0", "consumerGroup": "g", "timestamp": "0"}

        async def ask() -> Frame:
            taken = requests.take(request(code, fields), cast(Any, Session()))
            answer = await cast(Awaitable[Frame], taken)
            assert answer is not None
            return answer

        with pytest.raises(Refused) as refused:
            await ask()
        assert refused.value.code == ResponseCode.SERVICE_NOT_AVAILABLE
        answers: list[Frame] = []

        async def note() -> None:
            answers.append(await ask())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(note)
            await trio.sleep(1.0)
            await put(moving, order_of(Part(*FIRST, 3), Part(B, 0)))
        assert answers[0].fields["offset"] == "5"


class Admin:
    """A broker's administration."""

    def __init__(self, config: Mapping[str, str], groups: int = 0) -> None:
        self._config = config
        self._groups = groups

    async def config(self, _: str) -> Mapping[str, str]:
        return self._config

    async def producer_connections(self, *_: str) -> object:
        return SimpleNamespace(connection_set=())

    async def groups_of_topic(self, *_: str) -> list[str]:
        return [f"g{number}" for number in range(self._groups)]


def brokers_of(admin: Admin) -> BrokersOfMove:
    nothing, fake = cast(Any, None), cast(Any, admin)
    return BrokersOfMove(MoveContext(nothing, nothing, fake, str, list, str), "T", B)


@pytest.mark.parametrize(
    "config",
    [
        {"enableBuildConsumeQueueConcurrently": "true"},
        {"storeType": "defaultRocksDB"},
        {"transientStorePoolEnable": "true"},
        {"duplicationEnable": "true"},
    ],
)
async def test_no_queue_leaves_a_broker_that_does_not_tell_its_end(
    config: Mapping[str, str],
) -> None:
    told: Any = Admin(config)
    await check_kind(told, "a:1", is_source=False)
    with pytest.raises(MoveRefused, match=next(iter(config))):
        await check_kind(told, "a:1", is_source=True)
    other: Any = Admin({"storeType": "default"})
    await check_kind(other, "a:1", is_source=True)


@pytest.mark.parametrize(
    ("config", "version", "looks"),
    [
        ({"flushDiskType": "ASYNC_FLUSH"}, "V5_3_3", [(100, 10), (111, 12), (112, 12)]),
        ({"flushDiskType": "SYNC_FLUSH"}, "V4_9_8", [(100, 10), (111, 12), (112, 12)]),
        # What is behind there is counted from the end of what is flushed.
        ({"flushDiskType": "SYNC_FLUSH"}, "V5_3_3", [(100, 10), (200, 12), (300, 1), (300, 0)]),
        ({"flushDiskType": "SYNC_FLUSH"}, "V5_3_3", [(100, 10), (200, -7)]),
    ],
)
async def test_an_end_is_read_once_queues_have_all_that_was_acknowledged(
    autojump_clock: MockClock,
    config: Mapping[str, str],
    version: str,
    looks: list[tuple[int, int]],
) -> None:
    admin = Admin(config)
    told = [
        {"brokerVersionDesc": version, "commitLogMaxOffset": str(a), "dispatchBehindBytes": str(b)}
        for a, b in looks
    ]

    async def runtime(_: str) -> Mapping[str, str]:
        return told.pop(0)

    fake: Any = SimpleNamespace(config=admin.config, runtime=runtime)
    await has_dispatched(fake, "a:1")
    assert not told


async def test_a_broker_that_has_just_started_refuses_to_tell_of_itself_for_a_moment(
    autojump_clock: MockClock,
) -> None:
    """Apache's 4.9.7 has no sample of its rates before the first second is over."""

    async def runtime(_: str) -> Mapping[str, str]:
        if trio.current_time() < until_s:
            raise RefusedByBroker(code, "java.util.NoSuchElementException", "a:1")
        return {"commitLogMaxOffset": "100", "dispatchBehindBytes": "0"}

    fake: Any = SimpleNamespace(config=Admin({}).config, runtime=runtime)
    until_s, code = trio.current_time() + 1.0, ResponseCode.SYSTEM_ERROR
    await has_dispatched(fake, "a:1")
    assert trio.current_time() < until_s + 0.5
    until_s = inf
    with pytest.raises(RefusedByBroker):  # not for ever
        await has_dispatched(fake, "a:1")
    asked_s, code = trio.current_time(), ResponseCode.NO_PERMISSION
    with pytest.raises(RefusedByBroker):
        await has_dispatched(fake, "a:1")
    assert trio.current_time() == asked_s


async def test_a_topic_with_more_groups_than_are_looked_at_stays() -> None:
    with pytest.raises(MoveRefused, match="has 1001 groups"):
        await brokers_of(Admin({}, 1001)).check_groups("a:1")


class Cluster(Admin):
    """Two brokers with topic T, as a client and a tool that ask them."""

    def __init__(self) -> None:
        super().__init__({})
        self.topics = {A: TopicConfig("T", read_queue_nums=1, write_queue_nums=1)}
        self.on_put: Callable[[], None] = lambda: None

    async def topic_configs(self, address: str) -> object:
        found = {"T": self.topics[address]} if address in self.topics else {}
        return SimpleNamespace(topic_config_table=found)

    async def put_topic(self, address: str, config: TopicConfig) -> None:
        self.topics[address] = config
        self.on_put()

    async def offset_table(self, _: str) -> Mapping[str, object]:
        return {}

    async def groups(self, _: str) -> object:
        return SimpleNamespace(subscription_group_table={})

    async def runtime(self, _: str) -> Mapping[str, str]:
        return {"commitLogMaxOffset": "0", "dispatchBehindBytes": "0"}

    async def call(self, _: str, frame: Frame, *__: float) -> Frame:
        return frame.reply(fields={"offset": "0"})


class Sealed:
    """For how long a queue could not be written."""

    def __init__(self, moving: MovingQueues) -> None:
        self._moving = moving
        self.seconds = 0.0

    async def watch(self) -> None:
        while True:
            await trio.sleep(0.01)
            self.seconds += 0.01 * self._moving.now("T", FIRST).is_sealing


async def moved_at(moving: MovingQueues, cluster: Cluster) -> Sealed:
    """Move the queue of topic T, and return for how long it was sealed."""
    fake = cast(Any, cluster)
    context = MoveContext(moving, fake, fake, lambda name: name, lambda: [A, B], str)
    sealed = Sealed(moving)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sealed.watch)
        found = await Move(context, topic="T", index=0, broker=B).run()
        assert (found.state, found.broker_name) == ("moved", B)
        nursery.cancel_scope.cancel()
    return sealed


def two_queues(*targets: str) -> QueueOrder:
    """Return an order with one queue of each broker, of which the first is at B now, and the second
    one on its way to A where that is a target."""
    first = MovedQueue((Part(A, 0, 0), Part(B, 1)))
    more = tuple(MovedQueue((Part(B, 0),), Part(name, 1)) for name in targets)
    kept = ((B, 1), *((name, 1) for name in targets))
    return QueueOrder(((A, 1), (B, 1)), (), (first, *more), kept)


async def move_again(moving: MovingQueues, cluster: Cluster, index: int = 0) -> None:
    fake = cast(Any, cluster)
    context = MoveContext(moving, fake, fake, str, lambda: [A, B], str)
    found = await Move(context, topic="T", index=index, broker=B).run()
    assert found.state == "moved"


async def test_a_topic_can_be_written_where_another_queue_is_on_its_way(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    async with moving_at(log) as moving:
        cluster = Cluster()
        await put(moving, two_queues(A))
        await move_again(moving, cluster)
        assert cluster.topics[A].perm == Permission.READ_WRITE
        await put(moving, two_queues())
        await move_again(moving, cluster)
        assert cluster.topics[A].perm == Permission.READ


async def test_a_queue_that_begins_to_move_while_a_permission_is_taken_gets_its_place_back(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    """The broker has the new queue already, and what is put was read before."""

    class Overtaken(Cluster):
        async def put_topic(self, address: str, config: TopicConfig) -> None:
            if config.perm == Permission.READ:
                await put(moving, two_queues(A))
            await super().put_topic(address, config)

    async with moving_at(log) as moving:
        cluster = Overtaken()
        await put(moving, two_queues())
        await move_again(moving, cluster)
        topic = cluster.topics[A]
        assert (topic.perm, topic.read_queue_nums) == (Permission.READ_WRITE, 2)


@pytest.mark.parametrize("is_late", [False, True])
async def test_a_queue_whose_place_was_undone_gets_it_back(
    is_late: bool, log: UpstreamLog, autojump_clock: MockClock
) -> None:
    """Somebody took the permission away by old settings, and has died since."""

    class Undone(Cluster):
        undone = 0

        def undo(self) -> None:
            self.undone += 1
            if self.undone == 1:
                self.topics[B] = TopicConfig(
                    "T", read_queue_nums=1, write_queue_nums=1, perm=Permission.READ
                )

        async def groups(self, address: str) -> object:
            if not is_late:  # after the queue was made
                self.undo()
            return await super().groups(address)

        async def call(self, address: str, frame: Frame, *rest: float) -> Frame:
            if is_late and address == A:  # the end is read
                self.undo()
            return await super().call(address, frame, *rest)

    async with moving_at(log) as moving:
        cluster = Undone()
        cluster.topics[B] = cluster.topics[A]
        await put(moving, QueueOrder(((A, 1), (B, 1))))
        await move_again(moving, cluster)
        assert cluster.undone
        topic = cluster.topics[B]
        assert (topic.perm, topic.read_queue_nums) == (Permission.READ_WRITE, 2)
        assert cluster.topics[A].perm == Permission.READ


class Progress(Cluster):
    """A cluster with progress of groups, and what was asked to change in it."""

    def __init__(self, moving: MovingQueues) -> None:
        super().__init__()
        self.moving = moving
        self.tables: dict[str, dict[str, dict[int, int]]] = {A: {}, B: {}}
        self.noted: list[tuple[str, Mapping[str, str], bool]] = []
        """Broker, request, and whether clients read there already or soon."""
        self.without_settings = ""

    async def offset_table(self, address: str) -> Mapping[str, Mapping[int, int]]:
        return self.tables[address]

    async def call(self, address: str, frame: Frame, *rest: float) -> Frame:
        if frame.code != Code.UPDATE_CONSUMER_OFFSET:
            return await super().call(address, frame, *rest)
        moved = self.moving.now("T", FIRST)
        self.noted.append((address, frame.fields, moved.is_sealing or len(moved.parts) > 1))
        if frame.fields["consumerGroup"] == self.without_settings:
            raise RefusedByBroker(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "no group", address)
        return frame.reply()


async def test_groups_get_the_begin_of_the_next_part_before_anybody_reads_there(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    async with moving_at(log) as moving:
        cluster = Progress(moving)
        cluster.tables[A] = {"T@g": {0: 3}, "T@old": {0: 1}, "T@there": {0: 2}, "U@u": {0: 9}}
        cluster.tables[B] = {"T@there": {0: 0}}
        cluster.without_settings = "old"
        await put(moving, QueueOrder(((A, 1),)))
        await move_again(moving, cluster)
        found = [(at, one["topic"], one["consumerGroup"]) for at, one, _ in cluster.noted]
        assert found == [(B, "T", "g"), (B, "T", "old")]
        assert {(one["queueId"], one["commitOffset"]) for _, one, _ in cluster.noted} == {
            ("0", "0")
        }
        assert not any(is_read for _, _, is_read in cluster.noted)


class Changed(Cluster):
    """A cluster that has changed since a move was prepared."""

    def __init__(self) -> None:
        super().__init__()
        self.why = ""
        """The reason why another proxy is in the way."""
        self.is_forgotten = False
        self.group: ConsumerConnection | None = None

    async def groups_of_topic(self, *_: str) -> list[str]:
        return [] if self.group is None else ["g"]

    async def consumer_connections(self, *_: str) -> ConsumerConnection | None:
        return self.group

    def have_group(self, model: str, *client_ids: str) -> None:
        """Have a group read the topic, whose members go direct."""
        connections = tuple(ClientConnection(one, "") for one in client_ids)
        topics = {"T": SubscriptionData("T")}
        self.group = ConsumerConnection(connections, topics, "CONSUME_PASSIVELY", model)


def another_proxy(cluster: Changed) -> None:
    cluster.why = "another proxy has no --moves"


def a_broker_of_another_kind(cluster: Changed) -> None:
    cluster._config = {"enableDLegerCommitLog": "true"}


def direct_members(cluster: Changed) -> None:
    cluster.have_group("CLUSTERING", "c")


def a_broadcasting_group(cluster: Changed) -> None:
    cluster.have_group("BROADCASTING")


def queues_of_a_kind(cluster: Changed) -> None:
    cluster.topics[A] = TopicConfig("T", attributes={"queue.type": "BatchCQ"})


def a_forgotten_broker(cluster: Changed) -> None:
    cluster.is_forgotten = True


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (another_proxy, "another proxy has no --moves"),
        (a_broker_of_another_kind, "enableDLegerCommitLog"),
        (direct_members, "group g has members who go direct"),
        (a_broadcasting_group, "group g is a broadcasting one"),
        (queues_of_a_kind, "queue.type"),
        (a_forgotten_broker, "was forgotten"),
    ],
)
async def test_what_has_changed_since_a_move_was_prepared_stops_it(
    change: Callable[[Changed], None], why: str, log: UpstreamLog, autojump_clock: MockClock
) -> None:
    async with moving_at(log) as moving:
        await put(moving, order_of(Part(*FIRST), target=Part(B, 0)))
        cluster = Changed()
        change(cluster)
        if cluster.is_forgotten:
            stand = Stand(A, is_done=True, is_forgotten=True)
            await moving.orders.keys.put(stand_key(B), msgspec.json.encode(stand))
        fake = cast(Any, cluster)
        context = MoveContext(moving, fake, fake, str, lambda: [A, B], lambda: cluster.why)
        with pytest.raises(MoveRefused, match=why):
            await Move(context, topic="T", index=0, broker=B).run()
        moved = moving.now("T", FIRST)
        assert not moved.is_sealing
        assert len(moved.parts) == 1
        await moving.orders.keys.delete(stand_key(B))
        await moved_at(moving, Changed())


class Restarted(Changed):
    """A cluster whose brokers have just started, and know no members until these come back."""

    def __init__(self, *client_ids: str) -> None:
        super().__init__()
        self._ids = client_ids
        self._begun_s = trio.current_time()

    async def groups_of_topic(self, *_: str) -> list[str]:
        return ["g"]

    async def topic_configs(self, address: str) -> object:
        found = {"T": self.topics[address]} if address in self.topics else {}
        return SimpleNamespace(topic_config_table={**found, "%RETRY%g": TopicConfig("%RETRY%g")})

    async def consumer_connections(self, *_: str) -> ConsumerConnection | None:
        if trio.current_time() > self._begun_s + 45:
            self.have_group("CLUSTERING", *self._ids)
        return self.group

    async def producer_connections(self, *_: str) -> object:
        return SimpleNamespace(connection_set=())

    async def runtime(self, address: str) -> Mapping[str, str]:
        minutes, seconds = divmod(int(trio.current_time() - self._begun_s), 60)
        told = f"[ 0 days, 0 hours, {minutes} minutes, {seconds} seconds ]"
        return {**await super().runtime(address), "runtime": told}


def context_of(moving: MovingQueues, cluster: Changed) -> MoveContext:
    fake = cast(Any, cluster)
    return MoveContext(moving, fake, fake, str, lambda: [A, B], str, heard_s=60.0)


async def test_no_queue_moves_before_the_members_of_a_broker_that_was_restarted_are_back(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    async with moving_at(log) as moving:
        await put(moving, QueueOrder(((A, 1),)))
        with pytest.raises(MoveRefused, match=r"members who go direct \(c\)"):
            await Move(context_of(moving, Restarted("c")), topic="T", index=0, broker=B).run()
        moved = moving.now("T", FIRST)
        assert (len(moved.parts), moved.is_sealing) == (1, False)
        cluster, begun_s = Restarted(), trio.current_time()
        await Move(context_of(moving, cluster), topic="T", index=0, broker=B).run()
        assert len(moving.now("T", FIRST).parts) == 2
        assert 60 <= trio.current_time() - begun_s < 80


async def test_no_locks_go_over_before_the_members_of_a_broker_that_was_restarted_are_back(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    said = list[str]()
    async with moving_at(log) as moving:
        at = Handover(context_of(moving, Restarted("c")), A, said.append)
        with pytest.raises(MoveRefused, match=r"members who go direct \(c\)"):
            await at._check_direct(A)
        assert f"waits until clients have sent heartbeats to {A}, which has just started" in said
        begun_s = trio.current_time()
        await Handover(context_of(moving, Restarted()), A, said.append)._check_direct(A)
        assert 60 <= trio.current_time() - begun_s < 80
        # Not even where it has read its log for long before it was listed.
        moving.stands.note_listed([B])
        moving.stands.note_listed([A, B])
        begun_s = trio.current_time()
        await trio.sleep(1)
        cluster = Restarted()
        cluster._begun_s -= 300
        await Handover(context_of(moving, cluster), A, said.append)._check_direct(A)
        assert 60 <= trio.current_time() - begun_s < 80


async def test_the_lease_of_a_proxy_that_has_died_delays_the_seal_and_no_send(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    """It dies after it has heard of the move: its lease says so for a minute."""
    cluster, died = Cluster(), trio.Event()
    cluster.on_put = died.set

    async def other() -> None:
        async with moving_at(log, "q"):
            await died.wait()

    async with moving_at(log, "p") as moving, trio.open_nursery() as nursery:
        nursery.start_soon(other)
        await until(lambda: len(leases_in(moving.orders)) == 2)
        await put(moving, QueueOrder(((A, 1),)))
        begun_s = trio.current_time()
        sealed = await moved_at(moving, cluster)
        assert TTL_S / 2 < trio.current_time() - begun_s < 2 * TTL_S
        assert sealed.seconds < URGENT_S / 2


async def test_proxies_that_live_renew_their_leases_for_a_move_at_once(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    async with moving_at(log, "p") as moving, moving_at(log, "q"), moving_at(log, "r"):
        await put(moving, QueueOrder(((A, 1),)))
        await trio.sleep(RENEW_S / 2)  # away from the first renewals
        begun_s = trio.current_time()
        sealed = await moved_at(moving, Cluster())
        assert trio.current_time() - begun_s < RENEW_S / 4
        assert sealed.seconds < URGENT_S / 2


async def test_all_leases_say_what_is_carried_out_soon_after_a_proxy_starts_from_a_snapshot(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    async with moving_at(log, "p") as moving, moving_at(log, "q"):
        await put(moving, MOVED)
        await trio.sleep(RENEW_S / 2)  # away from the first renewals
        await moving.orders.keys.writers[0].write()
        position = moving.orders.position
        async with moving_at(log, "r") as fresh:
            assert fresh.orders.keys.statuses()[0].snapshot is not None
            begun_s = trio.current_time()
            assert len(leases_in(fresh.orders)) == 3
            await until(lambda: all(one.done >= position for one in leases_in(fresh.orders)))
            assert trio.current_time() - begun_s < RENEW_S / 4


async def test_a_move_does_not_wait_for_requests_for_queues_of_other_topics(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    """A pull waits at a broker, and another topic's queue there begins to move."""
    parked: Any = RawLink({1: Code.PULL_MESSAGE})
    async with moving_at(log, "p") as moving, moving_at(log, "q"):
        for topic in ("T", "U"):
            await put(moving, QueueOrder(((A, 1),)), topic)
        moving._links_to = lambda _: [parked]
        await put(moving, order_of(Part(*FIRST), target=Part(B, 0)), "U")
        moving._links_to = lambda _: []
        begun_s = trio.current_time()
        sealed = await moved_at(moving, Cluster())
        assert moving._serving["U", FIRST].floor is not None
        assert trio.current_time() - begun_s < RENEW_S / 4
        assert sealed.seconds < URGENT_S / 2


@pytest.mark.parametrize(
    ("lease", "is_done"),
    [
        (Lease("p", 7), True),
        (Lease("p", 6), False),
        (Lease("p", 6, 9), False),  # of a proxy that does not say which queues
        (Lease("p", 6, 9, ()), True),
        (Lease("p", 6, 9, (("U", FIRST),)), True),
        (Lease("p", 6, 9, (("T", FIRST),)), False),
        (Lease("p", 9, 9, (("T", FIRST),)), True),  # a later change
        (Lease("p", 6, 6, ()), False),
    ],
)
def test_a_lease_says_of_each_queue_what_is_carried_out(lease: Lease, is_done: bool) -> None:
    assert lease.has_done(7, ("T", FIRST)) == is_done
    assert decode_lease(msgspec.json.encode(lease)) == lease


def test_a_lease_names_no_more_queues_than_it_has_room_for() -> None:
    serving = {("T", (A, number)): Serving(floor=number + 1) for number in range(UNDONE_MAX)}
    serving["T", (B, 0)] = Serving()
    told = carried_out(serving, UNDONE_MAX + 1)
    assert told[:2] == (1, UNDONE_MAX + 1)
    assert told.undone is not None
    assert len(told.undone) == UNDONE_MAX
    serving["T", (B, 0)].floor = 0
    assert carried_out(serving, UNDONE_MAX + 1) == (0, UNDONE_MAX + 1, None)
    assert carried_out({}, 5) == (5, 5, ())


async def test_a_lease_that_speaks_of_records_after_it_says_nothing_of_this_log(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    """Its proxy asked for it while the log had more records than its broker has now."""
    key = ("T", FIRST)
    async with moving_at(log) as moving:
        await put(moving, MOVED)
        position = moving.orders.position
        for lease in (Lease("q", 900, 900, ()), Lease("q", 0, 900, ())):
            await moving.orders.keys.put(LEASES + b"q/1", msgspec.json.encode(lease))
            (found,) = (one for one in leases_in(moving.orders) if one.name == "q")
            assert not found.has_done(position, key)
            assert not found.has_done(900, key)
            assert found.stood < position
        honest = Lease("q", position, position, ())
        await moving.orders.keys.put(LEASES + b"q/1", msgspec.json.encode(honest))
        assert honest in leases_in(moving.orders)


async def test_a_lease_that_was_asked_for_before_the_log_was_broken_is_asked_for_again(
    log: UpstreamLog, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is appended once what the log has lost is written back."""
    async with moving_at(log) as moving:
        await put(moving, MOVED)
        lease, keys = moving.lease, moving.orders.keys
        kept, count = keys.logs[0].follower.kept, len(log.records)
        for _ in range(50):
            await keys.put(b"other", b"")
        asked, may_arrive = list[bytes](), trio.Semaphore(0)
        append = keys.logs[0]._queue.append

        async def late(body: bytes, properties: bytes) -> None:
            if lease._own in body:
                asked.append(body)
                await may_arrive.acquire()
            await append(body, properties)

        monkeypatch.setattr(keys.logs[0]._queue, "append", late)
        lease._wake.set()
        await until(lambda: asked)
        del log.records[count:]
        log.store(b"", b"")  # ends the pull that waits
        await until(
            lambda: (
                keys.logs[0].follower.kept is not kept
                and moving.orders.position >= 0
                and not moving._remembered.is_writing
            )
        )
        may_arrive.release()
        await until(lambda: len(set(asked)) == 2)
        assert not lease.is_sure
        may_arrive.release()
        await until(lambda: lease.is_sure)
        (found,) = (one for one in leases_in(moving.orders) if one.done >= 0)
        assert found.done < keys.position_of(lease._own)
        assert lease._told == found.done


async def test_a_suspension_counts_against_the_lease_and_nothing_is_sent_again_after_it(
    log: UpstreamLog, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    suspend = suspending(monkeypatch)
    brokers = Brokers()
    brokers.of(A, "T", 0).append((b"left", {}))
    async with moving_at(log) as moving:
        await put(moving, MOVED)
        left = left_at(moving, brokers)
        assert await left._is_chosen()
        suspend(TRUSTED_S / 2)
        assert moving.lease.left_s > 0
        suspend(TRUSTED_S)  # others wait for it no longer
        assert moving.lease.left_s == 0
        assert moving.lease.era == 1
        with pytest.raises(Refused, match="no lease"):
            moving.check_sure()
        begun_s = trio.current_time()
        await until(lambda: moving.lease.is_sure)
        assert trio.current_time() - begun_s < RENEW_S / 2  # it is renewed at once
        assert not left._may_send()  # another one may have been chosen meanwhile


async def test_a_lease_of_a_log_from_before_its_break_says_nothing_where_it_lands_late(
    log: UpstreamLog, autojump_clock: MockClock
) -> None:
    """The log has more records again by then than the lease speaks of."""
    key = ("T", FIRST)
    async with moving_at(log) as moving:
        async with moving_at(log, "q") as q:
            await put(moving, MOVED)
            count = len(log.records)
            await q.orders.keys.put(b"other", b"")
            q.lease._wake.set()

            def told_by_q() -> int:
                return max(one.stood for one in leases_in(moving.orders) if one.name == "q")

            await until(lambda: told_by_q() > count)
            late = [one for one in log.records[count:] if LEASES + b"q/" in one.body][-1]
            told = told_by_q()
        kept = moving.orders.keys.logs[0].follower.kept
        del log.records[count:]
        log.store(b"", b"")  # ends the pull that waits
        await until(
            lambda: moving.orders.keys.logs[0].follower.kept is not kept and moving.lease.is_sure
        )
        while moving.orders.position < told:
            await moving.orders.keys.put(b"another", b"")
        log.store(late.body, late.properties)
        await until(lambda: moving.orders.position == len(log.records))
        (found,) = (one for one in leases_in(moving.orders) if one.name == "q")
        assert not found.has_done(count + 1, key)
        assert found.stood < 0
        moving.lease._wake.set()
        await until(lambda: any(one.has_done(count + 1, key) for one in leases_in(moving.orders)))
