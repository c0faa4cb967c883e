"""The state of a store before a job: the beginning of its log, and how it was closed."""

from dataclasses import dataclass
from pathlib import Path
from typing import final

from lanemq.storage.tools import find_stage, look_into

from .._errors import SourceError
from .._uris import is_table, shown
from ._files import StoreFiles
from ._local import CONFIG, CONSUME_QUEUE, local_store
from ._log import find_pieces
from ._plan import COMMIT_LOG


@final
@dataclass(frozen=True, slots=True)
class CloseState:
    """The state in which the last broker left a store."""

    is_clean: bool
    redone_from_ms: int
    """The store time from which on a start makes queues again, where it is not clean."""


def is_store(path: str) -> bool:
    """Return whether a directory is a store."""
    return not is_table(path) and StoreFiles(path).is_directory(COMMIT_LOG)


def require_store(store: str) -> None:
    """Raise ``SourceError`` where the directory is not a store."""
    if not is_store(store):
        raise SourceError(
            f"{shown(store)} is not a store: it has no {COMMIT_LOG}. The directory to give is a"
            " broker's storePathRootDir"
        )


def log_begin(store: str) -> int | None:
    """Return the position at which the log begins; None where it has no file.

    Raises ``SourceError`` where the directory is not a store.
    """
    require_store(store)
    pieces = find_pieces(StoreFiles(store), COMMIT_LOG)
    return pieces[0].start if pieces else None


def local_directory(store: str) -> Path:
    """Return the directory of a store that is to be changed, which has to be on a local path.

    Raises ``SourceError``.
    """
    files = StoreFiles(store)
    if not files.is_local:
        raise SourceError(
            f"{shown(store)}: RocksDB writes to local paths only: copy the store to one, or mount"
            " it"
        )
    require_store(store)
    return files.local_root


def close_state(store: str) -> CloseState:
    """Return how a store was left."""
    require_store(store)
    is_clean = all(entry.name != "abort" for entry in StoreFiles(store).entries())
    with local_store(store) as directory:
        known = look_into(directory, needs_log=False).checkpoint()
    return CloseState(is_clean, known.redone_from_ms)


def queue_sources(store: str) -> list[tuple[str, bool]]:
    """Return the forms in which a store has queues, each with whether brokers read it."""
    with local_store(store, CONFIG, CONSUME_QUEUE) as directory:
        found = look_into(directory, needs_log=False)
        from_rocksdb = find_stage(found).stage.reads_rows
    entries = StoreFiles(store).entries(CONSUME_QUEUE)
    sources = []
    if any(entry.is_directory for entry in entries):
        sources.append(("files", not from_rocksdb))
    if any(entry.name == "CURRENT" for entry in entries):
        sources.append(("rocksdb", from_rocksdb))
    return sources
