"""The store: keys and values of one namespace."""

import os
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Literal, final

import trio

from lanemq.wire import RequestCode
from lanemq.wire.headers import KvGet, KvScan
from lanemq.wire.kv import (
    DEFAULT_NAMESPACE,
    Action,
    Entry,
    LoadedEntry,
    NamespaceStatus,
    OpType,
    Page,
    Step,
    decode_entry,
    encode_key,
    encode_steps,
    namespace_problem,
    partition_of,
)

from .._errors import check_in_trio
from .._tasks import open_quiet_nursery
from .._values import check_seconds, check_whole
from ..net._acl import Credentials
from ..net._discovery import NameServersLike, ask_name_servers
from ..net._link import Dial
from ..net._remoting import dial_tcp, open_remoting_client
from ._checkpoint import Checkpoint
from ._lock import Lock, hold_lock
from ._numbers import check_version, encode_checked, milliseconds
from ._results import BatchResult, CasResult
from ._sums import sum_of
from ._watch import Watch
from .requests._calls import KvCalls
from .requests._creation import create_namespace
from .requests._errors import KvRejected
from .requests._pages import read_page
from .requests._split import common_partition, load_entries, read_keys


@final
class KeyValueStore:
    """Keys and values of one namespace, at brokers of lanemq. Made by ``open_kv_store``.

    Any number of tasks may use it at once. A call is tried again while the broker is away or
    busy, for ``timeout_s``; a write is done once all the same.
    """

    def __init__(self, calls: KvCalls, nursery: trio.Nursery) -> None:
        self._calls = calls
        self._nursery = nursery
        self._hold = partial(hold_lock, calls, nursery)
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

    async def partition_of(self, key: bytes) -> int:
        """Return the number of the partition that a key is in. Raises as ``get``."""
        return partition_of(key, await self._calls.sure_partitions())

    async def put(self, key: bytes, value: bytes, *, ttl_s: float | None = None) -> int:
        """Put a value, which is gone after ``ttl_s`` seconds, or stays; returns its version.

        Raises ``KvRejected`` for what breaks a limit, ``KvNotSupported``, ``KvStateLost``,
        ``NoNamespace`` where it is missing and is not made (see ``create``), and after
        ``timeout_s`` ``BrokerUnreachable``, ``RequestTimedOut`` or ``RefusedByBroker``:
        then it may have been done, or be done later.
        """
        step = Step(key, Action.PUT, value, ttl_ms=milliseconds(ttl_s))
        answer = await self._calls.write(key, OpType.PUT, encode_steps([step]))
        return answer.results[0].version

    async def get(
        self, key: bytes, *, consistency: Literal["linearizable", "local"] = "linearizable"
    ) -> Entry | None:
        """Return the entry of a key; None where there is none.

        Raises ``NoNamespace``, and as ``put``.
        """
        header = KvGet(key=encode_key(key), namespace=self.namespace, consistency=consistency)
        body = await self._calls.ask(key, RequestCode.KV_GET, header)
        return decode_entry(body)

    async def delete(self, key: bytes) -> int:
        """Delete an entry; returns the version that is gone, 0 where there was none."""
        step = Step(key, Action.DELETE)
        answer = await self._calls.write(key, OpType.DELETE, encode_steps([step]))
        return answer.results[0].version

    async def compare_and_set(
        self,
        key: bytes,
        value: bytes | None,
        *,
        version: int | None = None,
        expected: bytes | None = None,
        ttl_s: float | None = None,
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
            ttl_ms=milliseconds(ttl_s),
            if_version=version,
            if_value=expected,
        )
        answer = await self._calls.write(key, OpType.CAS, encode_steps([step]))
        return CasResult(answer.done, answer.results[0].version, answer.value)

    async def multi_get(self, keys: Sequence[bytes]) -> list[Entry | None]:
        """Return an entry, or None, for each of up to 1,024 keys. Raises as ``get``."""
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
        ``get``, and ``KvCompacted`` for a snapshot that is not there any more.

        Of several partitions it is a merge: what is of one partition is of one moment, and
        ``page.positions`` has those moments. With ``partition`` it is of that one alone; a
        snapshot of several raises ``KvRejected`` without.
        """
        check_whole("limit", limit, least=1, error=KvRejected)
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

        Those of one partition are taken over together, or not at all.
        """
        await load_entries(self._calls, entries)

    async def clear(self) -> None:
        """Delete everything in the namespace. Raises as ``put``.

        Each partition is emptied at once; after an error some may be, and others not.
        """
        calls = self._calls
        await calls.each(
            lambda one, of, attempts: calls.write_at(one, of, OpType.CLEAR, b"", attempts=attempts)
        )

    def watch(self, prefix: bytes = b"", *, position: int | Sequence[int] | None = None) -> Watch:
        """Return the changes under ``prefix``: from ``position`` on, or from now.

        Of several partitions there is a position for each, as ``page.positions`` and
        ``Watch.position`` have them; the changes of each partition come in its order.
        """
        return Watch(self._calls, self._nursery, prefix, position)

    def checkpoint(self, name: str) -> Checkpoint:
        """Return the checkpoint of a name."""
        return Checkpoint(self._calls, name)

    def lock(
        self, key: bytes, *, ttl_s: float = 15.0, wait_s: float | None = None
    ) -> AbstractAsyncContextManager[Lock]:
        """Hold a lock for the length of a block, for as long as this process lives.

        It is renewed by itself. Whoever dies without giving it up keeps it for ``ttl_s``
        seconds more. It is waited for until ``wait_s`` is over; None is for ever. One attempt is
        always made, and takes as long as a request may: 0 is that one alone.

        Raises ``LockNotAcquired``, as ``put`` if no attempt was answered, and ``LockLost`` at the
        end of the block if it was not held all the time: ask ``lock.is_held`` before what only the
        holder may do, and hand on ``lock.fencing`` to whom it is done to, or ``lock.check`` in a
        ``batch``.
        """
        return self._hold(key, ttl_s=ttl_s, wait_s=wait_s, owner=None)

    def leader(
        self, name: str, *, ttl_s: float = 15.0, wait_s: float | None = None, owner: bytes = b""
    ) -> AbstractAsyncContextManager[Lock]:
        """Hold the leadership of ``name`` for the length of a block: the lock ``leader/NAME``.

        Others see ``owner`` in the value of that key. See ``lock``.
        """
        key = b"leader/" + name.encode()
        return self._hold(key, ttl_s=ttl_s, wait_s=wait_s, owner=owner or None)


