"""Leases, locks with a queue, and leaders that are observed, as the SDK holds them."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import trio

from lanemq.sdk.aio.kv import open_kv_store as open_asyncio
from lanemq.sdk.blocking.kv import open_kv_store as open_blocking
from lanemq.sdk.kv import (
    Compare,
    KeyValueStore,
    KvOffsetStore,
    KvRejected,
    LeaderSeen,
    LeaseLost,
    LockLost,
    LockNotAcquired,
    NoLease,
    Operation,
    open_kv_store,
)
from lanemq.testing import TestServer, open_test_server
from lanemq.testkit.sdk.leases import renewals
from lanemq.wire.bodies import MessageQueue

QUEUE = MessageQueue("T", "b", 3)
TTL_S = 60.0
"""Seconds of a lease: longer than a busy machine takes for anything."""


@pytest.fixture(autouse=True)
def losses_show_soon() -> Iterator[None]:
    """They show when a lease is kept alive, which is twice a second here."""
    with renewals(120):
        yield


@asynccontextmanager
async def opened() -> AsyncIterator[tuple[TestServer, KeyValueStore]]:
    async with (
        open_test_server() as server,
        open_kv_store(name_servers=server.name_servers) as store,
    ):
        yield server, store


@asynccontextmanager
async def served(count: int) -> AsyncIterator[tuple[TestServer, list[KeyValueStore]]]:
    """Open stores of one server, each with a connection of its own."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(open_test_server())
        opening = [open_kv_store(name_servers=server.name_servers) for _ in range(count)]
        yield server, [await stack.enter_async_context(one) for one in opening]


@asynccontextmanager
async def stores(count: int) -> AsyncIterator[list[KeyValueStore]]:
    async with served(count) as (_, opened):
        yield opened


async def waiting(store: KeyValueStore, key: bytes, count: int) -> None:
    """Return when so many wait for a lock."""
    with trio.fail_after(60):
        while True:
            page = await store.prefix(key + b"/waiting/")
            if len(page.entries) == count:
                return
            position = page.positions if len(page.positions) > 1 else page.position
            changes = store.watch(key + b"/waiting/", position=position)
            await anext(changes)


# Leases


async def test_what_is_put_under_a_lease_is_gone_with_its_block() -> None:
    async with opened() as (_, store):
        async with store.lease(ttl_s=60) as lease:
            assert lease.is_held
            await store.put(b"a", b"1", lease=lease.id)
            await store.compare_and_set(b"b", b"2", version=0, lease=lease.id)
            result = await store.txn(
                [Compare.lease(b"a", "=", lease.id)],
                then=[Operation.put(b"c", b"3", lease=lease.id)],
            )
            assert result.succeeded
            entry = await store.get(b"a")
            assert entry is not None
            assert entry.lease == lease.id
            status = await lease.status()
            assert status.keys == (b"a", b"b", b"c")
            assert 50_000 < status.left_ms <= 60_000
            assert [one.lease for one in await store.leases()] == [lease.id]
        assert [lease.is_held] == [False]
        with trio.fail_after(5):
            await lease.wait_until_lost()
        assert (await store.prefix()).entries == []
        assert await store.leases() == []


async def lose_a_lease(server: TestServer, store: KeyValueStore) -> None:
    async with store.lease(ttl_s=TTL_S) as lease:
        await store.put(b"a", b"1", lease=lease.id)
        for _ in range(2):  # together longer than it lasts by itself
            server.advance(0.6 * TTL_S)
            with trio.fail_after(60):
                while (await lease.status()).left_ms < 600 * TTL_S:
                    pass
        assert lease.is_held
        assert await store.get(b"a") is not None
        await store.revoke_lease(lease.id)
        with trio.fail_after(60):
            await lease.wait_until_lost()
        assert [lease.is_held] == [False]
        with pytest.raises(NoLease):
            await store.put(b"a", b"1", lease=lease.id)
        with pytest.raises(NoLease):
            await lease.keep_alive()


