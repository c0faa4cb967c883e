"""Helpers of tests of keys in several partitions."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from lanemq.sdk.kv import KeyValueStore, open_kv_store
from lanemq.wire.kv import partition_of

from .kv import KvCluster


def key_in(partition: int, partitions: int, name: str = "k") -> bytes:
    """Return a key that begins with ``name`` and belongs to a partition."""
    numbers = (f"{name}{number}".encode() for number in range(10_000))
    return next(key for key in numbers if partition_of(key, partitions) == partition)


@asynccontextmanager
async def opened(kv: KvCluster, **settings: Any) -> AsyncIterator[KeyValueStore]:  # noqa: ANN401 - they are the store's
    """Open a store at a cluster in memory."""
    async with open_kv_store(name_servers=kv.name_servers, dial=kv.dial, **settings) as store:
        yield store
