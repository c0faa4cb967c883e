"""Questions of a listener about topics of very many queues, which hold nobody else up."""

import threading
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, final

import pytest
import trio
from attrs import define, field
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.proxy.broker.logical.state._view import LogicalView
from lanemq.proxy.logical.listener.brokers import _broker
from lanemq.proxy.logical.listener.brokers._broker import over_links
from lanemq.proxy.logical.listener.brokers._questions import TOPIC_STATS
from lanemq.proxy.logical.listener.brokers._routes import FRESH_S, LogicalRoutes
from lanemq.proxy.net._turns import LONG_ANSWER_BYTES, PARTS_OF_A_TURN
from lanemq.testkit.calls import calls_of_steps
from lanemq.testkit.proxy.brokers import open_test_broker
from lanemq.wire import TOPIC_QUEUES_MAX, Refused, RequestCode, ResponseCode
from lanemq.wire.bodies import (
    BrokerData,
    MessageQueue,
    QueueData,
    RouteData,
    TopicConfig,
    TopicOffset,
    TopicStatsTable,
)
from lanemq.wire.frame import Frame
from lanemq.wire.headers import GetTopicStatsInfo
from lanemq.wire.logical import LOGICAL_QUEUES_MEMBER, LogicalQueues, Segment

ASKED = GetTopicStatsInfo(topic="T")


@final
class Turns(trio.abc.Instrument):
    """The number of the turn of the loop."""

    def __init__(self) -> None:
        self.number = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.number += 1


async def test_the_own_broker_answers_for_some_queues_in_a_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_test_broker(tmp_path) as broker:
        context, topics = broker.context, broker.broker.typed.topics
        context.topics.put(TopicConfig("T", TOPIC_QUEUES_MAX, TOPIC_QUEUES_MAX))
        turns, asked = Turns(), Counter[int]()
        bounds = context.store.bounds

        def counted(topic: str, queue_id: int) -> tuple[int, int]:
            asked[turns.number] += topic == "T"
            return bounds(topic, queue_id)

        monkeypatch.setattr(context.store, "bounds", counted)
        trio.lowlevel.add_instrument(turns)
        told = await topics.stats_in_turns(ASKED)
        trio.lowlevel.remove_instrument(turns)
        assert asked.total() == TOPIC_QUEUES_MAX
        assert max(asked.values()) <= PARTS_OF_A_TURN
        assert told == topics.stats(ASKED)


@final
class Client:
    """A link to a broker that has one answer."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def call(self, address: str, frame: Frame, *_: object, **__: object) -> Frame:
        return frame.reply(body=self._body)


@pytest.mark.parametrize(("queues", "is_beside"), [(4, False), (TOPIC_QUEUES_MAX, True)])
async def test_a_long_answer_of_another_broker_is_read_beside_the_loop(
    queues: int, is_beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets = {MessageQueue("T", "b", number): TopicOffset(0, 9, 1) for number in range(queues)}
    body = TopicStatsTable(offsets, 0.0).encode()
    assert (len(body) >= LONG_ANSWER_BYTES) is is_beside
    readers, decode = list[threading.Thread](), TopicStatsTable.decode

    def noted(data: Any) -> TopicStatsTable:  # noqa: ANN401 - bytes of any kind
        readers.append(threading.current_thread())
        return decode(data)

    monkeypatch.setattr(TopicStatsTable, "decode", noted)
    client: Any = Client(body)
    broker = over_links(client)("b", "10.0.0.1:10911")
    told = await broker.call(TOPIC_STATS, ASKED, 1.0)
    assert told.stats.offset_table == offsets
    assert [one is not threading.current_thread() for one in readers] == [is_beside]


CALLS_MAX: Final = 60_000
"""Calls of one turn, some 10 ms, where 4,096 logical queues take half a million to read."""


class Links:
    """Name servers and brokers that answer for one wide topic."""

    def __init__(self) -> None:
        queues = LogicalQueues.of(
            Segment(MessageQueue("T", "b", number), number, 0, broker_address="10.0.0.1:10911")
            for number in range(TOPIC_QUEUES_MAX)
        )
        self.queues = queues
        route = RouteData(
            (QueueData("b", TOPIC_QUEUES_MAX, TOPIC_QUEUES_MAX),),
            (BrokerData("c", "b", {0: "10.0.0.1:10911"}),),
            extra={LOGICAL_QUEUES_MEMBER: queues.to_json()},
        )
        self.is_listed = True
        self._route, self._mapping = route.encode(standard=True), queues.encode()

    async def call(self, address: str, frame: Frame, *_: object, **__: object) -> Frame:
        if frame.code == RequestCode.QUERY_TOPIC_LOGICAL_QUEUE_MAPPING:
            return frame.reply(body=self._mapping)
        if frame.code == RequestCode.GET_ROUTEINFO_BY_TOPIC and self.is_listed:
            return frame.reply(body=self._route)
        return frame.reply(ResponseCode.TOPIC_NOT_EXIST)

    async def ask_name_servers(self, frame: Frame) -> list[Frame]:
        return [await self.call("", frame) for _ in range(2)]


@define
class Own:
    """The account of the process's broker, which has one more message queue in each."""

    queues_here: LogicalQueues
    broker_name: str = "own"
    address: str = "10.0.0.2:10911"
    brokers: dict[str, int] = field(factory=dict)

    def queues(self, topic: str) -> LogicalQueues | None:
        return self.queues_here if topic == "T" else None

    def known_queues(self) -> dict[str, LogicalQueues]:
        return {"T": self.queues_here}


