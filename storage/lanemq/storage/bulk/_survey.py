"""What a conversion has to know of a store first: where the log ends, and what can be trusted."""

from dataclasses import dataclass, field
from typing import Final, final

from .._checkpoint import SAFETY_MS
from .._consume_queue import Unit
from .._errors import StoreCorrupted
from .._layouts import BLANK_SIZE
from .._records import LogWalk
from .._recovery import crash_start
from ..rocks import QueueRows
from ..tools._directory import StoreDirectory
from ..tools._scan import find_record, record_at

CANDIDATES_MAX: Final = 8


@final
@dataclass(slots=True)
class SurveyedQueue:
    """One queue's files. Offsets count messages."""

    topic: str
    queue_id: int
    min: int
    """Offset of the first message that the log still has; ``end`` without any."""
    end: int
    """Offset behind the last unit that can be trusted."""
    oldest: Unit | None
    """The unit at ``min``."""
    newest: Unit | None
    """The unit before ``end``, if it is not blank."""


@final
@dataclass(slots=True)
class Survey:
    """Positions count bytes of the log."""

    store: StoreDirectory
    log_begin: int
    log_end: int
    is_clean: bool
    files_end: int
    """Behind the newest message that has a unit in a file; ``log_begin`` without any."""
    queues: dict[tuple[str, int], SurveyedQueue] = field(default_factory=dict)


def survey(store: StoreDirectory, rows: QueueRows | None, *, is_clean: bool) -> Survey:
    """Look at the ends of everything. Raises ``StoreCorrupted`` without a log, and ``OSError``."""
    log = store.log
    if not len(log):
        raise StoreCorrupted(store.root, "there is no commit log: nothing tells what is right")
    log_begin = log.begin
    limit = None
    if not is_clean:
        # What a crash may have torn is behind the place where a redo would begin.
        known = store.checkpoint()
        times = min(known.log_timestamp_ms, known.queue_timestamp_ms)
        limit = crash_start(log, max(0, times - SAFETY_MS))  # type: ignore[arg-type]
    queues: dict[tuple[str, int], SurveyedQueue] = {}
    for files in store.queues():
        end = files.end()
        if limit is not None:
            end = files.first_from(limit, end)
        first = files.first_from(log_begin, end)
        newest = files.unit(end - 1) if files.begin < end else None
        if newest is not None and newest.size_bytes == BLANK_SIZE:
            newest = None
        queues[files.topic, files.queue_id] = SurveyedQueue(
            files.topic,
            files.queue_id,
            first,
            end,
            files.unit(first) if first < end else None,
            newest,
        )
        files.close()
    units = sorted(
        (queue.newest for queue in queues.values() if queue.newest is not None), reverse=True
    )[:CANDIDATES_MAX]
    files_end = max([log_begin, *(unit.log_position + unit.size_bytes for unit in units)])
    candidates = [unit.log_position for unit in units]
    if rows is not None:
        newest_rows = sorted(
            (bounds.max.log_position for bounds in rows.queues() if bounds.max is not None),
            reverse=True,
        )
        candidates += newest_rows[:CANDIDATES_MAX]
    return Survey(store, log_begin, find_log_end(store, candidates), is_clean, files_end, queues)


def find_log_end(store: StoreDirectory, candidates: list[int]) -> int:
    """Behind the last whole record. ``candidates``: where the newest messages should begin.

    Raises ``OSError``.
    """
    log = store.log
    for position in sorted(set(candidates), reverse=True):
        if position >= log.begin and record_at(log, position, check_crc=True) is not None:
            return _walk_end(store, position)
    for start in reversed(log.starts):
        first = find_record(log, start, start + log.file_bytes)
        if first is not None:
            return _walk_end(store, first)
    return log.begin


def _walk_end(store: StoreDirectory, position: int) -> int:
    walk = LogWalk(store.log, position, check_crc=True)
    for _ in walk:
        pass
    return walk.end
