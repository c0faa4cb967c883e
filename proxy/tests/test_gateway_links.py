"""Links of a client at an added broker's port: the end of one leaves nothing of it behind."""

import socket
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, cast

import pytest
import trio
import trio.testing

from lanemq.proxy.gateway._answers import SeenAnswers
from lanemq.proxy.gateway._client_links import ClientLinks
from lanemq.proxy.gateway._connecting import Connecting
from lanemq.proxy.gateway._counts import Counts
from lanemq.proxy.gateway._gathered import GATHERED_MAX
from lanemq.proxy.gateway._link import TURN_FRAMES, BrokerLink
from lanemq.proxy.net._answers import Answer, Encoded
from lanemq.proxy.net._session import Session
from lanemq.proxy.net.limits._budget import Account, Budget
from lanemq.sdk import dial_tcp
from lanemq.testkit.proxy.gateways import until
from lanemq.wire import HostAddress, RequestCode, ResponseCode
from lanemq.wire.bodies import LockBatchResult, MessageQueue
from lanemq.wire.frame import Connection, Frame, encode_frame

LOOPBACK: Final = "127.0.0.1"
ADDRESS: Final = HostAddress(LOOPBACK, 1)
RESET: Final = struct.pack("ii", 1, 0)


class Unread:
    """The connection of a client that takes nothing of what is sent to it."""

    def __init__(self) -> None:
        self.account: Account = Budget(1 << 30).open(lambda: None)
        self.has_room = True
        self.written: list[Frame] = []
        self.waiting: dict[int, Callable[[], None]] = {}

    def encoded(self, request: Frame, session: Session, answer: Answer | Exception) -> Encoded:
        raise AssertionError

    def next_opaque(self) -> int:
        return 0

    def write(self, *pieces: Encoded) -> None:
        protocol = Connection()
        for piece in pieces:
            assert isinstance(piece, bytes)
            protocol.receive_data(piece)
            frame = protocol.next_event()
            assert isinstance(frame, Frame)
            self.written.append(frame)

    def when_room(self, answer: Callable[[], None]) -> Callable[[], object]:
        if self.has_room:
            answer()
            return lambda: None
        number = len(self.waiting)
        self.waiting[number] = answer
        return partial(self.waiting.pop, number, None)

    def abort(self) -> None:
        raise AssertionError("another link of the client is none the worse")


class Long:
    """Answers that take as long to make as a test wants, and so do requests with a body."""

    def __init__(self) -> None:
        self.is_making, self.may_end = trio.Event(), trio.Event()

    def is_long(self, code: int | None, frame: Frame) -> bool:
        return code is not None or bool(frame.body)

    async def long_frame(self, code: int | None, frame: Frame) -> Frame:
        self.is_making.set()
        await self.may_end.wait()
        return frame

    def request(self, frame: Frame) -> Frame:
        return frame


class Linked:
    """A link, the broker's side of it, and what the client gets."""

    def __init__(self, client: Unread, answers: SeenAnswers, port: int) -> None:
        self.seen: list[Frame] = []
        self.ended = trio.Event()
        self.broker = cast("trio.SocketStream", None)
        session = Session(client, 1, ADDRESS, 1)
        address = f"{LOOPBACK}:{port}"
        self.link = BrokerLink(session, address, answers, Counts(), "b", self._receive)

    def _receive(self, frames: Sequence[Frame]) -> None:
        self.seen += frames

    @property
    def results(self) -> list[tuple[int, int]]:
        return [(one.opaque, one.code) for one in self.seen]

    def ask(self, opaque: int) -> Frame:
        frame = Frame(RequestCode.LOCK_BATCH_MQ, opaque=opaque, body=b"{}")
        self.link.post(frame)
        self.link.flush()
        return frame


@asynccontextmanager
async def linked(client: Unread, answers: SeenAnswers) -> AsyncIterator[Linked]:
    (listener,) = await trio.open_tcp_listeners(0, host=LOOPBACK)
    async with listener, trio.open_nursery() as nursery:
        at = Linked(client, answers, listener.socket.getsockname()[1])
        nursery.start_soon(at.link.run, Connecting(dial_tcp), at.ended.set)
        at.broker = await listener.accept()
        async with at.broker:
            yield at
        nursery.cancel_scope.cancel()


async def test_a_link_that_breaks_in_a_send_ends_while_the_client_takes_nothing() -> None:
    client = Unread()
    async with linked(client, SeenAnswers(ADDRESS, {})) as at:
        asked = at.ask(1)
        await at.broker.receive_some()
        client.has_room = False
        await at.broker.send_all(encode_frame(asked.reply()))
        await until(lambda: at.seen)  # from now on the link waits for room at the client
        at.broker.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        await at.broker.aclose()
        opaque = 2
        while not at.link.is_over:
            at.ask(opaque)
            opaque += 1
            await trio.lowlevel.checkpoint()
        with trio.fail_after(30):
            await at.ended.wait()
        assert not client.waiting  # the client has others, and what waits is kept until it reads


