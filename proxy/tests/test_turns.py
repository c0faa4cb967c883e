"""Answers about all that a broker has are made beside the loop, or in turns."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from threading import Thread, current_thread
from unittest.mock import patch

import msgspec
import pytest
import trio
import trio.testing

from lanemq.proxy.broker.admin import _topics
from lanemq.proxy.broker.handlers._member_notes import NOTES_AT_ONCE, NOTES_OF_A_TURN
from lanemq.proxy.net import _in_flight, _turns
from lanemq.proxy.net._dispatch import Handlers
from lanemq.proxy.net._long_answer import LongAnswer
from lanemq.proxy.net._loop_turn import SHARE_S
from lanemq.proxy.net._server import Server
from lanemq.proxy.net._session import Session
from lanemq.proxy.sessions.state._clients import ClientRegistry
from lanemq.testkit.proxy.brokers import TestBroker, open_test_broker, session_of
from lanemq.testkit.proxy.peers import Connect, Peer
from lanemq.testkit.proxy.turns import Turns
from lanemq.wire import RequestCode
from lanemq.wire.bodies import LockBatch, LockBatchResult, MessageQueue
from lanemq.wire.frame import Frame
from lanemq.wire.requests import Port

ALL: dict[int, dict[str, str]] = {
    RequestCode.GET_ALL_TOPIC_CONFIG: {},
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: {},
    RequestCode.GET_CONSUMER_CONNECTION_LIST: {"consumerGroup": "g"},
    RequestCode.QUERY_TOPICS_BY_CONSUMER: {"group": "g"},
    RequestCode.QUERY_CONSUME_QUEUE: {"topic": "T0", "queueId": "0", "index": "0", "count": "9"},
}


@pytest.mark.parametrize("code", ALL)
async def test_a_long_answer_is_made_in_a_thread_and_says_the_same(
    tmp_path: Path, code: int
) -> None:
    topics = [f"T{number}" for number in range(5)]
    async with open_test_broker(tmp_path) as broker:
        client = broker.connect()
        for topic in topics:
            await client.send(topic)
            fields = {"consumerGroup": "g", "queueId": "0", "commitOffset": "1", "topic": topic}
            await client.call(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
        await client.heartbeat(consumers={"g": dict.fromkeys(topics, "*")})
        threads: list[Callable[[], object]] = []
        run_sync = trio.to_thread.run_sync

        async def counted(call: Callable[[], object], *, limiter: trio.CapacityLimiter) -> object:
            threads.append(call)
            return await run_sync(call, limiter=limiter)

        with (
            patch.object(_turns, "LONG_PARTS", 1),
            patch.object(_topics, "LONG_PARTS", 1),
            patch("trio.to_thread.run_sync", counted),
        ):
            long = await client.call(code, ALL[code])
        short = await client.call(code, ALL[code])
        assert long.code == short.code == 0, short.remark
        assert len(long.body) == len(short.body)
        assert threads


async def test_the_locks_of_many_queues_are_answered_from_a_thread(tmp_path: Path) -> None:
    queues = tuple(MessageQueue("T", "broker-a", number) for number in range(600))
    asked = LockBatch(consumer_group="g", client_id="c", mq_set=queues).encode()
    encoding: list[Thread] = []
    encode = LockBatchResult.encode

    def noted(self: LockBatchResult, *, standard: bool = False, pretty: bool = False) -> bytes:
        encoding.append(current_thread())
        return encode(self, standard=standard, pretty=pretty)

    async with open_test_broker(tmp_path) as broker:
        client = broker.connect()
        with patch.object(LockBatchResult, "encode", noted):
            answer = await client.call(RequestCode.LOCK_BATCH_MQ, body=asked)
        assert set(LockBatchResult.decode(answer.body).lock_ok_mq_set) == set(queues)
        assert current_thread() not in encoding
        assert len(encoding) == 1


class _Turns(trio.abc.Instrument):
    """Counts the notes of each step of a task."""

    def __init__(self) -> None:
        self.notes: list[int] = []

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.notes.append(0)


async def test_members_of_many_groups_are_told_in_short_turns(tmp_path: Path) -> None:
    groups = {f"g{number}": {"T": "*"} for number in range(400)}
    steps = _Turns()
    oneway = Session.oneway
    told: set[tuple[Session, str]] = set()

    def counted(session: Session, frame: Frame) -> None:
        steps.notes[-1] += 1
        told.add((session, frame.fields["consumerGroup"]))
        oneway(session, frame)

    async with open_test_broker(tmp_path) as broker:
        clients = [broker.connect() for _ in range(4)]
        trio.lowlevel.add_instrument(steps)
        with patch.object(Session, "oneway", counted):
            for number, client in enumerate(clients):
                await client.heartbeat(f"c{number}", consumers=groups)
            await trio.testing.wait_all_tasks_blocked()
            assert len(told) == len(clients) * len(groups)
            told.clear()
            async with trio.open_nursery() as nursery:
                for client in clients[:3]:
                    nursery.start_soon(client.peer.stream.aclose)
            await trio.testing.wait_all_tasks_blocked()
            assert {group for _, group in told} == set(groups)
        trio.lowlevel.remove_instrument(steps)
    assert max(steps.notes) <= NOTES_OF_A_TURN + NOTES_AT_ONCE


async def test_groups_without_members_are_looked_for_in_short_turns(tmp_path: Path) -> None:
    crowded, lonely = "crowded", [f"lonely{number}" for number in range(4 * NOTES_OF_A_TURN)]
    steps = _Turns()
    looked_for: set[str] = set()
    sessions_of = ClientRegistry.sessions_of

    def counted(registry: ClientRegistry[Session], group: str) -> list[Session]:
        steps.notes[-1] += 1
        looked_for.add(group)
        return sessions_of(registry, group)

    with patch.object(ClientRegistry, "sessions_of", counted):
        trio.lowlevel.add_instrument(steps)
        async with open_test_broker(tmp_path) as broker:
            for number in range(NOTES_AT_ONCE + 1):
                await broker.connect().heartbeat(f"c{number}", consumers={crowded: {}})
            client = broker.connect()
            await client.heartbeat("c", consumers={group: {} for group in (crowded, *lonely)})
            await trio.testing.wait_all_tasks_blocked()
            looked_for.clear()
            await client.peer.stream.aclose()
            await trio.testing.wait_all_tasks_blocked()
            assert looked_for == {crowded, *lonely}
        trio.lowlevel.remove_instrument(steps)
    assert max(steps.notes) <= NOTES_OF_A_TURN + NOTES_AT_ONCE


# What all peers together take of a turn


class _LoopTurns(trio.abc.Instrument):
    """The seconds that each turn of the loop takes, by the clock of the servers' turns."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._began_s = turns.now_s()
        self.took_s: list[float] = []

    def after_io_wait(self, timeout: float) -> None:
        self._began_s = self._turns.now_s()

    def before_io_wait(self, timeout: float) -> None:
        self.took_s.append(self._turns.now_s() - self._began_s)


