"""Making indexes anew beside a store, all that are wanted in one walk over its log."""

from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, final

from .._clock import system_clock_ms
from .._config import DELAY_LEVELS, parse_delay_levels
from .._errors import StoreCorrupted
from .._files import RealFiles
from .._index import Index
from .._records import Record
from .._tags import TagsCodes
from ..rocks import OffsetRow
from ._build_queues import QueueBuilder
from ._build_rows import RowsBuilder, mark_ready
from ._directory import StoreDirectory
from ._findings import Progress
from ._index_files import DEFAULT_ENTRIES, DEFAULT_SLOTS
from ._queue_check import dispatched_queues
from ._range_check import INNER_BATCH
from ._rocks_view import has_database
from ._rows_view import RowsView
from ._scan import LogScan
from ._verify import Verified

LOOK_EVERY: Final = 65536
BUFFERED_BYTES_MAX: Final = 64 << 20


@final
class Rebuild:
    """Builds in ``directory``: ``consumequeue``, ``rocksdb`` and ``index``."""

    def __init__(
        self,
        store: StoreDirectory,
        verified: Verified,
        directory: Path,
        *,
        queues: Iterable[tuple[str, int]],
        rows: bool,
        keys: bool,
    ) -> None:
        self._store = store
        self._verified = verified
        self._directory = directory
        self._tags = TagsCodes(parse_delay_levels(DELAY_LEVELS))
        self._index = self._new_index() if keys else None
        self._rows = RowsBuilder(self.rocksdb) if rows else None
        self.queues = {
            name: QueueBuilder(
                directory / "consumequeue" / name[0] / str(name[1]), store.queue_file_bytes
            )
            for name in sorted(queues)
        }

    @property
    def rocksdb(self) -> Path:
        return self._directory / "rocksdb"

    @property
    def index(self) -> Path:
        return self._directory / "index"

    def _new_index(self) -> Index:
        sizes = self._store.index_sizes
        return Index(
            RealFiles(),
            self.index,
            slots=sizes.slots if sizes is not None else DEFAULT_SLOTS,
            entries=sizes.entries if sizes is not None else DEFAULT_ENTRIES,
            clock_ms=system_clock_ms,
            on_full=lambda _: None,
        )

    def run(self, progress: Progress) -> None:
        """Build everything; the files of queues are left to ``QueueBuilder.finish``.

        Raises ``OSError``.
        """
        try:
            self._run(progress)
        finally:
            if self._rows is not None:
                self._rows.close()
        if self._rows is not None:
            mark_ready(self.rocksdb)

    def _run(self, progress: Progress) -> None:
        log, end = self._store.log, self._verified.log.end
        for number, record in enumerate(LogScan(log, log.begin, end, check_crc=False)):
            if record.is_queued and not record.sys_flag & INNER_BATCH:
                self._put_units(record)
            if self._index is not None:
                self._index.submit(
                    record.topic,
                    record.position,
                    record.store_timestamp_ms,
                    record.sys_flag,
                    record.properties,
                )
            if number % LOOK_EVERY == 0:
                progress("rebuilding", record.position - log.begin, end - log.begin)
                builders = self.queues.values()
                if sum(builder.buffered_bytes for builder in builders) > BUFFERED_BYTES_MAX:
                    for builder in builders:
                        builder.flush()
        progress("rebuilding", end - log.begin, end - log.begin)
        if self._index is not None:
            self._index.drain()
            self._index.write_out()
            self._index.close()
        if self._rows is not None:
            self._rows.finish(end, self._kept_ends())
        for name, builder in self.queues.items():
            if builder.next is None:  # no message of it is left; it goes on where it was
                builder.begin_at(self._verified.resume_at.get(name, 0))

    def _put_units(self, record: Record) -> None:
        position, size_bytes, store_ms = (
            record.position,
            record.size_bytes,
            record.store_timestamp_ms,
        )
        code = self._tags.code(record.topic, record.properties, store_ms)
        places = [((record.topic, record.queue_id), record.queue_offset)]
        places += [((name, 0), at) for name, at in dispatched_queues(record.properties)]
        for name, offset in places:
            builder = self.queues.get(name)
            if builder is not None:
                builder.add(offset, position, size_bytes, code)
            if self._rows is not None and name in self._verified.known_queues:
                self._rows.add(*name, offset, position, size_bytes, code, store_ms)

    def _kept_ends(self) -> dict[tuple[str, int], OffsetRow]:
        """Ends of queues whose messages are all gone: they go on there."""
        log_begin, known = self._verified.log.begin, self._verified.known_queues
        kept = {}
        for queue in self._store.queues():
            end = queue.end()
            unit = queue.unit(end - 1) if end > queue.begin else None
            queue.close()
            if unit is not None and unit.log_position < log_begin:
                kept[queue.topic, queue.queue_id] = OffsetRow(unit.log_position, end - 1)
        if has_database(self._store.consume_queue):
            with (
                suppress(StoreCorrupted, OSError),
                closing(RowsView(self._store.consume_queue)) as rows,
            ):
                for topic, queue_id, newest in rows.ends():
                    if newest.log_position < log_begin:
                        kept[topic, queue_id] = newest
        return {name: newest for name, newest in kept.items() if name not in known}
