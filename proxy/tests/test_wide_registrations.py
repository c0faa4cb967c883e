"""Topics of many logical queues, as others ask and speak of them while a registration brings them.

Such a topic is changed and viewed in a thread, as a copy that takes its place afterwards.
"""

import threading
from collections.abc import Iterable

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from lanemq.proxy.nameserver import NameServerConfig, RouteTable
from lanemq.proxy.nameserver._handlers import NameServerHandlers
from lanemq.proxy.nameserver._kv import KVConfig
from lanemq.proxy.nameserver.logical._known_topics import SEGMENTS_OF_A_STEP
from lanemq.proxy.nameserver.logical._room import Held as HeldBytes
from lanemq.proxy.nameserver.logical._topic import LogicalTopic
from lanemq.proxy.nameserver.logical._view import Facts, ShownTopic
from lanemq.proxy.net._dispatch import Handlers
from lanemq.proxy.net._server import Server
from lanemq.testkit.calls import calls_of_this_thread
from lanemq.testkit.proxy.peers import Connect
from lanemq.testkit.segments import at
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import (
    DataVersion,
    MessageQueue,
    RegisterBrokerBody,
    RouteData,
    TopicConfig,
    TopicConfigWrapper,
)
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import GetRouteInfo, RegisterBroker
from lanemq.wire.logical import (
    LOGICAL_QUEUE_FLAG,
    LogicalQueueReport,
    LogicalQueues,
    Segment,
    SegmentState,
    TopicReport,
    with_logical_queues,
)
from lanemq.wire.requests import Port

MANY = SEGMENTS_OF_A_STEP + 40


class Held:
    """Holds the first view that is made beside the loop until ``go``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go = trio.Event(), trio.Event()
        view, loop = LogicalTopic.view, threading.get_ident()

        def held(topic: LogicalTopic, facts: Facts, now_s: float) -> ShownTopic:
            if threading.get_ident() != loop:
                trio.from_thread.run_sync(self.begun.set)
                trio.from_thread.run(self.go.wait)
            return view(topic, facts, now_s)

        monkeypatch.setattr(LogicalTopic, "view", held)


@pytest.fixture
async def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    return Held(monkeypatch)


@pytest.fixture
async def server() -> Server:
    handlers = Handlers(Port.NAME_SERVER)
    config = NameServerConfig(logical_queue_wait_time=0)
    NameServerHandlers(config, RouteTable(), KVConfig(None), now_s=trio.current_time).add_to(
        handlers
    )
    return Server(handlers, name="name server")


def registration(broker: str, indices: Iterable[int]) -> Frame:
    """Register a broker with a logical queue of the topic on each of its queues."""
    address = f"{broker}:10911"
    queues = LogicalQueues.of(
        Segment(MessageQueue("T", broker, number), index, 0, broker_address=address)
        for number, index in enumerate(indices)
    )
    report = LogicalQueueReport(topics={"T": TopicReport()})
    extra = report.added_to(with_logical_queues({}, {"T": queues}))
    table = {"T": TopicConfig("T", len(queues), len(queues))}
    body = RegisterBrokerBody(TopicConfigWrapper(table, DataVersion(1, 1), extra)).encode()
    header = RegisterBroker(broker, address, "c", "", 0)
    return request(RequestCode.REGISTER_BROKER, header.to_fields(), body)


def asked() -> Frame:
    fields = GetRouteInfo("T", sys_flag=LOGICAL_QUEUE_FLAG).to_fields()
    return request(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)


def indices(answer: Frame) -> list[int]:
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    queues = LogicalQueues.of_route(RouteData.decode(answer.body).extra)
    return [] if queues is None else sorted(queues)


async def test_what_another_broker_says_meanwhile_is_not_lost(
    connect: Connect, server: Server, held: Held
) -> None:
    wide, small, client = (connect(server) for _ in range(3))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wide.call, registration("broker1", range(MANY)))
        await held.begun.wait()
        nursery.start_soon(small.call, registration("broker2", range(MANY, MANY + 4)))
        await wait_all_tasks_blocked()
        held.go.set()
    assert indices(await client.call(asked())) == list(range(MANY + 4))


async def test_a_topic_is_never_plain_while_it_comes(
    connect: Connect, server: Server, held: Held
) -> None:
    wide, client = connect(server), connect(server)
    answers: list[Frame] = []

    async def ask() -> None:
        answers.append(await client.call(asked()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wide.call, registration("broker1", range(MANY)))
        await held.begun.wait()
        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        held.go.set()
    assert indices(answers[0]) == list(range(MANY))


class Topic:
    """A topic, and the calls that each report and its view take."""

    def __init__(self, counts: dict[str, list[int]]) -> None:
        self._topic, self._counts = LogicalTopic("T"), counts

    def report(self, what: str, segments: Iterable[Segment], *, shows: int) -> None:
        """Let a broker report segments of one logical queue; the view shows so many."""
        facts = Facts({}, {"broker1": "h:1"}.get)
        queues, report = LogicalQueues.of(segments), TopicReport()
        with calls_of_this_thread() as calls:
            self._topic.report("broker1", "c", queues, report, held=HeldBytes("h", 0))
            view = self._topic.view(facts, 0)
        assert len(view.queues.segments) == shows, view.problems[:2]
        self._counts.setdefault(what, []).append(calls.count)


def test_a_report_and_its_view_take_time_in_proportion_to_the_segments_of_a_chain() -> None:
    """One registration would hold up all others for minutes."""
    counts: dict[str, list[int]] = {}
    for many in (100, 400):
        ends = [at(f"broker1/{number}", 10 * number) for number in range(many)]
        following = at(f"broker1/{many}", -1, state=SegmentState.WRITE_ONLY)
        halves = [at(f"broker1/{number}", 10 * number, 0, 5) for number in range(many)]
        others = [at(f"broker1/{number}", 10 * number + 5, 5, 10) for number in range(many)]
        topic = Topic(counts)
        topic.report("open", ends, shows=many)
        topic.report("open, and one to follow", [*ends, following], shows=many)
        topic = Topic(counts)
        topic.report("sealed", [*halves, *others], shows=2 * many)
        topic.report("removed ones between", halves, shows=many)
        topic.report("all removed", ends[:1], shows=1)
    assert len(counts) == 5
    for what, (least, most) in counts.items():
        assert most <= 4.5 * least, (what, counts)
