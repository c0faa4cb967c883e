"""Rebuilding the wanted indexes beside a store, in one walk over its log."""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Final, final

from ..._clock import system_clock_ms
from ..._errors import StoreCorrupted
from ...derive._sequence import DamagedOffset, Sequences
from ...derive._units import EVERYWHERE, Derivation, DerivedUnit
from ...disk._real_files import RealFiles
from ...index._index import Index
from ...log._records import Record
from ...queues._tags import TagsCodes
from ...queues.rocks._queue_rows import QueueRows
from ...queues.rocks._row_format import OffsetRow
from ...rocks import QueueDatabase
from ...start._redo import KeyRedo
from ..checks._findings import Progress
from ..checks._verify import Verified
from ..reading._delay_levels import DelayLevels, find_delay_levels
from ..reading._directory import StoreDirectory
from ..reading._index_sizes import DEFAULT_ENTRIES, DEFAULT_SLOTS
from ..reading._rocks_view import has_database
from ..reading._rows_view import RowsView
from ..reading._scan import LogScan
from ._build_queues import QueueBuilder
from ._build_rows import RowsBuilder
from ._known_messages import KnownMessages

LOOK_EVERY: Final = 65536
BUFFERED_BYTES_MAX: Final = 64 << 20


@final
class Rebuild:
    """A builder of indexes in ``directory``: ``consumequeue``, ``rocksdb`` and ``index``."""

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
        self.delay_levels = _delay_levels(store)
        self._derivation = Derivation(EVERYWHERE, TagsCodes(self.delay_levels.delays_ms))
        self._index = self._new_index() if keys else None
        self._rows = RowsBuilder(self.rocksdb) if rows else None
        self.damaged: dict[int, DamagedOffset] = {}
        """Log position -> message whose offset is damaged, which gets no place for that."""
        files = RealFiles()
        self.queues = {
            name: QueueBuilder(files, self.queue_files, *name, store.queue_file_bytes)
            for name in sorted(queues)
        }

    @property
    def queue_files(self) -> Path:
        return self._directory / "consumequeue"

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
        store = self._store
        with ExitStack() as stack:
            rows = None
            if has_database(store.consume_queue):
                with suppress(StoreCorrupted, OSError):
                    rows = QueueRows(QueueDatabase(store.consume_queue, read_only=True))
                    stack.callback(rows.close)
            if self._rows is not None:
                stack.callback(self._rows.close)
            places = KnownMessages(store.queue, rows)
            stack.callback(places.close)
            self._run(progress, places)

    def _run(self, progress: Progress, places: KnownMessages) -> None:
        log_begin, end = self._store.log.begin, self._verified.log.end
        records = self._records(progress)
        if self.queues or self._rows is not None:
            sequences = Sequences(self._leave_out, is_known=places)
            for unit in sequences.confirmed(self._derivation.walk(records)):
                self._put(unit)
        else:
            deque(records, maxlen=0)  # for the keys alone
        progress("rebuilding", end - log_begin, end - log_begin)
        if self._index is not None:
            self._index.drain()
            self._index.write_out()
            self._index.close()
        if self._rows is not None:
            self._rows.finish(end, self._kept_ends())
        for name, builder in self.queues.items():
            if builder.next is None:  # no message of it is left; it goes on where it was
                builder.begin_at(self._verified.resume_at.get(name, 0))

    def _records(self, progress: Progress) -> Iterator[Record]:
        """Iterate over the log, indexing keys and writing buffers out on the way."""
        log, end = self._store.log, self._verified.log.end
        keys = KeyRedo(self._index, 0) if self._index is not None else None
        for number, record in enumerate(LogScan(log, log.begin, end, check_crc=False)):
            yield record
            if keys is not None:
                keys.take(record, record.end)
            if number % LOOK_EVERY == 0:
                progress("rebuilding", record.position - log.begin, end - log.begin)
                builders = self.queues.values()
                if sum(builder.buffered_bytes for builder in builders) > BUFFERED_BYTES_MAX:
                    for builder in builders:
                        builder.flush()

    def _put(self, unit: DerivedUnit) -> None:
        name = unit[:2]
        builder = self.queues.get(name)
        if builder is not None:
            builder.add(unit)
        if self._rows is not None and name in self._verified.known_queues:
            self._rows.add(unit)

    def _leave_out(self, unit: DerivedUnit, slot: int | None) -> None:
        """Keep the place of a message whose offset is damaged."""
        name = unit[:2]
        builder = self.queues.get(name)
        if builder is not None and slot is not None and slot == builder.next:
            builder.add_blank()
        if self._rows is not None and slot is not None and name in self._verified.known_queues:
            self._rows.leave_out(name, slot, unit.log_position)
        self.damaged[unit.log_position] = DamagedOffset.of(unit)

    def _kept_ends(self) -> dict[tuple[str, int], OffsetRow]:
        """Return the ends of queues whose messages are all gone, at which they go on."""
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


def _delay_levels(store: StoreDirectory) -> DelayLevels:
    if has_database(store.consume_queue):
        with (
            suppress(StoreCorrupted, OSError),
            closing(QueueRows(QueueDatabase(store.consume_queue, read_only=True))) as rows,
        ):
            return find_delay_levels(store, rows)
    return find_delay_levels(store, None)
