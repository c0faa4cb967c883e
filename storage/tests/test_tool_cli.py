"""``lanemq store``: what is printed, for people and for machines, and the exit status."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from lanemq.storage.cli import store
from lanemq.storage.disk._real_files import RealFiles
from lanemq.storage.queues.rocks._queue_rows import QueueRows
from lanemq.storage.rocks import QueueDatabase
from lanemq.storage.tools import read_store
from lanemq.testkit.storage.stores import Recorded
from lanemq.testkit.storage.tools import run

FILE_STORE = "file-4.9.7-clean"
BOTH_STORE = "dualwrite-5.3.3-clean"
ROCKSDB_STORE = "rocksdb-5.3.3-clean"


def value_of(result: Result) -> Any:  # noqa: ANN401 - whatever the command prints
    return json.loads(result.stdout)


@pytest.mark.parametrize("command", sorted(store.commands))
def test_every_command_has_help_and_a_summary(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.output
    assert store.commands[command].get_short_help_str()
    assert command in run("--help").output


@pytest.mark.parametrize("command", sorted(store.commands))
def test_every_command_refuses_a_store_in_use_and_names_ways_on(
    command: str, recorded: Recorded
) -> None:
    root = recorded(FILE_STORE)
    more = {"dump": ["-t", "T"], "convert": ["--to", "rocksdb"]}.get(command, [])
    lock = RealFiles().lock(root / "lock", root)
    result = run(command, root, *more)
    lock.release()
    assert result.exit_code == 2
    assert "in use" in result.stderr
    assert "Stop that broker first" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_diff_says_that_a_switch_is_safe(unpacked_stores: Path) -> None:
    root = unpacked_stores / BOTH_STORE
    result = run("diff-consume-queue", root)
    assert result.exit_code == 0
    assert "14 queues compared, 0 of them not safe to switch" in result.stdout
    result = run("diff-consume-queue", root, "--topic", "sd_orders")
    assert "4 queues compared" in result.stdout
    assert "0 to 154              0 to 154       154  the same" in result.stdout
    assert run("diff-consume-queue", unpacked_stores / ROCKSDB_STORE).exit_code == 0


def test_diff_says_what_is_missing_and_both_ways_on(unpacked_stores: Path) -> None:
    root = unpacked_stores / "dualwrite-5.3.3-killed"
    result = run("diff-consume-queue", root)
    assert result.exit_code == 1
    assert "14 of them not safe to switch" in result.stdout
    assert "missing from offset 0 on" in result.stdout
    assert f"`lanemq store convert {root} --to rocksdb`" in result.stdout
    value = value_of(run("diff-consume-queue", root, "--topic", "se_events", "--json"))
    assert value["is_safe_to_switch"] is False
    assert [queue["first_missing"] for queue in value["queues"]] == [0, 0, 0]


@pytest.mark.slow
def test_07_diff_names_the_first_offset_that_is_missing(recorded: Recorded) -> None:
    root = recorded(BOTH_STORE)
    database = QueueDatabase(root / "consumequeue")
    rows = QueueRows(database)
    rows.delete_units("sd_orders", 2, 40, 43)
    rows.delete_units("sd_orders", 3, 0, 10)
    rows.delete_units("sd_single", 0, 0, 10)
    database.close()
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    result = run("diff-consume-queue", root)
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before
    assert result.exit_code == 1
    assert "missing from offset 40 on" in result.stdout
    assert "begins at 10, too late" in result.stdout  # no group has read the first ten
    text = run("diff-consume-queue", root, "--topic", "sd_orders").stdout
    assert "begins at 10, which is soon enough" in text


def test_diff_needs_a_rocksdb_and_says_how_to_get_one(unpacked_stores: Path) -> None:
    result = run("diff-consume-queue", unpacked_stores / FILE_STORE)
    assert result.exit_code == 2
    assert "rocksdbCQDoubleWriteEnable=true" in result.stderr
    result = run("diff-consume-queue", unpacked_stores / BOTH_STORE, "-t", "nix")
    assert result.exit_code == 2
    assert "lanemq store inspect" in result.stderr


@pytest.mark.parametrize("command", sorted(store.commands))
def test_every_command_refuses_what_is_no_store(command: str, tmp_path: Path) -> None:
    more = {"dump": ["-t", "T"], "convert": ["--to", "rocksdb"]}.get(command, [])
    result = run(command, tmp_path, *more)
    assert result.exit_code == 2
    assert "no store" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_inspect_prints_what_a_person_asks_first(unpacked_stores: Path) -> None:
    root = unpacked_stores / ROCKSDB_STORE
    text = run("inspect", root).stdout
    assert "closed cleanly" in text
    assert "3, queues and tables in RocksDB" in text
    assert "positions 0 to 1314171" in text
    assert "queue files to 998813, 315358 bytes short; rocksdb to the end" in text
    assert "sdx_orders                             57  0: 0 to 16, 1: 0 to 16" in text
    assert "sdx_group_b        sdx_events" in text
    assert f"`lanemq store convert {root} --to files`" in text


def test_inspect_prints_one_value_for_machines(unpacked_stores: Path) -> None:
    value = value_of(run("inspect", unpacked_stores / FILE_STORE, "--json"))
    assert value["stage"]["stage"] == 1
    assert value["log"]["end"] == 910420
    (queue,) = [
        queue
        for queue in value["queues"]
        if (queue["topic"], queue["queue_id"]) == ("sa_orders", 2)
    ]
    assert (queue["min"], queue["end"], queue["rocksdb"]) == (0, 155, None)


def test_dump_prints_messages_and_says_that_there_are_more(unpacked_stores: Path) -> None:
    result = run("dump", unpacked_stores / FILE_STORE, "-t", "sa_orders", "-q", 1, "-n", 2)
    assert result.exit_code == 0
    assert result.stdout.startswith("sa_orders 1:0 position ")
    assert "2 messages, by the queue files; there may be more" in result.stderr


def test_dump_prints_a_line_of_json_for_each_message(unpacked_stores: Path) -> None:
    root = unpacked_stores / FILE_STORE
    result = run("dump", root, "-t", "sa_events", "-n", 0, "--json", "--body")
    values = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(values) == 593
    assert {"body", "bodyBase64"} & values[0].keys()
    assert values[0]["queueOffset"] == 0
    assert result.stderr == ""


def test_dump_wants_to_know_a_topic(unpacked_stores: Path) -> None:
    result = run("dump", unpacked_stores / FILE_STORE)
    assert result.exit_code == 2
    assert "--topic" in result.stderr
    result = run("dump", unpacked_stores / FILE_STORE, "-t", "x", "--since", "yesterday")
    assert "2026-11-21T04:45:40" in result.stderr


def test_verify_ends_with_0_for_a_sound_store(unpacked_stores: Path) -> None:
    result = run("verify", unpacked_stores / ROCKSDB_STORE)
    assert result.exit_code == 0
    assert "2,180 rows in RocksDB" in result.stdout
    assert "and in 21 more queues, 579 in all" in result.stdout
    assert result.stdout.endswith("the store is sound\n")


def test_verify_ends_with_1_for_problems_and_repair_mends_them(recorded: Recorded) -> None:
    root = recorded(FILE_STORE)
    shutil.rmtree(root / "consumequeue/sa_orders/1")
    result = run("verify", root)
    assert result.exit_code == 1
    assert "problem: queue files: queue 1 of sa_orders: 155 messages, which is all" in result.stdout
    assert f"-> `lanemq store repair {root}`" in result.stdout
    (problem,) = value_of(run("verify", root, "--json"))["findings"]
    assert (problem["kind"], problem["count"]) == ("units-behind", 155)
    dry = run("repair", root, "--dry-run")
    assert dry.exit_code == 0
    assert "would make the files of 1 queue again" in dry.stdout
    done = run("repair", root)
    assert done.exit_code == 0
    assert "done: make the files of 1 queue again" in done.stdout
    assert "what was there before" not in done.stdout  # there was nothing
    assert run("verify", root).exit_code == 0
    assert run("repair", root).stdout.startswith("nothing to fix")


def test_repair_ends_with_1_where_only_another_copy_helps(recorded: Recorded) -> None:
    root = recorded(FILE_STORE)
    log = min((root / "commitlog").iterdir())
    data = bytearray(log.read_bytes())
    data[800] ^= 1
    log.write_bytes(data)
    result = run("repair", root)
    assert result.exit_code == 1
    assert "another copy of the log file" in result.stdout


@pytest.mark.slow
def test_convert_goes_to_rocksdb_and_says_what_is_next(recorded: Recorded) -> None:
    root = recorded(FILE_STORE)
    result = run("convert", root, "--to", "rocksdb")
    assert result.exit_code == 0
    assert "1,579 messages of 14 queues added to RocksDB" in result.stdout
    assert f"`lanemq store diff-consume-queue {root}`" in result.stdout
    assert run("diff-consume-queue", root).exit_code == 0
    verified = value_of(run("verify", root, "--json"))
    assert verified["rocksdb_rows"] == verified["file_units"] == 1579
    again = run("convert", root, "--to", "rocksdb")
    assert "had everything already" in again.stdout
    value = value_of(run("convert", root, "--to", "rocksdb", "--from-log", "--json"))
    assert value["units_from_log"] == 1579


@pytest.mark.slow
def test_convert_goes_back_to_files(recorded: Recorded) -> None:
    root = recorded(ROCKSDB_STORE)
    result = run("convert", root, "--to", "files")
    assert result.exit_code == 0
    assert "579 messages of 22 queues added to the queue files" in result.stdout
    assert "export-metadata" in result.stdout
    verified = value_of(run("verify", root, "--json"))
    assert verified["rocksdb_rows"] == verified["file_units"] == 2180
    assert verified["findings"] == []


def test_convert_to_files_advises_an_export_only_where_tables_are_in_rocksdb(
    recorded: Recorded,
) -> None:
    root = recorded(BOTH_STORE)
    result = run("convert", root, "--to", "files")
    assert result.exit_code == 0
    assert "with storeType=default a broker goes on with the files\n" in result.stdout
    assert "export-metadata" not in result.stdout


def test_export_prints_strict_json_or_writes_the_files(
    unpacked_stores: Path, tmp_path: Path
) -> None:
    root = unpacked_stores / ROCKSDB_STORE
    value = value_of(run("export-metadata", root))
    offsets = value["consumerOffset.json"]["offsetTable"]
    assert offsets["sdx_orders@sdx_group_a"] == {"0": 15, "1": 16, "2": 12, "3": 13}
    result = run("export-metadata", root, "--format", "json", "-o", tmp_path / "out")
    assert "25 entries, from rocksdb" in result.stdout
    text = (tmp_path / "out/consumerOffset.json").read_text()
    assert "{0:15,1:16,2:12,3:13" in text
    again = run("export-metadata", root, "-o", tmp_path / "out")
    assert again.exit_code == 2
    assert "is there already" in again.stderr


@pytest.mark.slow
def test_the_tools_themselves_need_neither_click_nor_rich() -> None:
    code = (
        "import sys; sys.modules['click'] = sys.modules['rich'] = None;"
        "import lanemq.storage, lanemq.storage.tools"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


HOLDER = """
import sys
from pathlib import Path
from lanemq.storage import StoreLocked
from lanemq.storage.disk._real_files import RealFiles
root = Path(sys.argv[1])
try:
    lock = RealFiles().lock(root / "lock", root)
