"""The fixtures of the wire's tests: the recorded traffic of real clients and servers."""

import base64
import gzip
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lanemq.wire.frame import Frame, decode_frame

VECTORS = Path(__file__).parents[2] / "compat_tests" / "vectors"


@dataclass(frozen=True)
class Recorded:
    """One frame as it passed, ``data`` with its length word.

    ``request_code`` is the code of the request, for an answer that of the request it answers
    (None where that was not recorded). ``side`` is ``c2s`` or ``s2c``: the sender was the side
    that opened the connection, or the other.
    """

    capture: str
    peer: str
    side: str
    data: bytes
    frame: Frame
    request_code: int | None


def _read(path: Path) -> Iterator[Recorded]:
    waiting: dict[tuple[int, str, int], int] = {}
    with gzip.open(path, "rt") as lines:
        for line in lines:
            entry = json.loads(line)
            data, side = base64.b64decode(entry["frame"]), entry["dir"]
            frame = decode_frame(data[4:])
            if frame.is_response:
                asker = "s2c" if side == "c2s" else "c2s"
                code = waiting.pop((entry["conn"], asker, frame.opaque), None)
            else:
                code = frame.code
                if not frame.is_oneway:
                    waiting[entry["conn"], side, frame.opaque] = code
            name = path.name.removesuffix(".jsonl.gz")
            yield Recorded(name, entry["peer"], side, data, frame, code)


@pytest.fixture(scope="session")
def recorded() -> list[Recorded]:
    """Every recorded frame of the remoting protocol, in order within its capture."""
    paths = sorted((VECTORS / "frames").glob("*.jsonl.gz"))
    frames = [
        one for path in paths if not path.name.endswith("-stream.jsonl.gz") for one in _read(path)
    ]
    assert len(frames) == 9190  # as the README of the captures counts them
    return frames


@dataclass(frozen=True)
class RecordedStore:
    """A store directory of a real broker: its commit log files in order, and its report."""

    name: str
    log_files: tuple[bytes, ...]
    records: int


@pytest.fixture(scope="session")
def recorded_stores() -> list[RecordedStore]:
    """Every recorded store directory."""
    return [_read_store(path) for path in sorted((VECTORS / "stores").glob("*.tar.gz"))]


def _read_store(path: Path) -> RecordedStore:
    name = path.name.removesuffix(".tar.gz")
    files: dict[str, bytes] = {}
    with tarfile.open(path) as archive:
        for member in archive:
            if member.isfile() and "/commitlog/" in f"/{member.name}":
                content = archive.extractfile(member)
                assert content is not None
                files[member.name] = content.read()
    report = json.loads((path.parent / f"{name}.expected.json").read_text())
    ordered = tuple(files[key] for key in sorted(files))
    return RecordedStore(name, ordered, report["commitLogWalk"]["records"])
