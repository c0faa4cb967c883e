# ruff: noqa: N818 - named for what happened, as in trio
"""Errors of the key-value store; all are ``LanemqError``.

LanemqError
 +- KvNotSupported     the broker keeps no keys: Apache's, an older one, or kvEnable=false
 +- NoNamespace        no broker has the namespace, or none that is registered now
 |   +- NamespaceSplit several brokers have one of that name each
 +- KvRejected         a key, value or number beyond the limits (also a ValueError)
 +- KvCompacted        changes from so long ago are no longer known
 +- KvStateLost        the broker has lost the keys of the namespace
 +- KvWriteForgotten   a write repeated so late that nobody knows whether it was done
 +- NoLease            a lease that has ended, was never granted, or is another account's
 +- LeaseLost          a lease could not be kept alive in time, or was revoked by somebody else
 +- LockNotAcquired    somebody else held a lock for all the time that was to be waited
 +- LockLost           a lock could not be renewed in time, or was taken away
 +- CheckpointMoved    somebody else has saved the checkpoint since it was loaded
"""

from collections.abc import Sequence
from typing import Final

from lanemq.wire import ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.kv import OF_LEASES

from ..._errors import LanemqError, RefusedByBroker

NO_LEASES: Final = frozenset(f"there is no operation {one!r}" for one in sorted(OF_LEASES))
"""Remarks of brokers whose keys have no leases."""


class KvNotSupported(LanemqError):
    """A broker does not keep keys and values, or is of a version that lacks something of them."""

    def __init__(self, address: str, what: str = "") -> None:
        super().__init__(
            f"broker {address} has no {what}: that takes a later version of lanemq"
            if what
            else f"broker {address} keeps no keys and values: that takes a broker of lanemq, with "
            "kvEnable=true"
        )
        self.address = address


class NoNamespace(LanemqError):
    """A namespace that no broker has, as far as can be known now, or that is not made here."""

    def __init__(self, namespace: str, reason: str) -> None:
        super().__init__(f"namespace {namespace!r}: {reason}")
        self.namespace = namespace


class NamespaceSplit(NoNamespace):
    """A namespace that exists more than once, at several brokers, each with its own entries."""

    def __init__(self, namespace: str, places: Sequence[Sequence[str]]) -> None:
        named = " and ".join(", ".join(brokers) for brokers in places)
        super().__init__(
            namespace,
            f"it exists {len(places)} times, at {named}, each with entries of its own: say which "
            "one is meant, with broker=; to have one only, read what another has, and delete it",
        )
        self.brokers = tuple(broker for brokers in places for broker in brokers)
        self.last = places[-1][0]


class KvRejected(LanemqError, ValueError):
    """A request that no broker would take; the text says what to change."""


class KvCompacted(LanemqError):
    """A watch from a position whose changes are no longer known.

    Read what there is with ``prefix``, and watch from the position of its first page.
    """


class KvStateLost(LanemqError):
    """A broker has lost the keys of a namespace; the text says how they come back."""


class KvWriteForgotten(LanemqError):
    """A write was repeated too late; whether it was done is no longer known."""


class NoLease(LanemqError):
    """A lease that is not there: it has ended, or was never granted; or is another account's."""

    def __init__(self, lease: int = 0, remark: str = "") -> None:
        named = f"lease {lease}" if lease else "the lease"
        super().__init__(f"{named}: {remark}" if remark else f"{named} is no longer held")
        self.lease = lease


class LeaseLost(LanemqError):
    """A lease was lost before its block ended: its keys are gone, or will be at any moment."""

    def __init__(self, lease: int) -> None:
        super().__init__(
            f"lease {lease} was lost before its block ended: it could not be kept alive in time, "
            "or somebody revoked it"
        )
        self.lease = lease


class LockNotAcquired(LanemqError):
    """Another owner held a lock all the time."""

    def __init__(self, key: bytes, wait_s: float) -> None:
        super().__init__(f"the lock {key!r} was not free within {wait_s:g} s")
        self.key = key


class LockLost(LanemqError):
    """A lock was lost before its block ended: another may hold it since."""

    def __init__(self, key: bytes) -> None:
        super().__init__(
            f"the lock {key!r} was lost before its block ended: it could not be renewed in time, "
            "or somebody removed it"
        )
        self.key = key


class CheckpointMoved(LanemqError):
    """Another worker has saved a checkpoint; load it again."""

    def __init__(self, name: str, version: int) -> None:
        super().__init__(
            f"checkpoint {name!r} was saved by somebody else, and is at version {version} now"
        )
        self.name = name
        self.version = version


def refusal(answer: Frame, address: str, namespace: str) -> LanemqError:
    """Return the error that an answer of a broker is."""
    remark = answer.remark or ""
    match answer.code:
        case ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return KvNotSupported(address)
        case ResponseCode.KV_NAMESPACE_NOT_EXIST:
            return NoNamespace(namespace, remark)
        case ResponseCode.KV_LEASE_NOT_EXIST:
            return NoLease(remark=remark)
        case ResponseCode.INVALID_PARAMETER if remark in NO_LEASES:
            return KvNotSupported(address, "leases")
        case ResponseCode.INVALID_PARAMETER:
            return KvRejected(remark)
        case ResponseCode.KV_COMPACTED:
            return KvCompacted(remark)
        case ResponseCode.KV_STATE_LOST:
            return KvStateLost(remark)
        case ResponseCode.KV_WRITE_FORGOTTEN:
            return KvWriteForgotten(remark)
    return RefusedByBroker(answer.code, answer.remark, address)


def counted(partitions: int) -> str:
    """Return a number of partitions in words, for the texts of errors."""
    return "one partition" if partitions == 1 else f"{partitions} partitions"
