"""The pure part of a broker's logical queues: changes of mappings, plans of reads, the gate."""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import FrameType

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.proxy.logical.rules._forwarding import (
    SEND_NAMES,
    born_host_of,
    forwarded,
    hops_of,
    relayed,
)
from lanemq.proxy.logical.rules._gate import Gate, SegmentClosed
from lanemq.proxy.logical.rules._growth import new_segment
from lanemq.proxy.logical.rules._journal import Journal, Migration, Phase
from lanemq.proxy.logical.rules._map_changes import map_queue, unmap_queue
from lanemq.proxy.logical.rules._mapping import TopicMapping
from lanemq.proxy.logical.rules._migration import Move, begin_prepare, committed, notified, prepared
from lanemq.proxy.logical.rules._reading import (
    ContinueAt,
    Read,
    Wait,
    may_know,
    plan_read,
    queue_max,
    queue_min,
    redirect_from,
)
from lanemq.proxy.logical.rules._retire import expired, swept
from lanemq.proxy.logical.rules._view import (
    destinations,
    is_settled,
    merged,
    reopened,
    rivals,
    superseded_end,
    unlisted,
    with_expired,
)
from lanemq.testkit.chains import check_change
from lanemq.wire import (
    HostAddress,
    Refused,
    RemoteProtocolError,
    RequestCode,
    ResponseCode,
    fastjson,
)
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.frame import Frame
from lanemq.wire.logical import (
    LogicalQueues,
    Segment,
    SegmentState,
    check_queues,
)

NORMAL, READ_ONLY = SegmentState.NORMAL, SegmentState.READ_ONLY
WRITE_ONLY, EXPIRED = SegmentState.WRITE_ONLY, SegmentState.EXPIRED
BROKERS = ("a", "b", "c")


def segment(
    broker: str = "a",
    queue_id: int = 0,
    *,
    index: int = 0,
    delta: int = 0,
    begin: int = 0,
    end: int = -1,
    state: SegmentState = NORMAL,
) -> Segment:
    return Segment(
        MessageQueue("T", broker, queue_id),
        logical_index=index,
        delta=delta,
        offset_delta=begin,
        offset_max=end,
        state=state,
    )


def mapping(*segments: Segment, broker: str = "a") -> TopicMapping:
    return TopicMapping("T", broker, LogicalQueues.of(segments))


# Mappings


def test_a_change_makes_another_mapping_and_leaves_the_one_that_readers_have() -> None:
    before = mapping(segment())
    chain = before.chain(0)
    after = before.put(segment(end=5, state=READ_ONLY))
    assert before.chain(0) is chain
    assert before.latest(0) == segment()
    assert after.latest(0) == segment(end=5, state=READ_ONLY)


def test_a_queue_is_looked_up_by_the_greatest_begin_up_to_an_offset() -> None:
    first, second = segment(begin=3, end=9, state=READ_ONLY), segment(begin=9, delta=20)
    known = mapping(second, first, segment("b", 0, delta=6, end=14, state=READ_ONLY))
    assert [known.at(0, offset) for offset in (2, 3, 8, 9, 99)] == [
        None,
        first,
        first,
        second,
        second,
    ]
    assert known.latest(0) == second
    assert known.of_queue(0) == (first, second)
    assert list(known.queue_ids) == [0]


def test_a_destination_without_a_place_is_where_nobody_is_sent_while_another_is_open() -> None:
    waiting = segment(queue_id=1, delta=-1, state=WRITE_ONLY)
    assert mapping(segment("b"), waiting).open_end(0) == segment("b")
    sealed = segment("b", end=5, state=READ_ONLY)
    assert mapping(sealed, waiting).open_end(0) == waiting
    placed = waiting.with_delta(5)
    assert mapping(segment("b"), placed).open_end(0) == placed
    assert mapping(sealed).open_end(0) is None


def test_vector_10_and_11_where_a_sealed_segment_lets_the_next_begin() -> None:
    target = segment("b", delta=-1, state=WRITE_ONLY)
    for known, end, delta in (
        (segment(delta=500, begin=10), 100, 590),
        (segment(delta=6, begin=3), 3, 6),
    ):
        _, move = prepared(mapping(known), known.sealed(end), target)
        assert move.target.delta == delta


