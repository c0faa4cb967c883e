"""Transactions of keys, from the SDK's faces to the broker's log."""

import asyncio
from typing import Any

import pytest
import trio

from lanemq.proxy.sessions.keys import _checks
from lanemq.sdk.aio.kv import open_kv_store as open_asyncio
from lanemq.sdk.blocking.kv import open_kv_store as open_blocking
from lanemq.sdk.kv import (
    Change,
    Compare,
    KeyValueStore,
    KvRejected,
    Operation,
    TxnResult,
    open_kv_store,
)
from lanemq.testing import open_test_server
from lanemq.testkit.storage.kv import narrow_transactions
from lanemq.wire.kv import OperationResult, OpType

MOVE = [Operation.delete(b"from"), Operation.put(b"to", b"1"), Operation.get(b"to")]


async def test_then_and_else_with_reads_among_them() -> None:
    async with (
        open_test_server() as server,
        open_kv_store(name_servers=server.name_servers) as store,
    ):
        version = await store.put(b"from", b"1")
        moved = await store.txn(
            [Compare.version(b"from", "=", version), Compare.missing(b"to")],
            then=MOVE,
            otherwise=[Operation.get(b"from")],
        )
        assert moved.succeeded
        there = await store.get(b"to")
        assert there is not None
        assert moved.revision == there.revision
        assert [one.entry for one in moved.results] == [None, None, there]
        again = await store.txn(
            [Compare.exists(b"from")], then=MOVE, otherwise=[Operation.get(b"to")]
        )
        expected = TxnResult(False, moved.revision + 1, (OperationResult(there.version, there),))
        assert again == expected
        newer = Compare.revision(b"to", ">", moved.revision - 1)
        assert (await store.txn([newer])).succeeded


async def test_a_watch_has_the_changes_of_both_lists_with_their_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with (
        open_test_server() as server,
        open_kv_store(name_servers=server.name_servers) as store,
    ):
        await store.put(b"k", b"0")
        changes = store.watch(position=0)
        for number, compare in enumerate([Compare.exists(b"k"), Compare.missing(b"k")]):
            await store.txn(
                [compare],
                then=[Operation.get(b"k"), Operation.put(b"k", b"then")],
                otherwise=[Operation.put(b"n", b"else"), Operation.put(b"k", b"%d" % number)],
            )
        found: list[Change] = []
        with trio.fail_after(60):
            while len(found) < 4:
                found.append(await anext(changes))
        assert [(one.key, one.value) for one in found] == [
            (b"k", b"0"),
            (b"k", b"then"),
            (b"n", b"else"),
            (b"k", b"1"),
        ]


@pytest.mark.parametrize(
    "given",
    [
        {"compares": []},
        {"compares": [Compare.value(b"k", "=", "text")]},  # type: ignore[arg-type]
        {"compares": [Compare.version("k", "=", 1)]},  # type: ignore[arg-type]
        {"compares": [Compare.version(b"k", "<", -1)]},
        {"compares": [Compare.version(b"k", "<", 1 << 63)]},
        {"compares": [Compare.version(b"k", "<", 1 << 70)]},
        {"compares": [], "then": [Operation.put(b"k", object())]},  # type: ignore[arg-type]
        {"compares": [], "then": [Operation.put(b"k", b"", ttl_ms=1.5)]},  # type: ignore[arg-type]
        {"compares": [], "then": [Operation.put(b"k", b""), Operation.delete(b"k")]},
        {"compares": [], "then": [Operation.put(b"k", bytes(5 << 20))]},
        {"compares": [], "otherwise": [Operation.get(b"k")] * 1025},
        {"compares": [b"k"]},
    ],
)
async def test_what_is_no_transaction_is_refused_in_the_callers_call(given: Any) -> None:  # noqa: ANN401
    async with open_test_server() as server, open_kv_store(name_servers=server.name_servers) as s:
        with pytest.raises(KvRejected, match="this is no transaction"):
            await s.txn(**given)
    with pytest.raises(ValueError, match="no relation"):
        Compare.version(b"k", "==", 1)


@pytest.mark.parametrize("given", [{"then": 1025}, {"then": 1, "otherwise": 1024}, {}])
async def test_a_transaction_of_too_many_or_none_is_refused_with_their_number(
    given: dict[str, int],
) -> None:
    lists = {name: [Operation.get(b"k")] * count for name, count in given.items()}
    async with open_test_server() as server, open_kv_store(name_servers=server.name_servers) as s:
        why = f"has 1 to 1024 comparisons and operations, not {sum(given.values())}$"
        with pytest.raises(KvRejected, match=why):
            await s.txn([], **lists)


async def test_a_broker_without_transactions_does_nothing_of_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An earlier broker knows the request, and not the operation."""
    async with open_test_server() as server, open_kv_store(name_servers=server.name_servers) as s:
        await s.put(b"k", b"1")
        monkeypatch.setattr(_checks, "CLIENT_OPERATIONS", _checks.CLIENT_OPERATIONS - {OpType.TXN})
        with pytest.raises(KvRejected, match="there is no operation 'txn'"):
            await s.txn([Compare.exists(b"k")], then=[Operation.delete(b"k")])
        assert await s.get(b"k") is not None


async def test_keys_of_several_partitions_are_refused() -> None:
    async with open_test_server() as server, open_kv_store(name_servers=server.name_servers) as s:
        await s.create(4)
        with pytest.raises(KvRejected, match="in one partition"):
            await s.txn([Compare.missing(b"a")], then=[Operation.put(b"b", b"")])


async def increment(store: KeyValueStore, name: bytes) -> None:
    while True:
        entry = await store.get(name)
        number, version = (int(entry.value), entry.version) if entry else (0, 0)
        done = await store.txn(
            [Compare.version(name, "=", version)],
            then=[Operation.put(name, b"%d" % (number + 1)), Operation.put(name + b"/last", b"")],
        )
        if done.succeeded:
            return


async def test_many_at_once_are_each_done_once() -> None:
    async with open_test_server() as server, open_kv_store(name_servers=server.name_servers) as s:
        await s.create()
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(increment, s, b"n")
        entry, last = await s.multi_get([b"n", b"n/last"])
        assert entry is not None
        assert last is not None
        assert (entry.value, last.version) == (b"20", 20)


def test_the_other_faces_have_them() -> None:
    with open_test_server() as server:
        with open_blocking(name_servers=server.name_servers) as store:
            done = store.txn([Compare.missing(b"k")], then=[Operation.put(b"k", b"1")])
            assert done.succeeded

        async def main() -> None:
            async with open_asyncio(name_servers=server.name_servers) as store:
                done = await store.txn(
                    [Compare.missing(b"k")], otherwise=[Operation.get(b"k"), Operation.delete(b"k")]
                )
                entry = done.results[0].entry
                assert entry is not None
                assert (done.succeeded, entry.value) == (False, b"1")

        asyncio.run(main())


async def test_entries_too_large_for_one_turn_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    narrow_transactions(monkeypatch, 1000)
    async with open_test_server() as server, open_kv_store(name_servers=server.name_servers) as s:
        await s.put(b"k", bytes(2000))
        with pytest.raises(KvRejected, match="divide it"):
            await s.txn([Compare.exists(b"k")], then=[Operation.delete(b"k")])
        assert await s.get(b"k") is not None
