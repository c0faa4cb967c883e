"""The directories of removed queues, out of the way of new ones until their files are gone.

A topic may have thousands of queues, and each file that is removed takes a fraction of a
millisecond, or several on a slow disk. So the directory of a topic with many is moved here, which
is one operation for a crash as well, and emptied beside the event loop.
"""

from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Final, final

import trio

from lanemq.local import get_logger

from ..._errors import disk_problem
from ...disk._files import Files
from ...disk._real_files import RealFiles
from ...disk._threads import in_thread
from ...log._segments import is_segment_name

LOGGER = get_logger("lanemq.storage.queues")

SUFFIX: Final = ".removed"
"""The end of the directory's name, behind that of the queues; no topic lies beside them."""
AT_ONCE_MAX: Final = 16
"""Queues whose files are removed at once: those of an ordinary topic."""
STEP_QUEUES: Final = 16
"""Queues whose files one step removes. A stop of the server waits for it."""


@final
class RemovedQueues:
    """Removed queues of the directory ``queues``; ``run`` is the task that removes their files."""

    def __init__(self, files: Files, queues: Path) -> None:
        self._files = files
        self._directory = queues.with_name(queues.name + SUFFIX)
        self._numbers = count()
        self._news = trio.Event()

    def take(self, topic: Path) -> None:
        """Take over the directory of a topic with everything in it. Raises ``OSError``."""
        self._files.make_directory(self._directory)
        places = (self._directory / str(number) for number in self._numbers)
        self._files.move(topic, next(place for place in places if not self._files.exists(place)))
        self._news.set()

    async def run(self) -> None:
        """Remove the files of what is here, and of what comes, until cancelled."""
        while True:
            self._news = trio.Event()
            try:
                await self._empty()
            except OSError as error:
                LOGGER.error(
                    "files of removed queues stay in %s: %s", self._directory, disk_problem(error)
                )
            await self._news.wait()

    async def _empty(self) -> None:
        steps = self._removals()

        def step() -> bool:
            return sum(islice(steps, STEP_QUEUES)) > 0

        is_real = isinstance(self._files, RealFiles)
        while await in_thread(step) if is_real else step():
            await trio.lowlevel.checkpoint()

    def _removals(self) -> Iterator[int]:
        """Remove one queue's files with each step; what is not a queue's stays."""
        files = self._files
        for topic in files.entries(self._directory):
            place = self._directory / topic.name
            for queue in files.entries(place):
                remove_queue(files, place / queue.name)
                yield 1
            remove_empty(files, place)
        remove_empty(files, self._directory)


def remove_queue(files: Files, directory: Path) -> None:
    """Remove the files of a queue, and its directory where nothing else is in it."""
    for entry in files.entries(directory):
        if is_segment_name(entry.name):
            files.remove(directory / entry.name)
    remove_empty(files, directory)


def remove_empty(files: Files, directory: Path) -> None:
    """Remove a directory, unless something is in it."""
    if files.exists(directory) and not files.entries(directory):
        files.remove(directory)
