"""Whatever order reports come in, nobody is shown a hole or two open ends.

A model of brokers migrates logical queues, rightly but in any order; their reports reach the
name server late, and name server and connections come and go.
"""

from collections import defaultdict, deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lanemq.proxy.nameserver import Registration, RouteTable
from lanemq.proxy.nameserver.logical._registration import LogicalRegistration
from lanemq.proxy.nameserver.logical._route_maker import Asker
from lanemq.proxy.nameserver.logical._routes import LogicalTopics
from lanemq.wire.bodies import DataVersion, MessageQueue, RouteData, TopicConfig
from lanemq.wire.logical import (
    LOGICAL_QUEUE_BROKER,
    Chain,
    LogicalListenerReport,
    LogicalQueueReport,
    LogicalQueues,
    Segment,
    SegmentKey,
    SegmentState,
    TopicReport,
    check_queues,
)

BROKERS = ("b0", "b1", "b2")
QUEUES_EACH = 1
INDICES = range(len(BROKERS) * QUEUES_EACH)
WAIT_S = 30.0
WHICH = st.sampled_from(BROKERS)
INDEX = st.sampled_from(INDICES)


class Reports(RuleBasedStateMachine):
    """``chains`` is the truth; ``inbox`` what of it is on its way to the name server."""

    def __init__(self) -> None:
        super().__init__()
        self.chains = {index: Chain(index) for index in INDICES}
        self.queue_counts = dict.fromkeys(BROKERS, QUEUES_EACH)
        self.ends: dict[tuple[str, int], int] = defaultdict(int)
        self.deltas: dict[SegmentKey, set[int]] = defaultdict(set)
        self.maxima: dict[SegmentKey, set[int]] = defaultdict(set)
        self.counters = dict.fromkeys(BROKERS, 0)
        self.inbox: dict[str, deque[LogicalRegistration]] = {b: deque() for b in BROKERS}
        self.connected = set(BROKERS)
        self.now_s = 0.0
        self.has_been_shown = False
        self.counts: dict[str, int] = {}
        self.mapped: set[str] = set()
        self._start()
        for broker in BROKERS:  # all are known before the first queue is mapped
            self._report(broker)
            self.deliver(broker)
        for index in INDICES:
            broker = BROKERS[index // QUEUES_EACH]
            queue = MessageQueue("T", broker, index % QUEUES_EACH)
            self._put(Segment(queue, index, 0))

    # The name server

    def _start(self) -> None:
        self.routes = RouteTable()
        self.logical = LogicalTopics(self.routes, wait_s=WAIT_S)

    def _report(self, broker: str) -> None:
        self.counters[broker] += 1
        self.counts[broker] = self.queue_counts[broker]
        self.inbox[broker].append(self._registration(broker))

    def _registration(self, broker: str) -> LogicalRegistration:
        if any(s.broker_name == broker for chain in self.chains.values() for s in chain):
            self.mapped.add(broker)
        own = LogicalQueues(self.chains.values()).of_broker(broker)
        listener = LogicalListenerReport(f"{broker}:10921", BROKERS.index(broker))
        return LogicalRegistration(
            cluster="c",
            broker_name=broker,
            broker_id=0,
            address=f"{broker}:10911",
            data_version=DataVersion(1, self.counters[broker]),
            topics=["T"],
            queues={"T": own} if broker in self.mapped else {},
            report=LogicalQueueReport(listener=listener, topics={"T": TopicReport()}),
        )

    def _register(self, said: LogicalRegistration) -> None:
        was_known = self.routes.is_registered(said.address)
        count = self.counts[said.broker_name]
        self.routes.register(
            Registration(
                cluster="c",
                broker_name=said.broker_name,
                broker_id=0,
                address=said.address,
                data_version=said.data_version,
                topics=[TopicConfig("T", count, count)],
            ),
            now_s=self.now_s,
            connection=said.broker_name,
        )
        self.logical.register(
            said, now_s=self.now_s, connection=said.broker_name, was_known=was_known
        )

    @rule(broker=WHICH, count=st.integers(1, 6))
    def deliver(self, broker: str, count: int = 1) -> None:
        for _ in range(count):
            self._deliver_one(broker)

    def _deliver_one(self, broker: str) -> None:
        if broker in self.connected and self.inbox[broker]:
            self._register(self.inbox[broker].popleft())

    @rule()
    def deliver_everything(self) -> None:
        for broker in BROKERS:
            self.deliver(broker, len(self.inbox[broker]))

    @precondition(lambda self: self.has_been_shown)
    @rule(broker=WHICH)
    def disconnect(self, broker: str) -> None:
        self.connected.discard(broker)
        self.inbox[broker].clear()
        self.routes.connection_closed(broker)

    @rule(broker=WHICH)
    def connect(self, broker: str) -> None:
        if broker not in self.connected:
            self.connected.add(broker)
            self._report(broker)
            self.deliver(broker)

    @precondition(lambda self: self.has_been_shown)
    @rule(order=st.permutations(BROKERS), silent=WHICH)
    def restart(self, order: list[str], silent: str) -> None:
        self._start()
        for broker in order:
            self.inbox[broker].clear()
            self.connected.discard(broker)
            if broker != silent:
                self.connect(broker)

    @rule(seconds=st.sampled_from([1.0, WAIT_S]))
    def wait(self, seconds: float) -> None:
        if len(self.connected) == len(BROKERS):  # whoever is silent longer is not waited for
            self.now_s += seconds

    # The brokers

    def _put(self, segment: Segment) -> None:
        self.chains[segment.logical_index] = self.chains[segment.logical_index].put(segment)
        if segment.delta >= 0:
            self.deltas[segment.key].add(segment.delta)
        if segment.is_sealed:
            self.maxima[segment.key].add(segment.offset_max)
        self._report(segment.broker_name)

    @rule(index=INDEX, count=st.integers(1, 5))
    def send(self, index: int, count: int) -> None:
        segment = self.chains[index].writable
        if segment is not None:
            self.ends[segment.broker_name, segment.queue_id] += count

    @precondition(lambda self: self.has_been_shown)
    @rule(index=INDEX, broker=WHICH, reuse=st.booleans())
    def begin(self, index: int, broker: str, reuse: bool) -> None:
        if self.chains[index].write_only is not None:
            return
        used = {
            segment.queue_id
            for chain in self.chains.values()
            for segment in chain
            if segment.broker_name == broker and segment.state is not SegmentState.EXPIRED
        }
        free = [queue_id for queue_id in range(self.queue_counts[broker]) if queue_id not in used]
        if reuse and free:
            queue_id = free[0]
        else:
            queue_id = self.queue_counts[broker]
            self.queue_counts[broker] += 1
        begin = self.ends[broker, queue_id]
        key = SegmentKey("T", broker, queue_id, begin)
        for other in list(self.chains.values()):  # one that was sealed empty makes room
            if (old := other.find(key)) is not None:
                if len(other) == 1 or old is other[-1]:
                    return
                self.chains[other.index] = other.remove(old.key)
        queue = MessageQueue("T", broker, queue_id)
        self._put(Segment(queue, index, -1, SegmentState.WRITE_ONLY, begin))

    @rule(index=INDEX)
    def prepare(self, index: int) -> None:
        chain = self.chains[index]
        source = chain.normal
        if chain.write_only is not None and source is not None:
            self._put(source.sealed(self.ends[source.broker_name, source.queue_id]))

    @rule(index=INDEX)
    def commit(self, index: int) -> None:
        chain = self.chains[index]
        to = chain.write_only
        if to is not None and chain.normal is None:
            self._put(to.with_delta(chain.known_end).with_state(SegmentState.NORMAL))

    @precondition(lambda self: self.has_been_shown)
    @rule(index=INDEX, broker=WHICH, reuse=st.booleans(), count=st.integers(0, 5))
    def migrate(self, index: int, broker: str, reuse: bool, count: int) -> None:
        self.begin(index, broker, reuse)
        self.prepare(index)
        self.commit(index)
        self.send(index, count)

    @rule(index=INDEX, sweep=st.booleans())
    def clean(self, index: int, sweep: bool) -> None:
        chain = self.chains[index]
        oldest = next((s for s in chain if s.state is SegmentState.READ_ONLY), None)
        if oldest is not None:
            self._put(oldest.with_state(SegmentState.EXPIRED))
        chain = self.chains[index]
        if sweep and len(chain) > 1 and chain[0].state is SegmentState.EXPIRED:
            self.chains[index] = chain.remove(chain[0].key)
            self._report(chain[0].broker_name)

    # What clients see

    @invariant()
    def the_truth_is_in_order(self) -> None:
        findings = check_queues(LogicalQueues(self.chains.values()))
        assert [str(f) for f in findings if not f.is_gap] == []

    @invariant()
    def clients_see_whole_chains_or_nothing(self) -> None:
        physical = self.routes.route("T")
        if physical is None:
            return
        route = self.logical.route(
            "T", physical, Asker.FLAGGED, now_s=self.now_s, serve_to_java="all"
        )
        if route is None:
            return
        shown = LogicalQueues.of_route(RouteData.decode(route.encode(standard=True)).extra)
        assert shown is not None or not self.has_been_shown, "physical queues after logical ones"
        if shown is None:
            return
        self.has_been_shown = True
        assert list(shown) == list(INDICES)
        assert [str(finding) for finding in check_queues(shown)] == []
        for chain in shown.values():
            open_ends = [segment for segment in chain if segment.is_writable]
            if len(open_ends) > 1:
                assert self.routes.master_address(open_ends[0].broker_name) is None
            for segment in chain:
                assert segment.delta < 0 or segment.delta in self.deltas[segment.key]
                if segment.is_sealed and segment.offset_max not in self.maxima[segment.key]:
                    # Sealed by its successor: its broker, when asked, knows what is between.
                    assert segment.next_delta in [successor.delta for successor in chain]
            self._nothing_is_passed_over(chain)

    def _nothing_is_passed_over(self, shown: Chain) -> None:
        truth = self.chains[shown.index]
        for segment in truth.readable:
            located = shown.locate(segment.delta)
            begin = 0 if located is None else located.logical_offset
            assert begin <= segment.delta, "a reader would begin too late"

    @invariant()
    def old_clients_see_the_same_queues_always(self) -> None:
        physical = self.routes.route("T")
        if physical is None:
            return
        route = self.logical.route("T", physical, Asker.OLD, now_s=self.now_s, serve_to_java="all")
        if route is not None and self.has_been_shown:
            (data,) = route.queue_datas
            assert (data.broker_name, data.read_queue_nums) == (LOGICAL_QUEUE_BROKER, len(INDICES))


Reports.TestCase.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
TestReports = Reports.TestCase
