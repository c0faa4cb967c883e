"""The store: keys and values of one namespace."""

from collections.abc import Sequence
from functools import partial
from typing import Literal, final

import trio

from lanemq.wire import RequestCode
from lanemq.wire.headers import KvGet, KvScan
from lanemq.wire.kv import (
    OPERATION_BYTES_MAX,
    PAGE_ENTRIES_MAX,
    Action,
    Entry,
    LoadedEntry,
    NamespaceStatus,
    OpType,
    Page,
    Step,
    decode_entry,
    encode_key,
    partition_of,
)

from .._values import check_whole
from ._checkpoint import Checkpoint
from ._lease import Lease
from ._leases import KeyLeases
from ._numbers import check_bytes, check_key, check_version, encode_checked, life
from ._ranges import KeyRanges
from ._results import BatchResult, CasResult
from ._sums import sum_of
from ._transactions import KeyTransactions
from ._watch import Watch, wanted_by
from .requests._calls import KvCalls
from .requests._creation import create_namespace
from .requests._deletion import delete_namespace
from .requests._errors import KvRejected
from .requests._long_values import compare_long
from .requests._namespaces import NamespaceInfo, find_namespaces
from .requests._pages import read_page
from .requests._split import common_partition, load_entries, read_keys, write_to_all


@final
class KeyValueStore(KeyTransactions, KeyRanges, KeyLeases):
    """Keys and values of one namespace, at brokers of lanemq. Made by ``open_kv_store``.

    Any number of tasks may use it at once. A call is tried again while the broker is away or
    busy, for ``timeout_s``; a write is done once all the same.
    """

    def __init__(self, calls: KvCalls, nursery: trio.Nursery) -> None:
        self._calls = calls
        self._nursery = nursery
        self._leases: dict[int, Lease] = {}
        self.namespace: str = calls.namespace
        """The namespace."""

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
        await create_namespace(self._calls, partitions, brokers)

    async def delete_namespace(self) -> None:
        """Delete the namespace with everything in it, for good.

        Its entries, locks and positions are gone, and its watches end with ``NoNamespace``. The
        name can be used again: by ``create``, or by a write where a first write creates it. After
        an error some partitions may be deleted: the same call deletes the others. Raises
        ``NoNamespace`` if there is none, and as ``put``.
        """
        await delete_namespace(self._calls)

    async def namespaces(self) -> list[NamespaceInfo]:
        """Return all namespaces of the cluster with their brokers, as name servers remember them.

        One that is there twice by an error has two places. Raises as ``put``, where no name
        server answers.
        """
        return await find_namespaces(self._calls)

    async def partition_of(self, key: bytes) -> int:
        """Return the number of the partition that a key is in. Raises as ``get``."""
        check_key(key)
        return partition_of(key, await self._calls.sure_partitions())

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
        step = Step(key, Action.PUT, value, ttl_ms=life(ttl_s, lease))
        answer = await self._calls.write(key, OpType.PUT, encode_checked([step]))
        return answer.results[0].version

    async def get(
        self, key: bytes, *, consistency: Literal["linearizable", "local"] = "linearizable"
    ) -> Entry | None:
        """Return the entry of a key; None where there is none.

        Raises ``NoNamespace``, and as ``put``.
        """
        check_key(key)
        header = KvGet(key=encode_key(key), namespace=self.namespace, consistency=consistency)
        body = await self._calls.ask(key, RequestCode.KV_GET, header)
        return decode_entry(body)

    async def delete(self, key: bytes) -> int:
        """Delete an entry; returns the version that is gone, 0 where there was none."""
        step = Step(key, Action.DELETE)
        answer = await self._calls.write(key, OpType.DELETE, encode_checked([step]))
        return answer.results[0].version

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
        if version is None and expected is None:
            raise KvRejected("compare_and_set needs version= or expected= to compare with")
        check_version("version", version)
        step = Step(
            key,
            Action.DELETE if value is None else Action.PUT,
            value or b"",
            ttl_ms=life(ttl_s, lease),
            if_version=version,
            if_value=expected,
        )
        body = encode_checked([step])
        if expected is not None and len(body) > OPERATION_BYTES_MAX:
            answer = await compare_long(self._calls, step)
        else:
            answer = await self._calls.write(key, OpType.CAS, body)
        return CasResult(answer.done, answer.results[0].version, answer.value)

    async def multi_get(self, keys: Sequence[bytes]) -> list[Entry | None]:
        """Return an entry, or None, for each of up to 1,024 keys. Raises as ``get``."""
        for key in keys:
            check_key(key)
        return await read_keys(self._calls, keys)

    async def batch(self, steps: Sequence[Step]) -> BatchResult:
        """Do several steps, each about another key, all or, where a condition fails, none.

        Raises ``KvRejected`` where the keys are in several partitions, and as ``put``.
        """
        keys = [step.key for step in steps]
        chosen = partial(common_partition, keys)
        answer = await self._calls.write_chosen(chosen, OpType.BATCH, encode_checked(steps))
        return BatchResult(answer.done, answer.results)

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
        check_whole("limit", limit, least=1, most=PAGE_ENTRIES_MAX, error=KvRejected)
        check_bytes("a prefix", prefix)
        if cursor is not None:
            check_bytes("a cursor", cursor)
        header = KvScan(
            prefix=encode_key(prefix),
            namespace=self.namespace,
            cursor=None if cursor is None else encode_key(cursor),
            limit=limit,
            keys_only=keys_only,
            snapshot=snapshot,
        )
        return await read_page(self._calls, header, partition)

    async def status(self) -> NamespaceStatus:
        """Return numbers of entries and bytes, and the hash of the state. Raises as ``get``.

        Of several partitions it has the sums, and a hash of their hashes.
        """
        return sum_of(await self.statuses())

    async def statuses(self) -> list[NamespaceStatus]:
        """Return the same of each partition, in their order. Raises as ``get``."""
        calls = self._calls
        return await calls.each(
            lambda one, of, attempts: calls.status_at(one, of, attempts=attempts)
        )

    async def load(self, entries: Sequence[LoadedEntry]) -> None:
        """Take over entries as they are, versions and times included. Raises as ``put``.

        Those of one partition are taken over together, or not at all; they are 1,024 at most, and
        4 MiB.
        """
        await load_entries(self._calls, entries)

    async def clear(self) -> None:
        """Delete everything in the namespace. Raises as ``put``.

        Each partition is emptied at once; after an error some may be, and others not.
        """
        await write_to_all(self._calls, OpType.CLEAR)

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
        wanted = wanted_by(prefix, key, previous=previous, progress_s=progress_s)
        return Watch(self._calls, self._nursery, wanted, position)

    def checkpoint(self, name: str) -> Checkpoint:
        """Return the checkpoint of a name."""
        return Checkpoint(self._calls, name)
