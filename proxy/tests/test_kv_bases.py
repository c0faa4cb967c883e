"""Partitions that came from another broker are made again here, without it, of their bases."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import trio

from lanemq.proxy.broker.kv import _leftovers
from lanemq.proxy.broker.kv._leftovers import Leftovers
from lanemq.storage import KvEngine
from lanemq.testkit.proxy.partitions import Cluster, cluster, lacks, says, until
from lanemq.testkit.storage.kv import base_steps
from lanemq.wire.kv import NamespaceStatus

pytestmark = pytest.mark.slow
"""They wait for what brokers do behind their answers."""
KEYS = 300
ROCKS = KvEngine.ROCKSDB


def value(number: int) -> bytes:
    return b"".join(b"%016x" % hash((number, part)) for part in range(12))


@pytest.fixture
def keeps_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no broker give up the rows of a partition that has left."""

    async def nothing(_: Leftovers) -> None:
        await trio.lowlevel.checkpoint()

    monkeypatch.setattr(Leftovers, "remove_unneeded", nothing)


async def fill(there: Cluster, name: str, begin: int) -> None:
    for number in range(begin, begin + KEYS):
        await there.put(name, 0, b"k%d" % (number % (2 * KEYS)), value(number))


async def home(there: Cluster, *, rows_stay: bool = False) -> NamespaceStatus:
    """Move partition 0 from a to b and back, with writes everywhere; returns what it is then."""
    await fill(there, "a", 0)
    for number, (before, name) in enumerate((("a", "b"), ("b", "a"))):
        await there.move(0, name)
        if not rows_stay:
            await until(lambda before=before: lacks(there, before, 0))  # type: ignore[misc]
        if name == "b" and not rows_stay:
            await fill(there, name, KEYS)
        if number:
            await fill(there, "a", 2 * KEYS)
    return (await there.statuses("a"))[0]


async def is_as_it_was(there: Cluster, was: NamespaceStatus) -> None:
    """The partition opens at a, with all that it had."""
    await until(lambda: there.is_open("a", 0))
    numbers = {int(number) for number in range(2 * KEYS, 3 * KEYS, 7)}
    for number in numbers:
        await until(lambda number=number: _reads(there, number))  # type: ignore[misc]
    now = (await there.statuses("a"))[0]
    assert (now.state_hash, now.position, now.entries) == (
        was.state_hash,
        was.position,
        was.entries,
    )


async def _reads(there: Cluster, number: int) -> bool:
    answer = await there.get_frame("a", 0, b"k%d" % (number % (2 * KEYS)))
    return not answer.code and value(number) in answer.body


async def is_there(path: Path, *, expected: bool = True) -> bool:
    return await trio.Path(path).exists() == expected


