"""Light queues under a broker whose settings for them are off: nothing is left out unsaid."""

import logging
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from lanemq.storage.cli import store as store_command
from lanemq.storage.tools import repair_store, verify_store
from lanemq.testkit.storage.stages import Stand, new_message

FILES, ROCKSDB = 1, 3
LIGHT = "%LMQ%a"
PROPERTIES = {"INNER_MULTI_DISPATCH": LIGHT}


async def put(stand: Stand, stage: int, count: int, *, killed: Path | None = None) -> None:
    async with stand.open(stage, multi_dispatch=True) as store:
        for number in range(count):
            store.put(new_message(number, properties=PROPERTIES))
        store.commit()
        if killed is not None:
            stand.kill(killed)


@pytest.mark.parametrize("stage", [FILES, ROCKSDB])
async def test_a_start_says_that_light_queues_get_no_new_messages(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, stage: int
) -> None:
    stand = Stand(tmp_path / "store")
    await put(stand, stage, 5)
    async with stand.open(stage):
        pass
    (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    text = warning.getMessage()
    assert LIGHT in text
    assert "enableLmq and enableMultiDispatch are not both true" in text
    caplog.clear()
    async with stand.open(stage, multi_dispatch=True) as store:
        assert store.bounds(LIGHT, 0) == (0, 5)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.slow
@pytest.mark.parametrize("stage", [FILES, ROCKSDB])
async def test_a_start_after_a_kill_names_the_light_queue_that_lacks_messages(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, stage: int
) -> None:
    stand = Stand(tmp_path / "store")
    await put(stand, stage, 0)
    await put(stand, stage, 5, killed=tmp_path / "killed")
    shutil.rmtree(stand.root / "consumequeue" / LIGHT, ignore_errors=True)
    async with stand.open(stage) as store:
        assert store.bounds("T", 0) == (0, 5)
        assert store.bounds(LIGHT, 0) == (0, 0)
    text = caplog.text
    assert f"{LIGHT} ends at 0" in text
    assert "has offset 4 there" in text
    assert f"repair the store in {stand.root}" in text
    assert not verify_store(stand.root).is_sound
    assert repair_store(stand.root).is_sound
    caplog.clear()
    async with stand.open(stage, multi_dispatch=True) as store:
        assert store.bounds(LIGHT, 0) == (0, 5)


async def test_a_start_with_the_settings_makes_the_units_that_one_without_left_out(
    tmp_path: Path,
) -> None:
    stand = Stand(tmp_path / "store")
    await put(stand, FILES, 5, killed=tmp_path / "killed")
    shutil.rmtree(stand.root / "consumequeue" / LIGHT, ignore_errors=True)
    async with stand.open(FILES):
        pass
    async with stand.open(FILES, multi_dispatch=True) as store:
        assert store.bounds(LIGHT, 0) == (0, 5)
        store.put(new_message(5, properties=PROPERTIES))
        store.commit()
        assert stand.bodies(store, LIGHT) == [0, 1, 2, 3, 4, 5]


async def test_verify_and_inspect_know_the_brokers_settings(tmp_path: Path) -> None:
    stand = Stand(tmp_path / "store")
    await put(stand, FILES, 5)
    off, on = tmp_path / "off.conf", tmp_path / "on.conf"
    off.write_text("enableLmq=true\n")
    on.write_text("enableLmq=true\nenableMultiDispatch=true\n")
    for tool in ("verify", "inspect"):
        for path, is_said in ((off, True), (on, False)):
            result = CliRunner().invoke(store_command, [tool, str(stand.root), "-c", str(path)])
            assert result.exit_code == 0, result.output
            assert (f"1 light queues, {LIGHT} for one" in result.output) == is_said
