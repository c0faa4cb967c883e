"""Offsets kept by brokers: those of a queue that was given up before they could be committed."""

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk._errors import BrokerUnreachable
from lanemq.sdk.consumer.group._offsets import GroupOffsets
from lanemq.wire.bodies import MessageQueue

QUEUE = MessageQueue("T", "b", 0)


class FakeCalls:
    """One broker, which keeps the group's offset while it is there."""

    def __init__(self) -> None:
        self.committed: int | None = 10
        self.is_there = True
        self.kept_at = "b"
        self.loses_what_it_does_not_answer = False

    def place(self, queue: MessageQueue) -> str:
        return self.kept_at

    async def committed_offset(self, queue: MessageQueue) -> int | None:
        return self.committed

    async def commit_offset(self, queue: MessageQueue, offset: int, *, wait: bool) -> None:
        if not self.is_there:
            raise BrokerUnreachable("b", "it is gone")
        if wait or not self.loses_what_it_does_not_answer:
            self.committed = offset


@pytest.fixture
def calls() -> FakeCalls:
    return FakeCalls()


@pytest.fixture
async def offsets(calls: FakeCalls) -> GroupOffsets:
    """Those of a consumer that gave up a queue at 20, of which its broker has 10."""
    offsets = GroupOffsets(calls)
    offsets.update(QUEUE, 20)
    calls.is_there = False
    await offsets.persist([QUEUE], wait=True)
    offsets.forget(QUEUE)
    return offsets


async def test_the_same_consumer_goes_on_behind_what_it_handled(offsets: GroupOffsets) -> None:
    assert await offsets.load(QUEUE) == 20
    offsets.forget(QUEUE)
    assert await offsets.load(QUEUE) == 10


async def test_another_one_may_have_gone_further(offsets: GroupOffsets, calls: FakeCalls) -> None:
    calls.committed = 30
    assert await offsets.load(QUEUE) == 30


async def test_where_nothing_was_ever_committed_it_goes_on_too(
    offsets: GroupOffsets, calls: FakeCalls
) -> None:
    calls.committed = None
    assert await offsets.load(QUEUE) == 20


async def test_it_is_remembered_for_a_minute(
    autojump_clock: MockClock, offsets: GroupOffsets
) -> None:
    await trio.sleep(61)
    assert await offsets.load(QUEUE) == 10


async def test_what_was_committed_is_the_broker_s_word(calls: FakeCalls) -> None:
    offsets = GroupOffsets(calls)
    offsets.update(QUEUE, 20)
    await offsets.persist([QUEUE], wait=True)
    offsets.forget(QUEUE)
    calls.committed = 5  # an operator's reset
    assert await offsets.load(QUEUE) == 5


@pytest.mark.parametrize(("cut_off", "goes_on_at"), [(True, 20), (False, 10)])
async def test_what_was_told_to_a_broker_that_went_away_may_never_have_arrived(
    calls: FakeCalls, cut_off: bool, goes_on_at: int
) -> None:
    calls.loses_what_it_does_not_answer = True
    offsets = GroupOffsets(calls)
    offsets.update(QUEUE, 20)
    await offsets.persist([QUEUE], wait=False)
    offsets.forget(QUEUE, cut_off=cut_off)
    assert await offsets.load(QUEUE) == goes_on_at


async def test_a_reset_by_somebody_else_counts_more(calls: FakeCalls) -> None:
    """The consumer is not told: it has lost the queue together with the connection."""
    offsets = GroupOffsets(calls)
    assert await offsets.load(QUEUE) == 10
    offsets.update(QUEUE, 20)
    await offsets.persist([QUEUE], wait=False)
    offsets.forget(QUEUE, cut_off=True)
    calls.committed = 5
    assert await offsets.load(QUEUE) == 5


