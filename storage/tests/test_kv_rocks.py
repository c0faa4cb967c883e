"""The database of keys: larger than what is kept of it in memory, and with much deleted in it."""

import random
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import cast

import pytest
from rocksdict import Rdict, ReadOptions

from lanemq.storage import StoreConfig
from lanemq.storage.disk._real_files import RealFiles
from lanemq.storage.kv.engines import _rocks
from lanemq.storage.kv.engines._engine import RowsView, Unfinished
from lanemq.storage.kv.engines._opening import EngineOpener
from lanemq.storage.kv.engines._rocks import RocksEngine

KEYS = 600_000
READ_BYTES_MAX = 64 << 10
"""Bytes read for a key: some blocks of a few KiB, and not the filter of a whole table."""


def bytes_read() -> int:
    """Return the bytes that this process has read, from files or from the system's cache."""
    (line,) = [one for one in Path("/proc/self/io").read_text().splitlines() if "rchar" in one]
    return int(line.split()[1])


@pytest.mark.slow
async def test_a_key_of_a_large_namespace_is_found_without_reading_all_there_is_to_know(
    tmp_path: Path,
) -> None:
    engine = RocksEngine(tmp_path / "rocksdb")
    table = engine.table("large")
    for thousand in range(KEYS // 1000):
        keys = (b"e%012d" % (thousand * 1000 + number) for number in range(1000))
        table.write([], dict.fromkeys(keys, b"a value"))
    await engine.freeze()()
    for suffix, row in ((b"", b"a value"), (b"-", None)):
        before = bytes_read()
        for number in range(1000):
            assert table.get(b"e%012d" % (number * 577) + suffix) == row
        assert (bytes_read() - before) / 1000 < READ_BYTES_MAX
    engine.close()


def pages_of(view: RowsView, begin: bytes, end: bytes) -> list[list[bytes]]:
    """Return the keys that each turn of a read finds, until one finds no more."""
    pages: list[list[bytes]] = []
    rest: bytes | None = begin
    while rest is not None:
        pages.append([])
        since, rest = rest, None
        try:
            for key, _ in view.some(since, end):
                pages[-1].append(key)
        except Unfinished as stop:
            rest = stop.key
    return pages


@pytest.mark.parametrize("prefix", [b"e", b"e" + b"a long prefix of all keys/" * 20])
async def test_a_scan_passes_over_so_many_deleted_keys_in_a_turn(
    tmp_path: Path, prefix: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_rocks, "SKIPPED_MAX", 10)
    monkeypatch.setattr(_rocks, "LOOKS_MAX", 50)
    engine = RocksEngine(tmp_path / "rocksdb")
    table = engine.table("large")
    keys = [prefix + b"%06d" % number for number in range(5_000)]
    left = {keys[0], keys[1_234], keys[-1]}
    table.write([], dict.fromkeys(keys, b"a value"))
    table.write([], dict.fromkeys([key for key in keys if key not in left], None))
    assert [key for key, _ in table.items(b"e", b"f")] == sorted(left)
    pages = pages_of(table, b"e", b"f")
    assert [key for page in pages for key in page] == sorted(left)
    assert len(pages) > 5_000 // (10 * 50), "no turn looks at more than that"
    assert len(pages) < 5_000 // 10 // 2
    assert pages_of(table, b"f", b"g") == [[]]
    assert len(pages_of(table, keys[-1], b"f")) == 1
    engine.close()


class EndsEarly:
    """A column family whose plain iterator ends at an error, which it does not tell."""

    def __init__(self, family: Rdict, rows: int, error: str | None) -> None:
        self._family = family
        self._rows = rows
        self._error = error

    def items(
        self, backwards: bool, from_key: bytes, options: ReadOptions
    ) -> Iterator[tuple[bytes, bytes]]:
        rows = self._family.items(backwards, from_key, options)
        return cast("Iterator[tuple[bytes, bytes]]", islice(rows, self._rows))

    def iter(self, options: ReadOptions) -> object:
        if self._error is not None:
            raise Exception(self._error)
        return self._family.iter(options)


@pytest.mark.parametrize("error", [None, "IO error: While pread: Input/output error"])
async def test_rows_that_end_at_an_error_are_not_taken_for_all(
    tmp_path: Path, error: str | None
) -> None:
    engine = RocksEngine(tmp_path / "rocksdb")
    table = engine.table("default")
    keys = [b"e%02d" % number for number in range(20)]
    table.write([], dict.fromkeys(keys, b"a value"))
    family = table.family
    table.family = cast("Rdict", EndsEarly(family, 7, error))
    for read in (table.items, table.some):
        found = []
        with nullcontext() if error is None else pytest.raises(OSError, match="Input/output"):
            found += [key for key, _ in read(b"e", b"f")]
        assert found == ([] if error else keys)
    table.family = family
    engine.close()


# Damage


@pytest.mark.parametrize("is_damaged", [False, True])
async def test_a_damaged_block_of_deleted_rows_is_found_by_a_merge(
    tmp_path: Path, *, is_damaged: bool
) -> None:
    """No read looks at it, and each merge of RocksDB's own would stop all writes."""
    opener = EngineOpener(StoreConfig(root=tmp_path), files=RealFiles(), clock_ms=lambda: 1)
    engine = opener.open()
    rows = {b"%05d" % n: random.Random(n).randbytes(200) for n in range(500)}
    for name in ("cleared", "sound"):
        engine.table(name).write([], dict(rows))
        await engine.freeze()()
    (path,) = (
        path
        for path in (tmp_path / "kv" / "rocksdb").glob("*.sst")
        if b"kv.cleared" in path.read_bytes()
    )
    engine.table("cleared").write([(b"", b"\xff")], {})
    engine.table("cleared").write([], {b"new": b"1"})
    await engine.freeze()()
    engine.close()
    if is_damaged:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    again = await opener.open_again()
    found = {name: dict(table.items(b"", b"\xff")) for name, table in again.tables().items()}
    again.close()
    assert found == {"sound": rows} | ({} if is_damaged else {"cleared": {b"new": b"1"}})
