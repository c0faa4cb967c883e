"""A proxy between hostile or broken clients, brokers and name servers."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import trio

from lanemq.proxy.gateway import RunningGateway, open_gateway
from lanemq.proxy.gateway._numbers import BrokerKey, BrokerNumbers
from lanemq.testkit.proxy.brokers import Client
from lanemq.testkit.proxy.gateways import gateway_config, until
from lanemq.testkit.proxy.peers import Dial
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import BrokerData, ClusterInfo, RouteData
from lanemq.wire.frame import (
    FLAG_ONEWAY,
    FLAG_RESPONSE,
    Connection,
    Frame,
    encode_frame,
    request,
)

A: Final = BrokerKey("a", 0)
MIB: Final = 1 << 20


class FakeCluster:
    """A name server that says what a test wants, and counts what it is asked."""

    def __init__(self) -> None:
        self.brokers: dict[str, dict[int, str]] = {}
        self.asked: list[Frame] = []
        self.is_silent = False
        self.address = ""

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
        with trio.fail_after(1.0):
            answer = await routes.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
        assert answer.code == ResponseCode.SUCCESS
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
        assert cluster.asked[-1].fields["topic"] == "T"


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
