"""A server answers a read with one send, waits beside the connection, and survives its peers."""

import logging
import socket
from contextlib import suppress
from functools import partial
from itertools import pairwise

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from lanemq.proxy.net._answers import Result
from lanemq.proxy.net._connection import ServerConnection
from lanemq.proxy.net._dispatch import (
    BODY_VALUES_MAX,
    QUICK_BODY_BYTES,
    TEXT_BODY_BYTES_MAX,
    Handler,
)
from lanemq.proxy.net._loop_turn import LoopTurn
from lanemq.proxy.net._loop_watch import HELD_S, Timed, loop_watch
from lanemq.proxy.net._server import Server
from lanemq.proxy.net._session import PeerTimedOut, Session, SessionClosed
from lanemq.proxy.net.limits._budget import Budget
from lanemq.proxy.net.limits._descriptors import peers_max
from lanemq.proxy.net.limits._limits import Limits
from lanemq.proxy.net.transport._listen import (
    AddressUnavailable,
    listen,
    listen_with_vip,
    warn_of_strangers,
)
from lanemq.proxy.net.transport._tls import ServerTls
from lanemq.testkit.proxy.peers import Connect, Dial, Peer
from lanemq.testkit.proxy.requests import any_handlers
from lanemq.testkit.proxy.turns import Turns
from lanemq.wire import (
    HostAddress,
    Refused,
    RemoteProtocolError,
    RequestCode,
    ResponseCode,
)
from lanemq.wire.frame import Frame, SerializeType, encode_frame, request

ECHO, FAIL, REFUSE, BAD_HEADER, WAIT, BYTES, SILENT = 1, 2, 3, 4, 5, 6, 7


class Raw(Result, frozen=True):
    """A result with an encoder of its own."""

    body: bytes


class Handled:
    """Handlers of every kind, and what they saw."""

    def __init__(self) -> None:
        self.sessions: list[Session] = []
        self.release = trio.Event()
        self.handlers = any_handlers()
        answering: dict[int, Handler] = {
            ECHO: self.echo,
            FAIL: self.fail,
            REFUSE: self.refuse,
            BAD_HEADER: self.bad_header,
            WAIT: self.wait,
            SILENT: self.silent,
        }
        for code, handler in answering.items():
            self.handlers.add(code, handler)
        self.handlers.add(BYTES, lambda frame, session: Raw(b"raw"))
        self.handlers.encode(Raw, lambda frame, raw: encode_frame(frame.reply(body=raw.body)))

    def server(self, **limits: float) -> Server:
        return Server(self.handlers, name="test", limits=Limits(**limits))  # type: ignore[arg-type]

    def echo(self, frame: Frame, session: Session) -> Frame:
        self.sessions.append(session)
        return frame.reply(fields=frame.fields, body=frame.body)

    def silent(self, frame: Frame, session: Session) -> None:
        self.sessions.append(session)

    def fail(self, frame: Frame, session: Session) -> Frame:
        raise KeyError("nothing here")

    def refuse(self, frame: Frame, session: Session) -> Frame:
        raise Refused(ResponseCode.NO_PERMISSION, "not you")

    def bad_header(self, frame: Frame, session: Session) -> Frame:
        raise RemoteProtocolError("required field topic is missing")

    async def wait(self, frame: Frame, session: Session) -> Frame:
        await self.release.wait()
        return frame.reply(body=b"waited")


def echo(opaque: int, body: bytes = b"", **more: int) -> Frame:
    return request(ECHO, {"n": str(opaque)}, body, opaque=opaque, **more)  # type: ignore[arg-type]


async def test_a_reply_repeats_the_opaque_and_the_serialize_type(connect: Connect) -> None:
    peer = connect(Handled().server())
    for serialize in SerializeType:
        asked = Frame(code=ECHO, opaque=77, fields={"a": "1"}, body=b"xyz", serialize=serialize)
        answer = await peer.call(asked)
        assert (answer.code, answer.opaque, answer.flag) == (0, 77, 1)
        assert (answer.serialize, answer.fields, answer.body) == (serialize, {"a": "1"}, b"xyz")
        assert answer.language == "PYTHON"


