"""Settings that the tools take from a broker's file, or find out in the store without it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from lanemq.storage._layouts import iter_units
from lanemq.storage.bulk import convert_to_files, convert_to_rocksdb
from lanemq.storage.tools import read_settings, repair_store, verify_store
from lanemq.testkit.storage.stages import (
    Stand,
    assert_files_agree,
    assert_rows_agree,
    new_message,
)
from lanemq.testkit.storage.tools import run

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
LEVELS = "10s 9m 3h"
FILES, BOTH, ROCKSDB = 1, 2, 3
NO_TABLES = {
    "topics-missing",
    "groups-missing",
    "consumerOffsets-missing",
    "delayOffsets-missing",
}
"""The notes on a store that no broker has put tables into."""


async def fill(stand: Stand) -> None:
    async with stand.open(FILES) as store:
        for number in range(40):
            level = number % 2 + 1
            properties = {"DELAY": str(level), "REAL_TOPIC": "T", "REAL_QID": "0"}
            message = new_message(number, topic=SCHEDULE, queue_id=level - 1, properties=properties)
            store.put(message)
        store.commit()


@pytest.fixture
def stand(tmp_path: Path) -> Stand:
    """Forty messages of levels 1 and 2, which are not the default ones."""
    stand = Stand(tmp_path / "store", delay_levels=LEVELS, commit_log_file_bytes=1 << 20)
    trio.run(fill, stand)
    return stand


def delays(stand: Stand, level: int) -> set[int]:
    """Time of delivery less store time, of what the files of a level's queue say."""
    report = set()
    for path in (stand.root / "consumequeue" / SCHEDULE / str(level - 1)).iterdir():
        for position, size, code in iter_units(path.read_bytes()):
            if size:
                log = (stand.root / "commitlog" / f"{0:020d}").read_bytes()
                report.add(code - int.from_bytes(log[position + 56 : position + 64], "big"))
    return report


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "broker.conf"
    path.write_text(
        f"messageDelayLevel = {LEVELS}\nmaxHashSlotNum=7\nmaxIndexNum=400\n"
        "mappedFileSizeConsumeQueue = 200\n"
    )
    return path


def test_a_repair_finds_the_delay_levels_in_the_store(stand: Stand) -> None:
    assert delays(stand, 2) == {540_000}
    path = min((stand.root / "consumequeue" / SCHEDULE / "1").iterdir())
    path.write_bytes(bytes(200))
    report = repair_store(stand.root)
    assert report.is_sound
    assert report.default_levels == []
    assert delays(stand, 2) == {540_000}
    assert_files_agree(stand.config(FILES))


@pytest.mark.parametrize("given", [True, False])
def test_a_repair_takes_them_from_the_brokers_file_where_no_queue_is_left(
    stand: Stand, config: Path, given: bool
) -> None:
    shutil.rmtree(stand.root / "consumequeue")
    if given:
        result = run("repair", stand.root, "-c", config)
        assert result.exit_code == 0, result.output
        assert "nothing tells the delay" not in result.output
        assert delays(stand, 2) == {540_000}
        assert_files_agree(stand.config(FILES))
    else:
        result = run("repair", stand.root, "--queue-file-bytes", 200)
        assert "note: nothing tells the delay of level 2" in result.output
        assert delays(stand, 2) == {5_000}
        shutil.rmtree(stand.root / "index")
        assert "note: nothing tells the sizes of index files" in run("repair", stand.root).output


def test_conversions_know_the_delay_levels(stand: Stand) -> None:
    convert_to_rocksdb(stand.root, from_log=True)
    assert_rows_agree(stand.config(BOTH))
    for path in (stand.root / "consumequeue").iterdir():
        if path.is_dir():
            shutil.rmtree(path)
    convert_to_files(stand.root, from_log=True, queue_file_bytes=200)
    assert delays(stand, 2) == {540_000}
    assert_files_agree(stand.config(FILES))


def test_a_deleted_index_is_a_problem_and_comes_back(stand: Stand, config: Path) -> None:
    entries = verify_store(stand.root).index_entries
    assert entries == 40
    shutil.rmtree(stand.root / "index")
    result = run("verify", stand.root)
    assert result.exit_code == 1
    assert "there is no key index: 40 keys of messages cannot be found" in result.output
    assert "messageIndexEnable=false" in result.output
    result = run("repair", stand.root, "-c", config)
    assert result.exit_code == 0, result.output
    assert "nothing tells the sizes" not in result.output
    report = verify_store(stand.root)
    assert report.is_sound
    assert report.index_entries == entries
    (path,) = (stand.root / "index").iterdir()
    assert path.stat().st_size == 40 + 7 * 4 + 400 * 20


