"""Back-pressure: peers that do not read get no more answers; frames and answers share a budget."""

import logging
from collections import Counter
from functools import partial

import pytest
import trio
from trio.testing import MockClock, lockstep_stream_pair, wait_all_tasks_blocked

from lanemq.proxy.net._server import Server
from lanemq.proxy.net._session import PeerTimedOut, Session, SessionClosed
from lanemq.proxy.net.limits._budget import Budget
from lanemq.proxy.net.limits._limits import Limits
from lanemq.testkit.calls import calls_of_steps
from lanemq.testkit.proxy.peers import Peer
from lanemq.testkit.proxy.requests import any_handlers
from lanemq.wire import HostAddress, ResponseCode
from lanemq.wire.frame import Frame, encode_frame, request

BIG, WAIT, LATER = 1, 2, 3
ANSWER_BYTES = 100_000
PAUSE_BYTES = 1 << 18
BEFORE_A_PAUSE = PAUSE_BYTES // ANSWER_BYTES + 1


class Answering:
    """A server whose handlers give large answers, and count them."""

    def __init__(self, nursery: trio.Nursery, *, budget: Budget | None = None) -> None:
        self.handled = 0
        self.sessions: list[Session] = []
        self._nursery = nursery
        handlers = any_handlers()
        handlers.add(BIG, self.big)
        handlers.add(WAIT, self.wait)
        handlers.add(LATER, self.later)
        limits = Limits(unsent_pause_bytes=PAUSE_BYTES)
        self.server = Server(handlers, name="test", limits=limits, budget=budget or Budget())

    def big(self, frame: Frame, session: Session) -> Frame:
        self.handled += 1
        return frame.reply(body=bytes(ANSWER_BYTES))

    async def wait(self, frame: Frame, session: Session) -> Frame:
        await trio.sleep_forever()
        raise AssertionError

    def later(self, frame: Frame, session: Session) -> None:
        self.sessions.append(session)

    def answer(self, count: int) -> None:
        """Give the session that asked last so many answers, as it has room for them."""
        session = self.sessions[-1]

        def give() -> None:
            self.handled += 1
            session.send(request(0, body=bytes(ANSWER_BYTES), opaque=self.handled))

        for _ in range(count):
            session.when_room(give)

    def connect(self) -> Peer:
        """A peer to which nothing can be sent but what it receives."""
        ours, theirs = lockstep_stream_pair()
        peer = HostAddress("10.1.2.3", 40001)

        async def serve() -> None:
            await self.server.serve_stream(theirs, peer=peer)

        self._nursery.start_soon(serve)
        return Peer(ours)


async def test_requests_of_one_read_are_handled_as_their_answers_are_read(
    nursery: trio.Nursery,
) -> None:
    answering = Answering(nursery)
    peer = answering.connect()
    await peer.send(*(request(BIG, opaque=number) for number in range(100)))
    await wait_all_tasks_blocked()
    assert answering.handled == BEFORE_A_PAUSE
    for number in range(100):
        assert (await peer.receive()).opaque == number
        assert answering.handled <= number + 1 + 2 * BEFORE_A_PAUSE
    assert answering.handled == 100


async def test_late_answers_are_made_as_the_earlier_ones_are_read(nursery: trio.Nursery) -> None:
    answering = Answering(nursery)
    peer = answering.connect()
    await peer.send(request(LATER))
    await wait_all_tasks_blocked()
    answering.answer(100)
    await wait_all_tasks_blocked()
    assert answering.handled == BEFORE_A_PAUSE
    for number in range(100):
        assert (await peer.receive()).opaque == number + 1
    assert answering.handled == 100


async def test_very_many_small_answers_that_wait_for_room_are_made_in_turns(
    nursery: trio.Nursery,
) -> None:
    """Thousands of them are no more bytes than one."""
    answering = Answering(nursery)
    peer = answering.connect()
    await peer.send(request(LATER))
    await wait_all_tasks_blocked()
    answering.answer(BEFORE_A_PAUSE)
    (session,), made = answering.sessions, list[int]()

    def give(number: int) -> None:
        made.append(number)
        session.send(request(0, opaque=1000 + number))

    for number in range(3000):
        session.when_room(partial(give, number))
    with calls_of_steps() as steps:
        while len(made) < 3000:
            await peer.stream.receive_some()
    assert made == list(range(3000))
    assert steps.most <= 10_000


async def test_a_wait_for_room_that_is_cancelled_leaves_nothing(nursery: trio.Nursery) -> None:
    answering = Answering(nursery)
    peer = answering.connect()
    await peer.send(request(LATER))
    await wait_all_tasks_blocked()
    answering.answer(BEFORE_A_PAUSE)
    (session,), (connection,) = answering.sessions, answering.server.connections
    async with trio.open_nursery() as waiting:
        waiting.start_soon(session.room)
        await wait_all_tasks_blocked()
        assert len(connection.outbox._later) == 1
        waiting.cancel_scope.cancel()
    assert not connection.outbox._later


