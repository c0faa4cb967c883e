"""The next offset of a queue, taken over from the other index.

A redo brings back the units of all messages that the log still has. Of a queue whose newest
messages are gone from the log only the index that was in use knows where it goes on; else offsets
would be given out twice.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lanemq.local import get_logger

from ..queues._queues import QueueTable

if TYPE_CHECKING:  # the binding comes with the server, and is needed only where this is used
    from ..queues.rocks._queue_rows import QueueRows

LOGGER = get_logger(__name__)


def continue_files(
    queues: QueueTable,
    rows: "QueueRows",
    *,
    files_end: int,
    log_end: int,
    deleted: Mapping[str, int],
) -> None:
    """Continue queue files, brought up from ``files_end`` to ``log_end``, where the rows end.

    Rows of messages before that are not news: a topic may have been deleted since.
    ``deleted`` as in ``QueuePositions``.
    """
    for bounds in rows.queues():
        newest = bounds.max
        if newest is None or not files_end <= newest.log_position < log_end:
            continue
        if newest.log_position < deleted.get(bounds.topic, 0):
            continue
        queue = queues.find(bounds.topic, bounds.queue_id)
        end = newest.queue_offset + 1
        if queue is None:
            queue = queues.make(bounds.topic, bounds.queue_id)
        elif end <= queue.end or newest.log_position < queue.log_end:
            continue  # the rows may be of a topic that was deleted and made again since
        LOGGER.info(
            "queue %d of %s continues at %d, as in RocksDB, behind messages that are gone",
            queue.queue_id,
            queue.topic,
            end,
        )
        if queue.unit(queue.min) is None or queue.end == 0:
            queue.restart_at(end)
        queue.append_blanks(end - queue.end)


def continue_rows(queues: QueueTable, rows: "QueueRows") -> None:
    """Continue rows that were brought up to the log's end where the queue files end."""
    batch = rows.batch()
    for queue in queues:
        newest = rows.max_row(queue.topic, queue.queue_id)
        if queue.end == 0 or (newest is not None and newest.queue_offset + 1 >= queue.end):
            continue
        last = queue.unit(queue.end - 1)
        position = last.log_position if last is not None else 0
        if newest is not None and position < newest.log_position:
            continue
        batch.put_max(queue.topic_data, queue.queue_id, position, queue.end - 1)
    batch.write()
