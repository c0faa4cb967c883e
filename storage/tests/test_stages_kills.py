"""A broker is killed hundreds of times, and both indexes always agree."""

from pathlib import Path

import pytest
import trio

from lanemq.testkit.storage.kills import KillLoop, check, stand_at
from lanemq.testkit.storage.stages import assert_files_agree, assert_rows_agree

pytestmark = pytest.mark.slow


async def run(directory: Path, kills: int, *stages: int) -> None:
    loop = KillLoop(directory, stages=stages, seed=kills)
    while loop.kills < kills:
        await trio.to_thread.run_sync(loop.run_one)
    assert loop.checks >= kills / 2
    stand = stand_at(str(directory))
    async with stand.open(2) as store:
        await store.in_rocksdb(store.max_position)
        check(store)
    assert_files_agree(stand.config(2))
    assert_rows_agree(stand.config(2))


async def test_two_hundred_kills_in_double_writing_lose_nothing(
    tmp_path: Path,
) -> None:
    await run(tmp_path / "store", 200, 2)


async def test_kills_between_changes_of_the_stage_lose_nothing(tmp_path: Path) -> None:
    await run(tmp_path / "store", 40, 1, 2, 3)
