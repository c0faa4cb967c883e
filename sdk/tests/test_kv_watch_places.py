"""A broker that lets no more requests wait: who waits for a change looks for it now and then."""

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import RefusedByBroker
from lanemq.sdk.kv.requests._waits import LOOK_S_MAX
from lanemq.testkit.sdk.kv import KvBroker, KvCluster
from lanemq.testkit.sdk.kv_stores import opened
from lanemq.wire import RequestCode
from lanemq.wire.kv import ChangeKind

WATCH = RequestCode.KV_WATCH
LONG_S = 600.0


@pytest.fixture
def kv(nursery: trio.Nursery) -> KvCluster:
    """One broker, that has the namespace, and no place for a request that waits."""
    cluster = KvCluster(nursery, brokers=1)
    cluster.make(1)
    cluster.kv_brokers[0].watches_max = 0
    return cluster


@pytest.fixture
def broker(kv: KvCluster) -> KvBroker:
    return kv.kv_brokers[0]


@pytest.mark.parametrize("places", [0, 3])
async def test_who_waits_without_a_place_gets_the_lock_in_turn(
    kv: KvCluster, broker: KvBroker, autojump_clock: MockClock, places: int
) -> None:
    broker.watches_max, count = places, 10
    got: list[int] = []
    async with opened(kv) as store, trio.open_nursery() as nursery:

        async def wait(number: int) -> None:
            async with store.lock(b"l", ttl_s=36_000):
                got.append(number)

        async with store.lock(b"l", ttl_s=36_000):
            for number in range(count):
                nursery.start_soon(wait, number)
                await trio.sleep(0.1)
            watched = len(broker.asked(WATCH))
            await trio.sleep(LONG_S)
            assert len(broker.asked(WATCH)) - watched <= count * LONG_S
            assert got == []
        await trio.sleep(count * (LOOK_S_MAX + 1))
        assert got == list(range(count))


async def test_a_watch_without_a_place_has_all_changes(
    kv: KvCluster, broker: KvBroker, autojump_clock: MockClock
) -> None:
    async with opened(kv) as store, trio.open_nursery() as nursery:
        seen: list[bytes | None] = []

        async def read() -> None:
            async for change in store.watch(b"k", position=0):
                seen.append(change.value)

        nursery.start_soon(read)
        await trio.sleep(LONG_S)
        values = [b"%d" % number for number in range(10)]
        for value in values:
            await store.put(b"k", value)
            await trio.sleep(1)
        await trio.sleep(LOOK_S_MAX)
        assert seen == values
        broker.watches_max = 1
        await trio.sleep(LONG_S)
        watched = len(broker.asked(WATCH))
        await trio.sleep(LONG_S)
        assert len(broker.asked(WATCH)) - watched <= LONG_S / 20 + 1, "it has a place again"
        nursery.cancel_scope.cancel()


async def test_the_progress_of_a_watch_without_a_place_comes_in_time(
    kv: KvCluster, autojump_clock: MockClock
) -> None:
    async with opened(kv) as store:
        watch, since_s = store.watch(progress_s=2), trio.current_time()
        for number in range(1, 4):
            assert (await watch.__anext__()).kind == ChangeKind.PROGRESS
            assert trio.current_time() <= since_s + 2 * number + 0.5


async def test_a_broker_that_is_busy_with_something_else_has_the_time_of_a_call(
    kv: KvCluster, autojump_clock: MockClock
) -> None:
    part = kv.namespaces["default"][0]
    async with opened(kv, timeout_s=15) as store:
        part.is_moving, since_s = True, trio.current_time()
        with pytest.raises(RefusedByBroker, match="being moved"):
            await store.watch(position=0).__anext__()
        assert 10 <= trio.current_time() - since_s <= 20
