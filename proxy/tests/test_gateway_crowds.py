"""A proxy whose brokers die under many clients, or that is started in a wrong way."""

import logging
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.proxy._settings import ConfigError
from lanemq.proxy.gateway import GatewayConfig, RunningGateway, open_gateway
from lanemq.proxy.gateway._brokers import UpstreamBrokers
from lanemq.proxy.gateway._connecting import CONNECT_S, TRIES_MAX, Connecting, Unreachable
from lanemq.proxy.gateway._numbers import BrokerKey, BrokerNumbers
from lanemq.proxy.nameserver import NameServerConfig, open_nameserver
from lanemq.proxy.net.limits._budget import Budget
from lanemq.proxy.net.transport._tls import ServerTls
from lanemq.sdk import dial_tcp
from lanemq.testkit.proxy.brokers import Client
from lanemq.testkit.proxy.gateways import gateway_config, until
from lanemq.testkit.proxy.peers import Dial
from lanemq.testkit.proxy.turns import turns_measured_by
from lanemq.testkit.reading_time import slowness
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import BrokerData, ClusterInfo
from lanemq.wire.frame import Connection, Frame, encode_frame, request

PATIENT_S: Final = 60.0
A: Final = BrokerKey("a", 0)
CROWD: Final = 1000
TURN_S: Final = 0.05


async def listening(
    nursery: trio.Nursery, handler: Callable[[trio.SocketStream], Awaitable[None]]
) -> str:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=2 * CROWD)
    nursery.start_soon(partial(trio.serve_listeners, handler, [listener]))
    return f"127.0.0.1:{listener.socket.getsockname()[1]}"


def name_server(brokers: dict[str, str]) -> Callable[[trio.SocketStream], Awaitable[None]]:
    """A name server that knows these masters."""

    async def serve(stream: trio.SocketStream) -> None:
        protocol = Connection()
        async for data in stream:
            protocol.receive_data(data)
            while isinstance(frame := protocol.next_event(), Frame):
                table = {name: BrokerData("c", name, {0: at}) for name, at in brokers.items()}
                body = ClusterInfo(table, {"c": tuple(table)}).encode()
                await stream.send_all(encode_frame(frame.reply(body=body)))

    return serve


@asynccontextmanager
async def faked(
    brokers: dict[str, str], **settings: object
) -> AsyncIterator[tuple[RunningGateway, trio.Nursery]]:
    """A proxy before a name server that knows these masters."""
    async with trio.open_nursery() as nursery:
        upstream = await listening(nursery, name_server(brokers))
        async with open_gateway(gateway_config(upstream, **settings)) as proxy:
            yield proxy, nursery
        nursery.cancel_scope.cancel()


class LoopTurns(trio.abc.Instrument):
    """The processor time of the longest turn of the loop: all tasks that were ready."""

    def __init__(self) -> None:
        self._begun_s = time.thread_time()
        self.longest_s = 0.0

    def after_io_wait(self, timeout: float) -> None:
        self._begun_s = time.thread_time()

    def before_io_wait(self, timeout: float) -> None:
        self.longest_s = max(self.longest_s, time.thread_time() - self._begun_s)


async def test_the_links_of_a_broker_that_dies_end_in_short_turns() -> None:
    longest: list[float] = []
    for _ in range(8):
        longest.append(await _longest_turn_at_the_death_of_a_broker())
        if longest[-1] <= TURN_S * slowness():
            return
    raise AssertionError(longest)


async def _longest_turn_at_the_death_of_a_broker() -> float:
    """The broker's end of the connections is no work of the loop that is measured."""
    brokers: dict[str, str] = {}

    def accept_all() -> None:
        for _ in range(CROWD):
            accepted.enter_context(listener.accept()[0])

    with socket.create_server(("127.0.0.1", 0), backlog=2 * CROWD) as listener:
        brokers["a"] = f"127.0.0.1:{listener.getsockname()[1]}"
        with turns_measured_by(time.thread_time), ExitStack() as accepted:
            async with faked(brokers) as (proxy, _), AsyncExitStack() as clients:
                await until(lambda: A in proxy.brokers.ports)
                port = proxy.brokers.ports[A]
                for number in range(CROWD):
                    stream = await trio.open_tcp_stream("127.0.0.1", port.address.port)
                    clients.push_async_callback(trio.aclose_forcefully, stream)
                    asked = request(RequestCode.PULL_MESSAGE, opaque=number)
                    await stream.send_all(encode_frame(asked))
                await until(lambda: port.counts.requests == port.links == CROWD)
                await trio.to_thread.run_sync(accept_all)
                turns = LoopTurns()
                trio.lowlevel.add_instrument(turns)
                await trio.to_thread.run_sync(accepted.close)
                await until(lambda: not port.links)
                trio.lowlevel.remove_instrument(turns)
    return turns.longest_s


