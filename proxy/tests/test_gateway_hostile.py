"""A proxy between hostile or broken clients, brokers and name servers."""

import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import pytest
import trio
from trio.testing import memory_stream_pair

from lanemq.proxy.gateway import RunningGateway, open_gateway
from lanemq.proxy.gateway._changes import OF_BROKERS, READS
from lanemq.proxy.gateway._numbers import BROKERS_MAX, BrokerKey, BrokerNumbers
from lanemq.testkit.proxy.brokers import Client, send_header
from lanemq.testkit.proxy.gateways import clustered, gateway_config, until, until_seen
from lanemq.testkit.proxy.peers import Dial, Peer
from lanemq.wire import HostAddress, RequestCode, ResponseCode
from lanemq.wire.bodies import BrokerData, ClusterInfo, RouteData
from lanemq.wire.frame import (
    FLAG_ONEWAY,
    FLAG_RESPONSE,
    Connection,
    Frame,
    encode_frame,
    request,
)
from lanemq.wire.message import BatchEntry, encode_batch, encode_properties
from lanemq.wire.requests import REQUESTS, Port

A: Final = BrokerKey("a", 0)
ONE: Final = {"topic": "T", "queueId": "0"}
MIB: Final = 1 << 20


class FakeCluster:
    """A name server that says what a test wants, and counts what it is asked."""

    def __init__(self) -> None:
        self.brokers: dict[str, dict[int, str]] = {}
        self.asked: list[Frame] = []
        self.is_silent = False
        self.address = ""

    @property
    def asked_routes(self) -> list[Frame]:
        """The questions for routes; between them come the proxy's own, for the cluster."""
        return [one for one in self.asked if one.code == RequestCode.GET_ROUTEINFO_BY_TOPIC]

    def _datas(self) -> tuple[BrokerData, ...]:
        return tuple(BrokerData("c", name, addrs) for name, addrs in self.brokers.items())

    def _answer(self, frame: Frame) -> bytes:
        if frame.code == RequestCode.GET_BROKER_CLUSTER_INFO:
            datas = self._datas()
            table = {one.broker_name: one for one in datas}
            return ClusterInfo(table, {"c": tuple(table)}).encode()
        return RouteData(queue_datas=(), broker_datas=self._datas()).encode()

    async def serve(self, stream: trio.abc.Stream) -> None:
        protocol = Connection()
        try:
            while data := await stream.receive_some(65_536):
                protocol.receive_data(data)
                while isinstance(frame := protocol.next_event(), Frame):
                    self.asked.append(frame)
                    if not self.is_silent and not frame.flag & FLAG_ONEWAY:
                        await stream.send_all(encode_frame(frame.reply(body=self._answer(frame))))
        except trio.BrokenResourceError:
            pass


@asynccontextmanager
async def faked(
    cluster: FakeCluster, broker: Callable[[trio.SocketStream], Awaitable[None]] | None = None
) -> AsyncIterator[RunningGateway]:
    """A proxy before a name server, and a broker ``a`` served by ``broker``, if there is one."""
    async with trio.open_nursery() as nursery:

        async def listening(handler: Callable[[trio.SocketStream], Awaitable[None]]) -> str:
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(partial(trio.serve_listeners, handler, [listener]))
            return f"127.0.0.1:{listener.socket.getsockname()[1]}"

        cluster.address = await listening(cluster.serve)
        if broker is not None:
            cluster.brokers["a"] = {0: await listening(broker)}
        async with open_gateway(gateway_config(cluster.address)) as proxy:
            yield proxy
        nursery.cancel_scope.cancel()


async def test_names_that_no_host_has_do_not_end_the_proxy(dial: Dial) -> None:
    cluster = FakeCluster()
    for at, host in enumerate(("a" * 64, "a..b", ".x", "\u00fc" * 70, "x\0y")):
        cluster.brokers[f"b{at}"] = {0: f"{host}:10911"}
    async with faked(cluster) as proxy:
        assert len(proxy.brokers.ports) == len(cluster.brokers)
        for port in proxy.brokers.ports.values():
            answer = await Client(await dial(port.address.port)).call(RequestCode.HEART_BEAT)
            assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert "cannot connect" in (answer.remark or "")


