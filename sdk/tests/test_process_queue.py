"""Whatever the order of settling, the offset to commit never passes an unsettled message."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lanemq.sdk import FlowLimits
from lanemq.sdk.consumer.pulls._process_queue import ProcessQueue


@dataclass(frozen=True)
class Item:
    queue_offset: int
    size_bytes: int = 10


class ProcessQueueMachine(RuleBasedStateMachine):
    """Against a model: the set of offsets that were put and not settled."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: ProcessQueue[Item] = ProcessQueue(100)
        self.model: dict[int, Item] = {}
        self.next_offset = 100
        self.settled: set[int] = set()

    @rule(gaps=st.lists(st.integers(1, 4), max_size=8), tail=st.integers(0, 3))
    def pull(self, gaps: list[int], tail: int) -> None:
        offsets, at = [], self.next_offset - 1
        for gap in gaps:  # what is between was filtered out
            at += gap
            offsets.append(at)
        items = [Item(offset, size_bytes=offset % 7 + 1) for offset in offsets]
        self.next_offset = at + 1 + tail
        assert self.queue.put(items, self.next_offset) == items
        self.model.update((item.queue_offset, item) for item in items)

    @rule()
    def the_same_pull_comes_twice(self) -> None:
        items = sorted(self.model.values(), key=lambda item: item.queue_offset)
        assert self.queue.put(items, self.next_offset) == []

    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        if self.model:
            chosen = data.draw(st.lists(st.sampled_from(sorted(self.model)), unique=True))
            items = [self.model.pop(offset) for offset in chosen]
            self.settled.update(chosen)
            self.queue.release(items)

    @rule(data=st.data())
    def settle_what_is_not_held(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, 10_000).filter(lambda n: n not in self.model))
        before = self.queue.commit_offset
        self.queue.release([Item(offset)])
        assert self.queue.commit_offset == before

    @rule(data=st.data())
    def an_old_message_comes_again(self, data: st.DataObject) -> None:
        if self.settled:
            offset = data.draw(st.sampled_from(sorted(self.settled)))
            item = Item(offset)
            if offset not in self.model:
                assert self.queue.put([item], self.next_offset) == [item]
                self.model[offset] = item

    @invariant()
    def agrees_with_the_model(self) -> None:
        queue, offsets = self.queue, sorted(self.model)
        assert queue.offsets == offsets
        assert queue.count == len(offsets)
        assert queue.size_bytes == sum(item.size_bytes for item in self.model.values())
        assert queue.commit_offset == (offsets[0] if offsets else self.next_offset)
        assert queue.span == (offsets[-1] - offsets[0] if offsets else 0)


TestProcessQueue = ProcessQueueMachine.TestCase


@given(st.permutations(range(50)))
def test_the_commit_offset_only_goes_forward(order: list[int]) -> None:
    queue: ProcessQueue[Item] = ProcessQueue(0)
    queue.put([Item(offset) for offset in range(50)], 50)
    committed = []
    for offset in order:
        queue.release([Item(offset)])
        committed.append(queue.commit_offset)
    assert committed == sorted(committed)
    assert committed[-1] == 50


@pytest.mark.parametrize("step", [-1, 7, 501])
def test_an_answer_in_any_order_is_put_in_order_once(step: int) -> None:
    """Steps, not seconds: a broker may answer with its offsets descending, 100,000 of them."""
    compared = 0

    class Offset(int):
        def __lt__(self, other: int) -> bool:
            nonlocal compared
            compared += 1
            return int(self) < int(other)

    count = 1000
    items = [Item(Offset(number * step % count)) for number in range(count)]
    queue: ProcessQueue[Item] = ProcessQueue(0)
    assert queue.put(items, count) == items
    assert compared <= 10 * count, "sorted for each message"
    assert (queue.commit_offset, queue.span) == (0, count - 1)
    queue.release([Item(0), Item(count - 1)])
    assert (queue.commit_offset, queue.span) == (1, count - 3)


def test_a_cleared_queue_holds_nothing() -> None:
    queue: ProcessQueue[Item] = ProcessQueue(5)
    queue.put([Item(5), Item(6)], 7)
    queue.clear()
    assert (queue.count, queue.size_bytes, queue.span, queue.offsets) == (0, 0, 0, [])


@pytest.mark.parametrize(
    ("limits", "offsets", "held_back"),
    [
        (FlowLimits(messages=2), [0, 1], None),
        (FlowLimits(messages=2), [0, 1, 2], "3 messages"),
        (FlowLimits(size_bytes=20), [0, 1], None),
        (FlowLimits(size_bytes=20), [0, 1, 2], "30 bytes"),
        (FlowLimits(span=5), [0, 5], None),
        (FlowLimits(span=5), [0, 6], "6 behind"),
    ],
)
def test_a_limit_holds_back_only_when_passed(
    limits: FlowLimits, offsets: list[int], held_back: str | None
) -> None:
    queue: ProcessQueue[Item] = ProcessQueue(0)
    queue.put([Item(offset) for offset in offsets], offsets[-1] + 1)
    reason = limits.exceeded_by(queue)
    assert (reason is None) if held_back is None else (reason is not None and held_back in reason)


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"FlowLimits\.span"):
        FlowLimits(span=0)
