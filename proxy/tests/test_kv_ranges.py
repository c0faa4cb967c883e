"""Ranges, the past, compaction and watches of single keys, through the SDK."""

import asyncio
from typing import Any

import pytest
import trio

from lanemq.sdk import ClientClosed
from lanemq.sdk.aio.kv import open_kv_store as open_asyncio
from lanemq.sdk.blocking.kv import open_kv_store as open_blocking
from lanemq.sdk.kv import (
    Action,
    ChangeKind,
    KeyValueStore,
    KvCompacted,
    KvNotSupported,
    KvRejected,
    Step,
    open_kv_store,
)
from lanemq.testing import open_test_server
from lanemq.testkit.storage.kv import hurry

NAMES = [b"k%02d" % number for number in range(20)]


async def fill(store: KeyValueStore) -> None:
    for name in NAMES:
        await store.put(name, name)


async def all_keys(store: KeyValueStore, **asked: Any) -> list[bytes]:  # noqa: ANN401
    page = await store.range(limit=3, **asked)
    found, then = list(page.entries), {"revision": page.positions, **asked}
    while page.cursor is not None:
        page = await store.range(limit=3, cursor=page.cursor, **then)
        found += page.entries
    return [one.key for one in found]


@pytest.mark.parametrize("partitions", [1, 3])
async def test_ranges_forward_and_back_counted_and_of_then(partitions: int) -> None:
    async with open_test_server() as server, open_kv_store(name_servers=server.name_servers) as s:
        await s.create(partitions)
        await fill(s)
        middle = NAMES[5:15]
        assert await all_keys(s, reverse=False, begin=b"k05", end=b"k15") == middle
        assert await all_keys(s, reverse=True, begin=b"k05", end=b"k15") == middle[::-1]
        assert await all_keys(s, reverse=True, prefix=b"k1") == NAMES[:9:-1]
        assert await all_keys(s, reverse=False, begin=b"k18") == NAMES[18:]
        assert await s.count() == 20
        assert await s.count(prefix=b"k0") == 10
        assert await s.count(b"k03", b"k05") == 2
        page = await s.range(keys_only=True, limit=2)
        assert [(one.key, one.value) for one in page.entries] == [(b"k00", b""), (b"k01", b"")]
        then = (await s.range()).positions
        for name in NAMES[::2]:
            await s.delete(name)
        await s.put(b"k01", b"new")
        assert await all_keys(s, reverse=False, revision=then) == NAMES
        assert await all_keys(s, reverse=True, revision=then) == NAMES[::-1]
        assert await s.count(revision=then) == 20
        assert await s.count() == 10
        old = await s.range(b"k01", b"k02", revision=then)
        assert [one.value for one in old.entries] == [b"k01"]
        await s.compact((await s.range(limit=1)).positions)
        with pytest.raises(KvCompacted, match="the history begins at revision"):
            await s.range(revision=then)
        with pytest.raises(KvCompacted, match="forgotten already"):
            await s.compact(then)
        now = (await s.range(limit=1)).positions
        with pytest.raises(KvRejected, match="no such revision yet"):
            await s.compact([one + 1000 for one in now])
        assert await s.count(revision=now) == 10
        with pytest.raises(KvRejected, match="limit"):
            await s.range(limit=1001)
        with pytest.raises(KvRejected, match="limit"):
            await s.prefix(limit=1001)
        assert await s.count() == 10


async def test_a_read_of_the_past_takes_as_many_turns_as_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_test_server() as server, open_kv_store(name_servers=server.name_servers) as s:
        await fill(s)
        then = (await s.range()).positions
        for _ in range(5):
            for name in NAMES:
                await s.put(name, b"new")
        hurry(monkeypatch)
        with trio.fail_after(60):
            assert await all_keys(s, reverse=False, revision=then) == NAMES


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"revision": 1 << 40}, "there is no revision"),
        ({"revision": [1, 2]}, "as many revisions"),
        ({"revision": -1}, "revision"),
        ({"prefix": b"a", "begin": b"b"}, "not both"),
        ({"begin": "text"}, "bytes"),
        ({"limit": 0}, "limit"),
    ],
)
async def test_what_cannot_be_asked_is_refused(asked: dict[str, object], why: str) -> None:
    async with open_test_server() as server, open_kv_store(name_servers=server.name_servers) as s:
        await s.put(b"k", b"v")
        with pytest.raises(KvRejected, match=why):
            await s.range(**asked)  # type: ignore[arg-type]


