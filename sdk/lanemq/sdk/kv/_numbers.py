"""Checks of what goes to brokers: keys, values, times to live, versions."""

from collections.abc import Sequence
from typing import Final

from lanemq.wire import LONG_MAX
from lanemq.wire.kv import KEY_BYTES_MAX, LEASE_MAX, TTL_MS_MAX, Step, encode_steps

from .._values import check_seconds, check_whole, shown
from .requests._errors import KvRejected

TTL_S_MAX: Final = TTL_MS_MAX / 1000


def check_ttl(ttl_s: float) -> None:
    """Raise ``KvRejected`` for a time to live that no broker takes."""
    check_seconds("ttl_s", ttl_s, most_s=TTL_S_MAX, error=KvRejected)


def milliseconds(ttl_s: float | None) -> int:
    """Return a time to live for a step; 0 is for ever. Raises ``KvRejected``."""
    if ttl_s is None:
        return 0
    check_ttl(ttl_s)
    return max(1, int(ttl_s * 1000))


def check_lease(lease: int) -> None:
    """Raise ``KvRejected`` for what cannot be the number of a lease."""
    if hasattr(lease, "id"):
        raise KvRejected("lease is the number of a lease, not the lease itself: pass lease.id")
    check_whole("lease", lease, least=1, most=LEASE_MAX, error=KvRejected)


def life(ttl_s: float | None, lease: int | None) -> int:
    """Return a time to live, or a lease, for a step; 0 is for ever. Raises ``KvRejected``."""
    if lease is None:
        return milliseconds(ttl_s)
    check_lease(lease)
    if ttl_s is not None:
        raise KvRejected("an entry has ttl_s=, or is as long there as its lease=, and not both")
    return -lease


def check_version(name: str, version: int | None) -> None:
    """Raise ``KvRejected`` for what cannot be the version of an entry, or 0."""
    if version is not None:
        check_whole(name, version, least=0, most=LONG_MAX, error=KvRejected)


def check_key(key: object) -> None:
    """Raise ``KvRejected`` unless ``key`` can be a key."""
    if not isinstance(key, bytes):
        raise KvRejected(f"a key is bytes, as b'config/a', not {shown(repr(key))}")
    if not 0 < len(key) <= KEY_BYTES_MAX:
        raise KvRejected(f"a key of {len(key)} bytes, it has to have 1 to {KEY_BYTES_MAX}")


def check_bytes(what: str, value: object) -> None:
    """Raise ``KvRejected`` unless ``value`` is bytes."""
    if not isinstance(value, bytes | bytearray | memoryview):
        raise KvRejected(f"{what} is bytes, not {shown(repr(value))}")


def encode_checked(steps: Sequence[Step]) -> bytes:
    """Encode steps that the application made. Raises ``KvRejected``."""
    for step in steps:
        check_key(step.key)
        check_bytes("a value", step.value)
        if step.if_value is not None:
            check_bytes("the expected value", step.if_value)
        check_version("if_version", step.if_version)
        check_whole("ttl_ms", step.ttl_ms, least=-LEASE_MAX, most=TTL_MS_MAX, error=KvRejected)
    return encode_steps(steps)
