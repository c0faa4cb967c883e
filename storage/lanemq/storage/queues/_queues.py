"""All consume queues of a store, by topic and queue id.

``QueueTable`` keeps them in files; what writers and readers need is ``ConsumeQueue`` and
``Queues``, so that another kind can take their place.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol, final

import trio

from .._errors import MessageIllegal, StoreCorrupted
from .._layouts import Unit
from ..disk._files import Files
from ..log._segments import Segments
from .files._bounds import KeptBounds, QueueBounds
from .files._consume_queue import FileConsumeQueue
from .files._removed import AT_ONCE_MAX, RemovedQueues, remove_empty, remove_queue

NAME_BYTES_MAX = 255
QUEUE_ID_MAX = 2**31 - 1
SYNCS_A_TURN: Final = 500
"""Queues that one turn of the event loop asks for what is not durable: a microsecond each."""
WRITES_A_TURN: Final = 50
"""Queues that one turn writes out: some dozens of microseconds each where a file is opened."""


class ConsumeQueue(Protocol):
    """The interface of a queue for writers and readers; meanings as in ``FileConsumeQueue``."""

    topic: str
    topic_data: bytes
    queue_id: int
    end: int
    next: int

    @property
    def min(self) -> int: ...

    def append(self, log_position: int, size_bytes: int, tags_code: int) -> None: ...

    def extend(self, units: bytes) -> None: ...

    def read(self, offset: int, count: int) -> bytes | bytearray: ...

    def unit(self, offset: int) -> Unit | None: ...

    def unit_from(self, offset: int) -> tuple[int, Unit] | None: ...

    def resume_at(self, offset: int) -> int: ...


class Queues(Protocol):
    """All queues of a store; meanings as in ``QueueTable``."""

    def __len__(self) -> int: ...

    def keys(self) -> Iterator[tuple[str, int]]: ...

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None: ...

    def make(self, topic: str, queue_id: int) -> ConsumeQueue: ...

    def write_out(self) -> None: ...

    async def write_in_turns(self) -> None: ...

    async def sync(self) -> None: ...


def check_names(topic: str, queue_id: int) -> None:
    """Check names. Raises ``MessageIllegal`` for what cannot be the name of a queue's directory."""
    if not topic or topic in (".", "..") or "/" in topic or "\0" in topic:
        raise MessageIllegal(f"{topic!r} cannot be the name of a topic")
    if len(topic.encode()) > NAME_BYTES_MAX:
        raise MessageIllegal(f"a topic has at most {NAME_BYTES_MAX} bytes: {topic!r}")
    if not 0 <= queue_id <= QUEUE_ID_MAX:
        raise MessageIllegal(f"{queue_id} cannot be the id of a queue")


def is_queue_name(name: str) -> bool:
    """Return whether a directory may hold the files of a queue."""
    return name.isascii() and name.isdigit()