def test_an_unmapped_destination_is_called_off_and_keeps_its_history() -> None:
    old = segment(queue_id=1, end=7, state=EXPIRED)
    waiting = segment(queue_id=1, begin=7, delta=-1, state=WRITE_ONLY)
    known = mapping(segment("b"), old, waiting)
    after = unmap_queue(known, 1, end_offset=7)
    latest = after.latest(1)
    assert latest is not None
    assert (latest.state, latest.count, latest.delta) == (EXPIRED, 0, 0)
    assert after.find(old.key) == old
    with pytest.raises(Refused, match="has messages"):
        unmap_queue(known, 1, end_offset=8)
    assert unmap_queue(known, 5, end_offset=0) == known


@pytest.mark.parametrize(
    ("own", "given_delta", "remark"),
    [
        (segment(delta=-1, state=WRITE_ONLY), 9, "is below 10"),
        (segment(delta=10), 11, "never changes"),
        (segment(delta=0, end=0, state=EXPIRED), 10, "not exist"),
        (segment(delta=12, state=WRITE_ONLY), 13, "never changes"),
    ],
)
def test_a_commit_that_would_overlap_or_move_is_refused(
    own: Segment, given_delta: int, remark: str
) -> None:
    source = segment("b", end=10, state=READ_ONLY)
    with pytest.raises(Refused, match=remark):
        committed(mapping(own), source, own.with_delta(given_delta), known_end=0)


def test_what_opens_has_a_greater_number_than_its_source() -> None:
    source = segment("b", end=10, state=READ_ONLY).with_migration(4)
    waiting = mapping(segment(state=WRITE_ONLY, delta=-1))
    target = segment(delta=10)
    _, opened = committed(waiting, source, target, known_end=0)
    assert opened.migration == 5
    with pytest.raises(Refused, match="is over"):
        committed(waiting, source, target.with_migration(4), known_end=0)


def test_a_copy_only_moves_on() -> None:
    target = segment("b", delta=10, state=WRITE_ONLY)
    known = mapping(segment(end=10, state=READ_ONLY), target)
    opened = target.with_state(NORMAL)
    assert merged(known, LogicalQueues.of([opened])).find(target.key) == opened
    for older in (target.with_delta(-1), replace(target, state=EXPIRED, offset_max=0)):
        assert merged(known, LogicalQueues.of([older])) == known
        assert notified(known, Move(segment(end=10), older)) == known
    # Of its own segments, a broker believes nobody else.
    assert merged(known, LogicalQueues.of([segment(end=99, state=EXPIRED)])) == known


@pytest.mark.parametrize("state", [NORMAL, READ_ONLY])
def test_late_word_of_a_destination_that_was_called_off_takes_nothing_from_the_next_one(
    state: SegmentState,
) -> None:
    """It names the same queue, which had no place and no number then."""
    source = segment(delta=83, end=10, state=READ_ONLY).with_migration(9)
    end = 5 if state is READ_ONLY else -1
    there = segment("b", delta=93, end=end, state=state).with_migration(10)
    known = mapping(source, there)
    called_off = segment("b", delta=0, end=0, state=EXPIRED)
    assert notified(known, Move(segment(delta=83).with_migration(9), called_off)) == known


@pytest.mark.parametrize("delta", [0, 7])
def test_a_source_that_was_gone_past_is_not_opened_again_by_the_word_of_who_did_it(
    delta: int,
) -> None:
    """A tool tells everybody of the source as it found it, which may have been empty."""
    source = segment("b")
    waiting = mapping(segment(state=WRITE_ONLY, delta=-1))
    target = segment(delta=delta)
    known, opened = committed(waiting, source, target, known_end=0, is_forced=True)
    assert notified(known, Move(source, opened)).chain(0).normal == opened
    other = mapping(source, segment("c", delta=0, state=EXPIRED, end=0), broker="c")
    assert notified(other, Move(source, opened)).chain(0).normal == opened


@given(end=st.integers(0, 50), begins=st.lists(st.integers(0, 80), max_size=3))
def test_what_was_superseded_ends_where_others_begin(end: int, begins: list[int]) -> None:
    own = segment(delta=20, begin=5)
    others = [segment("b", n, delta=begin) for n, begin in enumerate(begins)]
    at, cut = superseded_end(own, others, 5 + end)
    limit = min((begin for begin in begins if begin >= 20), default=20 + end)
    assert own.to_logical(at) == min(20 + end, limit)
    assert at + cut == 5 + end


