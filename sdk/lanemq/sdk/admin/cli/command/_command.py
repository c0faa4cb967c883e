"""Common parts of the commands of ``lanemq admin``: name server, output, errors, exit status.

A command is a coroutine function. It gets an open ``AdminClient`` and an ``Output``, and
returns the value that ``--json`` prints.
"""

import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from difflib import get_close_matches
from functools import partial
from typing import Any, Final, NoReturn

import click
import msgspec
import trio

from lanemq.local import print_block, print_json, print_line
from lanemq.local.cli import CommandFailed, advised
from lanemq.wire import ProtocolError, fastjson

from ...._errors import BrokerUnreachable, InvalidName, LanemqError, NoRoute, RequestTimedOut
from ...._values import shown, utf8_bytes
from ..._client import AdminClient, open_admin
from ..._dead_letters import DeadLettersUnreadable
from ._access import (
    NO_NAME_SERVERS,
    Access,
    access_options,
    name_servers_option,
    take_access,
    take_name_servers,
)
from ._seconds import Seconds

ADVICE: Final = {
    NoRoute: "`lanemq admin topicList` shows the topics there are, `lanemq admin updateTopic` makes"
    " one",
    RequestTimedOut: "--timeout allows it more time",
    DeadLettersUnreadable: "`lanemq admin updateTopic -t '{topic}' -p 6` does",
}
# Names that were announced for a command before it came out under another.
OTHER_NAMES = {"diffconsumequeue": "checkRocksdbCqWriteProgress"}
Body = Callable[..., Awaitable[object]]
Opener = Callable[[str | None], AbstractAsyncContextManager[AdminClient]]
"""Connects; a broker's address does for commands that ask no name server."""


class Output:
    """The output of a command; under ``--json`` its text goes nowhere."""

    def __init__(self, *, json: bool) -> None:
        self.json = json

    def line(self, text: str = "", *, whole: bool = False) -> None:
        """Write one line of the text form, without the blanks that columns leave at its end.

        What peers chose is escaped; a long line is cut, unless the user wants the ``whole``.
        """
        if not self.json:
            print_line(text.rstrip(" "), whole=whole)

    def block(self, text: str) -> None:
        """Write lines of the text form, such as JSON over several lines."""
        if not self.json:
            print_block(text)

    def value(self, value: object) -> None:
        """Write a whole value; the text form writes nothing."""
        if self.json:
            data = fastjson.dumps(value, standard=True)
            print_json(msgspec.json.format(data, indent=2))


def command(
    name: str, *, connects_itself: bool = False, n_is_taken: bool = False
) -> Callable[[Body], click.Command]:
    """Make a click command of a coroutine function; its docstring is the help.

    One that ``connects_itself`` gets an ``Opener`` in place of the client: it may work without
    any name server, or on files alone. ``n_is_taken`` leaves the short option ``-n`` to the
    command: the name servers then have the long ones, and the environment.
    """

    def make(body: Body) -> click.Command:
        def callback(**options: Any) -> None:  # noqa: ANN401  # click passes what it parsed
            run(body, options, connects_itself=connects_itself)

        params = list(reversed(getattr(body, "__click_params__", [])))
        return Command(
            name,
            params=[*params, *_shared(n_is_taken=n_is_taken)],
            callback=callback,
            help=body.__doc__,
            context_settings={"help_option_names": ["-h", "--help"]},
        )

    return make


def _shared(*, n_is_taken: bool) -> list[click.Parameter]:
    short = [] if n_is_taken else ["-n"]
    return [
        name_servers_option(*short, "--namesrvAddr", "--nameserverAddr"),
        click.Option(["--json", "json"], is_flag=True, help="Print a JSON value."),
        click.Option(
            ["--timeout", "timeout_s"],
            type=Seconds(),
            default=5.0,
            show_default=True,
            metavar="SECONDS",
            help="Time to wait for each answer.",
        ),
        *access_options(),
    ]


class BadUsage(click.UsageError):
    """A wrong option or command. Its exit status is 1, as that of all other errors here."""

    exit_code = 1


