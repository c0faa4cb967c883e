"""Reads of leases: one with its keys, and pages of them."""

import math
from time import perf_counter
from typing import Final

from lanemq.wire.kv import (
    LEASE_KEYS_MAX,
    PAGE_ENTRIES_MAX,
    LeasePage,
    LeaseStatus,
    lessor_account,
)

from ._state import State
from .engines._engine import Unfinished
from .engines._rows import (
    LEASE,
    LEASED,
    LeaseRow,
    after_prefix,
    decode_lease,
    lease_key,
    leased_key,
)

LOOKED_AT_MAX: Final = 2000
LOOKS_AT_CLOCK: Final = 8


def read_lease(state: State, lease: int, lessor: str | None, *, now_ms: int) -> LeaseStatus | None:
    """Return a lease with its keys; None where there is none of the account of ``lessor``.

    ``lessor`` None is for those of any. ``now_ms`` is the log's time. Raises ``OSError``.
    """
    row = state.table.get(lease_key(lease))
    if row is None:
        return None
    found = decode_lease(row)
    if not _is_seen(found, lessor):
        return None
    prefix = leased_key(lease, b"")
    keys = []
    for key, _ in state.table.items(prefix, LEASED + (lease + 1).to_bytes(8, "big")):
        keys.append(key[len(prefix) :])
        if len(keys) >= LEASE_KEYS_MAX:
            break
    return _status(lease, found, state, now_ms, tuple(keys))


def read_leases(
    state: State,
    cursor: int,
    lessor: str | None,
    *,
    limit: int,
    now_ms: int,
    until_s: float = math.inf,
) -> LeasePage:
    """Return the leases from the number ``cursor`` on, as ``read_lease`` without their keys.

    There may be fewer than ``limit``, or none, before the last page. Raises ``OSError``.
    """
    limit, found = max(1, min(limit, PAGE_ENTRIES_MAX)), list[LeaseStatus]()
    position = state.meta.next
    try:
        rows = state.table.some(lease_key(cursor), after_prefix(LEASE))
        for looked_at, (key, row) in enumerate(rows):
            number = int.from_bytes(key[1:], "big")
            is_over = len(found) >= limit or looked_at >= LOOKED_AT_MAX
            if is_over or (
                looked_at and not looked_at % LOOKS_AT_CLOCK and perf_counter() > until_s
            ):
                return LeasePage(found, number, position)
            lease = decode_lease(row)
            if _is_seen(lease, lessor):
                found.append(_status(number, lease, state, now_ms))
    except Unfinished as stop:
        return LeasePage(found, int.from_bytes(stop.key[1:9].ljust(8, b"\0"), "big"), position)
    return LeasePage(found, None, position)


def _is_seen(lease: LeaseRow, lessor: str | None) -> bool:
    return lessor is None or lessor_account(lease.lessor) == lessor_account(lessor)


def _status(
    number: int, lease: LeaseRow, state: State, now_ms: int, keys: tuple[bytes, ...] = ()
) -> LeaseStatus:
    left_ms = max(0, lease.expires_ms - max(now_ms, state.meta.clock_ms))
    return LeaseStatus(number, lease.ttl_ms, left_ms, lease.keys, keys)
