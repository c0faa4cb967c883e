"""Commands about leases: grant, keep-alive, revoke, ttl, list."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import click

from lanemq.local import print_line
from lanemq.wire.kv import LEASE_MAX, LeaseStatus

from ...admin.cli.command._seconds import Seconds
from .._numbers import TTL_S_MAX
from .._store import KeyValueStore
from ..requests._errors import NoLease
from ._command import EXIT_NO, Output, kv_command

NUMBER: Final = click.IntRange(1, LEASE_MAX)
OF_ANY: Final = click.option(
    "--of-any",
    is_flag=True,
    help="Of any account; that takes the right to all keys.",
)
T = TypeVar("T")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def lease() -> None:
    """Grant leases, keep them alive, and end them.

    Keys that are put with --lease are there as long as their lease. LEASE is its number. Exit
    status 1: there is no such lease.
    """


@kv_command("grant")
@click.option(
    "--ttl",
    "ttl_s",
    type=Seconds(most_s=TTL_S_MAX),
    required=True,
    metavar="SECONDS",
    help="Time that it lasts without being kept alive.",
)
@click.option("--id", "number", type=NUMBER, help="Its number.  [default: a new one]")
async def grant(store: KeyValueStore, output: Output, *, ttl_s: float, number: int | None) -> int:
    """Grant a lease, and print its number."""
    granted = await store.grant_lease(ttl_s, lease=number)
    output.value({"lease": granted, "ttl_ms": round(ttl_s * 1000)})
    output.line(b"%d" % granted)
    return 0


@kv_command("keep-alive")
@click.argument("number", metavar="LEASE", type=NUMBER)
@OF_ANY
async def keep_alive(store: KeyValueStore, output: Output, *, number: int, of_any: bool) -> int:
    """Let the whole time of a lease begin again, once."""
    ask = store.keep_lease_alive
    if await _found(number, lambda: _done(ask(number, of_any=of_any))) is None:
        return EXIT_NO
    output.value({"lease": number})
    output.line(f"lease {number} is kept alive".encode())
    return 0


@kv_command("revoke")
@click.argument("number", metavar="LEASE", type=NUMBER)
@OF_ANY
async def revoke(store: KeyValueStore, output: Output, *, number: int, of_any: bool) -> int:
    """End a lease; its keys are deleted."""
    ask = store.revoke_lease
    if await _found(number, lambda: _done(ask(number, of_any=of_any))) is None:
        return EXIT_NO
    output.value({"lease": number})
    output.line(f"lease {number} is revoked".encode())
    return 0


@kv_command("ttl")
@click.argument("number", metavar="LEASE", type=NUMBER)
@OF_ANY
async def ttl(store: KeyValueStore, output: Output, *, number: int, of_any: bool) -> int:
    """Print the time that a lease has left, and its keys, one in each line."""
    status = await _found(number, lambda: store.lease_status(number, of_any=of_any))
    if status is None:
        return EXIT_NO
    output.value({**_named(status), "keys": list(status.keys)})
    output.line(_line(status))
    for key in status.keys:
        output.line(output.written_key(key))
    return 0


@kv_command("list")
@OF_ANY
async def list_leases(store: KeyValueStore, output: Output, *, of_any: bool) -> int:
    """Print the leases of the account that asks, in the order of their numbers."""
    for status in await store.leases(of_any=of_any):
        output.value(_named(status))
        output.line(_line(status))
    return 0


async def _found(number: int, ask: Callable[[], Awaitable[T]]) -> T | None:
    """Return what ``ask`` returns; None, and a line that says why, without the lease."""
    try:
        return await ask()
    except NoLease:
        print_line(f"there is no lease {number} of this account", err=True)
        return None


async def _done(asked: Awaitable[None]) -> bool:
    await asked
    return True


def _named(status: LeaseStatus) -> dict[str, object]:
    names = ("lease", "ttl_ms", "left_ms", "count")
    return {name: getattr(status, name) for name in names}


def _line(status: LeaseStatus) -> bytes:
    keys = f"{status.count} key{'' if status.count == 1 else 's'}"
    left_s, ttl_s = status.left_ms / 1000, status.ttl_ms / 1000
    return f"lease {status.lease}: {left_s:g} s left of {ttl_s:g} s, {keys}".encode()


for _command in (grant, keep_alive, revoke, ttl, list_leases):
    lease.add_command(_command)
