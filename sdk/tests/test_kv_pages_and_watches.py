"""Pages and watches of a namespace over partitions: one order, and nothing left out."""

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.sdk import ClientClosed
from lanemq.sdk.kv import Action, Change, KvRejected, Step, Watch
from lanemq.sdk.kv.requests._pages import merged
from lanemq.testkit.sdk.kv import KvCluster
from lanemq.testkit.sdk.kv_stores import key_in, opened
from lanemq.wire import RequestCode
from lanemq.wire.kv import PAGE_BYTES_MAX, Entry, Page, partition_of

WATCH = RequestCode.KV_WATCH


# Pages


class Partition:
    """The pages of a partition: some rows that a page passes over are no longer entries."""

    def __init__(self, rows: dict[bytes, bool], position: int) -> None:
        self.rows = rows
        self.position = position

    def page(self, cursor: bytes, limit: int, looked_at: int) -> Page:
        """The page from a cursor on, of at most so many entries and rows."""
        found: list[Entry] = []
        for number, key in enumerate(sorted(key for key in self.rows if key >= cursor)):
            if len(found) >= limit or number >= looked_at:
                return Page(found, key, self.position, self.position)
            if self.rows[key]:
                found.append(Entry(key, b"v", 1, 0, 0, 0))
        return Page(found, None, self.position, self.position)


@given(
    rows=st.dictionaries(st.binary(min_size=1, max_size=3), st.booleans(), max_size=60),
    partitions=st.integers(2, 6),
    limit=st.integers(1, 12),
    looked_at=st.integers(1, 12),
)
def test_merged_pages_have_every_key_once_in_the_order_of_bytes(
    rows: dict[bytes, bool], partitions: int, limit: int, looked_at: int
) -> None:
    parts = [
        Partition({k: v for k, v in rows.items() if partition_of(k, partitions) == number}, number)
        for number in range(partitions)
    ]
    found: list[bytes] = []
    cursor: bytes | None = b""
    while cursor is not None:
        page = merged([part.page(cursor, limit, looked_at) for part in parts], limit)
        assert len(page.entries) <= limit
        assert page.cursor is None or page.cursor > cursor
        assert (page.position, page.clock_ms) == (-1, partitions - 1)
        assert page.positions == tuple(range(partitions))
        found += [entry.key for entry in page.entries]
        cursor = page.cursor
    assert found == sorted(key for key, is_there in rows.items() if is_there)


