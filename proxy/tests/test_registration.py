"""A broker stays registered: at start, periodically, at every change, after every loss."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from threading import Thread, current_thread
from typing import cast, final
from unittest.mock import patch

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from lanemq.proxy.broker import BrokerConfig
from lanemq.proxy.broker.cluster._registration import Registrar
from lanemq.proxy.nameserver import NameServerConfig, open_nameserver
from lanemq.proxy.net._dispatch import Handlers
from lanemq.proxy.net._server import Server
from lanemq.proxy.net._session import Session
from lanemq.proxy.process import open_broker
from lanemq.sdk import RemotingClient, open_remoting_client
from lanemq.storage import Supervisor
from lanemq.testkit.proxy.peers import Dial
from lanemq.wire import HostAddress, RequestCode
from lanemq.wire.bodies import (
    DataVersion,
    KVTable,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigWrapper,
)
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import QueryDataVersionResponse, RegisterBroker
from lanemq.wire.requests import Port


class FakeNameServer:
    """Notes what is registered, when; refuses connections while it is down."""

    def __init__(self) -> None:
        self.registered: list[tuple[float, set[str], int]] = []
        """Time, topics, and the data version's counter."""
        self.headers: list[RegisterBroker] = []
        self.unregistered: list[Mapping[str, str]] = []
        self.asked = 0
        self.order: dict[str, str] = {}
        self.is_down = False
        self.changed = True
        self.sessions: list[Session] = []
        handlers = Handlers(Port.NAME_SERVER)
        handlers.add(RequestCode.REGISTER_BROKER, self._register)
        handlers.add(RequestCode.UNREGISTER_BROKER, self._unregister)
        handlers.add(RequestCode.QUERY_DATA_VERSION, self._query)
        self.server = Server(handlers, name="name server")

    def _register(self, frame: Frame, session: Session) -> Frame:
        header = RegisterBroker.from_fields(frame.fields)
        decode = (
            RegisterBrokerBody.decode_compressed if header.compressed else RegisterBrokerBody.decode
        )
        wrapper = decode(frame.body).topic_config_wrapper
        self.headers.append(header)
        self.registered.append(
            (trio.current_time(), set(wrapper.topic_config_table), wrapper.data_version.counter)
        )
        self.permissions = {n: t.perm for n, t in wrapper.topic_config_table.items()}
        self.sessions.append(session)
        return frame.reply(body=KVTable(self.order).encode() if self.order else b"")

    def _unregister(self, frame: Frame, session: Session) -> Frame:
        self.unregistered.append(frame.fields)
        return frame.reply()

    def _query(self, frame: Frame, session: Session) -> Frame:
        self.asked += 1
        return frame.reply(fields=QueryDataVersionResponse(changed=self.changed).to_fields())


class Cluster:
    """A registrar with its topics, and name servers ns0, ns1."""

    def __init__(self) -> None:
        self.name_servers = [FakeNameServer(), FakeNameServer()]
        self.topics = {"T": TopicConfig("T"), "U": TopicConfig("U", perm=4)}
        self.counter = 1
        self.ordered: list[Mapping[str, str]] = []

    def wrapper(self) -> TopicConfigWrapper:
        return TopicConfigWrapper(dict(self.topics), DataVersion(1, self.counter))

    @asynccontextmanager
    async def run(self, **config: str) -> AsyncIterator[Registrar]:
        async with trio.open_nursery() as nursery:

            async def dial(host: str, port: int) -> trio.abc.Stream:
                name_server = self.name_servers[port]
                if name_server.is_down:
                    raise OSError("connection refused")
                ours, theirs = memory_stream_pair()
                nursery.start_soon(
                    partial(
                        name_server.server.serve_stream, theirs, peer=HostAddress("10.0.0.1", 1)
                    )
                )
                return ours

            settings = BrokerConfig.from_properties(
                {"brokerName": "broker-a", "namesrvAddr": "ns:0;ns:1", **config}
            )
            async with open_remoting_client(dial=dial) as client:
                self.client = client
                registrar = Registrar(
                    config=settings,
                    client=client,
                    address="10.0.0.9:10911",
                    ha_address="10.0.0.9:10912",
                    topics=self.wrapper,
                    on_order_topics=self.ordered.append,
                )
                async with trio.open_nursery() as running:
                    running.start_soon(registrar.run, Supervisor())
                    yield registrar
                    running.cancel_scope.cancel()
            nursery.cancel_scope.cancel()

    def add(self, registrar: Registrar, name: str) -> None:
        self.topics[name] = TopicConfig(name)
        self.counter += 1
        registrar.announce(self.topics[name])


