"""Brokers under ever new names leave nothing behind in a name server's tables."""

from collections.abc import Callable, Iterable, Iterator

import pytest

from lanemq.proxy.nameserver import Registration, RouteTable
from lanemq.proxy.nameserver.logical import _heard
from lanemq.proxy.nameserver.logical._registration import LogicalRegistration
from lanemq.proxy.nameserver.logical._route_maker import Asker
from lanemq.proxy.nameserver.logical._routes import LogicalTopics
from lanemq.proxy.nameserver.logical._unmapped import AWAY_MAX, NAMED_MAX
from lanemq.wire.bodies import DataVersion, MessageQueue, TopicConfig
from lanemq.wire.logical import (
    LogicalListenerReport,
    LogicalQueueReport,
    LogicalQueues,
    Segment,
    SegmentState,
    TopicReport,
)

WAIT_S = 30.0
ROUNDS = 150
LISTENER = LogicalListenerReport("10.0.0.1:10921", 5)


def kept(found: object) -> int:
    """Return the number of things that an object refers to, a long number counting as many."""
    seen, waiting, count = set[int](), [found], 0
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        count += 1 + (one.bit_length() // 64 if isinstance(one, int) else 0)
        waiting += parts(one)
    return count


def parts(one: object) -> Iterator[object]:
    if isinstance(one, dict):
        yield from one
        yield from one.values()
    elif isinstance(one, list | tuple | set | frozenset) or type(one).__name__ == "deque":
        yield from one  # type: ignore[misc]
    elif type(one).__module__.startswith("lanemq"):
        names = [*getattr(one, "__dict__", ()), *getattr(type(one), "__struct_fields__", ())]
        for base in type(one).__mro__:
            names += getattr(base, "__slots__", ())
        yield from (getattr(one, name) for name in names if hasattr(one, name))


class Cluster:
    """A name server that knows one broker with four logical queues of a topic, and hears of
    others."""

    def __init__(self) -> None:
        self.routes = RouteTable()
        self.logical = LogicalTopics(self.routes, wait_s=WAIT_S)
        self.now_s, self.counter = 0.0, 0

    @property
    def kept(self) -> int:
        self.logical.take_news()
        return kept(self.logical)

    def register(
        self,
        name: str,
        segments: Iterable[Segment] | None,
        *,
        topic: str = "T",
        queues: int = 4,
        brokers: int = 0,
        is_asked: bool = True,
    ) -> None:
        self.counter += 1
        listener = LISTENER if name == "own" else None
        address, version = f"{name}:1", DataVersion(1, self.counter)
        was_known = self.routes.is_registered(address)
        topics = [TopicConfig(name, queues, queues) for name in (topic, "TBW102")]
        registration = Registration(
            cluster="c",
            broker_name=name,
            broker_id=0,
            address=address,
            data_version=version,
            topics=topics,
        )
        self.routes.register(registration, now_s=self.now_s, connection=name)
        said = LogicalRegistration(
            cluster="c",
            broker_name=name,
            broker_id=0,
            address=address,
            data_version=version,
            topics=[topic, "TBW102"],
            queues={} if segments is None else {topic: LogicalQueues.of(segments)},
            report=LogicalQueueReport(True, listener, {topic: TopicReport(brokers=brokers)}),
        )
        self.logical.register(said, now_s=self.now_s, connection=name, was_known=was_known)
        if is_asked:
            self.ask(topic)

    def ask(self, topic: str = "T") -> None:
        physical = self.routes.route(topic)
        for asker in Asker if physical is not None else ():
            assert physical is not None
            self.logical.route(topic, physical, asker, now_s=self.now_s, serve_to_java="all")

    def gone(self, name: str) -> None:
        self.routes.connection_closed(name)
        self.ask()


def at(name: str, queue_id: int, index: int, delta: int = 0, end: int = -1) -> Segment:
    queue = MessageQueue("T", name, queue_id)
    if end < 0:
        return Segment(queue, index, delta)
    return Segment(queue, index, delta, SegmentState.READ_ONLY, 0, end - delta)


OWN = [at("own", index, index) for index in range(4)]


def reports(cluster: Cluster, number: int) -> None:
    """A broker has segments, loses some, and takes the others back before it leaves."""
    name, index = f"b{number}", 1000 * number
    moved = [at(name, 3, 0, 10 * number, 10 * number + 5), at(name, 4, 1, 10 * number)]
    cluster.register(name, [at(name, 0, 0), at(name, 1, index), at(name, 2, index + 1), *moved])
    cluster.register(name, [at(name, 2, index + 1)])
    cluster.register(name, None)
    cluster.gone(name)
    cluster.logical.forget_broker(name, now_s=cluster.now_s)


def swept(cluster: Cluster, number: int) -> None:
    """A broker comes with some of its queues in no logical queue."""
    name = f"b{number}"
    cluster.register(name, [at(name, 7, 0, 0, 5)], queues=2048)
    cluster.now_s += 2 * WAIT_S
    cluster.ask()
    cluster.register(name, None)
    cluster.gone(name)


def plain(cluster: Cluster, number: int) -> None:
    """A broker has the topic without logical queues."""
    cluster.register(f"b{number}", None)
    cluster.gone(f"b{number}")


def other_queues(cluster: Cluster, number: int) -> None:
    """A broker stays, and each time has other queues, in other logical queues."""
    own = [at("b", 5 * number + i, number + i, 9 * number, 9 * number + 2) for i in range(3)]
    cluster.register("b", [*own, at("b", 5 * number + 3, 0, 9 * number, 9 * number + 2)])


def other_places(cluster: Cluster, number: int) -> None:
    """A broker stays, and each time has another part of the same logical queues."""
    queue_id = number % 3
    begin = 10 * number
    cluster.register("b", [at("b", queue_id, queue_id, begin, begin + 5)])


def sealed(cluster: Cluster, number: int) -> None:
    """A broker stays, and each time has other logical queues, which take no messages."""
    cluster.register("b", [at("b", i, 10 * number + i, 0, 5) for i in range(3)], queues=0)


def topics(cluster: Cluster, number: int) -> None:
    """A broker has a topic at more brokers than any listener stands for, and deletes it."""
    topic = f"T{number}"
    report = [Segment(MessageQueue(topic, "b", index), index, 0) for index in range(4)]
    cluster.register("b", report, topic=topic, brokers=4)
    cluster.routes.delete_topic(topic)


@pytest.mark.parametrize("is_shown", [True, False])
@pytest.mark.parametrize(
    "come_and_go", [reports, swept, plain, other_queues, other_places, sealed, topics]
)
def test_names_and_numbers_that_change_leave_a_bounded_number_of_things(
    come_and_go: Callable[[Cluster, int], None], is_shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_heard, "HEARD_MAX", 10)
    cluster = Cluster()
    cluster.register("own", OWN if is_shown else OWN[:2])
    cluster.now_s += 2 * WAIT_S
    cluster.ask()
    counts: list[int] = []
    for number in range(1, ROUNDS + 1):
        come_and_go(cluster, number)
        if number % (ROUNDS // 3) == 0:
            counts.append(cluster.kept)
    assert counts[-1] <= counts[0] + 80, counts


def test_queues_that_are_gone_are_not_kept_for_those_who_saw_them() -> None:
    cluster = Cluster()
    cluster.register("b", [at("b", index, index) for index in range(4)])
    cluster.ask()
    before = cluster.kept
    many = [at("b", index, index) for index in range(500)]
    cluster.register("b", many, queues=500)
    assert cluster.kept > before + 2 * len(many)
    for segments in (many[:4], None):
        cluster.register("b", segments, is_asked=False)
        assert cluster.kept <= before + 100


def test_the_past_of_a_queue_that_is_read_stays_beside_very_many_other_parts() -> None:
    cluster = Cluster()
    cluster.register("own", [at("own", 0, 0, 0, 100), *OWN[1:]])
    cluster.register("next", [at("next", index, index, 100 * (not index)) for index in (0, 9)])
    cluster.now_s += 2 * WAIT_S
    cluster.register("own", OWN[1:])
    for number in range(100):
        cluster.register("b", [at("b", 0, 0, 200 + 10 * number, 205 + 10 * number)], queues=0)
    cluster.register("b", None)
    view = cluster.logical.view("T", now_s=cluster.now_s)
    assert [(s.broker_name, s.delta) for s in view.queues[0]] == [("next", 100)]


def test_brokers_that_went_without_mapping_their_queues_are_waited_for_up_to_a_number() -> None:
    cluster = Cluster()
    cluster.register("own", OWN[:2])
    names = [f"b{number}" for number in range(AWAY_MAX + 10)]
    for name in names:
        plain(cluster, int(name[1:]))
    cluster.register("own", [*OWN, at("own", -1, 9)])
    problems = cluster.logical.view("T", now_s=cluster.now_s).problems
    assert len(problems) == AWAY_MAX
    assert all(f"broker {name} is away" in "".join(problems) for name in names[:AWAY_MAX])
    for name in names[:AWAY_MAX]:
        cluster.logical.forget_broker(name, now_s=cluster.now_s)
    assert cluster.logical.view("T", now_s=cluster.now_s).problems == ()


def test_problems_of_very_many_queues_are_few() -> None:
    cluster = Cluster()
    cluster.register("own", None)
    cluster.register("own", OWN, queues=2048)
    problems = cluster.logical.view("T", now_s=cluster.now_s).problems
    assert problems[0] == "queue 2047 of broker own is in no logical queue"
    assert problems[-1] == "more queues of broker own are in no logical queue"
    assert len(problems) == NAMED_MAX + 1
