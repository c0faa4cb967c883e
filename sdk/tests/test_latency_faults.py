"""Brokers that were slow or failed are left aside, for as long as Java's table says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from trio.testing import MockClock

from lanemq.sdk import Message, MessageQueue, ProducerOptions, RefusedByBroker
from lanemq.sdk.net._latency_faults import JAVA_PAUSES, LatencyFaults
from lanemq.sdk.producer._queue_chooser import QueueChooser
from lanemq.testkit.sdk.clients import producer_of
from lanemq.testkit.sdk.cluster import FakeCluster
from lanemq.wire import RequestCode

SEND = RequestCode.SEND_MESSAGE_V2
NAMES = ("a", "b", "c", "d")
TIMES = st.floats(0, 1e6, allow_nan=False)


@pytest.mark.parametrize(
    ("latency_s", "pause_s"),
    [(0, 0), (0.05, 0), (0.549, 0), (0.55, 30), (1, 60), (2, 120), (3, 180), (14, 180), (15, 600)],
)
def test_the_slower_a_broker_was_the_longer_it_is_left_aside(
    latency_s: float, pause_s: float
) -> None:
    faults = LatencyFaults()
    faults.record("a", latency_s, 100)
    assert faults.is_available("a", 100 + pause_s)
    assert pause_s == 0 or not faults.is_available("a", 100 + pause_s - 0.001)


def test_a_failure_counts_as_thirty_seconds() -> None:
    faults = LatencyFaults()
    faults.record_failure("a", 0.001, 0)
    assert not faults.is_available("a", 599)
    assert faults.is_available("a", 600)


@given(latencies=st.lists(TIMES, min_size=2))
def test_pauses_never_shrink_as_latency_grows(latencies: list[float]) -> None:
    faults = LatencyFaults()
    pauses = [faults.pause_s(latency) for latency in sorted(latencies)]
    assert pauses == sorted(pauses)


@given(
    known=st.dictionaries(st.sampled_from(NAMES), st.tuples(TIMES, TIMES, st.booleans())),
    now_s=TIMES,
    names=st.lists(st.sampled_from(NAMES), min_size=1, unique=True),
)
def test_there_is_always_a_broker_to_send_to(
    known: dict[str, tuple[float, float, bool]], now_s: float, names: list[str]
) -> None:
    faults = LatencyFaults()
    for name, (latency_s, at_s, failed) in known.items():
        (faults.record_failure if failed else faults.record)(name, latency_s, at_s)
    queues = tuple(MessageQueue("T", name, n) for name in sorted(names) for n in range(2))
    available = {name for name in names if faults.is_available(name, now_s)}
    chooser = QueueChooser()
    for _ in range(10):
        chosen = chooser.choose_available(queues, faults, now_s)
        assert chosen in queues
        assert not available or chosen.broker_name in available


class Model(RuleBasedStateMachine):
    """A broker is available iff the pause of its last send is over."""

    def __init__(self) -> None:
        super().__init__()
        self.faults, self.now_s = LatencyFaults(), 0.0
        self.back_s: dict[str, float] = {}

    @rule(name=st.sampled_from(NAMES), latency_s=st.sampled_from([0.01, 0.6, 1.5, 20]))
    def succeed(self, name: str, latency_s: float) -> None:
        self.faults.record(name, latency_s, self.now_s)
        self.back_s[name] = self.now_s + {0.01: 0, 0.6: 30, 1.5: 60, 20: 600}[latency_s]

    @rule(name=st.sampled_from(NAMES))
    def fail(self, name: str) -> None:
        self.faults.record_failure(name, 0.01, self.now_s)
        self.back_s[name] = self.now_s + 600

    @rule(seconds=st.sampled_from([1.0, 29.0, 61.0, 700.0]))
    def wait(self, seconds: float) -> None:
        self.now_s += seconds

    @invariant()
    def availability_is_what_the_pauses_say(self) -> None:
        for name in NAMES:
            expected = self.now_s >= self.back_s.get(name, 0)
            assert self.faults.is_available(name, self.now_s) == expected


TestModel = Model.TestCase


def test_pauses_of_ones_own_must_ascend() -> None:
    assert ProducerOptions(slow_broker_pauses=((0.1, 1), (0.2, 2))).slow_broker_pauses
    with pytest.raises(ValueError, match="slow_broker_pauses"):
        ProducerOptions(slow_broker_pauses=tuple(reversed(JAVA_PAUSES)))


async def test_a_broker_that_failed_gets_nothing_for_ten_minutes(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    bad = cluster.add_broker()
    cluster.create_topic("T", 2)
    bad.refuse(SEND, 1)
    options = ProducerOptions(avoid_slow_brokers=True)
    async with producer_of(cluster, options) as producer:
        message = Message(topic="T", body=b"x")
        for _ in range(40):
            await producer.send(message)
        assert bad.count(SEND) == 1
        assert cluster.broker.count(SEND) == 40
        autojump_clock.jump(600)
        for _ in range(40):
            await producer.send(message)
        assert bad.count(SEND) == 21
        cluster.broker.refuse(SEND, 1, 1, 1, 1, 1, 1)
        bad.refuse(SEND, 1, 1, 1, 1, 1, 1)
        with pytest.raises(RefusedByBroker):  # all are bad: it is tried all the same
            await producer.send(message)
