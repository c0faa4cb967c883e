"""TLS at the ports of a server: beside plain connections, with whom, and at what cost."""

import logging
import os
import random
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from lanemq.proxy._settings import ConfigError
from lanemq.proxy.net._server import Server
from lanemq.proxy.net._session import Session
from lanemq.proxy.net.limits._budget import Budget
from lanemq.proxy.net.limits._limits import Limits
from lanemq.proxy.net.transport._listen import listen, warn_of_strangers
from lanemq.proxy.net.transport._tls import ServerTls, TlsMode
from lanemq.proxy.net.transport._tls_transport import HANDSHAKE_BYTES
from lanemq.proxy.tls import ProcessTls, TlsSettings
from lanemq.proxy.tls._process_tls import LOOK_S
from lanemq.testkit.proxy.certificates import Authority, Pair
from lanemq.testkit.proxy.peers import Connect, Dial, Peer
from lanemq.testkit.proxy.requests import any_handlers
from lanemq.wire import HostAddress, RequestCode
from lanemq.wire.frame import Frame, encode_frame, request

ECHO, BIG = RequestCode.SEND_MESSAGE, 2  # bodies of sends may be anything
BIG_BYTES = 3 << 20
HELLO = bytes.fromhex("16030100c8010000c40303")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.issue()


def properties(pair: Pair, mode: str = "permissive", **more: object) -> dict[str, str]:
    """Settings with ``pair``; of ``more`` the names have _ for dots."""
    return {
        "tls.server.mode": mode,
        "tls.server.certPath": str(pair.certificate),
        "tls.server.keyPath": str(pair.key),
        **{f"tls.{key.replace('_', '.')}": str(value) for key, value in more.items()},
    }


def tls_of(settings: dict[str, str]) -> ProcessTls:
    return ProcessTls(TlsSettings.from_properties(settings), name="test")


def echo(frame: Frame, session: Session) -> Frame:
    return frame.reply(body=frame.body)


def serving(tls: ServerTls, budget: Budget | None = None, **limits: float) -> Server:
    handlers = any_handlers()
    handlers.add(ECHO, echo)
    handlers.add(BIG, lambda frame, session: frame.reply(body=bytes(BIG_BYTES)))
    bounds = Limits(**limits)  # type: ignore[arg-type]
    return Server(handlers, name="test", tls=tls, limits=bounds, budget=budget or Budget())


Secure = Callable[..., Peer]


@pytest.fixture
def secure(connect: Connect) -> Secure:
    """``secure(server, context)``: a new peer of ``server`` that speaks TLS."""

    def secure(server: Server, context: ssl.SSLContext) -> Peer:
        stream = connect(server).stream
        over = trio.SSLStream(stream, context, server_hostname="127.0.0.1", https_compatible=True)
        return Peer(over)

    return secure


def closed_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in caplog.messages if "connection closed" in line]


async def first_closed_line(caplog: pytest.LogCaptureFixture) -> str:
    """Wait for it: what a thread sends to a socket may be under way for a while."""
    with trio.fail_after(60):
        while not (lines := closed_lines(caplog)):  # noqa: ASYNC110 - nobody is told
            await trio.sleep(0.01)
    (line,) = lines
    return line


# One port for both


async def test_one_port_takes_plain_connections_and_those_with_tls(
    connect: Connect, secure: Secure, authority: Authority, pair: Pair
) -> None:
    server = serving(tls_of(properties(pair)).server)
    for peer in (connect(server), secure(server, authority.trusted())):
        for body in (b"", b"x", bytes(range(256)) * 2000):
            assert (await peer.call(request(ECHO, body=body))).body == body
        await peer.send(*(request(ECHO, opaque=number) for number in range(200)))
        assert [(await peer.receive()).opaque for _ in range(200)] == list(range(200))


async def test_versions_of_tls_that_clients_have(
    secure: Secure, authority: Authority, pair: Pair
) -> None:
    server = serving(tls_of(properties(pair)).server)
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = authority.trusted()
        context.minimum_version = context.maximum_version = version
        assert (await secure(server, context).call(request(ECHO, body=b"x"))).body == b"x"