async def test_a_lease_is_kept_alive_and_its_loss_is_told() -> None:
    async with opened() as (server, store):
        with pytest.raises(LeaseLost, match="was lost before its block ended"):
            await lose_a_lease(server, store)
        assert await store.get(b"a") is None


async def test_a_lease_that_nobody_keeps_alive_ends() -> None:
    async with opened() as (server, store):
        number = await store.grant_lease(30)
        with pytest.raises(KvRejected, match="already: grant one of another number"):
            await store.grant_lease(30, lease=number)
        await store.put(b"a", b"1", lease=number)
        await store.keep_lease_alive(number)
        assert (await store.lease_status(number)).count == 1
        server.advance(31)
        with trio.fail_after(60):
            while await store.get(b"a") is not None:  # noqa: ASYNC110 - a look each quarter second
                await trio.sleep(0.05)
        for call in (store.keep_lease_alive, store.revoke_lease, store.lease_status):
            with pytest.raises(NoLease):
                await call(number)


async def test_what_is_no_lease_is_refused_in_the_call() -> None:
    async with opened() as (_, store):
        for wrong in (0, -1, 1 << 53, True, "7", 1.5):
            given: Any = wrong
            with pytest.raises(KvRejected, match="lease must be"):
                await store.put(b"a", b"", lease=given)
            with pytest.raises(KvRejected, match="lease must be"):
                await store.keep_lease_alive(given)
        with pytest.raises(KvRejected, match="not both"):
            await store.put(b"a", b"", ttl_s=1, lease=7)
        with pytest.raises(KvRejected, match="is not held by this store"):
            async with store.lock(b"l", lease=7):
                raise AssertionError
        for ttl_s in (0, -1, float("nan"), 1e12):
            with pytest.raises(KvRejected):
                await store.grant_lease(ttl_s)


async def test_a_lease_is_in_every_partition() -> None:
    async with opened() as (_, store):
        await store.create(4)
        keys = [b"k%d" % number for number in range(20)]
        assert len({await store.partition_of(key) for key in keys}) == 4
        async with store.lease(ttl_s=60) as lease:
            for key in keys:
                await store.put(key, b"", lease=lease.id)
            status = await lease.status()
            assert status.keys == tuple(sorted(keys))
            assert status.count == 20
        assert (await store.prefix()).entries == []
        # What one partition has already is taken back from the others.
        begin = (await store.status()).leases
        number = await store.grant_lease(60)
        with pytest.raises(KvRejected, match="already"):
            await store.grant_lease(60, lease=number)
        assert (await store.status()).leases == begin + 4
        await store.revoke_lease(number)


# Locks


async def test_who_waits_gets_the_lock_in_the_order_of_coming() -> None:
    got: list[int] = []

    async def work(store: KeyValueStore, number: int) -> None:
        async with store.lock(b"l", ttl_s=60):
            got.append(number)

    async with stores(7) as (first, *others):
        with trio.fail_after(120):
            async with trio.open_nursery() as nursery, first.lock(b"l", ttl_s=60):
                for number, store in enumerate(others):
                    nursery.start_soon(work, store, number)
                    await waiting(first, b"l", number + 1)
                with pytest.raises(LockNotAcquired):
                    async with first.lock(b"l", wait_s=0):
                        raise AssertionError
        assert got == list(range(len(others)))
        assert (await first.prefix()).entries == []
        assert await first.leases() == []


async def test_nobody_who_comes_later_goes_before_one_who_waits() -> None:
    """Whoever gives it up and asks again at once is behind those who have waited."""
    got: list[str] = []
    begun = trio.Event()

    async def work(store: KeyValueStore, name: str, times: int) -> None:
        for _ in range(times):
            async with store.lock(b"l", ttl_s=60):
                got.append(name)
                begun.set()
                await waiting(store, b"l", 1 if len(got) < 7 else 0)

    async with stores(2) as (one, two), trio.open_nursery() as nursery:
        nursery.start_soon(work, one, "one", 4)
        with trio.fail_after(60):
            await begun.wait()
            await work(two, "two", 3)
    assert got == ["one", "two"] * 3 + ["one"]


