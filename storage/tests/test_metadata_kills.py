"""A kill at every step of a conversion, and of an export, changes nothing about where it ends.

A kill keeps what was written: it is a copy of the directory, times included, before and after
each thing that is done to the disk, and with every prefix of what RocksDB was writing.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, final

import pytest
import trio

from lanemq.storage import ConfigTables, StartRefused, StoreConfig, StoreType
from lanemq.storage._tables import check_tables
from lanemq.storage.disk._real_files import RealFiles
from lanemq.storage.tables.rocks import _database as database
from lanemq.storage.tables.rocks._database import Change, ConfigDatabase
from lanemq.storage.tables.rocks._rows import GROUPS, KINDS, OFFSETS, TOPICS
from lanemq.storage.tables.rocks._start import EVIDENCE_FILE
from lanemq.wire.bodies import TopicConfig

NOW_MS = 1_700_000_000_000
EARLIER_S, LATER_S = 1_000_000.0, 2_000_000.0

Prepare = Callable[[Path], None]


def write_json(root: Path, name: str, member: str, entries: object, counter: int | None) -> None:
    path = root / "config" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    version = {"counter": counter, "stateVersion": 0, "timestamp": 1}
    members = {member: entries} | ({"dataVersion": version} if counter is not None else {})
    path.write_text(json.dumps(members))


def fresh(root: Path) -> None:
    """Files of 4.9: nothing in RocksDB yet."""
    topics = {f"T{number}": {"topicName": f"T{number}"} for number in range(3)}
    write_json(root, TOPICS.file, TOPICS.member, topics, 2)
    write_json(root, GROUPS.file, GROUPS.member, {"g": {"groupName": "g"}}, 1)
    write_json(root, OFFSETS.file, OFFSETS.member, {"T0@g": {"0": 640, "1": 9}}, None)


def half_converted(root: Path) -> None:
    """5.3.3 was killed in a merge: rows, and no version."""
    fresh(root)
    rows = ConfigDatabase(root / "config" / TOPICS.name)
    rows.write([Change(database.ROWS, b"T1", TOPICS.row({"topicName": "T1"}))], sync=True)
    rows.close()


def went_back(root: Path) -> None:
    """5.3.3 had converted, then went on with files: only times tell that these are newer."""
    fresh(root)
    for kind, key, value in (
        (TOPICS, b"T1", TOPICS.row({"topicName": "T1", "perm": 4})),
        (OFFSETS, b"T0@g", OFFSETS.row({0: 500})),
    ):
        rows = ConfigDatabase(root / "config" / kind.name)
        version = b'{"counter":2,"stateVersion":0,"timestamp":1}'
        rows.write(
            [
                Change(database.ROWS, key, value),
                Change(database.VERSION, database.VERSION_KEY, version),
            ],
            sync=True,
        )
        rows.close()
        for file in (root / "config" / kind.name).iterdir():
            os.utime(file, (EARLIER_S, EARLIER_S))
        os.utime(root / "config" / kind.file, (LATER_S, LATER_S))


def open_tables(
    root: Path,
    **settings: Any,  # noqa: ANN401 - every setting has its own type
) -> ConfigTables:
    config, files = StoreConfig(root=root, **settings), RealFiles()
    check_tables(config, files)
    tables = ConfigTables(config, files, lambda: NOW_MS)
    try:
        tables.load(after_crash=False)
    except BaseException:
        tables.close()
        raise
    return tables


open_rocks = partial(open_tables, store_type=StoreType.ROCKSDB)


def state_of(root: Path) -> object:
    """All that is in the three databases."""
    return {
        (kind.name, family): rows
        for kind in KINDS
        for family in database.FAMILIES
        if (rows := _rows(root / "config" / kind.name, family))
    }


def _rows(path: Path, family: str) -> dict[bytes, bytes]:
    opened = ConfigDatabase(path, read_only=True)
    try:
        return opened.rows(family)
    finally:
        opened.close()


@final
class Kills:
    """Copies ``root`` whenever something is about to be done to it, and afterwards."""

    def __init__(self, root: Path, copies: Path) -> None:
        self._root = root
        self._copies = copies
        self.taken: list[Path] = []

    def take(self) -> None:
        copy = self._copies / str(len(self.taken))
        shutil.copytree(self._root, copy)
        self.taken.append(copy)

    @contextmanager
    def watching(self, patch: pytest.MonkeyPatch) -> Iterator[None]:
        with patch.context() as inside:
            for owner, names in (
                (ConfigDatabase, ("__init__", "write", "close")),
                (Path, ("replace", "unlink", "write_bytes", "mkdir")),
                (RealFiles, ("write_all", "link", "move")),
            ):
                for name in names:
                    inside.setattr(owner, name, self._around(getattr(owner, name)))
            yield

    def _around(self, done: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever it wraps
            self.take()
            try:
                return done(*args, **named)
            finally:
                self.take()

        return step


@pytest.mark.slow
@pytest.mark.parametrize("prepare", [fresh, half_converted, went_back])
def test_a_kill_at_each_step_of_a_conversion_ends_in_the_same_state(
    prepare: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, copies, whole = tmp_path / "root", tmp_path / "copies", tmp_path / "whole"
    prepare(root)
    shutil.copytree(root, whole)
    open_rocks(whole).close()
    undisturbed = state_of(whole)
    kills = Kills(root, copies)
    with kills.watching(monkeypatch):
        open_rocks(root).close()
    assert len(kills.taken) > 20
    for copy in kills.taken:
        open_rocks(copy).close()
        assert state_of(copy) == undisturbed, copy
        assert not (copy / "config" / EVIDENCE_FILE).exists()


def cut_points(size_bytes: int, step: int) -> list[int]:
    return sorted({*range(0, size_bytes, step), size_bytes - 1, size_bytes})


def check_torn_batches(tmp_path: Path, step: int) -> int:
    """Cut what RocksDB wrote of each conversion at every ``step`` bytes; how many cuts it were."""
    root, cut = tmp_path / "root", tmp_path / "cut"
    fresh(root)
    tables = open_rocks(root)
    undisturbed: object = None
    kills = Kills(root, tmp_path / "copies")
    kills.take()
    tables.close()
    undisturbed = state_of(root)
    [whole] = kills.taken
    cuts = 0
    for kind in KINDS:
        [log] = (whole / "config" / kind.name).glob("*.log")
        for size_bytes in cut_points(log.stat().st_size, step):
            shutil.copytree(whole, cut)
            os.truncate(cut / log.relative_to(whole), size_bytes)
            open_rocks(cut).close()
            assert state_of(cut) == undisturbed, (kind.name, size_bytes)
            shutil.rmtree(cut)
            cuts += 1
    return cuts


@pytest.mark.slow
def test_a_batch_may_be_torn_anywhere(tmp_path: Path) -> None:
    assert check_torn_batches(tmp_path, step=17) > 80


@pytest.mark.slow
def test_a_kill_at_each_step_of_an_export_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    fresh(root)
    kills = Kills(root, tmp_path / "copies")

    async def run() -> None:
        tables = open_rocks(root)
        tables.topics.put(TopicConfig("made"))
        tables.consumer_offsets.put("g", "T0", 0, 700)
        tables.persist()
        with kills.watching(monkeypatch):
            await tables.finish()
        tables.close()

    trio.run(run)
    assert len(kills.taken) > 20
    started = 0
    for copy in kills.taken:
        files, again = copy.with_name("files"), copy.with_name("again")
        shutil.copytree(copy, files)
        shutil.copytree(copy, again)
        for tables in _starts(files):
            started += 1
            assert "made" in tables.topics.names, copy
            assert tables.consumer_offsets.get("g", "T0", 0) == 700
        tables = open_rocks(again)
        assert "made" in tables.topics.names, copy
        assert tables.consumer_offsets.get("g", "T0", 0) == 700
        tables.close()
        shutil.rmtree(files)
        shutil.rmtree(again)
    assert 0 < started < len(kills.taken)


def _starts(root: Path) -> Iterator[ConfigTables]:
    """The tables from the files, unless they are refused because RocksDB is newer."""
    try:
        tables = open_tables(root)
    except StartRefused:
        return
    yield tables
    tables.close()
