"""Chains: what their order answers, and that no sequence of changes breaks their rules."""

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lanemq.testkit.chains import check_change
from lanemq.testkit.segments import at
from lanemq.wire.logical import (
    Chain,
    Invariant,
    LogicalQueues,
    Segment,
    SegmentState,
    check_chain,
    check_queues,
    segment_at,
)

EXPIRED, READ_ONLY = SegmentState.EXPIRED, SegmentState.READ_ONLY
NORMAL, WRITE_ONLY = SegmentState.NORMAL, SegmentState.WRITE_ONLY


# broker1/0 holds 0 to 100, broker2/2 101 to 200, broker1/2 is open from 201 on.
THREE = Chain(0, [at("broker1/0", 0, 0, 101), at("broker2/2", 101, 0, 100), at("broker1/2", 201)])


def located(chain: Chain, offset: int) -> tuple[str, int, bool] | None:
    found = chain.locate(offset)
    if found is None:
        return None
    place = f"{found.segment.broker_name}/{found.segment.queue_id}"
    return place, found.queue_offset, found.is_legal


def test_a_pull_goes_to_the_segment_that_has_the_offset() -> None:
    assert located(THREE, 0) == ("broker1/0", 0, True)
    assert located(THREE, 100) == ("broker1/0", 100, True)
    assert located(THREE, 101) == ("broker2/2", 0, True)
    assert located(THREE, 200) == ("broker2/2", 99, True)
    assert located(THREE, 201) == ("broker1/2", 0, True)
    assert located(THREE, 999) == ("broker1/2", 798, True)


def test_a_pull_before_the_first_message_goes_on_at_it() -> None:
    chain = THREE.put(at("broker1/0", 0, 0, 101, EXPIRED))
    assert located(chain, 50) == ("broker2/2", 0, False)
    assert chain.min_offset == 101


def test_a_pull_in_a_gap_goes_on_behind_it() -> None:
    chain = THREE.put(at("broker2/2", 101, 0, 100, EXPIRED))
    found = chain.locate(150)
    assert found is not None
    assert (found.logical_offset, found.is_legal) == (201, False)
    assert located(chain, 101) == ("broker1/2", 0, False)


def test_the_end_of_a_sealed_last_segment_is_a_legal_place_and_nothing_behind_it_is() -> None:
    chain = Chain(0, [at("broker1/0", 0, 0, 101), at("broker2/2", -1, state=WRITE_ONLY)])
    assert located(chain, 101) == ("broker1/0", 101, True)
    assert located(chain, 102) == ("broker1/0", 101, False)
    assert chain.end_offset == 101


def test_a_chain_without_anything_to_read_has_no_place() -> None:
    assert Chain(0).locate(0) is None
    assert Chain(0, [at("broker2/2", -1, state=WRITE_ONLY)]).locate(0) is None
    assert (Chain(0).min_offset, Chain(0).end_offset, Chain(0).known_end) == (0, 0, 0)


def test_a_chain_that_is_read_empty_keeps_its_counter() -> None:
    chain = Chain(0, [at("broker1/0", 0, 0, 101, EXPIRED)])
    assert (chain.min_offset, chain.end_offset, chain.known_end) == (101, 101, 101)


def test_the_origin_is_what_had_messages_first_and_at_the_same_offsets() -> None:
    called_off = at("broker2/2", 0, 0, 0, EXPIRED)
    first = at("broker1/0", 0, 0, 101)
    assert Chain(0, [called_off, first, at("broker3/1", 101)]).origin == first
    assert Chain(0, [called_off, at("broker1/0", 0)]).origin == at("broker1/0", 0)
    assert Chain(0, [first.with_state(EXPIRED), at("broker3/1", 101)]).origin is not None
    assert Chain(0, [at("broker1/0", 0, 7)]).origin is None  # a queue that was used before
    assert Chain(0, [called_off]).origin is None
    assert Chain(0).origin is None


def test_an_empty_segment_and_its_successor_have_one_delta() -> None:
    chain = Chain(0, [at("broker2/2", 0), at("broker1/0", 0, 0, 0, EXPIRED)])
    assert [s.broker_name for s in chain] == ["broker1", "broker2"]
    assert located(chain, 0) == ("broker2/2", 0, True)
    assert check_chain(chain) == []


def test_messages_go_to_the_last_segment_that_takes_them() -> None:
    assert THREE.writable == at("broker1/2", 201)
    migrating = THREE.put(at("broker3/0", -1, state=WRITE_ONLY))
    assert migrating.writable == at("broker3/0", -1, state=WRITE_ONLY)
    assert migrating.normal == at("broker1/2", 201)
    assert migrating.write_only == at("broker3/0", -1, state=WRITE_ONLY)
    sealed = THREE.put(at("broker1/2", 201).sealed(9))
    assert (sealed.writable, sealed.normal, sealed.write_only) == (None, None, None)


