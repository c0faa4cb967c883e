"""Flushing the log: regularly, or at once for callers that wait (group commit).

Source: RocketMQ 4.9.8, CommitLog.FlushRealTimeService and GroupCommitService.
"""

from collections.abc import Callable
from typing import Final, final

import trio

from lanemq.local import get_logger

from .._errors import StoreUnwritable, disk_problem, is_exhausted
from ._commit_log import CommitLog

LOGGER = get_logger(__name__)
EXHAUSTED_PAUSE_S: Final = 0.1
"""Seconds until the next try where there was no file descriptor."""


@final
class Flusher:
    """Group commit: one fsync serves all callers that wait. After a failed one every wait fails,
    until the store is opened again."""

    def __init__(
        self,
        log: CommitLog,
        *,
        last_store_ms: Callable[[], int],
        on_failure: Callable[[str], None],
        interval_s: float,
        least_bytes: int,
        thorough_interval_s: float,
    ) -> None:
        self._log = log
        self._last_store_ms = last_store_ms
        self._on_failure = on_failure
        self.on_flushed: list[Callable[[], None]] = []
        """Callbacks for progress, called before the callers that wait for it continue."""
        self._interval_s = interval_s
        self._least_bytes = least_bytes
        self._thorough_interval_s = thorough_interval_s
        self._wanted = trio.Event()
        self._done = trio.Event()
        self._one_at_a_time = trio.Lock()
        self._failure = ""
        self.flushed = 0
        """Position up to which the log is durable."""
        self.flushed_store_ms = 0
        """Store time of the newest durable message."""

    @property
    def failure(self) -> str:
        """The failure after which nothing can be promised any more, or empty."""
        return self._failure

    def start_at(self, position: int, store_ms: int) -> None:
        """Set what recovery found durable."""
        self.flushed, self.flushed_store_ms = position, store_ms

    async def flush(self) -> None:
        """Make everything committed durable.

        Raises ``StoreUnwritable``, and ``OSError`` where there is no file descriptor to do it
        with: nothing was tried then, and another call may succeed.
        """
        one_at_a_time = self._one_at_a_time
        try:
            one_at_a_time.acquire_nowait()  # no turn of all other tasks while writers wait
        except trio.WouldBlock:
            await one_at_a_time.acquire()
        try:
            await self._flush()
        finally:
            one_at_a_time.release()
        self._wake()

    async def _flush(self) -> None:
        target, store_ms = self._log.end, self._last_store_ms()
        if self._failure:
            raise StoreUnwritable(self._failure)
        if target <= self.flushed:
            return
        try:
            await self._log.segments.sync()
        except OSError as error:
            if is_exhausted(error):
                raise
            # The kernel may have dropped the pages: a second try would prove nothing.
            self._failure = f"the disk failed to keep the commit log: {disk_problem(error)}"
            LOGGER.critical("%s; the store must be opened again", error)
            self._on_failure(self._failure)
            self._wake()
            raise StoreUnwritable(self._failure) from error
        self.flushed, self.flushed_store_ms = target, store_ms
        for flushed in self.on_flushed:
            flushed()

    def _wake(self) -> None:
        done, self._done = self._done, trio.Event()
        done.set()

    def want(self) -> None:
        """Ask ``run`` to flush soon."""
        self._wanted.set()

    async def wait(self, position: int) -> None:
        """Return once the log is durable up to ``position``. Raises ``StoreUnwritable``."""
        if position > self._log.end:
            raise StoreUnwritable(f"the log ends at {self._log.end}, before {position}")
        while self.flushed < position:
            if self._failure:
                raise StoreUnwritable(self._failure)
            self._wanted.set()
            await self._done.wait()

    async def run(self) -> None:
        """Flush whenever someone waits, and where enough or old enough bytes are dirty."""
        last_s = trio.current_time()
        while not self._failure:
            with trio.move_on_after(self._interval_s):
                await self._wanted.wait()
            wanted = self._wanted.is_set()
            if wanted:
                self._wanted = trio.Event()
            dirty_bytes = self._log.end - self.flushed
            old = trio.current_time() - last_s >= self._thorough_interval_s
            if wanted or dirty_bytes >= self._least_bytes or old:
                last_s = trio.current_time()
                try:
                    await self.flush()
                except StoreUnwritable:
                    return
                except OSError as error:
                    LOGGER.error("the commit log is not flushed yet, next try soon: %s", error)
                    await trio.sleep(EXHAUSTED_PAUSE_S)
                    self._wanted.set()
