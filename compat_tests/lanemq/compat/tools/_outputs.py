"""Recorded outputs of a tool's commands: Apache's, and lanemq's where they differ."""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import final

import trio

from lanemq.local import write_file

from ..servers._mqadmin import MqadminShell, open_mqadmin
from ._differences import difference
from ._masks import masked
from ._stand import Stand, open_stand
from ._steps import Step, steps


@final
@dataclass(frozen=True, slots=True)
class Output:
    """The output of one command, without what differs from run to run."""

    line: str
    lines: tuple[str, ...]


def recorded(version: str, maker: str) -> list[Output]:
    """Return the recorded outputs: all of ``apache``, of ``lanemq`` those that differ."""
    found: list[Output] = []
    for block in _file(version, maker).read_text(encoding="utf-8").split("\n$ ")[1:]:
        line, *lines = block.rstrip("\n").split("\n")
        found.append(Output(line, tuple(lines)))
    return found


def expected(version: str, maker: str) -> list[Output]:
    """Return what each command is to print, in the order of the commands."""
    own = iter(recorded(version, "lanemq")) if maker == "lanemq" else iter(())
    following = next(own, None)
    outputs: list[Output] = []
    for output in recorded(version, "apache"):
        if following is not None and following.line == _numbered(outputs, output.line):
            outputs.append(Output(output.line, following.lines))
            following = next(own, None)
        else:
            outputs.append(output)
    assert following is None, f"no command {following} left in the record of Apache"
    return outputs


def _numbered(before: Iterable[Output], line: str) -> str:
    """Return a line with its number, where the same command comes several times."""
    times = sum(output.line == line for output in before)
    return line if times == 0 else f"{line} #{times + 1}"


def record(version: str, maker: str, outputs: Iterable[Output]) -> None:
    """Write the outputs of a run, of ``lanemq`` only those that differ from the record of Apache.

    Raises ``ValueError`` for a difference that has no reason.
    """
    kept: list[Output] = []
    before: list[Output] = []
    unexplained: list[str] = []
    apache = iter(recorded(version, "apache")) if maker == "lanemq" else None
    for output in outputs:
        if apache is None:
            kept.append(output)
        elif next(apache).lines != output.lines:
            if difference(version, output.line) is None:
                unexplained.append(output.line)
            kept.append(Output(_numbered(before, output.line), output.lines))
        before.append(output)
    heading = f"mqadmin {version} at {maker}; made by compat_tests/tools/record_mqadmin.py\n"
    blocks = ("\n".join((f"$ {output.line}", *output.lines)) for output in kept)
    path = Path(str(_file(version, maker)))
    write_file(path, "\n".join((heading, *blocks, "")).encode())
    if unexplained:
        raise ValueError(f"no reason in _differences.py why these differ: {unexplained}")


def _file(version: str, maker: str) -> Traversable:
    return files("lanemq.compat").joinpath("tools", "expected", f"mqadmin-{version}-{maker}.txt")


async def run_steps(version: str, server: str, folder: Path) -> list[Output]:
    """Run all commands of a release on a cluster of its own of one kind of server.

    Raises ``PeersMissing``, ``BuildFailed``, ``ServerFailed`` and ``DriverFailed``.
    """
    outputs: list[Output] = []
    async with (
        open_stand(server, folder) as stand,
        open_mqadmin(version, folder / "mqadmin") as shell,
    ):
        todo = steps(version)
        unknown = set(await shell.names()) ^ {step.command for step in todo}
        assert not unknown, f"commands of {version} without a step, or steps without: {unknown}"
        for step in todo:
            outputs.append(await _run(step, stand, shell))
    return outputs


async def _run(step: Step, stand: Stand, shell: MqadminShell) -> Output:
    command, *arguments = step.line.format(**stand.arguments()).split()
    printed = await shell.run(command, "-n", stand.namesrv, *arguments, seconds=step.seconds)
    text = printed.out
    if step.file is not None:
        path = trio.Path(stand.folder) / step.file
        text += "\n" + (await path.read_text() if await path.exists() else "no file")
    return Output(step.line, tuple(masked(step, text, printed.err, stand.known())))