async def test_a_broker_that_cannot_be_reached_is_tried_by_one_client_at_a_time(
    autojump_clock: MockClock,
) -> None:
    tries = 0
    is_there = False

    async def dial(host: str, port: int) -> trio.abc.Stream:
        nonlocal tries
        tries += 1
        if is_there:
            return trio.testing.memory_stream_pair()[0]
        return await trio.sleep_forever()

    connecting = Connecting(dial)
    found: list[str] = []

    async def client() -> None:
        try:
            await connecting.connect("10.0.0.1:10911")
        except Unreachable as error:
            found.append(str(error))

    async with trio.open_nursery() as nursery:
        for _ in range(CROWD):
            nursery.start_soon(client)
        await wait_all_tasks_blocked()
        assert tries == TRIES_MAX
    assert found == [f"cannot connect within {CONNECT_S:g} s"] * CROWD
    before, begun_s = tries, trio.current_time()
    assert before == TRIES_MAX, "the others are told what these have found"
    async with trio.open_nursery() as nursery:
        for _ in range(CROWD):
            nursery.start_soon(client)
    assert (tries, trio.current_time()) == (before, begun_s), "refused at once"
    await trio.sleep(1)
    async with trio.open_nursery() as nursery:
        for _ in range(CROWD):
            nursery.start_soon(client)
    assert tries == before + 1
    is_there = True
    await trio.sleep(1)
    await connecting.connect("10.0.0.1:10911")
    assert connecting.problem == ""
    await connecting.connect("10.0.0.1:10911")


async def test_a_client_that_goes_while_it_tries_leaves_the_try_to_others(
    autojump_clock: MockClock,
) -> None:
    is_there = False

    async def dial(host: str, port: int) -> trio.abc.Stream:
        if is_there:
            return trio.testing.memory_stream_pair()[0]
        await trio.sleep(0.5)
        raise OSError("no route to host")

    connecting = Connecting(dial)
    with pytest.raises(Unreachable, match="no route to host"):
        await connecting.connect("10.0.0.1:10911")
    await trio.sleep(1)
    with trio.move_on_after(0.1) as gone:
        await connecting.connect("10.0.0.1:10911")
    assert gone.cancelled_caught
    is_there = True
    await connecting.connect("10.0.0.1:10911")


def test_two_proxies_cannot_have_one_directory(tmp_path: Path) -> None:
    path = tmp_path / "data" / "brokers.json"
    one = BrokerNumbers(path, is_locking=True)
    one.add([A])
    with pytest.raises(ConfigError, match=r"in use by another proxy that runs.*--data"):
        BrokerNumbers(path, is_locking=True)
    one.close()
    two = BrokerNumbers(path, is_locking=True)
    assert two.get(A) == 0
    two.close()


async def test_a_proxy_gives_its_directory_back(tmp_path: Path) -> None:
    path = tmp_path / "brokers.json"
    settings = gateway_config("127.0.0.1:1", state_path=path, leave_seconds=0)
    async with open_gateway(settings):
        with pytest.raises(ConfigError, match="in use by another proxy"):
            async with open_gateway(settings):
                raise AssertionError("it was opened")
    async with open_gateway(settings):
        pass


def test_a_file_that_cannot_be_read_leaves_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "brokers.json"
    path.write_text("[]")
    for _ in range(2):
        with pytest.raises(ConfigError, match="does not have the numbers"):
            BrokerNumbers(path, is_locking=True)


