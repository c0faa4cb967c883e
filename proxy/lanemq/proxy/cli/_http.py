"""The HTTP port of the server commands."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
import trio

from ._run import Ready

if TYPE_CHECKING:
    from ..net.http._pages import Pages

DEFAULT_PORT: Final = 5557
"""The port at which Apache's 5.x brokers offer metrics."""
OTHER_HTTP_PORT: Final = "--http-port N takes another port, -1 none"
_F = TypeVar("_F", bound=Callable[..., object])


def http_options(*, default: str) -> Callable[[_F], _F]:
    """Return the options of the port; ``default`` says what is so without them."""

    def add(command: _F) -> _F:
        command = click.option(
            "--http-host",
            default="127.0.0.1",
            show_default=True,
            help="The address of the HTTP port.",
        )(command)
        command = click.option(
            "--http-name",
            "http_names",
            metavar="NAME",
            multiple=True,
            help="A name by which tools may reach the HTTP port, beside addresses, localhost and "
            "--http-host; several times.",
        )(command)
        return click.option(
            "--http-port",
            type=click.IntRange(-1, 65535),
            help=f"Port of /healthz, /readyz and /metrics; 0 any, -1 none.  [default: {default}]",
        )(command)

    return add


def chosen_port(host: str, given: int | None, main_port: int, *, number: int = 0) -> int:
    """Return the port that was given, or else ``DEFAULT_PORT``; 0 where the main port is 0, any, or
    that one is taken. The process of that ``number``, of several, has one so far above."""
    from ..net.transport._listen import AddressUnavailable, listen

    if given is not None or main_port == 0:
        return given + number if given and given > 0 else given or 0
    try:
        listen(host, DEFAULT_PORT + number).close()
    except AddressUnavailable:
        return 0
    return DEFAULT_PORT + number


@asynccontextmanager
async def with_http(
    ready: Ready, pages: "Pages", *, host: str, names: Sequence[str], port: int | None
) -> AsyncIterator[Ready]:
    """Serve pages for the length of the block, unless ``port`` is None or -1, also under ``names``.

    Raises ``AddressUnavailable``.
    """
    if port is None or port < 0:
        yield ready
        return
    from ..net.http._server import HttpServer
    from ..net.transport._listen import listen

    with listen(host, port) as listener:
        address = f"{host}:{listener.getsockname()[1]}"
        async with trio.open_nursery() as nursery:
            await nursery.start(HttpServer(pages.routes(), [host, *names]).serve, [listener])
            facts: dict[str, Any] = {**ready.facts, "http": address}
            yield Ready((*ready.lines, f"http {address}"), facts)
            nursery.cancel_scope.cancel()
