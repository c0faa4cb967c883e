"""The oldest files of the log, gone since the last stop: told apart from those that expired."""

from pathlib import Path

import pytest
from trio.testing import MockClock

from lanemq.storage.tools import Severity, inspect_store
from lanemq.testkit.storage.stages import Stand


@pytest.fixture(autouse=True)
def clock(autojump_clock: MockClock) -> None:
    """No test here waits."""


async def filled(root: Path, stage: int) -> Stand:
    stand = Stand(root)
    async with stand.open(stage) as store:
        stand.put(store, 200)
    return stand


def kinds(root: Path) -> dict[str, Severity]:
    return {finding.kind: finding.severity for finding in inspect_store(root).findings}


@pytest.mark.slow
@pytest.mark.parametrize("stage", [1, 2, 3])
async def test_a_first_file_that_is_gone_is_named_once(
    tmp_path: Path, stage: int, caplog: pytest.LogCaptureFixture
) -> None:
    stand = await filled(tmp_path / "store", stage)
    first, second, *_ = sorted((stand.root / "commitlog").iterdir())
    assert "log-begin" not in kinds(stand.root)
    first.unlink()
    assert kinds(stand.root)["log-begin"] is Severity.PROBLEM
    said = f"the log began at 0 when the store was closed, and begins at {int(second.name)} now"
    async with stand.open(stage) as store:
        least, end = store.bounds("T", 0)
        assert (least > 0, end) == (True, 100)
    assert said in caplog.text
    caplog.clear()
    async with stand.open(stage):
        pass
    assert "the log began" not in caplog.text
    assert "log-begin" not in kinds(stand.root)


async def test_what_expired_is_not_missed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stand = await filled(tmp_path / "store", 1)
    async with stand.open(1, file_reserved_hours=0.0) as store:
        await store.clean()
        assert store.bounds("T", 0)[0] > 0
    assert "log-begin" not in kinds(stand.root)
    async with stand.open(1):
        pass
    assert "the log began" not in caplog.text
