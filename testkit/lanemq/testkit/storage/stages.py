"""The expected content of a store in each stage of an upgrade, read without the store's code.

The log alone decides. Both indexes of a closed store are compared with it, slot by slot.
"""

import os
import shutil
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any, Final, final

from lanemq.storage._config import Stage, StoreConfig, StoreType, parse_delay_levels
from lanemq.storage._layouts import BLANK_SIZE, UNIT_BYTES, iter_units
from lanemq.storage._open import open_store
from lanemq.storage._store import Store
from lanemq.storage.disk._real_files import RealFiles
from lanemq.storage.log._records import LogWalk
from lanemq.storage.log._segments import Segments
from lanemq.storage.messages._messages import GetStatus, NewMessage
from lanemq.storage.queues._queue_positions import QueuePositions
from lanemq.storage.queues._tags import TagsCodes
from lanemq.wire.message import decode_messages, encode_properties

HOST: Final = bytes((127, 0, 0, 1, 0, 0, 42, 159))

Key = tuple[str, int]
Row = tuple[int, int, int, int]
"""Log position, size, tags code and store time of a message."""


def wanted_rows(
    config: StoreConfig, deleted: dict[str, int] | None = None
) -> dict[Key, dict[int, Row]]:
    """Return the expected queues: topic and queue id -> offset -> row. ``deleted`` as in
    ``QueuePositions``.

    Where a queue goes back to an offset, older messages from there on cannot be reached.
    """
    segments = Segments(RealFiles(), config.commit_log_path, config.commit_log_file_bytes)
    segments.load()
    positions = QueuePositions(multi_dispatch=config.multi_dispatch, deleted=deleted or {})
    tags = TagsCodes(parse_delay_levels(config.delay_levels))
    queues: dict[Key, dict[int, Row]] = {}
    for record in LogWalk(segments, segments.begin, check_crc=True):
        code = tags.code(record.topic, record.properties, record.store_timestamp_ms)
        for position in positions.of(record):
            rows = queues.setdefault((position.topic, position.queue_id), {})
            for offset in [offset for offset in rows if offset >= position.queue_offset]:
                del rows[offset]  # handed out again, or the topic was deleted in between
            rows[position.queue_offset] = (
                record.position,
                record.size_bytes,
                code,
                record.store_timestamp_ms,
            )
    segments.close()
    return queues


def log_end(config: StoreConfig) -> int:
    """Return the end of the log."""
    segments = Segments(RealFiles(), config.commit_log_path, config.commit_log_file_bytes)
    segments.load()
    walk = LogWalk(segments, segments.begin, check_crc=True)
    for _ in walk:
        pass
    segments.close()
    return walk.end


def stored_files(config: StoreConfig) -> dict[Key, dict[int, tuple[int, int, int]]]:
    """Return the units in the queue files but blanks, as ``wanted_rows`` without store times."""
    queues: dict[Key, dict[int, tuple[int, int, int]]] = {}
    for directory in (config.root / "consumequeue").glob("*/*"):
        if not (directory.is_dir() and directory.name.isdigit()):
            continue
        units: dict[int, tuple[int, int, int]] = {}
        for path in sorted(directory.iterdir()):
            offset = int(path.name) // UNIT_BYTES
            for number, (position, size, code) in enumerate(iter_units(path.read_bytes()), offset):
                if size > 0 and size != BLANK_SIZE:
                    units[number] = position, size, code
        if units:
            queues[directory.parent.name, int(directory.name)] = units
    return queues


def stored_rows(config: StoreConfig) -> tuple[dict[Key, dict[int, Row]], int | None]:
    """Return the rows in RocksDB, and the watermark there. Each queue's last row is its newest."""
    from lanemq.storage.queues.rocks._queue_rows import QueueRows
    from lanemq.storage.queues.rocks._row_format import UNIT_VALUE_FIELDS, UnitRow
    from lanemq.storage.rocks import QueueDatabase

    database = QueueDatabase(config.root / "consumequeue", read_only=True)
    rows = QueueRows(database)
    queues: dict[Key, dict[int, Row]] = {}
    for topic, queue_id in rows.stored_queues():
        queues[topic, queue_id] = {
            offset: UnitRow(*UNIT_VALUE_FIELDS.unpack(value))
            for offset, value in rows.items(topic.encode(), queue_id)
        }
    for bounds in rows.queues():
        if bounds.max is not None:
            found = queues.get((bounds.topic, bounds.queue_id), {})
            last = found.get(bounds.max.queue_offset)
            assert not found or (last is not None and last[0] == bounds.max.log_position), bounds
            assert not found or max(found) == bounds.max.queue_offset, bounds
        else:
            assert (bounds.topic, bounds.queue_id) not in queues, bounds
    watermark = rows.watermark()
    database.close()
    return queues, watermark


def assert_files_agree(config: StoreConfig, deleted: dict[str, int] | None = None) -> None:
    """Assert that the queue files have all that is in the log, and nothing else."""
    wanted = {
        key: {offset: row[:3] for offset, row in rows.items()}
        for key, rows in wanted_rows(config, deleted).items()
    }
    begin = min((row[0] for rows in wanted.values() for row in rows.values()), default=0)
    stored = {
        key: {offset: unit for offset, unit in units.items() if unit[0] >= begin}
        for key, units in stored_files(config).items()
    }
    assert {key: units for key, units in stored.items() if units} == wanted


