"""Damaged blocks of the queues in RocksDB, met by readers, by writers, and by the tools."""

import random
from pathlib import Path

import pytest

from lanemq.storage import NewMessage, Store, StoreConfig, StoreType, open_store
from lanemq.storage._errors import RocksFault
from lanemq.storage.rocks import QueueDatabase
from lanemq.storage.tools import Severity, repair_store, verify_store
from lanemq.testkit.storage.stores import HOST

QUEUES = 5
MESSAGES = 20_000


def config(root: Path) -> StoreConfig:
    return StoreConfig(root=root, store_type=StoreType.ROCKSDB)


def put(store: Store, begin: int, count: int) -> None:
    for number in range(begin, begin + count):
        store.put(
            NewMessage(
                topic=f"T{number % QUEUES}",
                queue_id=0,
                body=b"%d" % number,
                properties=b"",
                born_timestamp_ms=1,
                born_host=HOST,
                store_host=HOST,
            )
        )
    store.commit()


def units_table(root: Path) -> Path:
    """Return the file of the rows of messages, which is the longest."""
    return max((root / "consumequeue").glob("*.sst"), key=lambda path: path.stat().st_size)


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)


def rows_of(root: Path) -> list[tuple[bytes, bytes]]:
    """Read all rows of all families. Raises what says that one cannot be read."""
    database = QueueDatabase(root / "consumequeue", read_only=True)
    try:
        found = []
        for family in (database.units, database.bounds):
            rows = family.iter()
            rows.seek_to_first()
            while rows.valid():
                found.append((bytes(rows.key()), bytes(rows.value())))
                rows.next()
            rows.status()
        return found
    finally:
        database.close()


async def filled(root: Path) -> None:
    async with open_store(config(root)) as store:
        for begin in range(0, MESSAGES, 500):
            put(store, begin, 500)


def read_all(store: Store, queue: int) -> tuple[int, list[tuple[str, str]]]:
    """Read a queue from its begin to its end; returns how many messages, and the errors, as
    operators see them and as peers do."""
    count, errors, offset = 0, list[tuple[str, str]](), 0
    _, end = store.bounds(f"T{queue}", 0)
    while offset < end:
        try:
            got = store.get(f"T{queue}", 0, offset, max_count=32)
        except RocksFault as error:
            errors.append((str(error), error.strerror or ""))
            offset += 32
            continue
        count += len(got.records)
        offset = max(got.next_offset, offset + 1)
    return count, errors


async def test_a_reader_of_a_damaged_block_is_told_the_file_and_the_way_on(tmp_path: Path) -> None:
    """All other blocks are read, messages are taken, and a repair brings back every message."""
    await filled(tmp_path)
    path = units_table(tmp_path)
    flip(path, path.stat().st_size // 2)  # in the middle of the third queue
    async with open_store(config(tmp_path)) as store:
        found = [read_all(store, queue) for queue in range(QUEUES)]
        errors = [one for _, texts in found for one in texts]
        assert errors
        for text, told in errors:
            assert path.name in text
            assert f"repair the store in {tmp_path}" in text
            assert str(tmp_path) not in told
        assert sum(count for count, _ in found) > MESSAGES // 2
        assert [count for count, texts in found if not texts] == [MESSAGES // QUEUES] * (
            QUEUES - sum(bool(texts) for _, texts in found)
        )
        put(store, MESSAGES, 500)
        assert store.writable
    found_by = [one for one in verify_store(tmp_path).findings if "Corruption" in one.what]
    assert [one.severity for one in found_by] == [Severity.PROBLEM]
    assert "`repair_store`" in found_by[0].way_on
    repaired = repair_store(tmp_path)
    assert repaired.after is not None
    async with open_store(config(tmp_path)) as store:
        found = [read_all(store, queue) for queue in range(QUEUES)]
    assert found == [((MESSAGES + 500) // QUEUES, [])] * QUEUES


@pytest.mark.slow
async def test_no_flipped_byte_is_passed_over(tmp_path: Path) -> None:
    """Whatever byte of whatever file it is: verify finds it, or all rows are as before."""
    await filled(tmp_path)
    before, rng = rows_of(tmp_path), random.Random(9)
    found = 0
    for path in (tmp_path / "consumequeue").glob("*.sst"):
        size = path.stat().st_size
        for position in (0, size - 1, *(rng.randrange(size) for _ in range(8))):
            flip(path, position)
            problems = [
                one for one in verify_store(tmp_path).findings if one.severity is Severity.PROBLEM
            ]
            found += bool(problems)
            if not problems:
                assert rows_of(tmp_path) == before, (path.name, position)
            flip(path, position)
    assert found > 8


def test_only_damage_of_the_queues_has_this_way_on() -> None:
    damaged = "RocksDB: Corruption: block checksum mismatch in 000010.sst"
    assert "repair the store in /store" in str(RocksFault(5, damaged, "/store/consumequeue"))
    assert "repair the store" not in str(RocksFault(5, damaged, "/store/kv/rocksdb"))
    assert "repair the store" not in str(
        RocksFault(28, "RocksDB: No space left", "/s/consumequeue")
    )