async def changes_of(
    store: KeyValueStore,
    count: int,
    **asked: Any,  # noqa: ANN401
) -> list[tuple[int, bytes, bytes | None, bytes | None]]:
    found: list[tuple[int, bytes, bytes | None, bytes | None]] = []
    watch = store.watch(**asked)
    with trio.fail_after(60):
        while len(found) < count:
            one = await anext(watch)
            previous = one.previous.value if one.previous is not None else None
            found.append((one.kind, one.key, one.value, previous))
    return found


async def test_a_watch_of_one_key_with_what_was_before_and_notes_of_progress() -> None:
    async with open_test_server() as server, open_kv_store(name_servers=server.name_servers) as s:
        await s.put(b"k", b"1")
        await s.batch([Step(b"k", Action.PUT, b"2"), Step(b"k/other", Action.PUT, b"x")])
        await s.delete(b"k")
        await s.put(b"k", b"3")
        found = await changes_of(s, 5, key=b"k", position=0, previous=True, progress_s=0.05)
        assert found == [
            (ChangeKind.PUT, b"k", b"1", None),
            (ChangeKind.PUT, b"k", b"2", b"1"),
            (ChangeKind.DELETE, b"k", None, b"2"),
            (ChangeKind.PUT, b"k", b"3", None),
            (ChangeKind.PROGRESS, b"", None, None),
        ]
        under = await changes_of(s, 2, prefix=b"k/", position=0, progress_s=0.05)
        assert [one[1] for one in under] == [b"k/other", b""]
        with pytest.raises(KvRejected, match="not both"):
            s.watch(b"k", key=b"k")
        with pytest.raises(KvRejected, match="progress_s"):
            s.watch(progress_s=3600)


async def test_a_watch_from_before_a_compaction_says_so() -> None:
    async with open_test_server() as server, open_kv_store(name_servers=server.name_servers) as s:
        for number in range(5):
            await s.put(b"k", b"%d" % number)
        await s.compact(3)
        with pytest.raises(KvCompacted):
            await changes_of(s, 1, position=2)
        assert (await changes_of(s, 1, position=3))[0][2] == b"3"


async def test_a_broker_without_keys_says_so_for_ranges_too() -> None:
    async with (
        open_test_server({"kvEnable": "false"}) as server,
        open_kv_store(name_servers=server.name_servers) as s,
    ):
        with pytest.raises(KvNotSupported):
            await s.range()


def test_the_other_faces_have_them() -> None:
    with open_test_server() as server:
        with open_blocking(name_servers=server.name_servers) as store:
            store.put(b"k", b"1")
            revision = store.range().positions
            store.put(b"k", b"2")
            assert store.range(revision=revision).entries[0].value == b"1"

        async def main() -> None:
            async with open_asyncio(name_servers=server.name_servers) as store:
                assert await store.count(prefix=b"k") == 1
                await store.compact(revision)

        asyncio.run(main())


async def test_who_waits_for_a_lock_of_a_store_that_closes_is_told_so() -> None:
    heard: list[BaseException] = []

    async def wait(store: KeyValueStore) -> None:
        try:
            async with store.lock(b"l"):
                pass
        except Exception as error:
            heard.append(error)

    async with open_test_server() as server, trio.open_nursery() as nursery:
        names = server.name_servers
        async with (
            open_kv_store(name_servers=names) as other,
            other.lock(b"l"),
            open_kv_store(name_servers=names) as store,
        ):
            nursery.start_soon(wait, store)
            while not (await other.prefix(b"l/waiting/")).entries:
                pass
    assert [type(one) for one in heard] == [ClientClosed]
