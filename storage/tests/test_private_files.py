"""Everything that tools write, in a store or beside it, is for its user alone from the start."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from lanemq.storage.bulk import convert_to_files, convert_to_rocksdb
from lanemq.storage.bulk.files._shadow import ShadowFiles
from lanemq.storage.tools import repair_store
from lanemq.testkit.storage.stages import Stand

TOOLS: list[Callable[[Path], object]] = [
    lambda root: convert_to_files(root),
    lambda root: convert_to_rocksdb(root),
    lambda root: repair_store(root),
]


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("stage", [1, 2])
async def test_no_file_can_be_read_by_others_at_any_time(
    stand: Stand, monkeypatch: pytest.MonkeyPatch, tool: Callable[[Path], object], stage: int
) -> None:
    async with stand.open(stage) as store:
        stand.put(store, 40)
    queue = next((stand.root / "consumequeue").glob("*/*/*"))
    queue.write_bytes(bytes(queue.stat().st_size))  # something to change in what is there
    made: list[Path] = []
    opened = os.open

    def watched(path: str, flags: int, mode: int = 0o777, **options: int) -> int:
        descriptor = opened(path, flags, mode, **options)
        if flags & os.O_CREAT:
            made.append(Path(path))
            assert not os.fstat(descriptor).st_mode & 0o077, path
        return descriptor

    monkeypatch.setattr(os, "open", watched)
    mask = os.umask(0)
    try:
        tool(stand.root)
    finally:
        os.umask(mask)
    assert made
    modes = {path: mode_of(path) for path in stand.root.rglob("*") if path.is_dir()}
    assert {path for path, mode in modes.items() if mode & 0o077} == set()


def test_a_copy_in_a_shadow_has_the_mode_of_the_file(tmp_path: Path) -> None:
    queue = tmp_path / "consumequeue" / "T" / "0"
    queue.mkdir(parents=True)
    for name, mode in ("0", 0o600), ("1", 0o640):
        (queue / name).write_bytes(b"units")
        (queue / name).chmod(mode)
    shadow = ShadowFiles(tmp_path / "consumequeue", tmp_path / "shadow")
    mask = os.umask(0)
    try:
        for name, mode in ("0", 0o600), ("1", 0o640):
            own = shadow.own(queue / name)
            assert (mode_of(own), own.read_bytes()) == (mode, b"units")
            assert own.stat().st_ino != (queue / name).stat().st_ino
    finally:
        os.umask(mask)
