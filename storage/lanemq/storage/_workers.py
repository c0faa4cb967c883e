"""Processes that take over a part of a tool's work."""

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from signal import SIG_BLOCK, SIGINT, pthread_sigmask
from threading import Thread
from typing import TypeVar, final

Part = TypeVar("Part")
Result = TypeVar("Result")


@final
class Workers:
    """``jobs`` processes, this one among them; the others begin when there is work to share.

    More than one wants a main module that can be imported, as all of ``multiprocessing``.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._pool: ProcessPoolExecutor | None = None

    def share(
        self,
        parts: Sequence[Part],
        *,
        here: Callable[[Part], Result],
        there: Callable[[Part], Result],
    ) -> list[Result]:
        """Return the result of each part, by ``here`` in this process or ``there`` in another.

        ``there``, parts and results go from process to process. What one of them raises ends the
        work, after the parts that are under way. A process that dies leaves its part to this one.
        """
        waiting = deque(enumerate(parts))
        results: dict[int, Result] = {}

        def work_here() -> None:
            while waiting:
                try:
                    number, part = waiting.pop()
                except IndexError:  # another process took it
                    return
                results[number] = here(part)

        if self.jobs > 1 and len(parts) > 1:
            pool = self._started()

            def work_there() -> None:
                # Children inherit that: an interrupt is meant for this process.
                pthread_sigmask(SIG_BLOCK, {SIGINT})
                while waiting:
                    try:
                        number, part = waiting.popleft()
                    except IndexError:  # another process took it
                        return
                    try:
                        results[number] = pool.submit(there, part).result()
                    except BrokenProcessPool:
                        waiting.append((number, part))
                        return

            self._share(work_here, work_there, waiting)
        work_here()
        return [results[number] for number in range(len(parts))]

    def _share(
        self,
        work_here: Callable[[], None],
        work_there: Callable[[], None],
        waiting: deque[tuple[int, Part]],
    ) -> None:
        def until_error(work: Callable[[], None]) -> None:
            try:
                work()
            except BaseException:
                waiting.clear()
                raise

        with ThreadPoolExecutor(self.jobs - 1) as threads:
            others = [threads.submit(until_error, work_there) for _ in range(self.jobs - 1)]
            until_error(work_here)
            for other in others:
                other.result()

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            # A fork would take the threads of RocksDB and of a progress bar along.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.jobs - 1, context, end_with_parent)
        return self._pool

    def close(self) -> None:
        """End the other processes."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


def end_with_parent() -> None:
    """End this process when the one that started it ends, even if that one is killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    Thread(target=wait, daemon=True).start()
