"""The quiet end of a command whose output is closed, as of ``lanemq store dump ... | head``.

Commands make one line of an ``OSError``; that of the standard output is not theirs, so here it
becomes something that they let pass.
"""

import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


@final
class OutputClosed(BaseException):
    """The reader of the standard output has closed it."""


@final
class _Output(io.FileIO):
    """The standard output's file. Raises ``OutputClosed`` once; what is written then is dropped."""

    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            raise OutputClosed from None


def run_to_closed_output(command: Callable[[], object]) -> None:
    """Run a command; where its output is closed, end the process as ``cat`` does.

    The command is unwound first, so that its resources are released. Then the signal SIGPIPE
    ends the process, which shells pass over in silence.
    """
    try:
        with _watched_output():
            command()
    except* OutputClosed:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGPIPE)


@contextmanager
def _watched_output() -> Iterator[None]:
    """Replace the standard output, if it is a file of the system, for the length of the block."""
    standard = sys.stdout
    try:
        number = standard.fileno()
    except (AttributeError, OSError):  # there is none, or no file
        number = None
    if number is None or not isinstance(standard, io.TextIOWrapper):
        yield
        return
    raw = _Output(number, "w", closefd=False)
    watched = io.TextIOWrapper(
        raw if standard.write_through else io.BufferedWriter(raw),
        encoding=standard.encoding,
        errors=standard.errors,
        line_buffering=standard.line_buffering,
        write_through=standard.write_through,
    )
    sys.stdout = watched
    try:
        yield
    finally:
        sys.stdout = standard
        watched.flush()
