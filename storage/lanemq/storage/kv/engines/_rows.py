"""The rows of a partition's state: their keys and values in an engine, as bytes.

======================================  =====================================================
key                                     value
======================================  =====================================================
``e`` key                               version, modified, created, updated, life (each 8
                                        bytes, big-endian), then the value
``x`` expires (8 bytes) key             empty; the entries with a ttl, by the time they expire
``c`` position (8 bytes) index (4)      kind, key, version, step, head of the entry before as
                                        msgpack; the latest changes
``h`` key                               head, length (8) and hash (32) of an entry's row, where
                                        that is long; see ``kv._heads``
``s`` generation (1 byte) client        a session as msgpack; see ``kv._sessions``
``l`` lease (8 bytes)                   a lease as msgpack: ``LeaseRow``
``k`` lease (8 bytes) key               empty; the keys under each lease
``d`` expires (8 bytes) lease (8)       empty; the leases, by the time they end
``o`` lessor                            the number of its leases (8 bytes)
``m``                                   ``Meta`` as msgpack
======================================  =====================================================

The life of an entry is 0 for ever, the time at which it expires, or with the highest bit set the
number of its lease.
"""

from hashlib import blake2b
from struct import Struct
from typing import Final, NamedTuple, final

import msgspec

from lanemq.wire.kv import HASH_BYTES, ChangeKind, Entry

ENTRY: Final = b"e"
HEADS: Final = b"h"
EXPIRY: Final = b"x"
CHANGE: Final = b"c"
SESSION: Final = b"s"
LEASE: Final = b"l"
LEASED: Final = b"k"
DEADLINE: Final = b"d"
LESSOR: Final = b"o"
META: Final = b"m"
HEAD: Final = Struct(">QQQQQ")
CHANGE_PLACE: Final = Struct(">QI")
_CHANGE_KEY: Final = Struct(">cQI").pack
CHANGE_KEY_BYTES: Final = 13
LIFE: Final = slice(HEAD.size - 8, HEAD.size)
"""The life in the row of an entry."""
NEVER: Final = bytes(8)
"""That of an entry that is there for ever."""
NO_QUEUE: Final = -1
BY_LEASE: Final = 1 << 63
"""The bit of a life that is the number of a lease."""
HASH_MASK: Final = (1 << 8 * HASH_BYTES) - 1


class Stored(NamedTuple):
    """The head of an entry's row. ``modified`` is a position, times are Unix milliseconds."""

    version: int
    modified: int
    create_time_ms: int
    update_time_ms: int
    life: int
    """As the row has it; see above."""

    @property
    def expires_ms(self) -> int:
        """The time at which it expires; 0 for one that does not, or is under a lease."""
        return 0 if self.life & BY_LEASE else self.life

    @property
    def lease(self) -> int:
        """The number of its lease; 0 for none."""
        return self.life & ~BY_LEASE if self.life & BY_LEASE else 0


@final
class ChangeRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A change, without its value: the log has that."""

    kind: ChangeKind
    key: bytes
    version: int
    step: int = -1
    """The step of the record that has the value; -1 for none."""
    before: bytes | None = None
    """The head of the entry before the change, empty if there was none; None in a row that an
    earlier version wrote."""


@final
class LeaseRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A lease."""

    ttl_ms: int
    expires_ms: int
    """The time of the log at which it ends, unless it is kept alive."""
    lessor: str
    keys: int = 0
    """Number of keys under it."""
    key_bytes: int = 0
    """Bytes of those of these keys that have come since the partition has bounds in bytes; rows
    from before have no such field."""


@final
class Meta(msgspec.Struct, array_like=True):
    """The row of a whole partition. (A namespace of one broker is a single one.)"""

    next: int = 0
    """Position of the record to apply next: all before it are in the state."""
    clock_ms: int = 0
    """The latest time of any record applied."""
    entries: int = 0
    entry_bytes: int = 0
    """Bytes of all keys and values."""
    entry_sum: bytes = bytes(HASH_BYTES)
    """Sum of the hashes of all entries."""
    session_sums: tuple[bytes, bytes] = (bytes(HASH_BYTES), bytes(HASH_BYTES))
    """The same for the sessions of each generation."""
    generation: int = 0
    """Number of the generation of sessions in use."""
    generation_ms: int = 0
    """The clock when it began."""
    next_expiry_ms: int = 0
    """No entry or lease expires before; 0 where none does at all."""
    changes: int = 0
    """Number of rows of changes."""
    changes_from: int = 0
    """Changes before this position are no longer known."""
    lost: bool = False
    """True if the log has lost records that the state needs; only a clear fixes that."""
    partition: int = 0
    partitions: int = 1
    """Number of partitions of the namespace, of which this is one; 0 where a lost state does not
    know it."""
    queue_id: int = 0
    """The queue of the store that has the records to come; ``NO_QUEUE`` where another broker has
    them."""
    shift: int = 0
    """The position of a record less its offset in that queue."""
    first: int = 0
    """Position of the first record in that queue: those before are at other brokers."""
    identity: str = ""
    """The identity of the namespace; empty before the record that says it, which a log of an
    earlier version gets once. Before that record versions begin again at 1 after an absence."""
    floor: int = 0
    """The greatest version of any entry that is gone: a new entry gets a greater one."""
    top: int = 0
    """The greatest version of any entry, gone or not."""
    restored: int = 0
    """Entries with lower versions were loaded from a snapshot: the next put of one gets a greater
    version."""
    deleted: bool = False
    """True once the namespace was deleted: nothing is served or done any more."""
    importing: bool = False
    """True from the begin of an import to its end: what is here is a part of the snapshot."""
    stale_from: int = -1
    """Rows of changes from this position up to ``changes_from`` are no longer known, but still
    there; -1 where there are none."""
    leases: int = 0
    """Number of leases."""
    lease_sum: bytes = b""
    """Sum of the hashes of all leases; empty where there are none."""
    has_heads: bool = False
    """True if long rows of entries have right second rows, or none; an earlier version, which
    leaves them as they were, leaves this out."""
    bounds_from: int = -1
    """Position of the record from which on sessions and changes have bounds in bytes; -1 before
    it. An earlier version leaves this out, and the next record says it again."""
    change_bytes: int = 0
    """Bytes of the rows of changes from that position on, as far as they are there."""

    @property
    def is_bounded(self) -> bool:
        """True if sessions and changes have bounds in bytes."""
        return self.bounds_from >= 0