def flip(root: Path) -> None:
    for path in (root / "kv" / "rocksdb").glob("*.sst"):
        data = bytearray(path.read_bytes())
        for part in range(1, 9):
            data[len(data) * part // 20] ^= 0xFF
        path.write_bytes(data)


def remove(root: Path) -> None:
    shutil.rmtree(root / "kv" / "rocksdb")


@pytest.mark.parametrize("ruin", [flip, remove])
@pytest.mark.parametrize("rows_stay", [False, True])
async def test_what_came_home_is_made_again_without_the_other_broker(
    tmp_path: Path, ruin: Callable[[Path], None], rows_stay: bool, request: pytest.FixtureRequest
) -> None:
    if rows_stay:
        request.getfixturevalue("keeps_rows")
    async with cluster(tmp_path, "a", "b", engine=ROCKS) as there:
        was = await home(there, rows_stay=rows_stay)
        versions = [await there.get("a", 0, b"k%d" % number) for number in range(0, 2 * KEYS, 11)]
        await there.stop("b")
        await there.stop("a")
        ruin(tmp_path / "a")
        await there.start("a", engine=ROCKS)
        await is_as_it_was(there, was)
        again = [await there.get("a", 0, b"k%d" % number) for number in range(0, 2 * KEYS, 11)]
        assert again == versions
        await fill(there, "a", 3 * KEYS)


async def test_a_damaged_base_is_noticed_and_not_used(
    tmp_path: Path, keeps_rows: None, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster(tmp_path, "a", "b", engine=ROCKS) as there:
        was = await home(there, rows_stay=True)
        await there.stop("b")
        await there.stop("a")
        path = tmp_path / "a" / "kv" / "bases" / "jobs.base"
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        remove(tmp_path / "a")
        await there.start("a", engine=ROCKS)

        async def is_noticed() -> bool:
            return "the base of partition jobs is damaged, and not used" in caplog.text

        await until(is_noticed)
        await until(lambda: says(there, "a", 0, "b"))
        assert not await there.is_open("a", 0)
        await there.start("b", engine=ROCKS)  # which has its rows yet
        await is_as_it_was(there, was)
        assert path.read_bytes() != data


@pytest.mark.parametrize("engine", [KvEngine.MEMORY, ROCKS])
async def test_a_partition_that_is_open_without_a_base_gets_one(
    tmp_path: Path, engine: KvEngine
) -> None:
    async with cluster(tmp_path, "a", "b", engine=engine) as there:
        was = await home(there)
        await there.stop("b")
        await there.stop("a")
        path = tmp_path / "a" / "kv" / "bases" / "jobs.base"
        path.unlink()
        await there.start("a", engine=engine)
        await until(partial(is_there, path))
        await there.stop("a")
        if engine is ROCKS:
            remove(tmp_path / "a")
        else:
            (tmp_path / "a" / "kv" / "memory.kv").unlink()
        await there.start("a", engine=engine)
        await is_as_it_was(there, was)


async def test_a_base_goes_with_its_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_leftovers, "ASK_AGAIN_S", 0.05)
    async with cluster(tmp_path, "a", "b") as there:
        await home(there)
        of_a, of_b = (tmp_path / name / "kv" / "bases" / "jobs.base" for name in "ab")
        assert of_a.exists()
        await until(partial(is_there, of_b, expected=False))
        await there.move(0, "b")
        assert of_b.exists()
        await until(partial(is_there, of_a, expected=False))


async def test_a_state_that_was_not_fetched_yet_is_made_of_the_base_where_it_is(
    tmp_path: Path,
) -> None:
    """The broker that a log has left loses its rows, and the next one has yet to ask for them."""
    async with cluster(tmp_path, "a", "b", engine=ROCKS) as there:
        was = await home(there)
        await there.prepare(0, "a", "b")
        await there.stop("b")
        await there.stop("a")
        remove(tmp_path / "a")
        await there.start("a", engine=ROCKS)
        await there.start("b", engine=ROCKS)

        async def is_somewhere() -> bool:
            return await there.is_open("a", 0) or await there.is_open("b", 0)

        await until(is_somewhere)
        name = "a" if await there.is_open("a", 0) else "b"
        assert (await there.statuses(name))[0].state_hash == was.state_hash


@pytest.mark.parametrize("rows_stay", [False, True])
async def test_a_kill_at_any_step_leaves_what_the_partition_opens_with(
    tmp_path: Path, rows_stay: bool, keeps_rows: None
) -> None:
    steps: list[tuple[str, Path]] = []

    def step(what: str, root: Path) -> None:
        if root == tmp_path / "a" and _armed:
            copy = tmp_path / "steps" / str(len(steps))
            shutil.copytree(root, copy)
            steps.append((what, copy))

    _armed: list[bool] = []
    async with cluster(tmp_path, "a", "b", engine=ROCKS) as there:
        await fill(there, "a", 0)
        await there.move(0, "b")
        if not rows_stay:
            await fill(there, "b", KEYS)
        was = (await there.statuses("b"))[0]
        with base_steps(step):
            _armed.append(True)
            await there.move(0, "a")
        await there.stop_all()
        assert {what for what, _ in steps} >= {
            "before finish",
            "before keep",
            "kept",
            "before flush",
        }
        shutil.copytree(tmp_path / "b", tmp_path / "b0")
        is_kept = False
        for what, copy in steps:
            is_kept = is_kept or what == "kept"
            for name, source in (("a", copy), ("b", tmp_path / "b0")):
                shutil.rmtree(tmp_path / name)
                shutil.copytree(source, tmp_path / name)
            (tmp_path / "a" / "abort").touch()
            if is_kept:
                remove(tmp_path / "a")
            else:
                await there.start("b", engine=ROCKS)
            await there.start("a", engine=ROCKS)
            await until(lambda: there.is_open("a", 0))
            now = (await there.statuses("a"))[0]
            assert (now.state_hash, now.position) == (was.state_hash, was.position), what
            await there.stop_all()
