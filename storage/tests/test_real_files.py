"""The operating system's files behave as the simulated ones."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lanemq.storage.disk._files import Files
from lanemq.storage.disk._real_files import MAX_OPEN_FILES, RealFiles
from lanemq.testkit.storage.disk import SimulatedFiles


@pytest.fixture(params=["real", "simulated"])
def disk(request: pytest.FixtureRequest) -> Files:
    return RealFiles() if request.param == "real" else SimulatedFiles()


async def test_a_file_has_its_size_from_the_start_and_reads_as_zeros(
    disk: Files, tmp_path: Path
) -> None:
    path = tmp_path / "a/b/file"
    file = disk.create(path, 10_000)
    assert disk.entries(path.parent)[0] == ("file", False, 10_000)
    assert file.read(0, 20_000) == bytes(10_000)
    assert file.next_data(0) == -1
    file.write(100, b"hello")
    file.write(9_995, bytearray(b"world"))
    assert file.read(98, 9) == b"\0\0hello\0\0"
    assert 0 <= file.next_data(0) <= 100
    await file.sync()
    file.erase(102)
    assert file.read(98, 9) == b"\0\0he\0\0\0\0\0"
    assert file.read(9_990, 99) == bytes(10)
    file.close()
    assert disk.open(path).read(100, 2) == b"he"
    with pytest.raises(FileExistsError):
        disk.create(path, 1)


async def test_names_are_listed_moved_linked_and_removed(disk: Files, tmp_path: Path) -> None:
    one, two, three = tmp_path / "d/one", tmp_path / "d/two", tmp_path / "d/three"
    assert disk.entries(tmp_path / "d") == []
    assert disk.read_all(one) is None
    disk.write_all(one, b"first")
    disk.write_all(one, b"1")
    disk.link(one, two)
    disk.write_all(three, b"3")
    disk.link(three, two)
    assert disk.read_all(two) == b"3"
    disk.move(one, three)
    assert [entry.name for entry in disk.entries(tmp_path / "d")] == ["three", "two"]
    assert disk.read_all(three) == b"1"
    assert disk.read_all(two) == b"3"
    disk.move(tmp_path / "d", tmp_path / "e")
    assert disk.read_all(tmp_path / "e/two") == b"3"
    parts = [b"%d," % number for number in range(1000)]
    await disk.write_parts(tmp_path / "e/f/parts", [])
    await disk.write_parts(tmp_path / "e/f/parts", parts)
    assert disk.read_all(tmp_path / "e/f/parts") == b"".join(parts)
    disk.remove(tmp_path / "e/f/parts")
    disk.remove(tmp_path / "e/f")
    await disk.sync_path(tmp_path / "e")
    await disk.sync_path(tmp_path / "e/two")
    disk.remove(tmp_path / "e/two")
    disk.remove(tmp_path / "e/three")
    disk.remove(tmp_path / "e")
    assert not disk.exists(tmp_path / "e")
    with pytest.raises(FileNotFoundError):
        disk.open(tmp_path / "e/two").read(0, 1)


def test_the_disk_tells_how_full_it_is(disk: Files, tmp_path: Path) -> None:
    usage = disk.usage(tmp_path)
    assert 0 < usage.used_bytes < usage.total_bytes
    assert 0 < usage.ratio < 1


def test_many_files_share_few_descriptors(tmp_path: Path) -> None:
    disk = RealFiles()
    count = MAX_OPEN_FILES + 50
    files = [disk.create(tmp_path / str(number), 8) for number in range(count)]
    for number, file in enumerate(files):
        file.write(0, number.to_bytes(8, "big"))
        assert len(disk.opened) <= MAX_OPEN_FILES
    for number, file in enumerate(files):
        assert int.from_bytes(file.read(0, 8), "big") == number
    for file in files:
        file.close()
    assert not disk.opened


def test_a_write_that_the_disk_takes_in_parts_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, room = os.pwrite, [3, 2, 100]

    def nearly_full(descriptor: int, data: bytes, position: int) -> int:
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, bytes(data)[: room.pop(0)], position)

    file = RealFiles().create(tmp_path / "file", 100)
    monkeypatch.setattr(os, "pwrite", nearly_full)
    file.write(10, b"0123456789")
    assert file.read(10, 10) == b"0123456789"
    with pytest.raises(OSError, match="No space left"):
        file.write(20, b"0")
    monkeypatch.undo()
    file.close()


def test_a_file_that_vanishes_while_its_directory_is_read_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Queues share their directory with a RocksDB, whose threads remove files of its own.
    for name in ("a", "b", "c"):
        (tmp_path / name).touch()
    real = os.scandir

    @contextmanager
    def scan(directory: Path) -> Iterator[Iterator[os.DirEntry[str]]]:
        with real(directory) as found:
            entries = list(found)
        (tmp_path / "b").unlink()
        yield iter(entries)

    monkeypatch.setattr(os, "scandir", scan)
    assert [entry.name for entry in RealFiles().entries(tmp_path)] == ["a", "c"]


def test_a_file_keeps_its_size_at_every_moment_of_an_erasure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A kill in the middle must not leave a file that no start would take for one of ours.
    monkeypatch.setattr(os, "ftruncate", None)
    path = tmp_path / "file"
    path.write_bytes(bytes(range(1, 251)) * 1000)
    RealFiles().open(path).erase(100_001)
    whole = bytes(range(1, 251)) * 1000
    assert path.read_bytes() == whole[:100_001] + bytes(149_999)
