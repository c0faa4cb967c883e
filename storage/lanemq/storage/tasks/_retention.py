"""Retention: removing log files that are old, or for which a full disk has no room.

Source: RocketMQ 4.9.8, DefaultMessageStore.CleanCommitLogService and CleanConsumeQueueService.
Unlike there a file that is read at the moment goes at once: its bytes stay until it is closed.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, final

import trio

from lanemq.local import get_logger

from .._config import StoreConfig
from ..disk._files import Files
from ..index._index import Index
from ..log._commit_log import CommitLog

LOGGER = get_logger(__name__)
FILES_PER_RUN: Final = 10
MANUAL_RUNS: Final = 20


@final
class Retention:
    """The cleaner of the log: removes the oldest files, never one in use or not durable yet."""

    def __init__(
        self,
        config: StoreConfig,
        *,
        files: Files,
        log: CommitLog,
        queue_directory: Path,
        cleaners: Sequence[Callable[[int], Awaitable[None]]],
        index: Index | None,
        clock_ms: Callable[[], int],
        flushed: Callable[[], int],
    ) -> None:
        """Take the parts; ``cleaners`` remove an index's entries of messages before a log
        position."""
        self._config = config
        self._files = files
        self._log = log
        self._queue_directory = queue_directory
        self._cleaners = cleaners
        self._index = index
        self._clock_ms = clock_ms
        self._flushed = flushed
        self._manual_runs = 0

    def disk_ratio(self) -> float:
        """Return the used share of the fuller of the partitions of log and queues, 0 to 1."""
        paths = (self._config.commit_log_path, self._queue_directory)
        return max(self._files.usage(path).ratio for path in paths)

    def request(self) -> None:
        """Ask for the removal of expired files at the next runs, whatever the hour."""
        self._manual_runs = MANUAL_RUNS

    async def run_once(self) -> int:
        """Remove the files that may go now; returns the number of log files."""
        config, ratio = self._config, self.disk_ratio()
        manual = self._manual_runs > 0
        self._manual_runs -= manual
        hour = time.localtime(self._clock_ms() // 1000).tm_hour
        forcibly = config.clean_forcibly and ratio > config.disk_clean_forcibly_ratio
        due = hour in config.delete_hours or manual or ratio > config.disk_max_used_ratio
        removed = 0
        try:
            if due or forcibly:
                while removed < FILES_PER_RUN and self._remove_oldest(forcibly=forcibly):
                    removed += 1
                    await trio.sleep(config.delete_pause_s)
        finally:
            if removed:  # also where a file could not be: queues tell what is left in the log
                await self.clean_derived()
        return removed

    def _remove_oldest(self, *, forcibly: bool) -> bool:
        segments = self._log.segments
        if len(segments) < 2:
            return False
        end = segments.end_of(segments.begin)
        # The file that is written counts as the last, though a spare one may lie behind it.
        if end > segments.start_of(self._log.end) or end > self._flushed():
            return False
        path = segments.path_of_oldest()
        age_s = self._clock_ms() / 1000 - self._files.modified_s(path)
        if not forcibly and age_s < self._config.file_reserved_hours * 3600:
            return False
        segments.remove_oldest()
        LOGGER.info(
            "removed %s, %.0f hours old%s", path, age_s / 3600, ", disk too full" * forcibly
        )
        return True

    async def clean_derived(self) -> None:
        """Remove entries of queues and index that point before the begin of the log."""
        begin = self._log.segments.begin
        for clean in self._cleaners:
            await clean(begin)
        if self._index is not None:
            self._index.clean(begin)
