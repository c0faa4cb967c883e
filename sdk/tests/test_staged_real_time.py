"""Staged and orderly consumption against `lanemq serve`, in real time."""

import subprocess
import sys
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
from lanemq.testing import open_test_server
from lanemq.testkit.proxy.locks import keep_locks
from lanemq.testkit.servers import PATIENT_S
from lanemq.wire.bodies import TopicConfig
from lanemq.wire.message import StageRecord, stage_group

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("patient_ends")]
FIRST = PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET)
SIZES = [10, 20, 70]
AT_ONCE = [10, 20, 20, 20, 20, 10]
"""Messages that twenty workers have at the same time, in stages of these sizes: six rounds."""
PATIENCE_S = 300.0
"""Far more than anything here takes: the machine may be busy."""

Handle = Callable[[Sequence[ReceivedMessage]], Awaitable[Outcome | None]]
Listener = OrderlyListener | StagedConcurrentListener


async def make_topic(name_server: str, topic: str) -> tuple[str, MessageQueue]:
    """A topic of one queue; the broker's address and the queue."""
    async with open_admin(name_servers=name_server, timeout_s=PATIENT_S) as admin:
        (address,) = await admin.masters("DefaultCluster")
        await admin.put_topic(address, TopicConfig(topic, 1, 1))
    async with open_producer("pg", name_servers=name_server, send_timeout_s=PATIENCE_S) as producer:
        (queue,) = await producer.publish_queues(topic)
        async with producer.staged(queue, SIZES) as stage:
            for number in range(100):
                await stage.send(Message(topic=topic, body=b"%d" % number))
    return address, queue


class Log:
    """Runs of the listener: offset, begin and end, counted over all of them.

    A run of the listener ends when as many others have begun as ``at_once`` has for its round.
    """

    def __init__(self, at_once: Sequence[int]) -> None:
        self.runs: list[tuple[int, int, int]] = []
        self.done = trio.Event()
        self._rounds = [(count, trio.Event()) for count in at_once]
        self._count = sum(at_once)
        self._waiting = self._steps = 0

    def _step(self) -> int:
        self._steps += 1
        return self._steps

    async def __call__(self, messages: Sequence[ReceivedMessage]) -> None:
        (message,) = messages
        begun = self._step()
        count, whole = self._rounds[0]
        self._waiting += 1
        if self._waiting == count:
            self._waiting = 0
            self._rounds.pop(0)
            whole.set()
        await whole.wait()
        self.runs.append((message.queue_offset, begun, self._step()))
        if len(self.runs) == self._count:
            self.done.set()


async def consume(
    name_server: str,
    topic: str,
    listener_of: Callable[[Handle], Listener],
    group: str,
    at_once: Sequence[int],
) -> Log:
    """Let a consumer have the hundred messages of ``topic``, so many at once."""
    log = Log(at_once)
    async with open_push_consumer(
        group,
        name_servers=name_server,
        subscriptions={topic: "*"},
        listener=listener_of(log),
        options=FIRST,
    ):
        with trio.fail_after(PATIENCE_S):
            await log.done.wait()
    return log


def staged(handle: Handle) -> StagedConcurrentListener:
    return StagedConcurrentListener(handle, SIZES)


async def test_the_proposals_example_takes_six_rounds(name_server: str) -> None:
    address, queue = await make_topic(name_server, "ProposalTopic")
    stages = Stages(SIZES)
    log = await consume(name_server, "ProposalTopic", staged, "proposal", AT_ONCE)
    assert sorted(offset for offset, _, _ in log.runs) == list(range(100))
    for stage in range(1, 3):
        earlier = max(end for offset, _, end in log.runs if stages.stage_of(offset) < stage)
        later = min(begin for offset, begin, _ in log.runs if stages.stage_of(offset) >= stage)
        assert earlier < later
    async with open_admin(name_servers=name_server, timeout_s=PATIENT_S) as admin:
        number = await admin.group_offset(address, stage_group("proposal"), queue)
        assert number is not None
        assert StageRecord.unpack(number) == StageRecord(100, 100, settled=True)
        assert await admin.group_offset(address, "proposal", queue) == 100


async def test_an_orderly_listener_has_one_message_at_a_time(name_server: str) -> None:
    await make_topic(name_server, "OrderlyTopic")
    log = await consume(name_server, "OrderlyTopic", OrderlyListener, "orderly", [1] * 100)
    assert log.runs == [(offset, 2 * offset + 1, 2 * offset + 2) for offset in range(100)]


async def test_an_offline_reset_by_the_admin_client_begins_the_stages_anew(
    name_server: str,
) -> None:
    address, queue = await make_topic(name_server, "ResetTopic")
    await consume(name_server, "ResetTopic", staged, "resetting", AT_ONCE)
    async with open_admin(name_servers=name_server, timeout_s=PATIENT_S) as admin:
        done = await reset_offsets_by_time(admin, "resetting", "ResetTopic", 1)
        number = await admin.group_offset(address, stage_group("resetting"), queue)
        assert number == StageRecord(0, 0, settled=True).pack()
    assert done.offline is not None
    log = await consume(name_server, "ResetTopic", staged, "resetting", AT_ONCE)
    assert sorted(offset for offset, _, _ in log.runs) == list(range(100))
    first = sorted(log.runs, key=lambda run: run[1])[:10]
    assert sorted(offset for offset, _, _ in first) == list(range(10))


OWNER = """
import sys, time
from lanemq.sdk.blocking import ConsumeFrom, StagedConcurrentListener, open_push_consumer

def handle(messages):
    print("began", flush=True)
    time.sleep(3600)

with open_push_consumer(
    "killed-owners",
    name_servers=sys.argv[1],
    subscriptions={"Killed": "*"},
    listener=StagedConcurrentListener(handle, [10, 20, 70]),
    consume_from=ConsumeFrom.FIRST_OFFSET,
):
    time.sleep(3600)
"""


async def test_a_killed_owner_leaves_its_queues_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_locks(monkeypatch)  # nobody is to wait for that
    with open_test_server() as server:
        await make_topic(server.name_servers, "Killed")
        owner = await trio.lowlevel.open_process(
            [sys.executable, "-c", OWNER, server.name_servers], stdout=subprocess.PIPE
        )
        assert owner.stdout is not None
        with trio.fail_after(PATIENCE_S):
            assert await owner.stdout.receive_some(5) == b"began"
        log = Log(AT_ONCE)
        async with open_push_consumer(
            "killed-owners",
            name_servers=server.name_servers,
            subscriptions={"Killed": "*"},
            listener=StagedConcurrentListener(log, SIZES),
            options=FIRST,
        ):
            await trio.sleep(1)
            assert not log.runs
            owner.kill()
            await owner.wait()
            with trio.fail_after(PATIENCE_S):
                await log.done.wait()
