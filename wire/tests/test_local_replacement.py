"""A small file is replaced whole, keeps its mode, and is as it was where that fails."""

import os
import stat
from pathlib import Path

import pytest

from lanemq.local import replace_file


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_is_for_its_user_alone_and_so_are_new_directories(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "kept.json"
    replace_file(path, b"1")
    assert (path.read_bytes(), mode_of(path), mode_of(path.parent)) == (b"1", 0o600, 0o700)
    assert os.listdir(path.parent) == ["kept.json"]


def test_a_file_keeps_its_mode_unless_it_is_secret(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    path.write_bytes(b"old")
    path.chmod(0o640)
    (tmp_path / "kept.json.tmp").write_bytes(b"left by a crash, and longer")
    (tmp_path / "kept.json.tmp").chmod(0o666)
    replace_file(path, b"new")
    assert (path.read_bytes(), mode_of(path)) == (b"new", 0o640)
    replace_file(path, b"secret", is_secret=True)
    assert (path.read_bytes(), mode_of(path)) == (b"secret", 0o600)


def test_a_link_is_replaced_unless_it_is_to_be_followed(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    replace_file(link, b"new", follows_links=True)
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    replace_file(link, b"newer")
    assert not link.is_symlink()
    assert (link.read_bytes(), target.read_bytes()) == (b"newer", b"new")


def test_nothing_is_written_through_a_link_beside_it(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"another's")
    (tmp_path / "kept.json.tmp").symlink_to(other)
    replace_file(tmp_path / "kept.json", b"secret", is_secret=True)
    assert other.read_bytes() == b"another's"
    assert sorted(os.listdir(tmp_path)) == ["kept.json", "other"]


def test_a_file_keeps_its_owner_unless_it_is_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kept.json"
    replace_file(path, b"1")
    given: list[tuple[int, int]] = []
    real = Path.stat

    def of_another(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        found = list(real(path, follow_symlinks=follow_symlinks))
        found[stat.ST_UID], found[stat.ST_GID] = 1234, 4321
        return os.stat_result(found)

    monkeypatch.setattr(Path, "stat", of_another)
    monkeypatch.setattr(os, "fchown", lambda _, user, group: given.append((user, group)))
    replace_file(path, b"2")
    assert given == [(1234, 4321)]
    replace_file(path, b"3", is_secret=True)
    assert given == [(1234, 4321)]


def test_a_replacement_that_fails_leaves_the_file_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kept.json"
    replace_file(path, b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as failed:
        replace_file(path, b"new")
    assert failed.value.filename == str(path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["kept.json"]


def test_content_and_name_are_on_the_disk_before_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    sync, rename = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        done.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        sync(descriptor)

    def renamed(path: Path, target: Path) -> Path:
        done.append("renamed")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    fresh = tmp_path / "new"
    replace_file(fresh / "kept.json", b"1")
    names = [str(fresh / "kept.json.tmp"), "renamed", str(fresh), str(tmp_path)]
    assert done == names


def test_a_disk_that_cannot_sync_names_is_no_reason_to_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = os.fsync

    def refused(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(22, "Invalid argument")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", refused)
    replace_file(tmp_path / "kept.json", b"1")
    assert (tmp_path / "kept.json").read_bytes() == b"1"