@pytest.mark.parametrize("waiting", [1, 3])
async def test_answers_that_are_being_made_are_refused_at_the_end_of_a_link(waiting: int) -> None:
    answers = Long()
    async with linked(Unread(), cast("SeenAnswers", answers)) as at:
        asked = [at.ask(number + 1) for number in range(waiting)]
        await at.broker.receive_some()
        await at.broker.send_all(b"".join(encode_frame(one.reply()) for one in asked))
        await answers.is_making.wait()
        await at.link.end_in_turn("the broker has moved")
        refused = [(one.opaque, ResponseCode.SERVICE_NOT_AVAILABLE) for one in asked]
        assert at.results == refused
        await at.ended.wait()
        assert at.results == refused


LONG_REQUEST: Final = Frame(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, opaque=7, body=b"{}")
SHORT_REQUEST: Final = Frame(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, opaque=8)


async def test_what_follows_a_long_request_of_a_broker_waits_for_it() -> None:
    answers = Long()
    async with linked(Unread(), cast("SeenAnswers", answers)) as at:
        asked = at.ask(1)
        await at.broker.receive_some()
        sent = (SHORT_REQUEST, LONG_REQUEST, SHORT_REQUEST, LONG_REQUEST, asked.reply())
        await at.broker.send_all(b"".join(map(encode_frame, sent)))
        await answers.is_making.wait()
        assert [one.opaque for one in at.seen] == [8]
        answers.may_end.set()
        await until(lambda: len(at.seen) == len(sent))
        assert [one.opaque for one in at.seen] == [8, 7, 8, 7, 1]


async def test_a_long_request_of_a_broker_ends_with_its_link() -> None:
    answers, client = Long(), Unread()
    async with linked(client, cast("SeenAnswers", answers)) as at:
        at.ask(1)
        await at.broker.receive_some()
        await at.broker.send_all(encode_frame(LONG_REQUEST) + encode_frame(SHORT_REQUEST))
        await answers.is_making.wait()
        await at.link.end_in_turn("the broker has moved")
        await at.ended.wait()
        assert at.results == [(1, ResponseCode.SERVICE_NOT_AVAILABLE)]
        assert not client.account.kept_bytes


async def test_a_broker_that_is_silent_keeps_no_locks_of_others_from_the_client(
    autojump_clock: trio.testing.MockClock,
) -> None:
    client = Unread()
    queue = MessageQueue("T", "b", 1)
    granted = LockBatchResult((queue,)).encode()
    async with trio.open_nursery() as nursery:
        links = ClientLinks(Session(client, 1, ADDRESS, 1), nursery)
        for opaque in range(3 * GATHERED_MAX):
            asked = Frame(RequestCode.LOCK_BATCH_MQ, opaque=opaque, body=b"{}")
            links.gather(asked, 2)
            if opaque % 2:
                links.receive([asked.reply(body=granted)])
            await trio.sleep(0.01)
        await trio.sleep(1)
        # The client waits for a second, and there are never so many that none is taken.
        assert [one.opaque for one in client.written] == list(range(3 * GATHERED_MAX))
        for one in client.written:
            if one.opaque % 2:
                assert LockBatchResult.decode(one.body).lock_ok_mq_set == (queue,)
            else:
                assert one.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert not client.account.kept_bytes


async def test_answers_before_what_a_broker_should_not_have_sent_are_passed_on() -> None:
    async with linked(Unread(), SeenAnswers(ADDRESS, {})) as at:
        asked = at.ask(1)
        at.ask(2)
        await at.broker.receive_some()
        await at.broker.send_all(encode_frame(asked.reply()) + b"\xff" * 8)
        await at.ended.wait()
        assert at.results == [(1, 0), (2, ResponseCode.SERVICE_NOT_AVAILABLE)]


async def test_the_small_requests_of_one_read_are_looked_into_in_turns() -> None:
    count, most, now = 1000, 0, 0

    class Steps(trio.abc.Instrument):
        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            nonlocal now
            now = 0

    class Counted(Long):
        def request(self, frame: Frame) -> Frame:
            nonlocal most, now
            now += 1
            most = max(most, now)
            return frame

    trio.lowlevel.add_instrument(steps := Steps())
    async with linked(Unread(), cast("SeenAnswers", Counted())) as at:
        await at.broker.send_all(encode_frame(SHORT_REQUEST) * count)
        await until(lambda: len(at.seen) == count)
    trio.lowlevel.remove_instrument(steps)
    assert most <= TURN_FRAMES
