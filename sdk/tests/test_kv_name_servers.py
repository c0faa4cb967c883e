"""Name servers that do not answer: they are asked no more often than needed, and calls end."""

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import LanemqError, RequestTimedOut
from lanemq.sdk.admin import open_admin
from lanemq.testkit.sdk.cluster import Node
from lanemq.testkit.sdk.kv import KvCluster
from lanemq.testkit.sdk.kv_stores import key_in, opened
from lanemq.wire import RequestCode

REQUEST_S = 3.0


@pytest.fixture
def silent(kv: KvCluster) -> list[Node]:
    """The first of three name servers take connections, and answer nothing."""
    for _ in range(2):
        kv.add_name_server()
    kv.make(2)
    nodes: list[Node] = [*kv.name_server_nodes[:2]]
    for node in nodes:
        node.stall()
    return nodes


async def test_a_silent_name_server_is_waited_for_once(
    kv: KvCluster, silent: list[Node], autojump_clock: MockClock
) -> None:
    async with opened(kv) as store:
        since_s = trio.current_time()
        await store.put(key_in(0, 2), b"1")
        assert trio.current_time() == pytest.approx(since_s + len(silent) * REQUEST_S)
        await store.put(key_in(1, 2), b"1")
        assert await store.namespaces() == []
        assert trio.current_time() == pytest.approx(since_s + len(silent) * REQUEST_S)


async def test_an_administrator_stays_with_the_name_server_that_answers(
    kv: KvCluster, silent: list[Node], autojump_clock: MockClock
) -> None:
    async with open_admin(name_servers=kv.name_servers, dial=kv.dial, timeout_s=2) as admin:
        since_s = trio.current_time()
        for _ in range(3):
            assert (await admin.cluster()).broker_addr_table
        assert trio.current_time() == pytest.approx(since_s + len(silent) * 2)


@pytest.mark.parametrize(("timeout_s", "calls"), [(0, 3), (2, 3), (4, 2), (7, 1)])
async def test_calls_with_little_time_get_past_silent_name_servers(
    kv: KvCluster, silent: list[Node], autojump_clock: MockClock, timeout_s: float, calls: int
) -> None:
    """Each has at least the time of a request, and the next one goes on where it ended."""
    async with opened(kv, timeout_s=timeout_s) as store:
        for _ in range(calls - 1):
            since_s = trio.current_time()
            with pytest.raises(RequestTimedOut):
                await store.get(b"k")
            assert trio.current_time() - since_s == max(timeout_s, REQUEST_S)
        since_s = trio.current_time()
        assert await store.get(b"k") is None
        assert trio.current_time() - since_s <= max(timeout_s, REQUEST_S)


@pytest.mark.parametrize("timeout_s", [0, 4, 10])
async def test_a_call_ends_in_time_whoever_is_silent(
    kv: KvCluster, autojump_clock: MockClock, timeout_s: float
) -> None:
    kv.make(2)
    async with opened(kv, timeout_s=timeout_s) as store:
        assert await store.get(b"k") is None
        for node in (*kv.name_server_nodes, *kv.kv_brokers):
            node.stall()
        for call in (store.get(b"k"), store.put(b"k", b"v"), store.namespaces(), store.status()):
            since_s = trio.current_time()
            with pytest.raises(LanemqError):
                await call
            assert trio.current_time() - since_s <= max(timeout_s, REQUEST_S)


async def test_a_quiet_watch_is_not_ended_by_the_time_of_a_call(
    kv: KvCluster, autojump_clock: MockClock
) -> None:
    """A broker that goes while one waits there, and comes back, is waited at again."""
    kv.make(1)
    broker = kv.kv_brokers[0]
    async with opened(kv, timeout_s=5) as store, trio.open_nursery() as nursery:

        async def disturb() -> None:
            await trio.sleep(20)
            broker.reachable = False
            broker.cut()
            await trio.sleep(4)
            broker.reachable = True
            await trio.sleep(200)
            await store.put(b"k", b"v")

        nursery.start_soon(disturb)
        assert (await anext(store.watch(b"k"))).value == b"v"
        assert broker.count(RequestCode.KV_WATCH) > 5