async def _swallow(stream: trio.SocketStream) -> None:
    """Be a broker that reads, and never answers."""
    async for _ in stream:
        pass


async def _deaf(stream: trio.SocketStream) -> None:
    """Be a broker that does not even read."""
    await trio.sleep_forever()


@pytest.mark.parametrize("count", [2, 64])
async def test_long_answers_of_name_servers_are_read_beside_the_loop(
    dial: Dial, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Name servers list brokers of anybody, and any client may ask for the list, and for routes."""
    threads: dict[str, set[bool]] = {}

    def noted(kind: type[ClusterInfo | RouteData]) -> None:
        decode = kind.decode

        def noting(body: bytes) -> object:
            is_main = threading.current_thread() is threading.main_thread()
            threads.setdefault(kind.__name__, set()).add(is_main)
            return decode(body)

        monkeypatch.setattr(kind, "decode", noting)

    cluster = FakeCluster()
    cluster.brokers = {
        f"{number:03}{'b' * 250}": {0: f"10.0.0.{number}:10911"} for number in range(count)
    }
    async with faked(cluster) as proxy:
        await until(lambda: len(proxy.brokers.ports) == count)
        client = Client(await dial(proxy.address.port))
        noted(ClusterInfo)
        noted(RouteData)
        for code, fields in (
            (RequestCode.GET_BROKER_CLUSTER_INFO, {}),
            (RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"}),
        ):
            answer = await client.call(code, fields)
            assert answer.code == ResponseCode.SUCCESS
            assert b"10.0.0." not in answer.body
    is_short = count == 2
    assert threads == {"ClusterInfo": {is_short}, "RouteData": {is_short}}


async def test_a_kept_route_moves_no_broker_back(dial: Dial) -> None:
    cluster = FakeCluster()
    async with faked(cluster, _swallow) as proxy:
        old = cluster.brokers["a"][0]
        routes = Client(await dial(proxy.address.port))
        told = await routes.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
        cluster.brokers["a"] = {0: "127.0.0.1:9"}
        await until(lambda: proxy.brokers.ports[A].upstream == "127.0.0.1:9")
        cluster.is_silent = True
        await until(lambda: proxy.routes.why_unanswered)
        kept = await routes.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
        assert (kept.body, proxy.routes.seen.kept) == (told.body, 1)
        assert proxy.brokers.ports[A].upstream == "127.0.0.1:9" != old


async def test_a_kept_route_is_told_at_once_while_name_servers_are_silent(dial: Dial) -> None:
    cluster = FakeCluster()
    async with faked(cluster, _swallow) as proxy:
        routes = Client(await dial(proxy.address.port))
        await routes.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
        cluster.is_silent = True
        await until(lambda: proxy.routes.why_unanswered)
        # Clients wait for three seconds: as long as the proxy waits for each name server.
        answer = await routes.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
        assert answer.code == ResponseCode.SUCCESS
        assert len(cluster.asked_routes) == 1, "no name server is waited for"
        cluster.is_silent = False
        await until(lambda: not proxy.routes.why_unanswered)


async def test_a_client_keeps_one_route_of_a_topic_whatever_it_adds(dial: Dial) -> None:
    cluster = FakeCluster()
    async with faked(cluster, _swallow) as proxy:
        routes = Client(await dial(proxy.address.port))
        for at in range(5):
            fields = {"topic": "T", "x": f"{at}" * 60_000}
            await routes.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)
        assert len(proxy.routes._kept) == 1
        assert cluster.asked_routes[-1].fields["topic"] == "T"


async def test_requests_without_an_answer_say_nothing_about_name_servers(dial: Dial) -> None:
    cluster = FakeCluster()
    async with faked(cluster, _swallow) as proxy:
        peer = (client := Client(await dial(proxy.address.port))).peer
        for code in (RequestCode.GET_ROUTEINFO_BY_TOPIC, 9_999):
            await peer.send(Frame(code, opaque=5, flag=FLAG_ONEWAY, fields={"topic": "T"}))
        await until(lambda: {105, 9_999} <= {one.code for one in cluster.asked})
        await trio.sleep(3.5)  # longer than the proxy waits for an answer
        assert proxy.routes.why_unanswered == ""
        answer = await client.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
        assert answer.code == ResponseCode.SUCCESS


async def test_answers_of_a_client_wait_for_a_broker_that_does_not_read(dial: Dial) -> None:
    async with faked(FakeCluster(), _deaf) as proxy:
        port = proxy.brokers.ports[A]
        peer = Client(await dial(port.address.port)).peer
        await peer.send(Frame(RequestCode.HEART_BEAT, opaque=1, flag=FLAG_ONEWAY))
        answer = encode_frame(Frame(0, opaque=9, flag=FLAG_RESPONSE, body=bytes(MIB)))
        await until(lambda: port.links)
        (link,) = port._links
        with trio.move_on_after(2.0):
            for _ in range(100):
                await peer.stream.send_all(answer)
        assert link._unsent_bytes < 8 * MIB
        assert proxy.budget.used_bytes >= link._unsent_bytes


async def test_requests_without_an_answer_so_far_are_charged(dial: Dial) -> None:
    async with faked(FakeCluster(), _swallow) as proxy:
        port = proxy.brokers.ports[A]
        peer = Client(await dial(port.address.port)).peer
        number = 20_000
        for begin in range(0, number, 1000):
            frames = (request(RequestCode.HEART_BEAT, opaque=begin + at) for at in range(1000))
            await peer.stream.send_all(b"".join(map(encode_frame, frames)))
        await until(lambda: port.waiting == number)
        assert proxy.budget.used_bytes > 100 * (number - 64)
        await peer.stream.aclose()
        await until(lambda: not port.links)
        await until(lambda: not proxy.budget.used_bytes)


async def test_unfinished_answers_of_a_broker_are_charged(dial: Dial) -> None:
    async def half(stream: trio.SocketStream) -> None:
        await stream.receive_some(65_536)
        await stream.send_all((8 * MIB).to_bytes(4, "big") + bytes(4) + bytes(4 * MIB))
        await trio.sleep_forever()

    async with faked(FakeCluster(), half) as proxy:
        port = proxy.brokers.ports[A]
        peer = Client(await dial(port.address.port)).peer
        await peer.send(request(RequestCode.HEART_BEAT, opaque=1))
        await until(lambda: proxy.budget.used_bytes > 4 * MIB)
        await peer.stream.aclose()
        await until(lambda: not proxy.budget.used_bytes)


async def test_proxies_know_each_other_while_no_name_server_answers() -> None:
    cluster = FakeCluster()
    async with faked(cluster, _swallow) as first:
        second = gateway_config(cluster.address, peers=str(first.address), leave_seconds=0)
        async with open_gateway(second) as other:
            await until(lambda: other.peers.living)
            cluster.is_silent = True
            await until(lambda: first.routes.why_unanswered)
            heard_s = trio.current_time()
            await until(lambda: all(one.heard_s > heard_s for one in other.peers._peers.values()))
            assert other.peers.living == [str(first.address)]


async def test_a_broker_said_to_be_nowhere_gets_its_port_once_it_is_somewhere() -> None:
    cluster = FakeCluster()
    cluster.brokers["a"] = {0: "nowhere"}
    async with faked(cluster) as proxy:
        assert not proxy.brokers.ports
        cluster.brokers["a"] = {0: "127.0.0.1:9"}
        await until(lambda: A in proxy.brokers.ports)


def test_numbers_that_cannot_be_kept_are_not_given(tmp_path: Path) -> None:
    path = tmp_path / "data" / "brokers.json"
    (tmp_path / "data").write_text("no directory")
    numbers = BrokerNumbers(path)
    for _ in range(2):
        assert numbers.get(A) is None
        numbers.add([A])
    (tmp_path / "data").unlink()
    numbers.add([A])
    assert numbers.get(A) == BrokerNumbers(path).get(A) == 0


async def test_brokers_found_together_are_kept_together(tmp_path: Path) -> None:
    cluster = FakeCluster()
    cluster.brokers = {f"b{at:03}": {0: "127.0.0.1:9"} for at in range(50)}
    path = tmp_path / "brokers.json"
    numbers = BrokerNumbers(path)
    numbers.add([BrokerKey(name, 0) for name in cluster.brokers])
    assert numbers.saves == 1


async def test_a_long_heartbeat_is_refused_before_it_is_read(tmp_path: Path, dial: Dial) -> None:
    """A proxy adds its group to heartbeats; the broker would refuse this one as well."""
    async with clustered(tmp_path) as cluster:
        await cluster.broker()
        proxy = await cluster.proxy(logical=True)
        await until_seen(proxy, "broker-a")
        (port,) = proxy.brokers.ports.values()
        client = Client(await dial(port.address.port))
        bodies = {
            "JSON values": b'{"producerDataSet":[' + b"0," * 50_000 + b"0]}",
            "bytes": b'{"clientID":"' + b"c" * (2 << 20) + b'"}',
        }
        for what, body in bodies.items():
            answer = await client.call(RequestCode.HEART_BEAT, {}, body)
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert what in (answer.remark or "")
        assert not port.links


async def test_a_name_without_a_signature_is_refused(tmp_path: Path, dial: Dial) -> None:
    """A broker would look for the proxy's address on the account's white list."""
    async with clustered(tmp_path) as cluster:
        await cluster.broker()
        proxy = await cluster.proxy()
        await until_seen(proxy, "broker-a")
        (port,) = proxy.brokers.ports.values()
        client = Client(await dial(port.address.port))
        named = {"topic": "T", "queueId": "0", "AccessKey": "operator"}
        answer = await client.call(RequestCode.GET_MAX_OFFSET, named)
        assert answer.code == ResponseCode.NO_PERMISSION
        assert "has no signature" in (answer.remark or "")
        assert not port.links


async def test_topics_of_proxies_take_no_messages_of_clients(tmp_path: Path, dial: Dial) -> None:
    """Their records are the keys of all proxies, and the order of queues."""
    async with clustered(tmp_path) as cluster:
        await cluster.broker()
        proxy = await cluster.proxy()
        await until_seen(proxy, "broker-a")
        (port,) = proxy.brokers.ports.values()
        client = Client(await dial(port.address.port))
        for topic in ("LANEMQ_KEYS_orders", "LANEMQ_PROXY_queues", "LANEMQ_LOGS"):
            answer = await client.send(topic)
            assert answer.code == ResponseCode.NO_PERMISSION, topic
            assert topic in (answer.remark or "")
        own, plain = "LANEMQ_KEYS_orders", "LANEMQ"
        later = {"K": "k", "REAL_TOPIC": own, "REAL_QID": "0"}
        packed = encode_properties(later)
        batch = encode_batch([BatchEntry(0, b"one", b""), BatchEntry(0, b"two", packed)])
        cut = b"\0" * 4 + batch[4:]  # Apache's brokers read no size
        waits = send_header(plain, later)
        many = send_header(plain, batch=True)
        requests: list[tuple[int, dict[str, str], bytes]] = [
            (RequestCode.SEND_REPLY_MESSAGE, send_header(own).to_fields(), b""),
            (RequestCode.SEND_REPLY_MESSAGE_V2, send_header(own).to_letters(), b""),
            (RequestCode.END_TRANSACTION, {"topic": own}, b""),
            (RequestCode.SEND_MESSAGE, waits.to_fields(), b""),
            (RequestCode.SEND_MESSAGE_V2, waits.to_letters(), b""),
            (RequestCode.SEND_BATCH_MESSAGE, waits.to_letters(), b""),
            (RequestCode.SEND_BATCH_MESSAGE, send_header(plain).to_letters(), batch),
            (RequestCode.SEND_BATCH_MESSAGE, send_header(plain).to_letters(), cut),
            (RequestCode.SEND_MESSAGE_V2, many.to_letters(), batch),
            (RequestCode.SEND_MESSAGE, many.to_fields(), batch),
            (RequestCode.SEND_MESSAGE, many.to_fields() | {"batch": "TRUE"}, batch),
        ]
        for code, fields, body in requests:
            answer = await client.call(code, fields, body)
            assert answer.code == ResponseCode.NO_PERMISSION, (code, fields)
            assert "LANEMQ_" in (answer.remark or "")
        assert not port.links
        for properties in ({}, {"K": own}, {"REAL_TOPIC": plain}):
            assert (await client.send(plain, packed, properties)).code == ResponseCode.SUCCESS


async def test_changes_come_from_the_machine_or_from_addresses_that_are_named(
    tmp_path: Path,
) -> None:
    """Name servers ask for no account, whatever the brokers do."""
    async with trio.open_nursery() as nursery, clustered(tmp_path) as cluster:
        await cluster.broker()
        proxy = await cluster.proxy(changes_from="10.1.*.*,10.0.0.7", logical=True, moves=True)
        await until_seen(proxy, "broker-a")

        async def ask(host: str, code: int, fields: dict[str, str] | None = None) -> Frame:
            ours, theirs = memory_stream_pair()
            at = HostAddress(host, 40001)
            nursery.start_soon(partial(proxy.server.serve_stream, theirs, peer=at))
            return await Client(Peer(ours)).call(code, fields or {})

        kept = {"namespace": "n", "key": "k", "value": "v"}
        for host in ("10.0.0.7", "10.1.2.3", "127.0.0.9"):
            assert (await ask(host, RequestCode.PUT_KV_CONFIG, kept)).code == ResponseCode.SUCCESS
        ports = {Port.NAME_SERVER, Port.PROXY}
        served = (code for code, spec in REQUESTS.items() if ports.intersection(spec.ports))
        refused = [code for code in served if code not in READS]
        assert RequestCode.UPDATE_NAMESRV_CONFIG in refused
        assert RequestCode.PROXY_MOVE_QUEUE in refused
        for code in (*refused, 1009, 99_999):
            answer = await ask("10.0.0.8", code, kept)
            if code in OF_BROKERS:
                assert "brokers register at" in (answer.remark or "")
                continue
            assert answer.code == ResponseCode.NO_PERMISSION
            assert "10.0.0.8" in (answer.remark or "")
        for code in (RequestCode.GET_KV_CONFIG, RequestCode.GET_BROKER_CLUSTER_INFO):
            assert (await ask("10.0.0.8", code, kept)).code == ResponseCode.SUCCESS
        nursery.cancel_scope.cancel()


async def test_connections_to_brokers_take_places_of_their_clients(
    tmp_path: Path, dial: Dial
) -> None:
    async with clustered(tmp_path) as cluster:
        await cluster.broker()
        proxy = await cluster.proxy()
        await until_seen(proxy, "broker-a")
        (port,) = proxy.brokers.ports.values()
        places = proxy.budget.places
        places.most = 12
        clients, codes = [], []
        with suppress(EOFError, trio.BrokenResourceError):
            for _ in range(12):
                clients.append(Client(await dial(port.address.port)))
                codes.append((await clients[-1].call(RequestCode.GET_MAX_OFFSET, ONE)).code)
        assert places.held_by("127.0.0.1") == len(port.server.connections) + port.links == 10
        assert len(codes) == 5
        other = trio.socket.socket()
        await other.bind(("127.0.0.2", 0))
        await other.connect(("127.0.0.1", port.address.port))
        clients.append(Client(Peer(trio.SocketStream(other))))
        assert (await clients[-1].call(RequestCode.GET_MAX_OFFSET, ONE)).code == codes[0]
        for client in clients:
            await client.peer.stream.aclose()
        await until(lambda: not places.held_by("127.0.0.1"))


def test_brokers_of_any_number_leave_the_numbers_of_those_before(tmp_path: Path) -> None:
    path = tmp_path / "brokers.json"
    numbers = BrokerNumbers(path)
    assert numbers.add([A]) == ""
    for first in range(0, 10 * BROKERS_MAX, 500):
        numbers.add(BrokerKey(f"made-up{number}", 0) for number in range(first, first + 500))
    assert numbers.is_full
    assert numbers.get(A) == 0
    found = [numbers.get(BrokerKey(f"made-up{number}", 0)) for number in range(10 * BROKERS_MAX)]
    assert sorted(n for n in found if n is not None) == list(range(1, BROKERS_MAX))
    assert len(json.loads(path.read_bytes())) == BROKERS_MAX
    assert numbers.saves <= 2 + BROKERS_MAX // 500
