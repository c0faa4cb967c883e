"""Answers to reads and writes of keys, as msgpack."""

import enum
from typing import Final, TypeVar, final

import msgspec

from .._errors import RemoteProtocolError


@final
class StepResult(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The result of one step of a write."""

    version: int
    """Done: the version put, or deleted, or checked. Not done: the version there is. 0 is that
    there was none."""
    holds: bool = True
    """True if the step's condition held."""


@final
class WriteAnswer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The answer to a write."""

    done: bool
    """True if all conditions held, and so all steps were done."""
    position: int
    """Number of the write's record in the namespace's log, counted from 0."""
    results: tuple[StepResult, ...] = ()
    """One for each step, in order."""
    value: bytes | None = None
    """The value there is now, where the condition of a single step did not hold."""


@final
class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An entry. Times are milliseconds since 1970, by the log."""

    key: bytes
    value: bytes
    version: int
    """1 for the first put of a key, then one more with each. After an absence it is greater than
    any that an entry of the partition had when it went, so that no version comes again."""
    modified: int
    """Number of the last put's record in the log of its partition."""
    create_time_ms: int
    update_time_ms: int
    expires_ms: int = 0
    """The time at which it is gone; 0 is never, or with its lease."""
    lease: int = 0
    """The number of the lease that it is under; 0 for none."""

    @property
    def revision(self) -> int:
        """The number of records of the log up to the one that put it: 1 for the first record."""
        return self.modified + 1


@final
class Page(msgspec.Struct, frozen=True, array_like=True):
    """Entries under a prefix, in byte order; all of one moment.

    Of several partitions, where clients merge pages, those of each are of one moment, and
    ``position`` is -1.
    """

    entries: list[Entry]
    cursor: bytes | None
    """The key to go on from; None at the end."""
    position: int
    """Number of records of the log that are in it."""
    clock_ms: int = 0
    """The time of the log, in milliseconds since 1970."""
    snapshot: str | None = None
    """The name by which the next page is of the same moment; None at the end."""
    positions: tuple[int, ...] = ()
    """Positions of the partitions that are in it, in order; clients put them there."""


@final
class RangePage(msgspec.Struct, frozen=True, array_like=True):
    """Entries of a range of keys, in byte order or in reverse; those of a partition are of one
    moment."""

    entries: list[Entry]
    cursor: bytes | None
    """The key to go on from, or in reverse the end to go on with; None at the end."""
    position: int
    """Number of records of the log that are in it; -1 for several partitions."""
    clock_ms: int = 0
    """The time of the log at that moment, in milliseconds since 1970."""
    count: int = 0
    """Number of the entries that were counted for this page, those listed included."""
    positions: tuple[int, ...] = ()
    """Positions of the partitions that are in it, in order; clients put them there."""


@final
class NamespaceStatus(msgspec.Struct, frozen=True, array_like=True):
    """A namespace at one moment. Positions count records of its log."""

    namespace: str
    entries: int
    entry_bytes: int
    """Bytes of all keys and values."""
    position: int
    """Number of records applied."""
    clock_ms: int
    """The time of the log, in milliseconds since 1970."""
    state_hash: str
    """The hash of all entries; empty for those who may not read all keys."""
    changes_from: int
    """Changes before this position are no longer known."""
    lost: bool
    engine: str
    partition: int = 0
    partitions: int = 1
    """Number of partitions of the namespace, of which this is one."""
    broker: str = ""
    """The broker that has the partition."""
    is_open: bool = True
    """True if the broker takes reads and writes of the partition; it is not so while it is taken
    over, and once it is elsewhere."""
    identity: str = ""
    """The identity of the namespace, made at its creation; empty until one of an earlier version
    has got one."""
    leases: int = 0
    """Number of leases."""
    watchers: int = 0
    """Number of watches that wait for changes now."""
    changes: int = 0
    """Number of changes that are kept: the history."""
    end: int = 0
    """Number of records in the log; those from ``position`` on are not applied yet."""
    expired: int = 0
    """Number of entries and leases that have ended by their time since the broker has the state
    open; a redo of the log counts as well."""


@final
class Moved(msgspec.Struct, frozen=True, array_like=True):
    """The body of KV_MOVED: where to ask, as far as the broker knows."""

    partitions: int
    """Number of partitions of the namespace."""
    broker: str | None = None
    """The broker that has the partition."""
    address: str | None = None


@final
class StateRows(msgspec.Struct, frozen=True, array_like=True):
    """Rows of a partition's state, as its engine keeps them, for the broker that it moves to."""

    rows: list[tuple[bytes, bytes]]
    cursor: bytes | None
    """The row to go on from; None at the end."""
    position: int
    """Number of records of the log that are in the state."""


@final
class LeaseStatus(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A lease, in one partition or in all."""

    lease: int
    """Its number."""
    ttl_ms: int
    """The time that each keep-alive gives it."""
    left_ms: int
    """The time that is left; 0 where it ends at any moment."""
    count: int
    """Number of keys under it."""
    keys: tuple[bytes, ...] = ()
    """These keys in their order, where the one lease was asked for."""


@final
class LeasePage(msgspec.Struct, frozen=True, array_like=True):
    """Leases in the order of their numbers."""

    leases: list[LeaseStatus]
    cursor: int | None
    """The number to go on from; None at the end."""
    position: int
    """Number of records of the log that are in it."""


@final
class ChangeKind(enum.IntEnum):
    """The kind of a change."""

    PUT = 0
    DELETE = 1
    EXPIRE = 2
    PROGRESS = 3
    """No change: all before its position have come. Clients make it."""

    __str__ = enum.Enum.__str__  # a program that prints a change shows a name


@final
class Change(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A change of one key. ``value`` is that of a put."""

    position: int
    index: int
    """Number of the change among those of the same record."""
    kind: ChangeKind
    key: bytes
    version: int
    """The version put, or the one that is gone."""
    value: bytes | None = None
    partition: int = 0
    """The partition of the key, of which ``position`` is; clients put it there."""
    previous: Entry | None = None
    """The entry before the change, if it was asked for; None also if it is no longer known."""

    @property
    def revision(self) -> int:
        """The number of records of the log up to this change's: a read at this revision has the
        change. A watch from it on has what later records change, without the rest of this one."""
        return self.position if self.kind == ChangeKind.PROGRESS else self.position + 1


@final
class Changes(msgspec.Struct, frozen=True, array_like=True):
    """Changes in the order of the log."""

    changes: list[Change]
    next_position: int
    """The position to go on from: everything before it is among the changes so far."""
    next_index: int = 0
    identity: str = ""
    """The identity of the namespace, for the next request; empty from an earlier broker."""


_ENCODER: Final = msgspec.msgpack.Encoder()
_T = TypeVar("_T")


def encode_answer(value: object) -> bytes:
    """Encode an answer's body."""
    return _ENCODER.encode(value)


def encode_done(position: int, version: int) -> bytes:
    """Encode the ``WriteAnswer`` to a single put that was done, without making one."""
    return _ENCODER.encode((True, position, ((version, True),), None))


def decode_answer(body: bytes, form: type[_T]) -> _T:
    """Decode an answer's body. Raises ``RemoteProtocolError``."""
    try:
        return msgspec.msgpack.decode(body, type=form)
    except msgspec.MsgspecError as error:
        raise RemoteProtocolError(f"an answer about keys cannot be read: {error}") from error


def decode_entry(body: bytes) -> Entry | None:
    """Decode the answer to a read; None where the key has no entry. Raises as ``decode_answer``."""
    # Type checkers take a union for no type; msgspec takes it for one.
    return decode_answer(body, Entry | None)  # type: ignore[arg-type]
