"""A store directory that a tool looks into."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import final

from ..._errors import RocksFault, StoreCorrupted
from ..._layouts import CHECKPOINT_BYTES, CHECKPOINT_FIELDS, UNIT_BYTES
from ...checkpoint._checkpoint import durable_ms
from ._errors import NotAStore, no_directory
from ._index_files import IndexFileView, index_paths
from ._index_sizes import IndexSizes, index_sizes
from ._locking import shared_lock
from ._metadata import TABLES, has_table_database
from ._pieces import Piece, Pieces, find_pieces, likely_file_bytes
from ._queue_files import QueueFiles, open_queue, queue_directories
from ._rocks_view import has_database
from ._rows_view import RowsView
from ._settings import NO_SETTINGS, BrokerSettings

LOG_FILE_BYTES = 1 << 30
QUEUE_FILE_BYTES = 300_000 * UNIT_BYTES
PROBED_QUEUES = 64
TEMPORARY = "repair.tmp"
"""The directory in which a repair builds, removed at its end."""
LOG_NAMED_BY = (
    "`commit_log`, or storePathCommitLog in the broker's file, has to name the directory of the log"
)


@final
@dataclass(frozen=True, slots=True)
class StoreCheckpoint:
    """Store times in milliseconds up to which a broker knew things to be durable; 0 for never."""

    log_timestamp_ms: int
    queue_timestamp_ms: int
    index_timestamp_ms: int

    @property
    def latest_ms(self) -> int:
        """The later of the times of log and queues, which tells who wrote it last."""
        return max(self.log_timestamp_ms, self.queue_timestamp_ms)

    @property
    def redone_from_ms(self) -> int:
        """The store time from which on a start after a crash goes over the log again."""
        return durable_ms(min(self.log_timestamp_ms, self.queue_timestamp_ms))


@final
@dataclass(frozen=True, slots=True)
class StoreDirectory:
    """The parts of a store directory, and the sizes of its files, derived from the files
    themselves.

    Nothing is kept open. Can be sent to another process.
    """

    root: Path
    log: Pieces
    queue_file_bytes: int
    index_sizes: IndexSizes | None
    settings: BrokerSettings = NO_SETTINGS
    """The settings in the broker's configuration file, if it was given."""

    @property
    def consume_queue(self) -> Path:
        return self.root / "consumequeue"

    @property
    def config(self) -> Path:
        return self.root / "config"

    @property
    def is_clean(self) -> bool:
        """True if the last broker closed the store cleanly."""
        return not (self.root / "abort").exists()

    @property
    def has_queue_files(self) -> bool:
        """True if a queue file is left that shows their length."""
        return _has_queue_files(self.consume_queue)

    @property
    def has_rocksdb_tables(self) -> bool:
        """True if topics, groups or offsets are in RocksDB."""
        return any(has_table_database(self.config, kind) for kind in TABLES)

    def queues(self) -> Iterator[QueueFiles]:
        """Return every queue that has a directory, by topic and id."""
        for topic, queue_id, directory in queue_directories(self.consume_queue):
            yield open_queue(topic, queue_id, directory, self.queue_file_bytes)

    def queue(self, topic: str, queue_id: int) -> QueueFiles:
        """Return one queue; one that does not exist has no files."""
        directory = self.consume_queue / topic / str(queue_id)
        return open_queue(topic, queue_id, directory, self.queue_file_bytes)

    def index_files(self) -> list[IndexFileView]:
        """Return the files of the key index that have its size, in order."""
        sizes = self.index_sizes
        if sizes is None:
            return []
        paths = index_paths(self.root / "index")
        return [
            IndexFileView(path, sizes) for path in paths if path.stat().st_size == sizes.file_bytes
        ]

    def checkpoint(self) -> StoreCheckpoint:
        """Read the checkpoint; zeros where there is none."""
        try:
            data = (self.root / "checkpoint").read_bytes()[:CHECKPOINT_BYTES]
        except FileNotFoundError:
            data = b""
        log_ms, queue_ms, index_ms, *_ = CHECKPOINT_FIELDS.unpack_from(
            data.ljust(CHECKPOINT_BYTES, b"\0")
        )
        return StoreCheckpoint(log_ms, queue_ms, index_ms)


