"""A small file is replaced whole, keeps its mode, and is as it was where that fails."""

import os
import stat
from pathlib import Path

import pytest

from lanemq.storage import replace_file


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_is_for_its_user_alone_and_so_are_new_directories(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "kept.json"
    replace_file(path, b"1")
    assert (path.read_bytes(), mode_of(path), mode_of(path.parent)) == (b"1", 0o600, 0o700)
    assert os.listdir(path.parent) == ["kept.json"]


def test_a_file_keeps_its_mode_unless_one_is_given(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    path.write_bytes(b"old")
    path.chmod(0o640)
    (tmp_path / "kept.json.tmp").write_bytes(b"left by a crash, and longer")
    (tmp_path / "kept.json.tmp").chmod(0o666)
    replace_file(path, b"new")
    assert (path.read_bytes(), mode_of(path)) == (b"new", 0o640)
    replace_file(path, b"secret", mode=0o600)
    assert (path.read_bytes(), mode_of(path)) == (b"secret", 0o600)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    replace_file(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_replacement_that_fails_leaves_the_file_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kept.json"
    replace_file(path, b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["kept.json"]


def test_content_and_name_are_on_the_disk_before_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    sync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    replace_file(tmp_path / "kept.json", b"1")
    assert synced == [str(tmp_path / "kept.json.tmp"), str(tmp_path)]
