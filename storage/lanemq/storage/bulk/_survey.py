"""What a conversion has to know of a store first: where the log ends, and what can be trusted."""

from dataclasses import dataclass, field
from typing import Final, final

from .._checkpoint import SAFETY_MS
from .._consume_queue import Unit
from .._errors import StoreCorrupted
from .._layouts import BLANK_SIZE
from .._places import Places
from .._records import LogWalk
from .._recovery import crash_start
from ..rocks import QueueRows
from ..tools._directory import StoreDirectory
from ..tools._pieces import Pieces
from ..tools._queue_files import QueueFiles
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
    """The unit at ``min``; None where it does not fit the log."""
    newest: Unit | None
    """The unit before ``end``; None where it does not fit the log, but for a message that the log
    has no more."""


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
        queues[files.topic, files.queue_id] = SurveyedQueue(
            files.topic,
            files.queue_id,
            first,
            end,
            _oldest(log, files, first) if first < end else None,
            _sound_unit(log, files, end - 1) if files.begin < end else None,
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


def _oldest(log: Pieces, files: QueueFiles, first: int) -> Unit | None:
    before = files.unit(first - 1) if first > files.begin else None
    if (
        before is not None
        and before.size_bytes != BLANK_SIZE
        and not 0 <= before.log_position < log.begin
    ):
        return None  # what is before it is neither gone nor blank
    return _sound_unit(log, files, first)


def _sound_unit(log: Pieces, files: QueueFiles, offset: int) -> Unit | None:
    unit = files.unit(offset)
    if unit is None or unit.size_bytes == BLANK_SIZE:
        return None
    if 0 <= unit.log_position < log.begin:
        return unit
    is_sound = names_message(log, files.topic, files.queue_id, offset, unit.log_position)
    return unit if is_sound else None


def names_message(
    log: Pieces, topic: str, queue_id: int, queue_offset: int, log_position: int
) -> bool:
    """Whether the record at a position is the message of a queue that has this offset."""
    if log_position < log.begin:
        return False
    found = record_at(log, log_position)
    if found is None:
        return False
    place = topic, queue_id, queue_offset
    return place in Places(multi_dispatch=True, deleted={}).of(found)


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
