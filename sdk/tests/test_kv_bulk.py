"""Export and import: the broker is kept at work while the client is."""

from collections.abc import Sequence
from io import BytesIO
from typing import cast

import pytest
import trio

from lanemq.sdk import BrokerUnreachable
from lanemq.sdk.kv import KeyValueStore, KvRejected
from lanemq.sdk.kv.cli import _files
from lanemq.wire.kv import LOAD_ENTRIES_MAX, Entry, LoadedEntry, Page


class Pages:
    """A store that has some pages, each of one entry."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.asked: list[tuple[bytes | None, str | None]] = []

    async def prefix(
        self, *, cursor: bytes | None, snapshot: str | None, partition: int | None
    ) -> Page:
        self.asked.append((cursor, snapshot))
        await trio.lowlevel.checkpoint()
        number = len(self.asked)
        key = b"%d" % number
        is_last = number == self.count
        after, name = (None, None) if is_last else (key + b"\0", "name")
        return Page([Entry(key, b"", 1, 0, 0, 0)], after, 7, 8, name)


async def test_an_export_asks_for_a_page_before_it_writes_the_one_ahead_of_it() -> None:
    store = Pages(5)
    found = []
    async with _files.pages_of(cast("KeyValueStore", store), 0) as pages:
        async for page in pages:
            found.append(page.entries[0].key)
            assert len(store.asked) >= min(len(found) + 1, store.count)
            await trio.testing.wait_all_tasks_blocked()
            assert len(store.asked) <= len(found) + 2, "no more pages than that are in memory"
    assert found == [b"1", b"2", b"3", b"4", b"5"]
    first, *others = store.asked
    assert first == (None, "new")
    assert others == [(b"%d\0" % number, "name") for number in range(1, 5)]


class Unreachable(Pages):
    """A store whose broker is away from a page on."""

    namespace = "default"

    async def prefix(
        self, *, cursor: bytes | None, snapshot: str | None, partition: int | None
    ) -> Page:
        page = await super().prefix(cursor=cursor, snapshot=snapshot, partition=partition)
        if len(self.asked) == self.count:
            raise BrokerUnreachable("broker-a", "it is gone")
        return page


@pytest.mark.parametrize("page", [1, 2, 3])
async def test_an_export_ends_with_the_error_of_the_page_that_could_not_be_read(page: int) -> None:
    with pytest.raises(BrokerUnreachable, match="it is gone"):
        await _files._write_one(cast("KeyValueStore", Unreachable(page)), BytesIO(), lambda _: None)


class Loads:
    """A store that takes loads, as many at once as are asked for."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.keys: list[bytes] = []
        self.under_way = self.most = 0
        self.fault = fault

    async def load(self, entries: Sequence[LoadedEntry]) -> None:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await trio.testing.wait_all_tasks_blocked()
        if self.fault is not None:
            raise self.fault
        self.keys += [entry.key for entry in entries]
        self.under_way -= 1


def blocks() -> list[list[LoadedEntry]]:
    keys = [b"%02d" % number for number in range(20)]
    entries = [LoadedEntry(key, bytes(100), 1, 0, 0) for key in keys]
    return [entries[:7], entries[7:8], entries[8:]]


async def test_an_import_has_two_loads_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_files, "CHUNK_BYTES", 300)
    store, counts = Loads(), list[int]()
    await _files.load_all(cast("KeyValueStore", store), iter(blocks()), counts.append)
    assert sorted(store.keys) == [entry.key for block in blocks() for entry in block]
    assert store.most == 2
    assert sum(counts) == 20


async def test_an_import_ends_with_the_first_load_that_fails() -> None:
    store = Loads(KvRejected("no"))
    with pytest.raises(KvRejected, match="no"):
        await _files.load_all(cast("KeyValueStore", store), iter(blocks()), lambda count: None)
    assert store.keys == []


def test_an_import_of_many_short_entries_is_divided_into_loads_that_a_broker_takes() -> None:
    entries = [LoadedEntry(b"%d" % number, b"", 1, 0, 0, 7) for number in range(3000)]
    loads = list(_files.chunks(entries))
    assert [entry for load in loads for entry in load] == entries
    assert max(map(len, loads)) <= LOAD_ENTRIES_MAX