REQUEST_S = 0.001


@pytest.mark.parametrize("is_late", [False, True], ids=["at once", "beside the connection"])
async def test_the_requests_of_all_peers_share_one_turn_of_the_loop(
    nursery: trio.Nursery, connect: Connect, turns: Turns, is_late: bool
) -> None:
    def at_once(frame: Frame, session: Session) -> Frame:
        turns.take(REQUEST_S)
        return frame.reply()

    async def later(frame: Frame, session: Session) -> Frame:
        await trio.lowlevel.checkpoint()
        return at_once(frame, session)

    handlers = Handlers(Port.BROKER)
    handlers.add(RequestCode.GET_BROKER_RUNTIME_INFO, later if is_late else at_once)
    server = Server(handlers, name="test")
    peers = [connect(server, port=40_000 + number) for number in range(6)]
    late = connect(server)
    watch = _LoopTurns(turns)
    trio.lowlevel.add_instrument(watch)
    order: list[int] = []

    async def ask(peer: Peer, number: int, requests: int) -> None:
        frame = Frame(RequestCode.GET_BROKER_RUNTIME_INFO)
        await peer.send(*(frame for _ in range(requests)))
        for _ in range(requests):
            assert (await peer.receive()).code == 0
            order.append(number)

    async with trio.open_nursery() as asking:
        for number, peer in enumerate(peers):
            asking.start_soon(ask, peer, number, 200)
        await trio.testing.wait_all_tasks_blocked(0.0)
        asking.start_soon(ask, late, 6, 1)
    trio.lowlevel.remove_instrument(watch)
    assert max(watch.took_s) <= SHARE_S + 2 * REQUEST_S
    assert sum(watch.took_s) == pytest.approx(1201 * REQUEST_S, abs=SHARE_S)
    assert len(watch.took_s) < 300
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("request_s", [0.0151, 0.009, 0.03])
async def test_long_requests_of_one_peer_are_handled_in_turns_that_have_time_for_them(
    nursery: trio.Nursery, connect: Connect, turns: Turns, request_s: float
) -> None:
    def answer(frame: Frame, session: Session) -> Frame:
        turns.take(request_s)
        return frame.reply()

    handlers = Handlers(Port.BROKER)
    handlers.add(RequestCode.GET_BROKER_RUNTIME_INFO, answer)
    peer = connect(Server(handlers, name="test"))
    watch = _LoopTurns(turns)
    trio.lowlevel.add_instrument(watch)
    await peer.send(*(Frame(RequestCode.GET_BROKER_RUNTIME_INFO) for _ in range(20)))
    for _ in range(20):
        assert (await peer.receive()).code == 0
    trio.lowlevel.remove_instrument(watch)
    assert max(watch.took_s) <= max(SHARE_S, request_s) + 1e-9
    nursery.cancel_scope.cancel()


