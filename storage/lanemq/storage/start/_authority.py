"""Check of records against the queue files, for records read from the log for RocksDB.

The log still has the messages of topics that were deleted, whoever did that. Queue files that
were in use all the time do not.
"""

from typing import Final, final

from ..derive._units import DerivedUnit
from ..queues._queues import QueueTable
from ..queues.files._consume_queue import FileConsumeQueue

ALWAYS: Final = 1 << 63


@final
class KnownByFiles:
    """Asks the queue files for the message at a log position: they have it, or would have it.

    Only messages before ``until`` are judged: of the others the files know nothing.
    """

    def __init__(self, queues: QueueTable) -> None:
        self._queues = queues
        self._oldest: dict[FileConsumeQueue, tuple[int, int]] = {}
        self.until = 0

    def __call__(self, unit: DerivedUnit) -> bool:
        if unit.log_position >= self.until:
            return True
        queue = self._queues.find(unit.topic, unit.queue_id)
        if queue is None:
            return False
        offset, position = self._oldest.get(queue, (-1, 0))
        if offset != queue.min:
            oldest = queue.unit(queue.min)
            position = oldest.log_position if oldest is not None else ALWAYS
            self._oldest[queue] = queue.min, position
        return unit.log_position >= position

    def forget(self) -> None:
        """Stop judging: the files are no longer in use."""
        self.until = 0
        self._oldest.clear()