class Command(click.Command):
    """A command whose usage errors end with status 1, as all its other errors do."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            rest = super().parse_args(ctx, args)
        except click.UsageError as error:
            raise BadUsage(printable(error.format_message()), ctx) from None
        for param in self.params:
            value = ctx.params.get(param.name or "")
            if not isinstance(param.type, click.Path | click.File):
                _check_encodable(param, value, ctx)
        return rest


def _check_encodable(param: click.Parameter, value: object, ctx: click.Context) -> None:
    """Refuse bytes of the command line that are not UTF-8, but in names of files."""
    if isinstance(value, tuple | list):
        for one in value:
            _check_encodable(param, one, ctx)
    elif isinstance(value, str) and utf8_bytes(value) is None:
        raise BadUsage(f"{param.opts[0]}: {shown(value)} is not a text in UTF-8", ctx)


def printable(text: str) -> str:
    """Return a text that any terminal can show: half surrogates become escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


class Commands(click.Group):
    """The group: names in any case, as mqadmin's, and a hint at the nearest one."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        wanted = cmd_name.lower()
        wanted = OTHER_NAMES.get(wanted, wanted).lower()
        for name, found in self.commands.items():
            if name.lower() == wanted:
                return found
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        found = self.get_command(ctx, name)
        if found is not None:
            return found.name, found, args[1:]
        lowered = {known.lower(): known for known in self.commands}
        near = [lowered[match] for match in get_close_matches(name.lower(), lowered, n=1)]
        hint = f"did you mean {near[0]}?" if near else "see `lanemq admin --help`"
        raise BadUsage(f"unknown command {name!r}: {hint}", ctx)


def fail(text: str) -> NoReturn:
    """End the command with ``text`` on standard error and status 1."""
    raise CommandFailed(printable(text))


def run(body: Body, options: dict[str, Any], *, connects_itself: bool = False) -> None:
    """Run a command's coroutine to its end; every foreseen error becomes one line."""
    output = Output(json=options.pop("json"))
    try:
        name_servers = take_name_servers(options)
        access = take_access(options)
    except click.UsageError as error:
        fail(error.format_message())
    except InvalidName as error:
        fail(str(error))
    opener = partial(_opened, name_servers, options.pop("timeout_s"), access)
    running: Callable[[], Awaitable[object]]
    if connects_itself:
        running = partial(body, opener, output, **options)
    else:
        _require(name_servers)
        running = partial(_run, body, output, opener, options)
    try:
        value = trio.run(running)
    except BrokerUnreachable as error:
        fail(f"cannot reach {error.address}: {error.reason}; is it running, is the address right?")
    except (LanemqError, ProtocolError) as error:
        fail(advised(error, ADVICE))
    except KeyboardInterrupt:
        sys.exit(os.EX_OK)  # clusterList -i runs until the user stops it
    output.value(value)


def _require(name_servers: str) -> None:
    if not name_servers.replace(";", "").strip():
        fail(NO_NAME_SERVERS)


def _opened(
    name_servers: str, timeout_s: float, access: Access, broker: str | None = None
) -> AbstractAsyncContextManager[AdminClient]:
    if broker is None:
        _require(name_servers)
    return open_admin(
        name_servers=name_servers or broker,
        timeout_s=timeout_s,
        credentials=access.credentials,
        tls=access.tls,
    )


async def _run(body: Body, output: Output, opener: Opener, options: dict[str, Any]) -> object:
    async with opener(None) as admin:
        return await body(admin, output, **options)


async def chosen_masters(admin: AdminClient, broker: str | None, cluster: str | None) -> list[str]:
    """Return the masters that ``-b`` or ``-c`` names; exactly one of the two is given."""
    if (broker is None) == (cluster is None):
        fail("give either -b BROKER_ADDRESS or -c CLUSTER_NAME (`clusterList` shows both)")
    if broker is not None:
        return [broker.strip()]
    assert cluster is not None
    return await admin.masters(cluster.strip())