async def test_a_listener_reads_the_views_of_wide_topics_beside_the_loop(
    autojump_clock: MockClock,
) -> None:
    links: Any = Links()
    here = LogicalQueues.of(
        Segment(MessageQueue("T", "own", n), n, 100, broker_address="10.0.0.2:10911")
        for n in range(TOPIC_QUEUES_MAX)
    )
    routes = LogicalRoutes(links, ["10.0.0.9:9876"], Own(here))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(routes.run)
        await wait_all_tasks_blocked()
        with calls_of_steps() as steps:
            for is_listed in (True, True, False):
                links.is_listed = is_listed
                view = await routes.refresh("T")
                assert view is not None
                assert len(view.queues) == TOPIC_QUEUES_MAX
                await trio.sleep(FRESH_S)
        nursery.cancel_scope.cancel()
    assert steps.most <= CALLS_MAX


async def test_a_broker_reads_wide_topics_of_others_beside_the_loop() -> None:
    links: Any = Links()
    logical: Any = SimpleNamespace(brokers_heard={})
    peers: Any = SimpleNamespace(
        ask_name_servers=links.ask_name_servers, call=lambda *asked: links.call("", asked[2])
    )
    view = LogicalView(logical=logical, peers=peers)
    with calls_of_steps() as steps:
        await trio.lowlevel.checkpoint()
        queues, is_unlisted = await view.listing_of("T")
        account = await view.account_of(links.queues[0][0], "T")
        await trio.lowlevel.checkpoint()
    assert queues == account == links.queues
    assert not is_unlisted
    assert steps.most <= CALLS_MAX


async def test_clients_at_one_address_leave_answers_of_another_broker_to_others(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For that broker all of them are one peer, with a share of the pulls that it parks."""
    monkeypatch.setattr(_broker, "ASKED_MAX", 40)

    class Slow:
        async def call(self, address: str, frame: Frame, *_: object, **__: object) -> Frame:
            await trio.sleep(10)
            return frame.reply()

    client: Any = Slow()
    reach, codes = over_links(client), Counter[tuple[str, int]]()

    async def ask(host: str, broker: str = "b") -> None:
        session: Any = SimpleNamespace(peer=SimpleNamespace(host=host))
        try:
            answer: Any = await reach(broker, "10.0.0.1:1").ask(Frame(11), session, 20)
        except Refused as error:
            codes[host, error.code] += 1
        else:
            codes[host, answer.code] += 1

    async with trio.open_nursery() as nursery:
        for _ in range(60):
            nursery.start_soon(ask, "10.9.9.9")
        await wait_all_tasks_blocked()
        nursery.start_soon(ask, "10.1.1.1")
        nursery.start_soon(ask, "10.9.9.9", "c")
    busy = codes["10.9.9.9", ResponseCode.SYSTEM_BUSY]
    assert 28 <= 60 - busy <= 31, "three quarters"
    assert codes["10.9.9.9", ResponseCode.SUCCESS] == 61 - busy
    assert codes["10.1.1.1", ResponseCode.SUCCESS] == 1
    await ask("10.9.9.9")
    assert codes["10.9.9.9", ResponseCode.SUCCESS] == 62 - busy
