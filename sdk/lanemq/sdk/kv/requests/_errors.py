# ruff: noqa: N818 - named for what happened, as in trio
"""Errors of the key-value store; all are ``LanemqError``.

LanemqError
 +- KvNotSupported     the broker keeps no keys: Apache's, an older one, or kvEnable=false
 +- NoNamespace        no broker has the namespace, or none that is registered now
 +- KvRejected         a key, value or number beyond the limits (also a ValueError)
 +- KvCompacted        changes from so long ago are not known any more
 +- KvStateLost        the broker has lost the keys of the namespace
 +- KvWriteForgotten   a write repeated so late that nobody knows whether it was done
 +- LockNotAcquired    somebody else held a lock for all the time that was to be waited
 +- LockLost           a lock could not be renewed in time, or was taken away
 +- CheckpointMoved    somebody else has saved the checkpoint since it was loaded
"""

from lanemq.wire import ResponseCode
from lanemq.wire.frame import Frame

from ..._errors import LanemqError, RefusedByBroker


class KvNotSupported(LanemqError):
    """A broker does not keep keys and values."""

    def __init__(self, address: str) -> None:
        super().__init__(
            f"broker {address} keeps no keys and values: that takes a broker of lanemq, with "
            "kvEnable=true"
        )
        self.address = address


class NoNamespace(LanemqError):
    """A namespace that no broker has, as far as can be known now, or that is not made here."""

    def __init__(self, namespace: str, reason: str) -> None:
        super().__init__(f"namespace {namespace!r}: {reason}")
        self.namespace = namespace


class KvRejected(LanemqError, ValueError):
    """A request that no broker would take; the text says what to change."""


class KvCompacted(LanemqError):
    """A watch from a position whose changes are not known any more.

    Read what there is with ``prefix``, and watch from the position of its first page.
    """


class KvStateLost(LanemqError):
    """A broker has lost the keys of a namespace; the text says how they come back."""


class KvWriteForgotten(LanemqError):
    """A write was repeated too late; whether it was done is not known any more."""


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
