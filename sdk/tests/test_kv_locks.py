"""The wait for a lock: its limit, and what it says when brokers do not answer."""

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.sdk import BrokerUnreachable, ClientClosed, RequestTimedOut
from lanemq.sdk.kv import LockNotAcquired, open_kv_store
from lanemq.testkit.sdk.kv import KvCluster
from lanemq.testkit.sdk.kv_stores import opened
from lanemq.wire import RequestCode

WRITE, WATCH = RequestCode.KV_WRITE, RequestCode.KV_WATCH
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
        written = len(kv.kv_brokers[0].asked(WRITE))
        with pytest.raises(LockNotAcquired, match="not free within 0 s"):
            async with store.lock(b"l", wait_s=0):
                raise AssertionError
        await wait_all_tasks_blocked()
        assert len(kv.kv_brokers[0].asked(WRITE)) == written + 1


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


async def test_a_lock_that_may_have_been_got_all_the_same_is_given_back(
    kv: KvCluster, autojump_clock: MockClock
) -> None:
    broker = kv.kv_brokers[0]
    async with opened(kv) as store:
        await store.put(b"other", b"x")
        broker.mute(WRITE)
        with pytest.raises(RequestTimedOut):
            async with store.lock(b"l", wait_s=0):
                raise AssertionError
        assert b"l" in kv.written()
    assert b"l" not in kv.written()


async def test_a_store_that_is_closed_says_so(kv: KvCluster, autojump_clock: MockClock) -> None:
    async with opened(kv) as store, store.lock(b"other"):
        pass
    with pytest.raises(ClientClosed):
        async with store.lock(b"l", wait_s=0):
            raise AssertionError
