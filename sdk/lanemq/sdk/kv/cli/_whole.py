"""Commands about a namespace as a whole: scan, hash, status."""

from typing import Final

import click

from lanemq.wire.kv import NamespaceStatus

from .._store import KeyValueStore
from .._sums import sum_of
from ._command import Output, entry_value, kv_command

PAGE_ENTRIES: Final = 1000


@kv_command("scan")
@click.argument("prefix", default="")
@click.option("--limit", type=click.IntRange(min=1), help="Number of entries at most.")
@click.option("--keys-only", is_flag=True, help="No values.")
@click.option("--partition", type=click.IntRange(min=0), help="Of this partition alone.")
async def scan(
    store: KeyValueStore,
    output: Output,
    *,
    prefix: str,
    limit: int | None,
    keys_only: bool,
    partition: int | None,
) -> int:
    """Print the entries under a prefix, in the order of bytes: a key and its value in each line.

    All are of one moment; in a namespace of several partitions those of one --partition are.
    """
    is_one = partition is not None or (await store.status()).partitions == 1
    cursor, snapshot, left = None, "new" if is_one else None, limit
    while left is None or left > 0:
        page = await store.prefix(
            output.bytes_of(prefix, "prefix"),
            cursor=cursor,
            keys_only=keys_only,
            snapshot=snapshot,
            limit=PAGE_ENTRIES if left is None else left,
            partition=partition,
        )
        for entry in page.entries:
            output.value(entry_value(entry))
            parts = (entry.key,) if keys_only else (entry.key, entry.value)
            output.line(*map(output.written, parts))
        if page.cursor is None or (is_one and page.snapshot is None):
            return 0
        cursor, snapshot = page.cursor, page.snapshot
        left = None if left is None else left - len(page.entries)
    return 0


@kv_command("hash")
async def hash_command(store: KeyValueStore, output: Output) -> int:
    """Print the hash of the state, and how many records of the log are in it.

    The same records give the same hash, at any broker and on any engine. Of several partitions
    it is a hash of theirs, which come in the lines behind it.
    """
    parts = await store.statuses()
    found = sum_of(parts)
    named: dict[str, object] = {"hash": found.state_hash, "position": found.position}
    if len(parts) > 1:
        named["by_partition"] = [
            {"partition": one.partition, "hash": one.state_hash, "position": one.position}
            for one in parts
        ]
    output.value(named)
    output.line(found.state_hash.encode(), b"%d" % found.position)
    for one in parts if len(parts) > 1 else ():
        output.line(b"partition %d:" % one.partition, one.state_hash.encode(), b"%d" % one.position)
    return 0


@kv_command("status")
async def status(store: KeyValueStore, output: Output) -> int:
    """Print the content of the namespace; of several partitions the sums, and each of them."""
    parts = await store.statuses()
    named = _named(sum_of(parts))
    if len(parts) > 1:
        del named["partition"]
    several = {"by_partition": [_named(one) for one in parts]} if len(parts) > 1 else {}
    output.value({**named, **several})
    for name, value in named.items():
        output.line(f"{name}:".ljust(14).encode() + str(value).encode())
    for line in _table(parts) if len(parts) > 1 else ():
        output.line(line.encode())
    return 0


def _named(status: NamespaceStatus) -> dict[str, object]:
    return {name: getattr(status, name) for name in status.__struct_fields__}


def _table(parts: list[NamespaceStatus]) -> list[str]:
    rows = [("partition", "broker", "entries", "bytes", "position", "state")]
    rows += [
        (
            str(one.partition),
            one.broker,
            str(one.entries),
            str(one.entry_bytes),
            str(one.position),
            "lost" if one.lost else "open" if one.is_open else "moving",
        )
        for one in parts
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
