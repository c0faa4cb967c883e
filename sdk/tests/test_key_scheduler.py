"""Order by key holds for any arrivals, failures and crashes; progress passes no unfinished one."""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from lanemq.sdk.consumer.pool._key_scheduler import KeyScheduler
from lanemq.sdk.consumer.pool._stage_scheduler import Batch
from lanemq.sdk.consumer.pulls._process_queue import ProcessQueue


@dataclass(frozen=True)
class M:
    queue_offset: int
    key: str | None
    size_bytes: int = 1


class Keyed(RuleBasedStateMachine):
    """A queue with holes (other tags), a listener that fails at will, a process that crashes.

    ``committed`` is any progress that was current since the last crash; a dropped queue is a
    crash, too: what ran for it does not count.
    """

    @initialize(
        above_max=st.integers(1, 6), batch_messages=st.integers(1, 3), start=st.integers(0, 3)
    )
    def open(self, above_max: int, batch_messages: int, start: int) -> None:
        self.above_max, self.batch_messages = above_max, batch_messages
        self.queue: list[M] = []
        self.end = start
        self.finished: set[int] = set()
        self.committed = start
        self._start()

    def _start(self) -> None:
        self.scheduler = KeyScheduler[M](
            lambda message: message.key,
            above_max=self.above_max,
            batch_messages=self.batch_messages,
        )
        self.process_queue = ProcessQueue[M](self.committed)
        self.finished = {offset for offset in self.finished if offset < self.committed}
        self.running: list[Batch[M]] = []
        self.suspended: list[Batch[M]] = []
        self.ready: list[Batch[M]] = []

    # The world

    @rule(gap=st.integers(0, 2), keys=st.lists(st.sampled_from(["a", "b", "c", None]), max_size=5))
    def arrive(self, gap: int, keys: list[str | None]) -> None:
        for key in keys:
            self.queue.append(M(self.end + gap, key))
            self.end += gap + 1

    @rule(count=st.integers(1, 6))
    def pull(self, count: int) -> None:
        if self.scheduler.is_full:
            return
        begin = self.process_queue.next_offset
        found = [m for m in self.queue if m.queue_offset >= begin][:count]
        end = found[-1].queue_offset + 1 if found else self.end
        if found:
            self.scheduler.put(self.process_queue.put(found, end), end)
        else:
            self.process_queue.next_offset = end
            self.scheduler.skip_to(end)

    @rule(count=st.integers(1, 8))
    def take(self, count: int) -> None:
        for _ in range(count):
            before = self.scheduler.has_more
            batch = self.scheduler.take()
            assert before == (batch is not None)
            if batch is None:
                self._check_nothing_may_run()
                return
            if batch in self.ready:
                self.ready.remove(batch)
            else:
                self._check_handed_out(batch)
            self.running.append(batch)

    def _pulled(self) -> list[M]:
        end = self.process_queue.next_offset
        return [m for m in self.queue if m.queue_offset < end]

    def _in_flight(self) -> list[M]:
        batches = (*self.running, *self.suspended, *self.ready)
        return [message for batch in batches for message in batch.messages]

    def _unfinished(self) -> list[M]:
        return [m for m in self._pulled() if m.queue_offset not in self.finished]

    def _may_be_handed_out(self, message: M) -> bool:
        unfinished = self._unfinished()
        above = [
            m for m in self._pulled() if unfinished[0].queue_offset < m.queue_offset
        ]  # finished or not
        place = [unfinished[0], *above].index(message)
        return place <= self.above_max

    def _check_handed_out(self, batch: Batch[M]) -> None:
        assert 1 <= len(batch.messages) <= self.batch_messages
        in_flight = self._in_flight()
        assert len({message.key for message in batch.messages}) == 1
        for message in batch.messages:
            assert message.queue_offset not in self.finished
            assert message not in in_flight
            assert self._may_be_handed_out(message), "the bound holds"
            if message.key is not None:
                assert message.key not in {m.key for m in in_flight}, "one batch of a key at once"
                earlier = [
                    m
                    for m in self._unfinished()
                    if m.key == message.key and m.queue_offset < message.queue_offset
                ]
                assert set(earlier) <= set(batch.messages), "a key's messages keep their order"
        offsets = [message.queue_offset for message in batch.messages]
        assert offsets == sorted(offsets)

    def _check_nothing_may_run(self) -> None:
        assert not self.ready
        in_flight = self._in_flight()
        busy = {message.key for message in in_flight if message.key is not None}
        for message in self._unfinished():
            if message not in in_flight and message.key not in busy:
                assert not self._may_be_handed_out(message), f"{message} could run"
                break  # those after it are further above

    # The listener

    def _finish(self, batch: Batch[M], messages: Sequence[M] | None) -> None:
        gone = batch.messages if messages is None else tuple(messages)
        self.scheduler.finish(batch, messages)
        self.process_queue.release(gone)
        self.finished.update(message.queue_offset for message in gone)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def succeed(self, data: st.DataObject) -> None:
        batch = self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
        self._finish(batch, None)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        batch = self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
        settled = data.draw(st.integers(0, len(batch.messages) - 1))
        if settled:
            self._finish(batch, batch.messages[:settled])
        self.scheduler.suspend(batch)
        self.suspended.append(batch)

    @precondition(lambda self: self.suspended)
    @rule(data=st.data())
    def resume(self, data: st.DataObject) -> None:
        batch = self.suspended.pop(data.draw(st.integers(0, len(self.suspended) - 1)))
        self.scheduler.resume(batch)
        self.ready.append(batch)

    @rule()
    def commit(self) -> None:
        self.committed = self.process_queue.commit_offset

    @rule()
    def drop(self) -> None:
        """The queue goes, and is read again from what was committed."""
        lost = [m for m in self._pulled() if m.queue_offset >= self.committed]
        again = [m for m in lost if m.queue_offset in self.finished]
        if self.committed == self.process_queue.commit_offset:
            assert len(again) <= self.above_max, "a restart repeats at most what was above"
        self.scheduler.discard()
        assert self.scheduler.take() is None
        self._start()

    @invariant()
    def progress_passes_nothing_unfinished(self) -> None:
        if not hasattr(self, "queue"):
            return
        unfinished = self._unfinished()
        if unfinished:
            assert self.process_queue.commit_offset == unfinished[0].queue_offset

    @invariant()
    def little_is_kept(self) -> None:
        if hasattr(self, "queue"):
            assert len(self.scheduler._finished) <= self.above_max
            assert len(self.scheduler._lines) <= 3

    def teardown(self) -> None:
        """Everything is finished in the end, whatever waited."""
        if not hasattr(self, "queue"):
            return
        while self.process_queue.commit_offset < self.end:
            for batch in self.suspended:
                self.scheduler.resume(batch)
                self.ready.append(batch)
            self.suspended.clear()
            while self.running:
                self._finish(self.running.pop(), None)
            before = self.process_queue.next_offset, len(self.finished)
            self.pull(32)
            self.take(100)
            now = self.process_queue.next_offset, len(self.finished)
            assert self.running or now != before or now[0] == self.end
        assert self.finished >= {message.queue_offset for message in self.queue}


TestKeyed = Keyed.TestCase
TestKeyed.settings = settings(
    deadline=None, stateful_step_count=50, suppress_health_check=[HealthCheck.too_slow]
)


def test_keys_overtake_each_other_but_never_themselves() -> None:
    scheduler = KeyScheduler[M](lambda message: message.key, above_max=100)
    scheduler.put([M(0, "a"), M(1, "a"), M(2, "b"), M(3, None)], 4)
    first, second, third = (scheduler.take() for _ in range(3))
    assert first is not None
    assert second is not None
    assert third is not None
    assert [b.messages[0].queue_offset for b in (first, second, third)] == [0, 2, 3]
    assert scheduler.take() is None
    scheduler.finish(first)
    after = scheduler.take()
    assert after is not None
    assert after.messages[0].queue_offset == 1
