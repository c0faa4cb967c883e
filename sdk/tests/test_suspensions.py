"""Locks and leases of a client whose machine was suspended: brokers counted on meanwhile."""

from collections.abc import Awaitable, Callable, Sequence

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import ConsumeFrom, OrderlyListener, ReceivedMessage
from lanemq.sdk.kv import Lease, LeaseLost, LockLost, NoLease
from lanemq.testkit.sdk.clients import push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster, Peer
from lanemq.testkit.sdk.kv import KvCluster
from lanemq.testkit.sdk.kv_stores import opened
from lanemq.testkit.suspensions import suspending
from lanemq.wire import RequestCode
from lanemq.wire.frame import Frame
from lanemq.wire.kv import OpType

WRITE, LOCK = RequestCode.KV_WRITE, RequestCode.LOCK_BATCH_MQ
TTL_S = 15.0


@pytest.fixture
def kv(nursery: trio.Nursery) -> KvCluster:
    cluster = KvCluster(nursery, brokers=1)
    cluster.make(1)
    return cluster


@pytest.fixture
def suspend(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    return suspending(monkeypatch)


async def test_a_lock_is_lost_by_a_suspension_that_takes_its_whole_time(
    kv: KvCluster, autojump_clock: MockClock, suspend: Callable[[float], None]
) -> None:
    broker, held = kv.kv_brokers[0], list[bool]()

    def renewals() -> int:
        asked = [frame.fields for frame in broker.requests if frame.code == WRITE]
        return sum(fields["opType"] == OpType.ALIVE for fields in asked)

    async def hold() -> None:
        async with opened(kv) as store, store.lock(b"l", ttl_s=TTL_S) as lock:
            suspend(0.5 * TTL_S)
            held.append(lock.is_held)
            await trio.sleep(0.9 * TTL_S)  # in which it is renewed
            held.append(lock.is_held)
            suspend(1.1 * TTL_S)
            held.append(lock.is_held)
            renewed = renewals()
            assert renewed > 0
            await trio.sleep(0.9 * TTL_S)
            held.append(lock.is_held)
            # Others may have had it in between: that the broker says yes now means nothing.
            assert renewals() == renewed

    with pytest.raises(LockLost):
        await hold()
    assert held == [True, True, False, False]


async def test_a_lease_is_lost_by_a_suspension_and_cannot_be_kept_alive(
    kv: KvCluster, autojump_clock: MockClock, suspend: Callable[[float], None]
) -> None:
    held = list[bool]()

    async def hold(wait: Callable[[Lease], Awaitable[None]]) -> None:
        async with opened(kv) as store, store.lease(TTL_S) as lease:
            suspend(1.1 * TTL_S)
            held.append(lease.is_held)
            with trio.fail_after(TTL_S):
                await wait(lease)
            held.append(lease.is_held)

    async def keep_alive(lease: Lease) -> None:
        with pytest.raises(NoLease):
            await lease.keep_alive()

    for wait in (keep_alive, Lease.wait_until_lost):
        with pytest.raises(LeaseLost):
            await hold(wait)
    assert held == [False] * 4


async def test_what_is_granted_across_a_suspension_counts_from_before_it(
    kv: KvCluster, autojump_clock: MockClock, suspend: Callable[[float], None]
) -> None:
    broker, held = kv.kv_brokers[0], list[bool]()
    real = broker.handlers[WRITE]

    def write(frame: Frame, peer: Peer) -> Frame | None:
        suspend(1.1 * TTL_S)  # between the request and its answer
        return real(frame, peer)

    async def hold() -> None:
        async with opened(kv) as store:
            broker.handlers[WRITE] = write
            async with store.lease(TTL_S) as lease:
                broker.handlers[WRITE] = real
                held.append(lease.is_held)

    with pytest.raises(LeaseLost):
        await hold()
    assert held == [False]


async def test_queues_are_locked_again_after_a_suspension_before_they_are_read_on(
    cluster: FakeCluster, autojump_clock: MockClock, suspend: Callable[[float], None]
) -> None:
    cluster.create_topic("T", 1)
    locked_when_handled: list[int] = []

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        locked_when_handled.append(cluster.broker.count(LOCK))

    async with push_consumer_of(
        cluster, OrderlyListener(handle), consume_from=ConsumeFrom.FIRST_OFFSET
    ):
        await trio.sleep(1)
        locked = cluster.broker.count(LOCK)
        suspend(25)  # brokers give it to nobody before 60 s, and it counts as ours for 30
        cluster.broker.put("T", 0, b"one")
        await trio.sleep(1)
        assert locked_when_handled == [locked]
        suspend(600)
        cluster.broker.put("T", 0, b"two")
        await trio.sleep(60)
        assert len(locked_when_handled) == 2
        assert locked_when_handled[1] > locked
