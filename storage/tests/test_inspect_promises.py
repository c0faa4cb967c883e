"""The promises of ``inspect`` about the next start, against what that start does.

Each case makes a state, reads the promise, starts, and compares: whether the start is refused,
how many messages can be read afterwards, and what it says.
"""

import logging
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from lanemq.storage import (
    ConfigInvalid,
    StartRefused,
    StoreConfig,
    StoreCorrupted,
    StoreType,
    open_store,
)
from lanemq.storage.tables.rocks._database import ConfigDatabase
from lanemq.storage.tools import Severity, inspect_store, repair_store
from lanemq.storage.tools.reading._directory import look_into
from lanemq.testkit.storage.stages import Stand

FILES, BOTH, ROCKSDB = "file-4.9.7-clean", "dualwrite-5.3.3-clean", "rocksdb-5.3.3-clean"
KILLED = "file-4.9.7-killed"
NO_TABLES: Final = ("topics-missing", "groups-missing", "consumerOffsets-missing")
"""The findings about a store without tables, as the tests make them."""
MESSAGES: Final = {FILES: 1579, BOTH: 1601, ROCKSDB: 2180, KILLED: 2402}
NO_START, SERVES_ALL = "refused", "all"


def nothing(_root: Path) -> None:
    """Leave the store as it is."""


def part(root: Path, name: str, number: int) -> Path:
    return sorted(path for path in (root / name).rglob("*") if path.is_file())[number]


def shorten(name: str, number: int) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        path = part(root, name, number)
        os.truncate(path, path.stat().st_size - 20)

    return change


def orders(root: Path) -> Path:
    (topic,) = (root / "consumequeue").glob("s?_orders")
    return topic / "1"


def shorten_queue(root: Path) -> None:
    os.truncate(part(orders(root), "", 0), 4000)


def lose_queue(root: Path) -> None:
    shutil.rmtree(orders(root))


def lose_queues(root: Path) -> None:
    shutil.rmtree(root / "consumequeue")


def empty_log_file(root: Path) -> None:
    last = part(root, "commitlog", -1)
    (last.parent / f"{int(last.name) + last.stat().st_size:020d}").touch()


def tear_topics(root: Path) -> None:
    for name in ("topics.json", "topics.json.bak"):
        (root / "config" / name).write_text("{")


def write_behind_the_end(root: Path) -> None:
    end = inspect_store(root).log.end
    path = [path for path in (root / "commitlog").iterdir() if int(path.name) <= end]
    with max(path).open("r+b") as file:
        file.seek(end - int(max(path).name))
        file.write(b"garbage" * 20)


def damage_record(root: Path) -> None:
    with part(root, "commitlog", 0).open("r+b") as file:
        data, at = file.read(), 0
        for _ in range(300):
            at += int.from_bytes(data[at : at + 4], "big")
        file.seek(at)
        file.write(b"\xff" * 60)


def damage_body(root: Path) -> None:
    with part(root, "commitlog", 0).open("r+b") as file:
        data, at = file.read(), 0
        for _ in range(300):
            at += int.from_bytes(data[at : at + 4], "big")
        file.seek(at + 90)
        file.write(bytes([data[at + 90] ^ 1]))


def configuration_of_v2(root: Path) -> None:
    directory = root / "config/rdb"
    directory.mkdir()
    (directory / "CURRENT").write_text("MANIFEST-000005\n")


def remains_of_v2(root: Path) -> None:
    (root / "config/rdb").mkdir()


def lose_current(root: Path) -> None:
    (root / "consumequeue/CURRENT").unlink()


def set_aside_by_a_conversion(root: Path) -> None:
    (root / "converted-20261121T040000").mkdir()
    (root / "convert.tmp").mkdir()