def test_a_broker_without_an_index_is_not_told_to_make_one(stand: Stand, tmp_path: Path) -> None:
    shutil.rmtree(stand.root / "index")
    config = tmp_path / "broker.conf"
    config.write_text("messageIndexEnable=false\n")
    assert run("verify", stand.root, "-c", config).exit_code == 0
    assert run("repair", stand.root, "-c", config, "--all").exit_code == 0
    assert not (stand.root / "index").exists()


def test_an_index_of_another_size_is_sound_and_loses_no_key(stand: Stand) -> None:
    report = verify_store(stand.root)
    assert {finding.kind for finding in report.findings} == NO_TABLES
    repair_store(stand.root, everything=True)
    report = verify_store(stand.root)
    assert report.is_sound
    assert report.index_entries == 40


def test_an_index_whose_sizes_nothing_tells_is_left_alone(stand: Stand, config: Path) -> None:
    (path,) = (stand.root / "index").iterdir()
    path.write_bytes(bytes(path.stat().st_size))
    result = run("verify", stand.root)
    assert result.exit_code == 1
    assert "nothing tells how many slots" in result.output
    assert run("repair", stand.root, "--all").exit_code == 1
    assert path.read_bytes().count(0) == path.stat().st_size
    assert run("repair", stand.root, "-c", config).exit_code == 0
    assert verify_store(stand.root).index_entries == 40


def test_a_file_that_makes_no_sense_is_refused_by_name(stand: Stand, tmp_path: Path) -> None:
    config = tmp_path / "broker.conf"
    config.write_text("maxHashSlotNum=many\n")
    result = run("verify", stand.root, "-c", config)
    assert result.exit_code == 2
    assert f"{config}: maxHashSlotNum is 'many'" in result.output
    result = run("verify", stand.root, "-c", tmp_path / "none.conf")
    assert result.exit_code == 2
    assert "none.conf" in result.output


def test_a_recorded_store_needs_no_file(recorded: Callable[[str], Path], tmp_path: Path) -> None:
    root = recorded("file-4.9.7-clean")
    config = tmp_path / "broker.conf"
    config.write_text("storePathRootDir=/elsewhere\nbrokerName=x\n")
    settings = read_settings(config)
    assert settings.delays_ms is None
    result = run("verify", root, "-c", config, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["findings"] == []


COMMANDS = [
    ["inspect"],
    ["dump", "-t", "T"],
    ["dump", "--from-log"],
    ["verify"],
    ["verify-kv"],
    ["repair"],
    ["diff-consume-queue"],
    ["convert", "--to", "rocksdb"],
    ["export-metadata"],
]


@pytest.mark.parametrize("command", COMMANDS, ids="-".join)
@pytest.mark.parametrize("by_file", [False, True])
def test_a_log_that_is_not_where_it_is_said_to_be_is_blamed_and_not_the_store(
    command: list[str], by_file: bool, stand: Stand, tmp_path: Path
) -> None:
    missing, config = tmp_path / "nolog", tmp_path / "broker.conf"
    config.write_text(f"storePathCommitLog={missing}\n")
    options = ["-c", config] if by_file else ["--commit-log", missing]
    for text in ("there is no such directory", "is not a directory", "it has no file of a log"):
        result = run(*command, stand.root, *options)
        assert result.exit_code == 2
        (line,) = result.stderr.splitlines()
        assert line.startswith(f"Error: {missing}: {text}")
        assert "--commit-log, or storePathCommitLog" in line
        if text == "there is no such directory":
            missing.write_bytes(b"")
        elif text == "is not a directory":
            missing.unlink()
            missing.mkdir()
    assert delays(stand, 1)  # the queue has its units still


@pytest.mark.parametrize("stage", [FILES, ROCKSDB])
def test_a_store_without_any_file_of_its_log_is_not_called_sound(
    stage: int, tmp_path: Path
) -> None:
    async def fill_in_stage() -> None:
        async with own.open(stage) as store:
            for number in range(10):
                store.put(new_message(number, topic="T", queue_id=0))
            store.commit()

    own = Stand(tmp_path / "store")
    trio.run(fill_in_stage)
    for path in (own.root / "commitlog").iterdir():
        path.unlink()
    kept = {path: path.stat().st_size for path in (own.root / "consumequeue").rglob("*")}
    for command in (["verify"], ["repair"], ["inspect"]):
        result = run(*command, own.root)
        assert result.exit_code == 2
        assert f"Error: {own.root}/commitlog: it has no file of a log" in result.stderr
    assert {path: path.stat().st_size for path in kept} == kept
