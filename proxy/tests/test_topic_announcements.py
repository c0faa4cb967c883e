"""Whoever was told that a topic exists finds its route, if the name servers are up."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from lanemq.proxy.broker import BrokerConfig
from lanemq.proxy.broker.cluster import _registration
from lanemq.proxy.broker.cluster._registration import TOLD_S
from lanemq.proxy.net._dispatch import Handlers
from lanemq.proxy.net._server import Server
from lanemq.proxy.net._session import Session
from lanemq.proxy.process._run import run_broker
from lanemq.testkit.proxy.brokers import ADDRESS, SMALL_STORE, Client
from lanemq.testkit.proxy.peers import Peer
from lanemq.wire import HostAddress, RequestCode
from lanemq.wire.bodies import RegisterBrokerBody
from lanemq.wire.frame import Frame
from lanemq.wire.headers import CreateTopic
from lanemq.wire.requests import Port

TOOL_WAITS_S = 5.0
"""The time-out of Apache's tools (DefaultMQAdminExt)."""


class SlowNameServer:
    """Notes the topics that it is told of, and answers when ``answers`` is set."""

    def __init__(self) -> None:
        self.topics: set[str] = set()
        self.answers = trio.Event()
        self.answers.set()
        self.is_down = False
        self.sessions: list[Session] = []
        handlers = Handlers(Port.NAME_SERVER)
        handlers.add(RequestCode.REGISTER_BROKER, self._register)
        handlers.add(RequestCode.UNREGISTER_BROKER, lambda frame, session: frame.reply())
        self.server = Server(handlers, name="name server")

    async def _register(self, frame: Frame, session: Session) -> Frame:
        self.sessions.append(session)
        wrapper = RegisterBrokerBody.decode(frame.body).topic_config_wrapper
        await self.answers.wait()
        self.topics |= wrapper.topic_config_table.keys()
        return frame.reply()


@asynccontextmanager
async def broker_at(name_server: SlowNameServer, root: Path) -> AsyncIterator[Client]:
    """Run a broker that registers at ``name_server``; yields a client of it."""
    config = BrokerConfig(
        broker_name="broker-a",
        namesrv_addr="ns:0",
        store_path_root_dir=root,
        **SMALL_STORE,  # type: ignore[arg-type]
    )
    async with trio.open_nursery() as nursery:

        def connect(server: Server) -> trio.abc.Stream:
            ours, theirs = memory_stream_pair()
            peer = HostAddress("10.0.0.1", 1)
            nursery.start_soon(partial(server.serve_stream, theirs, peer=peer))
            return ours

        async def dial(host: str, port: int) -> trio.abc.Stream:
            if name_server.is_down:
                raise OSError("connection refused")
            return connect(name_server.server)

        async with run_broker(config, address=ADDRESS, dial=dial) as parts:
            yield Client(Peer(connect(parts.broker.server)))
            name_server.answers.set()
        nursery.cancel_scope.cancel()


async def create(client: Client, topic: str) -> Frame:
    header = CreateTopic(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=4,
        write_queue_nums=4,
        perm=6,
        topic_filter_type="SINGLE_TAG",
    )
    return await client.call(RequestCode.UPDATE_AND_CREATE_TOPIC, header.to_fields())


async def test_a_topic_is_answered_once_the_name_server_has_its_route(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_registration, "TOLD_S", 60.0)  # in real time, on a busy machine
    name_server = SlowNameServer()
    answered: list[tuple[int, bool]] = []

    async def ask(client: Client, topic: str) -> None:
        answer = await create(client, topic)
        answered.append((answer.code, topic in name_server.topics))

    async with broker_at(name_server, tmp_path) as client, trio.open_nursery() as nursery:
        name_server.answers = trio.Event()
        nursery.start_soon(ask, client, "T")
        await wait_all_tasks_blocked(0.01)
        assert not answered
        name_server.answers.set()
    assert answered == [(0, True)]


async def test_a_name_server_that_never_answers_neither_refuses_a_topic_nor_holds_it_long(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    name_server = SlowNameServer()
    async with broker_at(name_server, tmp_path) as client:
        name_server.answers = trio.Event()
        start_s = trio.current_time()
        assert (await create(client, "T")).code == 0
        assert 0 < trio.current_time() - start_s <= TOLD_S < TOOL_WAITS_S
        assert (await client.call(RequestCode.GET_TOPIC_CONFIG, {"topic": "T"})).code == 0


async def test_a_name_server_that_is_down_does_not_hold_the_answer(
    tmp_path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    name_server = SlowNameServer()
    async with broker_at(name_server, tmp_path) as client:
        name_server.is_down = True
        name_server.sessions[0].close()
        start_s = trio.current_time()
        for topic in ("T", "U"):
            assert (await create(client, topic)).code == 0
        assert trio.current_time() - start_s < TOLD_S
    assert "cannot register at name server" in caplog.text


async def test_a_send_that_makes_its_topic_does_not_wait_for_name_servers(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Its sender has a route already, the default topic's; 4.9.8 tells them one-way."""
    name_server = SlowNameServer()
    async with broker_at(name_server, tmp_path) as client:
        name_server.answers = trio.Event()
        start_s = trio.current_time()
        assert (await client.send("New")).code == 0
        assert trio.current_time() == start_s
        name_server.answers.set()
        await trio.sleep(TOLD_S)
    assert "New" in name_server.topics