async def test_so_does_one_back_to_what_was_committed_a_while_ago(
    autojump_clock: MockClock, calls: FakeCalls
) -> None:
    offsets = GroupOffsets(calls)
    assert await offsets.load(QUEUE) == 10
    for offset in (20, 30):
        offsets.update(QUEUE, offset)
        await offsets.persist([QUEUE], wait=False)
        await trio.sleep(5)
    offsets.update(QUEUE, 35)
    offsets.forget(QUEUE, cut_off=True)
    calls.committed = 29
    assert await offsets.load(QUEUE) == 29


@pytest.mark.parametrize("moves_first", [True, False])
async def test_a_queue_that_moves_meanwhile_goes_on_at_the_group_s_offset(
    calls: FakeCalls, moves_first: bool
) -> None:
    """It may have gone on with other messages than those that were read."""
    offsets = GroupOffsets(calls)
    assert await offsets.load(QUEUE) == 10
    offsets.update(QUEUE, 20)
    if moves_first:
        calls.kept_at = "c"
    offsets.forget(QUEUE, cut_off=True)
    calls.kept_at = "c"
    assert await offsets.load(QUEUE) == 10
    assert not offsets.finished_late(QUEUE, 20, 21, is_held=True)
    assert not offsets.finished_late(QUEUE, 10, 21, is_held=True)


async def test_what_is_finished_late_counts_before_and_after_the_queue_is_taken_again(
    calls: FakeCalls,
) -> None:
    offsets = GroupOffsets(calls)
    assert await offsets.load(QUEUE) == 10
    offsets.update(QUEUE, 20)
    offsets.forget(QUEUE, cut_off=True)
    assert not offsets.finished_late(QUEUE, 20, 21, is_held=False)  # nothing has to be read again
    assert await offsets.load(QUEUE) == 21
    assert not offsets.finished_late(QUEUE, 21, 22, is_held=False)  # it was not taken after all
    assert offsets.get(QUEUE) is None
    assert await offsets.load(QUEUE) == 22
    offsets.forget(QUEUE, cut_off=True)  # before anything was read
    assert await offsets.load(QUEUE) == 22
    assert offsets.finished_late(QUEUE, 22, 23, is_held=True)
    assert offsets.get(QUEUE) == 23
    assert not offsets.finished_late(QUEUE, 22, 24, is_held=True)
    assert offsets.get(QUEUE) == 23
    offsets.reset(QUEUE, 3)
    assert not offsets.finished_late(QUEUE, 23, 24, is_held=True)


async def test_an_operator_s_word_ends_what_is_remembered(offsets: GroupOffsets) -> None:
    offsets.discard(QUEUE)
    assert await offsets.load(QUEUE) == 10


async def test_a_reset_counts_more(offsets: GroupOffsets) -> None:
    offsets.reset(QUEUE, 3)
    offsets.forget(QUEUE)
    assert await offsets.load(QUEUE) == 10


async def test_what_a_broker_lost_in_a_crash_is_committed_again_though_nothing_was_handled(
    autojump_clock: MockClock, calls: FakeCalls
) -> None:
    """It confirms what it writes some seconds later."""
    offsets = GroupOffsets(calls)
    offsets.update(QUEUE, 20)
    await offsets.persist(wait=False)
    calls.committed = None
    await offsets.persist(wait=False)
    assert calls.committed is None  # not every time
    await trio.sleep(31)
    await offsets.persist(wait=False)
    assert calls.committed == 20


async def test_what_was_committed_without_an_answer_is_committed_again_to_be_sure(
    calls: FakeCalls, autojump_clock: MockClock
) -> None:
    offsets = GroupOffsets(calls)
    offsets.update(QUEUE, 20)
    calls.loses_what_it_does_not_answer = True
    await offsets.persist(wait=False)
    assert calls.committed == 10
    assert await offsets.persist(wait=True) == []
    assert calls.committed == 20
    calls.is_there = False
    assert await offsets.persist(wait=True) == []  # nothing is left to be said
    offsets.update(QUEUE, 30)
    (failure,) = await offsets.persist(wait=True)
    assert isinstance(failure, BrokerUnreachable)