async def test_a_broker_registers_everywhere_at_start_and_every_30_seconds(
    autojump_clock: MockClock,
) -> None:
    cluster = Cluster()
    async with cluster.run() as registrar:
        start_s = trio.current_time()
        assert await registrar.registered(5)
        await trio.sleep(65)
    for name_server in cluster.name_servers:
        times = [at_s - start_s for at_s, _, _ in name_server.registered]
        assert len(times) == 3
        assert all(30 <= b - a <= 32 for a, b in pairwise(times))
        assert {frozenset(topics) for _, topics, _ in name_server.registered} == {frozenset("TU")}
        header = name_server.headers[0]
        assert (header.broker_name, header.broker_addr) == ("broker-a", "10.0.0.9:10911")
        assert (header.cluster_name, header.broker_id) == ("DefaultCluster", 0)
        assert header.ha_server_addr == "10.0.0.9:10912"
        assert header.body_crc32 > 0


async def test_a_new_topic_is_announced_at_once_and_alone() -> None:
    cluster = Cluster()
    async with cluster.run() as registrar:
        await registrar.registered(60)
        cluster.add(registrar, "V")
        cluster.add(registrar, "W")
        await wait_all_tasks_blocked()
        for name_server in cluster.name_servers:
            assert [(t, n) for _, t, n in name_server.registered] == [
                ({"T", "U"}, 1),
                ({"V", "W"}, 3),
            ]


