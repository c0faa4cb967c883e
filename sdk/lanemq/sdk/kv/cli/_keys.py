"""Commands about single keys: create, get, put, delete, cas."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

from lanemq.local import print_line
from lanemq.wire import LONG_MAX
from lanemq.wire.kv import LEASE_MAX, PARTITIONS_MAX

from ...admin.cli.command._seconds import Seconds
from .._numbers import TTL_S_MAX
from .._store import KeyValueStore
from ._command import EXIT_NO, Output, entry_value, kv_command
from ._positions import Positions

LEASE: Final = click.option(
    "--lease",
    type=click.IntRange(1, LEASE_MAX),
    help="Gone with this lease (see: lanemq kv lease).",
)


def value_of(text: str, output: Output) -> bytes:
    """Read a value: ``-`` is standard input, ``@FILE`` a file, as they are."""
    if text == "-":
        return sys.stdin.buffer.read()
    if text.startswith("@"):
        return Path(text[1:]).read_bytes()
    return output.bytes_of(text, "value")


@kv_command("get")
@click.argument("key")
@click.option("--raw", is_flag=True, help="Print the value without a line break behind it.")
@click.option("--local", is_flag=True, help="Do not insist on the latest value.")
@click.option("--revision", type=Positions(), help="As it was at that revision.")
async def get(
    store: KeyValueStore,
    output: Output,
    *,
    key: str,
    raw: bool,
    local: bool,
    revision: tuple[int, ...] | None,
) -> int:
    """Print the value of a key.

    It is that of now, or of --revision, as far as the history is known. Of several partitions a
    revision is N,N,...
    """
    name, then = output.bytes_of(key), ""
    if revision is not None:
        if local:
            raise click.UsageError("the past is in the history: give --local or --revision")
        page = await store.range(name, name + b"\x00", revision=revision)
        entry = next(iter(page.entries), None)
        then = f" at revision {','.join(map(str, revision))}"
    else:
        entry = await store.get(name, consistency="local" if local else "linearizable")
    if entry is None:
        output.value(None)
        print_line(f"there is no key {key!r} in namespace {store.namespace}{then}", err=True)
        return EXIT_NO
    output.value(entry_value(entry))
    if not output.json:
        output.raw(output.written(entry.value) + (b"" if raw else b"\n"))
    return 0


@kv_command("put")
@click.argument("key")
@click.argument("value")
@click.option(
    "--ttl", "ttl_s", type=Seconds(most_s=TTL_S_MAX), metavar="SECONDS", help="Gone after so long."
)
@LEASE
async def put(
    store: KeyValueStore,
    output: Output,
    *,
    key: str,
    value: str,
    ttl_s: float | None,
    lease: int | None,
) -> int:
    """Put a value; VALUE may be - for standard input, or @FILE. Prints the version."""
    version = await store.put(
        output.bytes_of(key), value_of(value, output), ttl_s=ttl_s, lease=lease
    )
    output.value({"version": version})
    output.line(b"version %d" % version)
    return 0


@kv_command("create", own=["broker"])
@click.option(
    "--partitions",
    type=click.IntRange(1, PARTITIONS_MAX),
    help="Number of partitions.  [default: 1]",
)
@click.option(
    "--broker",
    "brokers",
    multiple=True,
    metavar="NAME",
    help="A broker that is to have it. Several, each by an option, get partitions in turn.",
)
async def create(
    store: KeyValueStore, output: Output, *, partitions: int | None, brokers: tuple[str, ...]
) -> int:
    """Make the namespace at the broker --broker, if it is missing.

    Writes make it as well where --broker is given, or where the broker has never had another one
    beside it. One of several partitions is made only here: that may be done again until all are
    there, and leaves those alone that are. Their number never changes.
    """
    await store.create(partitions, brokers)
    output.value({"namespace": store.namespace})
    output.line(f"namespace {store.namespace} is there".encode())
    return 0


@kv_command("delete")
@click.argument("key", required=False)
@click.option("--yes", is_flag=True, help="Delete the namespace without a question.")
async def delete(store: KeyValueStore, output: Output, *, key: str | None, yes: bool) -> int:
    """Delete a key; without KEY the whole namespace that --namespace names, for good.

    A namespace is deleted after a confirmation, or with --yes; its name can be used again. If one
    of its partitions cannot be reached, the same command deletes the rest later.
    """
    if key is None:
        return await _delete_namespace(store, output, yes=yes)
    version = await store.delete(output.bytes_of(key))
    output.value({"existed": version > 0, "version": version})
    if not version:
        print_line(f"there is no key {key!r} in namespace {store.namespace}", err=True)
        return EXIT_NO
    output.line(b"deleted version %d" % version)
    return 0


async def _delete_namespace(store: KeyValueStore, output: Output, *, yes: bool) -> int:
    source = click.get_current_context().get_parameter_source("namespace")
    if source is not ParameterSource.COMMANDLINE:
        raise click.UsageError(
            "give a KEY to delete; or --namespace NAME, to delete that namespace with all its keys"
        )
    status = await store.status()
    if not yes:
        at = f" at {status.broker}" if status.broker else ""
        question = (
            f"Delete namespace {store.namespace}{at} with its {status.entries:,} entries for good?"
        )
        click.confirm(question, abort=True, err=True)
    await store.delete_namespace()
    output.value({"namespace": store.namespace, "entries": status.entries})
    output.line(f"namespace {store.namespace} is deleted, with {status.entries:,} entries".encode())
    return 0


@kv_command("cas")
@click.argument("key")
@click.argument("value", required=False)
@click.option(
    "--version", type=click.IntRange(0, LONG_MAX), help="Version that it must have; 0: no entry."
)
@click.option("--expected", metavar="VALUE", help="Value that it must have.")
@click.option("--delete", "deletes", is_flag=True, help="Delete it rather than put a value.")
@click.option(
    "--ttl", "ttl_s", type=Seconds(most_s=TTL_S_MAX), metavar="SECONDS", help="Gone after so long."
)
@LEASE
async def cas(
    store: KeyValueStore,
    output: Output,
    *,
    key: str,
    value: str | None,
    version: int | None,
    expected: str | None,
    deletes: bool,
    ttl_s: float | None,
    lease: int | None,
) -> int:
    """Put a value, or delete, if the key has a version or a value (compare and set)."""
    if deletes == (value is not None):
        raise click.UsageError("give a VALUE, or --delete")
    if version is None and expected is None:
        raise click.UsageError("give --version or --expected to compare with")
    result = await store.compare_and_set(
        output.bytes_of(key),
        None if value is None else value_of(value, output),
        version=version,
        expected=None if expected is None else output.bytes_of(expected, "value"),
        ttl_s=ttl_s,
        lease=lease,
    )
    output.value(asdict(result))
    if result.done:
        output.line(b"%s %d" % (b"deleted version" if deletes else b"version", result.version))
        return 0
    there = f"it has version {result.version}" if result.version else "it does not exist"
    print_line(f"nothing was done to {key!r}: {there}", err=True)
    return EXIT_NO
