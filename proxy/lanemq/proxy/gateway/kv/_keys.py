"""Keys over an upstream cluster, for the proxy itself.

``get`` is what this proxy has applied, ``read`` is linearizable. A write returns once it is
applied; a condition that did not hold changes nothing. All proxies of a cluster have the same
entries, in the order of one log.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, final

import trio

from lanemq.storage.kv import Outcome, Status, read_entry, read_page
from lanemq.wire.kv import (
    Action,
    OpType,
    Step,
    check_step,
    encode_steps,
    partition_of,
)

from ._located import LogLocation
from ._log import PartitionLog
from ._snapshot_writer import SnapshotWriter
from ._watch import KeyEntry, KeyWatch

SNAPSHOTS: Final = "%SNAPSHOTS%"
"""Follows the prefix in the names of topics that have the snapshots. No namespace begins so."""
TIMEOUT_S: Final = 15.0
CALL_S: Final = 3.0


class KeysUnavailable(Exception):  # noqa: N818 - says what happened
    """A call was not done in time. The text says why; a write may have been done all the same."""


class PartitionStatus(NamedTuple):
    """The place of one proxy in the log of a partition. Positions count records."""

    partition: int
    applied: int
    """Number of records that are applied."""
    end: int
    """The end of the log, by the last answer of its broker."""
    snapshot: int | None
    """Number of records that the latest snapshot has; None without one."""
    problem: str
    """The reason why nothing is served; empty if all is well."""

    @property
    def lag(self) -> int:
        """Number of records that are in the log, and not applied."""
        return max(0, self.end - self.applied)


@contextmanager
def in_time(log: PartitionLog, timeout_s: float) -> Iterator[None]:
    """Limit the time of a block. Raises ``KeysUnavailable``, which says what the log waits for."""
    try:
        with trio.fail_after(timeout_s):
            yield
    except trio.TooSlowError:
        why = log.follower.why or "its broker does not take, or not show, the record"
        raise KeysUnavailable(f"keys {log.name}: not yet: {why}") from None


@final
class UpstreamKeys:
    """The keys of one namespace, over one queue of a topic for each partition."""

    def __init__(
        self,
        logs: Sequence[PartitionLog],
        writers: Sequence[SnapshotWriter],
        *,
        timeout_s: float = TIMEOUT_S,
        places: Sequence[LogLocation] = (),
    ) -> None:
        """``places`` are where the logs are, and their snapshots."""
        self.logs = logs
        self.writers = writers
        """The writers of snapshots, by partition."""
        self._timeout_s = timeout_s
        self._places = places

    async def run(self) -> None:
        """Follow the logs, and write snapshots, until cancelled."""
        async with trio.open_nursery() as nursery:
            for log in self.logs:
                nursery.start_soon(log.run)
            for writer in self.writers:
                nursery.start_soon(writer.run)
            for place in self._places:
                nursery.start_soon(place.keep_noted)

    def log_of(self, name: bytes) -> PartitionLog:
        """Return the partition of a key."""
        return self.logs[partition_of(name, len(self.logs))]

    def get(self, name: bytes) -> KeyEntry | None:
        """Return an entry as far as this proxy knows; None where there is none."""
        entry = read_entry(self.log_of(name).state, name)
        return None if entry is None else KeyEntry(entry.value, entry.version)

    def position_of(self, name: bytes) -> int:
        """Return the number of records of the log up to the one that put an entry, as far as this
        proxy knows; 0 where there is none."""
        entry = read_entry(self.log_of(name).state, name)
        return 0 if entry is None else entry.revision

    async def read(self, name: bytes) -> KeyEntry | None:
        """Return an entry with all writes that were answered before the call, by any proxy.

        Raises ``KeysUnavailable``.
        """
        log = self.log_of(name)
        with in_time(log, self._timeout_s):
            await log.current()
        return self.get(name)

    async def put(
        self, name: bytes, value: bytes, *, expected: int | None = None, ttl_s: float = 0.0
    ) -> int | None:
        """Put an entry, and return its version; None where it has not the version ``expected``.

        ``expected`` 0 is for an entry that is not there, None for any; without ``ttl_s`` seconds
        it stays for ever. Raises ``KeysUnavailable``, ``RemoteProtocolError`` for what breaks a
        limit, and ``TooLong`` for what the upstream broker does not take.
        """
        step = Step(name, Action.PUT, value, round(ttl_s * 1000), expected)
        outcome = await self._write(OpType.PUT if expected is None else OpType.CAS, step)
        return outcome.answer.results[0].version if outcome.answer.done else None

    async def delete(self, name: bytes, *, expected: int | None = None) -> bool:
        """Delete an entry; returns False where it has not the version ``expected``.

        Raises as ``put``.
        """
        step = Step(name, Action.DELETE, if_version=expected)
        outcome = await self._write(OpType.DELETE if expected is None else OpType.CAS, step)
        return outcome.answer.done

    async def _write(self, op_type: str, step: Step) -> Outcome:
        check_step(step)
        body = encode_steps([step])
        log = self.log_of(step.key)
        reason = log.why_full()
        if reason and step.action is Action.PUT:
            raise KeysUnavailable(reason)
        with in_time(log, self._timeout_s):
            outcome = await log.write(op_type, body, key=step.key)
        if outcome.status not in (Status.APPLIED, Status.REPEATED):
            raise KeysUnavailable(f"the write was not done: its record is {outcome.status.name}")
        return outcome

    def scan(self, prefix: bytes) -> list[tuple[bytes, KeyEntry]]:
        """Return the entries under a prefix as far as this proxy knows, in the order of bytes."""
        found = []
        for log in self.logs:
            cursor: bytes | None = None
            while True:
                page = read_page(log.state, prefix, cursor=cursor, limit=1000)
                found += [(one.key, KeyEntry(one.value, one.version)) for one in page.entries]
                cursor = page.cursor
                if cursor is None:
                    break
        return sorted(found)

    def watch(self, prefix: bytes) -> KeyWatch:
        """Return the entries under a prefix, and then their changes; see ``KeyWatch``."""
        return KeyWatch(self.logs, prefix)

    def statuses(self) -> list[PartitionStatus]:
        """Return the place in the log of each partition."""
        return [
            PartitionStatus(number, one.kept.next, one.end, one.kept.snapshot, one.why)
            for number, log in enumerate(self.logs)
            for one in (log.follower,)
        ]
