"""The SDK's key-value store, at a broker of lanemq, in all its faces."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from lanemq.proxy.broker import BrokerConfig
from lanemq.proxy.nameserver import NameServerConfig, open_nameserver
from lanemq.proxy.process import open_broker
from lanemq.sdk.aio.kv import open_kv_store as open_asyncio
from lanemq.sdk.blocking.kv import open_kv_store as open_blocking
from lanemq.sdk.kv import (
    Action,
    CasResult,
    Change,
    ChangeKind,
    CheckpointMoved,
    KeyValueStore,
    KvCompacted,
    KvNotSupported,
    KvRejected,
    LoadedEntry,
    LockLost,
    LockNotAcquired,
    NoNamespace,
    Step,
    open_kv_store,
)
from lanemq.storage import KvEngine
from lanemq.testing import open_test_server
from lanemq.testkit.proxy.brokers import SMALL_STORE
from lanemq.testkit.servers import free_port


@asynccontextmanager
async def new_store(**settings: Any) -> AsyncIterator[KeyValueStore]:  # noqa: ANN401
    async with (
        open_test_server(settings) as server,
        open_kv_store(name_servers=server.name_servers) as store,
    ):
        yield store


async def test_put_get_delete_and_compare() -> None:
    async with new_store() as store:
        with pytest.raises(NoNamespace, match="there is no namespace 'default' of keys at broker"):
            await store.get(b"k")
        assert await store.put(b"k", b"1") == 1
        assert await store.put(b"k", b"2") == 2
        entry = await store.get(b"k")
        assert entry is not None
        assert (entry.value, entry.version) == (b"2", 2)
        assert await store.compare_and_set(b"k", b"3", version=1) == CasResult(False, 2, b"2")
        assert await store.compare_and_set(b"k", b"3", expected=b"2") == CasResult(True, 3)
        assert await store.compare_and_set(b"new", b"x", version=0) == CasResult(True, 1)
        assert await store.compare_and_set(b"k", None, version=3) == CasResult(True, 3)
        assert await store.get(b"k", consistency="local") is None
        assert await store.delete(b"k") == 0
        assert await store.delete(b"new") == 1


async def test_a_batch_several_keys_and_pages() -> None:
    async with new_store() as store:
        steps = [Step(b"p/%d" % number, Action.PUT, b"v%d" % number) for number in range(5)]
        assert (await store.batch(steps)).done
        refused = await store.batch(
            [Step(b"p/0", Action.DELETE), Step(b"p/1", Action.CHECK, if_version=9)]
        )
        assert not refused.done
        assert [result.holds for result in refused.results] == [True, False]
        found = await store.multi_get([b"p/3", b"no", b"p/0"])
        assert [one and one.value for one in found] == [b"v3", None, b"v0"]
        assert await store.multi_get([]) == []
        page = await store.prefix(b"p/", limit=3)
        assert [one.key for one in page.entries] == [b"p/0", b"p/1", b"p/2"]
        page = await store.prefix(b"p/", cursor=page.cursor, keys_only=True)
        assert [(one.key, one.value) for one in page.entries] == [(b"p/3", b""), (b"p/4", b"")]
        await store.load([LoadedEntry(b"x", b"y", 9, 1, 2)])
        assert (await store.status()).entries == 6
        await store.clear()
        assert (await store.status()).entries == 0


async def test_what_breaks_a_limit_says_so() -> None:
    async with new_store() as store:
        for call in (
            store.put(b"", b"v"),
            store.put(b"k" * 5000, b"v"),
            store.put(b"k", b"v", ttl_s=0),
            store.put(b"k", bytes(5 << 20)),
            store.compare_and_set(b"k", b"v"),
            store.batch([]),
        ):
            with pytest.raises(KvRejected):
                await call
        with pytest.raises(KvRejected, match=r"owner is bytes, not .*host-1"):
            store.leader("jobs", owner="host-1")  # type: ignore[arg-type]
        async with store.lease() as lease:
            with pytest.raises(KvRejected, match=r"pass lease\.id$"):
                await store.put(b"k", b"v", lease=lease)  # type: ignore[arg-type]
            with pytest.raises(KvRejected, match=r"pass lease\.id$"):
                store.lock(b"k", lease=lease)  # type: ignore[arg-type]
    with pytest.raises(KvRejected, match="letters, digits"):
        async with open_kv_store(namespace="a b", name_servers="h:1"):
            pass


async def test_a_broker_without_keys_is_named() -> None:
    async with new_store(kvEnable="false") as store:
        with pytest.raises(KvNotSupported, match="keeps no keys and values"):
            await store.put(b"k", b"v")


async def test_many_writers_at_once_are_each_done_once() -> None:
    async with new_store() as store:

        async def add() -> None:
            while True:
                entry = (await store.multi_get([b"n"]))[0]
                number = int(entry.value) if entry is not None else 0
                version = entry.version if entry is not None else 0
                if (await store.compare_and_set(b"n", b"%d" % (number + 1), version=version)).done:
                    return

        await store.put(b"other", b"")
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(add)
        entry = await store.get(b"n")
        assert entry is not None
        assert (entry.value, entry.version) == (b"20", 20)


@pytest.mark.slow
async def test_more_writes_than_a_broker_remembers_may_be_wanted_at_once() -> None:
    async with new_store() as store:
        versions = []

        async def put() -> None:
            versions.append(await store.put(b"k", b"v"))

        async with trio.open_nursery() as nursery:
            for _ in range(600):
                nursery.start_soon(put)
        assert sorted(versions) == list(range(1, 601))


# A broker that goes away


def broker_config(root: Path, name_server: str, port: int = 0) -> BrokerConfig:
    return BrokerConfig(
        broker_name="broker-a",
        bind_address="127.0.0.1",
        listen_port=port,
        logical_listen_port=-1,
        namesrv_addr=name_server,
        store_path_root_dir=root,
        kv_engine=KvEngine.MEMORY,
        **SMALL_STORE,  # type: ignore[arg-type]
    )


@pytest.mark.slow
async def test_calls_and_watches_go_on_when_a_broker_comes_back(tmp_path: Path) -> None:
    config_of_name_server = NameServerConfig(
        bind_address="127.0.0.1", listen_port=0, kv_config_path=tmp_path / "kv.json"
    )
    async with open_nameserver(config_of_name_server) as name_server:
        seen: list[bytes | None] = []
        is_back = trio.Event()

        async with open_kv_store(name_servers=name_server.address, broker="broker-a") as store:

            async def watch(task_status: trio.TaskStatus[None]) -> None:
                changes = store.watch(b"k", position=0)
                task_status.started()
                async for change in changes:
                    seen.append(change.value)
                    if change.value == b"3":
                        is_back.set()

            async with trio.open_nursery() as nursery:
                config = broker_config(tmp_path, name_server.address, free_port(-2))
                async with open_broker(config):
                    await store.put(b"k", b"1")
                    await nursery.start(watch)
                    await store.put(b"k", b"2")

                async def put() -> None:
                    assert await store.put(b"k", b"3") == 3

                nursery.start_soon(put)  # while nobody is there
                async with open_broker(config):  # at the same port
                    with trio.fail_after(60):
                        await is_back.wait()
                    assert seen == [b"1", b"2", b"3"]
                    nursery.cancel_scope.cancel()


async def test_an_answer_that_gets_lost_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broker is asked twice for the same write, and does it once."""
    async with new_store() as store:
        client = store._calls._client
        call = client.call
        asked: list[int] = []

        async def losing(address: str, frame: Any, *rest: Any, **named: Any) -> Any:  # noqa: ANN401
            answer = await call(address, frame, *rest, **named)
            asked.append(frame.code)
            if asked.count(frame.code) == 1 and "sequence" in frame.fields:
                from lanemq.sdk import RequestTimedOut

                raise RequestTimedOut(address, frame.code, 3.0)
            return answer

        monkeypatch.setattr(client, "call", losing)
        assert await store.put(b"k", b"v") == 1
        entry = await store.get(b"k")
        assert entry is not None
        assert entry.version == 1
        assert asked.count(310421) == 2


