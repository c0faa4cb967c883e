"""Light queues whose messages a start leaves out, as the settings for them are off.

The offsets of a message in light queues are in its properties. With the settings off, anybody may
have sent those: so nothing is dispatched by them, as at Apache, and what that leaves out is said.
"""

from pathlib import Path
from typing import Final, final

from lanemq.local import get_logger
from lanemq.wire import LMQ_PREFIX

from ..log._records import Record
from ._queue_positions import LMQ_QUEUE_ID, NAMES, light_positions
from ._queues import Queues

LOGGER: Final = get_logger(__name__)
OFF: Final = "enableLmq and enableMultiDispatch are not both true"


@final
class SkippedLightQueues:
    """The light queues that a start leaves as they are; nothing where ``is_on``."""

    def __init__(self, *, is_on: bool) -> None:
        self._is_on = is_on
        self._newest: dict[str, tuple[int, int]] = {}
        """Light queue -> offset and log position of its newest message."""

    def look_at(self, record: Record) -> None:
        """Note a record that the start dispatches again, or checks."""
        if self._is_on or NAMES not in record.properties or not record.is_queued:
            return
        for position in light_positions(record.topic, record.properties):
            self._newest[position.topic] = position.queue_offset, record.position

    def tell(self, queues: Queues, root: Path) -> None:
        """Warn about light queues that lack messages, or that get no new ones."""
        if self._is_on:
            return
        lacking = []
        for topic, (offset, position) in self._newest.items():
            queue = queues.find(topic, LMQ_QUEUE_ID)
            end = queue.end if queue is not None else 0
            if end <= offset:
                lacking.append((topic, end, offset, position))
        if lacking:
            topic, end, offset, position = lacking[0]
            LOGGER.warning(
                "light queues that lack messages of the log: %d, of which %s ends at %d, and the"
                " message at %d of the log has offset %d there, for %s. Before anything more is"
                " sent to them: stop, repair the store in %s, and start with both settings",
                len(lacking),
                topic,
                end,
                position,
                offset,
                OFF,
                root,
            )
            return
        every = sorted(queues.keys())
        lights = [topic for topic, _ in every if topic.startswith(LMQ_PREFIX)]
        if lights:
            LOGGER.warning(
                "light queues that get no new messages: %d, %s for one, for %s",
                len(lights),
                lights[0],
                OFF,
            )
