"""The real mqadmin, many commands in one JVM."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from subprocess import PIPE
from typing import final

import trio

from .._errors import DriverFailed
from ..peers._build import built, run_tool
from ..peers._programs import JAVA_LIGHT, java_libraries
from ._apache import EXPORTS

COMMAND_S = 180.0
ATTEMPTS_MAX = 5
OUT_OF_TIME = "RemotingTimeoutException"
"""mqadmin gives a command's first question 5 s, less the time in which it found its own classes;
the JVM may be slow for as long on a busy machine, and no option changes that."""
# mqadmin insists on a home with this file; what it logs is of no use here.
_QUIET = '<configuration><root level="OFF"/></configuration>\n'


@dataclass(frozen=True, slots=True)
class Printed:
    """The output of one command; mqadmin has no exit status worth looking at."""

    out: str
    err: str


@final
class MqadminShell:
    """Runs commands of one release, one at a time."""

    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self._buffer = bytearray()

    async def run(self, *args: str) -> Printed:
        """Run one command; again where it had no time. Raises ``DriverFailed`` where the JVM has
        ended."""
        for _ in range(ATTEMPTS_MAX):
            printed = await self._run(args)
            if OUT_OF_TIME not in printed.err:
                break
        return printed

    async def _run(self, args: Sequence[str]) -> Printed:
        assert not any("\t" in arg or "\n" in arg for arg in args)
        assert self._process.stdin is not None
        with trio.fail_after(COMMAND_S):
            await self._process.stdin.send_all("\t".join(args).encode() + b"\n")
            while b"\n" not in self._buffer:
                await self._read()
            head, _, _ = bytes(self._buffer).partition(b"\n")
            del self._buffer[: len(head) + 1]
            out_bytes, err_bytes = map(int, head.split())
            while len(self._buffer) < out_bytes + err_bytes:
                await self._read()
        data = bytes(self._buffer)
        self._buffer.clear()
        return Printed(
            data[:out_bytes].decode("utf-8", "replace"), data[out_bytes:].decode("utf-8", "replace")
        )

    async def _read(self) -> None:
        assert self._process.stdout is not None
        data = await self._process.stdout.receive_some()
        if not data:
            raise DriverFailed("mqadmin's JVM has ended")
        self._buffer += data


def shell_command(version: str, folder: Path) -> list[str]:
    """Return the command line of the shell for one release, building it if needed.

    Blocks. ``folder`` becomes its home. Raises ``PeersMissing``, ``BuildFailed``.
    """
    jars = java_libraries(f"server-{version}")
    source = files("lanemq.compat").joinpath("drivers", "mqadmin", "Shell.java").read_text()

    def make(classes: Path) -> None:
        (classes / "Shell.java").write_text(source)
        run_tool(["javac", "-nowarn", "-d", ".", "-cp", f"{jars}/*", "Shell.java"], folder=classes)

    classes = built("java", f"mqadmin-{version}", [str(jars), source], make)
    conf = folder / "conf"
    conf.mkdir(parents=True, exist_ok=True)
    for name in ("logback_tools.xml", "rmq.logback.xml"):
        (conf / name).write_text(_QUIET)
    return [
        "java",
        *JAVA_LIGHT,
        *EXPORTS,
        "-Xmx192m",
        f"-Drocketmq.home.dir={folder}",
        f"-Duser.home={folder}",
        f"-Djava.io.tmpdir={folder}",
        "-Duser.timezone=UTC",
        "-cp",
        f"{conf}:{classes}:{jars}/*",
        "Shell",
    ]


@asynccontextmanager
async def open_mqadmin(version: str, folder: Path) -> AsyncIterator[MqadminShell]:
    """Start the mqadmin of one release; its home is made in ``folder``.

    Raises ``PeersMissing`` and ``BuildFailed``.
    """
    command = await trio.to_thread.run_sync(shell_command, version, folder)
    async with trio.open_nursery() as nursery:

        async def run(task_status: trio.TaskStatus[trio.Process]) -> None:
            await trio.run_process(
                command, stdin=PIPE, stdout=PIPE, check=False, task_status=task_status
            )

        process = await nursery.start(run)
        try:
            yield MqadminShell(process)
        finally:
            process.kill()
