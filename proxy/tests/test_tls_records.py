"""Records of TLS that are only work: they give a server nothing to do for their peer."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.proxy.net._loop_turn import SHARE_S, LoopTurn
from lanemq.proxy.net._server import Server
from lanemq.proxy.net.limits._budget import Budget
from lanemq.proxy.net.limits._limits import Limits
from lanemq.proxy.net.transport._tls_transport import (
    DATALESS_BYTES,
    RECORD_BYTES,
    SESSION_BYTES,
    UNSENT_BYTES,
    TlsBroken,
    TlsTransport,
)
from lanemq.proxy.tls import ProcessTls, TlsSettings
from lanemq.testkit.proxy.certificates import Authority, Pair
from lanemq.testkit.proxy.requests import any_handlers
from lanemq.testkit.proxy.tls_records import KEY_UPDATE_BYTES, HandmadeClient
from lanemq.testkit.proxy.turns import Turns, turns_measured_by
from lanemq.wire import HostAddress

STALL_S = 30.0
PIECES = 12
OF_A_PIECE = RECORD_BYTES // KEY_UPDATE_BYTES - 1  # leaves room for a record with data


class Wire:
    """A transport to a client whose bytes are in ``pieces``, and who takes so many bytes more."""

    def __init__(self, client: HandmadeClient) -> None:
        self._client = client
        self.pieces: Iterator[bytes] = iter(())
        self.taken_most = 1 << 30
        self.received_bytes = 0
        self.taken = bytearray()
        self.offered: list[memoryview] = []
        self.room = trio.Event()
        self.is_closed = False

    async def receive(self) -> bytes:
        await trio.lowlevel.checkpoint()
        return self.try_receive() or b""

    def try_receive(self) -> bytes | None:
        data = next(self.pieces, None)
        self.received_bytes += len(data or b"")
        return data

    def try_send(self, data: bytes | memoryview) -> int:
        if not self._client.is_ready:
            self.pieces = iter([self._client.shake_hands(bytes(data))])
            return len(data)
        assert isinstance(data, memoryview)
        self.offered.append(data)
        taken = min(len(data), self.taken_most - len(self.taken))
        self.taken += data[:taken]
        return taken

    async def send(self, data: memoryview) -> int:
        await trio.lowlevel.checkpoint()
        while len(self.taken) == self.taken_most:
            await self.room.wait()
        return self.try_send(data)

    async def close(self) -> None:
        self.is_closed = True


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.issue()


@pytest.fixture
def client(authority: Authority, tmp_path: Path) -> HandmadeClient:
    return HandmadeClient(authority.trusted(), tmp_path / "secrets")


async def opened(
    client: HandmadeClient, pair: Pair, budget: Budget, turn: LoopTurn
) -> tuple[Wire, TlsTransport]:
    """A transport whose handshake is complete, and which has read nothing more."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = 0
    context.load_cert_chain(pair.certificate, pair.key)
    wire, account = Wire(client), budget.open(lambda: None)
    tls = TlsTransport(wire, context, account=account, turn=turn, stall_s=STALL_S)
    await tls.shake_hands(client.shake_hands())
    assert client.is_ready
    wire.received_bytes = 0
    wire.taken.clear()
    return wire, tls


def work(client: HandmadeClient, pieces: int) -> Iterator[bytes]:
    """Pieces of 16 KiB: KeyUpdates, and one byte of data at the end."""
    return (client.key_updates(OF_A_PIECE) + client.data(b"x") for _ in range(pieces))


def answers_bytes(pieces: int) -> int:
    """The length of the records that answer ``work``: OpenSSL leaves the first one out."""
    return (pieces * OF_A_PIECE - 1) * KEY_UPDATE_BYTES


async def read_all(tls: TlsTransport, contents: list[bytes]) -> None:
    while data := await tls.receive():
        contents.append(data)


async def test_a_peer_that_does_not_read_has_no_more_read_of_it(
    nursery: trio.Nursery, client: HandmadeClient, pair: Pair
) -> None:
    """The answers of TLS are kept up to a bound; nothing of them is copied meanwhile."""
    budget = Budget()
    wire, tls = await opened(client, pair, budget, LoopTurn())
    wire.pieces, wire.taken_most = work(client, PIECES), 0
    contents: list[bytes] = []
    nursery.start_soon(read_all, tls, contents)
    await wait_all_tasks_blocked()
    assert UNSENT_BYTES < wire.received_bytes <= UNSENT_BYTES + 2 * RECORD_BYTES
    assert UNSENT_BYTES < budget.used_bytes - SESSION_BYTES <= UNSENT_BYTES + 2 * RECORD_BYTES
    assert len({id(one.obj) for one in wire.offered}) == 1
    assert tls.try_receive() is None

    wire.taken_most = 1 << 30
    wire.room.set()
    await wait_all_tasks_blocked()
    assert b"".join(contents) == b"x" * PIECES
    assert len(wire.taken) == answers_bytes(PIECES)
    assert client.read(wire.taken) == b""
    assert budget.used_bytes == SESSION_BYTES


async def test_answers_and_those_of_tls_leave_in_order(
    nursery: trio.Nursery, client: HandmadeClient, pair: Pair
) -> None:
    """Both tasks of a connection wait for the same peer, and one of them sends at a time."""
    wire, tls = await opened(client, pair, Budget(), LoopTurn())
    wire.pieces, wire.taken_most = work(client, PIECES), 0
    contents: list[bytes] = []
    answer, sent = memoryview(bytes(range(256)) * 768), 0
    assert tls.try_send(answer) == 0
    nursery.start_soon(read_all, tls, contents)
    await wait_all_tasks_blocked()
    wire.taken_most = 1 << 30
    wire.room.set()
    while sent < len(answer):
        sent += await tls.send(answer[sent:])
    await wait_all_tasks_blocked()
    assert sent == len(answer)
    assert b"".join(contents) == b"x" * PIECES
    assert tls.try_send(b"") == 0
    assert len(wire.taken) > len(answer) + answers_bytes(PIECES)
    assert client.read(wire.taken) == bytes(answer)