# Watches


async def test_a_watch_sees_every_change_in_order_and_can_go_on_elsewhere() -> None:
    async with new_store() as store:
        await store.put(b"a/1", b"1")
        await store.put(b"b", b"2")
        await store.put(b"a/1", b"3")
        await store.delete(b"a/1")
        changes = store.watch(b"a/", position=0)
        found = [await changes.__anext__() for _ in range(2)]
        assert [(one.key, one.value, one.version) for one in found] == [
            (b"a/1", b"1", 1),
            (b"a/1", b"3", 2),
        ]
        other = store.watch(b"a/", position=changes.position)
        assert (await other.__anext__()).kind == ChangeKind.DELETE
        from_now = store.watch(b"a/")
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(from_now.__anext__)
                while from_now.position is None:  # noqa: ASYNC110 - it tells nobody
                    await trio.sleep(0.01)
                nursery.cancel_scope.cancel()
        await store.put(b"a/2", b"4")
        assert (await from_now.__anext__()).value == b"4"
        await store.clear()
        with pytest.raises(KvCompacted):
            await store.watch(position=0).__anext__()


# Locks, leaders, checkpoints


async def test_a_lock_is_held_by_one_and_handed_on_with_a_higher_number() -> None:
    async with new_store() as store:
        held: list[int] = []
        inside = 0

        async def work() -> None:
            nonlocal inside
            async with store.lock(b"l", ttl_s=600.0) as lock:
                assert inside == 0
                inside += 1
                held.append(lock.fencing)
                assert lock.is_held
                await trio.sleep(0.02)
                inside -= 1
            assert not lock.is_held

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(work)
        assert held == sorted(set(held))
        assert len(held) == 5
        entries = (await store.prefix(b"l")).entries
        assert entries == []


