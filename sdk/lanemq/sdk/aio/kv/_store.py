"""Generated from lanemq.sdk.kv._store by sdk/tools/generate_faces.py."""

from collections.abc import Sequence
from typing import Literal, final

from lanemq.wire.kv import Entry, LoadedEntry, NamespaceStatus, Page, Step

from ...kv import _store as _core
from ...kv._results import BatchResult, CasResult
from ...kv.requests._namespaces import NamespaceInfo
from .._bridge import Bridge
from ._held import Checkpoint, Watch
from ._leases import KeyLeases
from ._ranges import KeyRanges
from ._transactions import KeyTransactions


@final
class KeyValueStore(KeyTransactions, KeyRanges, KeyLeases):
    """Keys and values of one namespace, at brokers of lanemq. Made by ``open_kv_store``.

    Any number of tasks may use it at once. A call is tried again while the broker is away or
    busy, for ``timeout_s``; a write is done once all the same.
    """

    def __init__(self, core: _core.KeyValueStore, bridge: Bridge) -> None:
        self._core = core
        self._bridge = bridge
        self.namespace: str = core.namespace
        """The namespace."""

    async def close(self) -> None:
        """Close this client as the end of its `async with` block does; a repeat is harmless."""
        await self._bridge.close()

    async def create(self, partitions: int | None = None, brokers: Sequence[str] = ()) -> None:
        """Make the namespace, if it is missing, at the broker that the store was opened with.

        Where none was named, only a broker makes it that has never had another one beside it:
        else the namespace may be that of a broker which is down. Raises ``NoNamespace`` then,
        and as ``put``.

        ``partitions`` is their number, up to 64, in turn at each of ``brokers``. That may be done
        again after an error: partitions that are there stay where they are. Their number
        never changes: raises ``KvRejected`` where there are more or fewer. Without, a new one has
        one partition, and one that is there may have any number.
        """
        await self._bridge.call(self._core.create, partitions, brokers)

    async def delete_namespace(self) -> None:
        """Delete the namespace with everything in it, for good.

        Its entries, locks and positions are gone, and its watches end with ``NoNamespace``. The
        name can be used again: by ``create``, or by a write where a first write creates it. After
        an error some partitions may be deleted: the same call deletes the others. Raises
        ``NoNamespace`` if there is none, and as ``put``.
        """
        await self._bridge.call(self._core.delete_namespace)

    async def namespaces(self) -> list[NamespaceInfo]:
        """Return all namespaces of the cluster with their brokers, as name servers remember them.

        One that is there twice by an error has two places. Raises as ``put``, where no name
        server answers.
        """
        return await self._bridge.call(self._core.namespaces)

    async def partition_of(self, key: bytes) -> int:
        """Return the number of the partition that a key is in. Raises as ``get``."""
        return await self._bridge.call(self._core.partition_of, key)

    async def put(
        self, key: bytes, value: bytes, *, ttl_s: float | None = None, lease: int | None = None
    ) -> int:
        """Put a value; returns its version. It is gone after ``ttl_s`` seconds, or with the lease
        of that number, or stays.

        Raises ``NoLease`` for a lease that is not there, ``KvRejected`` for what breaks a limit,
        ``KvNotSupported``, ``KvStateLost``, ``NoNamespace`` where it is missing and is not made
        (see ``create``), and after ``timeout_s`` ``BrokerUnreachable``, ``RequestTimedOut`` or
        ``RefusedByBroker``: then it may have been done, or be done later.
        """
        return await self._bridge.call(self._core.put, key, value, ttl_s=ttl_s, lease=lease)

    async def get(
        self, key: bytes, *, consistency: Literal["linearizable", "local"] = "linearizable"
    ) -> Entry | None:
        """Return the entry of a key; None where there is none.

        Raises ``NoNamespace``, and as ``put``.
        """
        return await self._bridge.call(self._core.get, key, consistency=consistency)

    async def delete(self, key: bytes) -> int:
        """Delete an entry; returns the version that is gone, 0 where there was none."""
        return await self._bridge.call(self._core.delete, key)

    async def compare_and_set(
        self,
        key: bytes,
        value: bytes | None,
        *,
        version: int | None = None,
        expected: bytes | None = None,
        ttl_s: float | None = None,
        lease: int | None = None,
    ) -> CasResult:
        """Put a value (None deletes) if the entry has a version, or a value.

        ``version`` 0 is that there is no entry. One of ``version`` and ``expected`` has to be
        given. Raises as ``put``.
        """
        return await self._bridge.call(
            self._core.compare_and_set,
            key,
            value,
            version=version,
            expected=expected,
            ttl_s=ttl_s,
            lease=lease,
        )

    async def multi_get(self, keys: Sequence[bytes]) -> list[Entry | None]:
        """Return an entry, or None, for each of up to 1,024 keys. Raises as ``get``."""
        return await self._bridge.call(self._core.multi_get, keys)

    async def batch(self, steps: Sequence[Step]) -> BatchResult:
        """Do several steps, each about another key, all or, where a condition fails, none.

        Raises ``KvRejected`` where the keys are in several partitions, and as ``put``.
        """
        return await self._bridge.call(self._core.batch, steps)

    async def prefix(
        self,
        prefix: bytes = b"",
        *,
        limit: int = 1000,
        cursor: bytes | None = None,
        keys_only: bool = False,
        snapshot: str | None = None,
        partition: int | None = None,
    ) -> Page:
        """Return a page of the entries under ``prefix``, in the order of their bytes.

        It has ``limit`` entries at most, from 1 to 1,000, and a MiB; all are of one moment. Where
        many keys are gone it may have none: the last one is that without a cursor. The next page
        begins at ``page.cursor``, and may show later changes: unless this one was asked for with
        ``snapshot="new"``, and the next with ``page.snapshot``, within a minute. Raises as
        ``get``, and ``KvCompacted`` for a snapshot that is no longer there.

        Of several partitions it is a merge: what is of one partition is of one moment, and
        ``page.positions`` has those moments. With ``partition`` it is of that one alone; a
        snapshot of several raises ``KvRejected`` without.
        """
        return await self._bridge.call(
            self._core.prefix,
            prefix,
            limit=limit,
            cursor=cursor,
            keys_only=keys_only,
            snapshot=snapshot,
            partition=partition,
        )

    async def status(self) -> NamespaceStatus:
        """Return numbers of entries and bytes, and the hash of the state. Raises as ``get``.

        Of several partitions it has the sums, and a hash of their hashes.
        """
        return await self._bridge.call(self._core.status)

    async def statuses(self) -> list[NamespaceStatus]:
        """Return the same of each partition, in their order. Raises as ``get``."""
        return await self._bridge.call(self._core.statuses)

    async def load(self, entries: Sequence[LoadedEntry]) -> None:
        """Take over entries as they are, versions and times included. Raises as ``put``.

        Those of one partition are taken over together, or not at all; they are 1,024 at most, and
        4 MiB.
        """
        await self._bridge.call(self._core.load, entries)

    async def clear(self) -> None:
        """Delete everything in the namespace. Raises as ``put``.

        Each partition is emptied at once; after an error some may be, and others not.
        """
        await self._bridge.call(self._core.clear)

    def watch(
        self,
        prefix: bytes = b"",
        *,
        key: bytes | None = None,
        position: int | Sequence[int] | None = None,
        previous: bool = False,
        progress_s: float | None = None,
    ) -> Watch:
        """Return the changes under ``prefix``, or of one ``key``: from ``position`` on, or from
        now.

        With ``previous`` each change has the entry before it. With ``progress_s`` there is one of
        kind ``ChangeKind.PROGRESS`` after so many seconds without any: all changes before its
        position have come. These three need a broker of this version (``KvNotSupported``).

        Of several partitions there is a position for each, as ``page.positions`` and
        ``Watch.position`` have them; the changes of each partition come in its order.
        """
        return Watch(
            self._bridge.run(
                self._core.watch,
                prefix,
                key=key,
                position=position,
                previous=previous,
                progress_s=progress_s,
            ),
            self._bridge,
        )

    def checkpoint(self, name: str) -> Checkpoint:
        """Return the checkpoint of a name."""
        return Checkpoint(self._bridge.run(self._core.checkpoint, name), self._bridge)