async def test_after_a_lost_connection_everything_is_told_again(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster()
    lost = cluster.name_servers[1]
    async with cluster.run() as registrar:
        await registrar.registered(5)
        lost.is_down = True
        lost.sessions[0].close()
        await trio.sleep(10)
        cluster.add(registrar, "V")
        await trio.sleep(1)
        assert len(cluster.name_servers[0].registered) == 2, "the other one is not delayed"
        lost.is_down = False
        start_s = trio.current_time()
        await trio.sleep(5)
    at_s, topics, _ = lost.registered[-1]
    assert at_s - start_s <= 2
    assert topics == {"T", "U", "V"}
    warnings = [r for r in caplog.records if "cannot register" in r.getMessage()]
    assert len(warnings) == 1, "said once, not at every attempt"


async def test_a_part_is_told_only_over_the_connection_that_brought_the_rest(
    autojump_clock: MockClock,
) -> None:
    """A restarted name server knows nothing, and a question of the broker may be first to reach it:
    it would list the broker with its new topic alone, as long as no other changes (found by the
    simulation)."""
    cluster = Cluster()
    name_server = cluster.name_servers[0]
    async with cluster.run(forceRegister="false") as registrar:
        assert await registrar.registered(5)
        name_server.sessions[0].close()
        await wait_all_tasks_blocked()
        question = request(RequestCode.QUERY_DATA_VERSION, {})
        await cluster.client.call("ns:0", question)
        cluster.add(registrar, "V")
        await registrar.told()
        assert [topics for _, topics, _ in name_server.registered] == [{"T", "U"}, {"T", "U", "V"}]
        cluster.add(registrar, "W")
        await registrar.told()
        assert name_server.registered[-1][1] == {"W"}


@final
class NoConnection:
    """A client whose connection ends with the answer that it brings."""

    def __init__(self) -> None:
        self.registered: list[set[str]] = []
        self.timeouts_s: set[float] = set()
        self.is_lasting = False
        """True for one whose connection stays."""

    def connection_number(self, address: str) -> int | None:
        return 1 if self.is_lasting and self.registered else None

    async def call(self, address: str, frame: Frame, timeout_s: float) -> Frame:
        await trio.lowlevel.checkpoint()
        self.timeouts_s.add(timeout_s)
        if frame.code == RequestCode.REGISTER_BROKER:
            body = RegisterBrokerBody.decode(frame.body)
            self.registered.append(set(body.topic_config_wrapper.topic_config_table))
        return frame.reply()


async def test_a_connection_that_is_gone_is_not_the_one_that_brought_the_rest(
    autojump_clock: MockClock,
) -> None:
    """A name server that stops has answered just before."""
    cluster, client = Cluster(), NoConnection()
    registrar = Registrar(
        config=BrokerConfig.from_properties({"namesrvAddr": "ns:0"}),
        client=cast("RemotingClient", client),
        address="10.0.0.9:10911",
        ha_address="10.0.0.9:10912",
        topics=cluster.wrapper,
    )
    async with trio.open_nursery() as running:
        running.start_soon(registrar.run, Supervisor())
        assert await registrar.registered(5)
        cluster.add(registrar, "V")
        await registrar.told()
        running.cancel_scope.cancel()
    assert client.registered == [{"T", "U"}, {"T", "U", "V"}]


async def test_registrations_are_as_often_and_wait_as_long_as_the_settings_say(
    autojump_clock: MockClock,
) -> None:
    for period_ms, times in ((10_000, 10), (50_000, 2)):
        cluster, client = Cluster(), NoConnection()
        client.is_lasting = True
        registrar = Registrar(
            config=BrokerConfig.from_properties(
                {
                    "namesrvAddr": "ns:0",
                    "registerNameServerPeriod": str(period_ms),
                    "registerBrokerTimeoutMills": "1234",
                }
            ),
            client=cast("RemotingClient", client),
            address="10.0.0.9:10911",
            ha_address="10.0.0.9:10912",
            topics=cluster.wrapper,
        )
        with trio.move_on_after(99):
            await registrar.run(Supervisor())
        assert times - 1 <= len(client.registered) <= times
        assert client.timeouts_s == {1.234}


async def test_a_topic_announced_while_a_name_server_was_down_is_not_sent_alone(
    autojump_clock: MockClock,
) -> None:
    """A name server takes a version it has seen for one it knows all topics of."""
    cluster = Cluster()
    late = cluster.name_servers[1]
    late.is_down = True
    async with cluster.run() as registrar:
        assert not await registrar.registered(5)
        late.is_down = False
        cluster.add(registrar, "V")
        await trio.sleep(3)
    assert [topics for _, topics, _ in late.registered][:1] == [{"T", "U", "V"}]


async def test_a_broker_unregisters_everywhere_and_does_not_wait_for_the_dead(
    autojump_clock: MockClock,
) -> None:
    cluster = Cluster()
    async with cluster.run() as registrar:
        await registrar.registered(5)
        cluster.name_servers[1].is_down = True
        cluster.name_servers[1].sessions[0].close()
        await trio.sleep(0.1)
        start_s = trio.current_time()
        await registrar.unregister()
        assert trio.current_time() - start_s <= 2
    (fields,) = cluster.name_servers[0].unregistered
    assert fields == {
        "brokerName": "broker-a",
        "brokerAddr": "10.0.0.9:10911",
        "clusterName": "DefaultCluster",
        "brokerId": "0",
    }


async def test_without_force_an_unchanged_version_is_only_asked_about(
    autojump_clock: MockClock,
) -> None:
    cluster = Cluster()
    first = cluster.name_servers[0]
    first.changed = False
    async with cluster.run(forceRegister="false") as registrar:
        await registrar.registered(5)
        await trio.sleep(65)
        assert (len(first.registered), first.asked) == (1, 2)
        first.changed = True
        await trio.sleep(30)
        assert (len(first.registered), first.asked) == (2, 3)


async def test_a_compressed_registration_says_so() -> None:
    cluster = Cluster()
    async with cluster.run(compressedRegister="true") as registrar:
        assert await registrar.registered(60)
    assert cluster.name_servers[0].headers[0].compressed
    assert cluster.name_servers[0].registered[0][1] == {"T", "U"}


async def test_a_registration_of_many_topics_is_written_beside_the_loop() -> None:
    cluster = Cluster()
    cluster.topics |= {f"T{number}": TopicConfig(f"T{number}") for number in range(600)}
    threads: list[Thread] = []
    encode = RegisterBrokerBody.encode

    def noted(self: RegisterBrokerBody, *, standard: bool = False, pretty: bool = False) -> bytes:
        threads.append(current_thread())
        return encode(self, standard=standard, pretty=pretty)

    with patch.object(RegisterBrokerBody, "encode", noted):
        async with cluster.run() as registrar:
            assert await registrar.registered(5)
    assert len(threads) == 2
    assert current_thread() not in threads
    for name_server in cluster.name_servers:
        (_, topics, _), *_ = name_server.registered
        assert topics == set(cluster.topics)


async def test_a_broker_that_may_not_write_registers_no_writable_topic() -> None:
    cluster = Cluster()
    cluster.topics["W"] = TopicConfig("W", perm=2)
    async with cluster.run(brokerPermission="4") as registrar:
        await registrar.registered(60)
    assert cluster.name_servers[0].permissions == {"T": 4, "U": 4, "W": 0}


async def test_a_change_of_everything_is_told_at_once() -> None:
    cluster = Cluster()
    async with cluster.run() as registrar:
        await registrar.registered(60)
        registrar.announce_all()
        await wait_all_tasks_blocked()
        assert [topics for _, topics, _ in cluster.name_servers[0].registered] == [{"T", "U"}] * 2


async def test_the_operators_ordered_topics_are_handed_on() -> None:
    cluster = Cluster()
    cluster.name_servers[0].order = {"T": "broker-a:4"}
    async with cluster.run() as registrar:
        await registrar.registered(60)
    assert cluster.ordered == [{"T": "broker-a:4"}]


async def test_a_broker_without_name_servers_has_nothing_to_do() -> None:
    cluster = Cluster()
    async with cluster.run(namesrvAddr="") as registrar:
        assert await registrar.registered(60)
        registrar.announce(TopicConfig("V"))
        await registrar.unregister()


async def test_a_broker_made_read_only_at_run_time_is_so_at_its_name_server(
    tmp_path: Path, dial: Dial
) -> None:
    config = NameServerConfig(bind_address="127.0.0.1", listen_port=0)
    async with open_nameserver(config) as name_server:
        settings = BrokerConfig.from_properties(
            {"namesrvAddr": name_server.address, "bindAddress": "127.0.0.1", "listenPort": "0"},
            {"store_path_root_dir": tmp_path, "mapped_file_size_commit_log": 1 << 20},
        )
        async with open_broker(settings) as broker:

            def permissions() -> set[int]:
                names = name_server.routes.topics()
                routes = [name_server.routes.route(name) for name in names]
                return {one.perm for route in routes if route for one in route.queue_datas}

            assert permissions() == {6, 7}
            update = request(RequestCode.UPDATE_BROKER_CONFIG, body=b"brokerPermission=4")
            assert (await (await dial(broker.port)).call(update)).code == 0
            with trio.fail_after(60):
                while not permissions() <= {4, 5}:  # noqa: ASYNC110 - the table tells nobody
                    await trio.sleep(0.01)