except StoreLocked:
    print("refused", flush=True)
else:
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
def test_brokers_and_tools_keep_each_other_off_across_processes(recorded: Recorded) -> None:
    root = recorded(FILE_STORE)

    def broker() -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    with broker() as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "held\n"
        assert run("verify", root).exit_code == 2
        assert run("repair", root).exit_code == 2
    with read_store(root), read_store(root), broker() as starting:
        assert starting.stdout is not None
        assert starting.stdout.readline() == "refused\n"
    assert run("verify", root).exit_code == 0


TABLE_FILES = {
    "topics.json": "a broker starts without the topics that were in it",
    "subscriptionGroup.json": "a broker starts without the settings of groups that were in it",
    "consumerOffset.json": "no group has committed an offset yet, or they are lost",
    "delayOffset.json": "no delayed message was delivered yet, or those that were",
}


def test_tables_that_are_missing_altogether_are_told_in_one_line_each(
    recorded: Recorded,
) -> None:
    root = recorded(FILE_STORE)
    shutil.rmtree(root / "config")
    for command in (["inspect"], ["verify"], ["repair", "--dry-run"], ["repair"]):
        result = run(command[0], root, *command[1:])
        assert result.exit_code == 0
        notes = [line for line in result.stdout.splitlines() if line.startswith("note: tables: ")]
        assert len(notes) == len(TABLE_FILES)
        for (file, what), note in zip(TABLE_FILES.items(), notes, strict=True):
            assert note.startswith(f"note: tables: there is no config/{file}: {what}")


def test_one_missing_table_is_told_alone(recorded: Recorded) -> None:
    root = recorded(FILE_STORE)
    for path in (root / "config").glob("consumerOffset.json*"):
        path.unlink()
    findings = value_of(run("verify", root, "--json"))["findings"]
    assert [finding["kind"] for finding in findings] == ["consumerOffsets-missing"]
