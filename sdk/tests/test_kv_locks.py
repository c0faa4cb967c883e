"""The wait for a lock: its limit, and what it says when brokers do not answer."""

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.sdk import BrokerUnreachable, ClientClosed, RequestTimedOut
from lanemq.sdk.kv import KvNotSupported, KvRejected, LockNotAcquired, NoLease, open_kv_store
from lanemq.sdk.kv._lock_queue import LOOK_S
from lanemq.testkit.sdk.cluster import Peer
from lanemq.testkit.sdk.kv import KvCluster
from lanemq.testkit.sdk.kv_stores import opened
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.kv import OF_LEASES, OpType

WRITE, GET = RequestCode.KV_WRITE, RequestCode.KV_GET
SCAN, WATCH = RequestCode.KV_SCAN, RequestCode.KV_WATCH
INVALID = ResponseCode.INVALID_PARAMETER
ATTEMPT_S = 3.0
NOWHERE = "127.0.0.1:1"


@pytest.fixture
def kv(nursery: trio.Nursery) -> KvCluster:
    """One broker, that has the namespace."""
    cluster = KvCluster(nursery, brokers=1)
    cluster.make(1)
    return cluster


@pytest.mark.parametrize("wait_s", [0, 0.001])
async def test_a_free_lock_is_taken_however_short_the_wait(
    kv: KvCluster, autojump_clock: MockClock, wait_s: float
) -> None:
    kv.connect_delay_s = 0.5
    async with opened(kv) as store, store.lock(b"l", wait_s=wait_s) as lock:
        assert lock.is_held


async def test_without_a_wait_a_held_lock_is_asked_for_once(
    kv: KvCluster, autojump_clock: MockClock
) -> None:
    async with opened(kv) as store, store.lock(b"l"):
        broker = kv.kv_brokers[0]
        read, written = len(broker.asked(GET)), len(broker.asked(WRITE))
        with pytest.raises(LockNotAcquired, match="not free within 0 s"):
            async with store.lock(b"l", wait_s=0):
                raise AssertionError
        await wait_all_tasks_blocked()
        assert len(broker.asked(GET)) == read + 1
        assert len(broker.asked(WRITE)) == written


async def test_a_held_lock_is_waited_for_just_as_long_as_wanted(
    kv: KvCluster, autojump_clock: MockClock
) -> None:
    async with opened(kv) as store, store.lock(b"l", ttl_s=600):
        since_s = trio.current_time()
        with pytest.raises(LockNotAcquired, match="not free within 7 s"):
            async with store.lock(b"l", wait_s=7):
                raise AssertionError
        assert trio.current_time() == pytest.approx(since_s + 7)


@pytest.mark.parametrize("wait_s", [0, 2, 60])
async def test_a_server_that_is_not_there_is_no_lock_that_is_held(
    kv: KvCluster, autojump_clock: MockClock, wait_s: float
) -> None:
    """It says so, and no later than wanted; nothing was sent that had to be taken back."""
    since_s = trio.current_time()
    async with open_kv_store(name_servers=NOWHERE, dial=kv.dial, timeout_s=15) as store:
        with pytest.raises(BrokerUnreachable, match=NOWHERE):
            async with store.lock(b"l", wait_s=wait_s):
                raise AssertionError
    assert trio.current_time() <= since_s + min(wait_s, 15)


@pytest.mark.parametrize(("wait_s", "takes_s"), [(0, ATTEMPT_S), (2, ATTEMPT_S), (5, 5), (60, 15)])
async def test_a_broker_that_does_not_answer_is_named(
    kv: KvCluster, autojump_clock: MockClock, wait_s: float, takes_s: float
) -> None:
    """The first attempt takes as long as a request may; the wait is over in time otherwise."""
    broker = kv.kv_brokers[0]
    async with opened(kv, timeout_s=15) as store:
        await store.put(b"other", b"x")
        broker.mute(WRITE, 1000)
        since_s = trio.current_time()
        with pytest.raises(RequestTimedOut, match=broker.address):
            async with store.lock(b"l", wait_s=wait_s):
                raise AssertionError
        assert trio.current_time() == pytest.approx(since_s + takes_s)


