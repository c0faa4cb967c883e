"""The blocks of docs/kv.md run as they are."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner

from lanemq.sdk.blocking.kv import open_kv_store
from lanemq.sdk.kv import Action, KeyValueStore, Step
from lanemq.sdk.kv import open_kv_store as open_store
from lanemq.sdk.kv.cli import kv
from lanemq.testing import open_test_server
from lanemq.testkit.reading_time import slowness
from lanemq.wire.kv import PAGE_ENTRIES_MAX

PAGE = Path(__file__).parents[2] / "docs" / "kv.md"
COMMANDS = re.findall(
    r"^lanemq kv (.*?)(?: +#.*)?$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
)
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def names_of(block: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(block, str(PAGE), "exec"), names)
    return names


def greeting(name_servers: str) -> tuple[bytes, int]:
    with open_kv_store(name_servers=name_servers) as store:
        entry = store.get(b"greeting")
    assert entry is not None
    return entry.value, entry.version


def test_the_blocks_run() -> None:
    first, second, positions, blocking, leases, transaction, past, loops, load, recipes = BLOCKS
    with open_test_server() as server:
        main = names_of(first)["main"]
        trio.run(main, server.name_servers)
        assert greeting(server.name_servers) == (b"good day", 2), "one put, and one change of it"
        trio.run(main, server.name_servers)
        assert greeting(server.name_servers) == (b"good day", 4), "a newcomer runs it twice"
        trio.run(names_of(second)["worker"], server.name_servers)
        trio.run(names_of(positions)["step"], server.name_servers)
        assert [one.body for one in server.messages("Shouted")] == [b"HELLO"]
        names_of(blocking)["main"](server.name_servers)
        trio.run(names_of(leases)["register"], server.name_servers)
        trio.run(names_of(transaction)["transfer"], server.name_servers)
        trio.run(names_of(past)["look_back"], server.name_servers)
        trio.run(names_of(loops)["loops"], server.name_servers)
        trio.run(names_of(load)["take_over"], server.name_servers)
        trio.run(names_of(recipes)["recipes"], server.name_servers)


def test_two_that_take_from_the_queue_share_it_and_a_barrier_waits_for_all() -> None:
    named = names_of(BLOCKS[-1])
    meet, offer, take = (named[name] for name in ("meet", "offer", "take"))
    got: list[bytes] = []
    met: list[int] = []

    async def work(store: KeyValueStore, stop: trio.CancelScope) -> None:
        while len(got) < 30:
            got.append(await take(store, b"q"))
        stop.cancel()

    async def come(store: KeyValueStore, number: int) -> None:
        async with store.lease() as lease:
            await meet(store, b"b", 3, lease.id)
            met.append(number)

    async def main(name_servers: str) -> None:
        async with (
            open_store(name_servers=name_servers) as one,
            open_store(name_servers=name_servers) as two,
        ):
            await one.create()
            async with trio.open_nursery() as nursery:
                for store in (one, two):
                    nursery.start_soon(work, store, nursery.cancel_scope)
                for number in range(30):
                    await offer(two, b"q", b"%d" % number)
            with trio.fail_after(60):
                async with trio.open_nursery() as nursery:
                    for number, store in enumerate((one, two)):
                        nursery.start_soon(come, store, number)
                    changes = one.watch(b"b/here/", position=0)
                    for _ in range(2):
                        await anext(changes)
                    assert met == []
                    await come(one, 2)

    with open_test_server() as server:
        trio.run(main, server.name_servers)
    assert sorted(got) == sorted(b"%d" % number for number in range(30))
    assert sorted(met) == [0, 1, 2]


def test_a_barrier_is_for_more_than_a_page_has() -> None:
    meet = names_of(BLOCKS[-1])["meet"]
    others = PAGE_ENTRIES_MAX + 10
    met: list[int] = []

    async def come(store: KeyValueStore, lease: int, number: int) -> None:
        await meet(store, b"b", others + 4, lease)
        met.append(number)

    async def main(name_servers: str) -> None:
        async with open_store(name_servers=name_servers) as store, store.lease() as lease:
            for begin in range(0, others, 505):
                numbers = range(begin, begin + 505)
                await store.batch([Step(b"b/here/%d" % n, Action.PUT, b"") for n in numbers])
            async with trio.open_nursery() as nursery:
                changes = store.watch(b"b/here/", position=await position_of(store))
                for number in range(3):
                    nursery.start_soon(come, store, lease.id, number)
                for _ in range(3):
                    await anext(changes)
                assert met == []
                with trio.fail_after(60):
                    await come(store, lease.id, 3)

    async def position_of(store: KeyValueStore) -> tuple[int, ...]:
        return (await store.prefix(b"b/", limit=1)).positions

    with open_test_server() as server:
        trio.run(main, server.name_servers)
    assert sorted(met) == [0, 1, 2, 3]


def test_the_commands_run_after_the_blocks_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_ = BLOCKS
    begin = next(n for n, command in enumerate(COMMANDS) if command.startswith("put farewell"))
    commands = [shlex.split(command) for command in COMMANDS[begin : begin + 6]]
    assert [words[0] for words in commands] == ["put", "get", "cas", "delete", "scan", "scan"]
    monkeypatch.chdir(tmp_path)
    with open_test_server() as server:
        monkeypatch.setenv("NAMESRV_ADDR", server.name_servers)
        for first_version in (1, 3):
            printed = [
                *(f"version {first_version}\n", "goodbye\n"),
                *(f"version {first_version + 1}\n", f"deleted version {first_version + 1}\n"),
                *("stock/apples 9\n", "stock/apples 9\n"),
            ]
            trio.run(names_of(first)["main"], server.name_servers)
            for words, text in zip(commands, printed, strict=True):
                if "--version" in words:  # of the put above: after a delete it is a later one
                    words = [*words[:-1], str(first_version)]
                done = CliRunner().invoke(kv, words)
                assert (done.exit_code, done.stdout) == (0, text), (words, done.output)


def test_the_loop_for_ever_reads_again_where_changes_are_gone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    follow = names_of(BLOCKS[-3])["follow"]

    async def main(name_servers: str) -> None:
        async with open_store(name_servers=name_servers) as store:
            await store.put(b"log/0", b"")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(follow, store, b"log/")
                for key in (b"log/1", b"log/2"):
                    with trio.fail_after(60 * slowness()):
                        while f"ChangeKind.PUT {key!r}" not in shown(capsys):
                            await store.put(key, b"")
                    await store.clear()
                nursery.cancel_scope.cancel()

    seen: list[str] = []

    def shown(capsys: pytest.CaptureFixture[str]) -> str:
        seen.append(capsys.readouterr().out)
        return "".join(seen)

    with open_test_server() as server:
        trio.run(main, server.name_servers)