async def test_the_answers_of_one_read_leave_with_one_send(connect: Connect) -> None:
    handled = Handled()
    peer = connect(handled.server())
    await peer.send(*(echo(n) for n in range(50)), request(BYTES, opaque=50))
    data = await peer.stream.receive_some()
    assert data.count(b"extFields") == 51


async def test_many_requests_of_one_peer_let_others_in_between(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LoopTurn, "slice_s", lambda _: -1.0)  # every request has taken its time
    handled = Handled()
    server = handled.server()
    busy, other = connect(server), connect(server, port=40002)
    await other.call(echo(0))
    await busy.send(*(echo(n) for n in range(100)))
    await other.call(echo(1))
    turns = [session.peer.port for session in handled.sessions]
    assert 40002 in turns[2:20]
    assert [(await busy.receive()).opaque for _ in range(100)] == list(range(100))


async def test_an_unknown_code_gets_the_references_answer(connect: Connect) -> None:
    answer = await connect(Handled().server()).call(request(9999))
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert answer.remark == " request type 9999 not supported"


async def test_a_failing_handler_costs_one_request(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    peer = connect(Handled().server())
    failed, refused, bad, echoed = [
        await peer.call(request(code, opaque=code)) for code in (FAIL, REFUSE, BAD_HEADER, ECHO)
    ]
    assert (failed.code, failed.remark) == (
        1,
        "the server failed at request 2; its log says why",
    )
    assert (refused.code, refused.remark) == (ResponseCode.NO_PERMISSION, "not you")
    assert (bad.code, bad.remark) == (1, "required field topic is missing")
    assert echoed.code == 0
    assert [record.levelname for record in caplog.records if record.exc_info] == ["ERROR"]


async def test_a_oneway_request_is_never_answered(connect: Connect) -> None:
    peer = connect(Handled().server())
    oneways = [request(code, opaque=code, oneway=True) for code in (ECHO, FAIL, BYTES, 9999)]
    await peer.send(*oneways, echo(5))
    assert (await peer.receive()).opaque == 5


async def test_a_waiting_request_does_not_hold_up_the_next(connect: Connect) -> None:
    handled = Handled()
    peer = connect(handled.server())
    await peer.send(request(WAIT, opaque=1), echo(2))
    assert (await peer.receive()).opaque == 2
    assert (await peer.call(echo(3))).opaque == 3
    handled.release.set()
    late = await peer.receive()
    assert (late.opaque, late.body) == (1, b"waited")


async def test_waiting_requests_beyond_the_budget_are_told_that_the_server_is_busy(
    connect: Connect,
) -> None:
    handled = Handled()
    server = handled.server(in_flight_per_connection=3, in_flight_total=10)
    first, second = connect(server), connect(server)
    await first.send(*(request(WAIT, opaque=n) for n in range(5)))
    assert {(await first.receive()).opaque for _ in range(2)} == {3, 4}
    await second.send(*(request(WAIT, opaque=n) for n in range(3)))
    busy = await second.receive()  # its share
    assert (busy.code, busy.opaque) == (ResponseCode.SYSTEM_BUSY, 2)
    assert busy.remark is not None
    assert busy.remark.startswith("[OVERLOAD]")
    handled.release.set()
    assert {(await first.receive()).opaque for _ in range(3)} == {0, 1, 2}
    assert {(await second.receive()).opaque for _ in range(2)} == {0, 1}
    assert server.in_flight == 0


async def test_waiting_requests_of_all_connections_of_one_address_leave_places(
    connect: Connect,
) -> None:
    handled = Handled()
    server = handled.server(in_flight_total=16)
    greedy = [connect(server, host="10.9.9.9") for _ in range(16)]
    for one in greedy:
        await one.send(request(WAIT, opaque=7))
        await trio.testing.wait_all_tasks_blocked()
    assert server.in_flight == 13
    for one in greedy[13:]:
        assert (await one.receive()).code == ResponseCode.SYSTEM_BUSY
    other = connect(server, host="10.1.1.1")
    await other.send(request(WAIT, opaque=8))
    await trio.testing.wait_all_tasks_blocked()
    handled.release.set()
    for one in (*greedy[:13], other):
        assert (await one.receive()).body == b"waited"
    assert server.in_flight == 0


async def test_fields_of_a_waiting_request_are_charged_as_what_they_take(connect: Connect) -> None:
    handled = Handled()
    server = handled.server()
    used_bytes = [server.budget.used_bytes]
    for fields in ({}, {f"x{n}": f"{n}" for n in range(200)}, {"x": "x" * 100_000}):
        await connect(server).send(request(WAIT, fields))
        await wait_all_tasks_blocked()
        used_bytes.append(server.budget.used_bytes)
    plain, many, long = (after - before for before, after in pairwise(used_bytes))
    assert plain + 200 * 100 < many
    assert plain + 100_000 <= long
    handled.release.set()
    await wait_all_tasks_blocked()
    assert server.budget.used_bytes == used_bytes[0]


async def test_hooks_run_after_the_handlers_and_before_the_replies(connect: Connect) -> None:
    handled, seen = Handled(), list[int]()
    server = handled.server()
    server.after_batch.append(lambda: seen.append(len(handled.sessions)))
    peer = connect(server)
    await peer.send(echo(1), echo(2))
    await peer.receive()
    assert seen == [2]


async def test_a_failing_hook_refuses_everything_in_its_batch(connect: Connect) -> None:
    handled = Handled()
    server = handled.server()

    def full() -> None:
        raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, "disk full")

    peer = connect(server)
    server.after_batch.append(full)
    await peer.send(echo(1), request(WAIT, opaque=2), request(ECHO, opaque=3, oneway=True))
    answers = [await peer.receive() for _ in range(2)]
    assert [(a.code, a.remark) for a in answers] == [(14, "disk full")] * 2
    assert {a.opaque for a in answers} == {1, 2}
    server.after_batch.clear()
    assert (await peer.call(echo(4))).opaque == 4