@final
class QueueTable:
    """The queues in files. A queue is made on use; its files come with its first messages."""

    def __init__(self, files: Files, directory: Path, *, file_bytes: int) -> None:
        self._files = files
        self.directory = directory
        self._file_bytes = file_bytes
        self._queues: dict[tuple[str, int], FileConsumeQueue] = {}
        self._of_topic: dict[str, list[FileConsumeQueue]] = {}
        self._unwritten: dict[FileConsumeQueue, None] = {}
        self._bounds = KeptBounds(self._queues)
        self.removed = RemovedQueues(files, directory)

    def __iter__(self) -> Iterator[FileConsumeQueue]:
        return iter(list(self._queues.values()))

    def __len__(self) -> int:
        return len(self._queues)

    def keys(self) -> Iterator[tuple[str, int]]:
        """Return topic and id of every queue."""
        return iter(list(self._queues))

    def find(self, topic: str, queue_id: int) -> FileConsumeQueue | None:
        return self._queues.get((topic, queue_id))

    def make(self, topic: str, queue_id: int) -> FileConsumeQueue:
        """Return the queue, which may be new. Raises ``MessageIllegal`` for a name no file can
        have."""
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            check_names(topic, queue_id)
            queue = self._new(topic, queue_id)
            self._add(queue)
        return queue

    def _add(self, queue: FileConsumeQueue) -> None:
        self._queues[queue.topic, queue.queue_id] = queue
        self._of_topic.setdefault(queue.topic, []).append(queue)

    def _new(self, topic: str, queue_id: int) -> FileConsumeQueue:
        directory = self.directory / topic / str(queue_id)
        segments = Segments(
            self._files, directory, self._file_bytes, setting="mappedFileSizeConsumeQueue"
        )
        return FileConsumeQueue(topic, queue_id, segments, self._unwritten)

    def load(self, redo_position: int | None) -> None:
        """Find the queues on the disk and their ends; after a crash, their ends before the redo.

        Other files are left alone: those of a RocksDB may lie in the same directory.
        Raises ``StoreCorrupted`` for a file of a wrong size.
        """
        for topic in self._files.entries(self.directory):
            if not topic.is_directory:
                continue
            for entry in self._files.entries(self.directory / topic.name):
                if entry.is_directory and is_queue_name(entry.name):
                    queue = self._new(topic.name, int(entry.name))
                    queue.recover(redo_position)
                    self._add(queue)

    def digest(self) -> str:
        """Return a digest of all queues, ``ENDS:BEGINS``, which changes when one begins or ends
        elsewhere."""
        ends, begins = hashlib.sha256(), hashlib.sha256()
        for (topic, queue_id), queue in sorted(self._queues.items()):
            if queue.end:
                name = f"{topic}/{queue_id}"
                ends.update(f"{name}:{queue.end} ".encode())
                begins.update(f"{name}:{queue.file_begin} ".encode())
        return f"{ends.hexdigest()}:{begins.hexdigest()}"

    async def bounds(self) -> QueueBounds:
        """Return, by topic and queue id, where queues that have units begin and end in files.

        As of the moment in which this returns. It may be called by one task at a time; what it
        returns is as ``KeptBounds.now`` says.
        """
        await self._bounds.catch_up()
        self._bounds.changed(self._unwritten)
        return self._bounds.now()

    def max_log_end(self) -> int:
        """Return the position behind the last message that has a unit; -1 without any."""
        return max((queue.log_end for queue in self), default=-1)

    def first_message_from(self, log_position: int) -> int:
        """Return the position of the first message at or behind ``log_position`` that has a unit.

        ``log_position`` itself must lie before the last message.
        """
        units = (queue.unit(queue.find_position(log_position)) for queue in self)
        return min(unit.log_position for unit in units if unit is not None)

    def truncate(self, log_position: int) -> int:
        """Drop the units of messages at or behind ``log_position``; returns how many."""
        return sum(queue.truncate(log_position) for queue in self)

    def correct_min(self, log_position: int) -> None:
        """Move the begin of every queue to the first message that the log still has."""
        for queue in self:
            queue.correct_min(log_position)

    async def clean(self, log_position: int) -> None:
        """Remove the files that only have messages before ``log_position``, the begin of the
        log."""
        for number, (key, queue) in enumerate(list(self._queues.items())):
            if number % WRITES_A_TURN == 0:
                await trio.lowlevel.checkpoint()
            if self._queues.get(key) is not queue:  # removed meanwhile
                continue
            if queue.clean(log_position):
                self._bounds.changed([queue])
            queue.correct_min(log_position)

    def write_out(self) -> None:
        """Write all tails, unsynced. Raises ``OSError``."""
        self._write(list(self._unwritten))

    async def write_in_turns(self) -> None:
        """Write the present tails, unsynced, some in each turn of the event loop.

        Raises ``OSError``.
        """
        queues = list(self._unwritten)
        for begin in range(0, len(queues), WRITES_A_TURN):
            self._write(queues[begin : begin + WRITES_A_TURN])
            await trio.lowlevel.checkpoint()

    def _write(self, queues: list[FileConsumeQueue]) -> None:
        for queue in queues:
            if queue in self._unwritten:  # else written meanwhile, or removed
                queue.write_out()
                del self._unwritten[queue]
                self._bounds.changed([queue])

    async def sync(self) -> None:
        """Return once everything written is durable."""
        for number, queue in enumerate(self):
            if number % SYNCS_A_TURN == 0:
                await trio.lowlevel.checkpoint()
            await queue.sync()

    def close(self) -> None:
        for queue in self:
            queue.close()

    def forget(self) -> None:
        """Release the memory of a table that was only needed at the start."""
        self.close()
        self._queues.clear()
        self._of_topic.clear()
        self._unwritten.clear()

    def remove_topic(self, topic: str) -> int:
        """Remove the queues of a topic and their files; returns how many queues there were.

        Files that are not a queue's stay, and with them their directories. Those of a topic with
        many queues are left to ``removed``. Raises ``OSError``.
        """
        directory, known = self.directory / topic, self._of_topic.get(topic, [])
        names = [
            entry.name
            for entry in self._files.entries(directory)
            if entry.is_directory and is_queue_name(entry.name)
        ]
        if len(names) > AT_ONCE_MAX:
            self.removed.take(directory)
        else:
            for name in names:
                remove_queue(self._files, directory / name)
            remove_empty(self._files, directory)
        removed = len({(topic, int(name)) for name in names} - self._queues.keys()) + len(known)
        for queue in known:
            queue.close()
            del self._queues[topic, queue.queue_id]
            self._unwritten.pop(queue, None)
        self._of_topic.pop(topic, None)
        self._bounds.forget(topic)
        return removed


def digest_of_files(files: Files, directory: Path, *, file_bytes: int) -> str:
    """Return the digest of the queue files in ``directory``, of a store at rest.

    Empty where a file has a wrong size, with which no start is possible anyway.
    """
    queues = QueueTable(files, directory, file_bytes=file_bytes)
    try:
        queues.load(None)
        return queues.digest()
    except StoreCorrupted:
        return ""
    finally:
        queues.close()
