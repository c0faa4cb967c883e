"""A store directory that a tool looks into."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import final

from .._layouts import CHECKPOINT_BYTES, CHECKPOINT_FIELDS, UNIT_BYTES
from ._errors import NotAStore
from ._index_files import IndexFileView, IndexSizes, index_paths, index_sizes
from ._locking import shared_lock
from ._pieces import Piece, Pieces, find_pieces, likely_file_bytes
from ._queue_files import QueueFiles, open_queue, queue_directories

LOG_FILE_BYTES = 1 << 30
QUEUE_FILE_BYTES = 300_000 * UNIT_BYTES
PROBED_QUEUES = 64
TEMPORARY = "repair.tmp"
"""Where a repair builds; gone once it is done."""


@final
@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Store times in milliseconds up to which a broker knew things to be durable; 0 for never."""

    log_timestamp_ms: int
    queue_timestamp_ms: int
    index_timestamp_ms: int


@final
@dataclass(frozen=True, slots=True)
class StoreDirectory:
    """Where things are, and the sizes of files, found out from the files themselves.

    Nothing is kept open. Can be sent to another process.
    """

    root: Path
    log: Pieces
    queue_file_bytes: int
    index_sizes: IndexSizes | None

    @property
    def consume_queue(self) -> Path:
        return self.root / "consumequeue"

    @property
    def config(self) -> Path:
        return self.root / "config"

    @property
    def is_clean(self) -> bool:
        """Whether the last broker closed the store."""
        return not (self.root / "abort").exists()

    def queues(self) -> Iterator[QueueFiles]:
        """Every queue that has a directory, by topic and id."""
        for topic, queue_id, directory in queue_directories(self.consume_queue):
            yield open_queue(topic, queue_id, directory, self.queue_file_bytes)

    def queue(self, topic: str, queue_id: int) -> QueueFiles:
        """One queue; it has no files where there is none."""
        directory = self.consume_queue / topic / str(queue_id)
        return open_queue(topic, queue_id, directory, self.queue_file_bytes)

    def index_files(self) -> list[IndexFileView]:
        """The files of the key index that have its size, in order."""
        sizes = self.index_sizes
        if sizes is None:
            return []
        paths = index_paths(self.root / "index")
        return [
            IndexFileView(path, sizes) for path in paths if path.stat().st_size == sizes.file_bytes
        ]

    def checkpoint(self) -> Checkpoint:
        """Zeros where there is none."""
        try:
            data = (self.root / "checkpoint").read_bytes()[:CHECKPOINT_BYTES]
        except FileNotFoundError:
            data = b""
        log_ms, queue_ms, index_ms, *_ = CHECKPOINT_FIELDS.unpack_from(
            data.ljust(CHECKPOINT_BYTES, b"\0")
        )
        return Checkpoint(log_ms, queue_ms, index_ms)


def _log_file_bytes(pieces: tuple[Piece, ...]) -> int:
    """The size that the names of the files allow, the larger one where one was cut short."""
    steps = [later.start - piece.start for piece, later in pairwise(pieces)]
    sizes = sorted({piece.size_bytes for piece in pieces if piece.size_bytes}, reverse=True)
    for size_bytes in sizes:
        if all(step % size_bytes == 0 for step in steps):
            return size_bytes
    return min(steps, default=LOG_FILE_BYTES)


def look_into(root: Path, *, commit_log: Path | None = None) -> StoreDirectory:
    """Find the parts of a store. ``commit_log``: where its log is, if not inside.

    Raises ``NotAStore``.
    """
    if not root.is_dir():
        raise NotAStore(root, "there is no such directory")
    log_path = commit_log or root / "commitlog"
    if not log_path.is_dir():
        raise NotAStore(
            root,
            f"no store: it has no {log_path.name}. The directory to give is a broker's"
            " storePathRootDir; --commit-log names a log that lies elsewhere",
        )
    pieces = find_pieces(log_path)
    log_bytes = _log_file_bytes(pieces)
    queues = queue_directories(root / "consumequeue")
    probed = [find_pieces(path) for _, _, path in islice(queues, PROBED_QUEUES)]
    queue_bytes = likely_file_bytes(probed, QUEUE_FILE_BYTES)
    return StoreDirectory(
        root,
        Pieces(log_path, pieces, log_bytes),
        max(UNIT_BYTES, queue_bytes // UNIT_BYTES * UNIT_BYTES),
        index_sizes(index_paths(root / "index")),
    )


@contextmanager
def read_store(root: Path, *, commit_log: Path | None = None) -> Iterator[StoreDirectory]:
    """Look into a store, with brokers kept off it meanwhile. Nothing in it is changed.

    Raises ``NotAStore``, and ``StoreLocked`` where a broker is running.
    """
    if not root.is_dir():
        raise NotAStore(root, "there is no such directory")
    with shared_lock(root):
        yield look_into(root, commit_log=commit_log)