@dataclass(frozen=True)
class Case:
    """A state of a recorded store, the kinds of finding that tell it, and what the start does."""

    store: str
    change: Callable[[Path], None]
    kinds: frozenset[str]
    promise: str
    """A part of the promise; empty where nothing is promised."""
    outcome: str
    said: str = ""
    """A part of the start's warning."""

    @property
    def name(self) -> str:
        change = self.change.__qualname__.split(".")[0]
        return f"{self.store}-{change}-{'-'.join(sorted(self.kinds))}"


def case(store: str, change: Callable[[Path], None], kinds: str, *texts: str) -> Case:
    return Case(store, change, frozenset(kinds.split()), *texts)


CASES: Final = [
    case(FILES, nothing, "", "", SERVES_ALL),
    case(BOTH, nothing, "", "", SERVES_ALL),
    case(ROCKSDB, nothing, "files-behind", "nothing, as long as", SERVES_ALL),
    case(KILLED, nothing, "not-closed", "goes over the log again from 0", SERVES_ALL),
    case(FILES, shorten("commitlog", 0), "log-file-size", "no broker opens", NO_START),
    case(FILES, shorten("commitlog", -1), "log-file-size", "fills it up", SERVES_ALL, "filled up"),
    case(FILES, empty_log_file, "log-file-size", "removes it", SERVES_ALL, "removed"),
    case(FILES, shorten_queue, "queue-file-size", "makes their queues again", NO_START),
    case(BOTH, shorten_queue, "queue-file-size", "makes their queues again", NO_START),
    case(FILES, shorten("index", 0), "index-file-size", "makes them again", NO_START),
    case(FILES, lose_queue, "queue-files-missing", "next start makes them", SERVES_ALL, "made ag"),
    case(BOTH, lose_queue, "queue-files-missing", "next start makes them", SERVES_ALL, "made ag"),
    case(FILES, lose_queues, "queue-files-missing offset-beyond-end", "next start", SERVES_ALL),
    case(FILES, tear_topics, "table-unreadable", "no broker starts", NO_START),
    case(
        FILES, write_behind_the_end, "torn-tail", "next start cuts it off", SERVES_ALL, "given up"
    ),
    case(
        FILES, damage_record, "damaged-bytes", "lanemq passes over them", SERVES_ALL, "passed over"
    ),
    case(FILES, damage_body, "damaged-body", "lanemq passes over the", SERVES_ALL, "passed over"),
    case(FILES, configuration_of_v2, "config-v2", "configManagerVersion=v1", NO_START),
    case(FILES, remains_of_v2, "", "", SERVES_ALL),
    case(
        ROCKSDB,
        lose_current,
        "rocksdb-unreadable",
        "so does lanemq's next start",
        SERVES_ALL,
        "a new one is made",
    ),
    case(
        FILES,
        set_aside_by_a_conversion,
        "kept-by-conversion conversion-unfinished",
        "removes it with its next start",
        SERVES_ALL,
    ),
]


def config_of(root: Path) -> StoreConfig:
    store = look_into(root)
    sizes = store.index_sizes
    assert sizes is not None
    stage = inspect_store(root).stage.stage
    return StoreConfig(
        root=root,
        commit_log_file_bytes=store.log.file_bytes,
        consume_queue_file_bytes=store.queue_file_bytes,
        max_hash_slots=sizes.slots,
        max_index_entries=sizes.entries,
        store_type=StoreType.ROCKSDB if stage == 3 else StoreType.FILE,
        rocksdb_double_write=stage == 2,
    )