async def test_answers_that_nobody_waits_for_share_the_turns_of_the_loop(
    nursery: trio.Nursery, connect: Connect, turns: Turns
) -> None:
    def take(answer: Frame) -> None:
        turns.take(REQUEST_S)

    def greet(frame: Frame, session: Session) -> Frame:
        session.on_answer = take
        return frame.reply()

    handlers = Handlers(Port.BROKER)
    handlers.add(RequestCode.GET_BROKER_RUNTIME_INFO, greet)
    server, asked = Server(handlers, name="test"), Frame(RequestCode.GET_BROKER_RUNTIME_INFO)
    peers = [connect(server, port=40_000 + number) for number in range(3)]
    for peer in peers:
        await peer.call(asked)
    watch = _LoopTurns(turns)
    trio.lowlevel.add_instrument(watch)
    for peer in peers:
        await peer.send(*(asked.reply() for _ in range(100)), asked)
    for peer in peers:
        assert (await peer.receive()).code == 0
    trio.lowlevel.remove_instrument(watch)
    assert turns.now_s() == pytest.approx(300 * REQUEST_S)
    assert max(watch.took_s) <= SHARE_S + 2 * REQUEST_S
    nursery.cancel_scope.cancel()


async def test_connections_that_end_at_once_are_forgotten_in_turns_that_have_time_for_them(
    nursery: trio.Nursery, connect: Connect, turns: Turns
) -> None:
    ended = list[Session]()

    def forget(session: Session) -> None:
        turns.take(0.6 * SHARE_S)
        ended.append(session)

    def note(frame: Frame, session: Session) -> Frame:
        session.on_close.append(forget)
        return frame.reply()

    handlers = Handlers(Port.BROKER)
    handlers.add(RequestCode.GET_BROKER_RUNTIME_INFO, note)
    server = Server(handlers, name="test")
    peers = [connect(server, port=40_000 + number) for number in range(20)]
    for peer in peers:
        await peer.call(Frame(RequestCode.GET_BROKER_RUNTIME_INFO))
    watch = _LoopTurns(turns)
    trio.lowlevel.add_instrument(watch)
    for peer in peers:
        assert isinstance(peer.stream, trio.StapledStream)
        peer.stream.send_stream.close()  # all in one turn
    await trio.testing.wait_all_tasks_blocked()
    trio.lowlevel.remove_instrument(watch)
    assert len(set(ended)) == len(peers)
    assert max(watch.took_s) <= 2 * 0.6 * SHARE_S + 1e-9
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("is_aborted", [False, True], ids=["by the peer", "by the server"])
async def test_requests_that_wait_end_with_their_connections_in_several_turns(
    nursery: trio.Nursery, connect: Connect, monkeypatch: pytest.MonkeyPatch, is_aborted: bool
) -> None:
    monkeypatch.setattr(_in_flight, "ENDS_AT_ONCE", 10, raising=False)
    monkeypatch.setattr(_in_flight, "END_S", SHARE_S / 10, raising=False)
    sessions, of_turn = set[Session](), [0]

    async def wait(frame: Frame, session: Session) -> Frame:
        sessions.add(session)
        await trio.sleep_forever()
        raise AssertionError

    class LoopTurns(trio.abc.Instrument):
        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            of_turn[-1] += "._finish" in task.name

        def before_io_wait(self, timeout: float) -> None:
            of_turn.append(0)

    handlers = Handlers(Port.BROKER)
    handlers.add(RequestCode.GET_BROKER_RUNTIME_INFO, wait)
    server = Server(handlers, name="test")
    peers = [connect(server, port=40_000 + number) for number in range(3)]
    for peer in peers:
        await peer.send(*(Frame(RequestCode.GET_BROKER_RUNTIME_INFO) for _ in range(100)))
    await trio.testing.wait_all_tasks_blocked()
    assert server.in_flight == 300
    watch = LoopTurns()
    trio.lowlevel.add_instrument(watch)
    for session, peer in zip(tuple(sessions), peers, strict=True):
        if is_aborted:
            session.close()
        else:
            assert isinstance(peer.stream, trio.StapledStream)
            peer.stream.send_stream.close()
    await trio.testing.wait_all_tasks_blocked()
    trio.lowlevel.remove_instrument(watch)
    assert server.in_flight == 0
    assert sum(of_turn) >= 300
    assert max(of_turn) <= 60, "those that are cancelled, and those that waited for a turn"
    nursery.cancel_scope.cancel()


async def test_the_parts_of_a_long_answer_are_joined_once(broker: TestBroker) -> None:
    """Each copy of 15 MiB takes some ten milliseconds of a turn."""
    members = [b'"%d":"%s"' % (number, b"x" * 30_000) for number in range(500)]
    size_bytes = sum(map(len, members))
    session = await session_of(broker)
    async with LongAnswer.begin(session, RequestCode.GET_CONSUME_STATS) as answer:
        tracemalloc.start()
        try:
            table = await answer.object(members)
            body = await answer.body({"offsetTable": table, "items": await answer.array([])})
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak_bytes < 1.5 * size_bytes
    read = msgspec.json.decode(body)
    assert list(read["offsetTable"]) == [str(number) for number in range(500)]
    assert read["items"] == []