async def test_who_gives_up_waiting_or_dies_holds_up_nobody() -> None:

    async def work(store: KeyValueStore) -> None:
        async with store.lock(b"l", wait_s=60) as lock:
            assert lock.is_held

    async with (
        served(4) as (server, (first, second, third, dead)),
        trio.open_nursery() as nursery,
        first.lock(b"l", ttl_s=3600),
    ):
        number = await dead.grant_lease(TTL_S)
        await dead.put(b"l/waiting/dead", b"", lease=number)
        with pytest.raises(LockNotAcquired):
            async with second.lock(b"l", wait_s=0.2):
                raise AssertionError
        server.advance(TTL_S + 1)
        await waiting(first, b"l", 0)
        nursery.start_soon(work, third)
        await waiting(first, b"l", 1)


async def test_locks_in_several_partitions_are_queued_each_in_its_own() -> None:
    async with stores(3) as (first, *others):
        await first.create(4)
        got: dict[bytes, list[int]] = {}

        async def work(store: KeyValueStore, key: bytes, number: int) -> None:
            async with store.lock(key, ttl_s=60):
                got.setdefault(key, []).append(number)

        with trio.fail_after(120):
            async with trio.open_nursery() as nursery:
                for key in (b"a", b"b", b"c", b"d"):
                    async with first.lock(key, ttl_s=60):
                        for number, store in enumerate(others):
                            nursery.start_soon(work, store, key, number)
                            await waiting(first, key, number + 1)
                        for entry in (await first.prefix(key + b"/waiting/")).entries:
                            assert await first.partition_of(entry.key) == await first.partition_of(
                                key
                            )
        assert got == {key: [0, 1] for key in (b"a", b"b", b"c", b"d")}


async def lose_a_lock(store: KeyValueStore) -> None:
    async with store.lock(b"l", ttl_s=TTL_S) as lock:
        await store.delete(b"l")
        with trio.fail_after(60):
            while lock.is_held:  # noqa: ASYNC110 - it finds out when it looks
                await trio.sleep(0.05)


async def test_a_lock_that_is_taken_away_is_noticed() -> None:
    async with opened() as (_, store):
        with pytest.raises(LockLost):
            await lose_a_lock(store)


async def share_a_lease(store: KeyValueStore) -> None:
    async with store.lease(ttl_s=TTL_S) as lease:
        offsets = KvOffsetStore(store, "g", lease=lease.id)
        await offsets.save_offset(QUEUE, 7)
        async with (
            store.lock(b"one", lease=lease.id) as one,
            store.lock(b"two", lease=lease.id),
            store.leader("jobs", owner=b"host-1", lease=lease.id) as lead,
        ):
            keys = (await lease.status()).keys
            assert {b"one", b"two", b"leader/jobs"} < set(keys)
        assert not one.is_held
        assert lease.is_held
        assert await store.get(b"one") is None
        assert not lead.is_held
        await store.revoke_lease(lease.id)
        with pytest.raises(NoLease):
            await offsets.save_offset(QUEUE, 9)
        with trio.fail_after(60):
            await lease.wait_until_lost()
        with pytest.raises(NoLease):
            async with store.lock(b"one", lease=lease.id):
                raise AssertionError


@pytest.mark.parametrize("partitions", [1, 4])
async def test_locks_leaders_and_offsets_share_a_lease(partitions: int) -> None:
    async with opened() as (_, store):
        await store.create(partitions)
        with pytest.raises(LeaseLost):
            await share_a_lease(store)
        assert await KvOffsetStore(store, "g").load_offset(QUEUE) == 7
        assert [one.key for one in (await store.prefix()).entries] == [b"offsets/g/T/b/3"]


