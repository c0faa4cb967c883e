"""A staged listener with several definitions: each strategy has its stages, counted apart."""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from lanemq.sdk import (
    AbandonMessage,
    ConsumeFrom,
    InvalidName,
    LanemqError,
    ListenerContext,
    LockLoss,
    MemoryStageOffsets,
    MessageModel,
    MessageQueue,
    Outcome,
    PushConsumer,
    PushOptions,
    ReceivedMessage,
    Stage,
    StageCounter,
    StagedConcurrentListener,
    StageRecord,
    Stages,
    open_push_consumer,
)
from lanemq.testkit.sdk.clients import push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster, Process, small_cluster
from lanemq.testkit.sdk.crashes import kill_after, until_killed

FIRST = PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET, offset_persist_interval_s=0.3)
QUEUE = MessageQueue("T", "broker-a", 0)
STAGES: Mapping[str, Sequence[int]] = {"gold": [1, 2], "silver": [3, 4]}


def strategy_of(message: ReceivedMessage) -> str | None:
    """The word that its body begins with."""
    return message.body.decode().split("-")[0]


def consumer_of(
    cluster: FakeCluster,
    listener: StagedConcurrentListener,
    options: PushOptions = FIRST,
    process: Process | None = None,
) -> AbstractAsyncContextManager[PushConsumer]:
    return push_consumer_of(cluster, listener, options, dial=(process or cluster).dial)


def listener_of(handle: Callable[..., object], **options: object) -> StagedConcurrentListener:
    return StagedConcurrentListener(
        handle,  # type: ignore[arg-type]
        STAGES,
        compute_strategy=strategy_of,
        **options,  # type: ignore[arg-type]
    )


def put(cluster: FakeCluster, *words: str) -> None:
    """Messages in one queue, numbered within their word."""
    counts: Counter[str] = Counter()
    for word in words:
        cluster.broker.put("T", 0, f"{word}-{counts[word]}".encode())
        counts[word] += 1


class Log:
    def __init__(self, takes_s: float = 1.0) -> None:
        self.takes_s = takes_s
        self.times: dict[float, list[str]] = {}
        self.first_s: float | None = None

    async def __call__(self, messages: Sequence[ReceivedMessage]) -> None:
        now_s = trio.current_time()
        self.first_s = now_s if self.first_s is None else self.first_s
        at = self.times.setdefault(round(now_s - self.first_s, 1), [])
        at += [message.body.decode() for message in messages]
        at.sort()
        await trio.sleep(self.takes_s)


