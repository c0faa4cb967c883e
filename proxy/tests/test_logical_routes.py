"""Logical queues at a name server: what is shown of what brokers report, case by case."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pytest

from lanemq.proxy.nameserver import Registration, RouteTable
from lanemq.proxy.nameserver.logical._registration import LogicalRegistration
from lanemq.proxy.nameserver.logical._route_maker import Asker
from lanemq.proxy.nameserver.logical._routes import LogicalTopics
from lanemq.proxy.nameserver.logical._view import Status
from lanemq.proxy.net._turns import all_steps
from lanemq.testkit.calls import calls_of_this_thread
from lanemq.testkit.segments import at
from lanemq.wire.bodies import DataVersion, RouteData, TopicConfig
from lanemq.wire.logical import (
    LOGICAL_QUEUE_BROKER,
    LOGICAL_QUEUES_MEMBER,
    ClientView,
    GapReport,
    LogicalListenerReport,
    LogicalQueueReport,
    LogicalQueues,
    Segment,
    SegmentState,
    TopicReport,
    check_queues,
)

EXPIRED, READ_ONLY = SegmentState.EXPIRED, SegmentState.READ_ONLY
NORMAL, WRITE_ONLY = SegmentState.NORMAL, SegmentState.WRITE_ONLY
WAIT_S = 35.0


def queues_of(route: RouteData) -> LogicalQueues | None:
    """The logical queues of a route, as a client reads them."""
    return LogicalQueues.of_route(RouteData.decode(route.encode(standard=True)).extra)


@dataclass
class Cluster:
    """A name server, and brokers that register with it."""

    routes: RouteTable = field(default_factory=RouteTable)
    now_s: float = 1000.0
    counter: int = 0
    java: str = "all"

    def __post_init__(self) -> None:
        self.logical = LogicalTopics(self.routes, wait_s=WAIT_S)

    def restart(self) -> None:
        self.routes = RouteTable()
        self.logical = LogicalTopics(self.routes, wait_s=WAIT_S)

    def register(
        self,
        name: str,
        segments: Iterable[Segment] | None = (),
        *,
        queues: int = 2,
        topic: str = "T",
        broker_id: int = 0,
        address: str | None = None,
        report: LogicalQueueReport | None = None,
        lanemq: bool = True,
        whole: bool = True,
        counter: int | None = None,
        compressed: bool = False,
        empty: tuple[int, ...] = (),
        has_topic: bool = True,
        size_bytes: int = 0,
    ) -> None:
        """A broker registers; ``segments`` None is one that knows nothing of logical queues."""
        self.counter += 1
        version = DataVersion(1, self.counter if counter is None else counter)
        address = address or f"{name}:10911"
        was_known = self.routes.is_registered(address)
        topics = [TopicConfig(topic, queues, queues)] if has_topic else []
        if whole:
            topics.append(TopicConfig("TBW102", 8, 8))
        self.routes.register(
            Registration(
                cluster="c",
                broker_name=name,
                broker_id=broker_id,
                address=address,
                data_version=version,
                topics=topics,
            ),
            now_s=self.now_s,
            connection=name,
        )
        maps: dict[str, LogicalQueues] | None = None
        if segments is not None:
            found = LogicalQueues.of(segments)
            for index in empty:
                found = found.put(LogicalQueues.from_json({str(index): []})[index])
            maps = {topic: found} if found else {}
        if lanemq and segments is not None:
            report = report or LogicalQueueReport(topics={topic: TopicReport()})
            report = LogicalQueueReport(whole, report.listener, report.topics)
        self.logical.register(
            LogicalRegistration(
                cluster="c",
                broker_name=name,
                broker_id=broker_id,
                address=address,
                data_version=version,
                topics=[config.topic_name for config in topics],
                queues=maps,
                report=report if lanemq else None,
                sizes=dict.fromkeys(maps or (), size_bytes),
                is_compressed=compressed,
            ),
            now_s=self.now_s,
            connection=name,
            was_known=was_known,
        )

    @property
    def taken_bytes(self) -> int:
        """Return the bytes that logical queues take of their room."""
        return self.logical._topics.room.taken_bytes

    def gone(self, name: str) -> None:
        self.routes.connection_closed(name)

    def ask(self, asker: Asker = Asker.FLAGGED, topic: str = "T") -> RouteData | None:
        physical = self.routes.route(topic)
        assert physical is not None
        return self.logical.route(topic, physical, asker, now_s=self.now_s, serve_to_java=self.java)

    def shown(self) -> dict[int, list[Segment]] | None:
        """The logical queues a client is told that asks for them; None for physical queues."""
        route = self.ask()
        assert route is not None, "not yet"
        queues = queues_of(route)
        if queues is None:
            return None
        assert [f for f in check_queues(queues) if not f.is_gap] == []
        return {
            index: [segment.with_address(None) for segment in chain]
            for index, chain in queues.items()
        }

    def known(self) -> "Cluster":
        """Both brokers have been heard of, without the topic being one of logical queues."""
        for name in ("broker1", "broker2"):
            self.register(name)
        return self


ON_1 = (at("broker1/0", 0), at("broker1/1", 0, index=1))
ON_2 = (at("broker2/0", 0, index=2), at("broker2/1", 0, index=3))
ALL = {0: [ON_1[0]], 1: [ON_1[1]], 2: [ON_2[0]], 3: [ON_2[1]]}
LISTENER = LogicalQueueReport(
    listener=LogicalListenerReport("10.0.0.1:10921", 5), topics={"T": TopicReport()}
)


def mapped() -> Cluster:
    cluster = Cluster().known()
    cluster.register("broker1", ON_1)
    cluster.register("broker2", ON_2)
    return cluster


# Protection of incomplete views


def test_a_topic_is_physical_until_every_broker_of_it_has_mapped_it() -> None:
    cluster = Cluster()
    cluster.register("broker1")
    cluster.register("broker2", None)
    cluster.register("broker1", ON_1)
    assert cluster.shown() is None
    assert cluster.logical.problems() == {"T": ("broker broker2 has not reported logical queues",)}
    assert cluster.logical.take_news() == [
        "topic T: broker broker2 has not reported logical queues"
    ]
    cluster.register("broker2", ON_2)
    assert cluster.shown() == ALL
    assert cluster.logical.take_news() == [
        "topic T: its logical queues are as they should be again"
    ]


def test_a_broker_without_queues_of_the_topic_need_not_map_any() -> None:
    cluster = Cluster().known()
    cluster.register("broker2", None, queues=0)
    cluster.register("broker1", ON_1)
    assert cluster.shown() == {0: [ON_1[0]], 1: [ON_1[1]]}


def test_a_broker_that_goes_before_its_queues_are_mapped_is_waited_for() -> None:
    """A client that looks at logical queues alone loses sight of the messages on it."""
    cluster = Cluster()
    cluster.register("broker1")
    cluster.register("broker2", None)
    cluster.register("broker1", ON_1)
    cluster.logical.take_news()
    cluster.gone("broker2")
    assert cluster.shown() is None
    assert cluster.logical.take_news() == [
        "topic T: broker broker2 is away, and had queues in no logical queue"
    ]
    cluster.register("broker2")
    assert cluster.shown() is None
    cluster.register("broker2", ON_2)
    assert cluster.shown() == ALL


def test_a_broker_that_comes_back_without_the_topic_is_not_waited_for() -> None:
    cluster = Cluster()
    cluster.register("broker1")
    cluster.register("broker2", None)
    cluster.register("broker1", ON_1)
    cluster.gone("broker2")
    cluster.register("broker2", None, has_topic=False)
    assert cluster.shown() == {0: [ON_1[0]], 1: [ON_1[1]]}


def test_a_broker_that_an_operator_has_forgotten_is_not_waited_for() -> None:
    cluster = Cluster()
    cluster.register("broker1")
    cluster.register("broker2", None)
    cluster.register("broker1", ON_1)
    cluster.gone("broker2")
    cluster.logical.forget_broker("broker2", now_s=cluster.now_s)
    assert cluster.shown() == {0: [ON_1[0]], 1: [ON_1[1]]}


def test_mapping_queue_by_queue_shows_all_of_them_or_none() -> None:
    cluster = Cluster().known()
    for step in (
        ("broker1", ON_1[:1]),
        ("broker1", ON_1),
        ("broker2", ON_2[:1]),
    ):
        cluster.register(*step, whole=False)
        assert cluster.shown() is None
    assert cluster.logical.problems()["T"] == ("queue 1 of broker broker2 is in no logical queue",)
    cluster.register("broker2", ON_2, whole=False)
    assert cluster.shown() == ALL


def test_queues_that_are_added_later_are_shown_when_all_are_mapped() -> None:
    cluster = mapped()
    cluster.register("broker1", ON_1, queues=4)
    assert cluster.shown() == ALL
    four, five = at("broker1/2", 0, index=4), at("broker1/3", 0, index=5)
    cluster.register("broker1", (*ON_1, four), queues=4)
    assert cluster.shown() == ALL
    cluster.register("broker1", (*ON_1, four, five), queues=4)
    assert cluster.shown() == {**ALL, 4: [four], 5: [five]}


def test_unmapping_queue_by_queue_shows_all_of_them_or_none() -> None:
    cluster = mapped()
    for step in (("broker1", ON_1[1:]), ("broker1", ()), ("broker2", ON_2[1:])):
        cluster.register(*step)
        assert cluster.shown() == ALL
    cluster.register("broker2")
    assert cluster.shown() is None
    assert cluster.logical.problems() == {}


def test_what_is_shown_takes_room_also_when_its_broker_has_taken_it_back() -> None:
    cluster = mapped()
    cluster.register("broker1", ON_1, size_bytes=1000)
    cluster.register("broker1", ON_1[1:], size_bytes=10)
    assert (cluster.shown(), cluster.taken_bytes) == (ALL, 1000)
    cluster.register("broker1", ())
    assert (cluster.shown(), cluster.taken_bytes) == (ALL, 1000)
    cluster.register("broker1", ON_1, size_bytes=900)
    assert cluster.taken_bytes == 900
    cluster.register("broker1")
    cluster.register("broker2")
    assert (cluster.shown(), cluster.taken_bytes) == (None, 0)


def test_a_topic_can_become_physical_for_good_and_logical_again() -> None:
    cluster = mapped()
    cluster.register("broker1")
    cluster.register("broker2")
    cluster.register("broker1", ON_1[:1])
    assert cluster.shown() is None, "nothing of the former queues counts"


def test_a_queue_that_moved_to_another_logical_queue_is_in_that_only() -> None:
    cluster = mapped()
    moved = at("broker1/0", 0, index=4)
    cluster.register("broker1", (moved, ON_1[1]))
    assert cluster.shown() == {1: [ON_1[1]], 2: [ON_2[0]], 3: [ON_2[1]], 4: [moved]}


def test_empty_indices_are_not_shown() -> None:
    cluster = Cluster().known()
    cluster.register("broker1", ON_1, empty=(2, 3))
    cluster.register("broker2", ON_2, empty=(0, 1, 9))
    assert cluster.shown() == ALL


def test_segments_of_other_brokers_in_a_report_do_not_count() -> None:
    cluster = Cluster().known()
    copy = at("broker2/7", 500, index=0)
    cluster.register("broker1", (*ON_1, copy))
    cluster.register("broker2", ON_2)
    assert cluster.shown() == ALL


# Migrations


def test_a_destination_is_hidden_while_the_source_is_there() -> None:
    cluster = mapped()
    to = at("broker2/2", -1, state=WRITE_ONLY)
    cluster.register("broker2", (*ON_2, to), queues=3)
    assert cluster.shown() == ALL
    cluster.gone("broker1")
    assert cluster.shown() == {**ALL, 0: [ON_1[0], to]}
    cluster.register("broker1", ON_1)
    assert cluster.shown() == ALL


def test_a_migration_is_shown_in_whatever_order_it_is_reported() -> None:
    sealed = (at("broker1/0", 0, 0, 101), ON_1[1])
    to, committed = at("broker2/2", -1, state=WRITE_ONLY), at("broker2/2", 101)

    cluster = mapped()
    cluster.register("broker2", (*ON_2, to), queues=3)
    cluster.register("broker1", sealed)
    assert cluster.shown() == {**ALL, 0: [sealed[0], to]}
    cluster.register("broker2", (*ON_2, committed), queues=3)
    assert cluster.shown() == {**ALL, 0: [sealed[0], committed]}

    cluster = mapped()
    cluster.register("broker2", (*ON_2, to), queues=3)
    cluster.register("broker2", (*ON_2, committed), queues=3)
    shown = cluster.shown()
    assert shown is not None
    first, last = shown[0]
    assert (first.state, first.offset_max, last) == (READ_ONLY, 101, committed)
    cluster.register("broker1", sealed)
    assert cluster.shown() == {**ALL, 0: [sealed[0], committed]}


def test_an_empty_queue_that_migrates_never_has_two_open_ends() -> None:
    cluster = mapped()
    committed = at("broker2/2", 0)
    cluster.register("broker2", (*ON_2, committed), queues=3)
    assert cluster.shown() == ALL, "both begin at 0: which one was first is not known"
    sealed = at("broker1/0", 0, 0, 0, EXPIRED)
    cluster.register("broker1", (sealed, ON_1[1]))
    assert cluster.shown() == {**ALL, 0: [sealed, committed]}


def test_a_hole_is_not_shown_while_the_report_that_fills_it_may_come() -> None:
    cluster = mapped()
    sealed = (at("broker1/0", 0, 0, 101), ON_1[1])
    cluster.register("broker1", sealed)
    again = (*sealed, at("broker1/2", 201))
    cluster.register("broker1", again, queues=3)
    assert cluster.shown() == {**ALL, 0: [sealed[0]]}
    problems = cluster.logical.problems()["T"]
    assert problems[0].startswith("logical queue 0: nobody has reported what is between")
    middle = at("broker2/2", 101, 0, 100)
    cluster.register("broker2", (*ON_2, middle), queues=3)
    assert cluster.shown() == {**ALL, 0: [sealed[0], middle, again[2]]}


def test_a_middle_segment_that_its_broker_gives_up_leaves_a_hole_that_is_shown() -> None:
    cluster = mapped()
    chain = at("broker1/0", 0, 0, 101), at("broker2/2", 101, 0, 100), at("broker1/2", 201)
    cluster.register("broker1", (chain[0], ON_1[1], chain[2]), queues=3)
    cluster.register("broker2", (*ON_2, chain[1]), queues=3)
    assert cluster.shown() == {**ALL, 0: list(chain)}
    cluster.register("broker2", ON_2, queues=3)
    assert cluster.shown() == {**ALL, 0: [chain[0], chain[2]]}


def test_segments_at_the_head_are_swept_and_their_queue_need_not_be_mapped_again() -> None:
    cluster = mapped()
    sealed, tail = at("broker1/0", 0, 0, 101, EXPIRED), at("broker2/2", 101)
    cluster.register("broker1", (sealed, ON_1[1]))
    cluster.register("broker2", (*ON_2, tail), queues=3)
    cluster.register("broker1", ON_1[1:])
    assert cluster.shown() == {**ALL, 0: [tail]}
    assert cluster.logical.problems() == {}


def test_a_forced_delta_shows_the_lost_source_as_sealed() -> None:
    cluster = mapped()
    cluster.gone("broker1")
    to = at("broker2/2", -1, state=WRITE_ONLY)
    cluster.register("broker2", (*ON_2, to), queues=3)
    cluster.register("broker2", (*ON_2, at("broker2/2", 200)), queues=3)
    shown = cluster.shown()
    assert shown is not None
    first, last = shown[0]
    assert (first.state, first.offset_max) == (READ_ONLY, 200)
    assert (last.state, last.delta) == (NORMAL, 200)


def test_a_source_that_comes_back_shorter_leaves_a_hole_that_is_shown() -> None:
    for is_lanemq in (True, False):
        cluster = mapped()
        cluster.gone("broker1")
        gaps = LogicalQueueReport(topics={"T": TopicReport(gaps=(GapReport(0, 150, 200),))})
        to = at("broker2/2", 200)
        cluster.register("broker2", (*ON_2, to), queues=3, lanemq=is_lanemq)
        cluster.register("broker1", ON_1)
        shown = cluster.shown()
        assert shown is not None
        assert shown[0][-1] == to, "the source does not know yet that it was superseded"
        sealed = at("broker1/0", 0, 0, 150)
        cluster.register("broker1", (sealed, ON_1[1]), report=gaps, lanemq=is_lanemq)
        assert cluster.shown() == {**ALL, 0: [sealed, to]}


def test_a_delta_forced_behind_a_sealed_source_is_shown_if_its_broker_says_so() -> None:
    cluster = mapped()
    sealed = at("broker1/0", 0, 0, 150)
    cluster.register("broker1", (sealed, ON_1[1]))
    cluster.register("broker2", (*ON_2, at("broker2/2", -1, state=WRITE_ONLY)), queues=3)
    before = cluster.shown()
    segments = (*ON_2, at("broker2/2", 200))
    cluster.register("broker2", segments, queues=3)
    assert cluster.shown() == {**ALL, 0: [sealed]} != before
    gaps = TopicReport(gaps=(GapReport(0, 150, 200),))
    cluster.register("broker2", segments, queues=3, report=LogicalQueueReport(topics={"T": gaps}))
    assert cluster.shown() == {**ALL, 0: [sealed, segments[2]]}


def test_a_delta_below_what_is_known_is_not_shown() -> None:
    cluster = mapped()
    sealed = at("broker1/0", 0, 0, 150)
    cluster.register("broker1", (sealed, ON_1[1]))
    before = cluster.shown()
    cluster.register("broker2", (*ON_2, at("broker2/2", 100)), queues=3)
    assert cluster.shown() == before
    assert "overlaps" in cluster.logical.problems()["T"][0]


def test_two_destinations_are_shown_as_one_and_told_of() -> None:
    cluster = mapped()
    cluster.gone("broker1")
    cluster.register("broker2", (*ON_2, at("broker2/2", -1, state=WRITE_ONLY)), queues=3)
    cluster.register("broker3", (at("broker3/0", -1, state=WRITE_ONLY),), queues=1)
    assert cluster.shown() == {**ALL, 0: [ON_1[0], at("broker2/2", -1, state=WRITE_ONLY)]}
    assert "destinations" in cluster.logical.problems()["T"][0]


def test_a_queue_that_is_used_again_while_it_is_read_is_shown() -> None:
    cluster = mapped()
    chain = at("broker1/0", 0, 0, 101), at("broker2/2", 101, 0, 100), at("broker1/0", 201, 101)
    cluster.register("broker2", (*ON_2, chain[1]), queues=3)
    cluster.register("broker1", (chain[0], ON_1[1], chain[2]))
    assert cluster.shown() == {**ALL, 0: list(chain)}


def test_segments_at_odds_on_one_queue_are_not_shown() -> None:
    cluster = mapped()
    cluster.register("broker1", (*ON_1, at("broker1/0", 0, 50, index=4)))
    assert cluster.shown() == ALL
    assert "at odds" in cluster.logical.problems()["T"][0]


# Brokers come and go


def test_a_broker_that_is_gone_leaves_its_segments_until_it_says_otherwise() -> None:
    cluster = mapped()
    for name, segments in (("broker1", ON_1), ("broker2", ON_2)):
        cluster.gone(name)
        assert cluster.shown() == ALL
        cluster.register(name, segments)
        assert cluster.shown() == ALL
    cluster.gone("broker1")
    cluster.register("broker1", ON_1[1:])
    assert cluster.shown() == ALL, "queue 0 is to be mapped again"


def test_a_name_server_that_starts_shows_nothing_in_part() -> None:
    cluster = mapped()
    cluster.restart()
    cluster.register("broker1", ON_1)
    assert cluster.ask() is None
    cluster.now_s += WAIT_S - 1
    cluster.register("broker2", ON_2)
    assert cluster.ask() is None, "there may be a third"
    cluster.now_s += 1
    assert cluster.shown() == ALL


def test_after_the_wait_a_name_server_takes_chains_and_queues_as_it_finds_them() -> None:
    cluster = Cluster()
    # The head was on a broker that is gone, and queue 0 was swept.
    tail = at("broker1/1", 101)
    middle, last = at("broker2/0", 7, 0, 7, index=1), at("broker2/1", 20, index=1)
    cluster.register("broker1", (tail,))
    cluster.register("broker2", (middle, last))
    assert cluster.ask() is None
    cluster.now_s += WAIT_S
    assert cluster.shown() == {0: [tail], 1: [middle, last]}


def test_a_topic_that_is_mapped_under_its_eyes_needs_no_wait() -> None:
    cluster = mapped()
    cluster.gone("broker1")
    cluster.gone("broker2")
    cluster.register("broker1", ON_1)
    assert cluster.shown() == ALL


def test_an_operator_can_have_a_broker_forgotten() -> None:
    cluster = mapped()
    chain = at("broker1/0", 0, 0, 101), at("broker2/2", 101)
    cluster.register("broker1", (chain[0], ON_1[1]))
    cluster.register("broker2", (*ON_2, chain[1]), queues=3)
    cluster.gone("broker1")
    cluster.logical.forget_broker("broker1", now_s=cluster.now_s)
    assert cluster.shown() == {0: [chain[1]], 2: [ON_2[0]], 3: [ON_2[1]]}


def test_a_broker_that_goes_back_to_a_version_without_logical_queues_has_none() -> None:
    cluster = mapped()
    cluster.register("broker1", None, lanemq=False)
    cluster.register("broker2", None, lanemq=False)
    assert cluster.shown() is None


def test_a_topic_that_was_deleted_leaves_no_trace() -> None:
    cluster = mapped()
    cluster.routes.delete_topic("T")
    all_steps(cluster.logical.delete_topic("T", cluster=None, now_s=cluster.now_s))
    cluster.register("broker1")
    assert cluster.shown() is None
    assert cluster.logical.problems() == {}
    cluster.register("broker1", ON_1)
    assert cluster.shown() == {0: [ON_1[0]], 1: [ON_1[1]]}


def test_a_topic_that_brokers_delete_is_forgotten_with_their_whole_registration() -> None:
    cluster = mapped()
    for name in ("broker1", "broker2"):
        cluster.register(name, (), has_topic=False)
    cluster.routes.delete_topic("T")
    for name in ("broker1", "broker2"):
        cluster.register(name)
    assert cluster.shown() is None


def test_a_topic_that_is_deleted_in_another_cluster_stays() -> None:
    cluster = mapped()
    all_steps(cluster.logical.delete_topic("T", cluster="elsewhere", now_s=cluster.now_s))
    assert cluster.shown() == ALL


def test_a_change_of_one_topic_says_nothing_of_others() -> None:
    cluster = mapped()
    cluster.register("broker1", (), topic="U", whole=False)
    assert cluster.shown() == ALL
    # 5.0.0-PREVIEW does not say that it is a part: it has a single topic.
    cluster.register("broker1", None, topic="U", whole=False, lanemq=False)
    assert cluster.shown() == ALL


def test_a_change_of_5_0_0_preview_that_lacks_the_map_takes_the_topic_out() -> None:
    cluster = Cluster().known()
    for name, segments in (("broker1", ON_1), ("broker2", ON_2)):
        cluster.register(name, segments, lanemq=False)
    assert cluster.shown() == ALL
    for name in ("broker1", "broker2"):
        cluster.register(name, None, whole=False, lanemq=False)
    assert cluster.shown() is None


def test_a_compressed_registration_takes_nothing_away_and_is_put_right_by_a_whole_one() -> None:
    cluster = mapped()
    later = (at("broker1/0", 0, 0, 5), ON_1[1])
    cluster.register("broker1", None, compressed=True, counter=50, lanemq=False)
    assert cluster.shown() == ALL
    assert "compressed" in cluster.logical.take_news()[-1]
    cluster.register("broker1", later, counter=50)
    cluster.register("broker2", (*ON_2, at("broker2/2", 5)), queues=3)
    assert cluster.shown() == {**ALL, 0: [later[0], at("broker2/2", 5)]}


def test_a_registration_that_was_overtaken_is_passed_over() -> None:
    cluster = mapped()
    sealed = (at("broker1/0", 0, 0, 5), ON_1[1])
    cluster.register("broker1", sealed, counter=90)
    cluster.register("broker1", ON_1, counter=89)
    assert cluster.shown() == {**ALL, 0: [sealed[0]]}
    cluster.gone("broker1")
    cluster.register("broker1", ON_1, counter=3)
    assert cluster.shown() == ALL, "a broker that starts again may count from the beginning"


def test_what_is_registered_with_a_known_version_is_no_news() -> None:
    cluster = mapped()
    cluster.register("broker1", ON_1, counter=70)
    all_steps(cluster.logical.delete_topic("T", cluster=None, now_s=cluster.now_s))
    cluster.register("broker1", ON_1, counter=70)
    assert cluster.shown() is None


def test_segments_have_the_address_that_their_broker_has_now() -> None:
    cluster = mapped()
    cluster.register("broker1", None, broker_id=1, address="slave:1", lanemq=False)
    cluster.gone("broker1")
    cluster.register("broker1", ON_1, address="promoted:1")
    route = cluster.ask()
    assert route is not None
    queues = queues_of(route)
    assert queues is not None
    assert {segment.broker_address for segment in queues.segments} == {
        "promoted:1",
        "broker2:10911",
    }


def test_a_slave_reports_no_segments() -> None:
    cluster = mapped()
    cluster.register("broker1", (), broker_id=1, address="slave:1")
    assert cluster.shown() == ALL


# Kinds of clients


def fake_queues(cluster: Cluster) -> tuple[int, int, dict[int, str]] | None:
    """The route of an old client: queues to read, to write, addresses; None if physical."""
    route = cluster.ask(Asker.OLD)
    assert route is not None
    assert LOGICAL_QUEUES_MEMBER not in route.extra
    if route.queue_datas[0].broker_name != LOGICAL_QUEUE_BROKER:
        return None
    (data,), (broker,) = route.queue_datas, route.broker_datas
    assert (data.perm, broker.broker_name, broker.cluster) == (6, LOGICAL_QUEUE_BROKER, "c")
    return data.read_queue_nums, data.write_queue_nums, dict(broker.broker_addrs)


def translated() -> Cluster:
    cluster = Cluster().known()
    cluster.register("broker1", ON_1, report=LISTENER)
    cluster.register("broker2", ON_2)
    return cluster


def test_old_clients_see_physical_queues_while_nobody_translates() -> None:
    assert fake_queues(mapped()) is None


def test_old_clients_see_one_broker_with_all_logical_queues() -> None:
    assert fake_queues(translated()) == (4, 4, {0: "10.0.0.1:10921"})


def test_old_clients_see_the_same_queues_throughout_a_migration() -> None:
    cluster = translated()
    before = fake_queues(cluster)
    to = at("broker2/2", -1, state=WRITE_ONLY)
    sealed = (at("broker1/0", 0, 0, 101), ON_1[1])
    cluster.register("broker1", sealed, report=LISTENER)
    assert fake_queues(cluster) == before
    cluster.register("broker2", (*ON_2, to), queues=3)
    assert fake_queues(cluster) == before
    cluster.register("broker2", (*ON_2, at("broker2/2", 101)), queues=3)
    assert fake_queues(cluster) == before
    cluster.gone("broker2")
    assert fake_queues(cluster) == before


def test_old_clients_stop_writing_to_last_queues_that_are_sealed_for_good() -> None:
    cluster = translated()
    cluster.register("broker2", (ON_2[0], at("broker2/1", 0, 0, 9, index=3)))
    assert fake_queues(cluster) == (4, 4, {0: "10.0.0.1:10921"})
    cluster.now_s += WAIT_S
    assert fake_queues(cluster) == (4, 3, {0: "10.0.0.1:10921"})
    cluster.register("broker2", ON_2)
    assert fake_queues(cluster) == (4, 4, {0: "10.0.0.1:10921"})


def test_a_topic_may_be_set_to_the_physical_view() -> None:
    cluster = translated()
    physical = TopicReport(client_view=ClientView.PHYSICAL)
    cluster.register("broker2", ON_2, report=LogicalQueueReport(topics={"T": physical}))
    assert fake_queues(cluster) is None
    assert cluster.shown() == ALL


def test_when_a_listener_is_lost_the_next_oldest_is_named() -> None:
    cluster = translated()
    younger = LogicalQueueReport(
        listener=LogicalListenerReport("10.0.0.2:10921", 9), topics={"T": TopicReport()}
    )
    cluster.register("broker2", ON_2, report=younger)
    assert fake_queues(cluster) == (4, 4, {0: "10.0.0.1:10921"})
    cluster.gone("broker1")
    assert fake_queues(cluster) == (4, 4, {0: "10.0.0.2:10921"})
    again = LogicalQueueReport(
        listener=LogicalListenerReport("10.0.0.1:10921", 20), topics={"T": TopicReport()}
    )
    cluster.register("broker1", ON_1, report=again)
    assert fake_queues(cluster) == (4, 4, {0: "10.0.0.2:10921"}), "clients move once only"


def test_while_the_only_listener_is_away_clients_are_not_shown_physical_queues() -> None:
    cluster = translated()
    cluster.gone("broker1")
    assert fake_queues(cluster) == (4, 4, {0: "10.0.0.1:10921"})
    cluster.register("broker1", ON_1)
    assert fake_queues(cluster) is None, "it came back without one"


def test_after_a_start_old_clients_are_shown_neither_a_part_nor_physical_queues() -> None:
    cluster = translated()
    cluster.restart()
    cluster.register("broker2", ON_2)
    assert cluster.ask(Asker.OLD) is None
    cluster.register("broker1", ON_1, report=LISTENER)
    assert cluster.ask(Asker.OLD) is None
    cluster.now_s += WAIT_S
    assert fake_queues(cluster) == (4, 4, {0: "10.0.0.1:10921"})


def test_after_a_start_old_clients_of_5_0_0_preview_brokers_see_what_there_is() -> None:
    cluster = Cluster()
    cluster.register("broker1", ON_1, lanemq=False)
    assert fake_queues(cluster) is None


def test_clients_with_the_flag_get_the_listener_as_one_broker_more() -> None:
    cluster = translated()
    route = cluster.ask()
    assert route is not None
    assert [data.broker_name for data in route.broker_datas] == [
        "broker1",
        "broker2",
        LOGICAL_QUEUE_BROKER,
    ]
    assert route.broker_datas[2].broker_addrs == {0: "10.0.0.1:10921"}
    assert [data.broker_name for data in route.queue_datas] == ["broker1", "broker2"]
    assert LOGICAL_QUEUE_BROKER not in cluster.routes.cluster_info().broker_addr_table


def test_java_clients_are_told_of_the_topics_that_the_switch_names() -> None:
    cluster = translated()

    def is_told(asker: Asker) -> bool:
        route = cluster.ask(asker)
        assert route is not None
        has_broker = any(d.broker_name == LOGICAL_QUEUE_BROKER for d in route.broker_datas)
        assert has_broker == (LOGICAL_QUEUES_MEMBER in route.extra)
        return has_broker

    for setting, told in (("all", True), ("none", False), ("S,T", True), ("S", False)):
        cluster.java = setting
        assert is_told(Asker.FLAGGED_JAVA) is told
        assert is_told(Asker.FLAGGED), "others understand"
    cluster.java = "all"
    withheld = TopicReport(serve_to_java=False)
    cluster.register("broker2", ON_2, report=LogicalQueueReport(topics={"T": withheld}))
    assert not is_told(Asker.FLAGGED_JAVA)
    assert is_told(Asker.FLAGGED)


def test_clients_of_preview_find_a_segment_for_each_time() -> None:
    """They search the last one for what is in the times of none; others are told the true times."""
    cluster = Cluster().known()
    times = {"broker1/0": (800, 1000), "broker2/0": (2000, 2100)}
    sealed = [
        replace(segment, first_time_ms=times[place][0], last_time_ms=times[place][1])
        for place, segment in (
            ("broker1/0", at("broker1/0", 0, 0, 3)),
            ("broker2/0", at("broker2/0", 3, 0, 2)),
        )
    ]
    cluster.register("broker1", [sealed[0], at("broker1/1", 5)])
    cluster.register("broker2", [sealed[1], at("broker2/1", 0, index=1)])

    def told(asker: Asker) -> list[tuple[int, int]]:
        route = cluster.ask(asker)
        queues = queues_of(route) if route is not None else None
        assert queues is not None
        return [(segment.first_time_ms, segment.last_time_ms) for segment in queues[0]]

    assert told(Asker.FLAGGED) == [(800, 1000), (2000, 2100), (-1, -1)]
    assert told(Asker.FLAGGED_JAVA) == [(0, 1000), (1001, 2100), (-1, -1)]


def test_a_topic_without_logical_queues_is_what_it_always_was() -> None:
    cluster = translated()
    for asker in Asker:
        assert cluster.ask(asker, "TBW102") == cluster.routes.route("TBW102")
    assert cluster.logical.view("TBW102", now_s=0).status is Status.PLAIN


@pytest.mark.parametrize("state", [NORMAL, READ_ONLY])
@pytest.mark.parametrize("asker", Asker)
def test_a_route_takes_no_more_calls_for_more_logical_queues_once_it_is_made(
    asker: Asker, state: SegmentState
) -> None:
    """They are looked at once for a view, and beside the loop where there are many."""
    counts: list[int] = []
    for many in (300, 900):
        cluster = Cluster()
        end = 5 if state is READ_ONLY else -1
        segments = [at(f"broker1/{i}", 0, 0, end, state, index=i) for i in range(many)]
        cluster.register("broker1", segments, queues=many, report=LISTENER)
        cluster.now_s += WAIT_S
        assert cluster.logical.is_long("T", asker, now_s=cluster.now_s)
        steps = cluster.logical.view_in_steps("T", asker, now_s=cluster.now_s)
        with calls_of_this_thread() as made:
            view = all_steps(steps)
        assert made.count > many
        assert not cluster.logical.is_long("T", asker, now_s=cluster.now_s)
        with calls_of_this_thread() as calls:
            route = cluster.ask(asker)
        assert route is not None
        assert len(view.queues) == many
        counts.append(calls.count)
    assert counts[1] <= counts[0] + 20, counts
