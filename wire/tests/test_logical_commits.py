"""Commits to a logical queue are found again as in one message queue."""

from dataclasses import dataclass, field, replace
from typing import Final, final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.wire.bodies import MessageQueue
from lanemq.wire.logical import (
    Chain,
    CommitAsk,
    CommitTo,
    NotKept,
    NotReached,
    ProgressPlace,
    ProgressSearch,
    ReaderPositions,
    Segment,
    SegmentState,
    Taken,
    progress_keepers,
)

GROUP: Final = "readers"
READER: Final = "reader"


@final
@dataclass
class World:
    """A logical queue that moves from broker to broker, and what these keep of one group."""

    counts: list[int] = field(default_factory=list)
    """Messages of each segment but the last, which is open."""
    kept: dict[MessageQueue, int] = field(default_factory=dict)

    @property
    def chain(self) -> Chain:
        segments, delta = [], 0
        for number, count in enumerate([*self.counts, None]):
            end = -1 if count is None else count
            state = SegmentState.NORMAL if count is None else SegmentState.READ_ONLY
            queue = MessageQueue("T", f"b{number}", 0)
            segments.append(Segment(queue, 3, delta, offset_max=end, state=state))
            delta += count or 0
        return Chain(3, segments)

    def commit(self, commit: CommitTo, away: set[str]) -> ProgressPlace | NotKept:
        """Hold the conversation; brokers ``away`` are not reached."""
        steps = commit.steps(self.chain)
        try:
            asked = next(steps)
            while True:
                assert isinstance(asked, CommitAsk)
                is_away = asked.place.queue.broker_name in away
                if not is_away:
                    self.kept[asked.place.queue] = asked.offset
                asked = steps.send(NotReached(is_down=True) if is_away else Taken())
        except StopIteration as end:
            outcome: ProgressPlace | NotKept = end.value
            return outcome

    def progress(self) -> int | None:
        """Search as a reader does that begins, with all brokers there."""
        search = ProgressSearch(GROUP, self.chain)
        for place in search:
            search.told(place, self.kept.get(place.queue), is_certain=place.queue in self.kept)
        return search.offset


moves = st.integers(1, 9)


@given(st.lists(st.tuples(moves, st.floats(0, 1)), max_size=6))
def test_the_last_commit_is_found_wherever_the_queue_ends_by_then(
    steps: list[tuple[int, float]],
) -> None:
    """Between moves the group commits an offset up to the queue's end, backwards too."""
    world, expected, end = World(), None, 0
    for count, part in steps:
        expected = round(part * (end + count))
        assert isinstance(world.commit(CommitTo(expected), set()), ProgressPlace)
        assert world.progress() == expected
        world.counts.append(count)
        end += count
        assert world.progress() == expected
    assert world.progress() == expected


@given(st.lists(moves, max_size=4), st.integers(0, 40), st.sets(st.sampled_from("01234")))
def test_a_commit_is_kept_at_the_latest_place_that_is_reached(
    counts: list[int], offset: int, numbers: set[str]
) -> None:
    world, away = World(counts), {f"b{number}" for number in numbers}
    places = list(progress_keepers(world.chain))
    there = [place for place in places if place.queue.broker_name not in away]
    outcome = world.commit(CommitTo(offset), away)
    assert outcome == (there[0] if there else NotKept.NO_KEEPER)
    if there:
        assert world.kept == {there[0].queue: offset}
        found = world.progress()
        assert found is not None
        assert found <= offset, "no message is passed over"
        end = there[0].segment.end_offset
        assert found == (offset if end is None else min(offset, end))


@given(st.integers(1, 20), st.integers(0, 20), st.integers(0, 20), st.booleans())
def test_a_commit_from_behind_a_cut_counts_up_to_the_cut(
    cut: int, read: int, committed: int, is_known: bool
) -> None:
    """The queue went on by force at ``cut``, without the source from which ``read`` was given."""
    source = Segment(MessageQueue("T", "b0", 0), 3, 0)
    forced = Segment(MessageQueue("T", "b1", 0), 3, cut, is_forced=True)
    positions: ReaderPositions[str] = ReaderPositions(10)
    if is_known:
        positions.note(READER, source, read)
    commit = CommitTo.of_reader(READER, committed, positions)
    gone_past = replace(source, state=SegmentState.EXPIRED, offset_max=cut)
    counts = commit.in_chain(Chain(3, [gone_past, forced]))
    if not is_known or committed > read:
        doubtful = not is_known and committed > cut
        assert counts == (None if doubtful else committed)
    else:
        assert counts == min(committed, cut)
    if counts is None:
        with pytest.raises(StopIteration) as outcome:
            next(commit.steps(Chain(3, [gone_past, forced])))
        assert outcome.value.value is NotKept.NOT_COUNTED
