"""A conversion that is killed anywhere: run again it ends as if nothing had been, and a broker
that is started instead finds everything, in every stage."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio

from lanemq.storage import StartRefused
from lanemq.storage.bulk import convert_to_files, convert_to_rocksdb
from lanemq.storage.queues.rocks._queue_rows import QueueRows
from lanemq.storage.rocks import QueueDatabase
from lanemq.testkit.storage.stages import (
    Stand,
    assert_files_agree,
    assert_rows_agree,
    stored_rows,
)

FILES, BOTH, ROCKSDB = 1, 2, 3
MESSAGES = 120
# Runs a conversion for each line it reads, in a process that kills itself before the step whose
# number is given: a step is whatever makes something durable, takes it in, or changes a name. The
# processes are forked, for to start Python and import all of this takes longer than a conversion.
SCRIPT = """
import os, pathlib, signal, sys
import pytest
from lanemq.storage import bulk
from lanemq.storage.rocks import QueueDatabase
from lanemq.testkit.storage.turns import take_turns

steps = kill_at = 0

def counted(call):
    def run(*values, **options):
        global steps
        steps += 1
        if steps == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*values, **options)
    return run

for module, name in (
    (QueueDatabase, "write"),
    (QueueDatabase, "flush"),
    (QueueDatabase, "ingest"),
    (os, "sync"),
    (os, "fsync"),
    (pathlib.Path, "replace"),
    (pathlib.Path, "rename"),
    (pathlib.Path, "hardlink_to"),
    (pathlib.Path, "unlink"),
):
    setattr(module, name, counted(getattr(module, name)))
def convert(root, target):
    if target == "rocksdb":
        bulk.convert_to_rocksdb(root)
    elif target == "rocksdb by parts":
        take_turns(pytest.MonkeyPatch())
        bulk.convert_to_rocksdb(root, jobs=2)
    else:
        bulk.convert_to_files(root, queue_file_bytes=200)

for line in sys.stdin:
    root, target, number = line.rstrip("\\n").split("\\t")
    process = os.fork()
    if not process:
        kill_at = int(number)
        convert(pathlib.Path(root), target)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
"""

Kill = Callable[[Path, str, int], bool]
"""Converts a store to a target, and returns whether it was killed: there were so many steps."""


@pytest.fixture(scope="module")
def convert_and_kill(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kill]:
    said = tmp_path_factory.mktemp("said") / "stderr"
    with (
        said.open("wb") as stderr,
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        ) as server,
    ):
        asked, answers = server.stdin, server.stdout
        assert asked is not None
        assert answers is not None

        def convert(root: Path, target: str, step: int) -> bool:
            asked.write(f"{root}\t{target}\t{step}\n")
            asked.flush()
            status = answers.readline().strip()
            assert status in ("0", str(-signal.SIGKILL)), said.read_text()
            return status != "0"

        yield convert
        asked.close()
        assert server.wait(30) == 0


def look_at(root: Path, stage: int, copy: Path, *, rows_agree: bool) -> None:
    """Open a copy as a broker would, and compare all there is with the log.

    Rows only where they should agree: a hole that was made on purpose stays in the old ones.
    """
    stand = Stand(Path(shutil.copytree(root, copy)))

    async def look() -> None:
        async with stand.open(stage) as store:
            for queue_id in range(2):
                expected = list(range(queue_id, MESSAGES, 2))
                assert stand.bodies(store, queue_id=queue_id) == expected
            await store.in_rocksdb(store.max_position)

    try:
        trio.run(look)
    except StartRefused:
        # It says that RocksDB lacks rows which the files have, and what can be done.
        if stage != ROCKSDB:
            raise
    else:
        if stage in (FILES, BOTH):
            assert_files_agree(stand.config(stage))
        if stage in (BOTH, ROCKSDB) and rows_agree:
            assert_rows_agree(stand.config(stage))
    shutil.rmtree(copy)


def kill_at_every_step(
    convert_and_kill: Kill, stand: Stand, target: str, stages: tuple[int, ...], *, stride: int = 1
) -> None:
    to_rocksdb = target != "files"
    convert = convert_to_rocksdb if to_rocksdb else convert_to_files
    agree = assert_rows_agree if to_rocksdb else assert_files_agree
    other = assert_files_agree if to_rocksdb else None
    directory, step = stand.root.parent, 1
    old = stored_rows(stand.config(FILES))[0]
    while True:
        killed = Path(shutil.copytree(stand.root, directory / "killed"))
        is_over = not convert_and_kill(killed, target, step)
        again = Stand(Path(shutil.copytree(killed, directory / "again")))
        convert(again.root)
        for check in (agree, other):
            if check is not None:
                check(again.config(FILES))
        assert not (again.root / "abort").exists()
        is_new = stored_rows(Stand(killed).config(FILES))[0] != old
        if to_rocksdb:  # there is the old database or the new one, and both are whole
            assert is_new or not is_over
            if is_new:
                assert_rows_agree(Stand(killed).config(FILES))
        # The holes that were made on purpose are still in the old one, which stage 3 would read.
        open_in = stages if is_new else (FILES, BOTH)
        look_at(killed, open_in[step % len(open_in)], directory / "opened", rows_agree=is_new)
        shutil.rmtree(killed)
        shutil.rmtree(again.root)
        if is_over:
            break
        step += stride
    assert step > 40


@pytest.mark.slow
@pytest.mark.parametrize(("target", "stride"), [("rocksdb", 1), ("rocksdb by parts", 3)])
def test_a_conversion_to_rocksdb_survives_a_kill_before_any_step(
    convert_and_kill: Kill, tmp_path: Path, target: str, stride: int
) -> None:
    stand = Stand(tmp_path / "store")

    async def prepare() -> None:
        await stand.run(BOTH, 40)
        await stand.run(FILES, MESSAGES - 40, first=40)

    trio.run(prepare)
    rows = QueueRows(QueueDatabase(stand.root / "consumequeue"))
    rows.delete_units("T", 0, 0, 10)
    rows.delete_units("T", 1, 12, 18)
    rows.close()
    kill_at_every_step(convert_and_kill, stand, target, (FILES, BOTH, ROCKSDB), stride=stride)


@pytest.mark.slow
@pytest.mark.parametrize("is_foreign", [False, True])
def test_a_conversion_to_files_survives_a_kill_before_any_step(
    convert_and_kill: Kill, tmp_path: Path, is_foreign: bool
) -> None:
    stand = Stand(tmp_path / "store")

    async def prepare() -> None:
        await stand.run(BOTH, 40)
        await stand.run(ROCKSDB, MESSAGES - 40, first=40)

    trio.run(prepare)
    rows = QueueRows(QueueDatabase(stand.root / "consumequeue"))
    rows.delete_units("T", 1, 30, 35)
    rows.close()
    if is_foreign:
        (stand.root / "config" / "dispatchWatermark.json").unlink()
    stride = 3 if is_foreign else 1
    kill_at_every_step(convert_and_kill, stand, "files", (FILES, BOTH), stride=stride)