def test_what_was_superseded_keeps_what_is_before_the_one_that_took_over() -> None:
    """An idle queue was elsewhere before, at the same offset, and left nothing there."""
    own = segment(delta=38)
    idle = segment(broker="broker3", delta=38).sealed(0)
    assert superseded_end(own, [idle, segment(broker="broker2", delta=39)], 7) == (1, 6)


# A whole cluster's mappings, changed step by step


class Cluster:
    """Three brokers' mappings of one topic, and how long their queues are."""

    def __init__(self) -> None:
        self.known = {name: TopicMapping("T", name) for name in BROKERS}
        self.ends: dict[tuple[str, int], int] = {}
        self.removed: dict[tuple[str, int], int] = {}

    def end(self, broker: str, queue_id: int) -> int:
        return self.ends.get((broker, queue_id), 0)

    def truth(self) -> LogicalQueues:
        """Every broker's own segments, without destinations that nobody is shown."""
        own = [s for name in BROKERS for s in self.known[name].own()]
        return LogicalQueues.of(s for s in own if s.delta >= 0)

    def normal(self, index: int) -> Segment | None:
        return next((s for s in self.truth()[index] if s.state is NORMAL), None)

    def write(self, index: int, count: int) -> None:
        """Messages go to wherever the queue is open."""
        found = self.normal(index)
        if found is not None:
            key = found.broker_name, found.queue_id
            self.ends[key] = self.ends.get(key, 0) + count

    def migrate(self, index: int, to: str, *, steps: int, notify: bool) -> None:
        source = self.normal(index)
        if source is None or source.broker_name == to:
            return
        known = self.known[to]
        free = [
            queue_id
            for queue_id in known.queue_ids
            if all(
                s.state is EXPIRED
                and (s.logical_index == index or s.offset_delta < self.end(to, queue_id))
                for s in known.of_queue(queue_id)
            )
        ]
        queue_id = free[0] if free else max([*known.queue_ids, -1]) + 1
        target = new_segment(
            known,
            queue_id,
            index,
            WRITE_ONLY,
            end_offset=self.end(to, queue_id),
            delta=0,
            address="x",
        )
        self.known[to] = known.put(target)
        if steps == 0:
            self.known[to] = unmap_queue(self.known[to], queue_id, end_offset=target.offset_delta)
            return
        host = source.broker_name
        found, done = begin_prepare(self.known[host], Move(source, target))
        assert done is None
        sealed = found.sealed(self.end(host, source.queue_id))
        self.known[host], move = prepared(self.known[host], sealed, target)
        assert begin_prepare(self.known[host], Move(source, target))[1] == move
        if steps == 1:
            self.known[to] = unmap_queue(self.known[to], queue_id, end_offset=target.offset_delta)
            self.known[host], _ = reopened(self.known[host], move.source, move.target)
            return
        self.known[to], opened = committed(
            self.known[to], move.source, move.target, known_end=self.truth()[index].known_end
        )
        self.known[host] = notified(self.known[host], Move(move.source, opened))
        if notify:
            for name in BROKERS:
                self.known[name] = notified(self.known[name], Move(move.source, opened))

    def clean(self, broker: str) -> None:
        """The log of a broker loses what it has."""
        known = self.known[broker]
        self.known[broker] = known.put(*expired(known, lambda found: True))

    def sweep(self, broker: str) -> None:
        known = self.known[broker]
        gone = {found.key for found in known.own() if found.state is EXPIRED}
        self.known[broker] = known.without(*swept(known, gone))

    def follow(self) -> None:
        for name in BROKERS:
            self.known[name] = merged(self.known[name], self.truth())


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 1), st.integers(0, 30)),
        st.tuples(
            st.just("migrate"),
            st.integers(0, 1),
            st.sampled_from(BROKERS),
            st.integers(0, 2),
            st.booleans(),
        ),
        st.tuples(st.just("clean"), st.sampled_from(BROKERS)),
        st.tuples(st.just("sweep"), st.sampled_from(BROKERS)),
        st.tuples(st.just("follow")),
    ),
    max_size=25,
)


