"""The invariants of stages hold for any arrivals, failures, resets and crashes."""

from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from lanemq.sdk.consumer.pool._stage_scheduler import Batch, StageScheduler
from lanemq.sdk.listeners._ordered_listeners import StageCounter
from lanemq.wire.message import STAGE_OFFSET_MAX, StageRecord, Stages


@dataclass(frozen=True)
class M:
    queue_offset: int
    size_bytes: int = 1


def messages(*offsets: int) -> list[M]:
    return [M(offset) for offset in offsets]


def offsets(batch: Batch[M] | None) -> list[int]:
    assert batch is not None
    return [message.queue_offset for message in batch.messages]


def scheduler_of(*sizes: int, arrived: int = 0, batch_messages: int = 1) -> StageScheduler[M]:
    scheduler = StageScheduler[M](Stages(sizes), StageRecord(0, 0), batch_messages=batch_messages)
    scheduler.put(messages(*range(arrived)), arrived)
    return scheduler


def take_all(scheduler: StageScheduler[M]) -> list[Batch[M]]:
    batches = []
    while (batch := scheduler.take()) is not None:
        batches.append(batch)
    return batches


SIZES = st.lists(st.integers(1, 4), max_size=4)


class Staged(RuleBasedStateMachine):
    """A queue with holes (other tags), a listener that fails at will, a process that crashes.

    ``committed`` is what a broker would have: any record that was current at some time since
    the last crash, but never an older one than a reset made last.
    """

    @initialize(
        sizes=SIZES,
        batch_messages=st.integers(1, 4),
        start=st.integers(0, 3),
        resets=st.booleans(),
        crashes=st.booleans(),
    )
    def open(
        self, sizes: list[int], batch_messages: int, start: int, resets: bool, crashes: bool
    ) -> None:
        self.with_resets, self.with_crashes = resets, crashes
        self.stages, self.batch_messages = Stages(sizes), batch_messages
        self.queue: list[M] = []  # what the subscription delivers, ever
        self.end = self.pulled = start  # of the queue, and of what was pulled
        self.finished: set[int] = set()
        self.numbers: dict[int, int] = {}  # of offsets, as handed out since the last reset
        self.wanted_reset: int | None = None
        self.committed = StageRecord(start, 0)
        self._start()

    def _start(self) -> None:
        self.scheduler = StageScheduler[M](
            self.stages,
            self.committed,
            batch_messages=self.batch_messages,
            reset=self._reset,
        )
        self.pulled = self.committed.queue_offset
        self.running: list[Batch[M]] = []
        self.suspended: list[Batch[M]] = []
        self.ready: list[Batch[M]] = []

    def _reset(self, counter: StageCounter) -> None:
        if self.wanted_reset is not None:
            assert counter.compare_and_set(counter.value, self.wanted_reset)
            self.wanted_reset = None

    # The world

    @rule(gap=st.integers(0, 2), count=st.integers(1, 5))
    def arrive(self, gap: int, count: int) -> None:
        for _ in range(count):
            self.queue.append(M(self.end + gap))
            self.end += gap + 1

    @rule(count=st.integers(1, 6))
    def pull(self, count: int) -> None:
        found = [m for m in self.queue if m.queue_offset >= self.pulled][:count]
        if found:
            self.pulled = found[-1].queue_offset + 1
            self.scheduler.put(found, self.pulled)
        else:
            self.pulled = self.end
            self.scheduler.skip_to(self.end)

    @rule(count=st.integers(1, 8))
    def take(self, count: int) -> None:
        for _ in range(count):
            self._take_one()

    def _take_one(self) -> None:
        batch = self.scheduler.take()
        if batch is None:
            self._check_nothing_may_run()
        elif batch in self.ready:
            self.ready.remove(batch)
            self.running.append(batch)
        else:
            self._check_handed_out(batch)
            self.running.append(batch)

    def _check_handed_out(self, batch: Batch[M]) -> None:
        assert 1 <= len(batch.messages) <= self.batch_messages
        stages = {self.stages.stage_of(number) for number in batch.numbers}
        assert len(stages) == 1, "a batch never spans two stages"
        first = batch.messages[0].queue_offset
        for earlier in self.queue:
            if earlier.queue_offset >= first:
                break
            if earlier.queue_offset in self.finished:
                continue
            # Not finished yet: it must run beside this batch, in the same stage.
            number = self.numbers[earlier.queue_offset]
            assert {self.stages.stage_of(number)} == stages
        for message, number in zip(batch.messages, batch.numbers, strict=True):
            before = self.numbers.setdefault(message.queue_offset, number)
            assert before == number, "a crash never moves a boundary"

    def _check_nothing_may_run(self) -> None:
        assert not self.ready, "what may run again runs"
        if self.scheduler.must_save or self.scheduler._turning:
            return
        waiting = [
            m
            for m in self.queue
            if m.queue_offset < self.pulled
            and m.queue_offset >= self.committed.queue_offset
            and m.queue_offset not in self._held()
            and m.queue_offset >= self._frontier()
        ]
        if waiting:
            in_flight = self.running + self.suspended
            assert in_flight, "what has arrived runs"
            stages = {self.stages.stage_of(n) for batch in in_flight for n in batch.numbers}
            assert len(stages) == 1
            assert self.stages.stage_of(self.scheduler._number) != stages.pop()

    def _held(self) -> set[int]:
        batches = self.running + self.suspended + self.ready
        return {m.queue_offset for batch in batches for m in batch.messages}

    def _frontier(self) -> int:
        waiting = self.scheduler._waiting
        return waiting[0].queue_offset if waiting else self.end

    # The listener

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def succeed(self, data: st.DataObject) -> None:
        batch = data.draw(st.sampled_from(self.running))
        self.running.remove(batch)
        self.finished.update(m.queue_offset for m in batch.messages)
        self.scheduler.finish(batch)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def give_up_some(self, data: st.DataObject) -> None:
        batch = data.draw(st.sampled_from(self.running))
        gone = data.draw(st.lists(st.sampled_from(batch.messages), unique=True, min_size=1))
        whole = len(gone) == len(batch.messages)
        self.finished.update(m.queue_offset for m in gone)
        self.scheduler.finish(batch, gone)
        if whole:
            self.running.remove(batch)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def suspend(self, data: st.DataObject) -> None:
        batch = data.draw(st.sampled_from(self.running))
        self.running.remove(batch)
        self.suspended.append(batch)
        self.scheduler.suspend(batch)

    @precondition(lambda self: self.suspended)
    @rule(data=st.data())
    def resume(self, data: st.DataObject) -> None:
        batch = data.draw(st.sampled_from(self.suspended))
        self.suspended.remove(batch)
        self.ready.append(batch)
        self.scheduler.resume(batch)

    # Resets, commits and crashes

    @precondition(lambda self: self.with_resets)
    @rule(number=st.integers(0, 12))
    def want_a_reset(self, number: int) -> None:
        self.wanted_reset = number

    @precondition(lambda self: self.scheduler.must_save)
    @rule()
    def save(self) -> None:
        assert not self._held(), "a reset waits for what was handed out before"
        self.committed = self.scheduler.record
        # From here on messages have other numbers.
        at = self.committed.queue_offset
        self.numbers = {o: n for o, n in self.numbers.items() if o < at}
        self.scheduler.saved()

    @rule()
    def commit(self) -> None:
        if not self.scheduler._turning:
            self.committed = self.scheduler.record

    @precondition(lambda self: self.with_crashes)
    @rule()
    def crash(self) -> None:
        self._start()

    @invariant()
    def the_record_is_the_first_unfinished_message_and_its_number(self) -> None:
        record = self.scheduler.record
        for message in self.queue:
            offset = message.queue_offset
            if self.committed.queue_offset <= offset < record.queue_offset:
                assert offset in self.finished
        number = self.numbers.get(record.queue_offset)
        if number is not None and record.queue_offset in self._held():
            assert record.stage_offset == number


