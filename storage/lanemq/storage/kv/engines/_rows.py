"""The rows of a partition's state: their keys and values in an engine, as bytes.

======================================  =====================================================
key                                     value
======================================  =====================================================
``e`` key                               version, modified, created, updated, expires (each 8
                                        bytes, big-endian), then the value
``x`` expires (8 bytes) key             empty; the entries with a ttl, by the time they expire
``c`` position (8 bytes) index (4)      kind, key, version, step as msgpack; the latest changes
``s`` generation (1 byte) client        a session as msgpack; see ``kv._sessions``
``m``                                   ``Meta`` as msgpack
======================================  =====================================================
"""

from struct import Struct
from typing import Final, NamedTuple, final

import msgspec

from lanemq.wire.kv import HASH_BYTES

ENTRY: Final = b"e"
EXPIRY: Final = b"x"
CHANGE: Final = b"c"
SESSION: Final = b"s"
META: Final = b"m"
HEAD: Final = Struct(">QQQQQ")
CHANGE_PLACE: Final = Struct(">QI")
_CHANGE_KEY: Final = Struct(">cQI").pack
NO_QUEUE: Final = -1
HASH_MASK: Final = (1 << 8 * HASH_BYTES) - 1


class Stored(NamedTuple):
    """The head of an entry's row. ``modified`` is a position, times are Unix milliseconds."""

    version: int
    modified: int
    create_time_ms: int
    update_time_ms: int
    expires_ms: int


@final
class ChangeRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A change, without its value: the log has that."""

    kind: int
    key: bytes
    version: int
    step: int = -1
    """The step of the record that has the value; -1 for none."""


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
    """No entry expires before; 0 where none does at all."""
    changes: int = 0
    """Number of rows of changes."""
    changes_from: int = 0
    """Changes before this position are not known any more."""
    lost: bool = False
    """True if the log has lost records that the state needs; only a clear mends that."""
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


_META_ENCODER: Final = msgspec.msgpack.Encoder()
_META: Final = msgspec.msgpack.Decoder(Meta)
_CHANGE: Final = msgspec.msgpack.Decoder(ChangeRow)


def decode_meta(row: bytes | None) -> Meta:
    """Decode a row; the meta of an empty namespace where there is none."""
    return Meta() if row is None else _META.decode(row)


def encode_row(value: Meta) -> bytes:
    """Encode a row."""
    return _META_ENCODER.encode(value)


def encode_change(kind: int, key: bytes, version: int, step: int) -> bytes:
    """Encode a row as if of a ``ChangeRow``, without making one."""
    return _META_ENCODER.encode((kind, key, version, step))


def decode_change(row: bytes) -> ChangeRow:
    """Decode a row of a change."""
    return _CHANGE.decode(row)


def stored(row: bytes) -> Stored:
    """Decode the head of an entry's row."""
    return Stored._make(HEAD.unpack_from(row))


def expiry_key(expires_ms: int, key: bytes) -> bytes:
    """Return the key of an entry's row among those that expire."""
    return EXPIRY + expires_ms.to_bytes(8, "big") + key


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
