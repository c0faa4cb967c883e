"""The common parts of ``lanemq kv``: options, bytes in and out, errors, exit status."""

import base64
import binascii
import json
import os
import sys
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final, NoReturn, final

import click
import trio

from lanemq.local import print_json, print_line
from lanemq.local.cli import CommandFailed, advised
from lanemq.wire import ProtocolError, show_bytes
from lanemq.wire.kv import DEFAULT_NAMESPACE, Change, ChangeKind, Entry

from ..._errors import InvalidName, LanemqError
from ...admin.cli.command._access import (
    NO_NAME_SERVERS,
    access_options,
    name_servers_option,
    take_access,
    take_name_servers,
)
from ...admin.cli.command._seconds import Seconds
from .._open import open_kv_store
from ..requests._errors import KvStateLost, NamespaceSplit, NoLease, NoNamespace

EXIT_NO: Final = 1
EXIT_FAILED: Final = 2
KINDS: Final = {ChangeKind.PUT: "put", ChangeKind.DELETE: "delete", ChangeKind.EXPIRE: "expire"}
ADVICE: Final = {
    NamespaceSplit: "`lanemq kv export --namespace {namespace} --broker {last} FILE` keeps what one"
    " has, and `lanemq kv delete --namespace {namespace} --broker {last}` removes it",
    NoNamespace: "`lanemq kv create --namespace {namespace} --broker NAME` makes it at a broker;"
    " `lanemq admin forgetBroker -b NAME` gives up a broker that will not come back",
    KvStateLost: "`lanemq kv import --replace FILE` imports a snapshot",
}
Body = Callable[..., Awaitable[int]]
"""A command: gets the store and an ``Output``, and returns the exit status."""


class Failed(CommandFailed):
    """The command failed: one line, and exit status 2."""

    exit_code = EXIT_FAILED


@final
class Output:
    """The forms in which bytes are read and written, and the place of results."""

    def __init__(self, *, as_hex: bool, as_base64: bool, as_json: bool) -> None:
        if as_hex and as_base64:
            raise click.UsageError("--hex and --base64 are two ways to write the same bytes")
        self._hex = as_hex
        self._base64 = as_base64
        self.json = as_json

    def bytes_of(self, text: str, what: str = "key") -> bytes:
        """Read bytes of the command line. Raises ``click.UsageError``."""
        try:
            if self._hex:
                return bytes.fromhex(text)
            if self._base64:
                return base64.b64decode(text, validate=True)
        except (ValueError, binascii.Error) as error:
            form = "hexadecimal" if self._hex else "base64"
            raise click.UsageError(f"the {what} {text!r} is not {form}: {error}") from error
        return os.fsencode(text)

    def written(self, data: bytes) -> bytes:
        """Write bytes in the form that was asked for."""
        if self._hex:
            return data.hex().encode()
        return base64.b64encode(data) if self._base64 else data

    def written_key(self, key: bytes) -> bytes:
        """Write a key so that no two are written alike, and a blank ends each.

        In text a backslash is doubled; a blank, and what cannot be printed, is written as the
        hexadecimal numbers of its bytes.
        """
        if self._hex or self._base64:
            return self.written(key)
        return "".join(map(_key_character, key.decode("utf-8", "surrogateescape"))).encode()

    def line(self, *parts: bytes) -> None:
        """Write parts, with a blank between, as a line; nothing with ``--json``.

        Keys and values are shown: what is no text, or would forge a line, is escaped.
        """
        if not self.json:
            print_line(b" ".join(parts).decode("utf-8", "backslashreplace"), whole=True)

    def raw(self, data: bytes) -> None:
        """Write bytes as they are, but on a terminal as they can be shown."""
        if sys.stdout.isatty():
            sys.stdout.write("\n".join(show_bytes(part, None) for part in data.split(b"\n")))
            return
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def value(self, value: object) -> None:
        """Write a JSON value as a line; nothing without ``--json``. Bytes are in base64."""
        if self.json:
            print_json(json.dumps(value, default=_plain))


