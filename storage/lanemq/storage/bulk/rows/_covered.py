"""The existing rows that can be kept, so that a conversion only adds the rest."""

import enum
from dataclasses import dataclass, field
from typing import final

from lanemq.local import get_logger

from ..._layouts import BLANK_SIZE
from ...queues.rocks._queue_rows import QueueRows, RowSpan
from ...tools.reading._queue_files import QueueFiles
from ..checks._survey import Survey, SurveyedQueue, names_message

LOGGER = get_logger(__name__)


@final
@dataclass(slots=True)
class Covered:
    """The kept rows: all of messages before ``end``, but for ``stale`` queues, to be removed
    first."""

    end: int
    stale: list[tuple[str, int]] = field(default_factory=list)


def covered(survey: Survey, rows: QueueRows, *, may_be_late: bool) -> Covered:
    """Check the rows of all queues: counts keys, and compares both ends with the files.

    ``may_be_late``: whether rows may lack what is older than the first of a queue.

    Raises ``OSError``.
    """
    watermark = rows.watermark()
    found = Covered(min(watermark if watermark is not None else 0, survey.log_end))
    found.end = max(found.end, survey.log_begin)
    if watermark is None:
        found.end = survey.log_begin
    for topic, queue_id in rows.stored_queues():
        queue = survey.queues.get((topic, queue_id))
        if queue is None or queue.min >= queue.end:
            _look_at_rows(found, rows, topic, queue_id)
            if may_be_late and _begins_late(rows, topic, queue_id, survey.log_begin):
                found.end = survey.log_begin
    for queue in survey.queues.values():
        if queue.min < queue.end:
            files = survey.store.queue(queue.topic, queue.queue_id)
            _compare(found, survey, rows, queue, files)
            files.close()
    return found


def _look_at_rows(found: Covered, rows: QueueRows, topic: str, queue_id: int) -> None:
    span, newest = rows.span(topic, queue_id), rows.max_row(topic, queue_id)
    if span is None:
        return
    if newest is None:
        found.stale.append((topic, queue_id))
        row = rows.unit(topic, queue_id, span.first)
        found.end = min(found.end, row.log_position if row is not None else 0)
        return
    missing = span.first_missing
    if missing is None and span.last < newest.queue_offset:
        missing = span.last + 1
    if missing is not None:
        row = rows.unit(topic, queue_id, missing - 1)
        found.end = min(found.end, row.log_position + row.size_bytes if row is not None else 0)


def _begins_late(rows: QueueRows, topic: str, queue_id: int, log_begin: int) -> bool:
    first = rows.next_unit(topic.encode(), queue_id, 0)
    row = rows.unit(topic, queue_id, first) if first else None
    return row is not None and row.log_position >= log_begin


def _compare(
    found: Covered, survey: Survey, rows: QueueRows, queue: SurveyedQueue, files: QueueFiles
) -> None:
    topic, queue_id = queue.topic, queue.queue_id
    span = rows.span(topic, queue_id)
    right = _judge(survey, rows, queue, files, span) if span is not None else Right.FILES
    if right is Right.ROWS:
        _look_at_rows(found, rows, topic, queue_id)
        return
    if span is not None and right is not Right.BOTH:
        LOGGER.warning(
            "queue %d of %s has rows of other messages than its files: they are made again",
            queue_id,
            topic,
        )
        found.stale.append((topic, queue_id))
        span = None
    if right is Right.NEITHER or (span is None and queue.oldest is None):
        found.end = survey.log_begin
        return
    if span is None or span.first > queue.min:
        _missing(found, files, queue, queue.min)
        return
    if span.first_missing is not None and queue.min <= span.first_missing < queue.end:
        _missing(found, files, queue, span.first_missing)
    elif span.first_missing is not None or span.last >= queue.end:
        _look_at_rows(found, rows, topic, queue_id)
    if span.last + 1 < queue.end:
        _missing(found, files, queue, max(span.last + 1, queue.min))
    newest = rows.max_row(topic, queue_id)
    if newest is None or newest.queue_offset != span.last:
        _missing(found, files, queue, queue.end - 1)


class Right(enum.Enum):
    """The side that agrees with the log."""

    BOTH = enum.auto()
    ROWS = enum.auto()
    FILES = enum.auto()
    NEITHER = enum.auto()


def _judge(
    survey: Survey, rows: QueueRows, queue: SurveyedQueue, files: QueueFiles, span: RowSpan
) -> Right:
    """Judge by the first and the last message that both have."""
    first, last = max(span.first, queue.min), min(span.last, queue.end - 1)
    if first > last:
        # Rows that end before the files begin belong to older messages, or to an older queue.
        return Right.BOTH if span.last < queue.min else Right.ROWS
    for offset in (first, last):
        row, unit = rows.unit(queue.topic, queue.queue_id, offset), files.unit(offset)
        if row is None or unit is None or row[:3] == tuple(unit):
            continue
        place = queue.topic, queue.queue_id, offset
        log = survey.store.log
        row_is_right = names_message(log, *place, row.log_position)
        unit_is_right = names_message(log, *place, unit.log_position)
        if row_is_right and unit_is_right:  # the queue was deleted and made again in between
            return Right.ROWS if row.log_position > unit.log_position else Right.FILES
        if row_is_right:
            return Right.ROWS
        return Right.FILES if unit_is_right else Right.NEITHER
    return Right.BOTH


def _missing(found: Covered, files: QueueFiles, queue: SurveyedQueue, offset: int) -> None:
    for _, unit in files.units(offset, queue.end):
        if unit.size_bytes != BLANK_SIZE:
            found.end = min(found.end, unit.log_position)
            return
