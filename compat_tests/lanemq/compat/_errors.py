"""Errors of the harness.

CompatError
├── PeersMissing      a tool (JDK, Maven, Go, Node) is not on this machine
├── BuildFailed       a tool is there and failed
├── ServerFailed      a server did not start, or died
├── DriverFailed      a driver process died or broke its protocol
├── CommandRefused    the client under test raised an error; carries the server's code
├── NotApplicable     the client has no such feature, or the server refuses it by design
└── ScenarioFailed    something else happened than the scenario says
"""

from collections.abc import Sequence
from pathlib import Path


class CompatError(Exception):
    """Base of the harness's own errors."""


class PeersMissing(CompatError):  # noqa: N818 - reads as what happened
    """Real software cannot be used because a tool is missing; the text names the tool."""


class BuildFailed(CompatError):  # noqa: N818 - reads as what happened
    """A build tool exited with an error."""

    def __init__(self, command: Sequence[str], status: int, output: str) -> None:
        self.command, self.status, self.output = command, status, output
        super().__init__(f"{' '.join(command)}: exit status {status}\n{output[-4000:]}")


class ServerFailed(CompatError):  # noqa: N818 - reads as what happened
    """A server did not come up or went away; the text ends with the end of its log."""

    def __init__(self, message: str, log: Path | None = None) -> None:
        self.log = log
        tail = ""
        if log is not None and log.exists():
            tail = f"\n{log}:\n" + log.read_text(errors="replace")[-3000:]
        super().__init__(message + tail)


class DriverFailed(CompatError):  # noqa: N818 - reads as what happened
    """A driver process died or said something that is not its protocol."""


class CommandRefused(CompatError):  # noqa: N818 - reads as what happened
    """The client under test raised ``error`` (its class name) when asked for ``command``.

    ``code`` is the response code of the server where the client knows it, else ``None``.
    """

    def __init__(self, command: str, error: str, code: int | None, message: str) -> None:
        self.command, self.error, self.code, self.message = command, error, code, message
        super().__init__(f"{command}: {error} (code {code}): {message}")


class NotApplicable(CompatError):  # noqa: N818 - reads as what happened
    """This cell makes no sense; ``reason`` says what shows it."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class ScenarioFailed(CompatError):  # noqa: N818 - reads as what happened
    """Something else happened than the scenario says."""
