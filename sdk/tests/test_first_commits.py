"""First commits of a new group, at brokers that make its table in two steps, as Apache's do."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
import trio
from msgspec.structs import replace
from trio.testing import MockClock

from lanemq.sdk import (
    ConsumeFrom,
    ReceivedMessage,
    StagedConcurrentListener,
)
from lanemq.testkit.sdk.clients import lite_pull_consumer_of, push_consumer_of
from lanemq.testkit.sdk.cluster import FakeBroker, FakeCluster, Peer
from lanemq.wire import PullSysFlag, RequestCode
from lanemq.wire.frame import Frame
from lanemq.wire.headers import PullMessage, UpdateConsumerOffset
from lanemq.wire.message import stage_group

TOPIC, GROUP, QUEUES = "T", "fresh", 8
STEP_S = 0.001


class TwoStepBroker(FakeBroker):
    """Looks for the table of a group and topic, and puts a new one some time later."""

    def __init__(self, nursery: trio.Nursery, address: str, name: str) -> None:
        super().__init__(nursery, address, name)
        self.tables: dict[tuple[str, str], dict[int, int]] = {}
        del self.handlers[RequestCode.UPDATE_CONSUMER_OFFSET]
        self.waiters[RequestCode.UPDATE_CONSUMER_OFFSET] = self._update
        self.waiters[RequestCode.PULL_MESSAGE] = self._pull_committing

    async def _update(self, frame: Frame, peer: Peer) -> Frame:
        header = UpdateConsumerOffset.from_fields(frame.fields)
        await self._put(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
        return frame.reply()

    async def _pull_committing(self, frame: Frame, peer: Peer) -> Frame:
        header = PullMessage.from_fields(frame.fields)
        if header.sys_flag & PullSysFlag.COMMIT_OFFSET:
            where = header.consumer_group, header.topic, header.queue_id
            await self._put(*where, header.commit_offset)
            flags = str(header.sys_flag & ~PullSysFlag.COMMIT_OFFSET)
            frame = replace(frame, fields={**frame.fields, "sysFlag": flags})
        return await self._pull(frame, peer)

    async def _put(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        table = self.tables.get((group, topic))
        await trio.sleep(STEP_S)
        if table is None:
            table = self.tables[group, topic] = {}
            for key in [key for key in self.offsets if key[:2] == (group, topic)]:
                del self.offsets[key]
        table[queue_id] = offset
        self.offsets[group, topic, queue_id] = offset

    def lose_offsets(self) -> None:
        """As if others' first commits had put their tables in place of these."""
        self.offsets.clear()

    def restart(self) -> None:
        """Break all connections, and know nothing of what was not yet written."""
        self.tables.clear()
        self.offsets.clear()
        self.cut()

    def progress(self, group: str = GROUP) -> dict[int, int]:
        """The offsets of a group, queue by queue."""
        return {
            queue_id: offset
            for (name, topic, queue_id), offset in self.offsets.items()
            if (name, topic) == (group, TOPIC)
        }


@pytest.fixture
def cluster(nursery: trio.Nursery) -> FakeCluster:
    cluster = FakeCluster(nursery)
    cluster.add_name_server()
    cluster.add_broker(TwoStepBroker)
    cluster.create_topic(TOPIC, QUEUES)
    for queue_id in range(QUEUES):
        cluster.broker.put(TOPIC, queue_id, b"x")
    return cluster


@pytest.fixture
def broker(cluster: FakeCluster) -> TwoStepBroker:
    assert isinstance(cluster.broker, TwoStepBroker)
    return cluster.broker


@asynccontextmanager
async def pushing(cluster: FakeCluster, *, staged: bool) -> AsyncIterator[None]:
    """A consumer that has handled one message of each queue."""
    seen: list[ReceivedMessage] = []
    all_there = trio.Event()

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        seen.extend(messages)
        if len(seen) == QUEUES:
            all_there.set()

    async with push_consumer_of(
        cluster,
        StagedConcurrentListener(handle, stages=(1,)) if staged else handle,
        group=GROUP,
        subscriptions={TOPIC: "*"},
        consume_from=ConsumeFrom.FIRST_OFFSET,
    ):
        await all_there.wait()
        yield


@asynccontextmanager
async def polling(cluster: FakeCluster) -> AsyncIterator[None]:
    """A consumer to which one message of each queue was returned, and committed."""
    async with lite_pull_consumer_of(
        cluster, group=GROUP, consume_from=ConsumeFrom.FIRST_OFFSET
    ) as consumer:
        await consumer.subscribe(TOPIC)
        count = 0
        while count < QUEUES:
            count += len(await consumer.poll())
        await consumer.commit(wait=False)
        yield


