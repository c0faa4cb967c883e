"""The lock of a logical queue: one client has it, wherever the queue goes and whoever is asked."""

import pytest
import trio
from trio.testing import MockClock

from lanemq.proxy.logical.listener.brokers import _lent
from lanemq.proxy.sessions.state import _lock_charges
from lanemq.testkit.logical.cluster import TOPIC, LogicalCluster
from lanemq.testkit.logical.mapped import mapped_cluster
from lanemq.testkit.proxy.brokers import Client
from lanemq.testkit.proxy.peers import Peer
from lanemq.testkit.simulation._processes import LOGICAL_PORT
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import LockBatch, LockBatchResult, MessageQueue
from lanemq.wire.logical import LOCK_FIELD, LOGICAL_QUEUE_BROKER, SegmentState

GROUP = "orderly"
QUEUE = MessageQueue(TOPIC, LOGICAL_QUEUE_BROKER, 0)
NAMES = ("broker1", "broker2", "broker3", "broker4")
TRUST_S = 30.0
"""For so long a client goes on with a lock that it cannot renew."""


async def gets_lock(
    cluster: LogicalCluster,
    client_id: str,
    at: str,
    *,
    group: str = GROUP,
    host: str = "10.0.9.7",
) -> bool:
    """Return whether a client that asks the listener of a broker gets the lock."""
    stream = await cluster.network.dialer(host)(cluster.brokers[at].host, LOGICAL_PORT)
    body = LockBatch(group, client_id, (QUEUE,)).encode()
    answer = await Client(Peer(stream)).call(RequestCode.LOCK_BATCH_MQ, body=body)
    assert answer.code == 0, answer.remark
    return QUEUE in LockBatchResult.decode(answer.body).lock_ok_mq_set