@pytest.mark.parametrize("length", [1, 2, 3])
async def test_proxies_that_are_each_other_s_upstream_say_so(dial: Dial, length: int) -> None:
    """A circle of so many, and one proxy before it."""
    async with AsyncExitStack() as stack:
        nursery = await stack.enter_async_context(trio.open_nursery())
        stack.callback(nursery.cancel_scope.cancel)
        # The first one's upstream is known before the others are there: a relay leads to the last.
        last = ""

        async def relay(stream: trio.SocketStream) -> None:
            if not last:
                return
            host, port = last.split(":")
            async with (
                await trio.open_tcp_stream(host, int(port)) as other,
                trio.open_nursery() as both,
            ):

                async def copy(one: trio.SocketStream, to: trio.SocketStream) -> None:
                    async for data in one:
                        await to.send_all(data)
                    both.cancel_scope.cancel()

                both.start_soon(copy, stream, other)
                both.start_soon(copy, other, stream)

        asked = await listening(nursery, relay)
        proxies = []
        for _ in range(length + 1):
            running = await _started(nursery, gateway_config(asked, leave_seconds=0))
            proxies.append(running)
            asked = str(running.address)
            if len(proxies) == length:
                last = asked
        with trio.fail_after(PATIENT_S):
            while not all("leads back" in one.routes.why_unanswered for one in proxies):  # noqa: ASYNC110
                await trio.sleep(0.01)
        for one in proxies:
            client = Client(await dial(one.address.port))
            for _ in range(20):
                answer = await client.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
                assert answer.code == ResponseCode.SYSTEM_ERROR
                assert "leads back" in (answer.remark or "")


async def _started(nursery: trio.Nursery, settings: GatewayConfig) -> RunningGateway:
    async def run(task_status: trio.TaskStatus[RunningGateway]) -> None:
        async with open_gateway(settings) as running:
            task_status.started(running)
            await trio.sleep_forever()

    started: RunningGateway = await nursery.start(run)
    return started


async def test_a_proxy_before_a_proxy_is_no_circle(dial: Dial) -> None:
    servers = NameServerConfig(bind_address="127.0.0.1", listen_port=0)
    async with (
        open_nameserver(servers) as upstream,
        open_gateway(gateway_config(upstream.address, leave_seconds=0)) as inner,
        open_gateway(gateway_config(str(inner.address), leave_seconds=0)) as outer,
    ):
        await until(lambda: not outer.routes.why_unanswered)
        client = Client(await dial(outer.address.port))
        answer = await client.call(RequestCode.GET_BROKER_CLUSTER_INFO)
        assert answer.code == ResponseCode.SUCCESS
        too_many = ",".join(["0" * 16] * 17)
        answer = await client.call(
            RequestCode.GET_BROKER_CLUSTER_INFO, {"lanemqProxyLook": too_many}
        )
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "more than 16 proxies" in (answer.remark or "")


async def test_why_a_broker_has_no_port_is_said_once(
    dial: Dial, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    brokers = {"nowhere": "no-port", "there": "127.0.0.1:9"}
    path = tmp_path / "data" / "brokers.json"
    (tmp_path / "data").write_text("no directory")
    with caplog.at_level(logging.INFO, "lanemq.proxy.gateway"):
        async with faked(brokers, state_path=path) as (proxy, _):
            tool = Client(await dial(proxy.address.port))
            for _ in range(50):
                answer = await tool.call(RequestCode.GET_BROKER_CLUSTER_INFO)
                assert answer.code == ResponseCode.SUCCESS
            told = [one for one in caplog.messages if "broker there/0" in one]
            assert len(told) == 1, told
            assert str(path) in told[0]
            told = [one for one in caplog.messages if "broker nowhere/0" in one]
            assert len(told) == 1, told
            assert proxy.brokers.ports == {}
            (tmp_path / "data").unlink()
            await until(lambda: BrokerKey("there", 0) in proxy.brokers.ports)


async def test_brokers_that_all_change_their_address_cost_one_look_each() -> None:
    """Name servers take brokers of anybody, and each look has all that have moved."""
    count, config = (
        60,
        GatewayConfig(upstream="127.0.0.1:1", bind_address="127.0.0.1", broker_port=0),
    )
    spawned = Counter[str]()

    class Spawned(trio.abc.Instrument):
        def task_spawned(self, task: trio.lowlevel.Task) -> None:
            spawned[task.name] += 1

    def at(port: int) -> list[BrokerData]:
        return [BrokerData("c", f"b{n:02}", {0: f"10.0.{port}.{n}:10911"}) for n in range(count)]

    async with trio.open_nursery() as nursery:
        brokers = UpstreamBrokers(
            config,
            BrokerNumbers(None),
            nursery=nursery,
            dial=dial_tcp,
            budget=Budget(),
            tls=ServerTls(),
        )
        brokers.note_all(*at(1))
        assert len(brokers.ports) == count
        await trio.testing.wait_all_tasks_blocked()
        trio.lowlevel.add_instrument(instrument := Spawned())
        brokers.note_all(*at(2))
        await trio.testing.wait_all_tasks_blocked()
        trio.lowlevel.remove_instrument(instrument)
        assert brokers.address_of("b59") == "10.0.2.59:10911"
        assert spawned.total() <= count
        nursery.cancel_scope.cancel()
