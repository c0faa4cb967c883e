"""Whatever crashes, and when, no message is handed over before all of the stages before it.

The model counts what the subscription delivers: queues hold messages of another tag in between,
so offsets and numbers differ everywhere.
"""

import random
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from lanemq.sdk import (
    AbandonMessage,
    ConsumeFrom,
    LanemqError,
    LockLoss,
    MessageQueue,
    Outcome,
    PushOptions,
    ReceivedMessage,
    StagedConcurrentListener,
    StageRecord,
    Stages,
)
from lanemq.testkit.sdk.clients import push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster, Process, small_cluster
from lanemq.testkit.sdk.crashes import UPDATE, kill_after, until_killed
from lanemq.wire import RequestCode

pytestmark = pytest.mark.slow  # a life of a consumer for each crash

OPTIONS = PushOptions(
    consume_from=ConsumeFrom.FIRST_OFFSET, offset_persist_interval_s=0.3, shutdown_grace_s=5
)


class Witness:
    """Knows the stage of every message, and what was finished."""

    def __init__(self, cluster: FakeCluster, sizes: Sequence[int]) -> None:
        self.cluster = cluster
        self.stages = Stages(sizes)
        self.number: dict[bytes, int] = {}  # of a body, in its queue
        self.of_queue: dict[int, list[bytes]] = {}
        self.finished: set[bytes] = set()
        self.handed_over: Counter[bytes] = Counter()

    def put(self, queue_id: int, count: int, rng: random.Random) -> None:
        """Store ``count`` messages that count, with others in between."""
        for _ in range(count):
            for _ in range(rng.choice([0, 0, 1, 2])):
                self.cluster.broker.put("T", queue_id, b"other", TAGS="B")
            bodies = self.of_queue.setdefault(queue_id, [])
            body = b"%d/%d" % (queue_id, len(bodies))
            self.number[body] = len(bodies)
            bodies.append(body)
            self.cluster.broker.put("T", queue_id, body, TAGS="A")

    def stage(self, body: bytes) -> int:
        return self.stages.stage_of(self.number[body])

    def is_finished(self, body: bytes) -> bool:
        return body in self.finished or body in self.cluster.bodies("%DLQ%cg")

    def begins(self, messages: Sequence[ReceivedMessage]) -> None:
        """Check what is handed over now."""
        stages = {self.stage(message.body) for message in messages}
        assert len(stages) == 1, "a batch never spans two stages"
        stage = stages.pop()
        for body in self.of_queue[messages[0].queue.queue_id]:
            if self.stage(body) >= stage:
                break
            assert self.is_finished(body), f"{messages} before {body!r}"
        self.handed_over.update(message.body for message in messages)

    @property
    def open_messages(self) -> set[bytes]:
        return set(self.number) - self.finished - set(self.cluster.bodies("%DLQ%cg"))


def listener_of(witness: Witness, takes_s: float = 1.0) -> StagedConcurrentListener:
    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        witness.begins(messages)
        await trio.sleep(takes_s)
        witness.finished.update(message.body for message in messages)

    return StagedConcurrentListener(handle, witness.stages.sizes, concurrency=3)


async def consume_until_killed(
    cluster: FakeCluster, listener: StagedConcurrentListener, process: Process, for_s: float
) -> None:
    async with (
        until_killed(process, for_s),
        push_consumer_of(cluster, listener, OPTIONS, subscriptions={"T": "A"}, dial=process.dial),
    ):
        await trio.sleep_forever()


@pytest.mark.parametrize("commits", range(18))
async def test_a_crash_at_any_commit_moves_no_boundary(
    cluster: FakeCluster, autojump_clock: MockClock, commits: int
) -> None:
    cluster.create_topic("T", 1)
    witness = Witness(cluster, [3, 4, 2, 5])
    witness.put(0, 20, random.Random(commits))
    process = Process(cluster)
    kill_after(cluster, process, commits)
    await consume_until_killed(cluster, listener_of(witness), process, 30)
    assert process.killed, "there were not so many commits"
    before = witness.handed_over.copy()
    await consume_until_killed(cluster, listener_of(witness), Process(cluster), 90)
    assert witness.open_messages == set()
    assert all(witness.handed_over[body] <= before[body] + 1 for body in witness.number)
    end = cluster.broker.queue("T", 0).max_offset
    kept = StageRecord.unpack(cluster.broker.offsets["%STAGE%cg", "T", 0])
    assert kept == StageRecord(end, 20, settled=True)
    assert cluster.broker.offsets["cg", "T", 0] == end