@given(steps=STEPS)
def test_no_order_of_steps_breaks_an_invariant(steps: list[tuple[object, ...]]) -> None:
    cluster = Cluster()
    for index, name in enumerate(BROKERS[:2]):
        cluster.known[name], _ = map_queue(cluster.known[name], 0, index, address="x")
    before = cluster.truth()
    for step, *arguments in steps:
        if step == "migrate":
            which, to, count, notify = arguments
            cluster.migrate(which, to, steps=count, notify=notify)  # type: ignore[arg-type]
        else:
            getattr(cluster, str(step))(*arguments)
        after = cluster.truth()
        problems = [f for f in check_queues(after) if not f.is_gap]
        assert not problems
        kept = LogicalQueues.of(s for s in before.segments if s.count)
        assert not check_change(kept, after)
        for index in (0, 1):
            assert sum(s.state is NORMAL for s in after[index]) == 1
            # The end never goes back, whatever was forgotten meanwhile.
            assert after[index].known_end >= before[index].known_end
        before = after


# Reads


@given(
    offset=st.integers(0, 40),
    count=st.integers(1, 40),
    removed=st.booleans(),
    states=st.lists(st.sampled_from([EXPIRED, READ_ONLY]), min_size=0, max_size=3),
    last=st.sampled_from([EXPIRED, READ_ONLY, NORMAL, WRITE_ONLY]),
    follows=st.booleans(),
)
def test_every_pull_has_an_answer_that_lies_in_its_segment_or_leads_on(
    offset: int,
    count: int,
    removed: bool,
    states: list[SegmentState],
    last: SegmentState,
    follows: bool,
) -> None:
    begins = [5 + 10 * n for n in range(len(states) + 1)]
    segments = [
        segment(begin=begin, delta=100 + begin, end=begin + 10, state=state)
        for begin, state in zip(begins, states, strict=False)
    ]
    is_open = last.is_writable
    segments.append(
        segment(
            begin=begins[-1],
            delta=100 + begins[-1],
            end=-1 if is_open else begins[-1] + 10,
            state=last,
        )
    )
    known = mapping(*segments, *([segment("b", delta=500)] if follows else []))
    plan = plan_read(known, 0, offset, count, is_removed=lambda found: removed)
    assert plan is not None
    if isinstance(plan, Read):
        assert plan.segment.contains_physical(offset)
        assert 0 < plan.max_count <= count
        assert plan.segment.keeps(offset + plan.max_count - 1)
        assert plan.segment.is_readable
    elif isinstance(plan, Wait):
        assert redirect_from(known, plan.segment) is None or plan.segment.state is WRITE_ONLY
    else:
        assert isinstance(plan, ContinueAt)
        # It never asks the same again and again, for what it has learned leads elsewhere.
        if plan.redirect is None:
            assert plan.next_offset > offset
        else:
            learned = mapping(plan.redirect.current).put(plan.redirect.following).chain(0)
            place = learned.locate(100 + offset)
            assert place is not None
            assert (place.segment.message_queue, place.queue_offset) != (
                segment().message_queue,
                offset,
            )
    low, high = queue_min(known, 0, 0), queue_max(known, 0, 1000)
    assert low <= high
    assert plan_read(known, 9, offset, count, is_removed=lambda found: removed) is None


def test_vectors_13_and_14_the_number_is_cut_at_the_end_and_behind_it_is_the_next() -> None:
    known = mapping(segment(end=101, state=READ_ONLY), segment("b", 2, delta=101))
    plan = plan_read(known, 0, 90, 32, is_removed=lambda found: False)
    assert isinstance(plan, Read)
    assert plan.max_count == 11
    plan = plan_read(known, 0, 101, 32, is_removed=lambda found: False)
    assert isinstance(plan, ContinueAt)
    assert plan.next_offset == 101
    assert plan.redirect is not None


def test_where_nothing_follows_the_segment_before_a_new_one_is_read_as_usual() -> None:
    """Those in between are forgotten, and a reader of the one before has to wait."""
    before, again = segment(end=10, state=EXPIRED), segment(begin=10, delta=60)
    known = mapping(before, segment(queue_id=1, delta=30, end=5, state=EXPIRED), again)
    assert redirect_from(known, before) is None
    plan = plan_read(known, 0, 12, 32, is_removed=lambda _: False, is_new=lambda _: True)
    assert plan == Read(again, 32)