def assert_rows_agree(config: StoreConfig, deleted: dict[str, int] | None = None) -> None:
    """RocksDB has all that is in the log, and nothing else."""
    wanted = wanted_rows(config, deleted)
    begin = min((row[0] for rows in wanted.values() for row in rows.values()), default=0)
    stored, watermark = stored_rows(config)
    stored = {
        key: {offset: row for offset, row in rows.items() if row[0] >= begin}
        for key, rows in stored.items()
    }
    assert {key: rows for key, rows in stored.items() if rows} == wanted
    if wanted:
        assert watermark == log_end(config)


def copy_store(source: Path, target: Path) -> Path:
    """Copy an open store's directory, as a kill of its process at this moment would leave it.

    RocksDB merges files by itself, in threads of its own: a copy counts if it did not meanwhile.
    """
    while True:
        before = _files(source)
        try:
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("LOCK"))
        except shutil.Error:  # a file has gone
            pass
        else:
            if _files(source) == before:
                return target
        shutil.rmtree(target)


def _files(root: Path) -> dict[str, tuple[int, int]]:
    """Return sizes and times of the files in a directory, by path."""
    found = {}
    for directory, _, names in os.walk(root):
        for name in names:
            with suppress(FileNotFoundError):
                status = os.stat(os.path.join(directory, name))
                found[os.path.join(directory, name)] = (status.st_size, status.st_mtime_ns)
    return found


def new_message(
    number: int,
    *,
    topic: str = "T",
    queue_id: int = 0,
    properties: dict[str, str] | None = None,
) -> NewMessage:
    """Return a message whose body is its number, and 100 zeros."""
    return NewMessage(
        topic=topic,
        queue_id=queue_id,
        body=b"%d" % number + bytes(100),
        properties=encode_properties(
            {"UNIQ_KEY": f"U{number}", "TAGS": f"t{number % 3}"} | (properties or {})
        ),
        born_timestamp_ms=1,
        born_host=HOST,
        store_host=HOST,
    )


@final
class Stand:
    """One store directory, opened in one stage after another, with messages of its own.

    Message ``n`` has the body ``n`` and goes to queue ``n`` modulo the number of queues.
    """

    def __init__(self, root: Path, **settings: Any) -> None:  # noqa: ANN401 - each has its type
        self.root = root
        self._settings = settings

    def config(self, stage: int, **settings: Any) -> StoreConfig:  # noqa: ANN401 - as above
        return StoreConfig(
            **{
                "root": self.root,
                "commit_log_file_bytes": 1 << 14,
                "consume_queue_file_bytes": 200,
                "max_hash_slots": 7,
                "max_index_entries": 400,
                "tail_cache_bytes": 1024,
                "rocksdb_backfill_rate": 1_000_000,
                "export_json_on_close": False,
                "store_type": StoreType.ROCKSDB if stage == Stage.ROCKSDB else StoreType.FILE,
                "rocksdb_double_write": stage == Stage.BOTH,
                **self._settings,
                **settings,
            }
        )

    def open(self, stage: int, **settings: Any) -> AbstractAsyncContextManager[Store]:  # noqa: ANN401
        return open_store(self.config(stage, **settings))

    async def run(
        self,
        stage: int,
        count: int,
        *,
        first: int = 0,
        topic: str = "T",
        queues: int = 2,
        **settings: Any,  # noqa: ANN401
    ) -> None:
        """Open, put messages, wait until RocksDB has all, close."""
        async with self.open(stage, **settings) as store:
            self.put(store, count, first=first, topic=topic, queues=queues)
            await store.in_rocksdb(store.max_position)

    def put(
        self, store: Store, count: int, *, first: int = 0, topic: str = "T", queues: int = 2
    ) -> None:
        for number in range(first, first + count):
            store.put(new_message(number, topic=topic, queue_id=number % queues))
            if number % 7 == 0:
                store.commit()
        store.commit()

    def bodies(self, store: Store, topic: str = "T", queue_id: int = 0) -> list[int]:
        """Return the numbers of all messages of a queue."""
        begin, end = store.bounds(topic, queue_id)
        records: list[bytes] = []
        while begin < end:
            got = store.get(topic, queue_id, begin, max_count=32)
            assert got.status is GetStatus.FOUND, got
            records += got.records
            begin = got.next_offset
        return [int(found.body.rstrip(b"\0")) for found in decode_messages(b"".join(records))]

    def kill(self, to: Path) -> None:
        """Continue in another directory with what a kill at this moment would leave."""
        self.root = copy_store(self.root, to)

    def erase_log(self, position: int) -> None:
        """Lose the log from a position on, as a loss of power may."""
        for path in sorted((self.root / "commitlog").iterdir()):
            size = path.stat().st_size
            kept = min(max(0, position - int(path.name)), size)
            os.truncate(path, kept)
            os.truncate(path, size)