@pytest.mark.slow
@pytest.mark.parametrize("wanted", CASES, ids=lambda wanted: wanted.name)
async def test_the_next_start_does_what_inspect_says(
    wanted: Case, recorded: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    root = recorded(wanted.store)
    config = config_of(root)
    wanted.change(root)
    findings = inspect_store(root).findings
    assert {finding.kind for finding in findings} == wanted.kinds
    assert wanted.promise in " ".join(finding.way_on for finding in findings)
    caplog.set_level(logging.WARNING)
    if wanted.outcome == NO_START:
        assert any(finding.severity is Severity.PROBLEM for finding in findings)
        with pytest.raises((StoreCorrupted, ConfigInvalid, StartRefused)):
            async with open_store(config):
                pass
        return
    async with open_store(config) as store:
        bounds = [store.bounds(*queue) for queue in store.queues()]
    assert sum(end - begin for begin, end in bounds) == MESSAGES[wanted.store]
    assert wanted.said in caplog.text
    after = {finding.kind for finding in inspect_store(root).findings}
    damaged = {"damaged-bytes", "damaged-body"}
    lasting = {"files-behind", *damaged, "set-aside", "conversion-unfinished"}
    assert after <= lasting | {"offset-beyond-end"}


def promises(root: Path) -> dict[str, str]:
    """Return what an inspection finds, and the way on."""
    return {finding.kind: finding.way_on for finding in inspect_store(root).findings}


@pytest.mark.slow
async def test_what_lies_behind_a_lost_log_file_is_served(tmp_path: Path) -> None:
    stand = Stand(tmp_path / "store")
    await stand.run(1, 400, queues=1)
    files = sorted((stand.root / "commitlog").iterdir())
    files[1].unlink()
    promise = promises(stand.root)
    assert promise.keys() == {"damaged-gap", *NO_TABLES}
    assert "what lies behind is served as long as indexes prove" in promise["damaged-gap"]
    async with stand.open(1) as store:
        assert store.bounds("T", 0) == (0, 400)
        found = stand.bodies(store)
    assert found[0] == 0
    assert found[-1] == 399
    assert 200 < len(found) < 400


@pytest.mark.slow
async def test_a_start_does_not_index_keys_again_and_a_repair_does(tmp_path: Path) -> None:
    stand = Stand(tmp_path / "store")
    await stand.run(1, 40)
    shutil.copytree(stand.root / "index", tmp_path / "index")
    await stand.run(1, 400, first=40)
    shutil.rmtree(stand.root / "index")
    shutil.copytree(tmp_path / "index", stand.root / "index")
    for path in sorted((stand.root / "commitlog").iterdir())[:2]:
        path.unlink()
    promise = promises(stand.root)
    assert promise["keys-behind"].startswith("`repair_store`")
    async with stand.open(1):
        pass
    assert "keys-behind" in promises(stand.root)
    repair_store(stand.root)
    assert "keys-behind" not in promises(stand.root)
    async with stand.open(1) as store:
        assert len(store.query("T", "U439", max_count=1, begin_ms=0, end_ms=1 << 62).records) == 1


@pytest.mark.slow
async def test_offsets_that_5_3_3_never_took_over_come_with_the_next_start(
    recorded: Callable[[str], Path],
) -> None:
    root = recorded(ROCKSDB)
    config = config_of(root)
    shutil.rmtree(root / "config/consumerOffsets")
    ConfigDatabase(root / "config/consumerOffsets").close()  # as 5.3.3 leaves it: empty
    promise = promises(root)
    assert (
        "takes them over at its next start with storeType=defaultRocksDB" in promise["never-merged"]
    )
    async with open_store(config):
        pass
    assert "never-merged" not in promises(root)
    offsets = {(group.group, group.topic): group.offsets for group in inspect_store(root).groups}
    assert offsets["sd_group_a", "sd_orders"] != {}


@pytest.mark.slow
async def test_rocksdb_gets_what_it_lacks_as_double_writing_goes_on(
    recorded: Callable[[str], Path],
) -> None:
    root = recorded("dualwrite-5.3.3-killed")
    promise = promises(root)
    assert promise.keys() == {"not-closed", "rocksdb-covers-less"}
    assert "run on with rocksdbCQDoubleWriteEnable=true" in promise["rocksdb-covers-less"]
    async with open_store(config_of(root)) as store:
        await store.in_rocksdb(store.max_position)
    assert promises(root) == {}
    rows = {(queue.topic, queue.queue_id): queue.rocksdb for queue in inspect_store(root).queues}
    files = {(queue.topic, queue.queue_id): queue.files for queue in inspect_store(root).queues}
    assert rows == files