def test_a_merged_page_ends_at_a_mebibyte_and_has_one_entry_at_least() -> None:
    entries = [Entry(b"%d" % n, bytes(PAGE_BYTES_MAX // 2), 1, 0, 0, 0) for n in range(8)]
    page = merged([Page(entries[::2], None, 1), Page(entries[1::2], None, 1)], 1000)
    assert [entry.key for entry in page.entries] == [b"0", b"1"]
    assert page.cursor == b"2"
    large = [Entry(b"%d" % n, bytes(2 * PAGE_BYTES_MAX), 1, 0, 0, 0) for n in range(2)]
    page = merged([Page(large, None, 1), Page([], None, 1)], 1000)
    assert (len(page.entries), page.cursor) == (1, b"1")


async def test_a_prefix_is_read_over_all_partitions_or_of_one(kv: KvCluster) -> None:
    kv.make(3)
    for broker in kv.kv_brokers:
        broker.page_entries_max = 4
    keys = [f"p/{number:02}".encode() for number in range(30)]
    async with opened(kv) as store:
        for key in (*keys, b"other"):
            await store.put(key, b"v" + key)
        found: list[bytes] = []
        cursor = None
        while True:
            page = await store.prefix(b"p/", cursor=cursor, limit=7)
            assert page.positions == tuple(
                part.position for part in kv.namespaces["default"].values()
            )
            found += [entry.key for entry in page.entries]
            cursor = page.cursor
            if cursor is None:
                break
        assert found == keys
        one = await store.prefix(b"p/", partition=1, limit=3, snapshot="new")
        assert all(partition_of(entry.key, 3) == 1 for entry in one.entries)
        assert (one.positions, one.snapshot is None) == ((one.position,), False)
        for wrong in ({"snapshot": "new"}, {"partition": 3}, {"partition": -1}):
            with pytest.raises(KvRejected, match=r"(there are 3|has 3 partitions)"):
                await store.prefix(b"p/", **wrong)
    kv.make(1, "single")
    async with opened(kv, namespace="single") as store:
        await store.put(b"k", b"v")
        page = await store.prefix(snapshot="new")
        assert (page.position, page.positions) == (1, (1,))
        with pytest.raises(KvRejected, match="there is no partition 1"):
            await store.prefix(partition=1)


# Watches


async def taken(watch: Watch, count: int) -> list[Change]:
    with trio.fail_after(60):
        return [await watch.__anext__() for _ in range(count)]


async def test_changes_of_all_partitions_come_each_in_its_order(kv: KvCluster) -> None:
    kv.make(3)
    async with opened(kv) as store:
        page = await store.prefix()
        for number in range(60):
            await store.put(f"k{number % 7}".encode(), b"%d" % number)
        await store.put(b"other", b"x")
        watch = store.watch(b"k", position=page.positions)
        first = await taken(watch, 25)
        assert isinstance(watch.position, tuple)
        again = store.watch(b"k", position=watch.position)
        found = first + await taken(again, 35)
        for partition in range(3):
            mine = [change for change in found if change.partition == partition]
            assert all(partition_of(change.key, 3) == partition for change in mine)
            assert [change.position for change in mine] == sorted(c.position for c in mine)
        values = sorted(int(change.value or b"") for change in found)
        assert values == list(range(60))


async def test_a_batch_that_was_read_in_part_comes_again(kv: KvCluster) -> None:
    kv.make(2)
    key, other = key_in(1, 2), key_in(1, 2, "x")
    async with opened(kv) as store:
        await store.put(key, b"0")
        await store.batch([Step(key, Action.PUT, b"1"), Step(other, Action.PUT, b"2")])
        watch = store.watch(position=[0, 0])
        assert watch.position == (0, 0)
        assert [change.value for change in await taken(watch, 2)] == [b"0", b"1"]
        assert watch.position == (0, 1)
        again = store.watch(position=watch.position)
        assert [change.value for change in await taken(again, 2)] == [b"1", b"2"]


async def test_each_partition_is_asked_once_and_waits_on_when_others_answer(
    kv: KvCluster, autojump_clock: MockClock
) -> None:
    kv.make(4)

    def asked() -> int:
        return sum(broker.count(WATCH) for broker in kv.kv_brokers)

    def waiting() -> list[int]:
        return sorted(number for broker in kv.kv_brokers for _, number in broker.waiting)

    async with opened(kv) as store, trio.open_nursery() as nursery:
        watch = store.watch()
        seen: list[Change] = []

        async def read(count: int) -> None:
            seen.extend([await watch.__anext__() for _ in range(count)])

        nursery.start_soon(read, 3)
        await wait_all_tasks_blocked()
        assert (waiting(), asked()) == ([0, 1, 2, 3], 4)
        for number in range(3):
            await store.put(key_in(2, 4), b"%d" % number)
        await wait_all_tasks_blocked()
        assert [change.value for change in seen] == [b"0", b"1", b"2"]
        assert asked() <= 7, "the partition that had changes is asked again, and no other"
        assert waiting() in ([0, 1, 3], [0, 1, 2, 3])
        # Whoever reads no more costs no more than what is under way.
        before = asked()
        await trio.sleep(60)
        assert waiting() == []
        assert asked() <= before + 1


async def test_a_reader_that_is_called_off_loses_nothing(
    kv: KvCluster, autojump_clock: MockClock
) -> None:
    kv.make(2)
    async with opened(kv) as store:
        watch = store.watch()
        with trio.move_on_after(1):
            await watch.__anext__()
        await store.put(key_in(0, 2), b"1")
        await store.put(key_in(1, 2), b"2")
        assert {change.value for change in await taken(watch, 2)} == {b"1", b"2"}
        assert sum(broker.count(WATCH) for broker in kv.kv_brokers) <= 4


async def test_a_busy_partition_lets_others_have_their_turn(kv: KvCluster) -> None:
    kv.make(2)
    async with opened(kv) as store:
        for number in range(20):
            await store.put(key_in(0, 2), b"%d" % number)
        await store.put(key_in(1, 2), b"quiet")
        watch = store.watch(position=(0, 0))
        await watch.__anext__()
        await wait_all_tasks_blocked()
        assert b"quiet" in {change.value for change in await taken(watch, 2)}


async def test_a_watch_follows_a_partition_that_moves(
    kv: KvCluster, autojump_clock: MockClock
) -> None:
    kv.make(2)
    async with opened(kv) as store, trio.open_nursery() as nursery:
        watch = store.watch(position=(0, 0))
        seen: list[bytes | None] = []

        async def read() -> None:
            seen.extend([change.value for change in await taken(watch, 3)])

        nursery.start_soon(read)
        await store.put(key_in(1, 2), b"1")
        await wait_all_tasks_blocked()
        kv.kv_brokers[1].cut()
        kv.kv_brokers[1].reachable = False
        kv.move(1, "broker-a")
        await store.put(key_in(1, 2), b"2")
        await store.put(key_in(1, 2), b"3")
    assert seen == [b"1", b"2", b"3"]


async def test_a_watch_needs_a_position_for_each_partition(kv: KvCluster) -> None:
    kv.make(3)
    async with opened(kv) as store:
        for wrong in (7, (1, 2), ()):
            watch = store.watch(position=wrong)
            with pytest.raises(KvRejected, match=r"has 3 partitions.* as page\.positions has"):
                await watch.__anext__()
    kv.make(1, "single")
    async with opened(kv, namespace="single") as store:
        await store.put(b"k", b"1")
        page = await store.prefix()
        await store.put(b"k", b"2")
        for position in (page.position, page.positions):
            watch = store.watch(position=position)
            assert (watch.position, (await watch.__anext__()).value) == (1, b"2")
            assert watch.position == 2
        with pytest.raises(KvRejected, match="has one partition"):
            await store.watch(position=(1, 2)).__anext__()


async def test_positions_are_judged_by_what_brokers_say(kv: KvCluster) -> None:
    """Name servers that know of no logical queues let one guess that there is one partition."""
    kv.make(2)
    kv.publish_without_logical_queues()
    async with opened(kv, broker="broker-a") as store:
        watch = store.watch(position=(0, 0))
        await store.put(key_in(1, 2), b"v")
        assert (await taken(watch, 1))[0].partition == 1
    async with opened(kv, broker="broker-a") as store:
        with pytest.raises(KvRejected, match="has 2 partitions"):
            await store.watch(position=0).__anext__()


async def test_a_reader_hears_of_the_end_of_its_store(kv: KvCluster) -> None:
    kv.make(2)
    async with trio.open_nursery() as nursery, opened(kv) as store:
        watch = store.watch()

        async def read() -> None:
            with pytest.raises(ClientClosed):
                await watch.__anext__()

        nursery.start_soon(read)
        await wait_all_tasks_blocked()