_META_ENCODER: Final = msgspec.msgpack.Encoder()
_META: Final = msgspec.msgpack.Decoder(Meta)
_CHANGE: Final = msgspec.msgpack.Decoder(ChangeRow)
_LEASE: Final = msgspec.msgpack.Decoder(LeaseRow)


def decode_meta(row: bytes | None) -> Meta:
    """Decode a row; the meta of an empty namespace where there is none."""
    return Meta() if row is None else _META.decode(row)


def encode_row(value: Meta) -> bytes:
    """Encode a row."""
    return _META_ENCODER.encode(value)


def encode_lease(lease: LeaseRow, *, is_bounded: bool) -> bytes:
    """Encode the row of a lease, as earlier versions did unless the partition has bounds."""
    if is_bounded:
        return _META_ENCODER.encode(lease)
    return _META_ENCODER.encode((lease.ttl_ms, lease.expires_ms, lease.lessor, lease.keys))


def encode_change(kind: int, key: bytes, version: int, step: int, before: bytes) -> bytes:
    """Encode a row as if of a ``ChangeRow``, without making one."""
    return _META_ENCODER.encode((kind, key, version, step, before))


def decode_change(row: bytes) -> ChangeRow:
    """Decode a row of a change."""
    return _CHANGE.decode(row)


def decode_lease(row: bytes) -> LeaseRow:
    """Decode the row of a lease."""
    return _LEASE.decode(row)


def stored(row: bytes) -> Stored:
    """Decode the head of an entry's row."""
    return Stored._make(HEAD.unpack_from(row))


def life_of(row: bytes) -> int:
    """Return the life of an entry's row, as the row has it."""
    return int.from_bytes(row[LIFE], "big")


def entry_of(key: bytes, row: bytes) -> Entry:
    """Decode an entry's row."""
    return entry_with(key, row[HEAD.size :], *HEAD.unpack_from(row))


def entry_with(
    key: bytes,
    value: bytes,
    version: int,
    modified: int,
    created_ms: int,
    updated_ms: int,
    life: int,
) -> Entry:
    """Return the entry whose row has these fields."""
    if life & BY_LEASE:
        return Entry(key, value, version, modified, created_ms, updated_ms, lease=life & ~BY_LEASE)
    return Entry(key, value, version, modified, created_ms, updated_ms, life)


def row_hash(key: bytes, row: bytes) -> int:
    """Hash a row; a state's hash is made of the sum of those of its rows."""
    data = len(key).to_bytes(4, "big") + key + row
    return int.from_bytes(blake2b(data, digest_size=HASH_BYTES).digest(), "big")


def expiry_key(expires_ms: int, key: bytes) -> bytes:
    """Return the key of an entry's row among those that expire."""
    return EXPIRY + expires_ms.to_bytes(8, "big") + key


def lease_key(lease: int) -> bytes:
    """Return the key of a lease's row."""
    return LEASE + lease.to_bytes(8, "big")


def leased_key(lease: int, key: bytes) -> bytes:
    """Return the key of an entry's row among those under its lease."""
    return LEASED + lease.to_bytes(8, "big") + key


def deadline_key(expires_ms: int, lease: int) -> bytes:
    """Return the key of a lease's row among those by the time they end."""
    return DEADLINE + expires_ms.to_bytes(8, "big") + lease.to_bytes(8, "big")


def lessor_key(lessor: str) -> bytes:
    """Return the key of the row with the number of a lessor's leases."""
    return LESSOR + lessor.encode()


def change_key(position: int, index: int) -> bytes:
    """Return the key of a change's row."""
    return _CHANGE_KEY(CHANGE, position, index)


def session_key(generation: int, client: str) -> bytes:
    """Return the key of a session's row."""
    return SESSION + bytes((generation % 2,)) + client.encode()


def after_prefix(prefix: bytes) -> bytes:
    """Return the first key behind all keys that begin with ``prefix``, which is not all 0xff."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes((trimmed[-1] + 1,))
