"""Staged and orderly consumption against `lanemq serve`, in real time."""

from collections.abc import Awaitable, Callable, Sequence

import pytest
import trio

from lanemq.sdk import (
    ConsumeFrom,
    Message,
    MessageQueue,
    OrderlyListener,
    Outcome,
    PushOptions,
    ReceivedMessage,
    StagedConcurrentListener,
    Stages,
    open_producer,
    open_push_consumer,
)
from lanemq.sdk.admin import open_admin, reset_offsets_by_time
from lanemq.wire import StageRecord, TopicConfig, stage_group

pytestmark = pytest.mark.slow
FIRST = PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET)
SIZES, TAKES_S = [10, 20, 70], 0.1

Handle = Callable[[Sequence[ReceivedMessage]], Awaitable[Outcome | None]]
Listener = OrderlyListener | StagedConcurrentListener


async def make_topic(name_server: str, topic: str) -> tuple[str, MessageQueue]:
    """A topic of one queue; the broker's address and the queue."""
    async with open_admin(name_servers=name_server) as admin:
        (address,) = await admin.masters("DefaultCluster")
        await admin.put_topic(address, TopicConfig(topic, 1, 1))
    async with open_producer("pg", name_servers=name_server) as producer:
        (queue,) = await producer.publish_queues(topic)
        async with producer.staged(queue, SIZES) as stage:
            for number in range(100):
                await stage.send(Message(topic=topic, body=b"%d" % number))
    return address, queue


class Log:
    """Runs of the listener: offset, begin and end in seconds."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.runs: list[tuple[int, float, float]] = []
        self.done = trio.Event()

    async def __call__(self, messages: Sequence[ReceivedMessage]) -> None:
        (message,) = messages
        began_s = trio.current_time()
        await trio.sleep(TAKES_S)
        self.runs.append((message.queue_offset, began_s, trio.current_time()))
        if len(self.runs) == self.count:
            self.done.set()

    @property
    def took_s(self) -> float:
        return max(end for _, _, end in self.runs) - min(begin for _, begin, _ in self.runs)


async def consume(
    name_server: str, topic: str, listener_of: Callable[[Handle], Listener], group: str
) -> Log:
    """Let a consumer have the hundred messages of ``topic``."""
    log = Log(100)
    async with open_push_consumer(
        group,
        name_servers=name_server,
        subscriptions={topic: "*"},
        listener=listener_of(log),
        options=FIRST,
    ):
        with trio.fail_after(30):
            await log.done.wait()
    return log


def staged(handle: Handle) -> StagedConcurrentListener:
    return StagedConcurrentListener(handle, SIZES)


async def test_the_proposals_example_ten_times_faster(name_server: str) -> None:
    address, queue = await make_topic(name_server, "ProposalTopic")
    stages, times = Stages(SIZES), []
    for attempt in range(3):  # a machine that does something else at the moment proves nothing
        group = f"proposal{attempt}"
        log = await consume(name_server, "ProposalTopic", staged, group)
        assert sorted(offset for offset, _, _ in log.runs) == list(range(100))
        for stage in range(1, 3):
            earlier = max(end for offset, _, end in log.runs if stages.stage_of(offset) < stage)
            later = min(begin for offset, begin, _ in log.runs if stages.stage_of(offset) >= stage)
            assert earlier <= later
        async with open_admin(name_servers=name_server) as admin:
            number = await admin.group_offset(address, stage_group(group), queue)
            assert number is not None
            assert StageRecord.unpack(number) == StageRecord(100, 100, settled=True)
            assert await admin.group_offset(address, group, queue) == 100
        times.append(log.took_s)
        if log.took_s <= 0.75:
            break
    assert min(times) <= 0.75


async def test_an_orderly_listener_takes_as_long_as_all_messages_one_by_one(
    name_server: str,
) -> None:
    await make_topic(name_server, "OrderlyTopic")
    log = await consume(name_server, "OrderlyTopic", OrderlyListener, "orderly")
    assert log.took_s >= 100 * TAKES_S
    assert [offset for offset, _, _ in log.runs] == list(range(100))


async def test_an_offline_reset_by_the_admin_client_begins_the_stages_anew(
    name_server: str,
) -> None:
    address, queue = await make_topic(name_server, "ResetTopic")
    await consume(name_server, "ResetTopic", staged, "resetting")
    async with open_admin(name_servers=name_server) as admin:
        done = await reset_offsets_by_time(admin, "resetting", "ResetTopic", 1)
        number = await admin.group_offset(address, stage_group("resetting"), queue)
        assert number == StageRecord(0, 0, settled=True).pack()
    assert done.offline is not None
    log = await consume(name_server, "ResetTopic", staged, "resetting")
    assert sorted(offset for offset, _, _ in log.runs) == list(range(100))
    first = sorted(log.runs, key=lambda run: run[1])[:10]
    assert sorted(offset for offset, _, _ in first) == list(range(10))