async def test_a_peer_that_never_reads_what_tls_answers_is_left(
    client: HandmadeClient, pair: Pair, autojump_clock: MockClock
) -> None:
    wire, tls = await opened(client, pair, Budget(), LoopTurn())
    wire.pieces, wire.taken_most = work(client, PIECES), 0
    begun_s = trio.current_time()
    with pytest.raises(TlsBroken, match="the peer does not read"):
        await read_all(tls, [])
    assert trio.current_time() - begun_s == STALL_S


async def test_records_without_data_take_turns(
    nursery: trio.Nursery, client: HandmadeClient, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn of the loop decrypts one piece where that takes its time."""
    clock, turn = Turns(), LoopTurn()
    took_bytes: list[int] = []

    def read_records(self: TlsTransport, parts: list[bytes]) -> None:
        took_bytes[-1] += self._arrived.pending
        clock.take(2 * SHARE_S)
        read(self, parts)

    class OfLoop(trio.abc.Instrument):
        def after_io_wait(self, timeout: float) -> None:
            took_bytes.append(0)

    read = TlsTransport._read_records
    monkeypatch.setattr(TlsTransport, "_read_records", read_records)
    with turns_measured_by(clock.now_s):
        wire, tls = await opened(client, pair, Budget(), turn)
        reads = [b"".join(work(client, PIECES)) for _ in range(2)]
        wire.pieces = iter(reads)
        contents: list[bytes] = []
        trio.lowlevel.add_instrument(OfLoop())
        nursery.start_soon(read_all, tls, contents)
        while wire.received_bytes < sum(map(len, reads)) or tls._undecrypted:
            await trio.lowlevel.checkpoint()
    assert sum(took_bytes) == sum(map(len, reads))
    assert max(took_bytes) == RECORD_BYTES


async def test_a_look_takes_no_more_than_the_turn_has(
    client: HandmadeClient, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Turns()
    read = TlsTransport._read_records

    def read_records(self: TlsTransport, parts: list[bytes]) -> None:
        clock.take(2 * SHARE_S)
        read(self, parts)

    monkeypatch.setattr(TlsTransport, "_read_records", read_records)
    with turns_measured_by(clock.now_s):
        wire, tls = await opened(client, pair, Budget(), LoopTurn())
        wire.pieces = iter([b"".join(work(client, 4))])
        looks = [tls.try_receive() for _ in range(20)]
        assert looks[0] in (None, b"x")
        assert clock.now_s() == 2 * SHARE_S
        assert looks[1:] == [None] * 19


@pytest.mark.parametrize("of_a_read", [1, 100, 2000])
async def test_a_peer_that_sends_no_data_at_all_is_left(
    of_a_read: int, client: HandmadeClient, pair: Pair
) -> None:
    wire, tls = await opened(client, pair, Budget(), LoopTurn())
    wire.pieces = (client.key_updates(of_a_read) for _ in range(2000 // of_a_read))
    with pytest.raises(TlsBroken, match="bytes were data"):
        await read_all(tls, [])
    assert len(wire.taken) <= DATALESS_BYTES + RECORD_BYTES


async def test_a_record_that_comes_in_small_pieces_has_data_in_the_end(
    nursery: trio.Nursery, client: HandmadeClient, pair: Pair
) -> None:
    wire, tls = await opened(client, pair, Budget(), LoopTurn())
    sent = b"".join(client.key_updates(1) + client.data(bytes(RECORD_BYTES)) for _ in range(3))
    wire.pieces = (sent[start : start + 100] for start in range(0, len(sent), 100))
    contents: list[bytes] = []
    nursery.start_soon(read_all, tls, contents)
    await wait_all_tasks_blocked()
    assert b"".join(contents) == bytes(3 * RECORD_BYTES)


async def test_the_log_names_who_sends_records_without_data(
    client: HandmadeClient, pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"certPath": pair.certificate, "keyPath": pair.key}
    properties = {f"tls.server.{key}": str(value) for key, value in settings.items()}
    tls = ProcessTls(TlsSettings.from_properties(properties), name="test").server
    budget = Budget()
    server = Server(any_handlers(), name="test", tls=tls, limits=Limits(), budget=budget)
    wire = Wire(client)

    def sent() -> Iterator[bytes]:
        yield client.shake_hands()
        while not client.is_ready:  # the answer of the server puts other pieces here
            yield b""
        raise AssertionError

    wire.pieces = sent()
    inner = wire.try_send

    def shaken(data: bytes | memoryview) -> int:
        taken = inner(data)
        if client.is_ready and wire.try_send is shaken:
            (finished,) = wire.pieces
            wire.pieces = iter([finished, client.key_updates(2000)])
            wire.try_send = inner  # type: ignore[method-assign]
        return taken

    wire.try_send = shaken  # type: ignore[method-assign]
    await server.serve_transport(wire, peer=HostAddress("10.1.2.3", 40001))
    (line,) = (one for one in caplog.messages if "connection closed" in one)
    assert line.startswith("10.1.2.3:40001: broken TLS: none of the last ")
    assert wire.is_closed
    assert budget.used_bytes == 0