async def test_what_handlers_send_to_others_waits_for_the_hook(connect: Connect) -> None:
    handled, order = Handled(), list[str]()
    server = handled.server()
    server.after_batch.append(lambda: order.append("hook"))
    watcher = connect(server)
    await watcher.call(echo(1))

    def notify(frame: Frame, session: Session) -> Frame:
        handled.sessions[0].oneway(request(40))
        order.append("sent")
        return frame.reply()

    handled.handlers.add(50, notify)
    order.clear()
    assert (await connect(server).call(request(50))).code == 0
    pushed = await watcher.receive()
    assert (pushed.code, pushed.is_oneway, pushed.serialize) == (40, True, SerializeType.JSON)
    assert order == ["sent", "hook"]


async def test_requests_to_a_peer_are_matched_by_our_own_opaques(connect: Connect) -> None:
    handled = Handled()
    peer = connect(handled.server())
    await peer.send(request(SILENT, opaque=1))
    await wait_all_tasks_blocked()
    session = handled.sessions[0]
    answers: dict[int, bytes] = {}

    async def ask(code: int) -> None:
        answers[code] = (await session.request(request(code), timeout_s=60)).body

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, 307)
        nursery.start_soon(ask, 309)
        asked = [await peer.receive(), await peer.receive()]
        assert {frame.opaque for frame in asked} == {1, 2}
        for frame in reversed(asked):
            await peer.send(frame.reply(body=str(frame.code).encode()))
    assert answers == {307: b"307", 309: b"309"}


async def test_a_peer_that_does_not_answer_times_out_and_its_late_answer_is_dropped(
    connect: Connect, autojump_clock: MockClock
) -> None:
    handled = Handled()
    peer = connect(handled.server())
    await peer.call(echo(1))
    start_s = trio.current_time()
    with pytest.raises(PeerTimedOut, match=r"307 in 3 s"):
        await handled.sessions[0].request(request(307), timeout_s=3)
    assert trio.current_time() - start_s == 3
    await peer.send((await peer.receive()).reply())
    assert (await peer.call(echo(2))).opaque == 2


