"""Processes of server commands, kept running by the process that started them."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, final

import msgspec
import trio

from lanemq.local import get_logger

from ._run import NotStarted, flattened

LOGGER = get_logger("lanemq.proxy.processes")

LANEMQ: Final = (sys.executable, "-m", "lanemq.proxy.cli")
READY_S: Final = 60.0
"""Seconds until a process must be ready; a broker may have much to recover."""
PAUSE_S: Final = 1.0
"""Seconds between the end of a process and its next start."""
STOP_S: Final = 30.0


class ProcessFailed(OSError):  # noqa: N818 - says what happened
    """A process was not ready in time, or ended before; it has said why itself, on stderr."""

    def __init__(self, name: str, status: int | None) -> None:
        how = f"not ready within {READY_S:.0f} s" if status is None else f"exit status {status}"
        super().__init__(f"{name} did not start ({how})")


class ProcessesFailed(NotStarted):
    """Some of several processes did not start, so that none runs."""

    def __init__(self, group: BaseExceptionGroup[ProcessFailed]) -> None:
        texts = sorted(str(error) for error in flattened(group))
        super().__init__(f"{'; '.join(texts)}: the reason is above")


@final
class ServerProcess:
    """A process of a server command, started again whenever it ends by itself.

    ``command`` is its words: ``broker``, or ``proxy``, and options.
    """

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name = name
        """Its name for people, as ``broker b-1``."""
        self.facts: Mapping[str, Any] = {}
        """The facts it printed when it was last ready."""
        self._command = command
        self._process: trio.Process | None = None
        self._is_stopping = False

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the process running until cancelled. Raises ``ProcessFailed`` if it never becomes
        ready."""
        try:
            await self._start()
            task_status.started()
            while True:
                assert self._process is not None
                status = await self._process.wait()
                if self._is_stopping:
                    return
                LOGGER.error("%s ended (status %s); it is started again", self.name, status)
                await trio.sleep(PAUSE_S)
                try:
                    await self._start()
                except ProcessFailed as error:
                    LOGGER.error("%s; next try soon", error)
        finally:
            await self._stop()

    async def end(self) -> None:
        """Ask the process to end, and wait until it has, however long its clients take."""
        self._is_stopping = True
        if self._process is not None:
            self._process.terminate()
            await self._process.wait()

    async def _start(self) -> None:
        self._process = process = await trio.lowlevel.open_process(
            [*LANEMQ, *self._command, "--json", "--parent", str(os.getpid())],
            stdout=subprocess.PIPE,
            # A signal from the terminal is for this process, which then ends the others.
            start_new_session=True,
        )
        assert process.stdout is not None
        line = b""
        with trio.move_on_after(READY_S):
            while not line.endswith(b"\n"):
                data = await process.stdout.receive_some()
                if not data:
                    raise ProcessFailed(self.name, await process.wait())
                line += data
        if not line.endswith(b"\n"):
            process.kill()
            raise ProcessFailed(self.name, None)
        self.facts = msgspec.json.decode(line)

    async def _stop(self) -> None:
        process = self._process
        if process is None:
            return
        with trio.CancelScope(shield=True):
            process.terminate()
            with trio.move_on_after(STOP_S):
                await process.wait()
                return
            LOGGER.error("%s does not end; it is killed", self.name)
            process.kill()
            await process.wait()


@asynccontextmanager
async def run_processes(processes: Sequence[ServerProcess]) -> AsyncIterator[None]:
    """Run all processes for the length of the block, which begins when all are ready.

    Raises ``ProcessesFailed``.
    """
    try:
        async with trio.open_nursery() as nursery:
            async with trio.open_nursery() as starting:
                for process in processes:
                    starting.start_soon(nursery.start, process.run)
            try:
                yield
            finally:
                nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        failed, others = group.split(ProcessFailed)
        if failed is None or others is not None:
            raise
        raise ProcessesFailed(failed) from group
