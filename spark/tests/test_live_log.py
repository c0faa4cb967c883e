"""A log that a broker writes while tasks read it has no damage, and its records are read once."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.testkit.spark import require_packages

require_packages()

from lanemq.spark.records import decode_records, walk_sizes  # noqa: E402
from lanemq.spark.store import _records  # noqa: E402
from lanemq.spark.store._log import LogFile, Piece  # noqa: E402
from lanemq.spark.store._records import RecordReader  # noqa: E402

pytestmark = pytest.mark.slow
FILE_BYTES = 64 << 10
USED_BYTES = 40_000


class GrowingFile:
    """A file of zeros that a broker fills: each look finds a few bytes more, up to ``stop``."""

    def __init__(self, data: bytes, seed: int, visible: int, stop: int) -> None:
        self._data, self._random = data, random.Random(seed)
        self.visible, self._stop = visible, stop

    def _grow(self) -> None:
        self.visible = min(self._stop, self.visible + self._random.choice([0, 1, 40, 300, 2000]))

    def read(self, at: int, size_bytes: int) -> bytes:
        self._grow()
        shown = self._data[: self.visible].ljust(FILE_BYTES, b"\0")
        return shown[at : at + size_bytes]

    def next_data(self, at: int) -> int:
        self._grow()
        return at if at < self.visible else -1

    def close(self) -> None: ...


class GrowingFiles:
    """The one file of a store."""

    def __init__(self, file: GrowingFile) -> None:
        self._file = file

    def shown(self, path: str) -> str:
        return path

    def open(self, path: str) -> GrowingFile:
        return self._file


class Log(bytes):
    """The bytes of a log, which a failed example does not print."""

    def __repr__(self) -> str:
        return f"<{len(self)} bytes>"


@pytest.fixture(scope="module")
def log(recorded_stores: Path) -> Log:
    path = min((recorded_stores / "file-5.3.3-clean" / "commitlog").iterdir())
    data = path.read_bytes()
    starts, _ = walk_sizes(data, 0, USED_BYTES)
    return Log(data[: int(starts[-1])])


def read(data: bytes, seed: int, visible: int, stop: int) -> tuple[list[int], RecordReader]:
    files = GrowingFiles(GrowingFile(data, seed, visible, stop))
    piece = Piece(0, FILE_BYTES)
    reader = RecordReader(LogFile(files, piece.name, piece), 0, FILE_BYTES)  # type: ignore[arg-type] # its three methods
    found = [position for part in reader for position in part.fields["log_position"].tolist()]
    return found, reader


@given(seed=st.integers(0, 1 << 32), visible=st.integers(0, USED_BYTES))
def test_what_is_being_written_is_no_damage(
    log: Log, monkeypatch_module: None, seed: int, visible: int
) -> None:
    starts, _ = walk_sizes(log, 0, len(log))
    records = decode_records(log, starts)
    ends = records.end.tolist()
    whole = [start for start, end in zip(starts.tolist(), ends, strict=True) if end <= visible]
    found, reader = read(log, seed, visible, len(log))
    assert reader.damages == []
    assert found == starts.tolist()[: len(found)]
    assert len(found) >= len(whole)


@given(cut=st.integers(1, USED_BYTES), seed=st.integers(0, 1000))
def test_a_torn_end_that_stays_is_damage(
    log: Log, monkeypatch_module: None, cut: int, seed: int
) -> None:
    starts, _ = walk_sizes(log, 0, len(log))
    cut = min(cut, len(log))
    found, reader = read(log, seed, cut, cut)
    records = decode_records(log, starts)
    ends = records.end.tolist()
    whole = [start for start, end in zip(starts.tolist(), ends, strict=True) if end <= cut]
    torn_at = ends[len(whole) - 1] if whole else 0
    if found == whole:
        assert bool(reader.damages) == any(log[torn_at:cut])
    else:  # a record that lacks only the end of its properties is one by its sizes
        assert found == [*whole, torn_at]
        assert cut >= records.properties_at[len(whole)]


@pytest.fixture(scope="module")
def monkeypatch_module() -> object:
    """Pauses of no length: the growing file continues at each look."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_records, "PAUSE_S", 0.0)
        yield