async def test_late_answers_of_a_peer_that_left_are_never_made(nursery: trio.Nursery) -> None:
    answering = Answering(nursery)
    peer = answering.connect()
    await peer.send(request(LATER))
    await wait_all_tasks_blocked()
    answering.answer(100)
    await peer.stream.aclose()
    await wait_all_tasks_blocked()
    answering.answer(1)
    assert answering.handled == BEFORE_A_PAUSE
    assert answering.server.budget.used_bytes == 0


async def test_the_largest_unfinished_frame_goes_when_all_are_too_much(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    budget = Budget(1_000_000)
    answering = Answering(nursery, budget=budget)
    frame = encode_frame(request(BIG, body=bytes(2_000_000)))
    small, large, last = (answering.connect() for _ in range(3))
    await small.stream.send_all(frame[:200_000])
    await large.stream.send_all(frame[:600_000])
    with caplog.at_level(logging.WARNING):
        await last.stream.send_all(frame[:300_000])
        assert await large.is_closed()
    assert "keeps 0.6 MiB" in caplog.text
    await wait_all_tasks_blocked()
    assert budget.used_bytes == 500_000
    # Both that are left go on; a whole frame is no longer kept.
    await small.stream.send_all(frame[200_000:400_000])
    await last.stream.aclose()
    await wait_all_tasks_blocked()
    await small.stream.send_all(frame[400_000:800_000])
    await wait_all_tasks_blocked()
    assert budget.used_bytes == 800_000


async def test_answers_that_are_not_read_count(nursery: trio.Nursery) -> None:
    budget = Budget(3 * PAUSE_BYTES)
    answering = Answering(nursery, budget=budget)
    peers = [answering.connect() for _ in range(6)]
    for peer in peers:
        await peer.send(*(request(BIG, opaque=number) for number in range(10)))
    await wait_all_tasks_blocked()
    assert 0 < budget.used_bytes <= budget.limit_bytes
    assert len(answering.server.connections) == 2  # so many fit


async def test_requests_that_wait_count_and_the_largest_peer_is_told_that_the_server_is_busy(
    nursery: trio.Nursery,
) -> None:
    budget = Budget(1_300_000)
    answering = Answering(nursery, budget=budget)
    peer, other = answering.connect(), answering.connect()
    for _ in range(2):
        await peer.send(request(WAIT, body=b'"%b"' % (b"x" * 400_000)))
    assert (
        await peer.call(request(WAIT, body=b'"%b"' % (b"x" * 400_000)))
    ).code == ResponseCode.SYSTEM_BUSY
    await other.send(request(WAIT, body=b'"%b"' % (b"x" * 100_000)))
    await wait_all_tasks_blocked()
    assert 900_000 < budget.used_bytes <= 1_300_000
    await peer.stream.aclose()
    await other.stream.aclose()
    await wait_all_tasks_blocked()
    assert budget.used_bytes == 0


async def test_requests_to_a_peer_wait_until_it_has_read_what_was_sent_before(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Others have a server ask a peer: they may not fill its connection until it is closed."""
    answering = Answering(nursery)
    peer = answering.connect()
    await peer.send(request(LATER))
    await wait_all_tasks_blocked()
    (session,) = answering.sessions
    ends = Counter[type]()

    async def ask(timeout_s: float) -> None:
        try:
            await session.request(request(BIG, body=bytes(ANSWER_BYTES)), timeout_s)
        except (PeerTimedOut, SessionClosed) as error:
            ends[type(error)] += 1

    async with trio.open_nursery() as asking:
        for _ in range(50):
            asking.start_soon(ask, 3.0)
        await wait_all_tasks_blocked()
        (connection,) = answering.server.connections
        assert connection.outbox.unsent_bytes < PAUSE_BYTES + 2 * ANSWER_BYTES
        assert connection.outbox.unsent_bytes > PAUSE_BYTES
    assert ends == {PeerTimedOut: 50}
    assert not connection.outbox._later  # a request whose answer nobody awaits is kept no longer

    async with trio.open_nursery() as asking:
        for _ in range(50):
            asking.start_soon(ask, 3600.0)
        asked = list[Frame]()
        for _ in range(BEFORE_A_PAUSE + 50):
            asked.append(await peer.receive())
            await wait_all_tasks_blocked()
            assert connection.outbox.unsent_bytes < PAUSE_BYTES + 2 * ANSWER_BYTES
        await peer.send(*(one.reply() for one in asked))
    assert session.has_room
    assert ends == {PeerTimedOut: 50}

    async with trio.open_nursery() as asking:
        for _ in range(50):
            asking.start_soon(ask, 3600.0)
        await wait_all_tasks_blocked()
        session.close()
    assert ends == {PeerTimedOut: 50, SessionClosed: 50}
