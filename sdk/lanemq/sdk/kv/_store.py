"""The store: keys and values of one namespace."""

import os
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Literal, final

import msgspec

from lanemq.wire import RequestCode
from lanemq.wire.headers import KvGet, KvMultiGet, KvScan, KvStatus
from lanemq.wire.kv import (
    DEFAULT_NAMESPACE,
    Action,
    Entry,
    LoadedEntry,
    NamespaceStatus,
    OpType,
    Page,
    Step,
    decode_answer,
    decode_entry,
    encode_key,
    encode_load,
    encode_steps,
    namespace_problem,
)

from .._errors import check_in_trio
from ..net._acl import Credentials
from ..net._discovery import Endpoint, NameServersLike, fetch_name_servers, find_name_servers
from ..net._link import Dial
from ..net._remoting import dial_tcp, open_remoting_client
from ._calls import KvCalls
from ._checkpoint import Checkpoint
from ._errors import KvRejected
from ._lock import Lock, hold_lock
from ._results import BatchResult, CasResult
from ._watch import Watch


@final
class KeyValueStore:
    """Keys and values of one namespace, at a broker of lanemq. Made by ``open_kv_store``.

    Any number of tasks may use it at once. A call is tried again while the broker is away or
    busy, for ``timeout_s``; a write is done once all the same.
    """

    def __init__(self, calls: KvCalls) -> None:
        self._calls = calls
        self.namespace: str = calls.namespace
        """The namespace."""

    async def create(self) -> None:
        """Make the namespace, if it is missing, at the broker that the store was opened with.

        Where none was named, only a broker makes it that has never had another one beside it:
        else the namespace may be that of a broker which is down. Raises ``NoNamespace`` then,
        and as ``put``.
        """
        await self._calls.create()

    async def put(self, key: bytes, value: bytes, *, ttl_s: float | None = None) -> int:
        """Put a value, which is gone after ``ttl_s`` seconds, or stays; returns its version.

        Raises ``KvRejected`` for what breaks a limit, ``KvNotSupported``, ``KvStateLost``,
        ``NoNamespace`` where it is missing and is not made (see ``create``), and after
        ``timeout_s`` ``BrokerUnreachable``, ``RequestTimedOut`` or ``RefusedByBroker``:
        then it may have been done, or be done later.
        """
        step = Step(key, Action.PUT, value, ttl_ms=_milliseconds(ttl_s))
        answer = await self._calls.write(OpType.PUT, encode_steps([step]))
        return answer.results[0].version

    async def get(
        self, key: bytes, *, consistency: Literal["linearizable", "local"] = "linearizable"
    ) -> Entry | None:
        """Return the entry of a key; None where there is none.

        Raises ``NoNamespace``, and as ``put``.
        """
        header = KvGet(key=encode_key(key), namespace=self.namespace, consistency=consistency)
        body = await self._calls.ask(RequestCode.KV_GET, header)
        return decode_entry(body)

    async def delete(self, key: bytes) -> int:
        """Delete an entry; returns the version that is gone, 0 where there was none."""
        step = Step(key, Action.DELETE)
        answer = await self._calls.write(OpType.DELETE, encode_steps([step]))
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
        step = Step(
            key,
            Action.DELETE if value is None else Action.PUT,
            value or b"",
            ttl_ms=_milliseconds(ttl_s),
            if_version=version,
            if_value=expected,
        )
        answer = await self._calls.write(OpType.CAS, encode_steps([step]))
        return CasResult(answer.done, answer.results[0].version, answer.value)

    async def multi_get(self, keys: Sequence[bytes]) -> list[Entry | None]:
        """Return an entry, or None, for each of up to 1,024 keys. Raises as ``get``."""
        found: list[Entry | None] = []
        header = KvMultiGet(namespace=self.namespace)
        while len(found) < len(keys):
            wanted = msgspec.msgpack.encode(keys[len(found) :])
            body = await self._calls.ask(RequestCode.KV_MULTI_GET, header, wanted)
            found += decode_answer(body, list[Entry | None])
        return found

    async def batch(self, steps: Sequence[Step]) -> BatchResult:
        """Do several steps, each about another key, all or, where a condition fails, none.

        Raises as ``put``.
        """
        answer = await self._calls.write(OpType.BATCH, encode_steps(steps))
        return BatchResult(answer.done, answer.results)

    async def prefix(
        self,
        prefix: bytes = b"",
        *,
        limit: int = 1000,
        cursor: bytes | None = None,
        keys_only: bool = False,
        snapshot: str | None = None,
    ) -> Page:
        """Return a page of the entries under ``prefix``, in the order of their bytes.

        It has ``limit`` entries at most, 1,000, and a MiB; all are of one moment. Where many keys
        are gone it may have none: the last one is that without a cursor. The next page
        begins at ``page.cursor``, and may show later changes: unless this one was asked for with
        ``snapshot="new"``, and the next with ``page.snapshot``, within a minute. Raises as
        ``get``, and ``KvCompacted`` for a snapshot that is not there any more.
        """
        header = KvScan(
            prefix=encode_key(prefix),
            namespace=self.namespace,
            cursor=None if cursor is None else encode_key(cursor),
            limit=limit,
            keys_only=keys_only,
            snapshot=snapshot,
        )
        return decode_answer(await self._calls.ask(RequestCode.KV_SCAN, header), Page)

    async def status(self) -> NamespaceStatus:
        """Return what there is in the namespace, and the hash of its state. Raises as ``get``."""
        body = await self._calls.ask(RequestCode.KV_STATUS, KvStatus(self.namespace))
        (status,) = decode_answer(body, list[NamespaceStatus])
        return status

    async def load(self, entries: Sequence[LoadedEntry]) -> None:
        """Take over entries as they are, versions and times included. Raises as ``put``."""
        await self._calls.write(OpType.LOAD, encode_load(entries))

    async def clear(self) -> None:
        """Delete everything in the namespace. Raises as ``put``."""
        await self._calls.write(OpType.CLEAR, b"")

    def watch(self, prefix: bytes = b"", *, position: int | None = None) -> Watch:
        """Return the changes under ``prefix``: from ``position`` on, or from now."""
        return Watch(self._calls, prefix, position)

    def checkpoint(self, name: str) -> Checkpoint:
        """Return the checkpoint of a name."""
        return Checkpoint(self._calls, name)

    def lock(
        self, key: bytes, *, ttl_s: float = 15.0, wait_s: float | None = None
    ) -> AbstractAsyncContextManager[Lock]:
        """Hold a lock for the length of a block, for as long as this process lives.

        It is renewed by itself. Whoever dies without giving it up keeps it for ``ttl_s``
        seconds more. Nobody waits longer than ``wait_s``; None is for ever.

        Raises ``LockNotAcquired``, and ``LockLost`` at the end of the block if it was not held
        all the time: ask ``lock.is_held`` before what only the holder may do, and hand on
        ``lock.fencing`` to whom it is done to, or ``lock.check`` in a ``batch``.
        """
        return hold_lock(self._calls, key, ttl_s=ttl_s, wait_s=wait_s, owner=None)

    def leader(
        self, name: str, *, ttl_s: float = 15.0, wait_s: float | None = None, owner: bytes = b""
    ) -> AbstractAsyncContextManager[Lock]:
        """Be the leader of ``name`` for the length of a block: the lock ``leader/NAME``.

        Others see ``owner`` in the value of that key. See ``lock``.
        """
        key = b"leader/" + name.encode()
        return hold_lock(self._calls, key, ttl_s=ttl_s, wait_s=wait_s, owner=owner or None)


def _milliseconds(ttl_s: float | None) -> int:
    if ttl_s is None:
        return 0
    if not ttl_s > 0:
        raise KvRejected(f"ttl_s is {ttl_s}: it has to be above 0, or None for ever")
    return max(1, int(ttl_s * 1000))


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

    The namespace is looked for at the broker that has it, by the name servers. One that nobody
    has is made by the first write at ``broker``, by its name; see ``KeyValueStore.create`` for
    where it is made without. ``name_servers``, ``credentials`` and ``tls`` are as for producers;
    ``timeout_s`` is how long a call is tried. Raises ``KvRejected`` for a bad namespace, and
    ``ValueError`` where there is no name server.
    """
    check_in_trio()
    problem = namespace_problem(namespace)
    if problem is not None:
        raise KvRejected(problem)
    found = find_name_servers(name_servers)
    if isinstance(found, Endpoint):
        found = await fetch_name_servers(found, dial)
    async with open_remoting_client(credentials=credentials, tls=tls, dial=dial) as client:
        yield KeyValueStore(
            KvCalls(
                client,
                found,
                namespace=namespace,
                broker=broker,
                client_id=os.urandom(12).hex(),
                timeout_s=timeout_s,
            )
        )
