"""The rows of a RocksDB consume queue, decoded here once more and apart from the store's code.

The database is copied first: opening one, even to read, writes files into its folder.
"""

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rocksdict import Rdict

SEPARATOR = b"\x01"
WATERMARK_TOPIC = "CHECKPOINT_TOPIC"


class Row(NamedTuple):
    """One message of one queue, as 5.3.3 writes it."""

    log_position: int
    size_bytes: int
    tags_code: int
    store_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Rows:
    """Everything in a database of rows."""

    units: dict[tuple[str, int, int], Row]
    """Topic, queue id and offset -> row."""
    last: dict[tuple[str, int], tuple[int, int]]
    """Topic and queue id -> log position and offset of the last message, as the max rows say."""
    watermark: int
    """End of the log that is in, bytes; 0 without such a row."""

    @property
    def positions(self) -> set[int]:
        """Log positions that have a row."""
        return {row.log_position for row in self.units.values()}


def walk_rows(store: Path) -> Rows:
    """Read all rows of a store that no broker has open."""
    # The harness has to be there without the server, whose extra brings the binding.
    from rocksdict import AccessType, Options, Rdict

    with tempfile.TemporaryDirectory(prefix="lanemq-rows-") as folder:
        copy = Path(folder) / "rows"
        copy.mkdir()
        for file in (store / "consumequeue").iterdir():
            if file.is_file() and file.name != "LOCK":
                shutil.copyfile(file, copy / file.name)
        families = {"default": Options(raw_mode=True), "offset": Options(raw_mode=True)}
        database = Rdict(
            str(copy),
            Options(raw_mode=True),
            column_families=families,
            access_type=AccessType.read_only(),
        )
        try:
            units = {
                _unit_key(key): Row(*_numbers(value, 8, 4, 8, 8))
                for key, value in _items(database, "default")
            }
            last, watermark = {}, 0
            for key, value in _items(database, "offset"):
                topic, kind, queue_id = _offset_key(key)
                if topic == WATERMARK_TOPIC:
                    (watermark,) = _numbers(value, 8)
                elif kind == b"max":
                    position, offset = _numbers(value, 8, 8)
                    last[topic, queue_id] = (position, offset)
        finally:
            database.close()
    return Rows(units, last, watermark)


def _items(database: "Rdict", family: str) -> Iterator[tuple[bytes, bytes]]:
    for key, value in database.get_column_family(family).items():
        assert isinstance(key, bytes)
        yield key, value


def _unit_key(key: bytes) -> tuple[str, int, int]:
    size = int.from_bytes(key[:4], "big")
    topic, rest = key[5 : 5 + size], key[5 + size :]
    assert (key[4:5], rest[:1], rest[5:6]) == (SEPARATOR, SEPARATOR, SEPARATOR), key
    queue_id, offset = int.from_bytes(rest[1:5], "big"), int.from_bytes(rest[6:], "big")
    assert len(rest) == 14, key
    return topic.decode(), queue_id, offset


def _offset_key(key: bytes) -> tuple[str, bytes, int]:
    size = int.from_bytes(key[:4], "big")
    topic, rest = key[5 : 5 + size], key[5 + size :]
    assert (key[4:5], rest[:1], rest[4:5]) == (SEPARATOR, SEPARATOR, SEPARATOR), key
    assert len(rest) == 9, key
    return topic.decode(), rest[1:4], int.from_bytes(rest[5:], "big")


def _numbers(value: bytes, *sizes: int) -> list[int]:
    assert len(value) == sum(sizes), value
    numbers, position = [], 0
    for size in sizes:
        numbers.append(int.from_bytes(value[position : position + size], "big", signed=True))
        position += size
    return numbers