def _key_character(one: str) -> str:
    if one == "\\":
        return one * 2
    if one.isprintable() and one != " ":
        return one
    return "".join(f"\\x{byte:02x}" for byte in one.encode("utf-8", "surrogateescape"))


def _plain(value: object) -> object:
    assert isinstance(value, bytes)
    return base64.b64encode(value).decode()


def entry_value(entry: Entry) -> dict[str, object]:
    """Return an entry for ``Output.value``."""
    fields = {name: getattr(entry, name) for name in entry.__struct_fields__}
    return {**fields, "revision": entry.revision}


def change_value(change: Change, *, of_several: bool) -> dict[str, object]:
    """Return a change for ``Output.value``; ``of_several`` partitions it says of which."""
    partition = {"partition": change.partition} if of_several else {}
    return {
        "kind": KINDS[change.kind],
        "key": change.key,
        "value": change.value,
        "version": change.version,
        "position": change.position,
        "revision": change.revision,
        **partition,
    }


def kv_command(name: str, *, own: Collection[str] = ()) -> Callable[[Body], click.Command]:
    """Make a click command of a coroutine function; its docstring is the help.

    Of the common options those in ``own`` are the command's: it has them itself.
    """

    def make(body: Body) -> click.Command:
        def callback(**options: Any) -> None:  # noqa: ANN401  # click passes what it parsed
            sys.exit(_run(body, options))

        params = list(reversed(getattr(body, "__click_params__", [])))
        return click.Command(
            name,
            params=[
                *params,
                *(option for option in _shared() if option.name not in own),
                *access_options(),
            ],
            callback=callback,
            help=body.__doc__,
            context_settings={"help_option_names": ["-h", "--help"]},
        )

    return make


def _shared() -> list[click.Parameter]:
    return [
        name_servers_option("-n", "--namesrvAddr"),
        click.Option(
            ["--namespace"],
            envvar="LANEMQ_KV_NAMESPACE",
            show_envvar=True,
            default=DEFAULT_NAMESPACE,
            show_default=True,
            help="The namespace.",
        ),
        click.Option(
            ["--broker"], metavar="NAME", help="A broker that has, or is to have, the namespace."
        ),
        click.Option(["--hex", "as_hex"], is_flag=True, help="Keys and values in hexadecimal."),
        click.Option(["--base64", "as_base64"], is_flag=True, help="Keys and values in base64."),
        click.Option(["--json", "as_json"], is_flag=True, help="Print JSON; bytes in base64."),
        click.Option(
            ["--timeout", "timeout_s"],
            type=Seconds(),
            default=15.0,
            show_default=True,
            metavar="SECONDS",
            help="Time to try each request.",
        ),
    ]


def _run(body: Body, options: dict[str, Any]) -> int:
    try:
        name_servers = take_name_servers(options)
    except InvalidName as error:
        _fail(str(error))
    access = take_access(options)
    namespace, broker = options.pop("namespace"), options.pop("broker", None)
    timeout_s = options.pop("timeout_s")
    output = Output(**{name: options.pop(name) for name in ("as_hex", "as_base64", "as_json")})
    if not name_servers.replace(";", "").strip():
        _fail(NO_NAME_SERVERS)

    async def main() -> int:
        async with open_kv_store(
            namespace=namespace,
            name_servers=name_servers,
            broker=broker,
            timeout_s=timeout_s,
            credentials=access.credentials,
            tls=access.tls,
        ) as store:
            return await body(store, output, **options)

    try:
        return trio.run(main)
    except NoLease as error:
        print_line(str(error), err=True)
        return EXIT_NO
    except (LanemqError, ProtocolError) as error:
        _fail(advised(error, ADVICE))
    except BrokenPipeError:
        return EXIT_FAILED
    except OSError as error:
        where = f"{error.filename}: " if error.filename is not None else ""
        _fail(f"{where}{error.strerror or error}")
    except KeyboardInterrupt:
        return EXIT_FAILED


def _fail(text: str) -> NoReturn:
    raise Failed(text)
