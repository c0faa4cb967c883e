"""All consume queues of a store, by topic and queue id.

``QueueTable`` keeps them in files; what writers and readers need is ``ConsumeQueue`` and
``Queues``, so that another kind can take their place.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, final

from ._consume_queue import FileConsumeQueue, Unit
from ._errors import MessageIllegal
from ._files import Files
from ._segments import Segments, is_segment_name

LOGGER = logging.getLogger(__name__)
NAME_BYTES_MAX = 255
QUEUE_ID_MAX = 2**31 - 1


class ConsumeQueue(Protocol):
    """What writers and readers need of a queue; meanings as in ``FileConsumeQueue``."""

    topic: str
    topic_data: bytes
    queue_id: int
    end: int
    next: int

    @property
    def min(self) -> int: ...

    def append(self, log_position: int, size_bytes: int, tags_code: int) -> None: ...

    def read(self, offset: int, count: int) -> bytes | bytearray: ...

    def unit(self, offset: int) -> Unit | None: ...

    def resume_at(self, offset: int) -> int: ...


class Queues(Protocol):
    """All queues of a store; meanings as in ``QueueTable``."""

    def __len__(self) -> int: ...

    def keys(self) -> Iterator[tuple[str, int]]: ...

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None: ...

    def make(self, topic: str, queue_id: int) -> ConsumeQueue: ...

    def write_out(self) -> None: ...

    async def sync(self) -> None: ...


def check_names(topic: str, queue_id: int) -> None:
    """Raises ``MessageIllegal`` for what cannot be the name of a queue's directory."""
    if not topic or topic in (".", "..") or "/" in topic or "\0" in topic:
        raise MessageIllegal(f"{topic!r} cannot be the name of a topic")
    if len(topic.encode()) > NAME_BYTES_MAX:
        raise MessageIllegal(f"a topic has at most {NAME_BYTES_MAX} bytes: {topic!r}")
    if not 0 <= queue_id <= QUEUE_ID_MAX:
        raise MessageIllegal(f"{queue_id} cannot be the id of a queue")


def is_queue_name(name: str) -> bool:
    """Whether a directory may hold the files of a queue."""
    return name.isascii() and name.isdigit()


@final
class QueueTable:
    """Makes a queue where there is none: its files come with its first messages."""

    def __init__(self, files: Files, directory: Path, *, file_bytes: int) -> None:
        self._files = files
        self.directory = directory
        self._file_bytes = file_bytes
        self._queues: dict[tuple[str, int], FileConsumeQueue] = {}

    def __iter__(self) -> Iterator[FileConsumeQueue]:
        return iter(list(self._queues.values()))

    def __len__(self) -> int:
        return len(self._queues)

    def keys(self) -> Iterator[tuple[str, int]]:
        """Topic and id of every queue."""
        return iter(list(self._queues))

    def find(self, topic: str, queue_id: int) -> FileConsumeQueue | None:
        return self._queues.get((topic, queue_id))

    def make(self, topic: str, queue_id: int) -> FileConsumeQueue:
        """The queue, which may be new. Raises ``MessageIllegal`` for a name no file can have."""
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            check_names(topic, queue_id)
            queue = self._queues[topic, queue_id] = self._new(topic, queue_id)
        return queue

    def _new(self, topic: str, queue_id: int) -> FileConsumeQueue:
        directory = self.directory / topic / str(queue_id)
        return FileConsumeQueue(topic, queue_id, Segments(self._files, directory, self._file_bytes))

    def load(self, redo_position: int | None) -> None:
        """Find the queues on the disk and their ends; after a crash, those before the redo.

        What is no queue is left alone: the files of a RocksDB may lie in the same directory.
        Raises ``StoreCorrupted`` for a file of a wrong size.
        """
        for topic in self._files.entries(self.directory):
            if not topic.is_directory:
                continue
            for entry in self._files.entries(self.directory / topic.name):
                if entry.is_directory and is_queue_name(entry.name):
                    queue = self._new(topic.name, int(entry.name))
                    queue.recover(redo_position)
                    self._queues[topic.name, queue.queue_id] = queue

    def max_log_end(self) -> int:
        """Position behind the last message that has a unit; -1 without any."""
        return max((queue.log_end for queue in self), default=-1)

    def first_message_from(self, log_position: int) -> int:
        """Position of the first message at or behind ``log_position`` that has a unit.

        ``log_position`` itself must lie before the last message.
        """
        units = (queue.unit(queue.find_position(log_position)) for queue in self)
        return min(unit.log_position for unit in units if unit is not None)

    def truncate(self, log_position: int) -> int:
        """Forget the units of messages at or behind ``log_position``; returns how many."""
        return sum(queue.truncate(log_position) for queue in self)

    def correct_min(self, log_position: int) -> None:
        """Let every queue begin at the first message that the log still has."""
        for queue in self:
            queue.correct_min(log_position)

    async def clean(self, log_position: int) -> None:
        """Remove what only has messages before ``log_position``, the begin of the log."""
        for queue in self:
            queue.clean(log_position)
            queue.correct_min(log_position)

    def write_out(self) -> None:
        """Write all tails, unsynced. Raises ``OSError``."""
        for queue in self:
            queue.write_out()

    async def sync(self) -> None:
        """Return once everything written is durable."""
        for queue in self:
            await queue.sync()

    def close(self) -> None:
        for queue in self:
            queue.close()

    def forget(self) -> None:
        """Give back the memory of a table that was only needed at the start."""
        self.close()
        self._queues.clear()

    def remove_topic(self, topic: str) -> int:
        """Remove the queues of a topic and their files; returns how many queues there were.

        Files that are not a queue's stay, and with them their directories.
        """
        removed = 0
        for entry in self._files.entries(self.directory / topic):
            if entry.is_directory and is_queue_name(entry.name):
                self._remove_files(self.directory / topic / entry.name)
                removed += (topic, int(entry.name)) not in self._queues
        for queue in self:
            if queue.topic == topic:
                queue.close()
                del self._queues[topic, queue.queue_id]
                removed += 1
        self._remove_empty(self.directory / topic)
        return removed

    def _remove_files(self, directory: Path) -> None:
        for entry in self._files.entries(directory):
            if is_segment_name(entry.name):
                self._files.remove(directory / entry.name)
        self._remove_empty(directory)

    def _remove_empty(self, directory: Path) -> None:
        if self._files.exists(directory) and not self._files.entries(directory):
            self._files.remove(directory)