@pytest.mark.parametrize("at", ["broker1", "broker2"])
async def test_locks_through_listeners_leave_places(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """They were those of clients, of which a peer may have as many as it gives names."""
    monkeypatch.setattr(_lock_charges, "LOCKS_MAX", 20)
    async with mapped_cluster(*NAMES[:2]) as cluster:
        taken = [
            await gets_lock(cluster, f"c{number}", at, group=f"g{number}") for number in range(40)
        ]
        assert 4 <= sum(taken) <= 16, "three quarters of all from one address"
        assert taken[0]


async def test_locks_at_other_brokers_leave_places_to_other_clients_of_the_listener(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For such a broker all of them have one peer, the listener."""
    monkeypatch.setattr(_lent, "LENT_MAX", 20)
    async with mapped_cluster(*NAMES[:2]) as cluster:
        taken = [
            await gets_lock(cluster, f"c{number}", "broker2", group=f"g{number}")
            for number in range(30)
        ]
        assert 14 <= sum(taken) <= 16, "three quarters of all from one address"
        others = await gets_lock(cluster, "other", "broker2", group="other", host="10.0.9.8")
        assert others
        assert await gets_lock(cluster, "c0", "broker2", group="g0"), "renewed"
        assert await gets_lock(cluster, "c29", "broker1", group="g29"), "it sees who asks"
        await trio.sleep(61)
        assert await gets_lock(cluster, "c28", "broker2", group="g28"), "the others have expired"


def test_locks_of_another_address_are_not_forgotten_by_asking_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor given back: two addresses together would have more than all places."""
    monkeypatch.setattr(_lent, "LENT_MAX", 20)
    lent = _lent.LentLocks(lambda: 0.0)
    queues = [MessageQueue(TOPIC, LOGICAL_QUEUE_BROKER, number) for number in range(40)]
    ours = [queue for queue in queues if lent.take("g", queue, "10.0.9.7")]
    theirs = [queue for queue in queues if lent.take("h", queue, "10.0.9.8")]
    for queue in ours:
        assert not lent.take("g", queue, "10.0.9.8")
    lent.give_back("g", ours, "10.0.9.8")
    assert len(lent) == len(ours) + len(theirs)
    assert not lent.take("i", QUEUE, "10.0.9.7")
    lent.give_back("g", ours, "10.0.9.7")
    assert len(lent) == len(theirs)
    assert lent.take("i", QUEUE, "10.0.9.7")


@pytest.mark.parametrize("messages", [0, 3])
async def test_a_lock_outlives_moves_that_nobody_renewed_it_between(
    autojump_clock: MockClock, messages: int
) -> None:
    """The brokers in the middle have lent nothing, and know of nothing by themselves."""
    async with mapped_cluster(*NAMES) as cluster:
        assert await gets_lock(cluster, "first", "broker1")
        for name in NAMES[1:]:
            await cluster.fill(await cluster.normal(0), messages)
            await cluster.migrate(0, name)
        assert not await gets_lock(cluster, "second", "broker4")
        assert await gets_lock(cluster, "first", "broker2")
        assert not await gets_lock(cluster, "second", "broker4")


async def test_a_broker_in_the_middle_that_does_not_answer_keeps_the_lock_for_as_long_as_it_counts(
    autojump_clock: MockClock,
) -> None:
    async with mapped_cluster(*NAMES) as cluster:
        assert await gets_lock(cluster, "first", "broker1")
        lent_s = trio.current_time()
        for name in NAMES[1:]:
            await cluster.migrate(0, name)
        await cluster.brokers["broker2"].kill()
        while not await gets_lock(cluster, "second", "broker4"):  # noqa: ASYNC110 - nobody is told
            await trio.sleep(1)
        assert trio.current_time() - lent_s >= TRUST_S


async def test_a_queue_that_was_at_a_broker_twice_is_asked_for_at_the_right_one(
    autojump_clock: MockClock,
) -> None:
    async with mapped_cluster(*NAMES) as cluster:
        assert await gets_lock(cluster, "first", "broker1")
        for name in ("broker2", "broker1", "broker2", "broker3"):
            await cluster.fill(await cluster.normal(0), 1)
            await cluster.migrate(0, name)
        assert not await gets_lock(cluster, "second", "broker3")
        assert await gets_lock(cluster, "first", "broker3")


async def test_a_broker_that_was_restarted_asks_for_what_was_lent_before_its_own_segments(
    autojump_clock: MockClock,
) -> None:
    """It does not remember when these were sealed: that may have been a moment ago."""
    async with mapped_cluster(*NAMES) as cluster:
        assert await gets_lock(cluster, "first", "broker1")
        await cluster.fill(await cluster.normal(0), 1)
        _, opened = await cluster.migrate(0, "broker2")
        await cluster.fill(opened, 1)
        assert (await cluster.seal("broker2", opened.queue_id, 0)).code == 0
        assert (await cluster.create("broker2", 0, SegmentState.NORMAL)).code == 0
        await cluster.brokers["broker2"].kill()
        await cluster.brokers["broker2"].restart("power")
        cluster.forget()
        await trio.sleep(2)
        assert not await gets_lock(cluster, "second", "broker2")
        assert await gets_lock(cluster, "first", "broker2")


@pytest.mark.parametrize("count", [0, 2])
async def test_the_lock_of_one_queue_is_told(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, count: int
) -> None:
    async with mapped_cluster(*NAMES[:1]) as cluster:
        stream = await cluster.network.dialer("10.0.9.7")(cluster.brokers["broker1"].host, 10911)
        queues = tuple(MessageQueue(TOPIC, LOGICAL_QUEUE_BROKER, number) for number in range(count))
        body = LockBatch(GROUP, "c", queues).encode()
        answer = await Client(Peer(stream)).call(
            RequestCode.LOCK_BATCH_MQ, {LOCK_FIELD: "tell"}, body
        )
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert answer.remark == f"{count} queues: the lock of one is told"
    assert "failed at request" not in caplog.text
