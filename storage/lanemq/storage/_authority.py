"""What the queue files say of a record that is read from the log for RocksDB.

The log still has the messages of topics that were deleted, whoever did that. Queue files that
were in use all the time do not.
"""

from typing import Final, final

from ._consume_queue import FileConsumeQueue
from ._places import Place
from ._queues import QueueTable

ALWAYS: Final = 1 << 63


@final
class KnownByFiles:
    """Whether a queue file has, or would have, the message at a log position.

    Only messages before ``until`` are judged: of the others the files know nothing.
    """

    def __init__(self, queues: QueueTable) -> None:
        self._queues = queues
        self._oldest: dict[FileConsumeQueue, tuple[int, int]] = {}
        self.until = 0

    def __call__(self, place: Place, log_position: int) -> bool:
        if log_position >= self.until:
            return True
        queue = self._queues.find(place.topic, place.queue_id)
        if queue is None:
            return False
        offset, position = self._oldest.get(queue, (-1, 0))
        if offset != queue.min:
            unit = queue.unit(queue.min)
            position = unit.log_position if unit is not None else ALWAYS
            self._oldest[queue] = queue.min, position
        return log_position >= position

    def forget(self) -> None:
        """Judge nothing any more: the files are not in use."""
        self.until = 0
        self._oldest.clear()