def test_the_next_readable_segment_may_be_asked_for_by_a_copy() -> None:
    old_copy = at("broker1/0", 0)
    assert THREE.next_readable(old_copy) == at("broker2/2", 101, 0, 100)
    assert THREE.next_readable(at("broker1/2", 201)) is None


def test_readers_are_sent_over_nothing_that_may_have_messages() -> None:
    """A broker knows the segment next to its own, and of later ones perhaps nothing."""
    first, open_end = at("broker1/0", 0, 0, 101), at("broker1/2", 201)
    begun = at("broker2/2", 101, state=WRITE_ONLY)
    assert Chain(0, [first, begun, open_end]).next_readable(first) is None
    assert Chain(0, [first, begun.with_state(NORMAL), open_end]).next_readable(first) == (
        begun.with_state(NORMAL)
    )
    gone = at("broker2/2", 101, 0, 100, EXPIRED)
    assert Chain(0, [first, gone, open_end]).next_readable(first) == open_end
    # Nothing is known between: of a broker's own segment that says that nothing is left there.
    assert Chain(0, [first, open_end]).next_readable(first) == open_end
    short = at("broker2/2", 101, 0, 50, EXPIRED)
    assert Chain(0, [first, short, open_end]).next_readable(first) is None
    empty = at("broker2/2", 101, 0, 0, EXPIRED)
    assert Chain(0, [first, empty, open_end]).next_readable(first) is None


def test_segments_are_replaced_by_identity_and_take_the_index_of_their_chain() -> None:
    chain = Chain(3).put(at("b/0", 0), at("b/0", 0, 0, 5), at("b/0", 5, 5))
    assert [(s.offset_delta, s.offset_max, s.logical_index) for s in chain] == [
        (0, 5, 3),
        (5, -1, 3),
    ]
    assert chain.remove(at("b/0", 0).key) == Chain(3, [chain[1]])
    with pytest.raises(KeyError):
        chain.remove(at("b/1", 0).key)


def test_a_queue_that_is_used_again_has_its_segments_by_offset() -> None:
    chain = Chain(0, [at("b/0", 0, 0, 101, EXPIRED), at("a/0", 101, 0, 100), at("b/0", 201, 101)])
    ((queue_id, segments),) = LogicalQueues([chain]).by_queue("b").items()
    assert queue_id == 0
    assert [s.offset_delta for s in segments] == [0, 101]
    assert segment_at(segments, 100) == segments[0]
    assert segment_at(segments, 101) == segments[1]
    assert segment_at(segments, 1 << 62) == segments[1]
    assert segment_at(segments[1:], 100) is None


def test_logical_queues_are_changed_one_chain_at_a_time() -> None:
    queues = LogicalQueues.of([at("a/1", 0, index=2), at("a/0", 0)])
    assert list(queues) == [0, 2]
    queues = queues.put_segments(at("b/0", -1, state=WRITE_ONLY, index=2))
    assert len(queues[2]) == 2
    own = queues.of_broker("b")
    assert [len(own[0]), len(own[2])] == [0, 1], "the empty chain stays"
    assert list(queues.remove(0)) == [2]
    with pytest.raises(KeyError):
        queues.remove(7)
    assert queues != LogicalQueues()
    assert len({queues, LogicalQueues(), LogicalQueues(queues.values())}) == 2


def broken(*segments: Segment) -> set[str]:
    return {finding.invariant for finding in check_queues(LogicalQueues([Chain(0, segments)]))}


def test_each_broken_rule_is_found() -> None:
    assert broken(at("a/0", -1)) == {Invariant.PLACED}
    assert broken(at("a/0", 0, 0, 9), at("b/0", 8)) == {Invariant.CONTIGUOUS}
    assert broken(at("a/0", 0, state=READ_ONLY), at("b/0", 8)) == {Invariant.CONTIGUOUS}
    assert broken(at("a/0", 0), at("b/0", 8)) == {Invariant.ONE_NORMAL}
    assert broken(at("a/0", 0, 0, 9, NORMAL)) == {Invariant.ONE_NORMAL}
    assert Invariant.ONE_WRITE_ONLY in broken(
        at("a/0", -1, state=WRITE_ONLY), at("b/0", -1, state=WRITE_ONLY)
    )
    assert broken(at("a/0", 0, 0, 9), at("a/0", 9, 8)) == {Invariant.QUEUE}
    assert Invariant.QUEUE in broken(at("a/0", 9, 0), at("a/0", 0, 9, 18))
    assert {f.invariant for f in check_chain(Chain(1, [at("a/0", 0)]))} == {Invariant.INDEX}
    assert {f.invariant for f in check_chain(Chain(-1))} == {Invariant.INDEX}
    assert broken(at("a/0", 0, 0, 9), at("b/0", 9), at("c/0", -1, state=WRITE_ONLY)) == set()


