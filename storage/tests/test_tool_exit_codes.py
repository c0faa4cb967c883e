"""One table of exit codes, in the docs, that every command keeps."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lanemq.storage import StoreConfig, StoreCorrupted, open_store
from lanemq.storage.cli import _inspect, store
from lanemq.storage.disk._real_files import RealFiles
from lanemq.storage.index._index import Index
from lanemq.storage.index._index_file import key_hash
from lanemq.storage.index._keys import keys_of
from lanemq.storage.queues.rocks._queue_rows import QueueRows
from lanemq.storage.rocks import QueueDatabase
from lanemq.storage.tools import look_into, repair_store, verify_store
from lanemq.storage.tools.reading._scan import LogScan
from lanemq.testkit.storage.stores import Recorded
from lanemq.testkit.storage.tools import run

PAGE = Path(__file__).parents[2] / "docs/store.md"
FILE_STORE = "file-4.9.7-clean"
BOTH_STORE = "dualwrite-5.3.3-clean"
ROCKSDB_STORE = "rocksdb-5.3.3-clean"


def table() -> dict[str, list[str]]:
    """Command -> what its codes 0, 1 and 2 mean, as the page has it."""
    rows = re.findall(r"^\| `([a-z-]+)` \| (.*) \| (.*) \| (.*) \|$", PAGE.read_text(), re.M)
    return {name: list(codes) for name, *codes in rows}


def test_the_page_has_every_command() -> None:
    assert set(table()) == set(store.commands)


def sound(root: Path, _: Recorded) -> Path:
    return root


def break_queue(root: Path, _: Recorded) -> Path:
    shutil.rmtree(root / "consumequeue" / "sa_orders" / "1")
    return root


def break_log(root: Path, _: Recorded) -> Path:
    log = min((root / "commitlog").iterdir())
    data = bytearray(log.read_bytes())
    data[800] ^= 1
    log.write_bytes(data)
    return root


def break_table(root: Path, _: Recorded) -> Path:
    for name in ("topics.json", "topics.json.bak"):
        (root / "config" / name).write_text('{"topicConfigTable": {')
    return root


def break_rows(_: Path, recorded: Recorded) -> Path:
    root = recorded(BOTH_STORE)
    rows = QueueRows(QueueDatabase(root / "consumequeue"))
    rows.delete_units("sd_orders", 0, 100, 120)
    rows.close()
    return root


def both(_: Path, recorded: Recorded) -> Path:
    return recorded(BOTH_STORE)


def no_place(root: Path, _: Recorded) -> Path:
    path = min((root / "consumequeue" / "sa_orders" / "1").iterdir())
    data = bytearray(path.read_bytes())
    data[40:48] = (12_345).to_bytes(8, "big")
    path.write_bytes(data)
    return root


def nothing(root: Path, _: Recorded) -> Path:
    return root / "nothing"


CASES = [
    (0, ["inspect"], sound),
    (1, ["inspect"], break_table),
    (0, ["dump", "-t", "sa_orders"], sound),
    (1, ["dump", "-t", "sa_orders", "-q", "1", "-n", "0"], no_place),
    (0, ["verify"], sound),
    (1, ["verify"], break_queue),
    (1, ["verify"], break_table),
    (0, ["repair"], sound),
    (0, ["repair"], break_queue),
    (0, ["repair", "--dry-run"], break_queue),
    (1, ["repair"], break_log),
    (1, ["repair"], break_table),
    (0, ["diff-consume-queue"], both),
    (1, ["diff-consume-queue"], break_rows),
    (2, ["diff-consume-queue"], sound),
    (0, ["convert", "--to", "rocksdb"], sound),
    (0, ["convert", "--to", "files"], break_queue),
    (0, ["export-metadata"], sound),
    (2, ["export-metadata"], break_table),
    *((2, [name], nothing) for name in ("inspect", "verify", "repair", "export-metadata")),
    (2, ["dump", "-t", "T"], nothing),
    (2, ["convert", "--to", "rocksdb"], nothing),
    (2, ["convert"], sound),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "command", "prepare"),
    CASES,
    ids=[f"{prepare.__name__}-{'-'.join(command)}-{code}" for code, command, prepare in CASES],
)
def test_every_command_ends_as_the_table_says(
    code: int,
    command: list[str],
    prepare: Callable[[Path, Recorded], Path],
    recorded: Recorded,
) -> None:
    root = prepare(recorded(FILE_STORE), recorded)
    result = run(command[0], root, *command[1:])
    assert result.exit_code == code, result.output
    assert table()[command[0]][code] != "never"
    if code == 1 and command[0] in ("inspect", "verify"):
        assert "problem:" in result.output
    if code == 2:
        assert result.stdout == ""


def test_an_interrupted_command_could_not_do_its_work(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_inspect, "inspect_store", interrupted)
    result = run("inspect", recorded(FILE_STORE))
    assert result.exit_code == 2
    assert "interrupted" in result.stderr


def test_a_torn_tail_alone_is_cut_and_the_repair_ends_well(recorded: Recorded) -> None:
    root = recorded(FILE_STORE)
    end = verify_store(root).log_end
    log = max((root / "commitlog").iterdir())
    with log.open("r+b") as file:
        file.seek(end - int(log.name))
        file.write(b"\x00\x00\x01\x00 remains of a write")
    result = run("repair", root)
    assert result.exit_code == 0, result.output
    assert "done: cut" in result.stdout
    assert "what was there before is in" in result.stdout
    assert run("verify", root).exit_code == 0
    assert not (root / "repair.tmp").exists()


async def test_a_start_that_is_refused_for_sizes_leaves_the_store_as_it_was(
    recorded: Recorded,
) -> None:
    root = recorded(FILE_STORE)
    assert not (root / "abort").exists()
    with pytest.raises(StoreCorrupted):
        async with open_store(StoreConfig(root=root)):
            pass
    assert not (root / "abort").exists()
    assert verify_store(root).is_sound


@pytest.mark.parametrize("doubled", [1, 700, 1500])
def test_an_entry_that_a_redo_made_twice_is_no_problem(doubled: int, recorded: Recorded) -> None:
    root = recorded(FILE_STORE)
    found = look_into(root)
    assert found.index_sizes is not None
    before = verify_store(root).index_entries
    shutil.rmtree(root / "index")
    index = Index(
        RealFiles(),
        root / "index",
        slots=found.index_sizes.slots,
        entries=found.index_sizes.entries,
        clock_ms=lambda: 1,
        on_full=lambda _: None,
    )
    for number, record in enumerate(LogScan(found.log, 0, found.log.capacity_end)):
        message = (
            record.topic,
            record.position,
            record.store_timestamp_ms,
            record.sys_flag,
            record.properties,
        )
        index.submit([message])
        if number == doubled:  # as 4.9.7 and 5.3.3 do, whose redo begins with the newest entry
            index.drain()
            for key in keys_of(record.properties):
                hashes = [key_hash(record.topic, key)]
                times = [record.store_timestamp_ms]
                index._index_files[-1].put(hashes, [record.position], times)
    index.drain()
    index.write_out()
    index.close()
    report = verify_store(root)
    assert report.findings == []
    assert report.index_entries == before
    assert repair_store(root).actions == []
