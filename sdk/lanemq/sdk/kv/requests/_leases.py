"""Requests about leases: in the partition of a key, or in all."""

import secrets
from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec
import trio

from lanemq.wire import RequestCode
from lanemq.wire.headers import KvLeases
from lanemq.wire.kv import (
    LEASE_MAX,
    LeasePage,
    LeaseStatus,
    LeaseTerms,
    OpType,
    WriteAnswer,
    decode_answer,
    encode_terms,
)

from ..._errors import LanemqError
from ._attempts import Attempts
from ._calls import KvCalls
from ._errors import KvRejected, NoLease

PAGE_LEASES: Final = 1000
TAKE_BACK_S: Final = 2.0
"""Seconds in which a part of a grant is taken back; its ttl ends it as well."""


def new_lease() -> int:
    """Return a number that no other lease has, as far as chance can say."""
    return secrets.randbelow(LEASE_MAX) + 1


async def grant_at(
    calls: KvCalls, key: bytes, terms: LeaseTerms, *, attempts: Attempts | None = None
) -> None:
    """Grant a lease in the partition of a key. Raises ``KvRejected`` for a number that is taken."""
    body = encode_terms(terms)
    answer = await calls.write(key, OpType.LEASE, body, attempts=attempts)
    if not answer.done:
        raise _taken(terms.lease)


async def grant(calls: KvCalls, terms: LeaseTerms, *, is_chosen: bool = False) -> None:
    """Grant a lease in every partition, or in none. Raises as ``grant_at``.

    A number that was chosen may be another lease's: what gave no answer is not taken back then,
    and ends by its ttl.
    """
    body, granted = encode_terms(terms), dict[int, bool]()

    async def one(partition: int, partitions: int, attempts: Attempts) -> None:
        granted[partition] = not is_chosen  # for all that is known while it is asked
        found = await calls.write_at(partition, partitions, OpType.LEASE, body, attempts=attempts)
        granted[partition] = decode_answer(found, WriteAnswer).done

    try:
        await calls.each(one)
        if not all(granted.values()):
            raise _taken(terms.lease)
    except BaseException:
        with trio.move_on_after(TAKE_BACK_S, shield=True):
            await _take_back(
                calls, terms.lease, [one for one, is_ours in granted.items() if is_ours]
            )
        raise


async def _take_back(calls: KvCalls, lease: int, partitions: Sequence[int]) -> None:
    body = encode_terms(LeaseTerms(lease))

    async def one(partition: int, of: int, attempts: Attempts) -> None:
        if partition not in partitions:
            return
        try:
            await calls.write_at(partition, of, OpType.REVOKE, body, attempts=attempts)
        except LanemqError:
            return  # its ttl ends it

    try:
        await calls.each(one)
    except LanemqError:
        return


async def keep_alive_at(calls: KvCalls, key: bytes, lease: int) -> None:
    """Keep a lease alive in the partition of a key. Raises ``NoLease``."""
    await calls.write(key, OpType.ALIVE, encode_terms(LeaseTerms(lease)))


async def keep_alive(calls: KvCalls, lease: int, *, of_any: bool = False) -> None:
    """Keep a lease alive in every partition. Raises ``NoLease`` if any does not have it."""
    body = encode_terms(LeaseTerms(lease, of_any=of_any))
    await calls.each(
        lambda one, of, attempts: calls.write_at(one, of, OpType.ALIVE, body, attempts=attempts)
    )


async def revoke_at(calls: KvCalls, key: bytes, lease: int) -> None:
    """End a lease in the partition of a key. Raises ``NoLease``."""
    await calls.write(key, OpType.REVOKE, encode_terms(LeaseTerms(lease)))


async def revoke(calls: KvCalls, lease: int, *, of_any: bool = False) -> None:
    """End a lease in every partition that has it. Raises ``NoLease`` where none has."""
    body = encode_terms(LeaseTerms(lease, of_any=of_any))

    async def one(partition: int, partitions: int, attempts: Attempts) -> NoLease | None:
        try:
            await calls.write_at(partition, partitions, OpType.REVOKE, body, attempts=attempts)
        except NoLease as error:
            return error
        return None

    missing = await calls.each(one)
    error = missing[0]
    if error is not None and all(missing):
        raise error


async def lease_status(calls: KvCalls, lease: int, *, of_any: bool = False) -> LeaseStatus:
    """Return a lease with its keys in all partitions. Raises ``NoLease`` if any lacks it."""
    header = KvLeases(namespace=calls.namespace, lease=lease, of_any=of_any)

    async def one(partition: int, partitions: int, attempts: Attempts) -> LeaseStatus:
        return (await _page(calls, header, partition, partitions, attempts)).leases[0]

    return _merged(await calls.each(one))


async def all_leases(calls: KvCalls, *, of_any: bool = False) -> list[LeaseStatus]:
    """Return all leases, in the order of their numbers, without their keys."""
    header = KvLeases(namespace=calls.namespace, limit=PAGE_LEASES, of_any=of_any)

    async def one(partition: int, partitions: int, attempts: Attempts) -> list[LeaseStatus]:
        found, first = list[LeaseStatus](), 0
        while True:
            asked = msgspec.structs.replace(header, first=first)
            page = await _page(calls, asked, partition, partitions, attempts.fork())
            found += page.leases
            if page.cursor is None:
                return found
            first = page.cursor

    parts = dict[int, list[LeaseStatus]]()
    for leases in await calls.each(one):
        for lease in leases:
            parts.setdefault(lease.lease, []).append(lease)
    return [_merged(parts[number]) for number in sorted(parts)]


async def _page(
    calls: KvCalls, header: KvLeases, partition: int, partitions: int, attempts: Attempts
) -> LeasePage:
    ask = partial(calls.ask_at, partition, partitions, RequestCode.KV_LEASES, header)
    return decode_answer(await ask(attempts=attempts), LeasePage)


def _merged(parts: Sequence[LeaseStatus]) -> LeaseStatus:
    """Return one lease, of what partitions have of it: it lasts as long as in the first to end."""
    return LeaseStatus(
        parts[0].lease,
        max(one.ttl_ms for one in parts),
        min(one.left_ms for one in parts),
        sum(one.count for one in parts),
        tuple(sorted(key for one in parts for key in one.keys)),
    )


def _taken(lease: int) -> KvRejected:
    return KvRejected(f"there is a lease {lease} already: grant one of another number")