def test_a_reader_is_told_of_two_new_segments_and_not_of_more() -> None:
    own = [segment(begin=begin, delta=begin, end=begin + 10, state=READ_ONLY) for begin in (0, 10)]
    own += [segment(begin=20, delta=20, end=30, state=READ_ONLY), segment(begin=30, delta=30)]
    known = mapping(*own)
    for new, first in ((0, 3), (1, 2), (2, 1), (3, 1)):
        found = may_know(known, own[3], own[4 - new :].__contains__)
        assert list(found) == own[first:]


def test_a_reader_in_a_gap_goes_on_behind_it_and_elsewhere_only_where_its_offset_is() -> None:
    """Clients of 5.0.0-PREVIEW ask the segment behind a gap, before its begin."""
    before = segment("b", end=150, state=READ_ONLY)
    known = mapping(before, segment(begin=30, delta=200))
    plan = plan_read(known, 0, -20, 32, is_removed=lambda found: False)
    assert plan == ContinueAt(ResponseCode.PULL_NOT_FOUND, "no suitable queue", 30)
    between = segment("c", delta=150, end=50, state=READ_ONLY)
    known = known.put(between)
    plan = plan_read(known, 0, -20, 32, is_removed=lambda found: False)
    assert isinstance(plan, ContinueAt)
    assert plan.redirect is not None
    assert plan.redirect.following == between


# The gate


async def test_whoever_enters_leaves_once_whatever_happens(autojump_clock: MockClock) -> None:
    gate, known, key = Gate(), mapping(segment()), ("T", 0)

    def fail() -> None:
        with gate.writing(known, 0):
            assert gate.in_flight(key) == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert gate.in_flight(key) == 0
    with pytest.raises(SegmentClosed):
        gate.enter(mapping(segment(end=0, state=EXPIRED)), 0)
    assert gate.in_flight(key) == 0
    gate.enter(known, 7)  # in no logical queue: counted, and let in
    assert gate.in_flight(("T", 7)) == 1


async def test_a_closed_queue_lets_nobody_in_and_waits_for_all_that_are(
    autojump_clock: MockClock,
) -> None:
    gate, known, key = Gate(), mapping(segment()), ("T", 0)
    first, second = gate.enter(known, 0), gate.enter(known, 0)
    idle: list[bool] = []

    async def wait() -> None:
        await gate.idle(key)
        idle.append(True)

    with gate.closed(key):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await wait_all_tasks_blocked()
            with pytest.raises(SegmentClosed):
                gate.enter(known, 0)
            gate.leave(first)
            await wait_all_tasks_blocked()
            assert not idle
            gate.leave(second)
    assert idle
    gate.leave(gate.enter(known, 0))


async def test_those_who_wait_at_a_closed_queue_go_on_in_the_order_of_their_coming(
    autojump_clock: MockClock,
) -> None:
    gate, key = Gate(), ("T", 0)
    order: list[int] = []

    async def wait(number: int) -> None:
        turn = gate.turn(key)
        assert turn is not None
        async with turn:
            order.append(number)

    async with trio.open_nursery() as nursery:
        with gate.closed(key):
            for number in range(5):
                nursery.start_soon(wait, number)
                await wait_all_tasks_blocked()
    assert order == [0, 1, 2, 3, 4]
    assert gate.turn(key) is None


# What is written down


def test_the_journal_comes_back_as_it_was() -> None:
    journal = Journal()
    journal.put(Migration(segment(), segment("b", delta=-1), Phase.SEALING, 5))
    journal.put(Migration(segment(index=1), segment("b", 1, index=1), Phase.PREPARED, 6))
    again = Journal()
    value = fastjson.loads(fastjson.dumps(journal.to_json()))
    assert isinstance(value, dict)
    again.load(value)
    assert again.all() == journal.all()
    assert again.remove("T", 0)
    assert not again.remove("T", 0)
    Journal().load({})
    for broken in (1, [1], [{"phase": "odd"}]):
        with pytest.raises(RemoteProtocolError):
            Journal().load({"migrations": broken})


# Forwards


