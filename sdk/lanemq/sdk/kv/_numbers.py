"""Checks of the numbers that go to brokers: times to live, versions."""

from collections.abc import Sequence
from typing import Final

from lanemq.wire import LONG_MAX
from lanemq.wire.kv import TTL_MS_MAX, Step, encode_steps

from .._values import check_seconds, check_whole
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


def check_version(name: str, version: int | None) -> None:
    """Raise ``KvRejected`` for what cannot be the version of an entry, or 0."""
    if version is not None:
        check_whole(name, version, least=0, most=LONG_MAX, error=KvRejected)


def encode_checked(steps: Sequence[Step]) -> bytes:
    """Encode steps that the application made. Raises ``KvRejected``."""
    for step in steps:
        check_version("if_version", step.if_version)
        check_whole("ttl_ms", step.ttl_ms, least=0, most=TTL_MS_MAX, error=KvRejected)
    return encode_steps(steps)
