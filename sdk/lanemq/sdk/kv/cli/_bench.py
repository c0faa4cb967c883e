"""The command bench: how fast a running broker answers puts, compare-and-sets and gets."""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import cycle
from time import perf_counter
from typing import Final

import click
import trio

from lanemq.wire.kv import VALUE_BYTES_MAX

from ..._errors import LanemqError
from ..._tasks import gather
from ...admin.cli.command._seconds import Seconds
from .._store import KeyValueStore
from ..requests._errors import KvRejected
from ._command import Output, kv_command

OPERATIONS: Final = ("put", "cas", "get")
KEYS_OF_EACH: Final = 10
CLIENTS_MAX: Final = 1000
SECONDS_MAX: Final = 3600.0
CLEANING_S: Final = 30.0
"""Seconds in which the keys are deleted at the end; what is left is under the prefix."""
PAGE_KEYS: Final = 1000


@kv_command("bench")
@click.option(
    "--operation",
    "operations",
    type=click.Choice(OPERATIONS),
    multiple=True,
    help="What to measure; several, each by an option.  [default: all, one after another]",
)
@click.option(
    "--clients",
    type=click.IntRange(1, CLIENTS_MAX),
    default=1,
    show_default=True,
    help="Clients at once; each waits for an answer before it asks again.",
)
@click.option(
    "--seconds",
    "seconds_s",
    type=Seconds(most_s=SECONDS_MAX),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="Time for each operation.",
)
@click.option(
    "--value-bytes",
    type=click.IntRange(0, VALUE_BYTES_MAX),
    default=100,
    show_default=True,
    help="Length of the values.",
)
@click.option("--prefix", default="bench/", show_default=True, help="Beginning of the keys.")
async def bench(
    store: KeyValueStore,
    output: Output,
    *,
    operations: tuple[str, ...],
    clients: int,
    seconds_s: float,
    value_bytes: int,
    prefix: str,
) -> int:
    """Measure how fast the broker answers, in this process and over one connection.

    Each client has keys of its own under the prefix, which are deleted at the end. Printed are the
    answers in a second, and the times within which half of them, and 99 of 100, came.
    """
    begin = output.bytes_of(prefix, "prefix") + secrets.token_hex(4).encode() + b"/"
    value = secrets.token_bytes(value_bytes)
    keys = [
        [b"%s%d/%d" % (begin, client, number) for number in range(KEYS_OF_EACH)]
        for client in range(clients)
    ]
    versions: dict[bytes, int] = {}
    try:
        await gather([partial(_fill, store, mine, value, versions) for mine in keys])
        for operation in operations or OPERATIONS:
            took_s = await _measure(store, operation, keys, value, seconds_s, versions)
            _print(output, operation, clients, seconds_s, took_s)
    finally:
        with trio.move_on_after(CLEANING_S, shield=True):
            await _clean(store, begin)
    return 0


async def _fill(
    store: KeyValueStore, keys: Sequence[bytes], value: bytes, versions: dict[bytes, int]
) -> None:
    for key in keys:
        versions[key] = await store.put(key, value)


async def _measure(
    store: KeyValueStore,
    operation: str,
    keys: Sequence[Sequence[bytes]],
    value: bytes,
    seconds_s: float,
    versions: dict[bytes, int],
) -> list[float]:
    """Return the seconds that each call took which ended in time."""
    took_s: list[float] = []

    async def put(key: bytes) -> None:
        versions[key] = await store.put(key, value)

    async def cas(key: bytes) -> None:
        result = await store.compare_and_set(key, value, version=versions[key])
        if not result.done:
            raise KvRejected("somebody else has changed keys of this measurement")
        versions[key] = result.version

    async def get(key: bytes) -> None:
        if await store.get(key) is None:
            raise KvRejected("somebody else has deleted keys of this measurement")

    call = {"put": put, "cas": cas, "get": get}[operation]
    end_s = perf_counter() + seconds_s
    await gather([partial(_repeat, call, mine, end_s, took_s) for mine in keys])
    return took_s


async def _repeat(
    call: Callable[[bytes], Awaitable[None]],
    keys: Sequence[bytes],
    end_s: float,
    took_s: list[float],
) -> None:
    """Call until ``end_s``. The last call is waited for, and not counted: a put that is given up on
    its way would be done in the next measurement."""
    for key in cycle(keys):
        since_s = perf_counter()
        await call(key)
        now_s = perf_counter()
        if now_s > end_s:
            return
        took_s.append(now_s - since_s)


async def _clean(store: KeyValueStore, begin: bytes) -> None:
    try:
        cursor = None
        while True:
            page = await store.prefix(begin, keys_only=True, cursor=cursor, limit=PAGE_KEYS)
            for entry in page.entries:
                await store.delete(entry.key)
            if page.cursor is None:
                return
            cursor = page.cursor
    except LanemqError:
        return  # what kept it from the keys was raised before, or will be at the next call


def _print(
    output: Output, operation: str, clients: int, seconds_s: float, took_s: list[float]
) -> None:
    took_s.sort()
    half_ms, most_ms = (
        round(took_s[int(len(took_s) * part)] * 1000, 3) if took_s else None for part in (0.5, 0.99)
    )
    rate = round(len(took_s) / seconds_s, 1)
    output.value(
        {
            "operation": operation,
            "clients": clients,
            "seconds": seconds_s,
            "count": len(took_s),
            "rate": rate,
            "p50_ms": half_ms,
            "p99_ms": most_ms,
        }
    )
    told = f"half within {half_ms} ms, 99 of 100 within {most_ms} ms" if took_s else "no answer"
    named = f"{clients} client{'' if clients == 1 else 's'}"
    output.line(f"{operation}: {rate:,.0f}/s, {told}, {named}".encode())
