"""The next step of a pull from a logical queue, by the known chain and the reader's place."""

from typing import final

from hypothesis import given
from hypothesis import strategies as st

from lanemq.wire.bodies import MessageQueue
from lanemq.wire.logical import (
    Chain,
    Confirmed,
    GoesOn,
    GoOn,
    Located,
    LookForReader,
    NothingYet,
    PullAsk,
    PullFrom,
    PullOutcome,
    PullReply,
    PullStep,
    PullWait,
    ReaderAt,
    ReaderPositions,
    Redirected,
    Segment,
    SegmentState,
    Taken,
    next_pull_step,
)

EXPIRED, READ_ONLY, NORMAL = SegmentState.EXPIRED, SegmentState.READ_ONLY, SegmentState.NORMAL


def at(broker: str, delta: int, end: int = -1, state: SegmentState | None = None) -> Segment:
    state = state or (NORMAL if end < 0 else READ_ONLY)
    return Segment(MessageQueue("T", broker, 0), 0, delta, state, 0, end)


FIRST, SECOND, THIRD = at("a", 0, 10), at("b", 10, 5), at("c", 15)
CHAIN = Chain(0, [FIRST, SECOND, THIRD])


def step(
    chain: Chain,
    offset: int,
    *,
    is_confirmed: bool = False,
    read: Segment | None = None,
) -> Located | GoOn | PullWait:
    """The step of a reader that has come to ``offset`` in ``read``."""
    positions: ReaderPositions[str] = ReaderPositions(1)
    if read is not None:
        positions.note("reader", read, offset)
    return next_pull_step(chain, "reader", offset, positions, is_confirmed=is_confirmed)


def test_a_place_with_messages_is_asked() -> None:
    for offset, segment in ((3, FIRST), (10, SECOND), (99, THIRD)):
        assert step(CHAIN, offset) == Located(segment, offset, is_legal=True)


def test_without_anything_to_read_it_waits() -> None:
    assert step(Chain(0), 3) is PullWait.NOTHING_READABLE
    gone = Chain(0, [FIRST.with_state(EXPIRED)])
    assert step(gone, 3, is_confirmed=True) is PullWait.NOTHING_READABLE


def test_a_gap_is_passed_over_only_where_a_name_server_says_that_there_is_one() -> None:
    chain = Chain(0, [FIRST, THIRD])
    assert step(chain, 12) is PullWait.UNCONFIRMED
    assert step(chain, 12, is_confirmed=True) == GoOn(15)


def test_an_offset_behind_a_sealed_end_is_none_whoever_says_so() -> None:
    chain = Chain(0, [FIRST])
    for is_confirmed in (False, True):
        assert step(chain, 12, is_confirmed=is_confirmed) == GoOn(10)
    assert step(chain, 10) == Located(FIRST, 10, is_legal=True)


def test_a_reader_past_a_cut_goes_back_to_it_before_anything_is_confirmed() -> None:
    source = at("a", 0)
    assert step(CHAIN, 12, read=source) == GoOn(10)
    assert step(CHAIN, 12, read=SECOND) == Located(SECOND, 12, is_legal=True)
    holed = Chain(0, [FIRST, at("b", 11, 1), THIRD])
    assert step(holed, 13, read=source) == GoOn(11)
    assert step(holed, 13, read=THIRD) is PullWait.UNCONFIRMED


parts = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 4), st.sampled_from([EXPIRED, READ_ONLY])),
    max_size=4,
)