@pytest.mark.parametrize("op_type", [OpType.LEASE, OpType.CAS])
async def test_a_lock_that_may_have_been_got_all_the_same_is_given_back(
    kv: KvCluster, autojump_clock: MockClock, op_type: str
) -> None:
    broker, part = kv.kv_brokers[0], kv.namespaces["default"][0]
    real = broker.handlers[WRITE]

    def write(frame: Frame, peer: Peer) -> Frame | None:
        answer = real(frame, peer)
        return None if frame.fields["opType"] == op_type else answer

    async with opened(kv) as store:
        await store.put(b"other", b"x")
        broker.handlers[WRITE] = write
        with pytest.raises(RequestTimedOut):
            async with store.lock(b"l", wait_s=0):
                raise AssertionError
        assert len(part.leases) == 1
        assert (b"l" in kv.written()) == (op_type == OpType.CAS)
    assert part.leases == set()
    assert b"l" not in kv.written()


async def test_a_broker_of_before_there_were_leases_is_named(
    kv: KvCluster, autojump_clock: MockClock
) -> None:
    broker = kv.kv_brokers[0]
    real = broker.handlers[WRITE]

    def write(frame: Frame, peer: Peer) -> Frame | None:
        op_type = frame.fields["opType"]
        if op_type in OF_LEASES:
            return frame.reply(INVALID, remark=f"there is no operation {op_type!r}")
        return real(frame, peer)

    broker.handlers[WRITE] = write
    async with opened(kv) as store:
        for held in (store.lock(b"l"), store.leader("l"), store.lease()):
            with pytest.raises(KvNotSupported, match="has no leases: that takes a later version"):
                async with held:
                    raise AssertionError
        with pytest.raises(KvNotSupported, match=broker.address):
            await store.grant_lease(5)
    assert kv.written() == {}


