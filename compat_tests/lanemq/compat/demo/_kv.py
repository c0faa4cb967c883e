"""The part of the demo that keeps small state in the broker."""

from collections.abc import Mapping
from typing import Final

from rich.console import Console
from rich.table import Table

from lanemq.sdk.kv import open_kv_store

from ..servers._clusters import Cluster

NAMESPACE: Final = "demo"

Kept = Mapping[str, tuple[str, bool]]
"""Steps of the demo -> the result of each, and whether it was right."""


async def keep_state(cluster: Cluster) -> Kept:
    """Put, compare and set, lock, and watch."""
    async with open_kv_store(namespace=NAMESPACE, name_servers=cluster.name_server) as store:
        await store.put(b"greeting", b"hello")
        first = await store.get(b"greeting")
        version = first.version if first is not None else 0
        mine = await store.compare_and_set(b"greeting", b"good day", version=version)
        late = await store.compare_and_set(b"greeting", b"too late", version=version)
        async with store.lock(b"nightly", ttl_s=30) as lock:
            before = lock.fencing
        async with store.lock(b"nightly", ttl_s=30) as lock:
            fencing = before, lock.fencing
        seen: list[bytes] = []
        async for change in store.watch(b"greeting", position=0):
            seen.append(change.value or b"")
            if len(seen) == 2:
                break
    return {
        "put, get": (f"version {version}", version == 1),
        "compare and set, twice": (
            f"{'done' if mine.done else 'refused'}, {'done' if late.done else 'refused'}",
            mine.done and not late.done,
        ),
        "a lock's fencing number": ("grows", True)
        if fencing[1] > fencing[0]
        else (f"{fencing[0]}, then {fencing[1]}", False),
        "a watch from the begin": (b", ".join(seen).decode(), seen == [b"hello", b"good day"]),
    }


def show_kept(console: Console, kept: Kept) -> None:
    """Print the events as a table."""
    table = Table("keys and values", "Python SDK")
    for what, (came, is_right) in kept.items():
        table.add_row(what, came if is_right else f"[red]{came}[/]")
    console.print(table)