Opening = Callable[[FakeCluster], AbstractAsyncContextManager[None]]
CONSUMERS: dict[str, Opening] = {
    "push": lambda cluster: pushing(cluster, staged=False),
    "staged": lambda cluster: pushing(cluster, staged=True),
    "lite pull": polling,
}
ALL_DONE = dict.fromkeys(range(QUEUES), 1)
every_consumer = pytest.mark.parametrize("consumer", CONSUMERS.values(), ids=CONSUMERS)


@every_consumer
async def test_none_of_the_first_commits_is_lost(
    autojump_clock: MockClock, cluster: FakeCluster, broker: TwoStepBroker, consumer: Opening
) -> None:
    async with consumer(cluster):
        await trio.sleep(6)  # it is committed every 5 s
        assert broker.progress() == ALL_DONE


async def test_no_stage_record_is_lost(
    autojump_clock: MockClock, cluster: FakeCluster, broker: TwoStepBroker
) -> None:
    async with pushing(cluster, staged=True):
        await trio.sleep(6)
        assert broker.progress(stage_group(GROUP)).keys() == ALL_DONE.keys()


@every_consumer
async def test_what_a_broker_lost_is_committed_again_when_the_consumer_is_closed(
    autojump_clock: MockClock, cluster: FakeCluster, broker: TwoStepBroker, consumer: Opening
) -> None:
    async with consumer(cluster):
        await trio.sleep(6)
        broker.lose_offsets()
    assert broker.progress() == ALL_DONE


@every_consumer
async def test_what_a_broker_lost_is_committed_again_within_half_a_minute(
    autojump_clock: MockClock, cluster: FakeCluster, broker: TwoStepBroker, consumer: Opening
) -> None:
    async with consumer(cluster):
        await trio.sleep(6)
        broker.restart()
        await trio.sleep(36)
        assert broker.progress() == ALL_DONE


async def test_stage_records_that_a_broker_lost_are_there_again(
    autojump_clock: MockClock, cluster: FakeCluster, broker: TwoStepBroker
) -> None:
    async with pushing(cluster, staged=True):
        await trio.sleep(6)
        broker.restart()
        await trio.sleep(36)
        assert broker.progress(stage_group(GROUP)).keys() == ALL_DONE.keys()
        broker.lose_offsets()
    assert broker.progress(stage_group(GROUP)).keys() == ALL_DONE.keys()


async def test_only_the_first_commit_is_awaited(
    autojump_clock: MockClock, cluster: FakeCluster, broker: TwoStepBroker
) -> None:
    async with pushing(cluster, staged=False):
        await trio.sleep(6)
        commits = [
            frame
            for frame in broker.requests
            if frame.code == RequestCode.UPDATE_CONSUMER_OFFSET and frame.fields["topic"] == TOPIC
        ]
        assert [frame.is_oneway for frame in commits] == [False] + [True] * (QUEUES - 1)


async def test_a_first_commit_that_is_not_answered_holds_the_others_up_for_one_time_out(
    autojump_clock: MockClock, cluster: FakeCluster, broker: TwoStepBroker
) -> None:
    async with pushing(cluster, staged=False):
        broker.mute(RequestCode.UPDATE_CONSUMER_OFFSET)
        await trio.sleep(15)
        assert broker.progress() == ALL_DONE


async def test_a_first_commit_that_is_refused_holds_nobody_up(
    autojump_clock: MockClock, cluster: FakeCluster, broker: TwoStepBroker
) -> None:
    async with pushing(cluster, staged=False):
        broker.refuse(RequestCode.UPDATE_CONSUMER_OFFSET, 1)
        await trio.sleep(6)
        assert len(broker.progress()) == QUEUES - 1
        await trio.sleep(5)
        assert broker.progress() == ALL_DONE


async def test_a_group_that_has_committed_before_commits_with_its_pulls_at_once(
    autojump_clock: MockClock, cluster: FakeCluster, broker: TwoStepBroker
) -> None:
    async with pushing(cluster, staged=False):
        pass
    broker.tables[GROUP, TOPIC] = broker.progress()
    for queue_id in range(QUEUES):
        broker.put(TOPIC, queue_id, b"y")
    async with pushing(cluster, staged=False):
        for queue_id in range(QUEUES):
            broker.put(TOPIC, queue_id, b"z")
        await trio.sleep(1)
        assert broker.progress() == dict.fromkeys(range(QUEUES), 2)
