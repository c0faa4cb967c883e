"""Damaged files of RocksDB: what is in them is made again from the log, and the rest serves."""

import logging
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
import trio

from lanemq.testkit.proxy.keys import Keys, keys_of, result
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.kv import Action, Entry, OpType, Page, Step, decode_answer, encode_key

KEYS = 800
BUSY = ResponseCode.SYSTEM_BUSY
NOT_YET = ("not open yet", "taken now", "ask again", "moving")


def key(number: int) -> bytes:
    return b"%05d" % number


def value(number: int, generation: int = 0) -> bytes:
    """Bytes that do not compress, so that a table has many blocks."""
    return b"".join(b"%016x" % hash((number, generation, part)) for part in range(12))


async def retried(ask: Callable[[], object]) -> Frame:
    """Ask until the answer is another than "not yet"."""
    with trio.fail_after(60):
        while True:
            answer = await ask()  # type: ignore[misc]
            assert isinstance(answer, Frame)
            if answer.code != BUSY:
                return answer
            assert any(text in (answer.remark or "") for text in NOT_YET), answer.remark
            await trio.sleep(0.02)


async def fill(keys: Keys, generation: int = 0) -> None:
    for begin in range(0, KEYS, 400):
        steps = [Step(key(n), Action.PUT, value(n, generation)) for n in range(begin, begin + 400)]
        answer = await retried(lambda steps=steps: keys.write(OpType.BATCH, *steps))  # type: ignore[misc]
        assert result(answer).done


async def check(keys: Keys, generation: int = 0, *, numbers: range = range(0, KEYS, 7)) -> None:
    """Every entry is there, once the partition is."""
    for number in numbers:
        answer = await retried(lambda: keys.ask(RequestCode.KV_GET, key=encode_key(key(number))))  # noqa: B023
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        entry = decode_answer(answer.body, Entry)
        assert entry.value == value(number, generation)


async def prepared(root: Path, **settings: object) -> str:
    """Make a store with the namespaces a and b, in tables of RocksDB; returns the hash of a."""
    async with keys_of(root, **settings) as (keys, broker):
        a, b = (Keys(keys.client, name) for name in "ab")
        await fill(a)
        await fill(b)
        found = (await a.status()).state_hash
        assert broker.context.store.kv is not None
        await broker.context.store.kv.flush()
    return found


def tables(root: Path, namespace: str) -> list[Path]:
    mark = f"kv.{namespace}".encode()
    found = sorted((root / "kv" / "rocksdb").glob("*.sst"))
    return [path for path in found if mark in path.read_bytes()]


def flip(path: Path, at: float = 0.5) -> None:
    """Change one byte."""
    data = bytearray(path.read_bytes())
    data[int(len(data) * at)] ^= 0xFF
    path.write_bytes(data)


async def is_made_again(keys: Keys, expected: str) -> None:
    await retried(lambda: keys.ask(RequestCode.KV_GET, key=encode_key(b"any")))
    assert (await keys.status()).state_hash == expected


@pytest.mark.parametrize("how", ["get", "multi_get", "scan", "watch", "put", "batch"])
async def test_a_block_that_cannot_be_read_closes_its_partition_until_it_is_made_again(
    tmp_path: Path, how: str
) -> None:
    expected = await prepared(tmp_path)
    for path in tables(tmp_path, "a"):
        for part in range(1, 9):
            flip(path, part / 20)
    async with keys_of(tmp_path) as (keys, _broker):
        a, b = (Keys(keys.client, name) for name in "ab")
        number = 0

        async def ask() -> Frame:
            nonlocal number
            number = (number + 1) % KEYS
            if how == "get":
                return await a.ask(RequestCode.KV_GET, key=encode_key(key(number)))
            if how == "multi_get":
                body = msgspec.msgpack.encode([key(n) for n in range(KEYS)])
                return await a.ask(RequestCode.KV_MULTI_GET, body)
            if how == "scan":
                return await a.ask(RequestCode.KV_SCAN, cursor=encode_key(key(number)), limit=1000)
            if how == "watch":
                return await a.watch(0)
            step = Step(key(number), Action.PUT, value(number))
            return await a.write(OpType.PUT if how == "put" else OpType.BATCH, step)

        refused = 0
        for _ in range(KEYS):
            answer = await ask()
            if answer.code != ResponseCode.SUCCESS:
                assert answer.code == BUSY, answer.remark
                refused += 1
                break
        if how != "watch":  # whose values may be in blocks that are sound
            assert refused
            assert result(await b.put(b"other", b"1")).done  # at once
            await check(a)
        await check(b)
        if how in ("get", "multi_get", "scan"):
            await is_made_again(a, expected)