Staged.TestCase.settings = settings(
    max_examples=150, stateful_step_count=60, suppress_health_check=list(HealthCheck), deadline=None
)
TestStaged = Staged.TestCase


@given(SIZES, st.integers(0, 20), st.integers(1, 4))
def test_what_has_arrived_of_a_stage_runs_at_once(
    sizes: list[int], arrived: int, batch_messages: int
) -> None:
    scheduler = scheduler_of(*sizes, arrived=arrived, batch_messages=batch_messages)
    seen: list[int] = []
    for size in [*sizes, 10**6]:
        expected = list(range(len(seen), min(len(seen) + size, arrived)))
        batches = take_all(scheduler)
        assert [o for batch in batches for o in offsets(batch)] == expected
        assert len(batches) == -(-len(expected) // batch_messages)
        seen += expected
        for batch in reversed(batches):
            scheduler.finish(batch)
    assert scheduler.record == StageRecord(arrived, arrived)


def test_a_stage_waits_for_the_last_of_the_one_before() -> None:
    scheduler = scheduler_of(2, 2, arrived=4)
    one, two = take_all(scheduler)
    scheduler.finish(one)
    assert scheduler.take() is None
    scheduler.finish(two)
    assert [offsets(batch) for batch in take_all(scheduler)] == [[2], [3]]


def test_a_suspended_message_holds_back_the_next_stage_but_not_its_siblings() -> None:
    scheduler = scheduler_of(3, 1, arrived=2)
    one, two = take_all(scheduler)
    scheduler.suspend(one)
    scheduler.finish(two)
    scheduler.put(messages(2, 3), 4)
    (three,) = take_all(scheduler)
    assert offsets(three) == [2]
    scheduler.finish(three)
    assert scheduler.record == StageRecord(0, 0)
    scheduler.resume(one)
    assert scheduler.take() is one
    assert scheduler.take() is None
    scheduler.finish(one)
    assert offsets(scheduler.take()) == [3]


def test_a_batch_of_which_a_part_was_given_up_goes_on_with_the_rest() -> None:
    scheduler = scheduler_of(3, arrived=3, batch_messages=3)
    batch = scheduler.take()
    assert batch is not None
    scheduler.finish(batch, batch.messages[:1])
    assert offsets(batch) == [1, 2]
    assert scheduler.record == StageRecord(1, 1)
    scheduler.suspend(batch)
    scheduler.resume(batch)
    assert scheduler.take() is batch
    scheduler.finish(batch, batch.messages)
    assert scheduler.record == StageRecord(3, 3)


def test_serial_hands_out_one_batch_at_a_time() -> None:
    scheduler = StageScheduler[M](Stages(), StageRecord(0, 0), batch_messages=2, serial=True)
    scheduler.put(messages(0, 1, 2), 3)
    first = scheduler.take()
    assert offsets(first) == [0, 1]
    assert scheduler.take() is None
    assert first is not None
    scheduler.finish(first)
    assert offsets(scheduler.take()) == [2]


def test_other_tags_do_not_count() -> None:
    scheduler = StageScheduler[M](Stages([2, 1]), StageRecord(10, 0))
    scheduler.put(messages(12, 17, 20), 25)
    batches = take_all(scheduler)
    assert [offsets(batch) for batch in batches] == [[12], [17]]
    assert scheduler.record == StageRecord(12, 0)
    for batch in batches:
        scheduler.finish(batch)
    assert scheduler.record == StageRecord(20, 2)
    (last,) = take_all(scheduler)
    scheduler.finish(last)
    assert scheduler.record == StageRecord(25, 3)
    scheduler.skip_to(30)
    assert scheduler.record == StageRecord(30, 3)


def test_a_reset_waits_for_what_runs_and_for_its_record() -> None:
    seen: list[int] = []

    def reset(counter: StageCounter) -> None:
        seen.append(counter.value)
        assert not counter.compare_and_set(99, 0)
        if counter.value == 2:
            assert counter.compare_and_set(2, 0)

    scheduler = StageScheduler[M](Stages([1, 5]), StageRecord(0, 0), reset=reset)
    scheduler.put(messages(0, 1, 2, 3), 4)
    first = scheduler.take()
    assert first is not None
    assert scheduler.take() is None
    scheduler.finish(first)
    second = scheduler.take()
    assert second is not None
    assert scheduler.take() is None, "message 2 begins again, and waits for message 1"
    must_save = [scheduler.must_save]
    scheduler.finish(second)
    assert scheduler.take() is None
    must_save.append(scheduler.must_save)
    assert must_save == [False, True]
    assert scheduler.record == StageRecord(2, 0)
    scheduler.saved()
    assert offsets(scheduler.take()) == [2]
    assert scheduler.record == StageRecord(2, 0)
    assert scheduler.take() is None, "stage 0 of the new count has one message again"
    assert seen == [0, 1, 1, 2, 0, 1]


def test_numbers_stop_where_no_stage_is() -> None:
    start = StageRecord(0, STAGE_OFFSET_MAX - 1)
    scheduler = StageScheduler[M](Stages([1]), start, batch_messages=3)
    scheduler.put(messages(*range(6)), 6)
    assert [len(batch.messages) for batch in take_all(scheduler)] == [3, 3]
    assert scheduler._number == STAGE_OFFSET_MAX


def test_a_batch_cannot_leave_its_path() -> None:
    scheduler = scheduler_of(2, arrived=2)
    one, two = take_all(scheduler)
    with pytest.raises(AssertionError):
        scheduler.resume(one)
    scheduler.suspend(one)
    with pytest.raises(AssertionError):
        scheduler.suspend(one)
    scheduler.resume(one)
    assert one.state.value == "ready"
    with pytest.raises(AssertionError):
        scheduler.finish(one)
    scheduler.finish(two)
    with pytest.raises(AssertionError):
        scheduler.finish(two)


def test_a_counter_takes_only_what_can_be_counted() -> None:
    counter = StageCounter(4)
    for number in (-1, STAGE_OFFSET_MAX + 1):
        with pytest.raises(ValueError, match="stage offset"):
            counter.compare_and_set(4, number)
    assert not counter.compare_and_set(3, 0)
    assert counter.compare_and_set(4, 9)
    assert repr(counter) == "StageCounter(9)"