@pytest.mark.parametrize(
    ("code", "field", "flags"),
    [
        (RequestCode.SEND_MESSAGE, "queueId", "sysFlag"),
        (RequestCode.SEND_MESSAGE_V2, "e", "f"),
        (RequestCode.SEND_BATCH_MESSAGE, "e", "f"),
    ],
)
def test_a_forward_names_the_queue_where_the_target_reads_it(
    code: int, field: str, flags: str
) -> None:
    asked = Frame(code=code, opaque=77, fields={field: "0", flags: "1", "x": "y"}, body=b"body")
    target = segment("b", 5, delta=10)
    sender = HostAddress("10.9.8.7", 1234)
    ours = forwarded(asked, target, sender)
    said = {"lanemqHops": "1", "lanemqSegment": "0:0:10", "lanemqBornHost": sender.packed.hex()}
    assert ours.fields == {field: "5", flags: "65", "x": "y"} | said
    assert (ours.code, ours.body, SEND_NAMES[code].queue_id) == (code, b"body", field)
    assert hops_of(ours) == 1
    between = HostAddress("10.0.0.1", 10911)
    twice = forwarded(ours, target, between)
    assert born_host_of(twice, between) == sender.packed
    with pytest.raises(Refused, match="passed on 2 times"):
        forwarded(twice, target, between)
    assert hops_of(Frame(code=code, fields={"lanemqHops": "many"})) == 2


@given(offset=st.integers(0, 1000), placed=st.booleans())
def test_an_answer_is_put_on_the_scale_of_the_queue_that_was_asked_for(
    offset: int,
    placed: bool,
) -> None:
    addressed = segment(begin=3, delta=20, end=13, state=READ_ONLY)
    target = segment("b", 5, begin=7, delta=30 if placed else -1)
    asked = Frame(code=RequestCode.SEND_MESSAGE_V2, opaque=9)
    fields = {"msgId": "m", "queueId": "5", "queueOffset": str(offset)}
    answer = relayed(Frame(code=0, opaque=1, fields=fields), asked, addressed, target)
    assert answer.opaque == 9
    assert (answer.fields["queueId"], answer.fields["PROPERTY_FORWARD_QUEUE_ID"]) == ("0", "5")
    expected = offset - 7 + 30 - 20 + 3 if placed else -1
    assert answer.fields["queueOffset"] == str(expected)
    refused = relayed(Frame(code=14, remark="full"), asked, addressed, target)
    assert (refused.code, refused.remark, refused.fields) == (14, "full", {})


def test_the_identity_of_an_empty_segment_is_not_given_to_another_logical_queue() -> None:
    empty = Segment(MessageQueue("T", "broker1", 0), logical_index=3, delta=0).sealed(0)
    expired = LogicalQueues.of([empty.with_state(SegmentState.EXPIRED)])
    mapping = TopicMapping("T", "broker1", expired)
    begin = partial(
        new_segment, mapping, 0, state=SegmentState.NORMAL, end_offset=0, delta=0, address="a:1"
    )
    with pytest.raises(Refused, match="an empty segment of logical queue 3"):
        begin(4)
    assert begin(3).key == empty.key  # its own logical queue opens it again


def _calls(work: Callable[[], object]) -> int:
    count = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def _queues_at(count: int, *brokers: str) -> LogicalQueues:
    """So many logical queues with a segment at each broker."""
    states = (SegmentState.READ_ONLY, SegmentState.NORMAL)
    return LogicalQueues.of(
        Segment(MessageQueue("T", broker, number), logical_index=number, delta=0, state=state)
        for number in range(count)
        for broker, state in zip(brokers, states, strict=False)
    )


def test_work_on_a_mapping_grows_no_faster_than_its_queues() -> None:
    """Views of all queues come at once, and nobody is served while they are merged."""
    counts: dict[str, list[int]] = {}
    for number in (250, 500, 1000):
        own = TopicMapping("T", "a", _queues_at(number, "a"))
        view = _queues_at(number, "a", "b")
        whole = merged(own, view)
        assert whole.queues == view
        keys = {segment.key for segment in whole}
        works: dict[str, Callable[[], object]] = {
            "merged": partial(merged, own, view),
            "merged again": partial(merged, whole, view),
            "with_expired": partial(with_expired, whole, keys),
            "without": partial(whole.without, *keys),
            "unlisted": partial(unlisted, whole, own.queues),
            "rivals": partial(rivals, whole, view),
            "destinations": partial(destinations, whole, view),
            "is_settled": partial(is_settled, whole),
        }
        for name, work in works.items():
            counts.setdefault(name, []).append(_calls(work))
    for name, (least, _, most) in counts.items():
        assert most <= 4.5 * least + 100, (name, counts[name])
        assert most <= 120 * 1000, (name, counts[name])
