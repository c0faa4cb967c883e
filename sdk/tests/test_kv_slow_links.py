"""Large values over a slow link: what takes longer than an attempt gets through all the same."""

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import RequestTimedOut
from lanemq.testkit.sdk.cluster import Peer
from lanemq.testkit.sdk.kv import KvCluster
from lanemq.testkit.sdk.kv_stores import opened
from lanemq.wire import RequestCode
from lanemq.wire.frame import Frame

GET, WRITE = RequestCode.KV_GET, RequestCode.KV_WRITE
BYTES_S = 160_000
LONG = bytes(1_600_000)


@pytest.fixture
def kv(nursery: trio.Nursery) -> KvCluster:
    """One broker, that has the namespace."""
    cluster = KvCluster(nursery, brokers=1)
    cluster.make(1)
    return cluster


def slow_down(kv: KvCluster) -> None:
    """Let requests and answers of keys take their time, one after another on one link."""
    broker, link = kv.kv_brokers[0], trio.StrictFIFOLock()
    real = broker.handlers[GET]  # the same for all requests of keys

    async def answer(frame: Frame, peer: Peer) -> Frame | None:
        async with link:
            await trio.sleep(len(frame.body) / BYTES_S)
        found = real(frame, peer)
        assert found is not None
        async with link:
            await trio.sleep(len(found.body) / BYTES_S)
        return found

    for code in (GET, WRITE):
        del broker.handlers[code]
        broker.waiters[code] = answer


async def test_a_large_value_is_written_with_one_request(
    kv: KvCluster, autojump_clock: MockClock
) -> None:
    slow_down(kv)
    async with opened(kv, timeout_s=15) as store:
        since_s = trio.current_time()
        await store.put(b"k", LONG)
        assert kv.kv_brokers[0].count(WRITE) == 1
        assert trio.current_time() - since_s == pytest.approx(10, abs=1)


@pytest.mark.parametrize("timeout_s", [60, 120])
async def test_a_large_value_is_read_within_a_long_time(
    kv: KvCluster, autojump_clock: MockClock, timeout_s: float
) -> None:
    async with opened(kv, timeout_s=timeout_s) as store:
        await store.put(b"k", LONG)
        slow_down(kv)
        entry = await store.get(b"k")
        assert entry is not None
        assert entry.value == LONG
        assert kv.kv_brokers[0].count(GET) <= 5


async def test_the_limit_of_an_attempt_leaves_time_for_others(
    kv: KvCluster, autojump_clock: MockClock
) -> None:
    """A broker that does not answer has half of what is left at most."""
    broker = kv.kv_brokers[0]
    asked_s: list[float] = []

    def silence(frame: Frame, peer: Peer) -> None:
        asked_s.append(trio.current_time())

    async with opened(kv, timeout_s=15) as store:
        await store.put(b"k", b"v")
        broker.handlers[GET] = silence
        since_s = trio.current_time()
        with pytest.raises(RequestTimedOut):
            await store.get(b"k")
        assert trio.current_time() <= since_s + 15
        assert [round(one_s - since_s) for one_s in asked_s] == [0, 3, 9, 12]