async def test_strategies_do_not_wait_for_each_other(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    put(cluster, *["gold"] * 4, *["silver"] * 8, "other", "other")
    log = Log()
    async with consumer_of(cluster, listener_of(log)):
        await trio.sleep(10)
    assert log.times == {
        0: ["gold-0", "other-0", "other-1", "silver-0", "silver-1", "silver-2"],
        1: ["gold-1", "gold-2", "silver-3", "silver-4", "silver-5", "silver-6"],
        2: ["gold-3", "silver-7"],
    }
    assert cluster.broker.offsets["cg", "T", 0] == 14


async def test_a_batch_has_messages_of_one_strategy_and_stage_and_knows_them(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    put(cluster, *["gold", "silver"] * 6, "other")
    told: list[tuple[Stage | None, list[str]]] = []

    async def handle(messages: Sequence[ReceivedMessage], context: ListenerContext) -> None:
        told.append((context.stage, [message.body.decode() for message in messages]))

    async with consumer_of(cluster, listener_of(handle, batch_messages=5)):
        await trio.sleep(5)
    assert sorted(told, key=lambda entry: entry[1]) == [
        (Stage(0, 1, 0, "gold"), ["gold-0"]),
        (Stage(1, 2, 1, "gold"), ["gold-1", "gold-2"]),
        (Stage(2, None, 3, "gold"), ["gold-3", "gold-4", "gold-5"]),
        (None, ["other-0"]),
        (Stage(0, 3, 0, "silver"), ["silver-0", "silver-1", "silver-2"]),
        (Stage(1, 4, 3, "silver"), ["silver-3", "silver-4", "silver-5"]),
    ]


async def test_what_a_strategy_has_finished_does_not_come_again(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    put(cluster, "silver", *["gold"] * 3, *["silver"] * 3)
    handled: list[str] = []

    async def stuck(messages: Sequence[ReceivedMessage]) -> None:
        (body,) = [message.body.decode() for message in messages]
        await trio.sleep(1e6 if body == "silver-0" else 0.1)
        handled.append(body)

    process = Process(cluster)
    with trio.move_on_after(5):
        async with consumer_of(cluster, listener_of(stuck), process=process):
            await trio.sleep(4)
            await process.kill()
            await trio.sleep_forever()
    assert sorted(handled) == ["gold-0", "gold-1", "gold-2", "silver-1", "silver-2"]
    log = Log(0.5)
    async with consumer_of(cluster, listener_of(log)):
        await trio.sleep(100)  # the lock of the dead
    # The stage of silver-0 began before it; all after it in its strategy come again.
    assert log.times == {0: ["silver-0", "silver-1", "silver-2"], 0.5: ["silver-3"]}


async def test_counters_are_reset_one_by_one(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    put(cluster, *["gold"] * 4, *["silver"] * 8)
    asked: set[str | None] = set()

    def reset(topic: str, counter: StageCounter) -> None:
        asked.add(counter.strategy)
        if counter.strategy == "gold" and counter.value == 3:
            counter.compare_and_set(3, 0)

    log = Log()
    async with consumer_of(cluster, listener_of(log, reset_current_stage_offset_if_needed=reset)):
        await trio.sleep(20)
        put(cluster, *["gold"] * 2)
        await trio.sleep(20)
    assert asked == {"gold", "silver"}
    gold = [[b for b in bodies if b.startswith("gold")] for bodies in log.times.values()]
    assert [len(bodies) for bodies in gold if bodies] == [1, 2, 1, 2]
    kept = StageRecord.unpack(cluster.broker.offsets["%STAGE%|gold|cg", "T", 0])
    assert kept == StageRecord(14, 3)  # counted from the reset
    kept = StageRecord.unpack(cluster.broker.offsets["%STAGE%|silver|cg", "T", 0])
    assert kept == StageRecord(14, 8)


async def test_a_tool_that_resets_the_group_resets_every_strategy(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    put(cluster, *["gold"] * 4)
    async with consumer_of(cluster, listener_of(Log())):
        await trio.sleep(10)
    assert StageRecord.unpack(cluster.broker.offsets["%STAGE%cg", "T", 0]) is not None
    cluster.broker.offsets["%STAGE%cg", "T", 0] = StageRecord(1, 0, settled=True).pack()
    cluster.broker.offsets["cg", "T", 0] = 1
    log = Log()
    async with consumer_of(cluster, listener_of(log)):
        await trio.sleep(10)
    assert log.times == {0: ["gold-1"], 1: ["gold-2", "gold-3"]}


async def test_a_strategy_that_is_declared_later_begins_where_the_group_is(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    put(cluster, "gold", "bronze", "gold")
    async with consumer_of(cluster, listener_of(Log())):
        await trio.sleep(10)
    put(cluster, "bronze", "bronze", "gold", "gold")
    log = Log()
    listener = StagedConcurrentListener(
        log, {**STAGES, "bronze": [1]}, compute_strategy=strategy_of
    )
    async with consumer_of(cluster, listener):
        await trio.sleep(10)
    assert log.times == {0: ["bronze-0", "gold-0"], 1: ["bronze-1", "gold-1"]}


def raise_an_error(message: ReceivedMessage) -> str:
    raise KeyError("no such thing")


def return_a_list(message: ReceivedMessage) -> Any:  # noqa: ANN401 - a mistake
    return ["gold"]


@pytest.mark.parametrize("fail", [raise_an_error, return_a_list])
async def test_what_cannot_be_computed_has_no_strategy_and_is_logged(
    cluster: FakeCluster,
    autojump_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
    fail: Callable[[ReceivedMessage], str],
) -> None:
    put(cluster, *["gold"] * 3)
    log = Log()
    listener = StagedConcurrentListener(log, STAGES, compute_strategy=fail)
    async with consumer_of(cluster, listener):
        await trio.sleep(5)
    assert log.times == {0: ["gold-0", "gold-1", "gold-2"]}
    assert "compute_strategy failed" in caplog.text


async def test_brokers_of_5_are_told_of_the_shadow_groups(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.broker.knows_all_groups = False
    put(cluster, "gold", "silver")
    async with consumer_of(cluster, listener_of(Log())):
        await trio.sleep(5)
    assert cluster.broker.groups == {"%STAGE%cg", "%STAGE%|gold|cg", "%STAGE%|silver|cg"}


async def test_records_are_kept_in_files_and_stores_of_ones_own(
    cluster: FakeCluster, autojump_clock: MockClock, tmp_path: Path
) -> None:
    put(cluster, *["gold"] * 3)
    options = PushOptions(
        consume_from=ConsumeFrom.FIRST_OFFSET,
        message_model=MessageModel.BROADCASTING,
        offsets_dir=tmp_path,
    )
    for _ in range(2):
        async with consumer_of(cluster, listener_of(Log()), options):
            await trio.sleep(5)
    files = tmp_path.glob("*/*.json")  # noqa: ASYNC240 - a test
    assert {path.name for path in files} == {
        "cg.json",
        "cg.stages.json",
        "cg.stages.gold.json",
        "cg.stages.silver.json",
    }
    store = MemoryStageOffsets()
    async with consumer_of(cluster, listener_of(Log(), store=store)):
        await trio.sleep(5)
    assert store.records_of_strategies[QUEUE, "gold"] == StageRecord(3, 3)


@pytest.mark.parametrize(
    "wrong",
    [
        {"stages": {"gold": [1]}},
        {"stages": [1], "compute_strategy": strategy_of},
        {"stages": {"not a name": [1]}, "compute_strategy": strategy_of},
        {"stages": {"": [1]}, "compute_strategy": strategy_of},
        {"stages": {"gold": [0]}, "compute_strategy": strategy_of},
    ],
)
def test_definitions_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"strategy|message"):
        StagedConcurrentListener(Log(), **wrong)  # type: ignore[arg-type]


async def test_a_group_name_that_leaves_no_room_for_a_shadow_is_refused(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    with pytest.raises(InvalidName):
        async with open_push_consumer(
            "g" * 245,
            name_servers=cluster.name_servers,
            subscriptions={"T": "*"},
            listener=listener_of(Log()),
            dial=cluster.dial,
        ):
            pass


# Crashes


class Witness:
    """Knows the strategy and the stage of every message, and what was finished."""

    def __init__(self, cluster: FakeCluster, definitions: Mapping[str, Sequence[int]]) -> None:
        self.cluster = cluster
        self.definitions = definitions
        self.number: dict[bytes, int] = {}
        self.of_queue: dict[tuple[int, str], list[bytes]] = {}
        self.finished: set[bytes] = set()

    def put(self, queue_id: int, rng: random.Random) -> None:
        word = rng.choice([*self.definitions, "other"])
        bodies = self.of_queue.setdefault((queue_id, word), [])
        body = b"%s-%d/%d" % (word.encode(), queue_id, len(bodies))
        self.number[body] = len(bodies)
        bodies.append(body)
        self.cluster.broker.put("T", queue_id, body)

    def is_finished(self, body: bytes) -> bool:
        return body in self.finished or body in self.cluster.bodies("%DLQ%cg")

    def begins(self, messages: Sequence[ReceivedMessage], context: ListenerContext) -> None:
        """Check what is handed over now."""
        words = {message.body.split(b"-")[0].decode() for message in messages}
        assert len(words) == 1, "a batch never spans two strategies"
        word = words.pop()
        if word not in self.definitions:
            return
        stages = Stages(self.definitions[word])
        indices = {stages.stage_of(self.number[message.body]) for message in messages}
        assert len(indices) == 1, "a batch never spans two stages"
        index = indices.pop()
        assert context.stage is not None
        assert context.stage.index <= index, "no message is classed into a later stage"
        for body in self.of_queue[messages[0].queue.queue_id, word]:
            if stages.stage_of(self.number[body]) >= index:
                break
            assert self.is_finished(body), f"{messages} before {body!r}"

    @property
    def open_messages(self) -> set[bytes]:
        return {body for body in self.number if not self.is_finished(body)}


async def live(
    cluster: FakeCluster, listener: StagedConcurrentListener, process: Process, for_s: float
) -> None:
    """A consumer until its process is killed, or for so long."""
    async with until_killed(process, for_s), consumer_of(cluster, listener, process=process):
        await trio.sleep_forever()


@pytest.mark.slow
@pytest.mark.parametrize("commits", range(0, 40, 3))
async def test_a_crash_at_any_commit_moves_no_boundary(
    cluster: FakeCluster, autojump_clock: MockClock, commits: int
) -> None:
    cluster.create_topic("T", 1)
    witness, rng = Witness(cluster, STAGES), random.Random(commits)
    for _ in range(25):
        witness.put(0, rng)

    async def handle(messages: Sequence[ReceivedMessage], context: ListenerContext) -> None:
        witness.begins(messages, context)
        await trio.sleep(rng.choice([0.2, 1, 3]))
        witness.finished.update(message.body for message in messages)

    process = Process(cluster)
    kill_after(cluster, process, commits)
    await live(cluster, listener_of(handle, concurrency=3), process, 30)
    await live(cluster, listener_of(handle, concurrency=3), Process(cluster), 120)
    assert witness.open_messages == set()
    end = cluster.broker.queue("T", 0).max_offset
    for word in STAGES:
        count = len(witness.of_queue.get((0, word), ()))
        number = cluster.broker.offsets[f"%STAGE%|{word}|cg", "T", 0]
        assert StageRecord.unpack(number) == StageRecord(end, count)
    assert cluster.broker.offsets["cg", "T", 0] == end


async def trouble(seed: int) -> None:
    rng = random.Random(seed)
    async with trio.open_nursery() as nursery:
        cluster = small_cluster(nursery)
        cluster.broker.binds_locks = rng.random() < 0.5
        cluster.create_topic("T", 2)
        witness = Witness(cluster, {"a": [1, 3, 2], "b": [2] * 4, "c": []})
        troubled, violations = True, list[str]()

        async def handle(
            messages: Sequence[ReceivedMessage], context: ListenerContext
        ) -> Outcome | None:
            if not messages[0].topic.startswith("%"):
                try:
                    witness.begins(messages, context)
                except AssertionError as error:  # it would only be a reason to try again
                    violations.append(str(error))
            await trio.sleep(rng.choice([0, 0.1, 1, 4]))
            dice = rng.random()
            if dice < 0.05:
                raise AbandonMessage
            if dice < 0.15:
                return Outcome.SUSPEND_CURRENT_QUEUE
            witness.finished.update(message.body for message in messages)
            return None

        async def consume_in_turns() -> None:
            while True:
                listener = StagedConcurrentListener(
                    handle,
                    witness.definitions,
                    compute_strategy=strategy_of,
                    concurrency=rng.randint(1, 4),
                    batch_messages=rng.randint(1, 3),
                    max_reconsume_times=rng.choice([None, 1, 4]),
                    suspend_s=0.5,
                    on_lock_loss=LockLoss.CANCEL,
                )
                process = Process(cluster)
                with (
                    suppress(LanemqError),
                    trio.move_on_after(rng.uniform(1, 60) if troubled else 1e6),
                ):
                    async with consumer_of(cluster, listener, process=process):
                        await trio.sleep(rng.uniform(0, 30))
                        if troubled and rng.random() < 0.5:
                            await process.kill()
                        elif troubled and rng.random() < 0.5:
                            cluster.broker.cut()
                        elif troubled:
                            continue
                        await trio.sleep_forever()

        for _ in range(2):
            nursery.start_soon(consume_in_turns)
        for _ in range(60):
            witness.put(rng.randrange(2), rng)
            await trio.sleep(rng.expovariate(1))
        troubled = False
        with trio.move_on_after(1000):
            while witness.open_messages:  # noqa: ASYNC110 - simulated time
                await trio.sleep(1)
        assert not violations
        assert witness.open_messages == set()
        nursery.cancel_scope.cancel()


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**64 - 1), schedule=st.random_module())
def test_stages_of_a_strategy_are_kept_apart_whatever_happens(seed: int, schedule: object) -> None:
    trio.run(trouble, seed, clock=MockClock(autojump_threshold=0))