@asynccontextmanager
async def open_kv_store(
    *,
    namespace: str = DEFAULT_NAMESPACE,
    name_servers: NameServersLike = None,
    broker: str | None = None,
    timeout_s: float = 15.0,
    credentials: Credentials | None = None,
    tls: ssl.SSLContext | None = None,
    dial: Dial = dial_tcp,
) -> AsyncIterator[KeyValueStore]:
    """Open the store of a namespace; leaving the block closes its connections.

    The namespace is looked for at the brokers that have it, by the name servers. One that nobody
    has is made by the first write at ``broker``, by its name; see ``KeyValueStore.create`` for
    where it is made without, and for partitions. One that is elsewhere raises ``NoNamespace``.
    ``name_servers``, ``credentials`` and ``tls`` are as for producers;
    ``timeout_s`` is how long a call is tried. Raises ``KvRejected`` for a bad namespace, and
    ``ValueError`` where there is no name server.
    """
    check_in_trio()
    check_seconds("timeout_s", timeout_s, zero=True, error=KvRejected)
    problem = namespace_problem(namespace)
    if problem is not None:
        raise KvRejected(problem)
    found = await ask_name_servers(name_servers, dial)
    async with (
        open_remoting_client(credentials=credentials, tls=tls, dial=dial) as client,
        open_quiet_nursery() as nursery,
    ):
        calls = KvCalls(
            client,
            found,
            namespace=namespace,
            broker=broker,
            client_id=os.urandom(12).hex(),
            timeout_s=timeout_s,
        )
        try:
            yield KeyValueStore(calls, nursery)
        finally:
            nursery.cancel_scope.cancel()
