"""The turns of a store's writes: in their order, no longer than a call may take, and who needs
none."""

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.sdk import LanemqError
from lanemq.sdk.kv.requests._writes import take
from lanemq.testkit.sdk.cluster import Peer
from lanemq.testkit.sdk.kv import KvCluster
from lanemq.testkit.sdk.kv_stores import opened
from lanemq.wire import RequestCode
from lanemq.wire.frame import Frame
from lanemq.wire.headers import KvWrite
from lanemq.wire.kv import UNDER_WAY_MAX, OpType, WriteWindow, decode_steps

WRITE = RequestCode.KV_WRITE


@pytest.fixture
def kv(nursery: trio.Nursery) -> KvCluster:
    """One broker, that has the namespace."""
    cluster = KvCluster(nursery, brokers=1)
    cluster.make(1)
    return cluster


def stick(kv: KvCluster, key: bytes) -> None:
    """Never answer a write of a key; all others are done."""
    broker = kv.kv_brokers[0]
    real = broker.handlers[WRITE]

    def write(frame: Frame, peer: Peer) -> Frame | None:
        op_type = KvWrite.from_fields(frame.fields).op_type
        if op_type == OpType.PUT and decode_steps(op_type, frame.body)[0].key == key:
            return None
        return real(frame, peer)

    broker.handlers[WRITE] = write


async def test_writes_get_their_numbers_in_the_order_in_which_they_came() -> None:
    window, got = WriteWindow(), dict[int, int]()

    async def write(number: int) -> None:
        turn = await take(window)
        got[number] = turn.number
        try:
            await trio.lowlevel.checkpoint()
        finally:
            window.leave(turn)

    first = await take(window)
    others = [await take(window) for _ in range(UNDER_WAY_MAX - 1)]
    async with trio.open_nursery() as nursery:
        scopes = [trio.CancelScope() for _ in range(2)]

        async def cancelled(scope: trio.CancelScope, number: int) -> None:
            with scope:
                await write(number)

        for number in range(50):
            if number in (3, 7):
                nursery.start_soon(cancelled, scopes[number == 7], number)
            else:
                nursery.start_soon(write, number)
            await wait_all_tasks_blocked()
        scopes[0].cancel()
        await wait_all_tasks_blocked()
        for other in others:  # the first one is what the others are behind
            window.leave(other)
        await wait_all_tasks_blocked()
        assert got == {}
        window.leave(first)
        scopes[1].cancel()  # it has its number already
    assert sorted(got, key=got.__getitem__) == [number for number in range(50) if number != 3]
    last = await take(window)
    assert window.waits == last.number, "none was left outstanding"


async def test_a_write_waits_for_its_turn_no_longer_than_a_call_may_take(
    kv: KvCluster, autojump_clock: MockClock
) -> None:
    stick(kv, b"stuck")
    ends: list[float] = []
    async with opened(kv, timeout_s=15) as store, trio.open_nursery() as nursery:
        await store.put(b"other", b"x")

        async def write() -> None:
            with pytest.raises(LanemqError):
                await store.put(b"stuck", b"x")
            ends.append(trio.current_time())

        since_s = trio.current_time()
        for _ in range(3 * UNDER_WAY_MAX):
            nursery.start_soon(write)
    assert max(ends) - since_s <= 15 + 3


async def test_a_write_without_a_turn_says_that_it_was_not_sent(
    kv: KvCluster, autojump_clock: MockClock
) -> None:
    stick(kv, b"stuck")
    async with opened(kv, timeout_s=15) as store, trio.open_nursery() as nursery:
        await store.put(b"other", b"x")

        async def write(key: bytes) -> None:
            with pytest.raises(LanemqError):
                await store.put(key, b"x")

        nursery.start_soon(write, b"stuck")
        await wait_all_tasks_blocked()
        for _ in range(UNDER_WAY_MAX - 1):
            await store.put(b"other", b"x")
        with (
            pytest.raises(LanemqError, match="has not come in 3 s: it was not sent"),
            trio.fail_after(4),
        ):
            async with store.lock(b"l", wait_s=0):
                raise AssertionError
        nursery.cancel_scope.cancel()


async def test_a_lease_is_kept_alive_though_no_write_has_its_turn(
    kv: KvCluster, autojump_clock: MockClock
) -> None:
    stick(kv, b"stuck")
    async with (
        opened(kv, timeout_s=600) as store,
        store.lease(6) as lease,
        store.lock(b"l", ttl_s=6) as lock,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(store.put, b"stuck", b"x")
        await wait_all_tasks_blocked()
        for _ in range(2 * UNDER_WAY_MAX):
            nursery.start_soon(store.put, b"other", b"x")
        await trio.sleep(60)
        assert lease.is_held
        assert lock.is_held
        await store.keep_lease_alive(lease.id)
        nursery.cancel_scope.cancel()