async def test_the_end_of_a_connection_wakes_who_waits_and_tells_the_registries(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    handled, ended = Handled(), list[Session]()
    server = handled.server()
    peer = connect(server)
    await peer.call(echo(1))
    session = handled.sessions[0]

    def broken(session: Session) -> None:
        raise RuntimeError("this registry is broken")

    session.on_close += [broken, ended.append]
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            with pytest.raises(SessionClosed):
                await session.request(request(307), timeout_s=30)

        nursery.start_soon(ask)
        await peer.receive()
        await peer.stream.aclose()
    assert ended == [session]
    assert session.closed
    assert not server.connections
    with pytest.raises(SessionClosed):
        await session.request(request(307), timeout_s=1)
    session.send(request(40))  # to nobody, and nobody minds
    assert "this registry is broken" in caplog.text


async def test_who_sends_to_a_peer_that_goes_fails_at_no_moment(connect: Connect) -> None:
    """Nor in the turn between the end of the connection's tasks and its own, if that has one."""

    async def send(session: Session) -> None:
        while not session.closed:
            session.oneway(request(40))
            await trio.lowlevel.checkpoint()

    for _ in range(20):
        handled = Handled()
        peer = connect(handled.server())
        await peer.call(echo(1))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, handled.sessions[0])
            await peer.receive()
            assert isinstance(peer.stream, trio.abc.HalfCloseableStream)
            await peer.stream.send_eof()


async def test_requests_still_waiting_end_with_their_connection(connect: Connect) -> None:
    server = Handled().server()
    peer = connect(server)
    await peer.send(request(WAIT))
    await wait_all_tasks_blocked()
    assert server.in_flight == 1
    await peer.stream.aclose()
    await wait_all_tasks_blocked()
    assert server.in_flight == 0


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff" * 64,
        b"\x00\x00\x00\x00\x00\x00\x00\x00",
        b"\x7f\xff\xff\xff\x00\x00\x00\x10",
        b"\x00\x00\x00\x10\x00\x00\xff\xff0123456789ab",
        b"\x00\x00\x00\x10\x07\x00\x00\x040123456789ab",
        b"\x00\x00\x00\x10\x00\x00\x00\x0cnot json at all"[:20],
        b"\x00\x00\x00\x08\x01\x00\x00\x04\x00\x01\x02\x03",
    ],
    ids=[
        "http",
        "ones",
        "zeros",
        "too long",
        "header longer than frame",
        "unknown serialize type",
        "header no JSON",
        "binary header cut short",
    ],
)
async def test_garbage_closes_its_connection_after_the_answers_before_it(
    connect: Connect, caplog: pytest.LogCaptureFixture, garbage: bytes
) -> None:
    server = Handled().server()
    peer, other = connect(server), connect(server)
    await peer.stream.send_all(encode_frame(echo(1)) + garbage)
    assert (await peer.receive()).opaque == 1
    assert await peer.is_closed()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "connection closed" in caplog.text
    assert (await other.call(echo(2))).opaque == 2


@settings(deadline=None)
@given(chunks=st.lists(st.binary(min_size=1, max_size=64), max_size=8))
def test_whatever_comes_in_nothing_but_answers_come_out(chunks: list[bytes]) -> None:
    async def main() -> None:
        server = Handled().server()
        ours, theirs = memory_stream_pair()
        async with trio.open_nursery() as nursery:

            async def serve() -> None:
                await server.serve_stream(theirs, peer=HostAddress("10.0.0.1", 1))

            nursery.start_soon(serve)
            try:
                for chunk in chunks:
                    await ours.send_all(chunk)
                await ours.send_eof()
            except trio.BrokenResourceError:
                pass
        assert not server.connections
        assert server.in_flight == 0

    logging.getLogger("lanemq.proxy").setLevel(logging.CRITICAL)
    try:
        trio.run(main)
    finally:
        logging.getLogger("lanemq.proxy").setLevel(logging.NOTSET)