@given(parts, st.booleans(), st.integers(0, 30))
def test_the_steps_lead_to_a_place_to_ask_or_to_a_wait(
    chosen: list[tuple[int, int, SegmentState]], is_open: bool, offset: int
) -> None:
    segments, delta = [], 0
    for number, (gap, count, state) in enumerate(chosen):
        # A segment that was sealed without a message is expired.
        segments.append(at(f"b{number}", delta + gap, count, state if count else EXPIRED))
        delta += gap + count
    if is_open:
        segments.append(at("end", delta))
    chain = Chain(0, segments)
    first = step(chain, offset)
    then = step(chain, offset, is_confirmed=True)
    assert then is not PullWait.UNCONFIRMED
    if first is PullWait.UNCONFIRMED:
        assert isinstance(then, GoOn)
        assert then.logical_offset > offset
    else:
        assert then == first
    if isinstance(then, GoOn):
        there = step(chain, then.logical_offset)
        assert isinstance(there, Located)
        then, offset = there, then.logical_offset
    if isinstance(then, Located):
        assert then.is_legal
        assert then.segment.is_readable
        assert then.logical_offset == offset
        is_within = then.segment.contains_physical(then.segment.to_physical(offset))
        assert is_within or offset == chain.readable[-1].end_offset
    else:
        assert not chain.readable


# The conversation


@final
class Brokers:
    """Brokers of segments, and a name server; ``known`` is the reader's chain."""

    def __init__(self, truth: Chain, known: Chain) -> None:
        self.truth = truth
        self.known = known
        self.asked: list[str] = []
        self.looks = 0

    def pull(self, pull: PullFrom[str]) -> PullOutcome:
        conversation = pull.steps(self.known)
        try:
            step = next(conversation)
            while True:
                step = conversation.send(self.reply(step))
        except StopIteration as end:
            outcome: PullOutcome = end.value
            return outcome

    def reply(self, step: PullAsk | PullStep | LookForReader) -> PullReply:
        match step:
            case LookForReader():
                return ReaderAt(None)
            case PullAsk(located):
                self.asked.append(located.segment.broker_name)
                here = self.truth.find(located.segment.key)
                assert here is not None
                following = self.truth.next_readable(here)
                if here.keeps(located.queue_offset) or following is None:
                    return Taken()
                self.known = self.known.put(here, following)
                return Redirected(self.known)
            case _:
                self.looks += 1
                self.known = self.truth
                return Confirmed(self.known, is_told=True)


@given(st.integers(0, 15), st.integers(1, 3), st.booleans())
def test_a_pull_is_answered_by_the_segment_that_has_the_offset(
    offset: int, known: int, looks_for_reader: bool
) -> None:
    """However old the reader's chain is."""
    opened = at(CHAIN[known - 1].broker_name, CHAIN[known - 1].delta)
    brokers = Brokers(CHAIN, Chain(0, [*CHAIN.segments[: known - 1], opened]))
    positions: ReaderPositions[str] = ReaderPositions(1)
    pull = PullFrom("reader", offset, positions, looks_for_reader=looks_for_reader)
    outcome = brokers.pull(pull)
    assert isinstance(outcome, PullAsk)
    truly = CHAIN.locate(offset)
    assert truly is not None
    assert outcome.located.segment.key == truly.segment.key
    assert outcome.located.queue_offset == truly.queue_offset
    assert len(brokers.asked) == len(set(brokers.asked))


def test_offsets_that_nobody_has_are_passed_over_only_on_the_word_of_a_name_server() -> None:
    gap = Chain(0, [FIRST, THIRD])
    positions: ReaderPositions[str] = ReaderPositions(1)
    brokers = Brokers(gap, gap)
    assert brokers.pull(PullFrom("reader", 12, positions)) == GoesOn(15, gap)
    assert brokers.looks == 1
    brokers = Brokers(CHAIN, gap)
    outcome = brokers.pull(PullFrom("reader", 12, positions))
    assert isinstance(outcome, PullAsk)
    assert outcome.located.segment == SECOND


def test_a_queue_without_anything_to_read_makes_readers_wait() -> None:
    empty = Chain(0, [at("a", 0, 0, EXPIRED)])
    positions: ReaderPositions[str] = ReaderPositions(1)
    assert Brokers(empty, empty).pull(PullFrom("reader", 0, positions)) == NothingYet(empty)