async def test_a_lock_is_not_waited_for_longer_than_wanted() -> None:
    async with new_store() as store, store.lock(b"l"):
        with pytest.raises(LockNotAcquired, match=r"not free within 0\.3 s"):
            async with store.lock(b"l", wait_s=0.3):
                pass


async def test_a_lock_whose_holder_dies_is_free_after_its_ttl() -> None:
    async with (
        open_test_server() as server,
        open_kv_store(name_servers=server.name_servers) as store,
        trio.open_nursery() as nursery,
    ):
        await store.put(b"l", b"somebody who died", ttl_s=3600)

        async def move() -> None:
            await trio.sleep(0.3)
            server.advance(3601)

        nursery.start_soon(move)
        with trio.fail_after(60):
            async with store.lock(b"l") as lock:
                assert lock.is_held


@pytest.mark.slow
async def test_a_lock_that_is_taken_away_is_noticed_and_its_check_keeps_others_safe() -> None:
    async with new_store() as store:

        async def work() -> None:
            async with store.lock(b"l", ttl_s=30.0) as lock:
                assert (await store.batch([lock.check, Step(b"x", Action.PUT, b"1")])).done
                await store.delete(b"l")
                assert not (await store.batch([lock.check, Step(b"x", Action.PUT, b"2")])).done
                with trio.fail_after(60):
                    while lock.is_held:  # noqa: ASYNC110 - it finds out when it is renewed
                        await trio.sleep(0.1)

        with pytest.raises(LockLost):
            await work()
        entry = await store.get(b"x")
        assert entry is not None
        assert entry.value == b"1"


@pytest.mark.slow
async def test_a_lock_is_kept_for_as_long_as_its_block_runs() -> None:
    async with new_store() as store, store.lock(b"l", ttl_s=15.0) as lock:
        first = lock.fencing
        with trio.move_on_after(2 * 15.0):
            async for _ in store.watch(b"l"):
                raise AssertionError("somebody has changed it")
        assert lock.is_held
        assert lock.fencing == first


async def test_there_is_one_leader_and_others_can_see_who() -> None:
    async with new_store() as store:
        async with store.leader("jobs", owner=b"host-1"):
            entry = await store.get(b"leader/jobs")
            assert entry is not None
            assert entry.value.startswith(b"host-1#")
        assert await store.get(b"leader/jobs") is None


async def test_a_checkpoint_is_saved_by_one_worker_at_a_time() -> None:
    async with new_store() as store:
        first = store.checkpoint("file-1")
        assert await first.load() is None
        await first.save(b"100")
        second = store.checkpoint("file-1")
        assert await second.load() == b"100"
        await second.save(b"200")
        await second.save(b"300")
        with pytest.raises(CheckpointMoved, match="saved by somebody else, and is at version 3"):
            await first.save(b"150")
        assert await first.load() == b"300"


# The other faces


def test_the_blocking_face() -> None:
    with open_test_server() as server, open_blocking(name_servers=server.name_servers) as store:
        assert store.namespace == "default"
        assert store.put(b"k", b"1") == 1
        changes = store.watch(b"k", position=0)
        seen: list[Change] = []
        reader = threading.Thread(target=lambda: seen.extend(next(changes) for _ in range(2)))
        reader.start()
        store.put(b"k", b"2")
        reader.join(60)
        assert [one.value for one in seen] == [b"1", b"2"]
        with store.lock(b"l", ttl_s=600) as lock:
            assert lock.is_held
            assert lock.fencing == 4  # two puts and the grant of its lease were before
            assert lock.key == b"l"
        assert (lock.is_held, lock.fencing) == (False, 4)
        store.create()
        checkpoint = store.checkpoint("c")
        checkpoint.save(b"v")
        assert checkpoint.name == "c"
        assert checkpoint.load() == b"v"
        with store.leader("x") as leader:
            assert leader.is_held


def test_the_asyncio_face() -> None:
    async def main() -> None:
        async with (
            open_test_server() as server,
            open_asyncio(name_servers=server.name_servers) as store,
        ):
            assert await store.put(b"k", b"1") == 1
            async for change in store.watch(b"k", position=0):
                assert change.value == b"1"
                break
            changes = store.watch(b"k")
            waiting = asyncio.ensure_future(changes.__anext__())
            async with asyncio.timeout(60):
                while changes.position is None:  # noqa: ASYNC110 - it tells nobody
                    await asyncio.sleep(0.01)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await store.put(b"k", b"2")
            assert (await changes.__anext__()).value == b"2"
            async with store.lock(b"l") as lock:
                assert lock.is_held
            checkpoint = store.checkpoint("c")
            await checkpoint.save(b"v")
            assert await checkpoint.load() == b"v"

    asyncio.run(main())
