"""Whatever the segments of a logical queue, it answers as one message queue with all messages."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.wire.bodies import MessageQueue
from lanemq.wire.logical import (
    Ask,
    Asked,
    Boundary,
    Chain,
    LookAgain,
    Moving,
    Reply,
    SearchByTime,
    Segment,
    SegmentState,
    Step,
    Told,
    earliest_time_ms,
    hold,
    max_offset,
    min_offset,
)

TIMES: Final = 2000


@dataclass
class MessageQueueOfABroker:
    """The store times of a message queue's messages, from offset ``begin`` on."""

    begin: int
    times: list[int]

    @property
    def end(self) -> int:
        return self.begin + len(self.times)

    def offset_at(self, time_ms: int, boundary: Boundary) -> int:
        """Answer as a broker does (``storage/messages/_times.py``)."""
        return self.begin + nearest(self.times, time_ms, boundary)


def nearest(times: list[int], time_ms: int, boundary: Boundary) -> int:
    """Return the number of the message that one queue with these messages answers."""
    first = bisect_left(times, time_ms)
    if boundary is Boundary.LOWER or not times:
        return first
    if boundary is Boundary.UPPER:
        return max(bisect_left(times, time_ms + 1) - 1, 0)
    if first == len(times):
        return first - 1
    is_before = first > 0 and times[first] != time_ms
    if is_before and time_ms - times[first - 1] <= times[first] - time_ms:
        return first - 1
    return first


@dataclass
class World:
    """A logical queue, the message queues that it is on, and what is left of it."""

    chain: Chain
    queues: dict[MessageQueue, MessageQueueOfABroker]
    left: list[tuple[int, int]]
    """Logical offset and store time of each message."""
    end: int
    asked: int = 0

    def answer(self, step: Step) -> Reply:
        """Answer as brokers do, for whole message queues."""
        self.asked += 1
        if isinstance(step, LookAgain):
            return self.chain
        queue = self.queues[step.segment.message_queue]
        match step.asked:
            case Asked.MIN_OFFSET:
                return Told(queue.begin)
            case Asked.MAX_OFFSET:
                return Told(queue.end)
            case Asked.EARLIEST_TIME:
                return Told(queue.times[0] if queue.times else -1)
            case Asked.OFFSET_AT:
                return Told(queue.offset_at(step.timestamp_ms, step.boundary))


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Draw segments with messages, without any, expired, forced, and beside others' messages."""
    segments: list[Segment] = []
    queues: dict[MessageQueue, MessageQueueOfABroker] = {}
    left: list[tuple[int, int]] = []
    delta, time_ms = draw(st.integers(0, 3)), draw(st.integers(1, 3))
    count = draw(st.integers(1, 5))
    for number in range(count):
        queue = MessageQueue("T", f"b{number}", number)
        steps = st.lists(st.integers(0, 4), max_size=4)

        def stamps(steps: list[int]) -> list[int]:
            nonlocal time_ms
            found = []
            for step in steps:
                time_ms += step
                found.append(time_ms)
            return found

        earlier, own = stamps(draw(steps)), stamps(draw(steps))
        time_ms += draw(st.sampled_from([0, 1, 2, 7, 100]))
        is_open = number == count - 1 and draw(st.booleans())
        later = [] if is_open else [*map(time_ms.__add__, sorted(draw(steps)))]
        base = draw(st.integers(0, 3))
        times = [*earlier, *own, *later]
        removed = draw(st.integers(0, len(times)) | st.just(0))
        queues[queue] = MessageQueueOfABroker(base + removed, times[removed:])
        segment = Segment(
            queue, 0, delta, offset_delta=base + len(earlier), state=SegmentState.NORMAL
        )
        kept = own[max(0, removed - len(earlier)) :]
        if not is_open:
            knows_times = draw(st.booleans())
            segment = segment.sealed(
                segment.offset_delta + len(own),
                first_time_ms=own[0] if own and knows_times else 0,
                last_time_ms=own[-1] if own and knows_times else 0,
            )
            if not kept and draw(st.booleans()):
                segment = segment.with_state(SegmentState.EXPIRED)
        segments.append(segment)
        begin = delta + len(own) - len(kept)
        left += [(begin + at, stamp) for at, stamp in enumerate(kept)]
        delta += len(own)
        if number < count - 1:
            delta += draw(st.sampled_from([0, 0, 0, 5]))  # forced: offsets without messages
    return World(Chain(0, segments), queues, left, delta)


@given(worlds(), st.integers(-1, 150), st.sampled_from(Boundary))
def test_a_search_by_time_is_that_of_one_message_queue(
    world: World, time_ms: int, boundary: Boundary
) -> None:
    at = nearest([stamp for _, stamp in world.left], time_ms, boundary)
    expected = world.left[at][0] if at < len(world.left) else world.end
    assert hold(SearchByTime(time_ms, boundary).steps(world.chain), world.answer) == expected
    assert world.asked <= 6 * len(world.chain) + 10


@given(worlds())
def test_bounds_are_those_of_one_message_queue(world: World) -> None:
    offsets = [offset for offset, _ in world.left]
    assert hold(max_offset(world.chain), world.answer) == world.end
    assert hold(min_offset(world.chain), world.answer) == min(offsets, default=world.end)
    first_ms = world.left[0][1] if world.left else -1
    assert hold(earliest_time_ms(world.chain), world.answer) == first_ms


def example(answer: Callable[[Segment], Segment] = lambda segment: segment) -> World:
    """Return segments with store times 800, 900, 1000 and 2000, 2100."""
    queues = [MessageQueue("T", f"b{n}", 0) for n in range(2)]
    times = [[800, 900, 1000], [2000, 2100]]
    first = Segment(queues[0], 0, 0, state=SegmentState.NORMAL)
    first = answer(first.sealed(3, first_time_ms=800, last_time_ms=1000))
    second = Segment(queues[1], 0, 3, state=SegmentState.NORMAL)
    on = dict(zip(queues, (MessageQueueOfABroker(0, one) for one in times), strict=True))
    return World(Chain(0, [first, second]), on, [*enumerate([*times[0], *times[1]])], 5)


def test_the_neighbours_of_a_time_may_be_in_two_segments() -> None:
    """Also if a name server does not know yet when the last message of the first was stored."""
    for world in (example(), example(lambda first: replace(first, last_time_ms=0))):
        for time_ms in range(TIMES + 200):
            answers = {
                boundary: hold(SearchByTime(time_ms, boundary).steps(world.chain), world.answer)
                for boundary in Boundary
            }
            times = [stamp for _, stamp in world.left]
            assert answers == {one: nearest(times, time_ms, one) for one in Boundary}
        assert hold(SearchByTime(1200).steps(world.chain), world.answer) == 2
        lower = SearchByTime(1200, Boundary.LOWER)
        assert hold(lower.steps(world.chain), world.answer) == 3


def test_the_end_of_a_queue_that_moves_too_quickly_is_not_guessed() -> None:
    world = example()
    open_end = world.chain[1]

    def answer(step: Step) -> Reply:
        if isinstance(step, Ask):
            return Told(2, is_continued=True)
        moved = replace(
            open_end, message_queue=MessageQueue("T", "b2", world.asked), delta=5 + world.asked
        )
        world.asked += 1
        return Chain(0, [world.chain[0], open_end.sealed(2), moved])

    with pytest.raises(Moving):
        hold(max_offset(world.chain), answer)