@settings(deadline=None, max_examples=50)
@given(data=st.data(), bodies=st.lists(st.binary(max_size=40), min_size=1, max_size=6))
def test_however_the_bytes_are_cut_the_answers_are_the_same(
    data: st.DataObject, bodies: list[bytes]
) -> None:
    stream = b"".join(encode_frame(echo(n, body)) for n, body in enumerate(bodies))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    edges = [0, *cuts, len(stream)]

    async def main() -> None:
        ours, theirs = memory_stream_pair()
        peer, server = Peer(ours), Handled().server()
        async with trio.open_nursery() as nursery:

            async def serve() -> None:
                await server.serve_stream(theirs, peer=HostAddress("10.0.0.1", 1))

            nursery.start_soon(serve)
            for begin, end in pairwise(edges):
                if end > begin:
                    await ours.send_all(stream[begin:end])
            assert [(await peer.receive()).body for _ in bodies] == bodies
            await ours.aclose()

    trio.run(main)


async def test_an_idle_connection_is_closed(
    nursery: trio.Nursery, connect: Connect, autojump_clock: MockClock
) -> None:
    server = Handled().server(idle_s=120, sweep_s=5)
    await nursery.start(server.serve, [])
    busy, idle = connect(server), connect(server)
    await idle.call(echo(1))
    start_s = trio.current_time()
    for n in range(8):
        await busy.call(echo(n))
        await trio.sleep(14)
    assert await idle.is_closed()
    assert 120 < trio.current_time() - start_s <= 126
    assert (await busy.call(echo(99))).opaque == 99


