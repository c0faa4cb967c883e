"""The leases of a state: their rows, the keys under each, and what is done with them.

A lease ends in the record of its revocation, or in the first one after its time, together with all
of its keys: these are deleted, or have expired, in that record's changes. Until then its keys are
entries as all others, so no read has to look for a lease. Of very many whose time has come, some
end with each record.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final, final

from lanemq.wire.kv import (
    LEASE_BYTES_MAX,
    LEASE_KEYS_MAX,
    LEASES_MAX,
    LeaseTerms,
    lessor_account,
)

from ._heads import Found
from ._sums import moved
from .engines._engine import Batch
from .engines._rows import (
    BY_LEASE,
    DEADLINE,
    LEASE,
    LEASED,
    LESSOR,
    LeaseRow,
    Meta,
    after_prefix,
    deadline_key,
    decode_lease,
    encode_lease,
    lease_key,
    leased_key,
    lessor_key,
)

SHARE: Final = 4
"""So many times as many leases as a lessor has are free, where it gets another one: a fifth."""
TABLES: Final = (LEASE, LEASED, DEADLINE, LESSOR)


class NoLease(Exception):  # noqa: N818 - says what is wrong
    """There is no such lease, or it is another account's."""


class TooManyKeys(Exception):  # noqa: N818 - says what is wrong
    """A lease would have more keys than one may have."""


class TooManyLeases(Exception):  # noqa: N818 - says what is wrong
    """A lessor, or a partition, would have more leases than it may have."""