def test_a_gap_is_told_apart_from_an_overlap() -> None:
    (finding,) = check_chain(Chain(0, [at("a/0", 0, 0, 9), at("b/0", 12)]))
    assert finding.is_gap
    assert str(finding) == "I2: nobody has 9 to 11 of logical queue 0"


def test_what_was_published_does_not_change() -> None:
    before = LogicalQueues([THREE])

    def after(*segments: Segment) -> list[str]:
        findings = check_change(before, LogicalQueues([Chain(0, segments)]))
        return [finding.invariant.value for finding in findings]

    first, second, third = THREE
    assert after(first, second, third) == []
    assert after(second, third) == []
    assert after(first, second, at("broker1/2", 201, 0, 7), at("broker3/0", 208)) == []
    assert after(at("broker1/0", 0, 0, 102), second, third) == [Invariant.END, Invariant.MEANING]
    assert after(first, second, at("broker1/2", 202)) == [Invariant.MEANING]
    assert after(second, third, at("broker3/0", 50, 0, 10)) == [Invariant.MEANING]
    assert check_change(before, LogicalQueues()) == []


@dataclass
class Model:
    """The messages of one logical queue, as (broker, queue id, physical offset), by offset."""

    messages: dict[int, tuple[str, int, int]] = field(default_factory=dict)
    end: int = 0


class Migrations(RuleBasedStateMachine):
    """Sends, migrations, retention and reuse, in any order, as brokers carry them out."""

    def __init__(self) -> None:
        super().__init__()
        self.chain = Chain(0, [at("b0/0", 0)])
        self.ends = {("b0", 0): 0}
        self.model = Model()
        self.states = [LogicalQueues([self.chain])]

    def _become(self, chain: Chain) -> None:
        self.chain = chain
        self.states.append(LogicalQueues([chain]))

    @rule(count=st.integers(1, 3))
    def send(self, count: int) -> None:
        segment = self.chain.writable
        assert segment is not None
        place = segment.broker_name, segment.queue_id
        for _ in range(count):
            queue_offset = self.ends[place]
            self.ends[place] += 1
            if segment.delta >= 0:
                assert segment.to_logical(queue_offset) == self.model.end
            self.model.messages[self.model.end] = (*place, queue_offset)
            self.model.end += 1

    @precondition(lambda self: self.chain.write_only is None)
    @rule(broker=st.integers(0, 3), reuse=st.booleans())
    def begin(self, broker: int, reuse: bool) -> None:
        name = f"b{broker}"
        ids = [queue_id for broker_name, queue_id in self.ends if broker_name == name]
        used = LogicalQueues([self.chain]).by_queue(name)
        free = [
            queue_id for queue_id in ids if all(s.state is EXPIRED for s in used.get(queue_id, ()))
        ]
        queue_id = free[0] if reuse and free else len(ids)
        begin = self.ends.setdefault((name, queue_id), 0)
        # While the source lives, producers stay there: the destination is told last.
        self._to = at(f"{name}/{queue_id}", -1, begin, state=WRITE_ONLY)
        source = self.chain.normal
        assert source is not None
        sealed = self.chain.put(source.sealed(self.ends[source.broker_name, source.queue_id]))
        self._become(sealed.put(self._to.with_delta(sealed.known_end)))

    @precondition(lambda self: self.chain.write_only is not None)
    @rule()
    def commit(self) -> None:
        write_only = self.chain.write_only
        assert write_only is not None
        self._become(self.chain.put(write_only.with_state(NORMAL)))

    @rule(which=st.integers(0, 20))
    def expire(self, which: int) -> None:
        sealed = [s for s in self.chain if s.state is READ_ONLY]
        if sealed:
            gone = sealed[which % len(sealed)]
            self._become(self.chain.put(gone.with_state(EXPIRED)))
            for offset in range(gone.delta, gone.next_delta):
                del self.model.messages[offset]

    @rule()
    def sweep(self) -> None:
        if len(self.chain) > 1 and self.chain[0].state is EXPIRED:
            self._become(self.chain.remove(self.chain[0].key))

    @invariant()
    def the_rules_hold(self) -> None:
        queues = LogicalQueues([self.chain])
        assert [f for f in check_queues(queues) if not f.is_gap] == []
        for before in self.states[-2:]:
            assert check_change(before, queues) == []

    @invariant()
    def every_message_is_found_where_it_is(self) -> None:
        hidden = self.chain.write_only
        for offset, place in self.model.messages.items():
            if hidden is not None and offset >= hidden.delta:
                continue
            found = self.chain.locate(offset)
            assert found is not None
            assert found.is_legal
            queue = found.segment.message_queue
            assert (queue.broker_name, queue.queue_id, found.queue_offset) == place


Migrations.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestMigrations = Migrations.TestCase
