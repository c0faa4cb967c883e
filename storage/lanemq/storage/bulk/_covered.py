"""How far rows that are there already can be kept, so that a conversion only adds the rest."""

import logging
from dataclasses import dataclass, field
from typing import final

from .._layouts import BLANK_SIZE
from ..rocks import QueueRows, RowSpan
from ..tools._queue_files import QueueFiles
from ._survey import Survey, SurveyedQueue

LOGGER = logging.getLogger(__name__)


@final
@dataclass(slots=True)
class Covered:
    """All rows of messages before ``end`` are there; ``stale`` queues must be removed first."""

    end: int
    stale: list[tuple[str, int]] = field(default_factory=list)


def covered(survey: Survey, rows: QueueRows) -> Covered:
    """Look at the rows of all queues. Counts keys, and compares both ends with the files.

    Raises ``OSError``.
    """
    watermark = rows.watermark()
    found = Covered(min(watermark if watermark is not None else 0, survey.log_end))
    found.end = max(found.end, survey.log_begin)
    if watermark is None:
        found.end = survey.log_begin
    for topic, queue_id in rows.stored_queues():
        if (topic, queue_id) not in survey.queues:
            _look_at_rows(found, rows, topic, queue_id)
    for queue in survey.queues.values():
        if queue.min < queue.end:
            files = survey.store.queue(queue.topic, queue.queue_id)
            _compare(found, rows, queue, files)
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


def _compare(found: Covered, rows: QueueRows, queue: SurveyedQueue, files: QueueFiles) -> None:
    topic, queue_id = queue.topic, queue.queue_id
    span = rows.span(topic, queue_id)
    if span is not None and not _agree(rows, queue, files, span):
        LOGGER.warning(
            "queue %d of %s has rows of other messages than its files: they are made anew",
            queue_id,
            topic,
        )
        found.stale.append((topic, queue_id))
        span = None
    if span is None or span.first > queue.min:
        _missing(found, files, queue, queue.min)
        return
    if span.first_missing is not None and span.first_missing >= queue.min:
        _missing(found, files, queue, span.first_missing)
    if span.last + 1 < queue.end:
        _missing(found, files, queue, max(span.last + 1, queue.min))
    newest = rows.max_row(topic, queue_id)
    if newest is None or newest.queue_offset != span.last:
        _missing(found, files, queue, queue.end - 1)


def _agree(rows: QueueRows, queue: SurveyedQueue, files: QueueFiles, span: RowSpan) -> bool:
    first, last = max(span.first, queue.min), min(span.last, queue.end - 1)
    if first > last:
        # Rows that end before the files begin belong to older messages, or to an older queue.
        return span.last < queue.min
    for offset in (first, last):
        row, unit = rows.unit(queue.topic, queue.queue_id, offset), files.unit(offset)
        if row is not None and unit is not None and row[:3] != tuple(unit):
            return False
    return True


def _missing(found: Covered, files: QueueFiles, queue: SurveyedQueue, offset: int) -> None:
    for _, unit in files.units(offset, queue.end):
        if unit.size_bytes != BLANK_SIZE:
            found.end = min(found.end, unit.log_position)
            return
