"""Whatever another user leaves at a name that is known before, nothing is written through it."""

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from lanemq.local import (
    NotOwnDirectory,
    append_file,
    copy_file,
    create_file,
    create_temporary,
    own_directory,
    replace_file,
    user_directory,
    write_file,
)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def written(path: Path) -> None:
    with create_temporary(path) as file:
        file.write(b"ours")


def appended(path: Path) -> None:
    with append_file(path) as file:
        file.write(b"ours")


def created(path: Path) -> None:
    with create_file(path) as file:
        file.write(b"ours")


def copied(path: Path) -> None:
    source = path.with_name("source")
    source.write_bytes(b"ours")
    source.chmod(0o640)
    copy_file(source, path)
    assert mode_of(path) == 0o640


WRITERS: list[Callable[[Path], object]] = [
    written,
    appended,
    created,
    copied,
    lambda path: write_file(path, b"ours"),
    lambda path: replace_file(path, b"ours"),
]


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("suffix", ["", ".tmp"])
def test_no_writer_reaches_a_file_through_a_link(
    write: Callable[[Path], object], suffix: str, tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_bytes(b"theirs")
    path = tmp_path / "known"
    (tmp_path / f"known{suffix}").symlink_to(theirs)
    try:
        write(path)
    except OSError:
        assert write in (appended, created)
        assert not suffix
    else:
        assert not path.is_symlink()
        assert path.read_bytes() == b"ours"
    assert theirs.read_bytes() == b"theirs"


@pytest.mark.parametrize("write", WRITERS)
def test_a_link_to_nothing_makes_nothing_there(
    write: Callable[[Path], object], tmp_path: Path
) -> None:
    (tmp_path / "known").symlink_to(tmp_path / "nowhere")
    try:
        write(tmp_path / "known")
    except OSError:
        assert write in (appended, created)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("write", WRITERS)
def test_new_files_are_for_their_user_alone(
    write: Callable[[Path], object], tmp_path: Path
) -> None:
    old = os.umask(0)
    try:
        write(tmp_path / "new")
    finally:
        os.umask(old)
    assert mode_of(tmp_path / "new") == (0o640 if write is copied else 0o600)


def test_only_a_file_is_appended_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="No such device"):
        append_file(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(OSError, match="no file"):
            append_file(tmp_path / "pipe")
    finally:
        os.close(reader)
    appended(tmp_path / "log")
    appended(tmp_path / "log")
    assert (tmp_path / "log").read_bytes() == b"oursours"


def test_a_copy_has_the_holes_of_the_file(tmp_path: Path) -> None:
    with (tmp_path / "source").open("wb") as file:
        file.seek(8 << 20)
        file.write(b"end")
        file.truncate(16 << 20)
    copy_file(tmp_path / "source", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == (tmp_path / "source").read_bytes()
    assert (tmp_path / "copy").stat().st_blocks <= (tmp_path / "source").stat().st_blocks


def test_an_own_directory_is_made_and_kept_from_others(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        made = own_directory(tmp_path / "a" / "b")
    finally:
        os.umask(old)
    assert mode_of(made) == mode_of(made.parent) == 0o700
    made.chmod(0o777)
    assert own_directory(made) == made
    assert mode_of(made) == 0o700


def link(path: Path) -> None:
    other = path.with_name("other")
    other.mkdir()
    path.symlink_to(other)


def dangling(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


def sock(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@pytest.mark.parametrize(
    "place",
    [link, dangling, sock, os.mkfifo, lambda path: path.write_bytes(b"")],
)
def test_what_is_no_directory_is_refused(place: Callable[[Path], object], tmp_path: Path) -> None:
    place(tmp_path / "known")
    with pytest.raises(NotOwnDirectory, match="give another path") as refused:
        own_directory(tmp_path / "known")
    assert refused.value.filename == str(tmp_path / "known")
    assert not (tmp_path / "nowhere").exists()


def test_a_directory_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "known").mkdir(0o755)
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    with pytest.raises(NotOwnDirectory, match=f"belongs to user {mine}"):
        own_directory(tmp_path / "known")
    assert mode_of(tmp_path / "known") == 0o755


def test_every_step_below_the_home_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_directory("export") == tmp_path / ".lanemq" / "export"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "msgbodys").mkdir()
    (tmp_path / ".lanemq").rename(tmp_path / "old")
    (tmp_path / ".lanemq").symlink_to(tmp_path / "other")
    with pytest.raises(NotOwnDirectory):
        user_directory("msgbodys")