async def test_a_port_that_enforces_tls_closes_plain_connections(
    connect: Connect,
    secure: Secure,
    authority: Authority,
    pair: Pair,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = serving(tls_of(properties(pair, "enforcing")).server)
    done: list[Frame] = []
    server.handlers.table[BIG] = lambda frame, session: done.append(frame)
    plain = connect(server)
    await plain.send(request(BIG), request(BIG))
    assert await plain.is_closed()
    assert done == []
    caplog.clear()
    plain = connect(server)
    await plain.send(request(ECHO))
    assert await plain.is_closed()
    (line,) = closed_lines(caplog)
    assert line == (
        "10.1.2.3:40001 speaks no TLS, which this port insists on (tls.server.mode=enforcing); "
        "connection closed"
    )
    assert (await secure(server, authority.trusted()).call(request(ECHO, body=b"x"))).body == b"x"


@pytest.mark.parametrize(
    ("mode", "why"),
    [("disabled", "tls.server.mode=disabled"), ("permissive", "tls.server.certPath")],
)
async def test_a_port_without_tls_says_why_it_closes_a_handshake(
    mode: str, why: str, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    server = serving(tls_of({"tls.server.mode": mode}).server)
    peer = connect(server)
    await peer.stream.send_all(HELLO)
    assert await peer.is_closed()
    (line,) = closed_lines(caplog)
    assert why in line
    assert (await connect(server).call(request(ECHO, body=b"x"))).body == b"x"


@settings(max_examples=20)
@given(data=st.data())
async def test_however_records_and_reads_are_cut_the_conversation_is_the_same(
    data: st.DataObject, authority: Authority, pair: Pair
) -> None:
    """Property: the cuts of the network do not show."""
    bodies = data.draw(st.lists(st.binary(max_size=60_000), max_size=5))
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    server = serving(tls_of(properties(pair)).server)
    async with trio.open_nursery() as nursery:
        near, far = memory_stream_pair()
        relayed, theirs = memory_stream_pair()
        nursery.start_soon(relay, far, relayed, rng)
        nursery.start_soon(relay, relayed, far, rng)
        nursery.start_soon(
            partial(server.serve_stream, theirs, peer=HostAddress("10.1.2.3", 40001))
        )
        peer = Peer(trio.SSLStream(near, authority.trusted(), server_hostname="127.0.0.1"))
        await peer.send(*(request(ECHO, body=body) for body in bodies))
        assert [(await peer.receive()).body for _ in bodies] == bodies
        nursery.cancel_scope.cancel()


async def relay(source: trio.abc.Stream, sink: trio.abc.Stream, rng: random.Random) -> None:
    while data := await source.receive_some(rng.choice((1, 3, 100, 5000, 40_000))):
        await sink.send_all(data)


# Real sockets, which take only so much


@pytest.fixture
async def port(nursery: trio.Nursery, authority: Authority, pair: Pair) -> int:
    return await listening(nursery, serving(tls_of(properties(pair)).server))


async def listening(nursery: trio.Nursery, server: Server) -> int:
    """The port of a server at a socket."""
    listener = listen("127.0.0.1", 0)
    await nursery.start(server.serve, [listener])
    return int(listener.getsockname()[1])


def knock(port: int, context: ssl.SSLContext) -> str:
    """Shake hands as most clients do, alerts included; what went wrong."""
    with socket.create_connection(("127.0.0.1", port)) as plain:
        try:
            context.wrap_socket(plain, server_hostname="127.0.0.1").close()
        except ssl.SSLError as error:
            return str(error)
    return ""


async def test_answers_wait_for_a_peer_that_reads_slowly(
    port: int, dial: Dial, authority: Authority
) -> None:
    peer = await dial(port)
    secure = Peer(trio.SSLStream(peer.stream, authority.trusted(), server_hostname="127.0.0.1"))
    await secure.send(*(request(BIG, opaque=number) for number in range(4)))
    await secure.send(request(ECHO, opaque=4, body=b"last"))
    for number in range(4):
        answer = await secure.receive()
        assert (answer.opaque, answer.body) == (number, bytes(BIG_BYTES))
    assert (await secure.receive()).body == b"last"


async def test_a_peer_that_does_not_read_costs_no_more_than_a_plain_one(
    nursery: trio.Nursery,
    dial: Dial,
    authority: Authority,
    pair: Pair,
    caplog: pytest.LogCaptureFixture,
    mock_clock: MockClock,
) -> None:
    """Records on their way count as what is in them, until the peer has taken them."""
    budget = Budget()
    server = serving(tls_of(properties(pair)).server, budget, write_stall_s=30, sweep_s=5)
    port = await listening(nursery, server)
    plain = await dial(port)
    peer = Peer(trio.SSLStream(plain.stream, authority.trusted(), server_hostname="127.0.0.1"))
    await peer.call(request(ECHO))
    (connection,) = server.connections
    await peer.send(*(request(BIG, opaque=number) for number in range(20)))
    while not connection.outbox.is_writing:
        await trio.lowlevel.checkpoint()  # nobody tells the peer
    await wait_all_tasks_blocked()
    kept_bytes = connection.account.kept_bytes
    assert connection.outbox.unsent_bytes <= kept_bytes < 3 * BIG_BYTES
    while server.connections:
        mock_clock.jump(5)
        await wait_all_tasks_blocked()
    assert 30 < trio.current_time() <= 37
    assert "does not read its answers; connection closed" in caplog.text
    assert budget.used_bytes == 0


async def test_a_peer_may_go_without_farewell_and_come_back(
    port: int, dial: Dial, authority: Authority
) -> None:
    for _ in range(3):
        plain = await dial(port)
        peer = Peer(trio.SSLStream(plain.stream, authority.trusted(), server_hostname="127.0.0.1"))
        assert (await peer.call(request(ECHO, body=b"x"))).body == b"x"
        await plain.stream.aclose()


async def test_a_connection_ends_with_a_farewell_of_tls(
    port: int, dial: Dial, authority: Authority
) -> None:
    """A client can tell an end that the server wanted from a cut."""
    stream = (await dial(port)).stream
    strict = trio.SSLStream(stream, authority.trusted(), server_hostname="127.0.0.1")
    await strict.send_all(encode_frame(request(ECHO)) + b"\xff" * 64)
    assert await strict.receive_some()
    assert await strict.receive_some() == b""


# Certificates


async def refused(secure: Secure, server: Server, context: ssl.SSLContext) -> str:
    """The client's error for a handshake that fails on either side."""
    peer = secure(server, context)
    with pytest.raises((trio.BrokenResourceError, EOFError)) as caught:
        await peer.call(request(ECHO))
    return str(caught.value.__cause__)


async def test_an_authority_that_the_client_does_not_know_is_named_on_both_sides(
    port: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    said = await trio.to_thread.run_sync(knock, port, Authority(tmp_path).trusted())
    assert "unable to get local issuer certificate" in said
    line = await first_closed_line(caplog)
    assert "no TLS handshake: the peer refuses this server's certificate: it does not know" in line


async def test_an_expired_certificate_is_named_on_both_sides(
    nursery: trio.Nursery, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    tls = tls_of(properties(authority.issue("old", days_ago=400)))
    port = await listening(nursery, serving(tls.server))
    said = await trio.to_thread.run_sync(knock, port, authority.trusted())
    assert "certificate has expired" in said
    line = await first_closed_line(caplog)
    assert "the peer refuses this server's certificate: it has expired" in line


async def test_a_client_that_only_leaves_is_logged_with_what_it_may_have_minded(
    secure: Secure, pair: Pair, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As trio's own does, when it does not trust a certificate."""
    server = serving(tls_of(properties(pair)).server)
    peer = secure(server, Authority(tmp_path).trusted())
    with pytest.raises(trio.BrokenResourceError):
        await peer.call(request(ECHO))
    await trio.aclose_forcefully(peer.stream)
    await wait_all_tasks_blocked()
    (line,) = closed_lines(caplog)
    assert "the peer left; perhaps it does not trust this server's certificate" in line


async def test_clients_need_a_certificate_where_the_server_insists(
    secure: Secure,
    authority: Authority,
    pair: Pair,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = properties(
        pair, "enforcing", server_need_client_auth="require", server_trustCertPath=authority.path
    )
    server = serving(tls_of(settings).server)
    good = authority.trusted(authority.issue("client"))
    assert (await secure(server, good).call(request(ECHO, body=b"x"))).body == b"x"
    stranger = authority.trusted(Authority(tmp_path).issue("stranger"))
    late = authority.trusted(authority.issue("late", days_ago=400))
    for context, client_sees, server_says in (
        (authority.trusted(), "certificate required", "the peer has no certificate, and this"),
        (stranger, "unknown ca", "the peer's certificate is refused: unable to get local issuer"),
        (late, "certificate expired", "the peer's certificate is refused: certificate has expired"),
    ):
        caplog.clear()
        assert client_sees in await refused(secure, server, context)
        (line,) = closed_lines(caplog)
        assert server_says in line


async def test_a_certificate_may_be_optional_but_a_wrong_one_is_refused(
    secure: Secure, authority: Authority, pair: Pair, tmp_path: Path
) -> None:
    settings = properties(
        pair, server_need_client_auth="OPTIONAL", server_trustCertPath=authority.path
    )
    server = serving(tls_of(settings).server)
    for context in (authority.trusted(), authority.trusted(authority.issue("client"))):
        assert (await secure(server, context).call(request(ECHO, body=b"x"))).body == b"x"
    stranger = authority.trusted(Authority(tmp_path).issue("stranger"))
    assert "unknown ca" in await refused(secure, server, stranger)


# Peers that do not mean well


async def test_a_handshake_that_is_never_finished_is_cut_off(
    connect: Connect,
    secure: Secure,
    authority: Authority,
    pair: Pair,
    caplog: pytest.LogCaptureFixture,
    autojump_clock: MockClock,
) -> None:
    """However slowly it goes on: the time counts from its first byte."""
    budget = Budget()
    server = serving(tls_of(properties(pair)).server, budget, handshake_s=7.0)
    peer, begun_s = connect(server), trio.current_time()
    await peer.stream.send_all(HELLO)
    await wait_all_tasks_blocked()
    assert budget.used_bytes == HANDSHAKE_BYTES
    with suppress(trio.BrokenResourceError):
        while trio.current_time() < begun_s + 60:
            await peer.stream.send_all(b"\x00")
            await trio.sleep(1)
    assert trio.current_time() - begun_s == pytest.approx(7.0, abs=1.1)
    (line,) = closed_lines(caplog)
    assert "no TLS handshake: not complete after 7 s" in line
    assert (budget.used_bytes, len(server.connections)) == (0, 0)


async def test_unfinished_handshakes_count_towards_the_memory_of_peers(
    connect: Connect, pair: Pair
) -> None:
    budget = Budget(10 * HANDSHAKE_BYTES)
    server = serving(tls_of(properties(pair)).server, budget)
    for number in range(30):
        await connect(server, port=number).stream.send_all(HELLO)
    await wait_all_tasks_blocked()
    assert len(server.connections) == 10


@pytest.mark.parametrize(
    "garbage",
    [
        HELLO + random.Random(1).randbytes(400),
        b"\x16" + b"\xff" * 400,
        b"\x16\x03\x01\x00\x00" * 80,
        b"\x16GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x03\x00\x04\x01\xff\xff\xff" + random.Random(2).randbytes(400),
    ],
)
async def test_garbage_instead_of_a_handshake_costs_its_connection(
    garbage: bytes,
    connect: Connect,
    secure: Secure,
    authority: Authority,
    pair: Pair,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = serving(tls_of(properties(pair)).server)
    other, peer = secure(server, authority.trusted()), connect(server)
    assert (await other.call(request(ECHO))).code == 0
    await peer.stream.send_all(garbage)
    await peer.stream.send_eof()  # type: ignore[attr-defined]
    while not await peer.is_closed():
        pass
    await wait_all_tasks_blocked()
    assert len(server.connections) == 1
    assert len(closed_lines(caplog)) == 1
    assert [record for record in caplog.records if record.exc_info] == []
    assert (await other.call(request(ECHO))).code == 0


async def test_garbage_in_the_middle_of_tls_costs_its_connection(
    secure: Secure, authority: Authority, pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    server = serving(tls_of(properties(pair)).server)
    peer = secure(server, authority.trusted())
    assert (await peer.call(request(ECHO))).code == 0
    assert isinstance(peer.stream, trio.SSLStream)
    await peer.stream.transport_stream.send_all(b"\x17\x03\x03\x00\x20" + bytes(range(32)))
    await wait_all_tasks_blocked()
    (line,) = closed_lines(caplog)
    assert "10.1.2.3:40001: broken TLS: " in line
    assert not server.connections


class _Records(logging.Handler):
    """A handler that adds records to a list."""

    def __init__(self, records: list[logging.LogRecord]) -> None:
        super().__init__()
        self._records = records

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append(record)


@settings(max_examples=40)
@given(data=st.data())
async def test_bytes_that_are_changed_on_the_way_cost_their_connection_alone(
    data: st.DataObject, authority: Authority, pair: Pair
) -> None:
    """Property: in the handshake or behind it, nothing is done that was not asked for, and no
    bug of the server shows."""
    caught: list[logging.LogRecord] = []
    handler = _Records(caught)
    logging.getLogger("lanemq.proxy").addHandler(handler)
    wrong_at, mask = data.draw(st.integers(0, 900)), data.draw(st.integers(1, 255))
    budget, done = Budget(), set[bytes]()
    server = serving(tls_of(properties(pair)).server, budget)
    server.handlers.table[ECHO] = lambda frame, session: done.add(frame.body)
    try:
        async with trio.open_nursery() as nursery:
            near, far = memory_stream_pair()
            relayed, theirs = memory_stream_pair()

            async def spoil() -> None:
                position = 0
                while received := bytearray(await far.receive_some()):
                    if position <= wrong_at < position + len(received):
                        received[wrong_at - position] ^= mask
                    position += len(received)
                    with suppress(trio.BrokenResourceError):
                        await relayed.send_all(received)
                await relayed.send_eof()

            async def answer() -> None:
                with suppress(trio.BrokenResourceError):
                    await relay(relayed, far, random.Random(0))

            nursery.start_soon(spoil)
            nursery.start_soon(answer)
            nursery.start_soon(
                partial(server.serve_stream, theirs, peer=HostAddress("10.1.2.3", 40001))
            )
            peer = Peer(trio.SSLStream(near, authority.trusted(), server_hostname="127.0.0.1"))

            async def ask() -> None:
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    for _ in range(4):
                        await peer.send(request(ECHO, body=b"x" * 50))

            nursery.start_soon(ask)
            await wait_all_tasks_blocked()  # a wrong length has both wait for the other
            await near.aclose()
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
    finally:
        logging.getLogger("lanemq.proxy").removeHandler(handler)
    assert done <= {b"x" * 50}
    assert [record for record in caught if record.exc_info] == []
    assert budget.used_bytes == 0


async def test_what_a_connection_was_charged_for_is_free_when_it_ends(
    secure: Secure, authority: Authority, pair: Pair
) -> None:
    budget = Budget()
    server = serving(tls_of(properties(pair)).server, budget)
    peer = secure(server, authority.trusted())
    await peer.call(request(ECHO))
    assert 0 < budget.used_bytes < HANDSHAKE_BYTES
    await trio.aclose_forcefully(peer.stream)
    await wait_all_tasks_blocked()
    assert budget.used_bytes == 0


# New files


def rewrite(path: Path, data: bytes) -> None:
    """Write a file again, a second later: of two writes in a row the times may be the same."""
    written_ns = path.stat().st_mtime_ns + 1_000_000_000
    path.write_bytes(data)
    os.utime(path, ns=(written_ns, written_ns))


async def test_new_certificates_are_taken_without_a_restart(
    nursery: trio.Nursery,
    secure: Secure,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    autojump_clock: MockClock,
) -> None:
    """The old connection stays; a broken file, or half of a pair, changes nothing."""
    caplog.set_level(logging.INFO)
    first, second = Authority(tmp_path, "first"), Authority(tmp_path, "second")
    pair = first.issue()
    tls = tls_of(properties(pair))
    server = serving(tls.server)
    nursery.start_soon(tls.watch)
    old = secure(server, first.trusted())
    assert (await old.call(request(ECHO))).code == 0

    good = pair.certificate.read_bytes()
    for broken, says in (
        (b"-----BEGIN CERTIFICATE-----\nnone\n", "cannot be used as certificate and key"),
        (b"", f"{pair.certificate} (tls.server.certPath) is not a certificate in PEM"),
    ):
        caplog.clear()
        rewrite(pair.certificate, broken)
        await trio.sleep(3 * LOOK_S)
        (line,) = caplog.messages
        assert line.startswith("test goes on with the certificates it has: ")
        assert says in line
        assert (await secure(server, first.trusted()).call(request(ECHO))).code == 0
    rewrite(pair.certificate, good)
    await trio.sleep(3 * LOOK_S)

    caplog.clear()
    kept_key = pair.key.read_bytes()
    second.issue()  # into the same files
    new_key = pair.key.read_bytes()
    rewrite(pair.key, kept_key)
    await trio.sleep(3 * LOOK_S)
    assert f"{pair.key} (tls.server.keyPath) is not the key of the certificate" in caplog.text
    rewrite(pair.key, new_key)
    await trio.sleep(3 * LOOK_S)
    assert caplog.messages[-1] == "test: new certificates are in force for new connections"
    assert (await secure(server, second.trusted()).call(request(ECHO))).code == 0
    assert "CERTIFICATE_VERIFY_FAILED" in await refused(secure, server, first.trusted())
    assert (await old.call(request(ECHO))).code == 0


async def test_a_file_that_is_gone_for_a_while_changes_nothing(
    nursery: trio.Nursery,
    secure: Secure,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    autojump_clock: MockClock,
) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue()
    tls = tls_of(properties(pair))
    server = serving(tls.server)
    nursery.start_soon(tls.watch)
    pair.key.unlink()
    await trio.sleep(3 * LOOK_S)
    (line,) = caplog.messages
    assert f"cannot read {pair.key}" in line
    assert (await secure(server, authority.trusted()).call(request(ECHO))).code == 0


# Settings


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"tls.server.mode": "strict"}, "tls.server.mode: must be disabled or permissive or"),
        ({"tls.server.mode": "enforcing"}, "no certificate: name one in tls.server.certPath"),
        ({"tls.server.certPath": "a.pem"}, "tls.server.certPath needs tls.server.keyPath"),
        ({"tls.client.keyPath": "a.key"}, "tls.client.keyPath needs tls.client.certPath"),
        ({"tls.server.need.client.auth": "require"}, "tls.server.trustCertPath"),
        ({"tls.server.need.client.auth": "sure"}, "must be none or optional or require"),
        ({"tls.enable": "true", "useTLS": "false"}, "two names of one switch"),
        ({"tls.server.certpath": "a.pem"}, "did you mean 'tls.server.certPath'?"),
        ({"tls.config.file": "/nowhere/tls.properties"}, "cannot read /nowhere/tls.properties"),
    ],
)
def test_settings_that_do_not_fit_are_refused_with_the_way_on(
    settings: dict[str, str], says: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        tls_of(settings)
    assert says in str(caught.value)


def test_files_that_cannot_be_used_are_named(authority: Authority, tmp_path: Path) -> None:
    good = authority.issue("good")
    locked = authority.issue("locked", password="open sesame")
    text = tmp_path / "text"
    text.write_text("hello")
    for pair, more, says in (
        (Pair(tmp_path / "none.pem", good.key), {}, f"cannot read {tmp_path / 'none.pem'}"),
        (Pair(text, good.key), {}, f"{text} (tls.server.certPath) is not a certificate"),
        (Pair(good.certificate, text), {}, f"{text} (tls.server.keyPath) is not a private key"),
        (Pair(good.certificate, locked.key), {"server_keyPassword": "open sesame"}, "is not the"),
        (locked, {}, "is encrypted, and tls.server.keyPassword does not open it"),
        (locked, {"server_keyPassword": "sesame"}, "is encrypted, and tls.server.keyPassword"),
        (
            good,
            {"server_need_client_auth": "require", "server_trustCertPath": text},
            f"{text} has no certificates in PEM",
        ),
    ):
        with pytest.raises(ConfigError) as caught:
            tls_of(properties(pair, **more))
        assert says in str(caught.value)
        assert "sesame" not in str(caught.value)


def test_a_key_may_have_a_password_which_nobody_is_told(authority: Authority) -> None:
    locked = authority.issue("locked", password="open sesame")
    settings = TlsSettings.from_properties(properties(locked, server_keyPassword="open sesame"))
    assert ProcessTls(settings, name="test").server.is_spoken
    assert "sesame" not in repr(settings)
    assert b"sesame" not in settings.to_text()


def test_the_file_that_tls_config_file_names_wins(authority: Authority, tmp_path: Path) -> None:
    pair = authority.issue("filed")
    file = tmp_path / "tls.properties"
    file.write_text(
        "tls.test.mode.enable=false\ntls.server.need.client.auth=none\ntls.server.keyPassword=\n"
        f"tls.server.certPath={pair.certificate}\ntls.server.keyPath={pair.key}\n"
    )
    given = {"tls.config.file": str(file), "tls.server.mode": "enforcing"}
    settings = TlsSettings.from_properties({**given, "tls.server.certPath": "/elsewhere"})
    assert settings.tls_server_cert_path == pair.certificate
    assert settings.tls_server_mode is TlsMode.ENFORCING
    file.write_text("listenPort=1\n")
    with pytest.raises(ConfigError, match=f"{file}: 'listenPort' does not belong"):
        TlsSettings.from_properties(given)
    file.write_text("tls.client.authServer=perhaps\n")
    with pytest.raises(ConfigError, match=f"{file}: tls.client.authServer: must be true or false"):
        TlsSettings.from_properties(given)


# Links to other servers


@pytest.mark.parametrize(
    ("settings", "is_tls", "checks"),
    [
        ({}, False, False),
        ({"useTLS": "true"}, True, False),
        ({"tls.enable": "true", "tls.client.authServer": "true"}, True, True),
        ({"useTLS": "true", "tls.client.trustCertPath": "CA"}, True, True),
        (
            {"useTLS": "true", "tls.client.trustCertPath": "CA", "tls.client.authServer": "false"},
            True,
            False,
        ),
        ({"tls.server.mode": "enforcing"}, True, False),
        ({"tls.server.mode": "enforcing", "useTLS": "false"}, False, False),
    ],
)
def test_links_to_other_servers_have_tls_where_apaches_have(
    settings: dict[str, str], is_tls: bool, checks: bool, authority: Authority, pair: Pair
) -> None:
    filled = {key: value.replace("CA", str(authority.path)) for key, value in settings.items()}
    tls = tls_of({**properties(pair), **filled})
    assert (tls.client is not None) is is_tls
    if tls.client is not None:
        assert (tls.client.verify_mode is ssl.CERT_REQUIRED) is checks


def test_a_start_says_when_its_links_trust_anyone(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    tls_of({**properties(pair), "useTLS": "true"}).say()
    assert "trusts whoever answers: name their authority in tls.client.trustCertPath" in caplog.text


# The warning at a start


@pytest.mark.parametrize(
    ("settings", "has_accounts", "says"),
    [
        ({}, False, "without encryption or passwords: whoever"),
        ({"mode": "permissive"}, False, "without passwords, and TLS is up to the client: whoever"),
        ({"mode": "enforcing"}, None, "with TLS, but without passwords: whoever"),
        ({"mode": "enforcing", "server_need_client_auth": "optional"}, False, "but without pass"),
        ({"mode": "enforcing", "server_need_client_auth": "require"}, False, None),
        ({}, True, "with accounts, but without encryption: whoever is on the way"),
        ({}, True, "a signature covers neither the code nor the names of fields"),
        ({"mode": "permissive"}, True, "with accounts, but TLS is up to the client"),
        ({"mode": "enforcing"}, True, None),
    ],
)
def test_a_start_beyond_loopback_says_what_keeps_strangers_out(
    settings: dict[str, str],
    has_accounts: bool | None,
    says: str | None,
    authority: Authority,
    pair: Pair,
    caplog: pytest.LogCaptureFixture,
) -> None:
    tls = ServerTls()
    if settings:
        mode, *_ = settings.values()
        rest = {key: value for key, value in settings.items() if key != "mode"}
        tls = tls_of(properties(pair, mode, server_trustCertPath=authority.path, **rest)).server
    with listen("0.0.0.0", 0) as opened:
        warn_of_strangers("broker b", [opened], tls, has_accounts=has_accounts)
    assert len(caplog.messages) == (says is not None)
    if says is not None:
        assert says in caplog.text
        assert "tls.server.mode=enforcing" in caplog.text
        assert ("aclEnable=true" in caplog.text) is (has_accounts is False)
        assert "docs/security.md" in caplog.text