async def test_a_lease_that_a_partition_refuses_is_taken_back_from_the_others(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = KvCluster(nursery, brokers=2)
    cluster.make(4)
    parts = cluster.namespaces["default"]
    parts[2].leases.add(7)
    async with opened(cluster) as store:
        with pytest.raises(KvRejected, match="already"):
            await store.grant_lease(5, lease=7)
        assert [part.leases for part in parts.values()] == [set(), set(), {7}, set()]
        await store.revoke_lease(7)  # where it is
        assert not any(part.leases for part in parts.values())
        with pytest.raises(NoLease):
            await store.revoke_lease(7)


async def test_a_grant_without_an_answer_ends_no_lease_that_has_its_number(
    kv: KvCluster, autojump_clock: MockClock
) -> None:
    """One of a chosen number may be another program's; one of a new number is taken back."""
    broker, part = kv.kv_brokers[0], kv.namespaces["default"][0]
    real = broker.handlers[WRITE]

    def write(frame: Frame, peer: Peer) -> Frame | None:
        answer = real(frame, peer)
        return None if frame.fields["opType"] == OpType.LEASE else answer

    async with opened(kv, timeout_s=5) as store:
        await store.grant_lease(60, lease=7)
        await store.put(b"a", b"1", lease=7)
        broker.handlers[WRITE] = write
        with pytest.raises(RequestTimedOut):
            await store.grant_lease(60, lease=7)
        with trio.move_on_after(1):
            await store.grant_lease(60, lease=7)
        assert part.leases == {7}
        assert kv.written() == {b"a": b"1"}
        with trio.move_on_after(1):
            await store.grant_lease(60)
        assert part.leases == {7}


async def test_what_is_held_by_a_shared_lease_is_released_once_the_broker_is_back(
    kv: KvCluster, autojump_clock: MockClock
) -> None:
    """The lease may last for very long: the lock and the place in its queue go before."""
    broker = kv.kv_brokers[0]
    async with opened(kv, timeout_s=5) as store, store.lease(600) as lease:
        async with store.lock(b"l", lease=lease.id):
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:

                    async def wait() -> None:
                        async with store.lock(b"l", lease=lease.id):
                            raise AssertionError

                    nursery.start_soon(wait)
                    await trio.sleep(3)
                    assert len(kv.written()) == 2
                    broker.reachable = False
                    broker.cut()
                    scope.cancel()
        assert len(kv.written()) == 2  # it was not tried for long
        broker.reachable = True
        await trio.sleep(60)
        assert lease.is_held
        assert kv.written() == {}
        written = len(broker.asked(WRITE))
        await trio.sleep(600)
        assert len(broker.asked(WRITE)) == written + 3  # keep-alives of the lease, and no more


async def test_who_waits_gets_no_lock_by_a_lease_that_is_lost(
    kv: KvCluster, autojump_clock: MockClock
) -> None:
    """The broker hears keep-alives whose answers are lost, and has the lease for longer."""
    broker, part = kv.kv_brokers[0], kv.namespaces["default"][0]
    real = broker.handlers[WRITE]

    def write(frame: Frame, peer: Peer) -> Frame | None:
        answer = real(frame, peer)
        return None if frame.fields["opType"] == OpType.ALIVE else answer

    async with opened(kv) as one, opened(kv) as two, trio.open_nursery() as nursery:
        got: list[bool] = []

        async def wait() -> None:
            async with two.lock(b"l", ttl_s=6) as lock:
                got.append(lock.is_held)

        async with one.lock(b"l", ttl_s=600):
            nursery.start_soon(wait)
            await trio.sleep(3)
            broker.handlers[WRITE] = write
            await trio.sleep(20)
            broker.handlers[WRITE] = real
            assert got == []
        await trio.sleep(60)
        assert got == [True]
    assert part.leases == set()
    assert kv.written() == {}


async def test_many_who_wait_read_their_queue_once_and_when_the_one_before_is_gone(
    kv: KvCluster, autojump_clock: MockClock
) -> None:
    """Requests grow with the number of those who wait, not with its square."""
    broker, count = kv.kv_brokers[0], 100
    got: list[int] = []
    async with opened(kv) as store, trio.open_nursery() as nursery:

        async def wait(number: int) -> None:
            async with store.lock(b"l", ttl_s=36_000):
                got.append(number)

        async with store.lock(b"l", ttl_s=36_000):
            for number in range(count):
                nursery.start_soon(wait, number)
                await trio.sleep(0.1)
            scans, since_s = len(broker.asked(SCAN)), trio.current_time()
            assert scans <= 2 * count + 1  # is it free, and: who is before
            read, watched = len(broker.asked(GET)), len(broker.asked(WATCH))
            await trio.sleep(600)
            assert len(broker.asked(SCAN)) == scans
            looks = count * (trio.current_time() - since_s) / LOOK_S + count
            assert len(broker.asked(GET)) - read <= looks
            assert len(broker.asked(WATCH)) - watched <= looks
            assert got == []
        await trio.sleep(1)
        assert got == list(range(count))
        assert len(broker.asked(SCAN)) - scans <= count


async def test_who_waits_and_whose_place_is_gone_takes_another_one(
    kv: KvCluster, autojump_clock: MockClock
) -> None:
    """A second one finds out while it waits for the first, and the first while it waits."""
    got: list[str] = []
    async with opened(kv) as store, trio.open_nursery() as nursery:

        async def wait(name: str) -> None:
            async with store.lock(b"l", ttl_s=600):
                got.append(name)

        async with store.lock(b"l", ttl_s=600):
            tickets: list[bytes] = []
            for name in ("one", "two", "three"):
                nursery.start_soon(wait, name)
                await trio.sleep(1)
                tickets += set(kv.written()) - {b"l", *tickets}
            await store.delete(tickets[1])
            await trio.sleep(LOOK_S + 1)
            assert len(kv.written()) == 4
            await store.delete(tickets[0])
            await trio.sleep(1)
            assert len(kv.written()) == 4
        await trio.sleep(1)
    assert got == ["three", "two", "one"]


async def test_a_store_that_is_closed_says_so(kv: KvCluster, autojump_clock: MockClock) -> None:
    async with opened(kv) as store, store.lock(b"other"):
        pass
    with pytest.raises(ClientClosed):
        async with store.lock(b"l", wait_s=0):
            raise AssertionError
