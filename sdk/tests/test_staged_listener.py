"""Stages of a queue are kept apart, whatever fails, and inside a stage everything runs at once."""

import sqlite3
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import (
    AbandonMessage,
    ClientOptions,
    ConsumeFrom,
    InvalidName,
    LockLoss,
    MemoryStageOffsets,
    MessageModel,
    MessageQueue,
    Outcome,
    PushConsumer,
    PushOptions,
    ReceivedMessage,
    StageCounter,
    StagedConcurrentListener,
    StageRecord,
)
from lanemq.testkit.sdk.clients import push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster, Process
from lanemq.wire import RequestCode
from lanemq.wire.bodies import ResetOffsetBody
from lanemq.wire.frame import request

FIRST = PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET)
QUEUE = MessageQueue("T", "broker-a", 0)
STAGES = (2, 3)

Handle = Callable[[Sequence[ReceivedMessage]], Awaitable[Outcome | None]]


class Log:
    """A listener that takes a second for each batch and remembers when it had what."""

    def __init__(self, takes_s: float = 1.0) -> None:
        self.takes_s = takes_s
        self.started: list[tuple[float, tuple[int, ...]]] = []
        self.began_s = trio.current_time()
        self.fail: dict[int, int] = {}  # offset -> how often
        self.error: type[Exception] = RuntimeError
        self.seen = trio.Event()
        self.wanted = 0

    async def __call__(self, messages: Sequence[ReceivedMessage]) -> Outcome | None:
        offsets = tuple(message.queue_offset for message in messages)
        self.started.append((round(trio.current_time() - self.began_s, 3), offsets))
        await trio.sleep(self.takes_s)
        for offset in offsets:
            if self.fail.get(offset, 0):
                self.fail[offset] -= 1
                raise self.error("as the test wishes")
        self.wanted -= len(messages)
        if self.wanted <= 0:
            self.seen.set()
        return None

    async def all_of(self, count: int) -> None:
        self.wanted += count
        if self.wanted > 0:
            self.seen = trio.Event()
            await self.seen.wait()

    @property
    def times(self) -> dict[float, list[int]]:
        """Seconds since the first start -> offsets begun then."""
        first_s = self.started[0][0]
        times: dict[float, list[int]] = {}
        for time_s, offsets in self.started:
            times.setdefault(round(time_s - first_s, 3), []).extend(offsets)
        return {time_s: sorted(offsets) for time_s, offsets in times.items()}


def consumer_of(
    cluster: FakeCluster,
    listener: StagedConcurrentListener,
    options: PushOptions = FIRST,
    *,
    process: Process | None = None,
    subscriptions: Mapping[str, str] = {"T": "*"},
    group: str = "cg",
) -> AbstractAsyncContextManager[PushConsumer]:
    return push_consumer_of(
        cluster,
        listener,
        options,
        group=group,
        subscriptions=subscriptions,
        dial=(process or cluster).dial,
    )


def fill(cluster: FakeCluster, count: int, tags: Sequence[str] = ("A",)) -> None:
    for number in range(count):
        cluster.broker.put("T", 0, b"%d" % number, TAGS=tags[number % len(tags)])


def record(cluster: FakeCluster, group: str = "cg") -> StageRecord | None:
    number = cluster.broker.offsets.get((f"%STAGE%{group}", "T", 0))
    return None if number is None else StageRecord.unpack(number)


def committed(cluster: FakeCluster, group: str = "cg") -> int | None:
    return cluster.broker.offsets.get((group, "T", 0))


async def test_the_proposals_example_takes_exactly_six_seconds(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 100)
    log = Log()
    async with consumer_of(cluster, StagedConcurrentListener(log, [10, 20, 70])):
        await log.all_of(100)
        ended_s = trio.current_time() - log.began_s
    assert ended_s - log.started[0][0] == pytest.approx(6.0, abs=1e-9)
    assert {time_s: len(offsets) for time_s, offsets in log.times.items()} == {
        0: 10,
        1: 20,
        2: 20,
        3: 20,
        4: 20,
        5: 10,
    }
    assert log.times[0] == list(range(10))
    assert log.times[1] == list(range(10, 30))
    assert record(cluster) == StageRecord(100, 100, settled=True)
    assert committed(cluster) == 100


