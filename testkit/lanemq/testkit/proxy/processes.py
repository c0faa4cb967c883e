"""A server command as a process, with its memory and processor time."""

import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, final

import msgspec
import trio

from lanemq.wire import HostAddress

READY_S: Final = 300.0
"""Seconds for a start, far more than it takes: the machine may be busy."""

MODULE: Final = "lanemq.proxy.cli"
"""The module that is run as ``lanemq``."""


@final
class ServerProcess:
    """A running ``lanemq`` command."""

    def __init__(self, process: trio.Process, facts: dict[str, Any], log: Path) -> None:
        self.process = process
        self.facts = facts
        """The facts that it printed with ``--json``."""
        self._log = log
        self._streams: list[trio.SocketStream] = []

    def address(self, name: str = "broker") -> HostAddress:
        """Return an address among its facts."""
        return HostAddress.parse(self.facts[name])

    @property
    def log_text(self) -> str:
        """The text that the process has written to stderr."""
        return self._log.read_text(errors="replace")

    @property
    def is_running(self) -> bool:
        """True while it has not ended."""
        return self.process.poll() is None

    @property
    def peak_bytes(self) -> int:
        """The most memory that was resident at any time since its start."""
        return self._status_kib("VmHWM") << 10

    @property
    def resident_bytes(self) -> int:
        """The memory that is resident now."""
        return self._status_kib("VmRSS") << 10

    def _status_kib(self, name: str) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith(f"{name}:"))
        return int(line.split()[1])

    async def connect(
        self, name: str = "broker", *, origin: str | None = None
    ) -> trio.SocketStream:
        """Return a connection to one of its ports, from the address ``origin``; closed with the
        process."""
        address = self.address(name)
        stream = await trio.open_tcp_stream(address.host, address.port, local_address=origin)
        self._streams.append(stream)
        return stream

    def close_streams(self) -> None:
        """Close the connections."""
        for stream in self._streams:
            stream.socket.close()

    async def stop(self) -> int:
        """End it as an operator does; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        with trio.fail_after(READY_S):
            return await self.process.wait()


@asynccontextmanager
async def server_process(
    command: Sequence[str],
    *,
    directory: Path,
    before: Callable[[], None] | None = None,
    module: str = MODULE,
) -> AsyncIterator[ServerProcess]:
    """Run ``lanemq COMMAND... --json`` in ``directory`` until it is ready; killed at the end.

    ``before`` runs in the new process, to give it limits.
    """
    log = directory / f"{command[0]}.log"
    with log.open("ab") as stderr:
        process: trio.Process = await trio.lowlevel.open_process(
            [sys.executable, "-m", module, *command, "--json"],
            cwd=directory,
            stdout=subprocess.PIPE,
            stderr=stderr,
            preexec_fn=before,
        )
    try:
        assert process.stdout is not None
        line = b""
        with trio.fail_after(READY_S):
            while not line.endswith(b"\n"):
                data = await process.stdout.receive_some()
                assert data, log.read_text()
                line += data
        running = ServerProcess(process, msgspec.json.decode(line), log)
        try:
            yield running
        finally:
            running.close_streams()
    finally:
        if process.poll() is None:
            process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
        if process.stdout is not None:
            await process.stdout.aclose()