async def test_a_merge_that_meets_a_damaged_table_stops_nobody_for_good(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await prepared(tmp_path)
    told, generation = "keys cannot be written; their database is opened again", 0
    async with keys_of(tmp_path) as (keys, broker):
        states = broker.context.store.kv
        assert states is not None
        a, b = (Keys(keys.client, name) for name in "ab")
        for path in tables(tmp_path, "a"):
            flip(path, 0.3)
        while generation < 8 or told not in caplog.text:  # RocksDB merges when it comes to it
            assert generation < 100
            for namespace in (a, b):
                steps = [Step(key(n) + b"%d" % generation, Action.PUT, b"new") for n in range(KEYS)]
                answer = await retried(
                    lambda namespace=namespace, steps=steps: namespace.write(OpType.BATCH, *steps)  # type: ignore[misc]
                )
                assert result(answer).done
            with suppress(OSError):
                await states.flush()
            with trio.move_on_after(0.1):
                await states.damage.news.wait()
            generation += 1
        for namespace in (a, b):
            await check(namespace)
            await retried(lambda namespace=namespace: namespace.put(b"last", b""))  # type: ignore[misc]
            assert (await namespace.status()).entries == KEYS * (generation + 1) + 1


WHOLE = {
    "manifest": "MANIFEST-*",
    "current": "CURRENT",
    "tables": "*.sst",
    "options": "OPTIONS-*",
    "wal": "*.log",
}


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def garbage(path: Path) -> None:
    path.write_bytes(b"\x5a" * max(100, path.stat().st_size))


def flipped(path: Path) -> None:
    for part in range(1, 20):
        if path.stat().st_size:
            flip(path, part / 20)


@pytest.mark.parametrize("ruin", [zero, cut, garbage, flipped, Path.unlink])
@pytest.mark.parametrize("which", list(WHOLE))
async def test_a_start_with_damaged_files_serves_and_makes_the_states_again(
    tmp_path: Path, which: str, ruin: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    expected = await prepared(tmp_path)
    for path in sorted((tmp_path / "kv" / "rocksdb").glob(WHOLE[which])):
        ruin(path)
    caplog.set_level(logging.ERROR)
    async with keys_of(tmp_path) as (keys, _broker):
        topics = await keys.client.call(RequestCode.GET_ALL_TOPIC_CONFIG, {})
        assert topics.code == ResponseCode.SUCCESS
        a, b = (Keys(keys.client, name) for name in "ab")
        for namespace in (a, b):
            await check(namespace)
        await is_made_again(a, expected)
        await fill(a, 1)
    # As after SIGKILL, on what the first start left.
    shutil.copytree(tmp_path, tmp_path / "copy")
    (tmp_path / "copy" / "abort").touch()
    async with keys_of(tmp_path / "copy") as (keys, _):
        await check(Keys(keys.client, "a"), 1)
        await check(Keys(keys.client, "b"))


@pytest.mark.parametrize("ruin", [zero, flipped, cut, Path.unlink])
async def test_where_the_log_is_not_whole_the_partition_is_lost_and_others_are_not(
    tmp_path: Path, ruin: Callable[[Path], None]
) -> None:
    settings = {"mapped_file_size_commit_log": 1 << 17}
    await prepared(tmp_path, **settings)
    async with keys_of(tmp_path, **settings) as (keys, _):
        await fill(Keys(keys.client, "b"), 1)
    for path in sorted((tmp_path / "commitlog").iterdir())[:1]:
        path.unlink()  # as cleaned
    for path in tables(tmp_path, "a"):
        ruin(path)
    async with keys_of(tmp_path, **settings) as (keys, _):
        a, b = (Keys(keys.client, name) for name in "ab")
        for number in range(KEYS):
            lost = await retried(
                lambda number=number: a.ask(RequestCode.KV_GET, key=encode_key(key(number)))  # type: ignore[misc]
            )
            if lost.code != ResponseCode.SUCCESS:
                break
        assert lost.code == ResponseCode.KV_STATE_LOST
        await check(b, 1)
        page = await b.ask(RequestCode.KV_SCAN, limit=3)
        assert len(decode_answer(page.body, Page).entries) == 3