async def wait_by_a_lease(first: KeyValueStore, second: KeyValueStore) -> None:
    """Wait for a lock by a lease that ends meanwhile."""
    async with second.lease(ttl_s=60) as lease, trio.open_nursery() as nursery:

        async def end() -> None:
            await waiting(first, b"l", 1)
            await first.revoke_lease(lease.id)

        nursery.start_soon(end)
        with pytest.raises(NoLease), trio.fail_after(60):
            async with second.lock(b"l", lease=lease.id):
                raise AssertionError
        with pytest.raises(NoLease):
            await lease.keep_alive()


async def test_who_waits_by_a_shared_lease_that_ends_is_told() -> None:
    async with stores(2) as (first, second), first.lock(b"l", ttl_s=60):
        with pytest.raises(LeaseLost):
            await wait_by_a_lease(first, second)
        await waiting(first, b"l", 0)


# Leaders


async def test_leaders_are_observed_one_after_another() -> None:
    async with stores(2) as (one, two):
        leaders = two.observe("jobs")
        with trio.fail_after(60):
            assert await anext(leaders) == LeaderSeen(None, 0)
            for owner in (b"host-1", b"host#2"):
                async with one.leader("jobs", owner=owner) as lead:
                    assert await anext(leaders) == LeaderSeen(owner, lead.fencing)
                    now = await anext(two.observe("jobs"))
                    assert now == LeaderSeen(owner, lead.fencing)
                    await one.put(b"leader/jobs2", b"of another name#")
                assert await anext(leaders) == LeaderSeen(None, 0)


async def test_an_observer_goes_on_where_the_history_is_gone() -> None:
    async with stores(2) as (one, two):
        leaders = two.observe("jobs")
        assert await anext(leaders) == LeaderSeen(None, 0)
        async with one.leader("jobs", owner=b"host-1") as lead:
            await one.compact((await one.status()).position)
            with trio.fail_after(60):
                assert await anext(leaders) == LeaderSeen(b"host-1", lead.fencing)


# The other faces


def test_the_blocking_face() -> None:
    with open_test_server() as server, open_blocking(name_servers=server.name_servers) as store:
        leaders = store.observe("jobs")
        assert next(leaders).owner is None
        with store.lease(60) as lease:
            store.put(b"a", b"1", lease=lease.id)
            assert lease.status().keys == (b"a",)
            lease.keep_alive()
            offsets = KvOffsetStore(store, "g", lease=lease.id)
            assert offsets is not None
            with store.leader("jobs", owner=b"me", lease=lease.id) as lead:
                assert lead.is_held
                assert next(leaders) == LeaderSeen(b"me", lead.fencing)
            assert lease.ttl_s == 60
        assert not lease.is_held
        assert store.get(b"a") is None
        number = store.grant_lease(60)
        assert [one.lease for one in store.leases()] == [number]
        store.keep_lease_alive(number)
        store.revoke_lease(number)
        with pytest.raises(NoLease):
            store.lease_status(number)
        lost = store.lease(TTL_S)
        lease = lost.__enter__()
        waiter = threading.Thread(target=lease.wait_until_lost)
        waiter.start()
        store.revoke_lease(lease.id)
        waiter.join(60)
        assert not waiter.is_alive()
        with pytest.raises(LeaseLost):
            lost.__exit__(None, None, None)


def test_the_asyncio_face() -> None:
    async def main() -> None:
        async with (
            open_test_server() as server,
            open_asyncio(name_servers=server.name_servers) as store,
        ):
            async with store.lease(60) as lease:
                await store.put(b"a", b"1", lease=lease.id)
                assert (await lease.status()).count == 1
                async with store.lock(b"l", lease=lease.id) as lock:
                    assert lock.is_held
                async for seen in store.observe("jobs"):
                    assert seen.owner is None
                    break
            assert await store.get(b"a") is None
            lost = store.lease(TTL_S)
            lease = await lost.__aenter__()
            await store.revoke_lease(lease.id)
            async with asyncio.timeout(60):
                await lease.wait_until_lost()
            with pytest.raises(LeaseLost):
                await lost.__aexit__(None, None, None)

    asyncio.run(main())
