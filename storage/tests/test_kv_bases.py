"""Bases: files that are written whole or not at all, and used only as they were written."""

import functools
import random
from pathlib import Path

import pytest
import trio
import trio.testing
from click.testing import CliRunner

from lanemq.storage import StoreConfig, StoreCorrupted, open_store
from lanemq.storage.cli import store as store_command
from lanemq.storage.disk._real_files import RealFiles
from lanemq.storage.kv import KvMeta, encode_row
from lanemq.storage.kv._bases import Bases
from lanemq.testkit.storage.disk import Crash, SimulatedFiles

Rows = list[tuple[bytes, bytes]]
DIRECTORY = Path("/store/kv/bases")


def pages_of(position: int) -> list[Rows]:
    """Rows that say of which position they are; those of the state's own row, too."""
    pages = [[(b"x%d" % row, b"%d" % position * 100) for row in range(20)] for _ in range(4)]
    return [*pages, [(b"m", encode_row(KvMeta(next=position, partitions=4, identity="me")))]]


def names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


async def write(bases: Bases, position: int, name: str = "jobs@1") -> None:
    async with bases.writing(name) as writer:
        for rows in pages_of(position):
            writer.put(rows)
        await bases.keep(writer, await writer.finish())


def opened(files: SimulatedFiles | RealFiles, directory: Path = DIRECTORY) -> Bases:
    bases = Bases(files, directory)
    bases.load()
    return bases


async def test_a_base_has_what_was_written_until_it_is_removed(tmp_path: Path) -> None:
    bases = opened(RealFiles(), tmp_path)
    assert bases.known == {}
    await write(bases, 3)
    await write(bases, 7)
    for one in (bases, opened(RealFiles(), tmp_path)):
        base = one.known["jobs@1"]
        assert (base.position, base.partitions, base.identity) == (7, 4, "me")
        assert list(one.pages("jobs@1")) == pages_of(7)
    await bases.remove("jobs@1")
    assert opened(RealFiles(), tmp_path).known == {}
    assert names(tmp_path) == []


async def test_a_base_that_is_not_kept_leaves_nothing(tmp_path: Path) -> None:
    bases = opened(RealFiles(), tmp_path)
    await write(bases, 3)
    async with bases.writing("jobs@1") as writer:
        writer.put(pages_of(7)[0])
    assert names(tmp_path) == ["jobs@1.base"]
    (tmp_path / "jobs@1.base.tmp-17").touch()  # as a kill leaves it
    assert opened(RealFiles(), tmp_path).known["jobs@1"].position == 3
    assert names(tmp_path) == ["jobs@1.base"]


async def test_each_damaged_byte_is_noticed(tmp_path: Path) -> None:
    bases = opened(RealFiles(), tmp_path)
    await write(bases, 3)
    path = tmp_path / "jobs@1.base"
    data = path.read_bytes()
    rng = random.Random(1)
    places = [*range(0, len(data), 97), *range(100), *range(len(data) - 100, len(data))]
    wholes = [
        data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :] for at in places
    ]
    cuts = [data[:at] for at in range(0, len(data), 97)]
    for found in [*wholes, *cuts, b"", bytes(len(data))]:
        path.write_bytes(found)
        with pytest.raises(StoreCorrupted):
            list(bases.pages("jobs@1"))
        opened(RealFiles(), tmp_path)  # says so, and goes on


@pytest.mark.parametrize("how", ["kill", "power"])
def test_a_crash_leaves_the_base_before_or_the_one_behind(how: str) -> None:
    async def run(files: SimulatedFiles, *positions: int) -> None:
        bases = opened(files)
        for position in positions:
            await write(bases, position)

    def trio_run(files: SimulatedFiles, *positions: int) -> None:
        clock = trio.testing.MockClock(autojump_threshold=0)
        trio.run(functools.partial(run, files), *positions, clock=clock)

    seen = set[int | None]()
    for step in range(24):
        for seed in range(2):
            files = SimulatedFiles(seed=seed)
            trio_run(files, 3)
            files.crash_after = step
            is_done = False
            try:
                trio_run(files, 7)
                is_done = True
            except BaseException as error:  # one of a group, as tasks end
                if not isinstance(error, Crash) and not _has_crash(error):
                    raise
            after = opened(files.reboot(how))  # type: ignore[arg-type]
            base = after.known["jobs@1"]
            assert list(after.pages("jobs@1")) == pages_of(base.position)
            assert base.position == 7 or not is_done
            seen.add(base.position)
    assert seen == {3, 7}


def _has_crash(error: BaseException) -> bool:
    inner = getattr(error, "exceptions", ())
    return isinstance(error, Crash) or any(_has_crash(one) for one in inner)


async def test_verify_kv_reads_bases_and_repair_leaves_them(tmp_path: Path) -> None:
    async with open_store(StoreConfig(root=tmp_path)) as store:
        assert store.kv is not None
        await store.kv.make("jobs")
        await store.kv.flush()
        bases = store.kv.kept.bases
        async with bases.writing("jobs") as writer:
            writer.put([(b"m", encode_row(KvMeta(next=3)))])
            await bases.keep(writer, await writer.finish())
    run = CliRunner()
    sound = run.invoke(store_command, ["verify-kv", str(tmp_path)])
    assert sound.exit_code == 0, sound.output
    path = tmp_path / "kv" / "bases" / "jobs.base"
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)
    found = run.invoke(store_command, ["verify-kv", str(tmp_path)])
    assert found.exit_code == 1
    assert "jobs.base" in found.output.replace("\n", "")
    run.invoke(store_command, ["repair", str(tmp_path)])
    assert path.read_bytes() == data
    for command in ("inspect", "verify"):
        assert run.invoke(store_command, [command, str(tmp_path)]).exit_code in (0, 1)
