"""Generated from lanemq.sdk.kv by sdk/tools/generate_faces.py."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Literal, final

from lanemq.wire.kv import Change, Entry, LoadedEntry, NamespaceStatus, Page, Step

from ...kv import _checkpoint as _core_checkpoint
from ...kv import _lock as _core_lock
from ...kv import _store as _core_store
from ...kv import _watch as _core_watch
from ...kv._results import BatchResult, CasResult
from .._bridge import Bridge


@final
class Checkpoint:
    """A value under ``checkpoint/NAME``, saved by one worker at a time. Made by ``checkpoint``.

    A worker that was replaced, and does not know it, cannot overwrite what its successor saved.
    """

    def __init__(self, core: _core_checkpoint.Checkpoint, bridge: Bridge) -> None:
        self._core = core
        self._bridge = bridge
        self.name: str = core.name
        """Its name."""

    def load(self) -> bytes | None:
        """Return the value that was saved last; None before the first.

        A namespace that is missing is made first, since it may be another broker's that is down:
        what cannot be read is not nothing. Raises as ``KeyValueStore.put``.
        """
        return self._bridge.call(self._core.load)

    def save(self, value: bytes) -> None:
        """Replace the value that this worker loaded or saved last; without either, load first.

        Raises ``CheckpointMoved`` where somebody else saved meanwhile, and as
        ``KeyValueStore.put``.
        """
        self._bridge.call(self._core.save, value)


@final
class Lock:
    """A lock that is held, as far as its holder can know. Made by ``lock`` and ``leader``."""

    def __init__(self, core: _core_lock.Lock, bridge: Bridge) -> None:
        self._core = core
        self._bridge = bridge
        self.key: bytes = core.key
        """The key of the entry that is the lock."""
        self.fencing: int = core.fencing
        """A number that goes with the lock: every later holder has a higher one.

        In a namespace of one partition, so has every later holder of any lock there. Whoever is
        asked on behalf of the lock can refuse a lower number than the highest seen.
        """
        self.check: Step = core.check
        """A condition for a batch: its other steps are done only while the lock is held.

        In a namespace of several partitions, their keys have to be in that of the lock.
        """

    @property
    def is_held(self) -> bool:
        """True while it is held: it was renewed in time, and nobody removed it."""
        return self._core.is_held


@final
class Watch:
    """The changes under a prefix, from a position on; none is left out. Made by ``watch``.

    It waits for changes with a request at a time to each partition, goes on after a broker was
    away, and costs nothing while nobody reads it. ``for`` gives one change after another,
    without an end; those of a partition are in its order.
    """

    def __init__(self, core: _core_watch.Watch, bridge: Bridge) -> None:
        self._core = core
        self._bridge = bridge

    @property
    def position(self) -> int | tuple[int, ...] | None:
        """The position to go on from, for another ``watch``; None before the first change.

        Of a change of a batch it is that of the whole batch, whose other changes come again. Of
        several partitions it has the position of each.
        """
        return self._core.position

    def __iter__(self) -> "Watch":
        return self

    def __next__(self) -> Change:
        """Return the next change, as soon as there is one.

        Raises ``KvCompacted`` where it is not known any more, ``KvRejected`` where it was not
        given a position for each partition, and as ``KeyValueStore.get``.
        """
        return self._bridge.take(self._core._give_back, self._core.__anext__)


@final
class KeyValueStore:
    """Keys and values of one namespace, at brokers of lanemq. Made by ``open_kv_store``.

    Any number of threads may use it at once. A call is tried again while the broker is away or
    busy, for ``timeout_s``; a write is done once all the same.
    """

    def __init__(self, core: _core_store.KeyValueStore, bridge: Bridge) -> None:
        self._core = core
        self._bridge = bridge
        self.namespace: str = core.namespace
        """The namespace."""

    def close(self) -> None:
        """Close this client as the end of its `with` block does; a repeat is harmless."""
        self._bridge.close()

    def create(self, partitions: int | None = None, brokers: Sequence[str] = ()) -> None:
        """Make the namespace, if it is missing, at the broker that the store was opened with.

        Where none was named, only a broker makes it that has never had another one beside it:
        else the namespace may be that of a broker which is down. Raises ``NoNamespace`` then,
        and as ``put``.

        ``partitions`` is their number, up to 64, in turn at each of ``brokers``. That may be done
        again after an error: partitions that are there stay where they are. Their number
        never changes: raises ``KvRejected`` where there are more or fewer. Without, a new one has
        one partition, and one that is there may have any number.
        """
        self._bridge.call(self._core.create, partitions, brokers)

    def partition_of(self, key: bytes) -> int:
        """Return the number of the partition that a key is in. Raises as ``get``."""
        return self._bridge.call(self._core.partition_of, key)

    def put(self, key: bytes, value: bytes, *, ttl_s: float | None = None) -> int:
        """Put a value, which is gone after ``ttl_s`` seconds, or stays; returns its version.

        Raises ``KvRejected`` for what breaks a limit, ``KvNotSupported``, ``KvStateLost``,
        ``NoNamespace`` where it is missing and is not made (see ``create``), and after
        ``timeout_s`` ``BrokerUnreachable``, ``RequestTimedOut`` or ``RefusedByBroker``:
        then it may have been done, or be done later.
        """
        return self._bridge.call(self._core.put, key, value, ttl_s=ttl_s)

    def get(
        self, key: bytes, *, consistency: Literal["linearizable", "local"] = "linearizable"
    ) -> Entry | None:
        """Return the entry of a key; None where there is none.

        Raises ``NoNamespace``, and as ``put``.
        """
        return self._bridge.call(self._core.get, key, consistency=consistency)

    def delete(self, key: bytes) -> int:
        """Delete an entry; returns the version that is gone, 0 where there was none."""
        return self._bridge.call(self._core.delete, key)

    def compare_and_set(
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
        return self._bridge.call(
            self._core.compare_and_set, key, value, version=version, expected=expected, ttl_s=ttl_s
        )

    def multi_get(self, keys: Sequence[bytes]) -> list[Entry | None]:
        """Return an entry, or None, for each of up to 1,024 keys. Raises as ``get``."""
        return self._bridge.call(self._core.multi_get, keys)

    def batch(self, steps: Sequence[Step]) -> BatchResult:
        """Do several steps, each about another key, all or, where a condition fails, none.

        Raises ``KvRejected`` where the keys are in several partitions, and as ``put``.
        """
        return self._bridge.call(self._core.batch, steps)

    def prefix(
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
        return self._bridge.call(
            self._core.prefix,
            prefix,
            limit=limit,
            cursor=cursor,
            keys_only=keys_only,
            snapshot=snapshot,
            partition=partition,
        )

    def status(self) -> NamespaceStatus:
        """Return numbers of entries and bytes, and the hash of the state. Raises as ``get``.

        Of several partitions it has the sums, and a hash of their hashes.
        """
        return self._bridge.call(self._core.status)

    def statuses(self) -> list[NamespaceStatus]:
        """Return the same of each partition, in their order. Raises as ``get``."""
        return self._bridge.call(self._core.statuses)

    def load(self, entries: Sequence[LoadedEntry]) -> None:
        """Take over entries as they are, versions and times included. Raises as ``put``.

        Those of one partition are taken over together, or not at all.
        """
        self._bridge.call(self._core.load, entries)

    def clear(self) -> None:
        """Delete everything in the namespace. Raises as ``put``.

        Each partition is emptied at once; after an error some may be, and others not.
        """
        self._bridge.call(self._core.clear)

    def watch(self, prefix: bytes = b"", *, position: int | Sequence[int] | None = None) -> Watch:
        """Return the changes under ``prefix``: from ``position`` on, or from now.

        Of several partitions there is a position for each, as ``page.positions`` and
        ``Watch.position`` have them; the changes of each partition come in its order.
        """
        return Watch(self._bridge.run(self._core.watch, prefix, position=position), self._bridge)

    def checkpoint(self, name: str) -> Checkpoint:
        """Return the checkpoint of a name."""
        return Checkpoint(self._bridge.run(self._core.checkpoint, name), self._bridge)

    def lock(
        self, key: bytes, *, ttl_s: float = 15.0, wait_s: float | None = None
    ) -> AbstractContextManager[Lock]:
        """Hold a lock for the length of a block, for as long as this process lives.

        It is renewed by itself. Whoever dies without giving it up keeps it for ``ttl_s``
        seconds more. It is waited for until ``wait_s`` is over; None is for ever. One attempt is
        always made, and takes as long as a request may: 0 is that one alone.

        Raises ``LockNotAcquired``, as ``put`` if no attempt was answered, and ``LockLost`` at the
        end of the block if it was not held all the time: ask ``lock.is_held`` before what only the
        holder may do, and hand on ``lock.fencing`` to whom it is done to, or ``lock.check`` in a
        ``batch``.
        """
        return self._bridge.open(Lock, self._core.lock, key, ttl_s=ttl_s, wait_s=wait_s)

    def leader(
        self, name: str, *, ttl_s: float = 15.0, wait_s: float | None = None, owner: bytes = b""
    ) -> AbstractContextManager[Lock]:
        """Hold the leadership of ``name`` for the length of a block: the lock ``leader/NAME``.

        Others see ``owner`` in the value of that key. See ``lock``.
        """
        return self._bridge.open(
            Lock, self._core.leader, name, ttl_s=ttl_s, wait_s=wait_s, owner=owner
        )
