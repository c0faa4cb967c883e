"""Entries of keys and values, loaded into a namespace through its broker."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar, final

import trio

from lanemq.sdk import LanemqError
from lanemq.sdk.kv import (
    KeyValueStore,
    KvStateLost,
    LoadedEntry,
    NoNamespace,
    open_kv_store,
)
from lanemq.wire.kv import LOAD_ENTRIES_MAX

from .._errors import SourceError
from ._cluster import Cluster

T = TypeVar("T")
LOAD_BYTES: Final = 1 << 20
ENTRY_BYTES: Final = 64
"""Bytes of an entry beside its key and value."""


@final
@dataclass(frozen=True)
class KvLoad:
    """A load of a namespace; goes to any process. To load an entry again changes nothing."""

    cluster: Cluster
    namespace: str
    broker: str | None = None

    def prepare(self, *, replace: bool) -> None:
        """Make sure that the namespace is empty. Raises ``SourceError`` where it is not."""
        self._run(partial(self._prepare, replace=replace))

    async def _prepare(self, store: KeyValueStore, *, replace: bool) -> None:
        try:
            entries = (await store.status()).entries
        except NoNamespace:  # as one broker knows it: another that starts may have entries
            await store.create()
            entries = (await store.status()).entries
        except KvStateLost:
            if not replace:
                raise
            entries = 1
        if entries and not replace:
            raise SourceError(
                f"namespace {self.namespace} is not empty; `replace` empties it before the import"
            )
        if entries:
            await store.clear()

    def entries(self) -> int:
        """Return how many entries the namespace has."""
        return self._run(_count)

    def load(self, rows: Iterable[Any]) -> list[int]:
        """Load rows, whose times are milliseconds since 1970, and return their number.

        Raises ``SourceError``.
        """
        return [self._run(partial(_load, rows=rows))]

    def _run(self, ask: Callable[[KeyValueStore], Awaitable[T]]) -> T:
        async def run() -> T:
            async with self._open() as store:
                return await ask(store)

        try:
            return trio.run(run)
        except LanemqError as error:
            raise SourceError(f"namespace {self.namespace}: {error}") from error

    def _open(self) -> AbstractAsyncContextManager[KeyValueStore]:
        return open_kv_store(
            namespace=self.namespace,
            name_servers=self.cluster.name_server,
            broker=self.broker,
            credentials=self.cluster.credentials,
            tls=self.cluster.tls_context(),
        )


async def _count(store: KeyValueStore) -> int:
    return (await store.status()).entries


async def _load(store: KeyValueStore, *, rows: Iterable[Any]) -> int:
    waiting: list[LoadedEntry] = []
    count = size = 0
    for row in rows:
        entry = LoadedEntry(
            bytes(row["key"]),
            bytes(row["value"]),
            row["version"],
            row["createTimestamp"],
            row["updateTimestamp"],
            row["expireTimestamp"] or 0,
        )
        size_bytes = ENTRY_BYTES + len(entry.key) + len(entry.value)
        is_full = size + size_bytes > LOAD_BYTES or len(waiting) == LOAD_ENTRIES_MAX
        if waiting and is_full:
            await store.load(waiting)
            waiting, size = [], 0
        waiting.append(entry)
        size += size_bytes
        count += 1
    if waiting:
        await store.load(waiting)
    return count