class Trouble:
    """Arrivals, failures, crashes and rebalances, all from one seed."""

    def __init__(self, cluster: FakeCluster, seed: int, sizes: Sequence[int]) -> None:
        self.rng = random.Random(seed)
        self.cluster = cluster
        self.witness = Witness(cluster, sizes)
        self.troubled = True

    async def handle(self, messages: Sequence[ReceivedMessage]) -> Outcome | None:
        self.witness.begins(messages)
        await trio.sleep(self.rng.choice([0, 0.1, 1, 4]))
        dice = self.rng.random()
        if dice < 0.05:
            raise AbandonMessage
        if dice < 0.1:
            raise RuntimeError("as the test wishes")
        if dice < 0.15:
            return Outcome.SUSPEND_CURRENT_QUEUE
        self.witness.finished.update(message.body for message in messages)
        return None

    async def consume_in_turns(self) -> None:
        listener = StagedConcurrentListener(
            self.handle,
            self.witness.stages.sizes,
            concurrency=self.rng.randint(1, 4),
            batch_messages=self.rng.randint(1, 3),
            max_reconsume_times=self.rng.choice([None, 1, 4]),
            suspend_s=0.5,
            on_lock_loss=self.rng.choice(list(LockLoss)),
        )
        while True:
            life_s = self.rng.uniform(1, 60) if self.troubled else 1e6
            process = Process(self.cluster)
            with suppress(LanemqError):
                with trio.move_on_after(life_s):
                    async with push_consumer_of(
                        self.cluster,
                        listener,
                        replace(OPTIONS, rebalance_interval_s=3),
                        subscriptions={"T": "A"},
                        dial=process.dial,
                    ):
                        if self.rng.random() < 0.5:
                            await trio.sleep(life_s / 2)  # and end in good order
                        else:
                            await trio.sleep(life_s * 0.9)
                            await process.kill()
                            await trio.sleep_forever()
            await trio.sleep(self.rng.uniform(0, 10))

    async def arrive(self) -> None:
        for _ in range(12):
            self.witness.put(self.rng.randrange(2), self.rng.randint(1, 6), self.rng)
            await trio.sleep(self.rng.expovariate(0.15))

    async def make_trouble(self) -> None:
        broker = self.cluster.broker
        while self.troubled:
            await trio.sleep(self.rng.expovariate(0.2))
            match self.rng.randrange(5):
                case 0:
                    broker.cut()
                case 1:
                    broker.mute(self.rng.choice([UPDATE, RequestCode.PULL_MESSAGE]))
                case 2:
                    broker.mute(RequestCode.LOCK_BATCH_MQ, self.rng.randint(1, 15))
                case 3:
                    broker.refuse(UPDATE, 1, 1)
                case 4:
                    queue = MessageQueue("T", broker.name, self.rng.randrange(2))
                    broker.locks["cg", queue] = "thief", trio.current_time()

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.arrive)
            for _ in range(3):
                nursery.start_soon(self.consume_in_turns)
            nursery.start_soon(self.make_trouble)
            await trio.sleep(150)
            self.troubled = False
            with trio.fail_after(3600):
                while self.witness.open_messages:  # noqa: ASYNC110 - simulated time
                    await trio.sleep(1)
            nursery.cancel_scope.cancel()


@pytest.mark.slow
@given(
    seed=st.integers(0, 2**32),
    sizes=st.lists(st.integers(1, 6), max_size=5).filter(bool),
    schedule=st.random_module(),
)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_stages_stay_apart_through_failures_crashes_and_rebalances(
    seed: int, sizes: list[int], schedule: object
) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            cluster = small_cluster(nursery)
            cluster.create_topic("T", 2)
            await Trouble(cluster, seed, sizes).run()
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))
