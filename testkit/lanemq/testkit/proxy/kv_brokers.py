"""Brokers with keys as processes, which are killed and come back, for tests of keys."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, final

import trio

from .processes import MODULE, server_process

CONFIG: Final = """
flushIntervalConsumeQueue = 100
flushConsumeQueueThoroughInterval = 300
mappedFileSizeCommitLog = 1048576
mappedFileSizeConsumeQueue = 20000
logicalListenPort = -1
"""
"""Settings with short files, so that logs have many."""


@final
class Brokers:
    """Processes of brokers that can be killed, and come back."""

    def __init__(
        self, root: Path, name_server: str, nursery: trio.Nursery, *, module: str = MODULE
    ) -> None:
        """``module`` is what runs as ``lanemq``."""
        self._module = module
        self._root = root
        self._name_server = name_server
        self._nursery = nursery
        self._killed: dict[str, trio.Event] = {}
        self._gone: dict[str, trio.Event] = {}

    async def start(self, name: str) -> None:
        """Start a broker; returns once it is ready."""
        killed = self._killed[name] = trio.Event()
        gone = self._gone[name] = trio.Event()
        await self._nursery.start(self._run, name, killed, gone)

    async def kill(self, name: str, meanwhile: Callable[[Path], None] | None = None) -> None:
        """Kill a broker with SIGKILL, and start it again.

        ``meanwhile`` is called with its store's directory in between.
        """
        await self.stop(name)
        if meanwhile is not None:
            meanwhile(self.store_of(name))
        await self.start(name)

    async def stop(self, name: str) -> None:
        """Kill a broker with SIGKILL."""
        self._killed[name].set()
        await self._gone[name].wait()

    def store_of(self, name: str) -> Path:
        """Return the directory of a broker's store."""
        return self._root / name / "store"

    async def _run(
        self,
        name: str,
        killed: trio.Event,
        gone: trio.Event,
        task_status: trio.TaskStatus[None],
    ) -> None:
        directory = self._root / name
        directory.mkdir(exist_ok=True)
        (directory / "broker.conf").write_text(CONFIG)
        command = ["broker", "-c", "broker.conf", "-n", self._name_server, "--name", name]
        command += ["--host", "127.0.0.1", "--port", "0", "--data", "store"]
        async with server_process(command, directory=directory, module=self._module):
            task_status.started()
            await killed.wait()
        gone.set()
