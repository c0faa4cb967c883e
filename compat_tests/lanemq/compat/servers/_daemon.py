"""One server process: start, wait until it serves, stop, kill, start again."""

import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import trio

from lanemq.local import append_file, copy_file, make_directories

from .._errors import ServerFailed

POLL_S = 0.05
STOP_S = 120.0
"""A stopping Apache broker takes ten seconds where it has a processor for itself."""
STARTS: Final = 3
"""Starts of a server whose port somebody else has for a moment, at most."""
TAKEN: Final = b"Address already in use"
KILLED_S = 60.0
"""The system ends a killed process as soon as it has the time for it."""


class Daemon:
    """A server program and its log file. May be started again after it ended."""

    def __init__(
        self,
        title: str,
        command: Sequence[str],
        *,
        folder: Path,
        ready: Callable[[], Awaitable[bool]],
        environment: Mapping[str, str] | None = None,
        start_s: float = 180.0,
    ) -> None:
        self.title = title
        self.command = list(command)
        self.folder = folder
        self.log = folder / f"{title}.log"
        self.ready_after_s = 0.0
        """Seconds from spawning to the first positive answer of the readiness check."""
        self._environment = {**os.environ, **(environment or {})}
        self._ready = ready
        self.start_s = start_s
        """Seconds that a start may take."""
        self._process: trio.Process | None = None

    @property
    def pid(self) -> int:
        """The process id; only while it runs."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """True if the process is there."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Spawn the process and return once it serves; raise ``ServerFailed`` otherwise.

        One that ends because its port is taken is started again, a second later.
        """
        for _ in range(STARTS - 1):
            written = self.log.stat().st_size if self.log.exists() else 0
            try:
                await self._start_once()
            except ServerFailed:
                if TAKEN not in self.log.read_bytes()[written:]:
                    raise
                await trio.sleep(1)
            else:
                return
        await self._start_once()

    async def _start_once(self) -> None:
        assert not self.is_running
        make_directories(self.folder)
        begun = trio.current_time()
        with append_file(self.log) as log:
            self._process = await trio.lowlevel.open_process(
                self.command,
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # an interrupt from the keyboard is ours to pass on
            )
        try:
            await self._wait_ready()
        except BaseException:
            with trio.CancelScope(shield=True):
                await self.kill()
            raise
        self.ready_after_s = trio.current_time() - begun

    async def _wait_ready(self) -> None:
        with trio.move_on_after(self.start_s):
            while not await self._ready():
                if not self.is_running:
                    raise ServerFailed(f"{self.title} ended while starting", self.log)
                await trio.sleep(POLL_S)
            return
        raise ServerFailed(f"{self.title} not ready after {self.start_s:g} s", self.log)

    async def stop(self) -> int:
        """Ask the process to end (SIGTERM), wait, and return its exit status.

        One that stays longer than ``STOP_S`` is killed and reported as ``ServerFailed``.
        """
        if self.is_running:
            os.kill(self.pid, signal.SIGTERM)
            if not await self._ended(STOP_S):
                await self.kill()
                raise ServerFailed(f"{self.title} did not stop within {STOP_S:g} s", self.log)
        assert self._process is not None
        assert self._process.returncode is not None
        return self._process.returncode

    async def kill(self) -> None:
        """End the process at once (SIGKILL)."""
        if self.is_running:
            os.kill(self.pid, signal.SIGKILL)
            await self._ended(KILLED_S)

    async def _ended(self, seconds: float) -> bool:
        assert self._process is not None
        with trio.move_on_after(seconds):
            await self._process.wait()
        return not self.is_running

    def keep_log(self, destination: Path) -> None:
        """Copy the log to where a person will look for it."""
        make_directories(destination)
        if self.log.exists():
            copy_file(self.log, destination / self.log.name)
