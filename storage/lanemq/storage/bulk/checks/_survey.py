"""The survey before a conversion: the end of the log, and the data that can be trusted."""

from dataclasses import dataclass, field
from typing import Final, final

from ..._errors import StoreCorrupted
from ..._layouts import BLANK_SIZE, Unit
from ...derive._units import is_message_of
from ...log._records import LogWalk, record_at
from ...queues.rocks._queue_rows import QueueRows
from ...start._recovery import crash_start
from ...tools.reading._directory import StoreDirectory
from ...tools.reading._pieces import Pieces
from ...tools.reading._queue_files import QueueFiles
from ...tools.reading._scan import find_record

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
    """The unit at ``min``; None where it contradicts the log."""
    newest: Unit | None
    """The unit before ``end``; None where it contradicts the log, unless the message is gone from
    there."""


@final
@dataclass(slots=True)
class Survey:
    """The survey of a store. Positions count bytes of the log."""

    store: StoreDirectory
    log_begin: int
    log_end: int
    is_clean: bool
    files_end: int
    """Position behind the newest message that has a unit in a file; ``log_begin`` without any."""
    queues: dict[tuple[str, int], SurveyedQueue] = field(default_factory=dict)


def survey(store: StoreDirectory, rows: QueueRows | None, *, is_clean: bool) -> Survey:
    """Find the ends of log, files and rows. Raises ``StoreCorrupted`` without a log, and
    ``OSError``."""
    log = store.log
    if not len(log):
        raise StoreCorrupted(store.root, "there is no commit log: nothing tells what is right")
    log_begin = log.begin
    limit = None
    if not is_clean:
        # Units that a crash may have torn are behind the begin of a redo.
        begin_ms = store.checkpoint().redone_from_ms
        limit = crash_start(log, begin_ms)  # type: ignore[arg-type] # it only reads
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
        return None  # the unit before is neither gone nor blank
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
    """Return whether the record at a position is the message of a queue at this offset."""
    if log_position < log.begin:
        return False
    return is_message_of(record_at(log, log_position), topic, queue_id, queue_offset)


def find_log_end(store: StoreDirectory, candidates: list[int]) -> int:
    """Find the end of the last whole record; the newest messages should begin at ``candidates``.

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