async def test_a_frame_that_trickles_in_is_cut_off(
    nursery: trio.Nursery,
    connect: Connect,
    autojump_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Handled().server(frame_s=120, sweep_s=5)
    await nursery.start(server.serve, [])
    peer = connect(server)
    start_s = trio.current_time()

    async def trickle() -> None:
        for byte in encode_frame(echo(1, bytes(500))):
            await peer.stream.send_all(bytes([byte]))
            await trio.sleep(1)

    with pytest.raises(trio.BrokenResourceError):
        await trickle()
    assert 120 < trio.current_time() - start_s <= 127
    assert "did not finish a frame" in caplog.text


async def test_requests_that_wait_for_room_are_no_frame_that_trickles_in(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    server = Handled().server(frame_s=30, sweep_s=5, unsent_pause_bytes=1)
    await nursery.start(server.serve, [])
    ours, theirs = trio.testing.lockstep_stream_pair()
    nursery.start_soon(partial(server.serve_stream, theirs, peer=HostAddress("10.0.0.1", 1)))
    peer = Peer(ours)
    await peer.stream.send_all(b"".join(encode_frame(echo(n)) for n in range(600)) + b"\0")
    for n in range(600):
        assert (await peer.receive()).opaque == n
        await trio.sleep(1)
    await peer.stream.send_all(encode_frame(echo(600))[1:])
    assert (await peer.receive()).opaque == 600


async def test_a_peer_that_takes_no_answers_is_cut_off(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    server = Handled().server(write_stall_s=30, sweep_s=5)
    await nursery.start(server.serve, [])
    ours, theirs = trio.testing.lockstep_stream_pair()

    nursery.start_soon(Peer(ours).send, echo(1))
    start_s = trio.current_time()
    await server.serve_stream(theirs, peer=HostAddress("10.0.0.1", 1))
    assert 30 < trio.current_time() - start_s <= 37
    assert "does not read its answers" in caplog.text


# Real sockets from here on.


async def test_two_ports_share_one_server(nursery: trio.Nursery, dial: Dial) -> None:
    handled = Handled()
    main, vip = listen_with_vip("127.0.0.1", 0)
    ports = [one.getsockname()[1] for one in (main, vip)]
    assert ports[1] == ports[0] - 2
    server = handled.server()
    await nursery.start(server.serve, [main, vip])
    for port in ports:
        assert (await (await dial(port)).call(echo(port))).opaque == port
    assert [session.local_port for session in handled.sessions] == ports
    assert [session.id for session in handled.sessions] == [1, 2]
    await server.stop()


async def test_a_large_answer_goes_through_a_small_window(
    nursery: trio.Nursery, dial: Dial
) -> None:
    handled = Handled()
    listener = listen("127.0.0.1", 0)
    handled.handlers.table[ECHO] = handled.echo  # as requests that bring messages
    server = handled.server()
    await nursery.start(server.serve, [listener])
    peer = await dial(listener.getsockname()[1])
    body = bytes(range(256)) * (4 << 12)
    await peer.send(echo(1, body), echo(2))
    assert (await peer.receive()).body == body
    assert (await peer.receive()).opaque == 2
    await server.stop()


@pytest.mark.slow
async def test_nothing_more_is_read_from_a_peer_that_does_not_read(
    nursery: trio.Nursery, dial: Dial
) -> None:
    handled = Handled()
    listener = listen("127.0.0.1", 0)
    server = handled.server(unsent_pause_bytes=64 << 10)
    await nursery.start(server.serve, [listener])
    peer = await dial(listener.getsockname()[1])
    frame = echo(1, bytes(256 << 10))

    async def send() -> None:
        with suppress(trio.BrokenResourceError):  # the server stops at last
            for _ in range(1000):
                await peer.send(frame)

    nursery.start_soon(send)
    await wait_all_tasks_blocked(0.1)
    (connection,) = server.connections
    assert len(handled.sessions) < 100  # the kernel's buffers hold some of them
    assert connection.outbox.unsent_bytes < 16 << 20
    await server.stop()


async def test_a_peer_that_asks_and_never_listens_is_closed_at_the_limit(
    nursery: trio.Nursery, dial: Dial, caplog: pytest.LogCaptureFixture
) -> None:
    handled = Handled()
    listener = listen("127.0.0.1", 0)
    server = handled.server(unsent_max_bytes=1 << 20)
    await nursery.start(server.serve, [listener])
    peer = await dial(listener.getsockname()[1])
    await peer.call(echo(1))
    session = handled.sessions[0]
    for _ in range(200):
        session.send(request(40, body=bytes(64 << 10)))
    await wait_all_tasks_blocked()
    assert session.closed
    assert "does not read its answers" in caplog.text
    await server.stop()


async def test_a_stopping_server_lets_answers_leave_and_accepts_nobody(
    nursery: trio.Nursery, dial: Dial
) -> None:
    handled = Handled()
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    server = handled.server(drain_s=60)  # far more than the answer takes, on a busy machine, too
    served = trio.Event()

    async def serve(task_status: trio.TaskStatus[None]) -> None:
        await server.serve([listener], task_status=task_status)
        served.set()

    await nursery.start(serve)
    peer = await dial(port)
    await peer.send(request(WAIT, opaque=1))
    await peer.call(echo(2))
    nursery.start_soon(server.stop)
    await wait_all_tasks_blocked(0.005)
    with pytest.raises(OSError, match="connect"):
        await dial(port)
    handled.release.set()
    assert (await peer.receive()).opaque == 1
    await served.wait()
    assert await peer.is_closed()


def test_a_taken_port_is_named() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(AddressUnavailable, match=rf"127\.0\.0\.1:{port}: Address already"):
            listen("127.0.0.1", port)


def test_a_taken_vip_port_is_named() -> None:
    main, vip = listen_with_vip("127.0.0.1", 0)
    port = main.getsockname()[1]
    main.close()
    with vip, pytest.raises(AddressUnavailable, match=rf":{port - 2}: "):
        listen_with_vip("127.0.0.1", port)


def test_a_name_that_does_not_resolve_is_named() -> None:
    with pytest.raises(AddressUnavailable, match=r"cannot listen on no\.such\.host\.invalid:1"):
        listen("no.such.host.invalid", 1)


async def test_an_ipv4_peer_of_a_dual_stack_port_is_unwrapped(
    nursery: trio.Nursery, dial: Dial
) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    handled = Handled()
    listener = listen("::", 0)
    server = handled.server()
    await nursery.start(server.serve, [listener])
    await (await dial(listener.getsockname()[1])).call(echo(1))
    assert handled.sessions[0].peer.host == "127.0.0.1"
    await server.stop()


async def test_work_nobody_waits_for_comes_last_and_costs_no_connection(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    handled, order = Handled(), list[str]()
    server = handled.server()

    def finish() -> None:
        order.append(f"finished, {len(server.dirty)} unsent, in batch {server.in_batch}")
        raise ValueError("a bug")

    server.after_batch.append(lambda: order.append("written"))
    server.after_replies.append(finish)
    peer = connect(server)
    assert (await peer.call(echo(1))).opaque == 1
    assert order == ["written", "finished, 0 unsent, in batch True"]
    assert "could not finish a batch" in caplog.text
    assert (await peer.call(echo(2))).opaque == 2
    assert server.in_batch is False


class Looked:
    """A transport with bytes in stock, which counts how it is asked for them."""

    def __init__(self, chunks: list[bytes]) -> None:
        self.chunks = chunks
        self.waits = self.looks = 0
        self.sent: list[bytes] = []

    def _next(self) -> bytes:
        return self.chunks.pop(0) if self.chunks else b""

    async def receive(self) -> bytes:
        self.waits += 1
        await trio.lowlevel.checkpoint()
        return self._next()

    def try_receive(self) -> bytes | None:
        self.looks += 1
        return self._next()

    def try_send(self, data: bytes | memoryview) -> int:
        self.sent.append(bytes(data))
        return len(data)

    async def send(self, data: memoryview) -> int:
        return len(data)

    async def close(self) -> None:
        pass


def looked_at(server: Server, chunks: int) -> tuple[Looked, ServerConnection]:
    transport = Looked([encode_frame(echo(number)) for number in range(chunks)])
    peer = HostAddress("127.0.0.1", 1)
    return transport, ServerConnection(server, transport, session_id=1, peer=peer, local_port=1)


async def test_a_lonely_peer_is_looked_for_but_others_have_their_turn() -> None:
    server = Handled().server()
    transport, connection = looked_at(server, 200)
    with trio.fail_after(60):
        await connection.run()
    assert len(transport.sent) == 200
    # 17 reads until it counts as alone; then eight without waiting, one with.
    assert transport.waits == 17 + (201 - 17) // 9
    assert transport.looks == 201 - transport.waits


async def test_peers_that_take_turns_are_not_looked_for() -> None:
    server = Handled().server()
    pairs = [looked_at(server, 100) for _ in range(2)]
    for _ in range(100):
        for _, connection in pairs:
            assert connection._process(await connection._receive())
    assert [transport.looks for transport, _ in pairs] == [0, 0]


async def test_a_look_that_finds_nothing_is_not_repeated_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Handled().server()
    transport, connection = looked_at(server, 40)
    monkeypatch.setattr(transport, "try_receive", lambda: None)
    for _ in range(17):
        await connection._receive()
    counts = []
    for _ in range(10):
        await connection._receive()
        counts.append(server.served_reads)
    assert counts == [12, 13, 14, 15, 16, 12, 13, 14, 15, 16]


async def test_who_keeps_everybody_waiting_is_logged_and_counted(
    connect: Connect, caplog: pytest.LogCaptureFixture, turns: Turns
) -> None:
    def hold(frame: Frame, session: Session) -> Frame:
        turns.take(HELD_S + 0.01)
        return frame.reply()

    async def hold_later(frame: Frame, session: Session) -> Frame:
        await trio.lowlevel.checkpoint()
        return hold(frame, session)

    async def task() -> None:
        await trio.lowlevel.checkpoint()
        hold(request(0), server.connections.pop().session)

    handled = Handled()
    handled.handlers.add(202, hold)
    handled.handlers.add(208, hold_later)
    server = handled.server()
    peer = connect(server, host="10.9.8.7", port=4321)
    await peer.call(request(202, opaque=1))
    assert server.watch.held == 1
    assert "request 202 of 10.9.8.7:4321 kept everybody waiting for " in caplog.text
    await peer.call(request(208, opaque=2))
    assert server.watch.held == 2
    assert "request 208 of 10.9.8.7:4321 kept everybody waiting for " in caplog.text
    await Timed(task(), server.watch, "the task of this test")
    assert server.watch.held == 3
    assert "the task of this test kept everybody waiting for " in caplog.text
    assert server.watch.longest_s > HELD_S
    assert loop_watch() is server.watch


async def test_a_long_body_that_is_slow_to_read_is_refused(connect: Connect) -> None:
    slow = {
        "bare keys": b"{" + b"0:1111111," * 8000 + b"0:1}",
        "a reference": b'{"a":{"$ref":"$.b"},"b":"' + b"x" * 70_000 + b'"}',
        "no JSON": b"[" + b"1111111," * 10_000 + b"x",
    }
    handled = Handled()
    handled.handlers.add(RequestCode.SEND_MESSAGE, handled.echo)
    peer = connect(handled.server())
    for body in slow.values():
        answer = await peer.call(request(ECHO, body=body))
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark == (
            f"a body of {len(body)} bytes that is not strict JSON, at most {QUICK_BODY_BYTES} of "
            f"that are read of request {ECHO}"
        )
        short = body[:QUICK_BODY_BYTES]
        assert (await peer.call(request(ECHO, body=short))).body == short
        assert (await peer.call(request(RequestCode.SEND_MESSAGE, body=body))).code == 0  # no JSON
    strict = b"[" + b"1," * (BODY_VALUES_MAX - 3) + b"1]"
    assert (await peer.call(request(ECHO, body=strict))).code == 0


async def test_a_body_of_too_many_values_is_refused(connect: Connect) -> None:
    """Of half a megabyte, empty arrays take ten times as long to read as texts."""
    handled = Handled()
    peer = connect(handled.server())
    many = {
        "arrays": b"[" + b"[]," * 40_000 + b"[]]",
        "numbers": b"[" + b"1," * 70_000 + b"1]",
        "objects": b"[" + b"{}," * 40_000 + b"{}]",
        "members": b"{" + b'"a":1,' * 70_000 + b'"a":1}',
    }
    for what, body in many.items():
        answer = await peer.call(request(ECHO, body=body))
        assert answer.code == ResponseCode.SYSTEM_ERROR, what
        remark = f"JSON values, at most {BODY_VALUES_MAX} are read of request"
        assert remark in (answer.remark or "")
    text_only = b'["' + b"x" * 500_000 + b'"]'
    assert (await peer.call(request(ECHO, body=text_only))).code == 0


async def test_a_body_of_settings_that_is_too_long_is_refused(connect: Connect) -> None:
    handled = Handled()
    handled.handlers.add(RequestCode.UPDATE_BROKER_CONFIG, handled.echo)
    peer = connect(handled.server())
    fits = b"a" * TEXT_BODY_BYTES_MAX
    for body, code in ((fits, 0), (fits + b"a", ResponseCode.SYSTEM_ERROR)):
        answer = await peer.call(request(RequestCode.UPDATE_BROKER_CONFIG, body=body))
        assert answer.code == code
    assert f"at most {TEXT_BODY_BYTES_MAX} are read" in (answer.remark or "")


async def test_peers_are_refused_before_descriptors_are_used_up(
    nursery: trio.Nursery, dial: Dial, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(Handled().handlers, name="test", budget=Budget(accounts_max=2))
    listener = listen("127.0.0.1", 0)
    await nursery.start(server.serve, [listener])
    port = listener.getsockname()[1]
    peers = [await dial(port) for _ in range(2)]
    for peer in peers:
        assert (await peer.call(echo(1))).code == 0
    for _ in range(3):
        assert await (await dial(port)).is_closed()
    (told,) = caplog.messages  # once for all of them
    assert "the 2 connections that it may have, of which file descriptors" in told
    await peers[0].stream.aclose()
    with trio.fail_after(60):
        while len(server.connections) > 1:  # noqa: ASYNC110 - it tells nobody
            await trio.sleep(0.001)
    assert (await (await dial(port)).call(echo(2))).code == 0


@pytest.mark.parametrize(
    ("host", "is_told"), [("127.0.0.1", False), ("::1", False), ("0.0.0.0", True), ("::", True)]
)
def test_ports_that_others_can_reach_are_named_at_every_start(
    host: str, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with listen(host, 0) as opened:
        warn_of_strangers("broker b", [opened], ServerTls(), has_accounts=False)
        told = [f"{host}:{opened.getsockname()[1]}" in line for line in caplog.messages]
    assert told == [True] * is_told


def test_some_descriptors_are_kept_for_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, peers in ((1024, 512), (20_000, 18_976), (100, 50)):
        monkeypatch.setattr("resource.getrlimit", lambda _, limit=limit: (limit, limit))
        assert peers_max() == peers
