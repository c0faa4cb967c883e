"""The part of the log that a RocksDB has, compared with the queue files.

A database that our last run left is known by its watermarks. Of any other the rows are counted:
Apache's double writing loses rows in a crash, and its watermark does not tell.
"""

from typing import TYPE_CHECKING, NamedTuple, final

from lanemq.local import get_logger

from .._errors import StartRefused
from .._layouts import Unit
from ..queues._queues import QueueTable
from ..queues.files._consume_queue import FileConsumeQueue

if TYPE_CHECKING:  # the binding comes with the server, and is needed only where this is used
    from ..queues.rocks._queue_rows import QueueRows
    from ..queues.rocks._row_format import OffsetRow

LOGGER = get_logger(__name__)
Key = tuple[str, int]


class _Span(NamedTuple):
    """The rows of a queue: offset of the first, its log position, offset of the last."""

    first: int
    log_position: int
    last: int


@final
class ForeignRows:
    """Rows that another broker wrote, beside the queue files if those are loaded.

    ``begin`` and ``end``: all records between these log positions have rows. The minimums of
    the files' queues must be right.
    """

    def __init__(self, rows: "QueueRows", queues: QueueTable | None, *, log_begin: int) -> None:
        self._rows = rows
        self._queues = queues
        self._log_begin = log_begin
        self.begin = self.end = log_begin

    def look(self) -> None:
        """Find the covered part of the log, and remove the rows of queues that were deleted and
        made again."""
        watermark = self._rows.watermark()
        if watermark is None:
            return  # nobody knows how far the rows reach: all of them are written again
        self.end = watermark
        spans = self._spans()
        self.begin = min((span.log_position for span in spans.values()), default=self.end)
        is_late = False
        for queue in self._queues or ():
            oldest = queue.unit(queue.min)
            if oldest is None:
                continue
            span = spans.get((queue.topic, queue.queue_id))
            if span is None or span.first > queue.min:
                is_late |= oldest.log_position < self.begin
                since = queue.find_position(self.begin)
                if span is None or since < span.first:
                    self._miss(queue.unit(since), queue, since)
            if span is not None and span.last + 1 < queue.end:
                self._miss(queue.unit(span.last + 1), queue, span.last + 1)
        if not is_late:
            self.begin = self._log_begin
        self.end = max(self.end, self._log_begin)

    def _spans(self) -> dict[Key, _Span]:
        spans: dict[Key, _Span] = {}
        for bounds in list(self._rows.queues()):
            if bounds.max is None:
                continue
            topic, queue_id = bounds.topic, bounds.queue_id
            queue = self._queues.find(topic, queue_id) if self._queues is not None else None
            if queue is not None and self._is_of_older_life(bounds.max, queue):
                continue
            found = self._rows.span(topic, queue_id)
            row = self._rows.unit(topic, queue_id, found.first) if found is not None else None
            if found is None or row is None:
                if bounds.max.log_position >= self._log_begin:
                    self.end = self._log_begin
                continue
            hole = found.first_missing
            if hole is None and found.last < bounds.max.queue_offset:
                hole = found.last + 1
            spans[topic, queue_id] = _Span(found.first, row.log_position, bounds.max.queue_offset)
            before = self._rows.unit(topic, queue_id, hole - 1) if hole is not None else None
            if hole is not None and before is not None:
                LOGGER.warning("queue %d of %s has no row %d in RocksDB", queue_id, topic, hole)
                self.end = min(self.end, before.log_position + before.size_bytes)
        return spans

    def _is_of_older_life(self, newest: "OffsetRow", queue: FileConsumeQueue) -> bool:
        oldest = queue.unit(queue.min)
        if (
            oldest is None
            or newest.queue_offset < queue.end
            or newest.log_position >= oldest.log_position
        ):
            return False
        LOGGER.warning(
            "queue %d of %s was deleted and made again: its older rows are removed from RocksDB",
            queue.queue_id,
            queue.topic,
        )
        self._rows.delete_queue(queue.topic, queue.queue_id)
        self.end = min(self.end, oldest.log_position)
        return True

    def _miss(self, unit: Unit | None, queue: FileConsumeQueue, offset: int) -> None:
        if unit is not None and unit.log_position < self.end:
            LOGGER.warning(
                "queue %d of %s has no row %d in RocksDB, but a unit in its file",
                queue.queue_id,
                queue.topic,
                offset,
            )
            self.end = unit.log_position


def check_covered(queues: QueueTable, *, begin: int, filled: int, allowed: bool) -> None:
    """Check that RocksDB has all units of the queue files. Raises ``StartRefused``.

    That is, of messages before ``begin`` that are not before ``filled``, both log positions.
    ``allowed`` only warns.
    """
    messages, lacking, first = 0, 0, ""
    for queue in queues:
        low = max(queue.min, queue.find_position(filled))
        count = queue.find_position(begin) - low
        if count > 0:
            first = first or f"queue {queue.queue_id} of {queue.topic} from offset {low} on"
            messages += count
            lacking += 1
    if not messages:
        return
    lost = (
        f"{messages} messages of {lacking} queues are in the queue files but not in RocksDB"
        f" ({first}), and could no longer be read"
    )
    if allowed:
        LOGGER.warning("%s: rocksdbCQAllowUncovered accepts that", lost)
        return
    raise StartRefused(
        f"storeType=defaultRocksDB: {lost}. Choose one: (1) storeType=default with"
        " rocksdbCQDoubleWriteEnable=true and rocksdbCQBackfillEnable=true, until"
        " `diff_store` finds no difference; (2) `convert_to_rocksdb` while no broker runs;"
        " (3) rocksdbCQAllowUncovered=true starts without these messages."
    )
