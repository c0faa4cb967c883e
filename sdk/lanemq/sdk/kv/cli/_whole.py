"""Commands about a namespace as a whole: scan, hash, status."""

import click

from lanemq.wire.kv import PAGE_ENTRIES_MAX, NamespaceStatus

from .._store import KeyValueStore
from .._sums import sum_of
from ..requests._errors import KvRejected
from ._command import Output, entry_value, kv_command


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

    In a key a backslash is printed twice, and a blank, or bytes that cannot be printed, as their
    hexadecimal numbers behind a backslash and an x.

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
            limit=PAGE_ENTRIES_MAX if left is None else min(left, PAGE_ENTRIES_MAX),
            partition=partition,
        )
        for entry in page.entries:
            output.value(entry_value(entry))
            key = output.written_key(entry.key)
            output.line(key, *(() if keys_only else (output.written(entry.value),)))
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
    if not found.state_hash:
        raise KvRejected("the hash is shown to those who may read all keys of the namespace")
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
    """Print the content of the namespace; of several partitions the sums, and each of them.

    position is the revision; changes of the history are kept, from revision changes_from on; lag
    is the number of records that the log has and the state has not.
    """
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


@kv_command("namespaces")
async def namespaces(store: KeyValueStore, output: Output) -> int:
    """Print all namespaces, each with its identity, its partitions, and its brokers.

    Name servers remember the brokers, also while these are away. A name that is there twice has
    two lines: lanemq kv delete --namespace NAME --broker BROKER deletes one of them.
    """
    places = await store.namespaces()
    for one in places:
        output.value({name: getattr(one, name) for name in one.__slots__})
        brokers = [*one.brokers, *(f"{name} (away)" for name in one.away)]
        identity = one.identity or "-"
        parts = f"{one.partitions} partition{'s' if one.partitions > 1 else ''}"
        text = f"{one.namespace} {identity} {parts} at {', '.join(brokers)}"
        output.line(text.encode())
    return 0


def _named(status: NamespaceStatus) -> dict[str, object]:
    named = {name: getattr(status, name) for name in status.__struct_fields__}
    return {**named, "lag": status.end - status.position}


def _table(parts: list[NamespaceStatus]) -> list[str]:
    names = ("partition", "broker", "entries", "bytes", "position", "lag", "leases", "state")
    rows = [names]
    rows += [
        (
            str(one.partition),
            one.broker,
            str(one.entries),
            str(one.entry_bytes),
            str(one.position),
            str(one.end - one.position),
            str(one.leases),
            "lost" if one.lost else "open" if one.is_open else "moving",
        )
        for one in parts
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
