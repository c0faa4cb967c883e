"""Common parts of the three server commands: logging, signals, readiness, and errors in one
line."""

import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NamedTuple, TypeVar, final

import click
import msgspec
import trio

from lanemq.local import get_logger, print_json, print_line
from lanemq.local.cli import CommandFailed, advised

from .._settings import ConfigError
from ..net.limits._allocator import map_large_blocks
from ..net.limits._descriptors import raise_limit
from ..net.transport._listen import AddressUnavailable

LOGGER = get_logger("lanemq.proxy.cli")

PARENT_LOOK_S = 0.5
PRIVATE_UMASK = 0o077
"""The umask of the servers: the store, RocksDB's files and kept settings are for their user
alone."""
IN_USE = (
    "Stop that broker or tool first, or name another directory: --data DIR, or storePathRootDir in"
    " the broker's file"
)
OTHER_PORT = "--port N takes another port"
OTHER_BROKER_PORT = (
    "A broker's ports lie around its main one: {option} N, or listenPort in the broker's file,"
    " gives it another"
)
TRY_TLS = "`lanemq serve --tls` makes them for trying it out"
LEVELS = ("debug", "info", "warning", "error")

_F = TypeVar("_F", bound=Callable[..., object])
_E = TypeVar("_E", bound=BaseException)


class NotStarted(OSError):  # noqa: N818 - says what happened
    """Processes that this one started have ended, after they have said why on stderr."""


@final
class DirectoryPath(click.Path):
    """An option's directory, which an empty text does not name: it would be the current one."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str | bytes | os.PathLike[str]:
        if value == "":
            self.fail("it is empty: name a directory, or leave the option out", param, ctx)
        return super().convert(value, param, ctx)


class Ready(NamedTuple):
    """The output of a command whose services are listening."""

    lines: tuple[str, ...]
    """The lines for people."""
    facts: Mapping[str, object]
    """The values for machines, with ``--json``."""


def server_options(command: _F) -> _F:
    """Add the options that every server command has."""
    command = click.option(
        "--tls-config",
        type=click.Path(path_type=Path),
        help="A tls.properties of Apache's: tls.config.file.",
    )(command)
    command = click.option(
        "--log-level",
        type=click.Choice(LEVELS),
        default="info",
        show_default=True,
        help="The least severe messages that go to stderr.",
    )(command)
    return click.option(
        "--json", "as_json", is_flag=True, help="Print one line of JSON when ready."
    )(command)


def given(**options: object) -> dict[str, object]:
    """Return the options of a command that were given."""
    return {name: value for name, value in options.items() if value is not None}


def run_until_signalled(
    services: Callable[[], AbstractAsyncContextManager[Ready]],
    *,
    as_json: bool,
    log_level: str,
    parent: int | None = None,
) -> None:
    """Open ``services``, say that they are ready, and close them at SIGTERM or SIGINT.

    With ``parent``, also when that process is no longer the one that started this one.
    A second signal cuts the closing short. An error that the user can do something about ends
    the process with one line on stderr and exit status 1.
    """
    raise_limit()
    map_large_blocks()
    os.umask(PRIVATE_UMASK)
    logging.basicConfig(
        level=log_level.upper(),
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    try:
        trio.run(_main, services, as_json, parent)
    except BaseException as error:
        cause = lone_error(error)
        text = _explained(cause)
        if text is None:
            raise
        LOGGER.debug("the whole error", exc_info=cause)
        raise CommandFailed(text) from error


async def _main(
    services: Callable[[], AbstractAsyncContextManager[Ready]],
    as_json: bool,
    parent: int | None,
) -> None:
    stopping = trio.Event()
    is_ready = False
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                async for number in signals:
                    LOGGER.info("%s: stopping", signal.Signals(number).name)
                    if stopping.is_set() or not is_ready:
                        nursery.cancel_scope.cancel()
                    stopping.set()

            async def watch_parent() -> None:
                while os.getppid() == parent:  # noqa: ASYNC110 - a child gets no notice
                    await trio.sleep(PARENT_LOOK_S)
                LOGGER.error("process %d is gone, which started this one: stopping", parent)
                stopping.set()

            nursery.start_soon(watch)
            if parent is not None:
                nursery.start_soon(watch_parent)
            async with services() as ready:
                is_ready = True
                # Objects alive now live to the end; each full collection would walk them in vain.
                gc.freeze()
                if as_json:
                    print_json(msgspec.json.encode(ready.facts))
                else:
                    for line in (*ready.lines, "ready"):
                        print_line(line)
                await stopping.wait()
            nursery.cancel_scope.cancel()


def lone_error(error: BaseException) -> BaseException:
    """Return the error inside of groups that hold just that one."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def flattened(group: BaseExceptionGroup[_E]) -> Iterator[_E]:
    """Yield the errors in a group and in the groups inside of it."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from flattened(error)
        else:
            yield error


def _explained(error: BaseException) -> str | None:
    """Return one line for an error of the user's environment, None for a defect of lanemq."""
    from ..tls import NoCertificate

    if isinstance(error, (ConfigError, AddressUnavailable, NotStarted)):
        return advised(error, {NoCertificate: TRY_TLS})
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    from lanemq.storage import StoreError, StoreLocked

    if isinstance(error, StoreLocked):
        return f"{error}. {IN_USE}"
    if not isinstance(error, StoreError):
        return None
    from lanemq.storage.cli import in_commands

    return in_commands(str(error), error.root)
