"""A conversion that is killed anywhere: run again it ends as if nothing had been, and a broker
that is started instead finds everything, in every stage."""

import os
import shutil
import signal
import subprocess
import sys
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
# Runs a conversion, and kills itself before the step whose number is given: a step is whatever
# makes something durable, takes it in, or changes a name.
SCRIPT = """
import os, pathlib, signal, sys
import pytest
from lanemq.storage import bulk
from lanemq.storage.rocks import QueueDatabase
from lanemq.testkit.storage.turns import take_turns

root, target, kill_at = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
steps = 0

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
if target == "rocksdb":
    bulk.convert_to_rocksdb(root)
elif target == "rocksdb by parts":
    take_turns(pytest.MonkeyPatch())
    bulk.convert_to_rocksdb(root, jobs=2)
else:
    bulk.convert_to_files(root, queue_file_bytes=200)
"""


def convert_and_kill(root: Path, target: str, step: int) -> bool:
    """Return whether it was killed: there were so many steps."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(root), target, str(step)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr.decode()
    return done.returncode != 0


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
    stand: Stand, target: str, stages: tuple[int, ...], *, stride: int = 1
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
    tmp_path: Path, target: str, stride: int
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
    kill_at_every_step(stand, target, (FILES, BOTH, ROCKSDB), stride=stride)


@pytest.mark.slow
@pytest.mark.parametrize("is_foreign", [False, True])
def test_a_conversion_to_files_survives_a_kill_before_any_step(
    tmp_path: Path, is_foreign: bool
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
    kill_at_every_step(stand, "files", (FILES, BOTH), stride=3 if is_foreign else 1)