def _log_file_bytes(pieces: tuple[Piece, ...]) -> int:
    """Return the file size that the names allow, the larger one where a file was cut short."""
    steps = [later.start - piece.start for piece, later in pairwise(pieces)]
    sizes = sorted({piece.size_bytes for piece in pieces if piece.size_bytes}, reverse=True)
    for size_bytes in sizes:
        if all(step % size_bytes == 0 for step in steps):
            return size_bytes
    return min(steps, default=LOG_FILE_BYTES)


def _has_queue_files(consume_queue: Path) -> bool:
    return any(find_pieces(directory) for _, _, directory in queue_directories(consume_queue))


def _has_rows(consume_queue: Path) -> bool:
    """Return whether a queue has rows in RocksDB, as far as they can be read."""
    if not has_database(consume_queue):
        return False
    try:
        with closing(RowsView(consume_queue)) as rows:
            return any(True for _ in rows.queues())
    except (StoreCorrupted, RocksFault):
        return False


def look_into(
    root: Path,
    *,
    commit_log: Path | None = None,
    settings: BrokerSettings = NO_SETTINGS,
    needs_log: bool = True,
) -> StoreDirectory:
    """Find the parts of a store. ``commit_log``: where its log is, if not inside.

    ``settings``: of the broker that it belongs to, for what the files do not tell.
    Raises ``NotAStore``, also where there is no file of the log that its queues lead to: unless
    the caller does not need it (``needs_log``), who may have only some parts of a store at hand.
    """
    if not root.is_dir():
        raise no_directory(root)
    named = commit_log or settings.commit_log
    log_path = named or root / "commitlog"
    if named is not None and not named.is_dir():
        what = "is not a directory" if named.exists() else "there is no such directory"
        raise NotAStore(named, f"{what}; {LOG_NAMED_BY}")
    if not log_path.is_dir():
        raise NotAStore(
            root,
            f"no store: it has no {log_path.name}. The directory to give is a broker's"
            " storePathRootDir; `commit_log` names a log that lies elsewhere",
        )
    pieces, queues = find_pieces(log_path), root / "consumequeue"
    if needs_log and not pieces and (_has_queue_files(queues) or _has_rows(queues)):
        way_on = LOG_NAMED_BY if named is not None else "`commit_log` names one that lies elsewhere"
        raise NotAStore(log_path, f"it has no file of a log, but {root} has queues; {way_on}")
    log_bytes = _log_file_bytes(pieces)
    directories = islice(queue_directories(queues), PROBED_QUEUES)
    probed = [find_pieces(path) for _, _, path in directories]
    queue_bytes = likely_file_bytes(probed, settings.queue_file_bytes or QUEUE_FILE_BYTES)
    return StoreDirectory(
        root,
        Pieces(log_path, pieces, log_bytes),
        max(UNIT_BYTES, queue_bytes // UNIT_BYTES * UNIT_BYTES),
        index_sizes(index_paths(root / "index"), settings.index_sizes),
        settings,
    )


@contextmanager
def read_store(
    root: Path,
    *,
    commit_log: Path | None = None,
    settings: BrokerSettings = NO_SETTINGS,
    needs_log: bool = True,
) -> Iterator[StoreDirectory]:
    """Look into a store, and keep brokers off it meanwhile. Nothing in it is changed.

    ``needs_log`` as in ``look_into``. Raises ``NotAStore``, and ``StoreLocked`` where a broker is
    running.
    """
    with shared_lock(root):
        yield look_into(root, commit_log=commit_log, settings=settings, needs_log=needs_log)