async def test_messages_that_arrive_late_run_at_once_and_the_next_stage_waits_for_them(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    log = Log(takes_s=10)
    async with consumer_of(cluster, StagedConcurrentListener(log, STAGES)):
        fill(cluster, 1)
        await trio.sleep(4)
        fill(cluster, 3)
        await log.all_of(4)
    assert log.times == {0: [0], 4: [1], 14: [2, 3]}


async def test_a_suspended_message_holds_back_the_next_stage_but_not_its_siblings(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 6)
    log = Log()
    log.fail = {0: 2}
    listener = StagedConcurrentListener(log, [3, 2], concurrency=2, suspend_s=5)
    async with consumer_of(cluster, listener):
        await log.all_of(6)
    assert log.times == {0: [0, 1], 1: [2], 6: [0], 12: [0], 13: [3, 4], 14: [5]}


@pytest.mark.parametrize("outcome", [Outcome.SUSPEND_CURRENT_QUEUE, Outcome.RETRY])
async def test_an_outcome_other_than_success_is_tried_again_in_place(
    cluster: FakeCluster, autojump_clock: MockClock, outcome: Outcome
) -> None:
    fill(cluster, 1)
    seen: list[int] = []
    done = trio.Event()

    async def handle(messages: Sequence[ReceivedMessage]) -> Outcome | None:
        seen.append(messages[0].reconsume_times)
        if len(seen) == 3:
            done.set()
            return Outcome.SUCCESS
        return outcome

    async with consumer_of(cluster, StagedConcurrentListener(handle, STAGES)):
        await done.wait()
    assert seen == [0, 1, 2]
    assert cluster.broker.count(RequestCode.CONSUMER_SEND_MSG_BACK) == 0


async def test_a_message_that_fails_too_often_goes_to_the_dead_letters_and_counts_as_finished(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 3)
    log = Log()
    log.fail = {1: 99}
    listener = StagedConcurrentListener(log, STAGES, max_reconsume_times=2)
    async with consumer_of(cluster, listener):
        await log.all_of(2)
    assert log.times == {0: [0, 1], 2: [1], 4: [1], 5: [2]}
    assert cluster.bodies("%DLQ%cg") == [b"1"]
    assert record(cluster) == StageRecord(3, 3, settled=True)


async def test_of_a_batch_only_what_failed_too_often_is_given_up(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    batches: list[list[int]] = []
    done = trio.Event()

    async def handle(messages: Sequence[ReceivedMessage]) -> Outcome | None:
        batches.append([message.queue_offset for message in messages])
        if len(batches) < 3:
            messages[0].retries_in_place = 5
            return Outcome.SUSPEND_CURRENT_QUEUE
        done.set()
        return None

    fill(cluster, 3)
    listener = StagedConcurrentListener(handle, [3], batch_messages=3, max_reconsume_times=5)
    async with consumer_of(cluster, listener):
        await done.wait()
    assert batches == [[0, 1, 2], [1, 2], [2]]
    assert cluster.bodies("%DLQ%cg") == [b"0", b"1"]


async def test_an_abandoned_message_goes_to_the_dead_letters_at_once(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 3)
    log = Log()
    log.fail, log.error = {0: 1}, AbandonMessage
    async with consumer_of(cluster, StagedConcurrentListener(log, [1, 2])):
        await log.all_of(2)
    assert log.times == {0: [0], 1: [1, 2]}
    assert cluster.bodies("%DLQ%cg") == [b"0"]


async def test_the_next_stage_waits_for_the_dead_letter_to_arrive(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 2)
    log = Log()
    log.fail, log.error = {0: 1}, AbandonMessage
    cluster.broker.refuse(RequestCode.CONSUMER_SEND_MSG_BACK, 1, 1)
    cluster.broker.refuse(RequestCode.SEND_MESSAGE_V2, 1, 1, 1, 1, 1, 1)
    async with consumer_of(cluster, StagedConcurrentListener(log, [1, 1], suspend_s=2)):
        await log.all_of(1)
    assert log.times == {0: [0], 5: [1]}


async def test_a_batch_never_spans_two_stages(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 12)
    log = Log()
    listener = StagedConcurrentListener(log, [5, 3], batch_messages=3)
    async with consumer_of(cluster, listener):
        await log.all_of(12)
    assert [offsets for _, offsets in sorted(log.started)] == [
        (0, 1, 2),
        (3, 4),
        (5, 6, 7),
        (8, 9, 10),
        (11,),
    ]


async def test_a_listener_that_takes_too_long_is_tried_again_in_place(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 1)
    starts: list[float] = []
    done = trio.Event()

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        starts.append(trio.current_time())
        if len(starts) == 1:
            await trio.sleep_forever()
        done.set()

    options = replace(FIRST, consume_timeout_s=30)
    async with consumer_of(cluster, StagedConcurrentListener(handle, [1]), options):
        await done.wait()
    assert 31 <= starts[1] - starts[0] <= 61


# Counting


async def test_only_what_the_subscription_delivers_counts(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 12, ["A", "B", "B"])
    log = Log()
    async with consumer_of(
        cluster, StagedConcurrentListener(log, [2, 1]), subscriptions={"T": "A"}
    ):
        await log.all_of(4)
    assert log.times == {0: [0, 3], 1: [6], 2: [9]}
    assert record(cluster) == StageRecord(12, 4, settled=True)


async def test_a_consumer_goes_on_in_the_stage_where_the_last_one_stopped(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    listener_log = Log()
    listener = StagedConcurrentListener(listener_log, [2, 3, 1])
    fill(cluster, 3)
    async with consumer_of(cluster, listener):
        await listener_log.all_of(3)
    assert record(cluster) == StageRecord(3, 3, settled=True)
    fill(cluster, 5)
    log = Log()
    async with consumer_of(cluster, StagedConcurrentListener(log, [2, 3, 1])):
        await log.all_of(5)
    assert log.times == {0: [3, 4], 1: [5], 2: [6, 7]}


async def test_the_counter_can_be_reset_by_compare_and_set(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    day = 1

    def new_day(topic: str, counter: StageCounter) -> None:
        nonlocal day
        assert topic == "T"
        if day == 2:
            assert counter.compare_and_set(counter.value, 0)
            day = 0

    fill(cluster, 4)
    log = Log()
    listener = StagedConcurrentListener(log, [1, 2], reset_current_stage_offset_if_needed=new_day)
    async with consumer_of(cluster, listener):
        await log.all_of(4)
        day = 2
        fill(cluster, 4)
        await trio.testing.wait_all_tasks_blocked()
        saved = record(cluster)
        await log.all_of(4)
    assert saved == StageRecord(4, 0), "before the first message of the new day is handed over"
    assert [sorted(o) for o in log.times.values()] == [[0], [1, 2], [3], [4], [5, 6], [7]]


async def test_a_reset_waits_until_the_broker_has_it(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    def reset(topic: str, counter: StageCounter) -> None:
        counter.compare_and_set(2, 0)

    fill(cluster, 3)
    log = Log()
    listener = StagedConcurrentListener(log, [2], reset_current_stage_offset_if_needed=reset)
    cluster.broker.refuse(RequestCode.UPDATE_CONSUMER_OFFSET, 1, 1, 1)
    async with consumer_of(cluster, listener):
        await log.all_of(3)
    assert log.times == {0: [0, 1], 4: [2]}


async def test_a_reset_that_raises_changes_nothing(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    def reset(topic: str, counter: StageCounter) -> None:
        raise ValueError("as the test wishes")

    fill(cluster, 3)
    log = Log()
    listener = StagedConcurrentListener(log, [2], reset_current_stage_offset_if_needed=reset)
    async with consumer_of(cluster, listener):
        await log.all_of(3)
    assert log.times == {0: [0, 1], 1: [2]}


async def test_an_operators_reset_begins_to_count_anew(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 5)
    log = Log()
    async with consumer_of(cluster, StagedConcurrentListener(log, [2, 9])) as consumer:
        await log.all_of(5)
        body = ResetOffsetBody(offset_table={QUEUE: 1}).encode()
        fields = {"topic": "T", "group": "cg", "timestamp": "0", "isForce": "true"}
        frame = request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields, body, oneway=True)
        log.started.clear()
        cluster.broker.tell(consumer.client_id, frame)
        await trio.testing.wait_all_tasks_blocked()
        assert record(cluster) == StageRecord(1, 0, settled=True)
        await log.all_of(4)
    assert log.times == {0: [1, 2], 1: [3, 4]}


# Where progress is kept


async def test_a_broker_that_does_not_know_the_shadow_group_is_told_of_it(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.broker.knows_all_groups = False
    fill(cluster, 3)
    log = Log()
    async with consumer_of(cluster, StagedConcurrentListener(log, STAGES)):
        await log.all_of(3)
    assert cluster.broker.groups == {"%STAGE%cg"}
    assert record(cluster) == StageRecord(3, 3, settled=True)


async def test_the_record_is_stored_before_the_groups_offset(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 40)
    log = Log()
    async with consumer_of(cluster, StagedConcurrentListener(log, [10, 20], concurrency=3)):
        await log.all_of(40)
    records: list[int] = []
    for frame in cluster.broker.requests:
        if frame.code == RequestCode.UPDATE_CONSUMER_OFFSET and frame.fields["topic"] == "T":
            offset = int(frame.fields["commitOffset"])
            if frame.fields["consumerGroup"] == "cg":
                assert offset <= records[-1]
            else:
                kept = StageRecord.unpack(offset)
                assert kept is not None
                records.append(kept.queue_offset)
        if frame.code == RequestCode.PULL_MESSAGE:
            assert not int(frame.fields["sysFlag"]) & 1, "no pull tells an offset in passing"
    assert len(records) >= 3


@pytest.mark.parametrize(
    ("kept", "offset", "wins", "expected"),
    [
        (StageRecord(3, 3), 1, False, [3, 4, 5]),  # a crash between the commits
        (StageRecord(3, 3), 1, True, [3, 4, 5]),
        (StageRecord(3, 3), 4, False, [3, 4, 5]),  # moved by somebody else
        (StageRecord(3, 3), 4, True, [4, 5]),
        (StageRecord(3, 3, settled=True), 1, False, [3, 4, 5]),
        (StageRecord(3, 3, settled=True), 1, True, [1, 2, 3, 4, 5]),
        (StageRecord(3, 3, settled=True), 3, True, [3, 4, 5]),
        (None, 4, False, [4, 5]),  # the group consumed without stages before
        (StageRecord(3, 3), None, True, [3, 4, 5]),
    ],
)
async def test_where_a_group_goes_on(
    cluster: FakeCluster,
    autojump_clock: MockClock,
    kept: StageRecord | None,
    offset: int | None,
    wins: bool,
    expected: list[int],
    caplog: pytest.LogCaptureFixture,
) -> None:
    fill(cluster, 6)
    if kept is not None:
        cluster.broker.offsets["%STAGE%cg", "T", 0] = kept.pack()
    if offset is not None:
        cluster.broker.offsets["cg", "T", 0] = offset
    log = Log()
    listener = StagedConcurrentListener(log, [4, 1], group_offset_wins=wins)
    async with consumer_of(cluster, listener):
        await log.all_of(len(expected))
    assert sorted(o for _, offsets in log.started for o in offsets) == expected
    moved = (
        kept is not None
        and offset is not None
        and (offset > kept.queue_offset or (kept.settled and offset != kept.queue_offset))
    )
    warned = "somebody else moved the group" in caplog.text
    assert warned == moved
    counts_anew = (moved and wins) or kept is None
    first = expected[: 4 if counts_anew else 1]
    assert log.times[0] == first


async def test_a_number_in_the_shadow_group_that_is_no_record_is_passed_over(
    cluster: FakeCluster, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    fill(cluster, 3)
    cluster.broker.offsets["%STAGE%cg", "T", 0] = 2
    cluster.broker.offsets["cg", "T", 0] = 1
    log = Log()
    async with consumer_of(cluster, StagedConcurrentListener(log, [2])):
        await log.all_of(2)
    assert "is not a stage record" in caplog.text


async def test_broadcasting_consumers_keep_their_records_in_a_file(
    cluster: FakeCluster, autojump_clock: MockClock, tmp_path: Path
) -> None:
    options = replace(
        FIRST, message_model=MessageModel.BROADCASTING, offsets_dir=tmp_path / "offsets"
    )
    fill(cluster, 3)
    log = Log()
    async with consumer_of(cluster, StagedConcurrentListener(log, [2, 3]), options):
        await log.all_of(3)
    fill(cluster, 4)
    later = Log()
    async with consumer_of(cluster, StagedConcurrentListener(later, [2, 3]), options):
        await later.all_of(4)
    assert later.times == {0: [3, 4], 1: [5, 6]}
    assert cluster.broker.count(RequestCode.LOCK_BATCH_MQ) == 0
    assert cluster.broker.count(RequestCode.UPDATE_CONSUMER_OFFSET) == 0
    files = sorted(path.name for path in (tmp_path / "offsets" / "default").iterdir())
    assert "cg.json" in files
    assert "cg.stages.json" in files


async def test_a_store_of_ones_own_is_used(cluster: FakeCluster, autojump_clock: MockClock) -> None:
    fill(cluster, 3)
    log, store = Log(), MemoryStageOffsets()
    async with consumer_of(cluster, StagedConcurrentListener(log, [2], store=store)):
        await log.all_of(3)
    assert store.records == {QUEUE: StageRecord(3, 3, settled=True)}
    assert record(cluster) is None


class MappedStageOffsets(dict[MessageQueue, StageRecord]):
    """A store that counts as false while it is empty."""

    async def load(self, queue: MessageQueue, strategy: str = "") -> StageRecord | None:
        return self.get(queue)

    async def save(self, queue: MessageQueue, record: StageRecord, strategy: str = "") -> None:
        self[queue] = record


@pytest.mark.parametrize("model", MessageModel)
async def test_a_store_that_is_empty_is_used(
    cluster: FakeCluster, autojump_clock: MockClock, tmp_path: Path, model: MessageModel
) -> None:
    fill(cluster, 3)
    log, store = Log(), MappedStageOffsets()
    options = replace(FIRST, message_model=model, offsets_dir=tmp_path)
    async with consumer_of(cluster, StagedConcurrentListener(log, [2], store=store), options):
        await log.all_of(3)
    assert store == {QUEUE: StageRecord(3, 3, settled=True)}


class LockedStageOffsets:
    """A store that knows nothing of ``LanemqError``, and is locked now and then."""

    def __init__(self) -> None:
        self.kept, self.turns = MemoryStageOffsets(), 0

    def look(self) -> None:
        self.turns += 1
        if self.turns % 2:
            raise sqlite3.OperationalError("database is locked")

    async def load(self, queue: MessageQueue, strategy: str = "") -> StageRecord | None:
        self.look()
        return await self.kept.load(queue, strategy)

    async def save(self, queue: MessageQueue, record: StageRecord, strategy: str = "") -> None:
        self.look()
        await self.kept.save(queue, record, strategy)


async def test_whatever_a_store_raises_is_logged_and_it_is_asked_again(
    cluster: FakeCluster, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    fill(cluster, 3)
    log, store = Log(), LockedStageOffsets()
    async with consumer_of(cluster, StagedConcurrentListener(log, [2], store=store)):
        await log.all_of(3)
        await trio.sleep(60)
        fill(cluster, 4)
        await log.all_of(4)
        await trio.sleep(60)
        assert store.kept.records[QUEUE].queue_offset == 7
    assert "database is locked" in caplog.text


# Degenerate stages


async def test_without_stages_it_is_a_concurrent_listener(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 3)
    log = Log()
    log.fail = {1: 1}
    async with consumer_of(cluster, StagedConcurrentListener(log, [])):
        await log.all_of(3)
    assert log.times == {0: [0, 1, 2], 11: [0]}, "sent back, it comes by the retry topic"
    assert cluster.broker.count(RequestCode.LOCK_BATCH_MQ) == 0
    assert record(cluster) is None


async def test_without_stages_messages_can_be_abandoned_too(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 2)
    log = Log()
    log.fail, log.error = {1: 1}, AbandonMessage
    async with consumer_of(cluster, StagedConcurrentListener(log, [])):
        await log.all_of(1)
        await trio.sleep(1)
    assert cluster.bodies("%DLQ%cg") == [b"1"]


async def test_a_group_name_that_leaves_no_room_for_its_shadow_is_refused(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    listener = StagedConcurrentListener(Log(), [1])
    with pytest.raises(InvalidName):
        async with consumer_of(cluster, listener, group="g" * 252):
            pass


@pytest.mark.parametrize(
    "wrong",
    [
        {"stages": [0]},
        {"concurrency": 0},
        {"batch_messages": 0},
        {"suspend_s": 0},
        {"max_reconsume_times": -1},
    ],
)
def test_options_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    async def handle(messages: Sequence[ReceivedMessage]) -> None: ...

    with pytest.raises(ValueError, match=r"stage|must"):
        StagedConcurrentListener(handle, **{"stages": [1], **wrong})  # type: ignore[arg-type]


# Locks


async def test_one_consumer_of_the_group_has_a_queue(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 5)
    first, second = Log(takes_s=10), Log()
    async with consumer_of(cluster, StagedConcurrentListener(first, [2, 3])):
        await trio.sleep(1)
        async with consumer_of(cluster, StagedConcurrentListener(second, [2, 3])):
            await trio.sleep(300)
    assert len(first.started) + len(second.started) == 5
    assert cluster.broker.locks == {}


async def test_a_lock_taken_by_another_stops_the_queue_and_its_results_do_not_count(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 4)
    log = Log(takes_s=25)
    async with consumer_of(cluster, StagedConcurrentListener(log, [2, 2])):
        await trio.sleep(5)
        cluster.broker.locks["cg", QUEUE] = "thief", trio.current_time()
        await trio.sleep(35)  # the renewal after 20 s says so; the thief has it until 65
        assert log.times == {0: [0, 1]}
        assert committed(cluster) == 0
        assert record(cluster) == StageRecord(0, 0)
        await trio.sleep(120)
    assert log.times == {0: [0, 1], 66: [0, 1], 91: [2, 3]}


async def test_on_losing_the_lock_handlers_may_be_cancelled(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 1)
    log = Log(takes_s=1000)
    listener = StagedConcurrentListener(log, [1], on_lock_loss=LockLoss.CANCEL)
    cancelled: list[float] = []

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        try:
            await log(messages)
        except trio.Cancelled:
            cancelled.append(trio.current_time() - log.began_s)
            raise

    async with consumer_of(cluster, replace(listener, handle=handle)):
        await trio.sleep(1)
        cluster.broker.locks["cg", QUEUE] = "thief", trio.current_time()
        await trio.sleep(30)
        assert len(cancelled) == 1
        assert 19 <= cancelled[0] <= 22


async def test_a_lock_that_cannot_be_renewed_counts_as_lost_after_30_seconds(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    log = Log()
    async with consumer_of(cluster, StagedConcurrentListener(log, [2, 2])):
        await trio.sleep(1)
        cluster.broker.mute(RequestCode.LOCK_BATCH_MQ, 20)
        await trio.sleep(31)
        fill(cluster, 1)
        await trio.sleep(5)
        assert log.started == []
        await trio.sleep(60)
        assert len(log.started) == 1


async def test_after_a_crash_another_waits_for_the_lock_and_repeats_what_was_not_committed(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 8)
    log = Log(takes_s=4)
    process = Process(cluster)
    with trio.CancelScope() as scope:
        async with consumer_of(cluster, StagedConcurrentListener(log, [2, 3, 3]), process=process):
            await trio.sleep(6)
            await process.kill()
            scope.cancel()
    assert log.times == {0: [0, 1], 4: [2, 3, 4]}
    assert record(cluster) == StageRecord(2, 2)
    second = Log()
    async with consumer_of(cluster, StagedConcurrentListener(second, [2, 3, 3])):
        await second.all_of(6)
    assert second.times == {0: [2, 3, 4], 1: [5, 6, 7]}
    assert second.started[0][0] >= 54, "the lock of the dead lives a minute"


async def test_in_a_namespace_the_reset_is_told_the_topic_as_the_application_knows_it(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    topics: set[str] = set()

    def reset(topic: str, counter: StageCounter) -> None:
        topics.add(topic)

    for number in range(3):
        cluster.broker.put("ns%T", 0, b"%d" % number)
    log = Log()
    listener = StagedConcurrentListener(log, [2], reset_current_stage_offset_if_needed=reset)
    options = replace(FIRST, client=ClientOptions(namespace="ns"))
    async with consumer_of(cluster, listener, options):
        await log.all_of(3)
    assert topics == {"T"}
    number = cluster.broker.offsets["%STAGE%ns%cg", "ns%T", 0]
    assert StageRecord.unpack(number) == StageRecord(3, 3, settled=True)


async def test_the_queues_of_a_killed_owner_are_free_where_locks_end_with_the_connection(
    cluster: FakeCluster, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    cluster.broker.binds_locks = True
    cluster.create_topic("T", 1)
    fill(cluster, 5)
    process, log = Process(cluster), Log()

    async def consume() -> None:
        listener = StagedConcurrentListener(Log(takes_s=3600), STAGES)
        async with consumer_of(cluster, listener, process=process):
            await trio.sleep_forever()

    nursery.start_soon(consume)
    await trio.sleep(1.5)
    async with consumer_of(cluster, StagedConcurrentListener(log, STAGES)):
        await trio.sleep(1)
        assert not log.started
        await process.kill()
        await trio.sleep(3)  # the group is told, and divides its queues
        assert log.started
    nursery.cancel_scope.cancel()


async def test_a_connection_that_breaks_ends_the_locks_and_their_owner_knows_it(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.broker.binds_locks = True
    cluster.create_topic("T", 1)
    fill(cluster, 7)
    log = Log(5)
    async with consumer_of(cluster, StagedConcurrentListener(log, STAGES)):
        await trio.sleep(1)
        assert log.times == {0: [0, 1]}
        cluster.broker.cut()
        await trio.sleep(30)
        # What ran did not count; then all went on, stage by stage.
        begun = [offset for _, offsets in log.started for offset in offsets]
        assert begun.count(0) == begun.count(1) == 2
        assert sorted(set(begun)) == list(range(7))
    assert cluster.broker.offsets["cg", "T", 0] == 7


async def test_at_an_apache_broker_locks_outlive_a_connection(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    fill(cluster, 7)
    log = Log(5)
    async with consumer_of(cluster, StagedConcurrentListener(log, STAGES)):
        await trio.sleep(1)
        cluster.broker.cut()
        await trio.sleep(30)
        assert sorted(offset for _, offsets in log.started for offset in offsets) == list(range(7))