@final
class Leases:
    """The leases of one state, as a batch changes them; ``meta`` is that of the state."""

    def __init__(self, batch: Batch, meta: Meta) -> None:
        self.meta = meta
        self._batch = batch
        self._before: dict[bytes, bytes | None] = {}
        """Keys of rows of leases that a batch has changed -> the rows before it."""
        self._ended = b""
        """The row of the time of the last lease whose time has come since the start: none comes
        before it again."""

    def forget(self, meta: Meta) -> None:
        """Forget the changes of a batch; ``meta`` is the one before them."""
        self.meta = meta
        self._ended = b""
        self._before.clear()

    def update_sum(self) -> None:
        """Bring the sum of leases up to date with the changes of a batch."""
        if self._before:
            rows = self._batch.rows
            changes = [(key, old, rows[key]) for key, old in self._before.items()]
            total = moved(self.meta.lease_sum, changes)
            # That of none is one and the same, however records are cut into batches.
            self.meta.lease_sum = total if any(total) else b""
            self._before.clear()

    def clear(self) -> None:
        """Forget all leases."""
        meta = self.meta
        if meta.leases or self._before:
            for table in TABLES:
                self._batch.drop(table, after_prefix(table))
        self._before.clear()
        meta.leases = 0
        meta.lease_sum = b""

    def find(self, lease: int) -> LeaseRow | None:
        """Return a lease; None where there is none."""
        row = self._batch.get(lease_key(lease))
        return None if row is None else decode_lease(row)

    def own(self, lease: int, lessor: str, *, of_any: bool = False) -> LeaseRow:
        """Return a lease of the account that asks. Raises ``NoLease``."""
        found = self.find(lease)
        if found is None or found.expires_ms <= self.meta.clock_ms:
            raise NoLease  # its time has come; it ends with one of the next records
        if not of_any and lessor_account(found.lessor) != lessor_account(lessor):
            raise NoLease
        return found

    def check(self, wanted: Iterable[tuple[int, bytes, Found | None]], lessor: str) -> None:
        """Check that entries may be put under leases: of each its lease, key, and the entry
        that is there. Raises ``NoLease``, ``TooManyKeys``."""
        new, new_bytes, is_bounded = Counter[int](), Counter[int](), self.meta.is_bounded
        for lease, key, row in wanted:
            own = self.own(lease, lessor)
            if row is None or row.life != BY_LEASE | lease:
                new[lease] += 1
                new_bytes[lease] += len(key)
                is_much = is_bounded and own.key_bytes + new_bytes[lease] > LEASE_BYTES_MAX
                if is_much or own.keys + new[lease] > LEASE_KEYS_MAX:
                    raise TooManyKeys

    def grant(self, terms: LeaseTerms, lessor: str) -> bool:
        """Grant a lease; returns False where there is one of that number.

        Raises ``TooManyLeases``.
        """
        meta = self.meta
        if self.find(terms.lease) is not None:
            return False
        held, free = self._held(lessor), LEASES_MAX - meta.leases
        if free <= 0 or held * SHARE > free:
            raise TooManyLeases
        meta.leases += 1
        self._batch.rows[lessor_key(lessor)] = (held + 1).to_bytes(8, "big")
        self._put(terms.lease, LeaseRow(terms.ttl_ms, meta.clock_ms + terms.ttl_ms, lessor))
        return True

    def keep_alive(self, terms: LeaseTerms, lessor: str) -> None:
        """Let the time of a lease begin again. Raises ``NoLease``."""
        old = self.own(terms.lease, lessor, of_any=terms.of_any)
        self._batch.rows[deadline_key(old.expires_ms, terms.lease)] = None
        expires_ms = self.meta.clock_ms + old.ttl_ms
        self._put(
            terms.lease, LeaseRow(old.ttl_ms, expires_ms, old.lessor, old.keys, old.key_bytes)
        )

    def attach(self, lease: int, key: bytes) -> None:
        """Note that an entry is under a lease, which ``check`` has found."""
        self._batch.rows[leased_key(lease, key)] = b""
        self._count(lease, 1, len(key))

    def detach(self, lease: int, key: bytes) -> None:
        """Note that an entry is under its lease no more."""
        self._batch.rows[leased_key(lease, key)] = None
        self._count(lease, -1, -len(key))

    def release(self, lease: int, keys: list[bytes]) -> None:
        """Note that the entries under a lease, which are all of ``keys``, are so no more."""
        for key in keys:
            self._batch.rows[leased_key(lease, key)] = None
        self._count(lease, -len(keys), -sum(map(len, keys)))

    def keys(self, lease: int) -> list[bytes]:
        """Return the keys under a lease, in their order."""
        prefix = leased_key(lease, b"")
        end = LEASED + (lease + 1).to_bytes(8, "big")
        rows = self._batch.first(prefix, end, LEASE_KEYS_MAX + 1)
        return [key[len(prefix) :] for key, _ in rows]

    def keys_of(self, lease: int) -> int:
        """Return the number of keys under a lease; 0 where there is none."""
        row = self.find(lease)
        return 0 if row is None else row.keys

    def remove(self, lease: int) -> None:
        """Remove a lease, which no longer has keys."""
        row = self.find(lease)
        assert row is not None, "a lease ends, but is not there"
        assert not row.keys, "a lease ends, but has keys"
        self._batch.rows[deadline_key(row.expires_ms, lease)] = None
        self._write(lease, None)
        self.meta.leases -= 1
        held = self._held(row.lessor) - 1
        self._batch.rows[lessor_key(row.lessor)] = held.to_bytes(8, "big") if held else None

    def due(self, since_ms: int, count: int) -> list[tuple[int, int]]:
        """Return the times and the numbers of the first ``count`` leases whose time has come.

        None ends before ``since_ms``. They are looked for once, and not one by one: RocksDB
        passes over each row that was deleted, and very many may have ended at one time.
        """
        if not self.meta.leases:
            return []
        end = deadline_key(self.meta.clock_ms + 1, 0)
        rows = self._batch.first(max(deadline_key(since_ms, 0), self._ended), end, count)
        return [
            (int.from_bytes(key[1:9], "big"), int.from_bytes(key[9:], "big")) for key, _ in rows
        ]

    def ended(self, time_ms: int, lease: int) -> None:
        """Note that all leases up to a time and a number have ended."""
        self._ended = deadline_key(time_ms, lease)

    def first_ms(self, since_ms: int, lease: int) -> int:
        """Return the time at which the first lease ends from a time and a number on; 0 without
        any."""
        if not self.meta.leases:
            return 0
        rows = self._batch.first(deadline_key(since_ms, lease), after_prefix(DEADLINE), 1)
        return int.from_bytes(rows[0][0][1:9], "big") if rows else 0

    def _held(self, lessor: str) -> int:
        return int.from_bytes(self._batch.get(lessor_key(lessor)) or b"", "big")

    def _count(self, lease: int, more: int, more_bytes: int) -> None:
        row, is_bounded = self.find(lease), self.meta.is_bounded
        assert row is not None, "an entry is under a lease that is not there"
        key_bytes = max(0, row.key_bytes + more_bytes) if is_bounded else 0
        counted = LeaseRow(row.ttl_ms, row.expires_ms, row.lessor, row.keys + more, key_bytes)
        self._write(lease, encode_lease(counted, is_bounded=is_bounded))

    def _put(self, lease: int, row: LeaseRow) -> None:
        meta = self.meta
        self._batch.rows[deadline_key(row.expires_ms, lease)] = b""
        if not 0 < meta.next_expiry_ms <= row.expires_ms:
            meta.next_expiry_ms = row.expires_ms
        self._write(lease, encode_lease(row, is_bounded=meta.is_bounded))

    def _write(self, lease: int, row: bytes | None) -> None:
        key = lease_key(lease)
        if key not in self._before:
            self._before[key] = self._batch.get(key)
        self._batch.rows[key] = row
